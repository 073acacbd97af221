"""Turns that were running at several deaths of the process are taken up one at a time.

When a turn kills the process, all turns that run beside it look just as guilty. So
from the second start on, those that were found running once already wait for each
other: after the next death only one of them has been there again, and after the third
only the guilty one is set aside. A turn that has run for a while without doing harm
lets the next one in and goes on.
"""

from collections import OrderedDict
from collections.abc import Callable

from messages.ids import SessionKey

PATIENCE_S = 30.0
"""How long a suspect keeps the others waiting."""


class Quarantine:
    """Who of the suspects is running. One for all sessions of a process."""

    def __init__(self) -> None:
        self.taken_up: set[SessionKey] = set()
        """Sessions in memory that have taken up, in this life of the process, what they owed from before.
        What such a session finds running after a crash of its own is running; in any other it died."""
        self._inside: SessionKey | None = None
        self._waiting: OrderedDict[SessionKey, Callable[[], None]] = OrderedDict()

    def enter(self, key: SessionKey, go_on: Callable[[], None]) -> None:
        """Call `go_on` when it is this session's turn: now, or when those before it have left."""
        self._waiting[key] = go_on
        self._next()

    def leave(self, key: SessionKey) -> None:
        """Say that a session's suspect is harmless, over or gone."""
        self._waiting.pop(key, None)
        if self._inside == key:
            self._inside = None
            self._next()

    def _next(self) -> None:
        if self._inside is None and self._waiting:
            self._inside, go_on = self._waiting.popitem(last=False)
            go_on()
