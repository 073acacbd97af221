"""Files in the workspace: read, write, edit, list."""

import os
import stat
from pathlib import Path
from typing import Annotated, BinaryIO

from pydantic import Field

from actors.tool.names import show_name
from actors.tool.output import binary_type, decode, whole_end
from actors.tool.pattern import Pattern
from actors.tool.run import ToolError, ToolRun
from actors.tool.spec import WorkspacePath, tool
from actors.tool.walk import UNINTERESTING, walk
from messages.tool import Effect

_PIECE = 1 << 20
_LARGEST_EDIT = 20 * 1024 * 1024
_ROOM_FOR_NOTES = 300
_COUNTED = 64 * 1024 * 1024


@tool(toolset="files")
def read_file(
    run: ToolRun,
    path: WorkspacePath,
    offset: Annotated[int, Field(ge=1)] = 1,
    limit: Annotated[int, Field(ge=1, le=100_000)] = 2000,
) -> str:
    """Read a text file of the workspace.

    Of a binary file, its type and size are told.

    Args:
        path: Of the file, relative to the workspace's root.
        offset: The line to begin with, counted from 1.
        limit: How many lines to read at most.
    """
    real = run.workspace.resolve_for_reading(path)
    with os.fdopen(_open(run, real), "rb") as file:
        size = os.fstat(file.fileno()).st_size
        start = file.read(8192)
        kind = binary_type(start)
        if kind is not None:
            return f"[binary file: {kind}, {size:,} bytes]"
        if start.startswith((b"\xff\xfe", b"\xfe\xff")):
            file.seek(0)
            return _of_text(decode(file.read(_COUNTED)), offset, limit)
        file.seek(3 if start.startswith(b"\xef\xbb\xbf") else 0)
        return _of_lines(run, file, offset, limit)


@tool(toolset="files", effect=Effect.WRITE, repeatable=True)
def write_file(run: ToolRun, path: WorkspacePath, content: str) -> str:
    """Write a whole text file in the workspace, new or in the place of the old one.

    Folders that are missing are made. To change a part of a file, use edit_file.

    Args:
        path: Of the file, relative to the workspace's root.
        content: All that the file shall hold.
    """
    real = run.workspace.resolve(path)
    data = content.encode("utf-8", "surrogateescape")
    with run.workspace.changing(real):
        run.check()
        _replace(run, real, data)
    return f"Wrote {len(data):,} bytes to {run.workspace.show(real)}."


@tool(toolset="files", effect=Effect.WRITE, repeatable=False)
def edit_file(
    run: ToolRun,
    path: WorkspacePath,
    old_text: Annotated[str, Field(min_length=1)],
    new_text: str,
    replace_all: bool = False,
) -> str:
    """Replace an exact piece of text in a file of the workspace.

    The old text must occur exactly once, spaces and line breaks included; give more of
    the lines around it to make it unique.

    Args:
        path: Of the file, relative to the workspace's root.
        old_text: What to replace, exactly as it stands in the file.
        new_text: What to put there.
        replace_all: Replace every occurrence instead.
    """
    if old_text == new_text:
        raise ToolError("old_text and new_text are the same: nothing to do.")
    real = run.workspace.resolve(path)
    with run.workspace.changing(real):
        text = _whole(run, real)
        count = text.count(old_text)
        if count == 0:
            raise ToolError(_not_found(text, old_text))
        if count > 1 and not replace_all:
            raise ToolError(
                f"old_text occurs {count} times, first in the lines {_where(text, old_text)}. "
                "Give more of the lines around it, or set replace_all."
            )
        run.check()
        _replace(run, real, text.replace(old_text, new_text).encode("utf-8", "surrogateescape"))
    done = "1 occurrence" if count == 1 else f"{count} occurrences"
    return f"Replaced {done} in {run.workspace.show(real)}."


@tool(toolset="files")
def list_files(
    run: ToolRun,
    path: WorkspacePath = ".",
    glob: str = "",
    limit: Annotated[int, Field(ge=1, le=10_000)] = 1000,
) -> str:
    """List a folder of the workspace; with a pattern, everything below it that matches.

    Folders end in `/`, links in `@`; files have their size in bytes. What is in folders of
    version control and of installed packages is listed only when `path` names one.

    Args:
        path: Of the folder, relative to the workspace's root.
        glob: A pattern such as `*.py`, `docs/*.md` or `**/*.txt`, relative to the folder.
        limit: How many entries to list at most.
    """
    base = run.workspace.resolve(path)
    pattern = Pattern(glob) if glob else None
    if pattern is not None:
        base, pattern = pattern.anchored(run.workspace, base)
    if not base.is_dir():
        raise ToolError(f"{run.workspace.show(base)} is {'a file' if base.exists() else 'not there'}.")
    found: list[str] = []
    more = 0
    for entry in walk(run, base, deep=pattern is not None and pattern.deep, skip=UNINTERESTING):
        if pattern is not None and not pattern.matches(entry.below):
            continue
        if len(found) < limit:
            found.append(_entry(entry.below, entry.stat))
        else:
            more += 1
    if not found:
        return "[nothing matches]" if pattern else "[the folder is empty]"
    return "\n".join(sorted(found)) + (f"\n[and {more:,} more]" if more else "")


def _open(run: ToolRun, path: Path) -> int:
    """Open a file for reading; what is wrong with it is told in the model's terms."""
    shown = run.workspace.show(path)
    try:
        return run.workspace.open_for_reading(path)
    except FileNotFoundError:
        raise ToolError(f"There is no file {shown}.") from None
    except IsADirectoryError:
        raise ToolError(f"{shown} is a folder; list_files lists it.") from None
    except NotADirectoryError:
        raise ToolError(f"There is no file {shown}: a part of the path is a file.") from None
    except OSError as error:
        raise ToolError(f"{shown} cannot be read: {error.strerror}.") from None


def _of_text(text: str, offset: int, limit: int) -> str:
    lines = text.splitlines(keepends=True)
    shown = "".join(lines[offset - 1 : offset - 1 + limit])
    end = min(offset - 1 + limit, len(lines))
    return shown if (offset, end) == (1, len(lines)) else f"{shown}\n[lines {offset}-{end} of {len(lines)}]"


def _of_lines(run: ToolRun, file: BinaryIO, offset: int, limit: int) -> str:
    """Show the lines asked for, as far as the budget goes, and say where to go on."""
    _skip_lines(run, file, offset - 1)
    room = run.result_bytes - _ROOM_FOR_NOTES
    shown, count = bytearray(), 0
    while count < limit and (line := file.readline(room - len(shown) + 1)):
        if len(shown) + len(line) > room:
            return _cut_short(shown, line, offset, count)
        shown += line
        count += 1
    if count == 0 and offset > 1:
        raise ToolError(f"The file has {offset - 1} lines; there is no line {offset}.")
    left = _lines_left(run, file)
    if offset == 1 and left == 0:
        return decode(bytes(shown)) or "[the file is empty]"
    last = offset + count - 1
    total = "more" if left is None else f"{last + left:,}"
    return _with_note(shown, offset, last, total, None if left == 0 else last + 1)


def _skip_lines(run: ToolRun, file: BinaryIO, count: int) -> None:
    skipped = 0
    while skipped < count:
        piece = file.readline(_PIECE)
        if not piece:
            raise ToolError(f"The file has {skipped} lines; there is no line {count + 1}.")
        skipped += piece.endswith(b"\n")
        if skipped % 4096 == 0:
            run.check()


def _lines_left(run: ToolRun, file: BinaryIO) -> int | None:
    """Count the lines that follow; None when there are too many to count."""
    count, last = 0, b"\n"
    for _ in range(_COUNTED // _PIECE):
        run.check()
        piece = file.read(_PIECE)
        if not piece:
            return count + (not last.endswith(b"\n"))
        count += piece.count(b"\n")
        last = piece
    return None


def _cut_short(shown: bytearray, line: bytes, offset: int, count: int) -> str:
    if shown:
        return _with_note(shown, offset, offset + count - 1, "more", offset + count)
    part = whole_end(line[:-1])
    return (
        f"{decode(part)}\n[line {offset} is longer than a result may be: "
        f"its first {len(part):,} bytes are shown; go on with offset={offset + 1}]"
    )


def _with_note(shown: bytearray, first: int, last: int, total: str, go_on: int | None) -> str:
    more = "" if go_on is None else f"; go on with offset={go_on}"
    end = "" if shown.endswith(b"\n") else "\n"
    return f"{decode(bytes(shown))}{end}[lines {first}-{last} of {total}{more}]"


def _whole(run: ToolRun, path: Path) -> str:
    """Return a whole file; bytes that are not UTF-8 survive as surrogate escapes."""
    with os.fdopen(_open(run, path), "rb") as file:
        data = file.read(_LARGEST_EDIT + 1)
    if len(data) > _LARGEST_EDIT:
        raise ToolError(f"The file is larger than {_LARGEST_EDIT:,} bytes; edit it with a command.")
    return data.decode("utf-8", "surrogateescape")


def _replace(run: ToolRun, path: Path, data: bytes) -> None:
    shown = run.workspace.show(path)
    try:
        run.workspace.replace(path, data)
    except IsADirectoryError:
        raise ToolError(f"{shown} is a folder.") from None
    except NotADirectoryError:
        raise ToolError(f"{shown} cannot be written: a part of the path is a file.") from None
    except OSError as error:
        raise ToolError(f"{shown} cannot be written: {error.strerror}.") from None


def _not_found(text: str, old_text: str) -> str:
    if "\r\n" in text and old_text.replace("\r\n", "\n") in text.replace("\r\n", "\n"):
        return "old_text does not occur: the file's lines end in \\r\\n, those of old_text in \\n."
    if old_text.strip() and old_text.strip() in text:
        return "old_text does not occur with exactly these spaces and line breaks around it."
    return "old_text does not occur in the file. Read the file and give the text exactly as it stands there."


def _where(text: str, old_text: str) -> str:
    lines: list[str] = []
    at = text.find(old_text)
    while at >= 0 and len(lines) < 3:
        lines.append(str(text.count("\n", 0, at) + 1))
        at = text.find(old_text, at + len(old_text))
    return ", ".join(lines)


def _entry(below: str, found: os.stat_result) -> str:
    if stat.S_ISDIR(found.st_mode):
        return f"{show_name(below)}/"
    if stat.S_ISLNK(found.st_mode):
        return f"{show_name(below)}@"
    return f"{show_name(below)}  {found.st_size}"
