"""Writes facts and the analyst's rows: many appends in one transaction, from one thread.

The writer alone gives out ids and knows each stream's last number, so it alone
can refuse a stale writer, and nothing in the tables has to be unique by an index.
"""

import contextlib
import errno
from collections.abc import Callable, Sequence
from datetime import datetime
from pathlib import Path
from typing import TypeVar

import duckdb
import structlog

from actors.clock import Clock
from messages.settings import StoreSettings
from store import projection
from store.codec import from_micros
from store.heads import EMPTY, Head, StreamHeads
from store.journal import JournalError, JournalUnavailableError, Recorded, StaleWriterError
from store.mark import NotedAppend, NotedGroup
from store.opening import is_fatal, is_full, open_store
from store.recovery import copy_file, newest_id, wal_path
from store.requests import Append

log = structlog.get_logger(__name__)

T = TypeVar("T")

Outcome = tuple[Recorded, ...] | JournalError

_LOAD_HEADS = """
SELECT stream, max(seq), min(id), max(id), arg_max(owing, id) FROM facts GROUP BY stream
"""
_LOAD_CHUNK = 200


class StoreBrokenError(Exception):
    """DuckDB has given the database up: every connection must be closed and opened again."""


class StoreFullError(Exception):
    """There is no room on the disk. Nothing was written; with room, the same can be written again."""


_FIND = """
SELECT seq, kind, v, fact, epoch_us(recorded_at) FROM facts
WHERE id BETWEEN ? AND ? AND stream = ? AND seq > ? ORDER BY id LIMIT ?
"""


class Writer:
    """The only writer of a database file. All methods are for the thread that made it."""

    def __init__(self, path: Path, settings: StoreSettings, clock: Clock | None = None) -> None:
        self._path = path
        self._wal = wal_path(path)
        opened = open_store(path, settings, clock=clock)
        self._connection, self._mark, self.notes = opened.connection, opened.mark, opened.notes
        self._noted_wal = self.wal_bytes()
        self.heads = self._load_heads()
        self._last_id = newest_id(self._connection)
        self._appenders = {table: self._connection.appender(table) for table in ("facts", *projection.TABLES)}

    @property
    def last_id(self) -> int:
        """The id of the newest fact, which is also their number."""
        return self._last_id

    def wal_bytes(self) -> int:
        """Return the size of the write-ahead log."""
        try:
            return self._wal.stat().st_size
        except FileNotFoundError:
            return 0

    def commit(self, appends: Sequence[Append], now: datetime) -> list[Outcome]:
        """Write all appends in one transaction, durably; return each one's outcome, in order.

        An append that DuckDB cannot store fails alone. Raises StoreFullError (nothing was
        written), and StoreBrokenError when the database takes nothing any more; then
        `find` tells, after it was opened again, whether this was written.
        """
        batch = _Batch(self.heads, self._last_id, now)
        outcomes = [batch.add(append) for append in appends]
        if not batch.rows["facts"]:
            return outcomes
        try:
            self._write(batch.rows)
        except duckdb.Error as error:
            self._undo()
            if is_fatal(error):
                raise StoreBrokenError(str(error)) from error
            if is_full(error):
                raise StoreFullError(str(error)) from error
            if len(appends) > 1:
                log.warning("a batch could not be stored and is tried one by one", error=str(error))
                return [outcome for append in appends for outcome in self.commit([append], now)]
            log.error("facts could not be stored", stream=appends[0].stream, error=str(error))  # noqa: TRY400
            return [JournalUnavailableError(f"the store could not write: {error}")]
        self._note(NotedGroup(self._last_id + 1, batch.last_id, now, batch.noted))
        self._last_id = batch.last_id
        self.heads.put_all(batch.heads.items())
        return outcomes

    def find(self, append: Append) -> tuple[Recorded, ...] | None:
        """Return the places of an append that was written before the last fall; None when it was not."""
        head = self.heads.find(append.stream) or EMPTY
        if not append.facts or head.seq < append.expected + len(append.facts):
            return None
        params = [head.first_id, head.last_id, append.stream, append.expected, len(append.facts)]
        found = self._connection.execute(_FIND, params).fetchall()
        ours = [(fact.kind, fact.v, fact.text) for fact in append.facts]
        if [(kind, v, text) for _, kind, v, text, _ in found] != ours:
            return None
        return tuple(
            Recorded(seq, given.fact, from_micros(micros))
            for (seq, _, _, _, micros), given in zip(found, append.facts, strict=True)
        )

    def checkpoint(self) -> None:
        """Move the log into the database file. Raises duckdb.Error."""
        self._connection.execute("CHECKPOINT")
        self._noted_wal = self.wal_bytes()
        if not self._noted_wal:
            self._mark.begin(self._last_id)

    def copy_to(self, copy: Path) -> int:
        """Copy the database into one file; return its size. Raises OSError and duckdb.Error."""
        if copy.exists():
            raise FileExistsError(errno.EEXIST, "it is there already", str(copy))
        self.checkpoint()
        copy_file(self._path, copy)
        return copy.stat().st_size

    def between(self, work: Callable[[duckdb.DuckDBPyConnection], T]) -> T:
        """Let somebody else use the connection, and move what it wrote into the file at once. Raises duckdb.Error."""
        before = self.wal_bytes()
        try:
            done = work(self._connection)
        except duckdb.Error:
            with contextlib.suppress(duckdb.Error):
                self._connection.rollback()
            raise
        if self.wal_bytes() != before:
            with contextlib.suppress(duckdb.TransactionException):  # a reader is on its way; another moment
                self.checkpoint()
        return done

    def sync_mark(self) -> None:
        """Bring the mark to the disk."""
        self._mark.sync()

    def close(self) -> None:
        """Close the file; what was committed stays."""
        self._appenders.clear()
        self._connection.close()
        if not self.wal_bytes():
            self._mark.begin(self._last_id)
        self._mark.sync()
        self._mark.close()

    def _note(self, group: NotedGroup) -> None:
        """Note what is durable now. A log that is gone, or shorter, was moved into the file on the way."""
        wal = self.wal_bytes()
        if not wal or wal < self._noted_wal:
            self._mark.begin(group.last_id)
        else:
            self._mark.note(group)
        self._noted_wal = wal

    def _write(self, rows: dict[str, list[projection.Row]]) -> None:
        self._connection.begin()
        for table, batch in rows.items():
            appender = self._appenders[table]
            appender.append_rows(batch)
            appender.flush()
        self._connection.commit()

    def _undo(self) -> None:
        for appender in self._appenders.values():
            appender.clear()
        try:
            self._connection.rollback()
        except duckdb.Error as error:  # a failed commit has rolled back already
            log.debug("nothing was left to roll back", error=str(error))

    def _load_heads(self) -> StreamHeads:
        ((streams,),) = self._connection.execute("SELECT approx_count_distinct(stream) FROM facts").fetchall()
        heads = StreamHeads(capacity=2 * streams + 1024)
        cursor = self._connection.execute(_LOAD_HEADS)
        while chunk := cursor.fetchmany(_LOAD_CHUNK):
            heads.put_all(
                (stream, Head(seq, first, last, owing)) for stream, seq, first, last, owing in chunk
            )
        return heads


class _Batch:
    """Appends on their way into one transaction: a stream's second append counts on from its first."""

    def __init__(self, heads: StreamHeads, last_id: int, now: datetime) -> None:
        self._found = heads
        self._now = now
        self.last_id = last_id
        self.heads: dict[str, Head] = {}
        self.rows: dict[str, list[projection.Row]] = {"facts": []}
        self.noted: list[NotedAppend] = []

    def add(self, append: Append) -> Outcome:
        """Give the append its place, or say why it has none."""
        stream, owing, now = append.stream, append.owing, self._now
        head = self.heads.get(stream) or self._found.find(stream) or EMPTY
        if head.seq != append.expected:
            return StaleWriterError(stream, append.expected, head.seq)
        if not append.facts:
            return ()
        seq, number = head.seq, self.last_id
        numbered, recorded, fact_rows = [], [], self.rows["facts"]
        lines: list[tuple[int, str, int, str]] = []
        for kind, v, text, fact in append.facts:
            seq += 1
            number += 1
            numbered.append((number, fact))
            recorded.append(Recorded(seq, fact, now))
            fact_rows.append((number, stream, seq, kind, v, now, owing, text))
            lines.append((seq, kind, v, text))
        for table, row in projection.rows(stream, numbered):
            self.rows.setdefault(table, []).append(row)
        self.noted.append(NotedAppend(stream, owing, lines))
        self.heads[stream] = Head(seq, head.first_id or self.last_id + 1, number, owing)
        self.last_id = number
        return tuple(recorded)
