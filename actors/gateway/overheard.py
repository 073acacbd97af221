"""What was said in a chat and not to us: kept for a while as context for what is. Bounded in every way.

Each place has a ring of the latest lines. A conversation that is addressed there is
given what has come since it was last given something, and each line once. Where people
have conversations of their own, each of these gets the lines in its own time.
"""

from collections import OrderedDict
from collections.abc import Hashable

from messages.gateway import MessageReceived, Overheard
from messages.ids import MessageId, SessionKey

LONGEST_LINE = 1000
"""In characters; what is longer is cut."""

MOST_PLACES = 2000
MOST_LINES = 20_000
"""Over all places; then the place that was silent for the longest is forgotten."""

MOST_READERS = 500
"""Conversations in one place that are remembered."""


class Ears:
    """All that was overheard, by place."""

    def __init__(self, most_places: int = MOST_PLACES, most_lines: int = MOST_LINES) -> None:
        self._most_places = most_places
        self._most_lines = most_lines
        self._rings: OrderedDict[Hashable, _Ring] = OrderedDict()
        self._lines = 0

    def __len__(self) -> int:
        """How many lines there are."""
        return self._lines

    def hear(self, place: Hashable, heard: MessageReceived, most: int) -> None:
        """Keep a message as context, among the latest `most` of its place. The same one twice is one."""
        if most == 0:
            return
        ring = self._rings.get(place)
        if ring is None:
            ring = self._rings[place] = _Ring()
        self._rings.move_to_end(place)
        self._lines += ring.add(_line(heard), most)
        while len(self._rings) > 1 and (
            len(self._rings) > self._most_places or self._lines > self._most_lines
        ):
            _, forgotten = self._rings.popitem(last=False)
            self._lines -= len(forgotten.lines)

    def give(self, place: Hashable, reader: SessionKey) -> tuple[Overheard, ...]:
        """Return what a conversation has not been given yet, oldest first; it is given now."""
        ring = self._rings.get(place)
        return ring.give(reader) if ring is not None else ()

    def line(self, place: Hashable, message_id: MessageId) -> Overheard | None:
        """Return one line, if it is still here."""
        ring = self._rings.get(place)
        return ring.lines[message_id][1] if ring is not None and message_id in ring.lines else None

    def change(self, place: Hashable, message_id: MessageId, text: str) -> bool:
        """Somebody changed a line. Returns whether it was here."""
        ring = self._rings.get(place)
        return ring is not None and ring.change(message_id, text)

    def forget(self, place: Hashable, message_id: MessageId) -> bool:
        """Somebody took a line back. Returns whether it was here."""
        ring = self._rings.get(place)
        gone = ring is not None and ring.forget(message_id)
        self._lines -= gone
        return gone


class _Ring:
    """The latest lines of one place, numbered, by their ids."""

    __slots__ = ("_given", "_number", "lines")

    def __init__(self) -> None:
        self.lines: OrderedDict[MessageId, tuple[int, Overheard]] = OrderedDict()
        self._number = 0
        self._given: OrderedDict[SessionKey, int] = OrderedDict()
        """The number of the last line that each conversation was given."""

    def add(self, line: Overheard, most: int) -> int:
        """Add a line; return by how many lines the ring has grown."""
        if line.message_id in self.lines:
            return 0
        before = len(self.lines)
        self._number += 1
        self.lines[line.message_id] = (self._number, line)
        while len(self.lines) > most:
            self.lines.popitem(last=False)
        return len(self.lines) - before

    def give(self, reader: SessionKey) -> tuple[Overheard, ...]:
        given = self._given.pop(reader, 0)
        self._given[reader] = self._number
        while len(self._given) > MOST_READERS:
            self._given.popitem(last=False)
        return tuple(line for number, line in self.lines.values() if number > given)

    def change(self, message_id: MessageId, text: str) -> bool:
        if message_id not in self.lines:
            return False
        number, line = self.lines[message_id]
        self.lines[message_id] = (number, line.model_copy(update={"text": _cut(text)}))
        return True

    def forget(self, message_id: MessageId) -> bool:
        return self.lines.pop(message_id, None) is not None


def _line(heard: MessageReceived) -> Overheard:
    return Overheard(
        message_id=heard.message_id,
        author=heard.author,
        text=_cut(heard.text),
        attachments=len(heard.attachments),
        at=heard.sent_at or heard.at,
    )


def _cut(text: str) -> str:
    return text if len(text) <= LONGEST_LINE else text[: LONGEST_LINE - 1] + "…"
