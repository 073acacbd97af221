"""Threads that read beside the writer, each on a connection of its own."""

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Generic, NamedTuple, TypeVar

import duckdb
import pykka
import structlog

from messages.settings import StoreSettings
from store.codec import Codec
from store.journal import JournalError, Recorded
from store.opening import open_beside
from store.requests import (
    Answer,
    ReadOwed,
    ReadStream,
    Request,
    RequestQueue,
    Select,
    WorkWaits,
    answer_all,
    refuse_all,
)

log = structlog.get_logger(__name__)

RequestT = TypeVar("RequestT", bound=Request)

_MOST_READS = 256
_MOST_FACTS = 20_000
"""Of one read query, so that a long history does not hold up short ones behind it."""

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

_READ_ONE = """
SELECT stream, seq, kind, v, epoch_us(recorded_at), fact FROM facts
WHERE id BETWEEN ? AND ? AND stream = ? AND seq > ? ORDER BY id
"""
_READ_MANY = """
SELECT stream, seq, kind, v, epoch_us(recorded_at), fact FROM facts
WHERE id BETWEEN ? AND ? AND stream IN (SELECT unnest(?::VARCHAR[])) ORDER BY id
"""
_READ_OWED = """
SELECT stream FROM facts WHERE id BETWEEN ? AND ? AND id IN (SELECT unnest(?::BIGINT[])) ORDER BY id
"""

_Line = tuple[int, str, int, int, str]
"""(seq, kind, v, microseconds, text)"""


class QueryError(Exception):
    """A query was refused, failed, or took too long; the text is for whoever wrote it."""


class Rows(NamedTuple):
    """What a query found."""

    columns: tuple[str, ...]
    rows: tuple[tuple[object, ...], ...]
    truncated: bool = False
    """There were more rows than were asked for."""


class _Reader(pykka.ThreadingActor, Generic[RequestT]):
    """A thread with its own connection, opened when it is first needed. `closed` is completed at its end."""

    use_daemon_thread = True

    def __init__(
        self, path: Path, settings: StoreSettings, closed: Future[None], requests: RequestQueue[RequestT]
    ) -> None:
        super().__init__()
        self._requests = requests
        self._closed = closed
        self._path = path
        self._settings = settings
        self._opened: duckdb.DuckDBPyConnection | None = None

    def _connection(self) -> duckdb.DuckDBPyConnection:
        if self._opened is None:
            self._opened = open_beside(self._path, self._settings)
        return self._opened

    def on_stop(self) -> None:
        if self._opened is not None:
            self._opened.close()
        self._closed.set_result(None)

    def on_failure(self, _type: object, error: BaseException | None, _traceback: object) -> None:
        log.error("a reader of the store has failed", reader=type(self).__name__, error=str(error))
        why = f"reading the store has failed: {error}"
        refuse_all(self._requests.close(why), why)
        self.on_stop()

    def _serve(
        self, group: Sequence[RequestT], answers: Callable[[Sequence[RequestT]], list[Answer]]
    ) -> None:
        """Answer a group; when that is impossible, let nobody wait for it."""
        try:
            answered = answers(group)
        except duckdb.Error as error:
            refuse_all(group, f"the store could not read: {error}")
        except Exception as error:
            refuse_all(group, f"reading the store has failed: {error}")
            raise
        else:
            answer_all(zip(group, answered, strict=True))


class JournalReader(_Reader[ReadStream | ReadOwed]):
    """Reads streams: those that wait together are read by one query."""

    def __init__(
        self,
        path: Path,
        settings: StoreSettings,
        closed: Future[None],
        requests: RequestQueue[ReadStream | ReadOwed],
        codec: Codec,
    ) -> None:
        super().__init__(path, settings, closed, requests)
        self._codec = codec

    def on_receive(self, message: object) -> None:
        assert isinstance(message, WorkWaits)
        while taken := self._requests.take(_MOST_READS)[0]:
            for group in _groups(taken):
                self._serve(group, self._answers)

    def _answers(self, group: Sequence[ReadStream | ReadOwed]) -> list[Answer]:
        reads = [request for request in group if isinstance(request, ReadStream)]
        lines = self._lines(reads) if reads else {}
        return [
            self._owed(request) if isinstance(request, ReadOwed) else self._facts(request, lines)
            for request in group
        ]

    def _lines(self, reads: Sequence[ReadStream]) -> dict[str, list[_Line]]:
        if len(reads) == 1:
            (read,) = reads
            params = [read.head.first_id, read.head.last_id, read.stream, read.after]
            found = self._connection().execute(_READ_ONE, params).fetchall()
        else:
            low = min(read.head.first_id for read in reads)
            high = max(read.head.last_id for read in reads)
            streams = list({read.stream for read in reads})
            found = self._connection().execute(_READ_MANY, [low, high, streams]).fetchall()
        lines: dict[str, list[_Line]] = defaultdict(list)
        for stream, *line in found:
            lines[stream].append(tuple(line))
        return lines

    def _facts(self, read: ReadStream, lines: dict[str, list[_Line]]) -> Answer:
        decode, after, last = self._codec.decode, read.after, read.head.seq
        try:
            return tuple(
                Recorded(seq, decode(kind, v, text), _EPOCH + timedelta(microseconds=micros))
                for seq, kind, v, micros, text in lines.get(read.stream, ())
                if after < seq <= last
            )
        except JournalError as error:
            return error

    def _owed(self, request: ReadOwed) -> Answer:
        ids = request.ids
        found = self._connection().execute(_READ_OWED, [ids[0], ids[-1], list(ids)]).fetchall()
        return tuple(stream for (stream,) in found)


def _groups(requests: Sequence[ReadStream | ReadOwed]) -> Iterator[list[ReadStream | ReadOwed]]:
    """Split requests so that no group reads too many facts at once."""
    group: list[ReadStream | ReadOwed] = []
    facts = 0
    for request in requests:
        wanted = request.head.seq - request.after if isinstance(request, ReadStream) else 0
        if group and facts + wanted > _MOST_FACTS:
            yield group
            group, facts = [], 0
        group.append(request)
        facts += wanted
    yield group


class SelectReader(_Reader[Select]):
    """Runs SELECTs of the console and the command line, one at a time, unable to change anything."""

    def on_receive(self, message: object) -> None:
        assert isinstance(message, WorkWaits)
        while taken := self._requests.take(1)[0]:
            self._serve(taken, lambda selects: [self._run(selects[0])])

    def _run(self, select: Select) -> Rows | Exception:
        connection = self._connection()
        if not select.begin(connection.interrupt):
            return QueryError("nobody waits for this query any more")
        try:
            _check_statement(connection, select.sql)
            connection.execute("BEGIN TRANSACTION READ ONLY")
            try:
                connection.execute(select.sql, list(select.params))
                return _fetch(connection, select.max_rows)
            finally:
                connection.execute("ROLLBACK")
        except duckdb.Error as error:
            return QueryError(" ".join(str(error).split()))
        except QueryError as error:
            return error
        finally:
            select.end()


def _check_statement(connection: duckdb.DuckDBPyConnection, sql: str) -> None:
    statements = connection.extract_statements(sql)
    if len(statements) != 1:
        raise QueryError(f"a query is exactly one SELECT; this text has {len(statements)} statements")
    if statements[0].type not in (duckdb.StatementType.SELECT, duckdb.StatementType.EXPLAIN):
        raise QueryError(f"a query is exactly one SELECT; this is {statements[0].type.name}")


def _fetch(connection: duckdb.DuckDBPyConnection, max_rows: int) -> Rows:
    described = connection.description or []
    rows = connection.fetchmany(max_rows + 1)
    zoned = [place for place, column in enumerate(described) if "TIME ZONE" in str(column[1])]
    if zoned:
        rows = [_in_utc(row, zoned) for row in rows]
    return Rows(tuple(column[0] for column in described), tuple(rows[:max_rows]), len(rows) > max_rows)


def _in_utc(row: Sequence[object], zoned: Sequence[int]) -> tuple[object, ...]:
    values = list(row)
    for place in zoned:
        value = values[place]
        if isinstance(value, datetime):
            values[place] = value.astimezone(UTC)
    return tuple(values)
