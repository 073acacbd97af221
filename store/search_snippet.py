"""The part of a message that shows what was found. Pure."""

import bisect
import re

from messages.search import Mark
from store.search_text import Place

_BEFORE = 40
_BLANK = re.compile(r"[\s\x00]")


def snippet(text: str, places: list[Place], length: int) -> tuple[str, tuple[Mark, ...]]:
    """Return at most about `length` characters, on one line, around most of the places, and the marks in it."""
    start, end = _window(text, places, length)
    shown = _BLANK.sub(" ", text[start:end])
    bare = shown.lstrip()
    start += len(shown) - len(bare)
    before = "…" if start > 0 else ""
    after = "…" if end < len(text) else ""
    offset = start - len(before)
    bare = bare.rstrip()
    spans = [
        (place.start - offset, min(place.end, start + len(bare)) - offset)
        for place in places
        if start <= place.start < start + len(bare)
    ]
    return f"{before}{bare}{after}", tuple(Mark(start=a, end=b) for a, b in _joined(spans))


def _window(text: str, places: list[Place], length: int) -> tuple[int, int]:
    """Choose the window that shows the most different parts, and of those the first."""
    if len(text) <= length or not places:
        return 0, min(len(text), length)
    starts = [place.start for place in places]
    best, most = places[0], (0, 0)
    for at, place in enumerate(places[:500]):
        until = bisect.bisect_left(starts, place.start + length - _BEFORE, lo=at)
        worth = (len({p.part for p in places[at:until]}), min(until - at, 8))
        if worth > most:
            best, most = place, worth
    start = max(0, min(best.start - _BEFORE, len(text) - length))
    return _word_start(text, start, best.start), min(len(text), start + length)


def _word_start(text: str, start: int, no_later: int) -> int:
    """Move into the text, to where a word begins, unless there is none before what is shown."""
    if start == 0:
        return 0
    found = text.find(" ", start, no_later)
    return found + 1 if found >= 0 else start


def _joined(spans: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """Join marks that overlap or touch."""
    joined: list[tuple[int, int]] = []
    for start, end in sorted(spans):
        if joined and start <= joined[-1][1]:
            joined[-1] = (joined[-1][0], max(end, joined[-1][1]))
        else:
            joined.append((start, end))
    return joined
