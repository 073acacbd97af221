"""The access room: the only one that changes who may talk to us. Written down before it takes effect.

What it hears comes from three sides: the front desk (`/access`, `/sethome`, `/claim`,
strangers), the edges (a chat has another id), and the console (`callboard access`).
"""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final, assert_never

import pykka
import structlog

from actors.gateway import access_rules as rules
from actors.gateway import access_words as words
from actors.gateway import pairing
from actors.gateway.access import RANK, AccessBook, AccessLedger
from actors.gateway.access_facts import fold
from actors.gateway.limits import Buckets
from actors.gateway.targets import account_name
from actors.runtime import ActorSystem, Crashed, LoopActor
from actors.session.directory import Route
from messages import access as a
from messages.base import Message
from messages.gateway import Acceptance, ChatMoved, MessageReceived, Origin, Receipt, Role
from messages.ids import MessageId, SessionKey
from messages.session import CommandGiven
from store.journal import Journal, JournalUnavailableError

log = structlog.get_logger(__name__)

HOUR_S: Final = 3600.0
GUESSES: Final = 5
"""Codes that one person may try in an hour."""

GUESSES_IN_ALL: Final = 60
"""The same for all people on one account."""

AWAY: Final = "This could not be stored, so nothing has changed. Please try again in a moment."

BAD_CODE: Final = "This code is not good, or not any more. `callboard access claim` makes a new one."

OFFER: Final = (
    "I do not know you yet. Give this code to whoever runs me:\n\n`{code}`\n\n"
    "They let you in with `callboard access approve {code}`, or with `/access approve {code}` in a chat with me. "
    "It is good for an hour. Your id is {user}."
)

OWNER: Final = (
    "You are my owner on {account} now: you may do everything. `/access` says who else may talk to me, "
    "and lets others in."
)


@dataclass(frozen=True, slots=True)
class AccessLinks:
    """Whom the access room knows."""

    journal: Journal
    tell_sessions: Callable[[Route], None]
    answer: Callable[[Receipt], None]
    """Tells the door what became of a message that no session has heard of."""
    claims: pairing.ClaimFile


class AccessActor(LoopActor):
    """Hears WishSpoken, StrangerKnocked, ClaimTried, ChatMoved; is asked with AccessAsked and ChatMoved."""

    def __init__(
        self,
        system: ActorSystem,
        base: AccessBook,
        ledger: AccessLedger,
        links: AccessLinks,
        *,
        on_crash: Callable[[Crashed], None] | None = None,
    ) -> None:
        """`base` is what the settings say; the ledger's book is what holds, and is changed here alone."""
        super().__init__(system, name="access", on_crash=on_crash)
        self._base = base
        self._ledger = ledger
        self._links = links
        self._length = 0
        self._guesses: Buckets[tuple[str, str]] = Buckets()

    async def on_actor_start(self) -> None:
        """Read what operators have changed, and the codes that were made while nothing ran."""
        recorded = await self._links.journal.read(a.ACCESS)
        self._length = recorded[-1].seq if recorded else 0
        self._ledger.book = fold(self._base, (r.fact for r in recorded))
        await self._take_claims()

    async def on_receive(self, message: Any) -> a.AccessAnswered | None:
        match message:
            case a.AccessAsked():
                return await self._asked(message)
            case a.WishSpoken():
                await self._spoken(message)
            case a.StrangerKnocked():
                await self._knocked(message)
            case a.ClaimTried():
                await self._claim_tried(message)
            case ChatMoved():
                await self._moved(message)
            case _:
                assert_never(message)
        return None

    async def _record(self, facts: Sequence[Message]) -> None:
        """Make facts durable, and only then true."""
        if facts:
            # A stale writer's append raises: this incarnation ends, the next reads what is true.
            recorded = await self._links.journal.append(a.ACCESS, self._length, facts)
            self._length += len(recorded)
            self._ledger.book = fold(self._ledger.book, facts)
            for fact in facts:
                log.info(
                    "access changed", **fact.model_dump(mode="json", exclude={"salt", "digest", "v", "at"})
                )

    # ------------------------------------------------------------------ operators

    async def _asked(self, asked: a.AccessAsked) -> a.AccessAnswered:
        """Somebody at the console: may do everything."""
        wish, now = asked.wish, self.clock.now()
        if isinstance(wish, a.MakeClaim):
            made = await asyncio.to_thread(pairing.make_claim, wish.account, asked.by, now)
            outcome = rules.claimed(self._ledger.book, made, wish.account)
        else:
            outcome = await self._granted(wish, rules.Asker(asked.by))
        try:
            await self._record(outcome.facts)
        except JournalUnavailableError:
            return a.AccessAnswered(done=False, text=AWAY)
        return outcome.answer

    async def _spoken(self, spoken: a.WishSpoken) -> None:
        """Somebody in a chat: as their role lets them."""
        heard = spoken.heard
        account = words.account_of(heard.origin)
        text = spoken.problem
        if spoken.wish is not None:
            # The gate knows which role the command needs here; whoever it let in may use it.
            role = max(heard.author.role, Role.ADMIN, key=RANK.__getitem__)
            asker = rules.Asker(f"{account} user {heard.author.id}", role)
            outcome = await self._granted(spoken.wish, asker)
            if not await self._recorded(spoken.key, heard, outcome.facts):
                return
            text = outcome.answer.text
        self._say(spoken.key, spoken.name, spoken.argument, heard, text)

    async def _granted(self, wish: a.AnyWish, asker: rules.Asker) -> rules.Outcome:
        found = None
        now = self.clock.now()
        if isinstance(wish, a.ApprovePairing):
            offers = rules.open_offers(self._ledger.book, wish.account, now)
            found = await self._whose(wish.code, offers)
        return rules.grant(self._ledger.book, wish, asker, now, found)

    # ------------------------------------------------------------------ strangers

    async def _knocked(self, knocked: a.StrangerKnocked) -> None:
        heard, now = knocked.heard, self.clock.now()
        account = self._ledger.book.account_of(heard.origin)
        if account is None or not rules.may_be_offered(account, heard.author.id, now):
            self._leave_alone(knocked.key, heard)
            return
        code, salt = pairing.new_code(), pairing.new_salt()
        digest = await asyncio.to_thread(pairing.digest, code, salt)
        fact = rules.offer(account, heard, salt, digest, now)
        if await self._recorded(knocked.key, heard, (fact,)):
            text = OFFER.format(code=code, user=words.code_span(heard.author.id))
            self._turn_away(knocked.key, heard, text)

    async def _claim_tried(self, tried: a.ClaimTried) -> None:
        heard, now = tried.heard, self.clock.now()
        account, user = words.account_of(heard.origin), heard.author.id
        claim = None
        if user and self._may_guess(account, user):
            await self._take_claims()
            open_ = rules.open_claims(self._ledger.book, account, now)
            claim = await self._whose(tried.code, open_)
        if claim is None:
            log.warning("a code for the owner was wrong", account=account, user=user)
            book = self._ledger.book.account_of(heard.origin)
            if tried.known or (book is not None and book.settings.unknown_dm == "pair"):
                self._turn_away(tried.key, heard, BAD_CODE)
            else:
                self._leave_alone(tried.key, heard)
            return
        if await self._recorded(tried.key, heard, rules.taken(claim, account, user, now)):
            self._say(tried.key, "claim", "", _without_code(heard), OWNER.format(account=account))

    def _may_guess(self, account: str, user: str) -> bool:
        now = self.clock.now()
        if not self._guesses.take((account, user), GUESSES, now, every_s=HOUR_S):
            return False
        return self._guesses.take((account, ""), GUESSES_IN_ALL, now, every_s=HOUR_S)

    async def _whose(self, code: str, kept: Sequence[Any]) -> Any:
        """Return the offer or the claim that a code is for. The digests are slow on purpose: not on the loop."""
        if not pairing.normal(code):
            return None
        return await asyncio.to_thread(_matching, code, tuple(kept))

    async def _take_claims(self) -> None:
        """Take over the codes for the owner that were made while nothing ran, or beside us."""
        known = {claim.salt for claim in self._ledger.book.claims}
        found = [claim for claim in self._links.claims.take() if claim.salt not in known]
        try:
            await self._record(found)
        except JournalUnavailableError:
            log.warning("codes for the owner wait for the journal")
        else:
            self._links.claims.taken()

    # ------------------------------------------------------------------ chats that move

    async def _moved(self, moved: ChatMoved) -> None:
        name = account_name(moved.platform, moved.account)
        account = self._ledger.book.accounts.get(name)
        if account is None or moved.old == moved.new or account.newest_id(moved.old) == moved.new:
            return
        fact = a.ChatIdChanged(account=name, old=moved.old, new=moved.new, by="the platform", at=moved.at)
        await self._record((fact,))

    # ------------------------------------------------------------------ the door

    async def _recorded(self, key: SessionKey, heard: MessageReceived, facts: Sequence[Message]) -> bool:
        try:
            await self._record(facts)
        except JournalUnavailableError:
            self._turn_away(key, heard, AWAY)
            return False
        return True

    def _say(self, key: SessionKey, name: str, argument: str, heard: MessageReceived, text: str) -> None:
        """The session takes the command, and answers with what came of it."""
        given = CommandGiven(name=name, argument=argument, heard=heard, info=text)
        self._links.tell_sessions(Route(key, given))

    def _turn_away(self, key: SessionKey, heard: MessageReceived, why: str) -> None:
        self._answer(key, heard.message_id, Acceptance.REFUSED, why)

    def _leave_alone(self, key: SessionKey, heard: MessageReceived) -> None:
        self._answer(key, heard.message_id, Acceptance.OVERHEARD)

    def _answer(self, key: SessionKey, message_id: MessageId, acceptance: Acceptance, why: str = "") -> None:
        self._links.answer(Receipt(message_id=message_id, session_key=key, acceptance=acceptance, why=why))


class AccessRoom:
    """What holds about access in a house, from before anybody is heard, and how its actor is started."""

    def __init__(
        self, journal: Journal, base: AccessBook, ledger: AccessLedger, claims: pairing.ClaimFile
    ) -> None:
        self.ledger = ledger
        self._journal = journal
        self._base = base
        self._claims = claims

    @classmethod
    async def open(cls, journal: Journal, base: AccessBook, claims: pairing.ClaimFile) -> "AccessRoom":
        """Read what operators have changed about what the settings say (`base`)."""
        recorded = await journal.read(a.ACCESS)
        ledger = AccessLedger(fold(base, (r.fact for r in recorded)))
        for name in sorted(ledger.book.served):
            if not ledger.book.accounts[name].lets_anybody_in:
                remedy = f"callboard access claim {name}"
                log.warning("nobody may talk to me on a platform yet", platform=name, remedy=remedy)
        return cls(journal, base, ledger, claims)

    def start(
        self,
        system: ActorSystem,
        tell_sessions: Callable[[Route], None],
        answer: Callable[[Receipt], None],
    ) -> "pykka.ActorRef[AccessActor]":
        """Start the one that changes it."""
        links = AccessLinks(self._journal, tell_sessions, answer, self._claims)
        return AccessActor.start(system, self._base, self.ledger, links)

    def posted_to(self, origin: Origin) -> Origin:
        """Return a place with the id that its chat has on the platform now."""
        return self.ledger.book.posted_to(origin)


def _matching(code: str, kept: tuple[Any, ...]) -> Any:
    return next((each for each in kept if pairing.matches(code, each.salt, each.digest)), None)


def _without_code(heard: MessageReceived) -> MessageReceived:
    """A code that was used is nobody's business, not even the history's."""
    return heard.model_copy(update={"text": "/claim"})
