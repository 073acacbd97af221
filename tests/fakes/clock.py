"""A clock in the hand of a test: time stands still until the test turns it."""

import asyncio
import heapq
import itertools
from collections.abc import Callable
from datetime import UTC, datetime, timedelta

from actors.clock import Alarm

START = datetime(2026, 1, 1, 12, 0, tzinfo=UTC)

_SETTLING_TURNS = 500
"""How long the loop may go on by itself before `settle` gives up waiting for quiet."""


class ManualAlarm:
    """An alarm of a `ManualClock`."""

    def __init__(self, due: float, callback: Callable[[], None]) -> None:
        self.due = due
        self.callback = callback
        self.cancelled = False

    def cancel(self) -> None:
        self.cancelled = True


class ManualClock:
    """Implements `actors.clock.Clock`; `advance` is the only way in which time passes.

    An alarm for now (0 seconds or less) needs no time to pass: it goes off in the
    loop's next turn, as with a real clock.
    """

    def __init__(self, start: datetime = START) -> None:
        self._start = start
        self._elapsed = 0.0
        self._alarms: list[tuple[float, int, ManualAlarm]] = []
        self._count = itertools.count()

    def now(self) -> datetime:
        return self._start + timedelta(seconds=self._elapsed)

    def monotonic(self) -> float:
        return self._elapsed

    def call_later(self, seconds: float, callback: Callable[[], None]) -> Alarm:
        if seconds <= 0:
            return asyncio.get_running_loop().call_soon(callback)
        alarm = ManualAlarm(self._elapsed + seconds, callback)
        heapq.heappush(self._alarms, (alarm.due, next(self._count), alarm))
        return alarm

    async def sleep(self, seconds: float) -> None:
        woken = asyncio.Event()
        alarm = self.call_later(seconds, woken.set)
        try:
            await woken.wait()
        finally:
            alarm.cancel()

    # ------------------------------------------------------------- for the test

    @property
    def waiting(self) -> int:
        """Say how many alarms are set and not cancelled."""
        return sum(not alarm.cancelled for _, _, alarm in self._alarms)

    async def advance(self, seconds: float) -> None:
        """Let so much time pass: alarms go off in order, each at its own time, and the loop settles."""
        end = self._elapsed + seconds
        await self.settle()
        while (alarm := self._next(end)) is not None:
            self._elapsed = max(self._elapsed, alarm.due)
            alarm.callback()
            await self.settle()
        self._elapsed = end
        await self.settle()

    async def suspend(self, seconds: float) -> None:
        """Let time jump, as a machine does that slept: what fell due meanwhile goes off at once, late."""
        self._elapsed += seconds
        due: list[ManualAlarm] = []
        while (alarm := self._next(self._elapsed)) is not None:
            due.append(alarm)
        for alarm in due:
            if not alarm.cancelled:
                alarm.callback()
        await self.settle()

    async def settle(self) -> None:
        """Let the loop run until nothing is ready (sockets and threads are not waited for)."""
        loop = asyncio.get_running_loop()
        for _ in range(_SETTLING_TURNS):
            await asyncio.sleep(0)
            if not getattr(loop, "_ready", True):
                return

    def _next(self, end: float) -> ManualAlarm | None:
        while self._alarms and self._alarms[0][0] <= end:
            alarm = heapq.heappop(self._alarms)[2]
            if not alarm.cancelled:
                return alarm
        return None
