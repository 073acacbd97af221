"""Time is a visitor: one real clock at the wall, one in the hand of a test (tests/fakes/clock.py)."""

import asyncio
import time
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Protocol


class Alarm(Protocol):
    """Something that will happen later, unless it is cancelled."""

    def cancel(self) -> None: ...


class Clock(Protocol):
    """Where time comes from."""

    def now(self) -> datetime:
        """Return this moment, in UTC."""
        ...

    def monotonic(self) -> float:
        """Return seconds that never go back, from an arbitrary start."""
        ...

    def call_later(self, seconds: float, callback: Callable[[], None]) -> Alarm:
        """Call back on the loop after so many seconds. Must be called on the loop."""
        ...

    async def sleep(self, seconds: float) -> None:
        """Wait so many seconds."""
        ...


class WallClock:
    """The real time. The only place in the product that reads it."""

    def now(self) -> datetime:
        return datetime.now(UTC)  # noqa: TID251 the one clock at the wall

    def monotonic(self) -> float:
        return time.monotonic()  # noqa: TID251 the same

    def call_later(self, seconds: float, callback: Callable[[], None]) -> Alarm:
        return asyncio.get_running_loop().call_later(seconds, callback)

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)
