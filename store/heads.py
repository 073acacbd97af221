"""Where each stream stands: its last number, and between which ids its facts lie.

The writer alone changes it, after a commit; readers look up id windows in it. At
ten thousand streams a dict of objects would cost 300 bytes a stream. This is an
open-addressing hash table over packed arrays: 33 bytes a stream and at most 12
more for the slots.
"""

from array import array
from collections.abc import Iterable
from threading import Lock
from typing import NamedTuple

_MASK = (1 << 64) - 1


class Head(NamedTuple):
    """A stream's end: `seq` of its last fact, the ids of its first and last, and what it said of itself."""

    seq: int
    first_id: int
    last_id: int
    owing: bool


EMPTY = Head(0, 0, 0, owing=False)


class StreamHeads:
    """The heads of all streams, by name. Threads may share it.

    Streams are told apart by 64 bits of their name's hash (SipHash with a key of
    this process: a sender of odd names cannot make two meet). Two of a million
    streams would meet once in thirty million processes; then the second would be
    refused as stale, and a read still compares the whole name.
    """

    def __init__(self, capacity: int = 1024) -> None:
        self._lock = Lock()
        self._hashes = array("Q")
        self._seqs = array("q")
        self._firsts = array("q")
        self._lasts = array("q")
        self._owing = array("b")
        self._slots = array("i", [0]) * _slots_for(capacity)

    def __len__(self) -> int:
        return len(self._hashes)

    def find(self, stream: str) -> Head | None:
        """Return the stream's head, or None for a stream without facts."""
        hashed = hash(stream) & _MASK
        with self._lock:
            place = self._slots[self._slot(hashed)] - 1
            if place < 0:
                return None
            return Head(
                self._seqs[place], self._firsts[place], self._lasts[place], owing=bool(self._owing[place])
            )

    def put_all(self, heads: Iterable[tuple[str, Head]]) -> None:
        """Set the heads of these streams."""
        with self._lock:
            for stream, head in heads:
                self._put(hash(stream) & _MASK, head)

    def owing_ids(self) -> list[int]:
        """Return the ids of the last facts of the streams that owe something, in order."""
        with self._lock:
            return sorted(last for last, owing in zip(self._lasts, self._owing, strict=True) if owing)

    def size_in_bytes(self) -> int:
        """Return what the arrays take."""
        arrays = (self._hashes, self._seqs, self._firsts, self._lasts, self._owing, self._slots)
        return sum(len(items) * items.itemsize for items in arrays)

    def _slot(self, hashed: int) -> int:
        """Return the slot that holds this hash, or the free one where it belongs."""
        slots, hashes = self._slots, self._hashes
        mask = len(slots) - 1
        slot = hashed & mask
        while (place := slots[slot]) and hashes[place - 1] != hashed:
            slot = (slot + 1) & mask
        return slot

    def _put(self, hashed: int, head: Head) -> None:
        slot = self._slot(hashed)
        place = self._slots[slot] - 1
        if place >= 0:
            self._seqs[place] = head.seq
            self._firsts[place] = head.first_id
            self._lasts[place] = head.last_id
            self._owing[place] = head.owing
            return
        self._hashes.append(hashed)
        self._seqs.append(head.seq)
        self._firsts.append(head.first_id)
        self._lasts.append(head.last_id)
        self._owing.append(head.owing)
        self._slots[slot] = len(self._hashes)
        if len(self._hashes) * 3 > len(self._slots) * 2:
            self._grow()

    def _grow(self) -> None:
        self._slots = array("i", [0]) * (len(self._slots) * 2)
        for place, hashed in enumerate(self._hashes, start=1):
            self._slots[self._slot(hashed)] = place


def _slots_for(streams: int) -> int:
    """Return the power of two that keeps so many streams below two thirds of the slots."""
    return 1 << max(4, (streams * 3 // 2).bit_length())
