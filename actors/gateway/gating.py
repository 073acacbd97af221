"""The door: whether a message is for us, and whether its author may say it to us. No clock, no I/O.

In this order; the first that applies decides.

    a message                                        is
    -----------------------------------------------  --------------------------------------
    of a surface of ours (web, terminal, API)        let in; whoever uses it is the owner
    `/claim CODE` in a direct message                tried, whoever says it
    of a stranger                                    in a direct message offered a pairing,
                                                     elsewhere left alone
    of a program                                     left alone, unless it may and is
                                                     addressed; its commands always are
    a command to somebody else (`/x@other`)          left alone
    not addressed to us, and not said in a thread    overheard: kept as context
    that we take part in (see `following`)
    taken before                                     let in, to be recognised by its id
    a command that waited for a minute               left alone: nobody means it any more
    older than the settings allow                    answered with one notice a chat
    a command above its author's role                refused
    one more than a person or a chat may say         refused once a minute, else left alone
    one more answer to programs among themselves     left alone
    anything else                                    let in, with what was overheard before

`/stop` is never limited. What a button or a native command says is addressed to us, and
has waited for too long after a quarter of an hour.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import timedelta
from typing import Final

import structlog

from actors.gateway.access import RANK, AccessLedger, AccountBook, Standing
from actors.gateway.commands import BY_NAME, Parsed, parse
from actors.gateway.following import Following, is_for_somebody
from actors.gateway.limits import Buckets, Counts, Latest, OnceInAWhile
from actors.gateway.overheard import Ears
from actors.gateway.session_key import key_for
from messages.gateway import ChatType, MessageDeleted, MessageEdited, MessageReceived, Origin, Quote, Role
from messages.ids import MessageId, SessionKey

log = structlog.get_logger(__name__)

STALE: Final = timedelta(seconds=60)
"""A written command that waited for longer is not carried out."""

STALE_PRESS: Final = timedelta(minutes=15)
"""The same for buttons and native commands: the platform itself has shown that they are under way."""

REFUSAL_EVERY_S: Final = 60.0
AWAY_EVERY_S: Final = 600.0

CLAIM: Final = "claim"

SAID_TO_THE_MODEL: Final = ("queue", "steer", "background")
"""Commands whose argument is a message."""

NOT_IN_A_DM: Final = ("access", "sethome", "platforms")
"""What they change is not one's own conversation: there, a person's true role counts in direct messages too."""


@dataclass(frozen=True, slots=True)
class LetIn:
    """It goes on, with its author's role."""

    heard: MessageReceived


@dataclass(frozen=True, slots=True)
class LeftAlone:
    """Nobody is told anything; `why` is for the metrics and the log."""

    why: str


@dataclass(frozen=True, slots=True)
class Refused:
    """Not taken; the person is told `text`."""

    why: str
    text: str


@dataclass(frozen=True, slots=True)
class Stranger:
    """Somebody unknown wrote a direct message: offer a pairing."""


@dataclass(frozen=True, slots=True)
class Claims:
    """Somebody says that they are the owner."""

    heard: MessageReceived
    code: str
    known: bool


Verdict = LetIn | LeftAlone | Refused | Stranger | Claims

Chat = tuple[str, str]
"""Account and chat, by its first id; its threads are part of it."""


class Gate:
    """Decides about each message, one after the other. What it remembers is bounded, and may be forgotten."""

    def __init__(
        self,
        ledger: AccessLedger,
        surfaces: frozenset[str],
        count: Callable[[str, str], None] = lambda _platform, _what: None,
        *,
        rooms: frozenset[str] = frozenset(),
    ) -> None:
        """`surfaces` are the platforms that are our own; `count` is told of each message that is not let in.

        In the threads of the accounts `rooms`, nobody goes on without addressing us.
        """
        self._ledger = ledger
        self._surfaces = surfaces
        self._count = count
        self._ears = Ears()
        self._following = Following(ledger, rooms)
        self._users: Buckets[tuple[str, str]] = Buckets()
        self._chats: Buckets[Chat] = Buckets()
        self._refusals: OnceInAWhile[tuple[str, ...]] = OnceInAWhile()
        self._away: OnceInAWhile[Chat] = OnceInAWhile()
        self._bot_turns: Counts[Chat] = Counts()
        self._taken: Latest[tuple[Chat, MessageId], SessionKey] = Latest()
        """Whose conversation each of the latest messages went to."""
        self._begun: Latest[tuple[tuple[str, str, str], SessionKey], bool] = Latest()
        """The conversations in threads, and whether they were told how the thread began."""

    @property
    def ears(self) -> Ears:
        return self._ears

    @property
    def following(self) -> Following:
        return self._following

    def remember(self, taken: Iterable[tuple[Origin, MessageId, SessionKey]]) -> None:
        """Take note of what was taken in earlier lives, the oldest first: its place, its id, its conversation.

        What comes again after a start is recognised, however old it is by then, and what
        is taken back is found.
        """
        for origin, message_id, key in taken:
            account = self._ledger.book.account_of(origin)
            if account is not None:
                self._taken.put((chat_of(account, origin), message_id), key)

    def guards(self, origin: Origin) -> bool:
        """Whether there are access rules where something was said."""
        return not self._is_ours(origin)

    def _is_ours(self, origin: Origin) -> bool:
        """Whether a surface of ours heard it; an account of the settings is none, whatever its name."""
        return origin.platform in self._surfaces and self._ledger.book.account_of(origin) is None

    def standing(self, origin: Origin, user: str) -> Standing:
        """Say what somebody is to us in a place."""
        if self._is_ours(origin):
            return Standing(Role.OWNER, "listed")
        account = self._ledger.book.account_of(origin)
        return Standing(None, "stranger") if account is None else account.standing(user, origin)

    def consider(self, heard: MessageReceived, key: SessionKey) -> Verdict:
        """Decide about a message whose conversation has this key."""
        if self._is_ours(heard.origin):
            return LetIn(_with_role(heard, Role.OWNER))
        account = self._ledger.book.account_of(heard.origin)
        verdict = LeftAlone("unknown_account") if account is None else self._judge(account, heard, key)
        if isinstance(verdict, LeftAlone | Refused):
            self._count(heard.origin.platform, verdict.why)
        elif isinstance(verdict, Stranger):
            self._count(heard.origin.platform, "stranger")
        return verdict

    def _judge(self, account: AccountBook, heard: MessageReceived, key: SessionKey) -> Verdict:
        origin, standing = heard.origin, account.standing(heard.author.id, heard.origin)
        command, dm = parse(heard.text), origin.chat_type is ChatType.DM
        chat = chat_of(account, origin)
        if command is not None and command.name == CLAIM and standing.why != "blocked":
            return _claimed(heard, command, standing)
        if standing.role is None:
            pairs = dm and account.settings.unknown_dm == "pair" and standing.why != "blocked"
            return Stranger() if pairs and not heard.author.bot else LeftAlone(standing.why)
        heard = _with_role(heard, standing.role)
        if heard.author.bot and (command is not None or account.settings.bots == "ignore"):
            if command is None and not dm:
                self._ears.hear(_ring_of(chat, heard), heard, account.settings.overheard)
            return LeftAlone("program")
        if not heard.author.bot:
            self._bot_turns.reset(chat)
        if not dm and _is_for_another(heard, command):
            return LeftAlone("for_another")
        addressed = dm or _is_addressed(account, heard, command)
        if not addressed and (command is not None or not self._following.goes_on(account, heard)):
            self._ears.hear(_ring_of(chat, heard), heard, account.settings.overheard)
            return LeftAlone("not_addressed")
        taken = (chat, heard.message_id)
        if self._taken.get(taken) == key:
            return LetIn(heard)  # the session knows it
        verdict = self._held_back(account, heard, command, chat)
        if verdict is not None:
            return verdict
        self._taken.put(taken, key)
        if dm or (command is not None and command.name not in SAID_TO_THE_MODEL):
            return LetIn(heard)
        if addressed and (heard.mentions_us or heard.quote is not None):
            self._following.note(origin, min(heard.sent_at or heard.at, heard.at))
        return LetIn(self._with_context(heard, chat, key))

    def _held_back(
        self, account: AccountBook, heard: MessageReceived, command: Parsed | None, chat: Chat
    ) -> Verdict | None:
        """Why somebody who may speak, and speaks to us, is not let in all the same; None: they are."""
        return (
            self._too_late(account, heard, command, chat)
            or _not_theirs(account, heard, command)
            or self._too_much(account, heard, command, chat)
        )

    # ------------------------------------------------------------------ too late

    def _too_late(
        self, account: AccountBook, heard: MessageReceived, command: Parsed | None, chat: Chat
    ) -> Verdict | None:
        age = heard.at - (heard.sent_at or heard.at)
        pressed = heard.via != "message"
        order = command is not None and not (command.name in SAID_TO_THE_MODEL and command.argument)
        if age > (STALE_PRESS if pressed else STALE) and (order or pressed):
            log.warning(
                "a command that is too old is not carried out",
                account=account.name,
                chat=heard.origin.chat,
                command=command.name if command else "",
                age_s=round(age.total_seconds()),
            )
            return LeftAlone("stale_command")
        if account.max_age_s is None or age.total_seconds() <= account.max_age_s or pressed:
            return None
        log.warning(
            "a message that is too old is not answered",
            account=account.name,
            chat=heard.origin.chat,
            id=heard.message_id,
            age_s=round(age.total_seconds()),
        )
        if not heard.author.bot and self._away.due(chat, max(AWAY_EVERY_S, account.max_age_s), heard.at):
            return Refused("away", AWAY)
        return LeftAlone("away")

    # ------------------------------------------------------------------ too much

    def _too_much(
        self, account: AccountBook, heard: MessageReceived, command: Parsed | None, chat: Chat
    ) -> Verdict | None:
        if heard.author.bot:
            if self._bot_turns.up(chat) > account.settings.bot_turns:
                log.info("programs talk among themselves; they get no answer", account=account.name)
                return LeftAlone("bot_loop")
        elif command is not None and command.name == "stop":
            return None
        said_at = min(heard.sent_at or heard.at, heard.at)
        user = (account.name, heard.author.id)
        per_user, per_chat = account.settings.user_per_minute, account.settings.chat_per_minute
        if not self._users.take(user, per_user, said_at):
            return self._limited(("user", *user), TOO_MUCH_OF_YOU, heard)
        if not self._chats.take(chat, per_chat, said_at):
            self._users.give_back(user)
            return self._limited(("chat", *chat), TOO_MUCH_HERE, heard)
        return None

    def _limited(self, whom: tuple[str, ...], text: str, heard: MessageReceived) -> Verdict:
        aloud = self._refusals.due(whom, REFUSAL_EVERY_S, heard.at) and not heard.author.bot
        say = log.info if aloud else log.debug
        say("more than is taken", platform=heard.origin.platform, of=":".join(whom), id=heard.message_id)
        return Refused("limited", text) if aloud else LeftAlone("limited")

    # ------------------------------------------------------------------ context

    def _with_context(self, heard: MessageReceived, chat: Chat, key: SessionKey) -> MessageReceived:
        """Give a message what was said before it: in its thread, or in the chat where it begins one.

        A thread that begins under a message of the chat is given that message.
        """
        ring = _ring_of(chat, heard)
        lines = self._ears.give(ring, key)
        if ring[2]:
            told = self._begun.get((ring, key))
            first = self._ears.line((*chat, ""), MessageId(ring[2])) if told is None else None
            lines = (first, *lines) if first is not None else lines
            root = _root_of(heard)
            if told and root is not None:  # it was told with the first message of the conversation
                heard = heard.model_copy(update={"quote": root.model_copy(update={"text": ""})})
            self._begun.put((ring, key), bool(told or first is not None or root is not None))
        known = {heard.message_id, heard.quote.message_id if heard.quote is not None else None}
        lines = tuple(line for line in lines if line.message_id not in known)
        return heard.model_copy(update={"overheard": lines}) if lines else heard

    def whose(self, change: MessageEdited | MessageDeleted) -> SessionKey | None:
        """Say which conversation must know that somebody changed or took back what they had said, if any must.

        A line that was only overheard is changed here.
        """
        account = self._ledger.book.account_of(change.origin)
        if account is None:
            return None
        chat, origin = chat_of(account, change.origin), change.origin
        taken = self._taken.get((chat, change.message_id))
        rings = {(*chat, ""), (*chat, origin.thread or "")}
        if isinstance(change, MessageEdited):
            overheard = any(self._ears.change(ring, change.message_id, change.text) for ring in rings)
            if account.standing(change.author.id, origin).role is None:
                return None
        else:
            overheard = any(self._ears.forget(ring, change.message_id) for ring in rings)
        if taken is not None or overheard:
            return taken
        nobody = origin.chat_type is not ChatType.DM and not origin.user and not account.shares(origin)
        return None if nobody else key_for(origin, self._ledger.book)


def chat_of(account: AccountBook, origin: Origin) -> Chat:
    """Return the chat in which something was said, by its first id; of a direct message without one, its person."""
    return (account.name, account.first_id(origin.chat) if origin.chat else f"@{origin.user or ''}")


def _ring_of(chat: Chat, heard: MessageReceived) -> tuple[str, str, str]:
    """Return among which lines a message was said: those of its thread, unless it begins the thread itself."""
    origin = heard.origin
    in_thread = origin.chat_type is ChatType.THREAD and origin.thread and origin.thread != heard.message_id
    return (*chat, (origin.thread or "") if in_thread else "")


def _root_of(heard: MessageReceived) -> Quote | None:
    """Return what a message's thread began under, if the message tells it."""
    quote = heard.quote
    return quote if quote is not None and quote.text and quote.message_id == heard.origin.thread else None


def _with_role(heard: MessageReceived, role: Role) -> MessageReceived:
    if heard.author.role is role:
        return heard
    return heard.model_copy(update={"author": heard.author.model_copy(update={"role": role})})


def _claimed(heard: MessageReceived, command: Parsed, standing: Standing) -> Verdict:
    known = standing.role is not None
    if heard.author.bot:
        return LeftAlone("program")
    if heard.origin.chat_type is not ChatType.DM:
        return Refused("role", NOT_HERE) if known else LeftAlone("stranger")
    return Claims(_with_role(heard, standing.role) if standing.role else heard, command.argument, known)


def _is_for_another(heard: MessageReceived, command: Parsed | None) -> bool:
    """`/stop@other_bot`: in a group, every program hears it."""
    if command is None or heard.via != "message" or heard.mentions_us:
        return False
    return "@" in heard.text.split(maxsplit=1)[0]


def _is_addressed(account: AccountBook, heard: MessageReceived, command: Parsed | None) -> bool:
    if heard.via != "message" or heard.mentions_us or _replies_to_us(heard):
        return True
    if heard.author.bot:
        return False  # also where everything is answered: two programs there would never end
    if account.answers_everything(heard.origin):
        return True
    return command is not None and command.name in BY_NAME and not account.is_quiet(heard.origin)


def _replies_to_us(heard: MessageReceived) -> bool:
    """In a thread under a message of ours all replies are ours, but what begins with somebody else's name."""
    quote, origin = heard.quote, heard.origin
    if quote is None or not quote.ours:
        return False
    of_the_root = origin.chat_type is ChatType.THREAD and quote.message_id == origin.thread
    return not (of_the_root and is_for_somebody(heard))


def _not_theirs(account: AccountBook, heard: MessageReceived, command: Parsed | None) -> Refused | None:
    if command is None:
        return None
    known = BY_NAME.get(command.name)
    needed = account.needed_role(command.name, known.role if known else Role.USER)
    role = heard.author.role
    if heard.origin.chat_type is ChatType.DM and command.name not in NOT_IN_A_DM:
        role = max(role, Role.ADMIN, key=RANK.__getitem__)  # of their own conversation
    if RANK[role] >= RANK[needed]:
        return None
    who = {Role.ADMIN: "an admin", Role.OWNER: "the owner"}[needed]
    return Refused("role", f"`/{command.name}` is for {who}. `/whoami` says who you are to me.")


AWAY: Final = "I was away when you wrote, and that is too long ago for an answer now. If it still matters, please say it again."
NOT_HERE: Final = "A code is for nobody else's eyes: say it to me in a direct message, and better a new one."
TOO_MUCH_OF_YOU: Final = "That was more than I can take from one person at once. Please wait a minute."
TOO_MUCH_HERE: Final = "That was more than I can take in one chat at once. Please wait a minute."
