"""Signs of life while a model is silent: who waits is told for how long, and the status says so."""

from collections.abc import Callable
from types import TracebackType
from typing import Self

from actors.clock import Alarm, Clock

EVERY_S = 15.0


class Heartbeat:
    """A context around one model call: calls `tell` with the seconds of silence, every so often, while it lasts."""

    def __init__(self, clock: Clock, tell: Callable[[float], None]) -> None:
        self._clock = clock
        self._tell = tell
        self._alarm: Alarm | None = None
        self.heard_at = clock.monotonic()
        """When the model was asked, or last said something."""

    def __enter__(self) -> Self:
        self._alarm = self._clock.call_later(EVERY_S, self._beat)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._alarm is not None:
            self._alarm.cancel()
            self._alarm = None

    def heard(self) -> None:
        """The model said something."""
        self.heard_at = self._clock.monotonic()

    def _beat(self) -> None:
        silent = self._clock.monotonic() - self.heard_at
        if silent >= EVERY_S:
            self._tell(silent)
            wait = EVERY_S
        else:
            wait = EVERY_S - silent
        self._alarm = self._clock.call_later(wait, self._beat)
