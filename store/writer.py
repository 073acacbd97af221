"""Writes facts and the analyst's rows: many appends in one transaction, from one thread.

The writer alone gives out ids and knows each stream's last number, so it alone
can refuse a stale writer, and nothing in the tables has to be unique by an index.
"""

from collections.abc import Sequence
from datetime import datetime
from pathlib import Path

import duckdb
import structlog

from messages.settings import StoreSettings
from store import projection
from store.heads import EMPTY, Head, StreamHeads
from store.journal import JournalError, JournalUnavailableError, Recorded, StaleWriterError
from store.opening import open_database
from store.requests import Append

log = structlog.get_logger(__name__)

Outcome = tuple[Recorded, ...] | JournalError

_LOAD_HEADS = """
SELECT stream, max(seq), min(id), max(id), arg_max(owing, id) FROM facts GROUP BY stream
"""
_LOAD_CHUNK = 10_000


class StoreBrokenError(Exception):
    """DuckDB has given the database up: every connection must be closed and opened again."""


class Writer:
    """The only writer of a database file. All methods are for the thread that made it."""

    def __init__(self, path: Path, settings: StoreSettings) -> None:
        self._path = path
        self._wal = path.with_name(path.name + ".wal")
        self._connection = open_database(path, settings)
        self.heads = self._load_heads()
        row = self._connection.execute("SELECT max(id) FROM facts").fetchone()
        self._last_id: int = (row[0] if row else None) or 0
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

        An append that DuckDB cannot store fails alone. Raises StoreBrokenError
        when the database takes nothing any more; then nothing was written.
        """
        batch = _Batch(self.heads, self._last_id, now)
        outcomes = [batch.add(append) for append in appends]
        if not batch.rows["facts"]:
            return outcomes
        try:
            self._write(batch.rows)
        except duckdb.Error as error:
            self._undo()
            if isinstance(error, (duckdb.FatalException, duckdb.InternalException)):
                raise StoreBrokenError(str(error)) from error
            if len(appends) > 1:
                log.warning("a batch could not be stored and is tried one by one", error=str(error))
                return [outcome for append in appends for outcome in self.commit([append], now)]
            log.error("facts could not be stored", stream=appends[0].stream, error=str(error))  # noqa: TRY400
            return [JournalUnavailableError(f"the store could not write: {error}")]
        self._last_id = batch.last_id
        self.heads.put_all(batch.heads.items())
        return outcomes

    def checkpoint(self) -> None:
        """Move the log into the database file. Raises duckdb.Error."""
        self._connection.execute("CHECKPOINT")

    def close(self) -> None:
        """Close the file; what was committed stays."""
        self._appenders.clear()
        self._connection.close()

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
        found = self._connection.execute("SELECT approx_count_distinct(stream) FROM facts").fetchone()
        heads = StreamHeads(capacity=2 * (found[0] if found else 0) + 1024)
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
        for kind, v, text, fact in append.facts:
            seq += 1
            number += 1
            numbered.append((number, fact))
            recorded.append(Recorded(seq, fact, now))
            fact_rows.append((number, stream, seq, kind, v, now, owing, text))
        for table, row in projection.rows(stream, numbered):
            self.rows.setdefault(table, []).append(row)
        self.heads[stream] = Head(seq, head.first_id or self.last_id + 1, number, owing)
        self.last_id = number
        return tuple(recorded)
