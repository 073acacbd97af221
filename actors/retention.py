"""The actor that forgets: it looks now and then, in a quiet moment, what the operator's rules let it delete.

Without rules it deletes nothing but what an earlier life had begun to delete.
"""

from collections.abc import Callable
from datetime import datetime, timedelta
from pathlib import Path
from typing import Final

import structlog

from actors.gateway.erasure import Eraser, UnknownSessionError
from actors.runtime import ActorSystem, Crashed, LoopActor
from messages.base import Message
from messages.ids import SessionKey
from messages.settings import RetentionSettings
from store.journal import JournalUnavailableError
from store.retention import IDLE_SINCE
from store.store import QueryError, Store

log = structlog.get_logger(__name__)

FIRST_LOOK_S: Final = 60.0
LOOK_EVERY_S: Final = 3600.0
BUSY_WAIT_S: Final = 10.0
"""How long it waits for a quiet moment before it looks for one again."""

_AT_ONCE: Final = 20
"""Sessions deleted before it looks again whether it is quiet."""


class LookAgain(Message):
    """It may be time to forget something."""


class RetentionActor(LoopActor):
    """Hears LookAgain from itself."""

    def __init__(
        self,
        system: ActorSystem,
        store: Store,
        eraser: Eraser,
        rules: RetentionSettings,
        results: Path,
        *,
        busy: Callable[[], bool],
        attachments: Path | None = None,
        on_crash: Callable[[Crashed], None] | None = None,
    ) -> None:
        super().__init__(system, name="retention", on_crash=on_crash)
        self._store = store
        self._eraser = eraser
        self._rules = rules
        self._kept = [results] if attachments is None else [results, attachments]
        self._busy = busy
        self._finished = False
        """Whether what earlier lives left half deleted was looked after."""

    async def on_actor_start(self) -> None:
        self.after(FIRST_LOOK_S, LookAgain(), name="look")

    async def on_receive(self, message: LookAgain) -> None:
        assert isinstance(message, LookAgain)
        if self._busy():
            self.after(BUSY_WAIT_S, LookAgain(), name="look")
        else:
            self.background(self._look(), name="look")

    async def _look(self) -> None:
        """Forget a little; what stands in the way now may be gone at the next look."""
        wait_s = LOOK_EVERY_S
        try:
            if not self._finished:
                await self._eraser.finish()
                self._finished = True
            if await self._forget_sessions():
                wait_s = BUSY_WAIT_S
            await self._forget_results()
        except (JournalUnavailableError, QueryError, TimeoutError, OSError) as error:
            log.warning("what may be forgotten could not all be deleted", error=str(error))
        self.after(wait_s, LookAgain(), name="look")

    async def _forget_sessions(self) -> bool:
        """Delete sessions that have been idle for too long; return whether there are more."""
        if self._rules.days is None:
            return False
        since = self._before(self._rules.days)
        found = await self._store.select(IDLE_SINCE, [since], timeout_s=120.0, max_rows=_AT_ONCE)
        for (key,) in found.rows:
            if self._busy():
                return True
            try:
                await self._eraser.erase(SessionKey(str(key)))
            except UnknownSessionError:
                log.debug("a session was deleted by somebody else", session=key)
        return found.truncated

    async def _forget_results(self) -> None:
        if self._rules.keep_results_days is None:
            return
        before = self._before(self._rules.keep_results_days)
        for folder in self._kept:
            files = await self.system.loop.run_in_executor(None, forget_results, folder, before)
            if files:
                log.info("kept files were deleted", folder=folder.name, files=files)

    def _before(self, days: int) -> datetime:
        return self.clock.now() - timedelta(days=days)


def forget_results(results: Path, before: datetime) -> int:
    """Delete kept files that were written before a time, and folders left empty; return how many. Raises OSError.

    Results of tools lie in a folder for each session, what people attached in one for each account.
    """
    files = 0
    if not results.is_dir():
        return files
    for shelf in results.iterdir():
        if shelf.is_symlink() or not shelf.is_dir() or shelf.name.startswith("."):
            continue  # with a dot: what a connection keeps for itself, such as where it stopped reading
        for path in shelf.iterdir():
            if path.is_file() and path.lstat().st_mtime < before.timestamp():
                path.unlink()
                files += 1
        if not any(shelf.iterdir()):
            shelf.rmdir()
    return files
