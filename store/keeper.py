"""Looks after the store's threads: when one falls, all are ended, and started again over the same file.

DuckDB gives a database up as a whole (it is "invalidated"), and only when every connection
of the process is closed can it be opened again. So whichever thread falls, for
whatever reason, all go, and the next ones open the file after a wait
(exponential, jittered). Requests wait meanwhile, `PATIENCE_S` at most.

The rules are those of `actors/supervision.py`; this is not one of its supervisors
because the store is there before there are actors, and after them.
"""

import asyncio
import random
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any

import structlog

from actors.clock import Clock
from actors.supervision import Backoff, Child, Degraded, Restart, verdict
from store.duckdb_store import What

if TYPE_CHECKING:
    import pykka

log = structlog.get_logger(__name__)

PATIENCE_S = 10
"""How long a request waits for a store that is down, or for room on its disk, before it is refused."""

_BACKOFF = Backoff(first_s=0.2, most_s=5.0)


class Keeper:
    """Brings the store back. Lives on the loop; `fell` may be said as often as things fall."""

    def __init__(
        self,
        clock: Clock,
        reopen: Callable[[], Awaitable[None]],
        report: Callable[[What, str], None],
        chance: Callable[[], float] | None = None,
    ) -> None:
        self._clock = clock
        self._reopen = reopen
        self._report = report
        self._chance = chance or random.SystemRandom().random
        self._spec = Child("store", _not_started_here, backoff=_BACKOFF, most=5, beyond="degrade")
        self._crashes: tuple[float, ...] = ()
        self._task: asyncio.Task[None] | None = None

    @property
    def falls(self) -> int:
        """Falls within the last minute or so, as far as they are counted."""
        return len(self._crashes)

    def fell(self, why: str) -> None:
        """A thread of the store has ended by itself: bring all of it back, unless that is under way."""
        if self._task is None or self._task.done():
            self._task = asyncio.get_running_loop().create_task(self._bring_back(why))

    async def stop(self) -> None:
        """Bring nothing back any more."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task])

    async def _bring_back(self, why: str) -> None:
        self._report("crashed", why)
        began, degraded = self._clock.monotonic(), False
        while True:
            now = self._clock.monotonic()
            recent = [at for at in self._crashes if now - at < self._spec.within_seconds]
            self._crashes = (*recent, now)
            decision = verdict(self._spec, self._crashes, now, self._chance())
            assert isinstance(decision, Restart | Degraded), "the store is neither let go nor escalated"
            if isinstance(decision, Degraded) and not degraded:
                degraded = True
                self._report("degraded", f"tried again every {decision.after_s:g} s: {why}")
            await self._clock.sleep(decision.after_s)
            try:
                await self._reopen()
            except Exception as error:  # noqa: BLE001 whatever keeps it down, it is tried again
                why = str(error)
                log.error("the store could not be opened again", error=why)  # noqa: TRY400 one line each time
                continue
            break
        seconds = self._clock.monotonic() - began
        log.info("the store is open again", seconds=round(seconds, 2))
        self._report("restarted", f"open again after {seconds:.1f} s")


def _not_started_here() -> "pykka.ActorRef[Any]":
    raise NotImplementedError("the store opens itself")
