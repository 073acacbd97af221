"""The mark: what was acknowledged, noted outside the database.

DuckDB opens a log that was cut short without a word, with the facts before the cut.
So each group of facts is noted here before it is acknowledged: first of all the
number of its last fact, which every start compares with what the database holds; and
the facts themselves, so that those which the log has lost can be written again. The
file begins anew whenever the log has been moved into the database.

It is written without fsync, which costs a turn next to nothing (20 µs against 1 to 4 ms of
a commit), and is brought to the disk in quiet moments. It therefore survives
the death of the process at any instant. After a power loss it may be behind the
log, which is harmless; it can miss a loss only where the power loss took the newest
part of the mark together with the newest part of the log.

A line each: checksum, number of the last fact so far, JSON. Reading stops at the first
line that is not whole.
"""

import json
import os
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import NamedTuple

import structlog

from store.codec import from_micros, to_micros

log = structlog.get_logger(__name__)

_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")


class NotedAppend(NamedTuple):
    """The facts of one append: `lines` are (seq, kind, v, JSON text)."""

    stream: str
    owing: bool
    lines: Sequence[tuple[int, str, int, str]]


class NotedGroup(NamedTuple):
    """What one commit wrote: facts with the ids from `first_id` on."""

    first_id: int
    last_id: int
    at: datetime
    appends: Sequence[NotedAppend]


@dataclass(frozen=True, slots=True)
class MarkRead:
    """What a mark file says."""

    base: int
    """All facts up to this one are in the database file itself."""
    last_id: int
    """The newest acknowledged fact."""
    boot: str
    """The machine's start during which it was last written."""
    end: int
    """Where the whole lines end, in bytes."""
    groups: tuple[tuple[int, bytes], ...]
    """(last id, JSON) of each commit since `base`, in order."""

    def after(self, last_id: int) -> tuple[NotedGroup, ...]:
        """Return the groups with facts beyond this id, in order."""
        return tuple(_group(text, last) for last, text in self.groups if last > last_id)

    def holding(self, fact_id: int) -> NotedGroup | None:
        """Return the group that this fact was written in."""
        for last, text in self.groups:
            if last >= fact_id:
                group = _group(text, last)
                return group if group.first_id <= fact_id else None
        return None


def mark_path(database: Path) -> Path:
    """Return where the mark of a database is."""
    return database.with_suffix(".mark")


def boot_id() -> str:
    """Return the name of this start of the machine; empty where the system does not say."""
    try:
        return _BOOT_ID.read_text(encoding="ascii").strip()
    except OSError:
        return ""


def read_mark(path: Path) -> MarkRead | None:
    """Read a mark; None when there is none, or none that can be read."""
    try:
        content = path.read_bytes()
    except OSError:
        return None
    base, last_id, boot, end = -1, 0, "", 0
    groups: list[tuple[int, bytes]] = []
    for line in content.splitlines(keepends=True):
        parsed = _parse(line)
        if parsed is None:
            break
        last_id, text = parsed
        if text.startswith(b"{"):
            boot = str(json.loads(text)["boot"])
            base = last_id if base < 0 else base
        else:
            groups.append((last_id, text))
        end += len(line)
    return None if base < 0 else MarkRead(base, last_id, boot, end, tuple(groups))


def remove_mark(path: Path) -> None:
    """Forget what was acknowledged: the database is taken as it is from now on."""
    path.unlink(missing_ok=True)


class Mark:
    """The mark of an open database, written by the thread that writes the database. It never raises OSError.

    A mark that cannot be written (a full disk) protects nothing, harms nothing,
    and begins anew at the next checkpoint.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._file: int | None = None
        self._end = 0
        self._dirty = False

    def carry_on(self, read: MarkRead | None, last_id: int, *, log_is_empty: bool) -> None:
        """Go on with the file that was read at the start, or begin anew where it does not fit."""
        if read is None or log_is_empty or read.last_id != last_id:
            self.begin(last_id)
            return
        try:
            self._file = os.open(self._path, os.O_WRONLY)
            os.ftruncate(self._file, read.end)
            self._end = read.end
            self._write(_line(last_id, _boot_note()))
        except OSError as error:
            self._give_up(error)

    def begin(self, last_id: int) -> None:
        """Begin anew: everything up to this fact is in the database file itself."""
        self.close()
        beginning = self._path.with_name(self._path.name + ".new")
        try:
            self._file = os.open(beginning, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
            self._end = 0
            self._write(_line(last_id, _boot_note()))
            beginning.replace(self._path)
        except OSError as error:
            self._give_up(error)

    def note(self, group: NotedGroup) -> None:
        """Note what was just committed, before anybody is told."""
        if self._file is None:
            return
        content = [to_micros(group.at), group.first_id, group.appends]
        try:
            self._write(_line(group.last_id, json.dumps(content, separators=(",", ":")).encode()))
        except OSError as error:
            self._give_up(error)

    def sync(self) -> None:
        """Bring what was noted to the disk."""
        if self._file is None or not self._dirty:
            return
        try:
            os.fdatasync(self._file)
            self._dirty = False
        except OSError as error:
            self._give_up(error)

    def close(self) -> None:
        """Let the file go."""
        if self._file is not None:
            os.close(self._file)
            self._file = None

    def _write(self, line: bytes) -> None:
        assert self._file is not None
        self._dirty = True
        written = os.pwrite(self._file, line, self._end)
        if written != len(line):
            raise OSError("the file took only a part")
        self._end += written

    def _give_up(self, error: OSError) -> None:
        log.warning("the mark cannot be written", path=str(self._path), error=str(error))
        self.close()
        # An old mark beside a newer database says nothing wrong: only that it knows less.


def _boot_note() -> bytes:
    return json.dumps({"boot": boot_id()}).encode()


def _line(last_id: int, text: bytes) -> bytes:
    rest = b"%d %b" % (last_id, text)
    return b"%08x %b\n" % (zlib.crc32(rest), rest)


def _parse(line: bytes) -> tuple[int, bytes] | None:
    checksum, _, rest = line[:-1].partition(b" ")
    if not line.endswith(b"\n") or checksum != b"%08x" % zlib.crc32(rest):
        return None
    last_id, _, text = rest.partition(b" ")
    return int(last_id), text


def _group(text: bytes, last_id: int) -> NotedGroup:
    micros, first_id, appends = json.loads(text)
    return NotedGroup(first_id, last_id, from_micros(micros), [NotedAppend(*append) for append in appends])
