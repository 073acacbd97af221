"""Path patterns: `*`, `?`, `[…]` within a name, `**` for any number of folders."""

import fnmatch
import re
from pathlib import Path

from actors.tool.names import read_name
from actors.tool.workspace import OutsideWorkspaceError, Workspace

_WILD = re.compile(r"[*?\[]")


class Pattern:
    """A pattern for paths relative to a folder."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._parts = [part for part in read_name(text).split("/") if part not in {"", "."}]
        self._names = [None if part == "**" else re.compile(fnmatch.translate(part)) for part in self._parts]

    @property
    def deep(self) -> bool:
        """Whether it can match below the folder itself."""
        return len(self._parts) > 1 or "**" in self._parts

    def anchored(self, workspace: Workspace, base: Path) -> tuple[Path, "Pattern"]:
        """Return the folder that the pattern's fixed beginning leads to, and what is left of it.

        Raises OutsideWorkspaceError for a pattern that leads out of the workspace.
        """
        fixed: list[str] = []
        wild = list(self._parts)
        while len(wild) > 1 and not _WILD.search(wild[0]):
            fixed.append(wild.pop(0))
        if ".." in wild or self._text.startswith("~") or "\x00" in self._text:
            raise OutsideWorkspaceError
        workspace.resolve(self._text)  # says no to what no tool takes, such as a URL
        if self._text.startswith("/"):
            return workspace.resolve("/" + "/".join(fixed)), Pattern("/".join(wild))
        return workspace.resolve(str(base.joinpath(*fixed))), Pattern("/".join(wild))

    def matches(self, path: str) -> bool:
        """Say whether a relative path matches as a whole."""
        reached = self._closure({0})
        for name in path.split("/"):
            step = set()
            for at in reached:
                if at < len(self._names):
                    matcher = self._names[at]
                    if matcher is None:
                        step.add(at)
                    elif matcher.match(name):
                        step.add(at + 1)
            reached = self._closure(step)
            if not reached:
                return False
        return len(self._names) in reached

    def _closure(self, places: set[int]) -> set[int]:
        """Add the places that `**` lets one reach without a name."""
        found = set(places)
        for at in sorted(places):
            while at < len(self._names) and self._names[at] is None:
                at += 1  # noqa: PLW2901 walking on from it
                found.add(at)
        return found
