"""Timers: messages to self, later. They come from the clock and die with their actor."""

from typing import Any

from actors.clock import Clock
from actors.mailbox import Mailbox
from actors.pykka_private import Envelope


class TimerEnvelope(Envelope[Any]):
    """A timer's message on its way; void when the timer is cancelled, gone when its actor ends."""

    __slots__ = ("timer",)

    def __init__(self, message: Any, timer: "Timer") -> None:
        super().__init__(message)
        self.timer = timer


class Timer:
    """One timer, kept in its actor's table under its name (or itself, without one) until it is delivered."""

    __slots__ = ("_alarm", "_inbox", "_key", "_message", "_table", "cancelled")

    def __init__(
        self,
        clock: Clock,
        seconds: float,
        message: Any,
        name: str | None,
        table: "dict[object, Timer]",
        inbox: Mailbox,
    ) -> None:
        self._message = message
        self._table = table
        self._inbox = inbox
        self._key: object = self if name is None else name
        self.cancelled = False
        table[self._key] = self
        self._alarm = clock.call_later(seconds, self._fire)

    def cancel(self) -> None:
        """Not send the message, or not have it handled when it waits in the mailbox already."""
        if not self.cancelled:
            self.cancelled = True
            self._alarm.cancel()
            self.forget()

    def forget(self) -> None:
        """Leave the table: the message is delivered, or will not be."""
        if self._table.get(self._key) is self:
            del self._table[self._key]

    def _fire(self) -> None:
        if not self.cancelled:
            self._inbox.accept(TimerEnvelope(self._message, self), forced=True)
