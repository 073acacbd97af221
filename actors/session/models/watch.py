"""How long a model may be silent. One alarm per call, however many pieces come.

Two limits: no byte at all for `silence_s` once the answer has begun, and no piece of
an answer for `first_s` (keep-alive comments and pings are bytes, but no pieces). A
server that only ever sends keep-alives is found out by the second.
"""

import asyncio
from types import TracebackType
from typing import Self

from actors.clock import Alarm, Clock


class SilenceError(Exception):
    """Nothing came for too long."""


class Watch:
    """An async context that ends with SilenceError when the stream inside is silent for too long."""

    def __init__(self, clock: Clock, first_s: float, silence_s: float) -> None:
        self._clock = clock
        self._first_s = first_s
        self._silence_s = silence_s
        self._began = False
        self._last_bytes = 0.0
        self._last_piece = 0.0
        self._alarm: Alarm | None = None
        self._task: asyncio.Task[object] | None = None
        self._fired = False
        self._cancels_before = 0

    async def __aenter__(self) -> Self:
        self._task = asyncio.current_task()
        assert self._task is not None
        self._cancels_before = self._task.cancelling()
        self._last_bytes = self._last_piece = self._clock.monotonic()
        self._alarm = self._clock.call_later(self._first_s, self._ring)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._alarm is not None:
            self._alarm.cancel()
            self._alarm = None
        if not self._fired:
            return
        assert self._task is not None
        # As asyncio.timeout does: only our own cancellation becomes an error of time.
        if self._task.uncancel() <= self._cancels_before and kind is asyncio.CancelledError:
            raise SilenceError(self._words()) from error

    def heard(self, *, piece: bool) -> None:
        """Bytes came; `piece`: with a part of the answer in them."""
        self._last_bytes = self._clock.monotonic()
        if not piece:
            return
        self._last_piece = self._last_bytes
        if not self._began:
            self._began = True
            self._again()

    def closing(self, seconds: float) -> None:
        """The answer is whole: only the connection's end is awaited, and only so long."""
        self._first_s = self._silence_s = seconds
        self._last_bytes = self._last_piece = self._clock.monotonic()
        self._again()

    def _due(self) -> float:
        if not self._began:
            return self._last_piece + self._first_s
        return min(self._last_bytes + self._silence_s, self._last_piece + max(self._first_s, self._silence_s))

    def _again(self) -> None:
        if self._alarm is not None:
            self._alarm.cancel()
        self._alarm = self._clock.call_later(max(0.0, self._due() - self._clock.monotonic()), self._ring)

    def _ring(self) -> None:
        if self._due() > self._clock.monotonic():
            self._again()
            return
        self._alarm = None
        self._fired = True
        assert self._task is not None
        self._task.cancel()

    def _words(self) -> str:
        if not self._began:
            return f"nothing came for {self._first_s:g} s"
        return f"the stream was silent for {self._silence_s:g} s"
