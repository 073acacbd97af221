"""The actor that keeps the search index up with the journal: it looks once a second, and rests in between."""

from collections.abc import Callable

import structlog

from actors.runtime import ActorSystem, Crashed, LoopActor
from messages.base import Message
from store.journal import JournalUnavailableError
from store.search_keeper import HistorySearch, SearchUnavailableError
from store.store import QueryError

log = structlog.get_logger(__name__)

LOOK_EVERY_S = 1.0


class LookAgain(Message):
    """It is time to see what is new."""


class SearchActor(LoopActor):
    """Hears LookAgain from itself. What it keeps, `HistorySearch`, outlives it."""

    def __init__(
        self,
        system: ActorSystem,
        search: HistorySearch,
        *,
        on_crash: Callable[[Crashed], None] | None = None,
    ) -> None:
        super().__init__(system, name="search", on_crash=on_crash)
        self._search = search
        self._trouble = ""

    async def on_actor_start(self) -> None:
        self.after(LOOK_EVERY_S, LookAgain(), name="look")

    async def on_receive(self, message: LookAgain) -> None:
        assert isinstance(message, LookAgain)
        self.background(self._look(), name="look")

    async def _look(self) -> None:
        """Read what is new; what stands in the way now may be gone at the next look."""
        try:
            await self._search.catch_up()
        except (SearchUnavailableError, JournalUnavailableError, QueryError) as error:
            if str(error) != self._trouble:
                log.warning("the search index cannot be kept up", error=str(error))
            self._trouble = str(error)
        else:
            self._trouble = ""
        self.after(LOOK_EVERY_S, LookAgain(), name="look")
