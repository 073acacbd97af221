"""What goes into the search index, where the index is, and what can be wrong with it."""

import shutil
from pathlib import Path
from typing import NamedTuple

VERSION = 1
"""Goes up with every change of the index's fields, of the folding or of the splitting."""


class SearchIndexError(Exception):
    """The index cannot be written or read now; it may be possible later."""


class SearchIndexDamagedError(SearchIndexError):
    """The index is not what was written, or not of this database: it must be made anew."""


class Entry(NamedTuple):
    """A message on its way into the index."""

    id: int
    session_key: str
    session_id: str | None
    turn: int | None
    role: str
    author_id: str | None
    author_name: str | None
    text: str
    platform: str | None
    chat: str | None
    said_at_us: int
    """Microseconds since 1970, UTC."""
    audiences: tuple[str, ...]
    """Who may see it; see `store.search_audience`."""


def path_of(folder: Path) -> Path:
    """Return where in `folder` the index of this version is."""
    return folder / f"messages-{VERSION}"


def note_of(folder: Path) -> Path:
    """Return the file that says what was in the index when it was last left."""
    return path_of(folder) / "left.txt"


def erase(folder: Path) -> None:
    """Remove the index. One that is open must not be used any more."""
    shutil.rmtree(path_of(folder), ignore_errors=True)
