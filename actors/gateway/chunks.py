"""Splitting a text into posts that a platform takes: in its own unit, code blocks whole. Pure.

Where a text is cut, the first of these that does not make a post much too short:
before a code block or a table that would not fit any more, after a paragraph, after a
line, after a word, between two characters as people see them. A link, a piece of code in
a line and what is bold are not cut in half where they fit into a post.

A code block that is longer than a post is cut after a line of it. Its fence is then
closed at the end of the post and opened again, with the same marker and language,
at the beginning of the next. A table that is longer than a post is cut after a row, and
its head is repeated. What is added so is counted within the limit, and kept apart in
`Chunk`: the bodies of all chunks, joined, are the text.
"""

import re
import unicodedata
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import StrEnum

SMALLEST_LIMIT = 16
"""Below this a limit is taken for a mistake."""

MOST_BLANK = re.compile(r"\S")
LONE_CR = re.compile(r"\r(?!\n)")
"""Ends a line in Markdown; so it is made one that every platform takes for an end."""


class Unit(StrEnum):
    """What a platform counts in."""

    CHARACTERS = "characters"
    """Unicode code points."""
    UTF16 = "utf16"
    """UTF-16 code units, as Telegram and JavaScript count."""
    BYTES = "bytes"
    """UTF-8 bytes."""


@dataclass(frozen=True, slots=True)
class Chunk:
    """One post: `before` and `after` were added (fences, a table's head), `body` is the text's own."""

    body: str
    before: str = ""
    after: str = ""

    @property
    def text(self) -> str:
        """What is posted."""
        return self.before + self.body + self.after


def measure(text: str, unit: Unit) -> int:
    """Return the length of a text as the platform counts it."""
    match unit:
        case Unit.CHARACTERS:
            return len(text)
        case Unit.UTF16:
            return len(text) if text.isascii() else len(text) + sum(c > "\uffff" for c in text)
        case Unit.BYTES:
            return len(text) if text.isascii() else len(text.encode("utf-8", "surrogatepass"))


def split(
    text: str, limit: int, unit: Unit = Unit.CHARACTERS, render: Callable[[str], str] | None = None
) -> tuple[Chunk, ...]:
    """Split a text into chunks of at most `limit` units; without those that would show nothing.

    With `render`, what counts is the length of what it makes of a chunk (a platform's
    own markup is longer than Markdown). Raises ValueError for a limit below
    SMALLEST_LIMIT.
    """
    if limit < SMALLEST_LIMIT:
        raise ValueError(f"a limit of {limit} is below {SMALLEST_LIMIT}")
    text = LONE_CR.sub("\n", text)
    chunks = tuple(c for c in _Splitter(text, limit, unit).chunks() if MOST_BLANK.search(c.body))
    if render is None:
        return chunks
    return tuple(fitting for chunk in chunks for fitting in _fit(chunk, limit, unit, render))


def _fit(chunk: Chunk, limit: int, unit: Unit, render: Callable[[str], str]) -> tuple[Chunk, ...]:
    """Cut a chunk smaller until what it is rendered to fits."""
    size, inner = measure(render(chunk.text), unit), limit
    if size <= limit:
        return (chunk,)
    while inner > SMALLEST_LIMIT:
        inner = max(SMALLEST_LIMIT, min(inner * limit // size, inner * 9 // 10))
        smaller = split(chunk.text, inner, unit)
        size = max(measure(render(c.text), unit) for c in smaller)
        if size <= limit:
            return smaller
    return (chunk,)  # the renderer makes more than a limit's worth of sixteen characters


# ------------------------------------------------------------------ fences

_FENCE = re.compile(r"^([ \t>]*)(`{3,}|~{3,})([^\n]*)\n?$")


@dataclass(frozen=True, slots=True)
class Fence:
    """An open code block."""

    indent: str
    """What stands before the marker: blanks, and `>` in a quotation."""
    marker: str
    info: str

    @property
    def opening(self) -> str:
        return f"{self.indent}{self.marker}{self.info}\n"

    @property
    def closing(self) -> str:
        return f"{self.indent}{self.marker}"


def fence_after(line: str, fence: Fence | None) -> Fence | None:
    """Return the code block that is open after a line, given the one before it.

    As CommonMark has it: a block ends with the marker that began it, at least as
    long, and nothing behind it; any other marker inside is content.
    """
    found = _FENCE.match(line)
    if found is None:
        return fence
    indent, marker, info = found.groups()
    if fence is None:
        return None if marker[0] == "`" and "`" in info else Fence(indent, marker, info.rstrip())
    closes = marker[0] == fence.marker[0] and len(marker) >= len(fence.marker) and not info.strip()
    return None if closes else fence


# ------------------------------------------------------------------ tables

_DELIMITER = re.compile(r"[ \t]*+(?:\|[ \t]*+)?:?-++:?[ \t]*+(?:\|[ \t]*+:?-++:?[ \t]*+)*+\|?[ \t]*")


@dataclass(frozen=True, slots=True)
class Table:
    """A table that goes on."""

    head: str
    """Its first two lines."""
    begin: int
    """Where it begins in the text."""


# ------------------------------------------------------------------ boundaries

_KEPT = re.compile(
    r"""
      !?\[[^\[\]\n]{0,1000}\]\((?:[^\s()]|\([^\s()]*\)){1,2000}(?:[ ]"[^"\n]{0,200}")?\)
    | (?<!`)(?P<ticks>`++)[^\n]{1,1000}?(?<!`)(?P=ticks)(?!`)
    | \*\*(?=\S)[^*\n]{1,400}\*\*
    """,
    re.VERBOSE,
)
"""What is shown wrong when it is cut: a link, an image, a piece of code in a line, a few bold words."""

_JOINERS = frozenset("\u200d")
_NEVER_FIRST = frozenset("\u200d\ufe0e\ufe0f\u20e3")


def between_characters(text: str, at: int) -> bool:
    """Say whether a cut at this place keeps what people see as one character whole."""
    if at <= 0 or at >= len(text):
        return True
    before, after = text[at - 1], text[at]
    if before == "\r" and after == "\n":
        return False
    if after.isascii() and before.isascii():
        return True
    if before in _JOINERS or after in _NEVER_FIRST or unicodedata.category(after)[0] == "M":
        return False
    if "\U0001f3fb" <= after <= "\U0001f3ff" or "\U000e0020" <= after <= "\U000e007f":
        return False  # a skin tone; the letters of a flag of a region
    if "\udc00" <= after <= "\udfff" and "\ud800" <= before <= "\udbff":
        return False
    if _regional(before) and _regional(after):
        flags = 0
        while flags < at and _regional(text[at - 1 - flags]):
            flags += 1
        return flags % 2 == 0
    return not ("\u1160" <= after <= "\u11ff")  # a Hangul vowel or final that belongs to what stands before


def _regional(character: str) -> bool:
    return "\U0001f1e6" <= character <= "\U0001f1ff"


def _fitting(text: str, start: int, budget: int, unit: Unit) -> int:
    """Return the end of the longest piece from `start` that is within the budget."""
    end = min(len(text), start + budget)
    if unit is Unit.CHARACTERS or text[start:end].isascii():
        return end
    size = 0
    for at in range(start, end):
        size += measure(text[at], unit)
        if size > budget:
            return at
    return end


def _character_end(text: str, start: int, end: int) -> int:
    """Move a cut back so that it keeps characters whole, if there is room for that."""
    for at in range(end, max(start, end - 64), -1):
        if between_characters(text, at):
            return at
    return end


# ------------------------------------------------------------------ splitting


@dataclass(slots=True)
class _Seen:
    """Where the chunk that is being made could end; ends are places in the text, None if there is none."""

    paragraph: int | None = None
    line: int | None = None
    code_line: int | None = None
    block: int | None = None
    """The beginning of the code block that is open."""


class _Splitter:
    def __init__(self, text: str, limit: int, unit: Unit) -> None:
        self._text = text
        self._limit = limit
        self._unit = unit

    def chunks(self) -> Iterator[Chunk]:
        start, open_ = 0, None
        while start < len(self._text):
            end, after = self._next(start, open_)
            yield self._chunk(start, end, open_, after)
            start, open_ = end, after

    def _chunk(self, start: int, end: int, open_: Fence | Table | None, after: Fence | Table | None) -> Chunk:
        body = self._text[start:end]
        before = self._before(open_)
        closing = ""
        if isinstance(after, Fence):
            closing = after.closing if body.endswith("\n") else "\n" + after.closing
            if measure(before + body + closing, self._unit) > self._limit:
                closing = ""  # only where the markers alone are as long as a post
        return Chunk(body, before, closing)

    def _before(self, open_: Fence | Table | None) -> str:
        match open_:
            case None:
                return ""
            case Table():
                return open_.head
            case Fence():
                return self._opening(open_)

    def _opening(self, fence: Fence) -> str:
        """The fence again; without its language where that is absurdly long, not at all where the marker is."""
        for opening in (fence.opening, f"{fence.indent}{fence.marker}\n"):
            if measure(opening, self._unit) + self._closing_size(fence) <= self._limit // 2:
                return opening
        return ""

    def _closing_size(self, fence: Fence) -> int:
        return measure(fence.closing, self._unit) + 1

    def _next(self, start: int, open_: Fence | Table | None) -> tuple[int, Fence | Table | None]:
        """Return where the chunk from `start` ends, and the code block or table that goes on there."""
        budget = self._limit - measure(self._before(open_), self._unit)
        fence = open_ if isinstance(open_, Fence) else None
        seen, at, used, now = _Seen(), start, 0, fence
        while at < len(self._text):
            line_end = self._text.find("\n", at, at + self._limit + 1) + 1 or self._line_end(at)
            line = self._text[at:line_end]
            used += measure(line, self._unit)
            later = fence_after(line, now)
            if used + (self._closing_size(later) if later is not None else 0) > budget:
                end, after = self._cut(start, at, budget, now, later, seen, fence)
                return (end, after) if after is not None else self._beside_table(start, end, open_)
            self._note(seen, at, line_end, line, now, later)
            at, now = line_end, later
        return at, now

    def _line_end(self, at: int) -> int:
        """The end of a line that is longer than a post: far enough to see that it does not fit."""
        return min(len(self._text), at + self._limit + 1)

    @staticmethod
    def _note(seen: _Seen, at: int, end: int, line: str, now: Fence | None, later: Fence | None) -> None:
        if later is None:
            seen.line = end
            seen.block = None
            if now is not None or not line.strip():
                seen.paragraph = end
        elif now is None:
            seen.block = at
        else:
            seen.code_line = end
        if now is not None and later is not None:
            seen.code_line = end

    def _cut(
        self,
        start: int,
        at: int,
        budget: int,
        now: Fence | None,
        later: Fence | None,
        seen: _Seen,
        fence: Fence | None,
    ) -> tuple[int, Fence | None]:
        """The line at `at` does not fit: say where to cut, and what is open there."""
        if now is None and later is not None and at > start:
            return at, None  # the line opens a code block
        if now is not None:
            return self._cut_code(start, at, budget, now, seen, fence)
        room = _fitting(self._text, start, budget, self._unit)
        least = start + (room - start) // 2
        for place in (seen.paragraph, seen.line, self._word(start, at, room)):
            if place is not None and place > least:
                return place, None
        places = [p for p in (seen.paragraph, seen.line) if p is not None and p > start]
        if places:
            return max(places), None
        room = self._outside(start, at, room)
        return max(_character_end(self._text, start, room), start + 1), None

    def _outside(self, start: int, at: int, end: int) -> int:
        """Move an end within the line at `at` before the link or the like that it would cut."""
        line = self._text[at : at + 2 * self._limit].partition("\n")[0]
        for kept in _KEPT.finditer(line):
            if at + kept.start() >= end:
                break
            if end < at + kept.end() and at + kept.start() > start:
                fits = measure(kept[0], self._unit) <= self._limit
                return at + kept.start() if fits else end
        return end

    def _beside_table(self, start: int, end: int, open_: Fence | Table | None) -> tuple[int, Table | None]:
        """Take an end within a table before the table, or say that its head is to be repeated."""
        table = self._table_at(start, end, open_ if isinstance(open_, Table) else None)
        if table is None:
            return end, None
        no_row = end <= table.begin + len(table.head)
        if table.begin > start and (no_row or self._fits_whole(table.begin)):
            return table.begin, None
        return end, table if measure(table.head, self._unit) <= self._limit // 3 else None

    def _table_at(self, start: int, end: int, open_: Table | None) -> Table | None:
        """Return the table that goes on at the beginning of a line."""
        if end >= len(self._text) or self._text[end - 1] != "\n" or not _is_row(self._line_at(end)):
            return None
        first = end
        while first > start:
            before = self._text.rfind("\n", start, first - 1) + 1 or start
            if not _is_row(self._text[before:first]):
                break
            first = before
        if first == start and open_ is not None:
            return open_
        head = self._line_at(first)
        rule = self._line_at(first + len(head))
        is_table = first < end and _DELIMITER.fullmatch(rule.rstrip("\r\n"))
        return Table(head + rule, first) if is_table else None

    def _line_at(self, at: int) -> str:
        return self._text[at : self._text.find("\n", at) + 1 or len(self._text)]

    def _fits_whole(self, at: int) -> bool:
        """Say whether the table that begins here fits into one chunk."""
        used = 0
        while at < len(self._text) and _is_row(line := self._line_at(at)):
            used += measure(line, self._unit)
            at += len(line)
            if used > self._limit:
                return False
        return True

    def _cut_code(
        self, start: int, at: int, budget: int, now: Fence, seen: _Seen, fence: Fence | None
    ) -> tuple[int, Fence | None]:
        block = seen.block if seen.block is not None and seen.block > start else None
        if block is not None and (self._whole(block) or seen.code_line is None or seen.code_line <= block):
            return block, None
        if seen.code_line is not None and seen.code_line > start:
            return seen.code_line, now
        # A line of code that is longer than a post: it is cut where it must.
        inner = max(budget - self._closing_size(now), 1)
        room = _fitting(self._text, start, inner, self._unit)
        end = max(_character_end(self._text, start, room), start + 1)
        return end, now if end > at or fence is not None else None

    def _whole(self, block: int) -> bool:
        """Say whether the code block that begins here fits into one chunk."""
        used, at, now = 0, block, None
        while at < len(self._text):
            end = self._text.find("\n", at, at + self._limit + 1) + 1 or self._line_end(at)
            line = self._text[at:end]
            used += measure(line, self._unit)
            if used > self._limit:
                return False
            now, at = fence_after(line, now), end
            if now is None:
                return True
        return now is None or used + self._closing_size(now) <= self._limit

    def _word(self, start: int, at: int, room: int) -> int | None:
        """The end of the last word of the over-long line that fits."""
        for place in range(room, at, -1):
            if self._text[place - 1].isspace():
                outside = self._outside(start, at, place)
                return outside if outside > at else None
        return None


def _is_row(line: str) -> bool:
    return "|" in line
