"""Hands in what was heard: in order for each channel, each message once, and each until it is taken."""

import asyncio
from collections import OrderedDict
from collections.abc import Awaitable, Callable

import structlog

from actors.clock import Clock
from actors.gateway.edge import EdgeError, Hear
from actors.gateway.platforms.discord.directory import later
from messages.delivery import ProblemKind
from messages.gateway import EdgeHeard, Receipt

log = structlog.get_logger(__name__)

MOST_REMEMBERED = 20_000
MOST_WAITING = 5000
"""With more on their way in, the connection is ended: what is missed is fetched when there is room again."""
TRIES = 5


class Turn:
    """A place in a channel's line."""

    def __init__(self, before: "asyncio.Future[None] | None") -> None:
        self._before = before
        self.passed: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    async def come(self) -> None:
        """Wait until all that came earlier has been begun."""
        if self._before is not None:
            # A wait that is cancelled must not cancel what others wait for.
            await asyncio.shield(self._before)

    def over(self) -> None:
        """Let the next one begin."""
        if not self.passed.done():
            self.passed.set_result(None)


Work = Callable[[Turn], Awaitable[None]]


class Hearing:
    """The lines of all channels."""

    def __init__(self, hear: Hear, clock: Clock, marks: dict[str, str]) -> None:
        self._hear, self._clock = hear, clock
        self.marks = OrderedDict(marks)
        """The last message of each channel that we know of."""
        self._lines: dict[str, asyncio.Future[None]] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._begun: OrderedDict[str, None] = OrderedDict()
        self.failed: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        """Done, with the error, when hearing cannot go on."""

    def __len__(self) -> int:
        return len(self._tasks)

    def enter(self, channel: str, work: Work) -> None:
        """Put work at the end of a channel's line. It begins at once, and waits for its turn itself."""
        if len(self._tasks) >= MOST_WAITING:
            self._fail(EdgeError(ProblemKind.TRANSIENT, "messages come in faster than they are taken"))
            return
        turn = Turn(self._lines.get(channel))
        self._lines[channel] = turn.passed
        task = asyncio.create_task(self._worked(channel, turn, work))
        self._tasks.add(task)
        task.add_done_callback(self._done)

    async def _worked(self, channel: str, turn: Turn, work: Work) -> None:
        try:
            await work(turn)
        finally:
            turn.over()
            if self._lines.get(channel) is turn.passed:
                del self._lines[channel]

    def _done(self, task: "asyncio.Task[None]") -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            self._fail(error)

    def _fail(self, error: BaseException) -> None:
        if not self.failed.done():
            self.failed.set_exception(error)

    async def close(self) -> None:
        """End everything that is still on its way."""
        tasks = tuple(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        if self.failed.done() and not self.failed.cancelled():
            self.failed.exception()  # it has been seen
        self.failed.cancel()

    # ------------------------------------------------------------------ handing in

    def is_new(self, key: str) -> bool:
        """Say whether this was not begun to be handed in."""
        return key not in self._begun

    def begin(
        self, key: str, channel: str, heard: EdgeHeard, *, moves: bool = True
    ) -> "asyncio.Task[Receipt]":
        """Hand in; the order of calls is the order in which they begin.

        `moves` says that the channel's mark moves on to it.
        """
        self._begun[key] = None
        if len(self._begun) > MOST_REMEMBERED:
            self._begun.popitem(last=False)
        if moves:
            self.mark(channel, key)
        return asyncio.create_task(self._handed(key, heard))

    async def _handed(self, key: str, heard: EdgeHeard) -> Receipt:
        for attempt in range(1, TRIES + 1):
            try:
                return await self._hear(heard)
            except EdgeError as error:
                # Discord does not send it again: we have to.
                if attempt == TRIES:
                    self._begun.pop(key, None)
                    raise
                log.warning("a message was not taken", attempt=attempt, why=error.problem.detail)
                await self._clock.sleep(float(attempt))
        raise AssertionError

    def mark(self, channel: str, message: str) -> None:
        """Remember the newest message of a channel."""
        if later(message, self.marks.get(channel)):
            self.marks[channel] = message
            self.marks.move_to_end(channel)
            if len(self.marks) > MOST_REMEMBERED:
                self.marks.popitem(last=False)
