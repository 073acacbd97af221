"""`callboard.env` in the data folder: secrets that `callboard platform add` was given, a `NAME=value` a line.

The real environment comes first: what is set there is never overridden. Lines that
begin with # are remarks; `export ` before a name and quotes around a value are left
out; nothing in a value is replaced.
"""

import os
import re
import stat
from collections.abc import Mapping
from pathlib import Path
from typing import Final

FILE: Final = "callboard.env"

_HEAD: Final = "# Secrets of Callboard, for its owner alone. The environment comes first; callboard.yaml names them as ${NAME}.\n"
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")
_ESCAPES: Final = {"\\": "\\", '"': '"', "n": "\n", "r": "\r", "t": "\t"}


def read_env(path: Path) -> dict[str, str]:
    """Return the variables of a file; none when there is no file, or it cannot be read."""
    try:
        text = path.read_text("utf-8-sig")
    except (OSError, UnicodeDecodeError):
        return {}
    return dict(found for line in text.splitlines() if (found := _variable(line)) is not None)


def _variable(line: str) -> tuple[str, str] | None:
    name, equals, value = line.strip().removeprefix("export ").partition("=")
    name = name.strip()
    if not equals or not _NAME.match(name):
        return None
    return name, _unquoted(value.strip())


def _unquoted(value: str) -> str:
    if len(value) >= 2 and value[0] == value[-1] == "'":
        return value[1:-1]
    if len(value) >= 2 and value[0] == value[-1] == '"':
        return re.sub(r"\\(.)", lambda found: _ESCAPES.get(found[1], found[0]), value[1:-1])
    return value


def quoted(value: str) -> str:
    """Return a value as it stands in the file. `read_env` reads it back, and so does a shell."""
    if value and re.fullmatch(r"[A-Za-z0-9_./:@%+,-]+", value):
        return value
    if "'" not in value and value.isprintable():
        return f"'{value}'"
    escaped = value.replace("\\", "\\\\").replace('"', '\\"')
    return '"' + escaped.replace("\n", "\\n").replace("\r", "\\r").replace("\t", "\\t") + '"'


def write_env(path: Path, variables: Mapping[str, str]) -> None:
    """Set variables in a file, and leave all other lines as they are. Mode 0600. Raises OSError."""
    try:
        lines = path.read_text("utf-8-sig").splitlines()
    except FileNotFoundError:
        lines = [_HEAD.rstrip("\n")]
    left = dict(variables)
    kept: list[str] = []
    for line in lines:
        found = _variable(line)
        if found is None or found[0] not in variables:
            kept.append(line)
        elif found[0] in left:
            kept.append(f"{found[0]}={quoted(left.pop(found[0]))}")
    kept += [f"{name}={quoted(value)}" for name, value in left.items()]
    write_private(path, "\n".join(kept) + "\n")


def write_private(path: Path, text: str, mode: int = 0o600) -> None:
    """Write a whole file or none of it; a link is followed to the file that it names. Raises OSError."""
    path = path.resolve()
    new = path.with_name(f".{path.name}.{os.getpid()}.new")
    new.unlink(missing_ok=True)
    handle = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, mode)
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            os.fchmod(file.fileno(), mode)
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        new.replace(path)
    except OSError:
        new.unlink(missing_ok=True)
        raise


def open_to_others(path: Path) -> bool:
    """Say whether other users may read or change a file that is there."""
    try:
        return bool(stat.S_IMODE(path.stat().st_mode) & 0o077)
    except OSError:
        return False
