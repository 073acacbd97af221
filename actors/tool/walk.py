"""Walks a folder of the workspace: sorted, without following links, within bounds."""

import os
import stat
from collections.abc import Container, Iterator
from dataclasses import dataclass
from pathlib import Path

from actors.tool.run import ToolError, ToolRun

MOST_ENTRIES = 500_000
UNINTERESTING = frozenset({".git", ".hg", ".svn", "node_modules", ".venv", "__pycache__"})
"""Folders of version control and installed packages: nobody means what is in them by "everything"."""


@dataclass(frozen=True, slots=True)
class Entry:
    """Something found below the folder."""

    below: str
    """Its path relative to the folder, as Python has it (with surrogate escapes)."""
    stat: os.stat_result

    @property
    def is_file(self) -> bool:
        return stat.S_ISREG(self.stat.st_mode)


def walk(run: ToolRun, base: Path, *, deep: bool, skip: Container[str] = frozenset()) -> Iterator[Entry]:
    """Give what is in a resolved folder; with `deep`, below it at any depth.

    What is in folders below it that are named in `skip` is left out.
    A folder that cannot be read is left out. Raises ToolError above half a million entries.
    """
    waiting = [""]
    seen = 0
    while waiting:
        run.check()
        folder = waiting.pop()
        folders = []
        for name, found in _listed(run, base / folder if folder else base):
            seen += 1
            if seen > MOST_ENTRIES:
                raise ToolError(f"There are more than {MOST_ENTRIES:,} files; name a folder further down.")
            below = f"{folder}/{name}" if folder else name
            if deep and stat.S_ISDIR(found.st_mode) and name not in skip:
                folders.append(below)
            yield Entry(below, found)
        waiting.extend(reversed(folders))


def _listed(run: ToolRun, folder: Path) -> list[tuple[str, os.stat_result]]:
    try:
        with run.workspace.directory(folder) as fd:
            names = sorted(os.listdir(fd))  # noqa: PTH208 a descriptor, not a path
            found = ((name, _lstat(name, fd)) for name in names)
            return [(name, result) for name, result in found if result is not None]
    except OSError:
        return []


def _lstat(name: str, folder: int) -> os.stat_result | None:
    try:
        return os.lstat(name, dir_fd=folder)
    except OSError:
        return None  # gone since it was listed
