"""What we remember of the events we have seen: whose they are and what they say, for edits, quotes, reactions.

Bounded: the oldest is forgotten first. What is forgotten is asked of the server, or treated as unknown.
"""

from collections import OrderedDict
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Generic, Literal, TypeVar

MOST = 5000
LONGEST_QUOTE = 2000

K = TypeVar("K")
V = TypeVar("V")


class Bounded(Generic[K, V]):
    """A dictionary that forgets its oldest entries."""

    def __init__(self, most: int = MOST) -> None:
        self._most = most
        self._kept: OrderedDict[K, V] = OrderedDict()

    def __len__(self) -> int:
        return len(self._kept)

    def __contains__(self, key: K) -> bool:
        return key in self._kept

    def get(self, key: K) -> V | None:
        return self._kept.get(key)

    def put(self, key: K, value: V) -> None:
        self._kept[key] = value
        self._kept.move_to_end(key)
        while len(self._kept) > self._most:
            self._kept.popitem(last=False)

    def pop(self, key: K) -> V | None:
        return self._kept.pop(key, None)

    def values(self) -> Iterable[V]:
        return self._kept.values()


@dataclass(frozen=True, slots=True)
class Known:
    """An event that we have seen."""

    sender: str
    kind: Literal["message", "other"]
    """`other`: a reaction, an edit: nothing that somebody said."""
    text: str = ""
    """Its beginning."""
    size: int = 0
    mark: int = 0
    """Of the whole text: equal texts have equal marks."""
    thread: str | None = None

    @classmethod
    def message(cls, sender: str, text: str, thread: str | None = None) -> "Known":
        return cls(sender, "message", text[:LONGEST_QUOTE], len(text), hash(text), thread)

    def says(self, text: str) -> bool:
        """Say whether this is still its text."""
        return len(text) == self.size and hash(text) == self.mark

    def edited(self, text: str) -> "Known":
        return replace(self, text=text[:LONGEST_QUOTE], size=len(text), mark=hash(text))
