"""What an operator does about dead letters: look, hand in or deliver again, drop.

A message is handed in again, then its session notes the decision: the new message's id
follows from the old one, so that a second try hands in nothing twice. A reply is its
outbox's: the decision and what is owed anew are one append there, so that no crash can
come between them.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import count
from typing import Final

from actors.clock import Clock
from actors.console.port import DeadLetterError
from actors.gateway.targets import outbox_stream
from actors.redaction import Clean
from actors.runtime import ActorDeadError, MailboxFullError
from actors.session.directory import Route
from actors.session.live import LiveHub
from messages.dead_letters import DeadLetter
from messages.delivery import DeliveryLetterClosed, DeliveryTaken, LetterDecided, LetterSettled
from messages.gateway import Acceptance, MessageReceived, Receipt
from messages.ids import DeliveryId, MessageId
from messages.session import DeadLetterSettled
from store import dead_letters
from store.journal import Journal
from store.readers import SelectRows

PATIENCE_S: Final = 30.0
"""How long an outbox may take to note a decision: it does at once, unless it or the store is in trouble."""

_OUTBOX_STAND: Final = "SELECT seq, owing FROM facts WHERE stream = ? ORDER BY id DESC LIMIT 1"


@dataclass(frozen=True, slots=True)
class LetterLinks:
    """Whom the dead letters' decisions reach."""

    journal: Journal
    select: SelectRows
    hub: LiveHub
    speak: Callable[[MessageReceived], Awaitable[Receipt]]
    tell_sessions: Callable[[Route], None]
    tell_outbox: Callable[[str, LetterDecided], None]
    """(account, decision)"""
    why_not_served: Callable[[str], str]
    """Why nothing can be posted on an account; empty when it has an outbox."""
    on_closed: Callable[[], None]
    """Told of each reply's letter that was closed without an outbox; the outboxes tell of the others."""
    clean: Clean
    """Masks secrets."""


class DeadLetterBox:
    """All dead letters of a running house."""

    def __init__(self, clock: Clock, links: LetterLinks) -> None:
        self._clock = clock
        self._links = links
        self._deciding: set[int] = set()
        """Letters whose decision is on its way: a second one would not know of it."""
        self._tokens = count(1)
        self._waiting: dict[int, asyncio.Future[bool]] = {}

    async def all(self) -> tuple[DeadLetter, ...]:
        """Return all, the newest first."""
        return tuple(map(self._shown, await dead_letters.dead_letters(self._links.select)))

    async def retry(self, number: int, *, by: str) -> DeadLetter:
        """Hand the message in again as a new one, or deliver what is missing of the reply. Raises DeadLetterError."""
        with self._alone(number):
            letter = await self._open_letter(number)
            if letter.obstacle:
                raise DeadLetterError(f"dead letter {number} cannot be retried: {letter.obstacle}")
            if letter.kind == "reply":
                again = await dead_letters.owed_again(self._links.select, letter)
                if again is None:  # deleted a moment ago
                    raise DeadLetterError(f"dead letter {number} cannot be retried: {dead_letters.ERASED}")
                await self._settle(letter, by, again)
            else:
                await self._hand_in(letter, by)
            return await self._letter(number)

    async def drop(self, number: int, *, by: str) -> DeadLetter:
        """Note that nothing more will be done about it. Raises DeadLetterError."""
        with self._alone(number):
            letter = await self._open_letter(number)
            if letter.kind == "message":
                await self._close(letter, "dropped", by, None)
            elif self._links.why_not_served(dead_letters.account_of(letter)):
                await self._drop_unserved(letter, by)
            else:
                await self._settle(letter, by, None)
            return await self._letter(number)

    def settled(self, settled: LetterSettled) -> None:
        """Take an outbox's word that a decision is durable, or that there had been one."""
        waiting = self._waiting.get(settled.token)
        if waiting is not None and not waiting.done():
            waiting.set_result(settled.written)

    @contextmanager
    def _alone(self, number: int) -> Iterator[None]:
        if number in self._deciding:
            raise DeadLetterError(f"dead letter {number} is being decided about at this moment")
        self._deciding.add(number)
        try:
            yield
        finally:
            self._deciding.discard(number)

    # ------------------------------------------------------------------ looking

    def _shown(self, letter: DeadLetter) -> DeadLetter:
        """Mask secrets, and say what stands in the way of a retry."""
        letter = dead_letters.masked(letter, self._links.clean)
        if letter.kind == "message" or letter.obstacle:
            return letter
        absent = self._links.why_not_served(dead_letters.account_of(letter))
        return letter.model_copy(update={"obstacle": absent})

    async def _letter(self, number: int) -> DeadLetter:
        found = await dead_letters.dead_letters(self._links.select, number)
        if not found:
            raise DeadLetterError(f"there is no dead letter {number}")
        return self._shown(found[0])

    async def _open_letter(self, number: int) -> DeadLetter:
        letter = await self._letter(number)
        if letter.state != "open":
            raise DeadLetterError(f"dead letter {number} was {letter.state} already, by {letter.closed_by}")
        return letter

    # ------------------------------------------------------------------ messages

    async def _hand_in(self, letter: DeadLetter, by: str) -> None:
        assert letter.message is not None, "it has no obstacle"
        again = letter.message.model_copy(
            update={
                "message_id": MessageId(f"{letter.message.message_id}~{letter.id}"),
                "sent_at": None,  # whoever hands it in again means it now
                "at": self._clock.now(),
            }
        )
        receipt = await self._links.speak(again)
        if receipt.acceptance in (Acceptance.REFUSED, Acceptance.OVERHEARD):
            why = (
                receipt.why or "who wrote it may not talk to me there any more, or it is not addressed to me"
            )
            raise DeadLetterError(f"it was not taken: {why}")
        await self._close(letter, "retried", by, again.message_id)

    async def _close(self, letter: DeadLetter, how: str, by: str, retried_as: MessageId | None) -> None:
        mark = MessageId(f"dead-letter-{letter.id}-{how}")
        durable = self._links.hub.expect(letter.session_key, mark)
        settled = DeadLetterSettled.model_validate(
            {
                "letter": letter.seq,
                "how": how,
                "retried_as": retried_as,
                "by": by,
                "acknowledge": mark,
                "at": self._clock.now(),
            }
        )
        try:
            self._links.tell_sessions(Route(letter.session_key, settled))
            await durable
        finally:
            self._links.hub.give_up(letter.session_key, mark, durable)

    # ------------------------------------------------------------------ replies

    async def _settle(self, letter: DeadLetter, by: str, again: DeliveryTaken | None) -> None:
        """Tell the outbox what was decided, and wait until it is durable."""
        account, token = dead_letters.account_of(letter), next(self._tokens)
        waiting: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        self._waiting[token] = waiting
        decided = LetterDecided(
            token=token,
            letter=letter.seq,
            delivery_id=_delivery(letter),
            again=again,
            by=by,
            at=self._clock.now(),
        )
        alarm = self._clock.call_later(PATIENCE_S, lambda: _too_late(waiting))
        try:
            self._links.tell_outbox(account, decided)
            written = await waiting
        except (ActorDeadError, MailboxFullError):
            raise DeadLetterError(
                f"the outbox of {account} takes nothing now: try again in a moment"
            ) from None
        except TimeoutError:
            if (await self._letter(letter.id)).state == ("dropped" if again is None else "retried"):
                return  # it was written, and the outbox ended before it could say so
            raise DeadLetterError(
                f"the outbox of {account} did not note it within {PATIENCE_S:.0f} s, and may still do so: "
                f"look at dead letter {letter.id} again before you decide anew"
            ) from None
        finally:
            alarm.cancel()
            del self._waiting[token]
        if not written:  # a decision that had come too late for whoever made it
            raise DeadLetterError(f"dead letter {letter.id} was decided about a moment ago: look at it again")

    async def _drop_unserved(self, letter: DeadLetter, by: str) -> None:
        """Nobody owns the stream of an account that is not served: we may write there."""
        stream = outbox_stream(dead_letters.account_of(letter))
        ((seq, owing),) = (await self._links.select(_OUTBOX_STAND, (stream,))).rows
        closed = DeliveryLetterClosed(
            letter=letter.seq, delivery_id=_delivery(letter), how="dropped", by=by, at=self._clock.now()
        )
        await self._links.journal.append(stream, int(str(seq)), (closed,), owing=bool(owing))
        self._links.on_closed()


def _too_late(waiting: "asyncio.Future[bool]") -> None:
    if not waiting.done():
        waiting.set_exception(TimeoutError())


def _delivery(letter: DeadLetter) -> DeliveryId:
    assert letter.delivery_id is not None, "a letter of a reply"
    return letter.delivery_id
