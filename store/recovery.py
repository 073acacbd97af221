"""Opening after a fall: a damaged log, and facts that were acknowledged and are not there.

A log can be torn: cut short (DuckDB reads it without a word, up to the cut), or overwritten
(DuckDB refuses it and names a byte). Either way the mark (`store/mark.py`) says which facts
were acknowledged, and has those since the last checkpoint itself. So:

    ===============================================  ==========================================
    missing facts                                    what is done
    ===============================================  ==========================================
    none                                             nothing
    all of them are in the mark                      they are written again, under their ids
    at most `SMALL_GAP`, and the machine has been    goes on without them: an incident
    started anew since (the power was lost)
    more, or the whole database                      refuses to start; files untouched
    ===============================================  ==========================================

Before anything is changed, the files are set aside as they were found, as
`callboard.duckdb.damaged-<time>` and its `.wal`.
"""

import contextlib
import itertools
import os
import re
import shutil
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Literal, NamedTuple

import duckdb
import structlog

from messages.base import Message
from messages.ids import StreamId
from store import projection
from store.codec import CODEC
from store.journal import JournalError
from store.mark import MarkRead, NotedGroup, boot_id

log = structlog.get_logger(__name__)

SMALL_GAP = 100
"""Facts that a power loss may take without stopping the house."""

_CUT_AT_MOST = 1_000_000
"""Bytes of a log that are given up without a mark that says what was in them."""

MOST_CUTS = 3
"""How often a log is cut before it is given up."""

REMEDY = (
    "See `callboard store check`; then `callboard store restore BACKUP`, or `callboard store accept-loss`."
)


class StoreOpenError(Exception):
    """The store cannot be opened: `what` is wrong, and the `remedy`; one line each."""

    def __init__(self, what: str, remedy: str) -> None:
        super().__init__(f"{what} {remedy}")
        self.what = what
        self.remedy = remedy


class Note(NamedTuple):
    """Something to tell the operator about an opening; becomes an incident."""

    what: Literal["recovered", "degraded"]
    detail: str


@dataclass(slots=True)
class Damage:
    """What was found wrong with the files of a database, and where they were set aside."""

    path: Path
    now: datetime
    copies: tuple[Path, ...] = ()
    cut: int = 0
    """Bytes taken off the end of the log."""
    unreadable: bool = False
    """The whole log could not be read."""
    decided: bool = False
    """The house goes on with what there is: what was done to the files stays done."""
    notes: list[Note] = field(default_factory=list)

    @property
    def wal(self) -> Path:
        return wal_path(self.path)

    def set_aside(self) -> None:
        """Copy both files, as they are now, beside themselves. Once. Raises StoreOpenError."""
        if self.copies:
            return
        aside = self.path.with_name(f"{self.path.name}.damaged-{self.now:%Y%m%dT%H%M%S}")
        pairs = [(self.path, aside), (self.wal, wal_path(aside))]
        try:
            self.copies = tuple(copy_file(file, copy) for file, copy in pairs if file.exists())
        except OSError as error:
            raise StoreOpenError(
                f"{self.path} is damaged and cannot be set aside: {error.strerror}.",
                "Make room in its folder, then start again.",
            ) from error

    def put_back(self) -> None:
        """Unless it is decided to go on, undo what was done to the log: the files are as they were found."""
        if self.decided:
            return
        if self.cut or self.unreadable:
            for copy in self.copies:
                if copy.name.endswith(".wal"):
                    copy.replace(self.wal)
        for copy in self.copies:
            copy.unlink(missing_ok=True)
        self.copies = ()

    def where(self) -> str:
        """Say where the files as they were found are kept."""
        return f"the files as they were found are kept as {self.copies[0].name}" if self.copies else ""


@dataclass(frozen=True, slots=True)
class Missing:
    """Facts that the mark knows and the database does not have."""

    first_id: int
    last_id: int
    groups: tuple[NotedGroup, ...]
    """All of them, in order; () when the mark has not got all."""

    def __len__(self) -> int:
        return self.last_id - self.first_id + 1

    def streams(self) -> str:
        """Name the streams that they belong to, as far as known."""
        names = list(dict.fromkeys(append.stream for group in self.groups for append in group.appends))
        more = f" and {len(names) - 5} more" if len(names) > 5 else ""
        return ", ".join(names[:5]) + more


def wal_path(database: Path) -> Path:
    """Return where DuckDB keeps the write-ahead log of a database."""
    return database.with_name(database.name + ".wal")


def copy_file(file: Path, copy: Path) -> Path:
    """Copy a file, durably and for its owner alone; a copy that is there is whole. Raises OSError."""
    unfinished = copy.with_name(f"{copy.name}.part")
    try:
        shutil.copyfile(file, unfinished)
        with unfinished.open("rb+") as written:
            os.fsync(written.fileno())
        unfinished.chmod(0o600)
        unfinished.replace(copy)
    except OSError:
        unfinished.unlink(missing_ok=True)
        raise
    return copy


# ------------------------------------------------------------------ a log that DuckDB refuses


def mend_log(damage: Damage, error: duckdb.Error, mark: MarkRead | None, *, accept_loss: bool) -> bool:
    """Make a log readable that DuckDB has just refused; False when the error is about something else.

    It is cut at the byte that DuckDB names. Raises StoreOpenError, with the files as
    they were, when so much would be cut that only a person should decide it.
    """
    text = " ".join(str(error).split())
    if "replaying WAL" not in text and "WAL file" not in text:
        return False
    size = damage.wal.stat().st_size if damage.wal.exists() else 0
    found = re.search(r"byte position (\d+)", text)
    keep = min(int(found[1]), size) if found else 0
    if mark is None and not accept_loss and (not keep or size - keep > _CUT_AT_MOST):
        damage.put_back()
        raise StoreOpenError(f"The log {damage.wal} is damaged: {text[:200]}.", REMEDY)
    damage.set_aside()
    damage.cut += size - keep
    damage.unreadable = not keep
    if keep:
        os.truncate(damage.wal, keep)
    else:
        damage.wal.unlink(missing_ok=True)
    log.error(
        "the store's log is damaged and was cut", log=str(damage.wal), bytes=damage.cut, error=text[:300]
    )
    return True


# ------------------------------------------------------------------ facts that are not there


def find_missing(connection: duckdb.DuckDBPyConnection, mark: MarkRead | None) -> Missing | None:
    """Compare the database with the mark; None when nothing is missing."""
    if mark is None:
        return None
    last_id = newest_id(connection)
    if mark.last_id <= last_id:
        return None
    groups = mark.after(last_id) if mark.base <= last_id and _same_history(connection, mark, last_id) else ()
    missing = Missing(last_id + 1, mark.last_id, groups)
    complete = groups and groups[0].first_id <= last_id + 1 and _without_gaps(groups)
    return missing if complete else Missing(last_id + 1, mark.last_id, ())


def newest_id(connection: duckdb.DuckDBPyConnection) -> int:
    """Return the id of the newest fact; 0 for a database without facts, or without tables."""
    tables = connection.execute("SELECT 1 FROM duckdb_tables() WHERE table_name = 'facts'").fetchall()
    if not tables:
        return 0
    # All of it is fetched: what is left of a result would keep its transaction open, and checkpoints away.
    ((newest,),) = connection.execute("SELECT max(id) FROM facts").fetchall()
    return newest or 0


def _same_history(connection: duckdb.DuckDBPyConnection, mark: MarkRead, last_id: int) -> bool:
    """Whether the mark is this database's: where both know the newest fact, they agree on it."""
    group = mark.holding(last_id) if last_id else None
    if group is None:
        return True
    sql = "SELECT stream, seq, fact FROM facts WHERE id = ?"
    row = connection.execute(sql, [last_id]).fetchall()[0]
    for number, stream, seq, _, _, text, _ in _lines(group):
        if number == last_id:
            return row == (stream, seq, text)
    return False


def _without_gaps(groups: Sequence[NotedGroup]) -> bool:
    return all(later.first_id == earlier.last_id + 1 for earlier, later in itertools.pairwise(groups))


def judge(missing: Missing, damage: Damage, mark: MarkRead, *, accept_loss: bool) -> None:
    """Decide whether to go on. Raises StoreOpenError when not."""
    if missing.groups or accept_loss:
        return
    power_was_lost = mark.boot and mark.boot != boot_id()
    if power_was_lost and len(missing) <= SMALL_GAP:
        return
    raise StoreOpenError(
        f"{damage.path} has lost {len(missing):,} facts that were acknowledged"
        f" (numbers {missing.first_id:,} to {missing.last_id:,}).",
        REMEDY,
    )


def write_again(connection: duckdb.DuckDBPyConnection, missing: Missing) -> None:
    """Write the missing facts, and the rows that are derived from them, as they were. Raises duckdb.Error."""
    rows: dict[str, list[projection.Row]] = {"facts": []}
    for group in missing.groups:
        lines = [line for line in _lines(group) if line[0] >= missing.first_id]
        for number, stream, seq, kind, v, text, owing in lines:
            rows["facts"].append((number, stream, seq, kind, v, group.at, owing, text))
        for stream, numbered in _by_append(lines):
            for table, row in projection.rows(stream, numbered):
                rows.setdefault(table, []).append(row)
    connection.begin()
    try:
        for table, batch in rows.items():
            appender = connection.appender(table)
            appender.append_rows(batch)
            appender.flush()
        connection.commit()
    except duckdb.Error:
        with contextlib.suppress(duckdb.Error):
            connection.rollback()
        raise


_Line = tuple[int, str, int, str, int, str, bool]
"""(id, stream, seq, kind, v, text, owing)"""


def _lines(group: NotedGroup) -> list[_Line]:
    number, lines = group.first_id, []
    for append in group.appends:
        for seq, kind, v, text in append.lines:
            lines.append((number, append.stream, seq, kind, v, text, append.owing))
            number += 1
    return lines


def _by_append(lines: Sequence[_Line]) -> list[tuple[StreamId, list[tuple[int, Message]]]]:
    """Return the facts that this program can read, those of one stream that follow each other together."""
    found: list[tuple[StreamId, list[tuple[int, Message]]]] = []
    for number, stream, _, kind, v, text, _ in lines:
        try:
            fact = CODEC.decode(kind, v, text)
        except JournalError as error:
            log.warning("a fact is written again without its derived row", id=number, error=str(error))
            continue
        if not found or found[-1][0] != stream:
            found.append((StreamId(stream), []))
        found[-1][1].append((number, fact))
    return found


def say_what_happened(damage: Damage, missing: Missing | None) -> None:
    """Put what was found, and what was done about it, into the log and into notes."""
    parts = []
    if damage.cut:
        parts.append(f"the log was damaged, {damage.cut:,} bytes at its end were cut off")
    if missing is not None and missing.groups:
        parts.append(
            f"{len(missing):,} acknowledged facts were missing and were written again from the mark"
            f" ({missing.streams()})"
        )
    elif missing is not None:
        parts.append(
            f"{len(missing):,} ACKNOWLEDGED FACTS ARE LOST, numbers {missing.first_id:,} to {missing.last_id:,}"
        )
    if not parts:
        return
    if where := damage.where():
        parts.append(where)
    detail = "; ".join(parts)
    lost = missing is not None and not missing.groups
    (log.critical if lost else log.error)("the store was damaged", path=str(damage.path), detail=detail)
    damage.notes.append(Note("degraded" if lost else "recovered", detail))
