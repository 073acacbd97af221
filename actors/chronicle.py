"""The process's own diary: its lives and its incidents, in the journal's stream `system`."""

from collections.abc import Callable
from typing import Any

import structlog

from actors.runtime import ActorSystem, Crashed, LoopActor
from messages.base import Message
from messages.ids import StreamId
from messages.system import IncidentHappened, ProcessStarted, ProcessStopped
from store.journal import Journal, JournalUnavailableError, Recorded

log = structlog.get_logger(__name__)

STREAM = StreamId("system")

AGAIN_S = 1.0


class Chronicle(LoopActor):
    """Hears system facts and appends them."""

    def __init__(
        self, system: ActorSystem, journal: Journal, *, on_crash: Callable[[Crashed], None] | None = None
    ) -> None:
        super().__init__(system, name="chronicle", on_crash=on_crash)
        self._journal = journal
        self._length = 0

    async def on_actor_start(self) -> None:
        self._length = len(await self._journal.read(STREAM))

    async def on_receive(self, message: Any) -> None:
        assert isinstance(message, ProcessStarted | ProcessStopped | IncidentHappened)
        if isinstance(message, IncidentHappened):
            log.warning("incident", child=message.child, what=message.what, detail=message.detail)
        recorded = await self._append(message)
        self._length += len(recorded)

    async def _append(self, fact: Message) -> tuple[Recorded, ...]:
        """Append; while the journal is away, which is itself something to note, try again until it is back."""
        while True:
            try:
                return await self._journal.append(STREAM, self._length, (fact,))
            except JournalUnavailableError as error:
                log.debug("the diary waits for the journal", error=str(error))
                await self.clock.sleep(AGAIN_S)
