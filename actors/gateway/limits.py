"""How much is taken of whom: token buckets, and things that are said once in a while. Pure.

Time comes with each question, so a test needs no clock, and what was written while we
were away counts for when it was written. What is remembered is bounded: who has been
quiet the longest is forgotten first, and that does no harm, for a full bucket and one
that nobody knows are the same.
"""

from collections import OrderedDict
from collections.abc import Hashable
from datetime import datetime
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")

MOST_REMEMBERED = 10_000


class Buckets(Generic[K]):
    """One bucket for each key. `take` asks for a token; they come back evenly."""

    def __init__(self, most: int = MOST_REMEMBERED) -> None:
        self._most = most
        self._left: OrderedDict[K, tuple[float, datetime]] = OrderedDict()

    def take(self, key: K, tokens: int, at: datetime, *, every_s: float = 60.0) -> bool:
        """Take one of `tokens`, all of which are back after `every_s` seconds; False when there is none.

        Time that goes backwards stands still.
        """
        left, before = self._left.get(key, (float(tokens), at))
        passed = max(0.0, (at - before).total_seconds())
        left = min(float(tokens), left + passed * tokens / every_s)
        taken = left >= 1
        self._left[key] = (left - 1 if taken else left, max(at, before))
        self._left.move_to_end(key)
        while len(self._left) > self._most:
            self._left.popitem(last=False)
        return taken

    def give_back(self, key: K) -> None:
        """Put a token back that was taken in vain."""
        if key in self._left:
            left, at = self._left[key]
            self._left[key] = (left + 1, at)


class OnceInAWhile(Generic[K]):
    """Whether something is due again: at most once in so many seconds for each key."""

    def __init__(self, most: int = MOST_REMEMBERED) -> None:
        self._most = most
        self._last: OrderedDict[K, datetime] = OrderedDict()

    def due(self, key: K, every_s: float, at: datetime) -> bool:
        last = self._last.get(key)
        if last is not None and 0 <= (at - last).total_seconds() < every_s:
            return False
        self._last[key] = at
        self._last.move_to_end(key)
        while len(self._last) > self._most:
            self._last.popitem(last=False)
        return True


class Counts(Generic[K]):
    """A number for each key, until it is reset."""

    def __init__(self, most: int = MOST_REMEMBERED) -> None:
        self._most = most
        self._counts: OrderedDict[K, int] = OrderedDict()

    def up(self, key: K) -> int:
        """Count one more, and return how many there are."""
        self._counts[key] = self._counts.pop(key, 0) + 1
        while len(self._counts) > self._most:
            self._counts.popitem(last=False)
        return self._counts[key]

    def reset(self, key: K) -> None:
        self._counts.pop(key, None)


class Latest(Generic[K, V]):
    """What belongs to each of the latest keys."""

    def __init__(self, most: int = MOST_REMEMBERED) -> None:
        self._most = most
        self._kept: OrderedDict[K, V] = OrderedDict()

    def get(self, key: K) -> V | None:
        return self._kept.get(key)

    def put(self, key: K, value: V) -> None:
        self._kept[key] = value
        self._kept.move_to_end(key)
        while len(self._kept) > self._most:
            self._kept.popitem(last=False)
