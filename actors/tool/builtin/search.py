"""Search in the files of the workspace."""

import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

from pydantic import Field

from actors.tool.output import binary_type, decode
from actors.tool.pattern import Pattern
from actors.tool.run import ToolError, ToolRun
from actors.tool.spec import Arguments, Isolation, WorkspacePath, tool
from actors.tool.walk import UNINTERESTING, walk
from actors.tool.workspace import OutsideWorkspaceError
from messages.tool import Effect

_LARGEST = 20 * 1024 * 1024
_LINE_SHOWN = 300


def _isolation(arguments: Arguments) -> Isolation:
    """A regular expression may compute for ever without a pause: then in a process that can be killed."""
    plain = arguments.get("literal", False) or re.escape(arguments["pattern"]) == arguments["pattern"]
    return "thread" if plain else "process"


@tool(toolset="files", effect=Effect.READ, timeout_s=30.0, isolation=_isolation)
def search_files(
    run: ToolRun,
    pattern: Annotated[str, Field(min_length=1, max_length=10_000)],
    path: WorkspacePath = ".",
    glob: str = "",
    literal: bool = False,
    ignore_case: bool = False,
    limit: Annotated[int, Field(ge=1, le=10_000)] = 200,
) -> str:
    """Search the text files of the workspace, line by line.

    Gives `path:line: text` for each line that matches. Folders of version control and of
    installed packages are left out unless `path` names one.

    Args:
        pattern: A regular expression (Python's), or the text itself with `literal`.
        path: The file or folder to search, relative to the workspace's root.
        glob: Search only files whose path matches, such as `*.py` (any folder) or `docs/**/*.md`.
        literal: Take the pattern as plain text.
        ignore_case: Let upper and lower case be the same.
        limit: How many lines to give at most.
    """
    base = run.workspace.resolve_for_reading(path)
    if glob:
        Pattern(glob).anchored(run.workspace, base)
    wanted = Pattern(glob if "/" in glob else f"**/{glob}") if glob else None
    matcher = _compile(pattern, literal=literal, ignore_case=ignore_case)
    if not base.exists():
        raise ToolError(f"{run.workspace.show(base)} is not there.")
    found = 0
    for shown, number, line in _matches(run, base, wanted, matcher):
        if found == limit:
            run.add(f"[stopped at {limit} lines: narrow the pattern or the path]\n")
            break
        run.add(f"{shown}:{number}: {line}\n")
        found += 1
    return run.partial().rstrip("\n") if found else "[nothing matches]"


def _compile(pattern: str, *, literal: bool, ignore_case: bool) -> re.Pattern[str]:
    try:
        return re.compile(re.escape(pattern) if literal else pattern, re.IGNORECASE if ignore_case else 0)
    except (re.error, RecursionError, OverflowError) as error:
        raise ToolError(
            f"The pattern is not a regular expression: {error}. `literal` takes it as text."
        ) from None


def _matches(
    run: ToolRun, base: Path, wanted: Pattern | None, matcher: re.Pattern[str]
) -> Iterator[tuple[str, int, str]]:
    if base.is_file():
        yield from _in_file(run, base, matcher)
        return
    for entry in walk(run, base, deep=True, skip=UNINTERESTING):
        if entry.is_file and (wanted is None or wanted.matches(entry.below)):
            yield from _in_file(run, base / entry.below, matcher)


def _in_file(run: ToolRun, path: Path, matcher: re.Pattern[str]) -> Iterator[tuple[str, int, str]]:
    run.check()
    try:
        fd = run.workspace.open_for_reading(path)
    except (OSError, OutsideWorkspaceError):
        return  # not readable, or gone since it was listed
    with os.fdopen(fd, "rb") as file:
        data = file.read(_LARGEST)
    if binary_type(data[:8192]) is not None:
        return
    shown = run.workspace.show(path)
    for number, line in enumerate(decode(data).splitlines(), 1):
        if number % 4096 == 0:
            run.check()
        match = matcher.search(line)
        if match is not None:
            yield shown, number, _around(line, match.start())


def _around(line: str, at: int) -> str:
    """Return a line, or of a long one the part around the match."""
    if len(line) <= _LINE_SHOWN:
        return line.strip()
    start = max(at - _LINE_SHOWN // 3, 0)
    end = start + _LINE_SHOWN
    return ("…" if start else "") + line[start:end] + ("…" if end < len(line) else "")
