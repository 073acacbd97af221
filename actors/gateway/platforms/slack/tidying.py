"""What should go from a channel, and could not at once: a draft that was not needed, a sign that is over."""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable

import structlog

from actors.clock import Clock
from actors.gateway.edge import EdgeError
from messages.delivery import ProblemKind

log = structlog.get_logger(__name__)

MOST_WAITING = 1000
LONGEST_WAIT_S = 300.0
FIRST_WAIT_S = 5.0

Work = Callable[[], Awaitable[None]]


class Tidying:
    """Does small things later, one after the other, when a rate limit was in the way. Forgets the oldest first."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._waiting: deque[Work] = deque(maxlen=MOST_WAITING)
        self._task: asyncio.Task[None] | None = None

    async def now_or_later(self, work: Work) -> None:
        """Do it; when a rate limit is in the way, later. Whatever else fails is passed over."""
        wait = await self._done(work)
        if wait is not None:
            self._waiting.append(work)
            if self._task is None or self._task.done():
                self._task = asyncio.get_running_loop().create_task(self._later(wait))

    async def close(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    async def _later(self, wait: float) -> None:
        while self._waiting:
            await self._clock.sleep(wait)
            work = self._waiting.popleft()
            again = await self._done(work)
            if again is not None:
                self._waiting.appendleft(work)
            wait = again or 0.0

    async def _done(self, work: Work) -> float | None:
        """Do it; None when nothing is left to do, else how long to wait before the next try."""
        try:
            await work()
        except EdgeError as error:
            if error.problem.kind is ProblemKind.RATE_LIMITED:
                return min(error.problem.retry_after_s or FIRST_WAIT_S, LONGEST_WAIT_S)
            log.info("something could not be tidied away", why=error.problem.detail)
        return None
