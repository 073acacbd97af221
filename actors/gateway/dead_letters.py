"""What an operator does about dead letters: look, hand in again, drop."""

from collections.abc import Awaitable, Callable

from actors.clock import Clock
from actors.console.port import DeadLetterError
from actors.session.directory import Route
from actors.session.live import LiveHub
from messages.dead_letters import DeadLetter
from messages.gateway import Acceptance, MessageReceived, Receipt
from messages.ids import MessageId
from messages.session import DeadLetterSettled
from store import dead_letters
from store.store import Store


class DeadLetterBox:
    """All dead letters of a running house."""

    def __init__(
        self,
        store: Store,
        hub: LiveHub,
        clock: Clock,
        speak: Callable[[MessageReceived], Awaitable[Receipt]],
        tell_sessions: Callable[[Route], None],
    ) -> None:
        self._store = store
        self._hub = hub
        self._clock = clock
        self._speak = speak
        self._tell_sessions = tell_sessions

    async def all(self) -> tuple[DeadLetter, ...]:
        """Return all, the newest first."""
        return await dead_letters.dead_letters(self._store.select)

    async def retry(self, number: int, *, by: str) -> DeadLetter:
        """Hand the message in again, as a new one. Raises DeadLetterError.

        The new id follows from the old one, so that a second try of this after a
        crash in between hands in nothing twice.
        """
        letter = await self._open_letter(number)
        if letter.message is None:
            raise DeadLetterError(f"dead letter {number} holds no message that could be handed in again")
        again = letter.message.model_copy(
            update={
                "message_id": MessageId(f"{letter.message.message_id}~{number}"),
                "sent_at": None,  # whoever hands it in again means it now
                "at": self._clock.now(),
            }
        )
        receipt = await self._speak(again)
        if receipt.acceptance in (Acceptance.REFUSED, Acceptance.OVERHEARD):
            why = (
                receipt.why or "who wrote it may not talk to me there any more, or it is not addressed to me"
            )
            raise DeadLetterError(f"it was not taken: {why}")
        await self._close(letter, "retried", by, again.message_id)
        return await self._letter(number)

    async def drop(self, number: int, *, by: str) -> DeadLetter:
        """Note that nothing more will be done about it. Raises DeadLetterError."""
        await self._close(await self._open_letter(number), "dropped", by, None)
        return await self._letter(number)

    async def _letter(self, number: int) -> DeadLetter:
        found = next((letter for letter in await self.all() if letter.id == number), None)
        if found is None:
            raise DeadLetterError(f"there is no dead letter {number}")
        return found

    async def _open_letter(self, number: int) -> DeadLetter:
        letter = await self._letter(number)
        if letter.state != "open":
            raise DeadLetterError(f"dead letter {number} was {letter.state} already, by {letter.closed_by}")
        return letter

    async def _close(self, letter: DeadLetter, how: str, by: str, retried_as: MessageId | None) -> None:
        mark = MessageId(f"dead-letter-{letter.id}-{how}")
        durable = self._hub.expect(letter.session_key, mark)
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
            self._tell_sessions(Route(letter.session_key, settled))
            await durable
        finally:
            self._hub.give_up(letter.session_key, mark, durable)
