"""Threads that read beside the writer, each on a connection of its own."""

import contextlib
from collections import defaultdict
from collections.abc import Awaitable, Callable, Iterator, Sequence
from concurrent.futures import Future
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Generic, NamedTuple, TypeVar

import duckdb
import pykka
import structlog

from messages.settings import StoreSettings
from store.codec import Codec, from_micros
from store.journal import JournalError, Recorded
from store.opening import is_fatal, open_beside
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
_MOST_TRIES = 2
"""So often may the store fall over one read; a query that makes it fall is not tried again."""

_MOST_FACTS = 20_000
"""Of one read query, so that a long history does not hold up short ones behind it."""

_NEWEST_IDS = 500_000
"""How far back the newest facts of a stream are looked for first: a scan of about 3 ms."""

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


SelectRows = Callable[..., Awaitable[Rows]]
"""`Store.select`, for whoever asks the history something of their own."""


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
        self._let_go(None)

    def on_failure(self, _type: object, error: BaseException | None, _traceback: object) -> None:
        log.error("a reader of the store has failed", reader=type(self).__name__, error=str(error))
        self._let_go(error or RuntimeError("a reader's thread ended"))

    def _let_go(self, error: BaseException | None) -> None:
        try:
            if self._opened is not None:
                self._opened.close()
        except duckdb.Error as worse:
            log.warning("a connection did not close in good order", error=str(worse))
        finally:
            if error is None:
                self._closed.set_result(None)
            else:
                self._closed.set_exception(error)

    def _serve(
        self, group: Sequence[RequestT], answers: Callable[[Sequence[RequestT]], list[Answer]]
    ) -> None:
        """Answer a group. What a fall of the store leaves unanswered is asked again, `_MOST_TRIES` times in all."""
        try:
            answered = answers(group)
        except Exception as error:
            if isinstance(error, duckdb.Error) and not is_fatal(error):
                refuse_all(group, f"the store could not read: {error}")
                return
            for request in group:
                request.tries += 1
            spent = [request for request in group if request.tries >= _MOST_TRIES]
            refuse_all(spent, f"reading the store has failed: {error}")
            raise
        answer_all(zip(group, answered, strict=True))

    def _put_back(self, requests: Sequence[RequestT]) -> None:
        """Let those that have no answer wait for the next reader."""
        left = [request for request in requests if not request.answered]
        if left:
            self._requests.put_back(left)


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
            try:
                for group in _groups(taken):
                    self._serve(group, self._answers)
            finally:
                self._put_back(taken)

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
            found = self._newest(read) if read.after else self._between(read, read.head.first_id)
        else:
            low = min(read.head.first_id for read in reads)
            high = max(read.head.last_id for read in reads)
            streams = list({read.stream for read in reads})
            found = self._connection().execute(_READ_MANY, [low, high, streams]).fetchall()
        lines: dict[str, list[_Line]] = defaultdict(list)
        for stream, *line in found:
            lines[stream].append(tuple(line))
        return lines

    def _between(self, read: ReadStream, low: int, high: int | None = None) -> list[Any]:
        window = [low, read.head.last_id if high is None else high]
        return self._connection().execute(_READ_ONE, [*window, read.stream, read.after]).fetchall()

    def _newest(self, read: ReadStream) -> list[Any]:
        """Read from the end backwards, in growing windows of ids, until all that are wanted are found.

        The last 50 facts of one of 10,000 sessions lie within a twentieth of its whole window.
        """
        wanted = read.head.seq - read.after
        found: list[Any] = []
        for low, high in windows_back(read.head.first_id, read.head.last_id, _NEWEST_IDS):
            found = [*self._between(read, low, high), *found]
            if len(found) >= wanted:
                break
        return found

    def _facts(self, read: ReadStream, lines: dict[str, list[_Line]]) -> Answer:
        decode, after, last = self._codec.decode, read.after, read.head.seq
        try:
            return tuple(
                Recorded(seq, decode(kind, v, text), from_micros(micros))
                for seq, kind, v, micros, text in lines.get(read.stream, ())
                if after < seq <= last
            )
        except JournalError as error:
            return error

    def _owed(self, request: ReadOwed) -> Answer:
        ids = request.ids
        found = self._connection().execute(_READ_OWED, [ids[0], ids[-1], list(ids)]).fetchall()
        return tuple(stream for (stream,) in found)


def windows_back(first: int, last: int, width: int) -> Iterator[tuple[int, int]]:
    """Yield windows of ids, both ends included, from the last to the first; each four times as wide as the one before."""
    while last >= first:
        low = max(first, last - width + 1)
        yield low, last
        last, width = low - 1, width * 4


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
            try:
                self._serve(taken, lambda selects: [self._run(selects[0])])
            finally:
                self._put_back(taken)

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
                with contextlib.suppress(duckdb.FatalException):  # that of the query itself is raised
                    connection.execute("ROLLBACK")
        except duckdb.Error as error:
            if is_fatal(error):
                select.tries = _MOST_TRIES
                raise
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
