"""Queries that people write: one SELECT beside the writer, unable to harm it.

Each runs on a connection and in a thread of its own. Most end at once when they are
interrupted; a few of DuckDB's functions do not look up while they work on one value.
Such a one is left alone: its asker is told in time, and nobody waits for its thread.
"""

import asyncio
import json
import math
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Final, NamedTuple
from uuid import UUID

import duckdb
import psutil
import structlog

from messages.base import in_utc
from messages.settings import StoreSettings
from store.headroom import Headroom
from store.machine import memory_limit
from store.opening import open_beside
from store.processors import keep_one_free
from store.query_check import check
from store.readers import QueryError
from store.requests import Select

log = structlog.get_logger(__name__)

MOST_ROWS: Final = 1_000_000
MOST_BYTES: Final = 64 * 1024 * 1024
"""Of one answer as JSON."""

_AT_ONCE: Final = 2
"""Queries that run side by side; more wait, within their own time limit."""

_PATIENCE_S: Final = 2.0
_ROWS_AT_ONCE: Final = 200
_LOOK_EVERY_S: Final = 0.1
_MOST_UNACCOUNTED: Final = 512 * 1024 * 1024
"""Bytes that a query may make the process grow by outside of what DuckDB's own limit counts: long texts and lists."""

_SAFE_INTEGER: Final = 1 << 53


class Answer(NamedTuple):
    """What a query found. `json` is an object: `columns` (`name`, `type`), `rows` (lists), `truncated`.

    Values keep their meaning over JSON: integers beyond 2^53, decimals, times (UTC,
    ISO 8601), intervals, UUIDs and bytes (hexadecimal) are texts; `columns` has the type.
    `truncated` is null, or says why rows are missing.
    """

    json: bytes
    rows: int
    truncated: str | None


class Analyst:
    """Runs the queries of one database that this process has open."""

    def __init__(self, path: Path, settings: StoreSettings, headroom: Headroom) -> None:
        self._path = path
        self._settings = settings
        self._headroom = headroom
        self._running: set[Select] = set()
        self._threads: set[threading.Thread] = set()
        self._places: asyncio.Semaphore | None = None
        self._closed = False

    async def query(
        self,
        sql: str,
        params: Sequence[object] = (),
        *,
        timeout_s: float = 30.0,
        max_rows: int = 10_000,
    ) -> Answer:
        """Run one SELECT and return at most `max_rows` rows and 64 MB.

        Raises QueryError, with a text for whoever wrote the query: it is no SELECT,
        is wrong, may not run, took longer than `timeout_s`, or too much memory.
        """
        if self._closed:
            raise QueryError("the store is closed")
        values = [in_utc(value) if isinstance(value, datetime) else value for value in params]
        select = Select(sql, values, min(max_rows, MOST_ROWS))
        self._running.add(select)
        self._places = self._places or asyncio.Semaphore(_AT_ONCE)
        try:
            async with asyncio.timeout(timeout_s), self._places:
                thread = threading.Thread(
                    target=self._work, args=(select,), name="callboard-query", daemon=True
                )
                self._threads.add(thread)
                thread.start()
                return await select.future  # type: ignore[no-any-return]
        except TimeoutError:
            raise QueryError(f"the query took longer than {timeout_s:g} s and was stopped") from None
        finally:
            self._running.discard(select)
            if not select.future.done() or select.future.cancelled():
                select.interrupt()

    def halt(self) -> None:
        """Interrupt what runs: the database is being opened again, and every connection is in the way."""
        for select in tuple(self._running):
            select.interrupt(also_waiting=False)

    async def close(self) -> None:
        """Interrupt what runs, take nothing more, and wait a little for the threads to end.

        One that never looks up ends with the process.
        """
        self._closed = True
        for select in tuple(self._running):
            select.interrupt()
        loop = asyncio.get_running_loop()
        for thread in tuple(self._threads):
            await loop.run_in_executor(None, thread.join, _PATIENCE_S)

    def _work(self, select: Select) -> None:
        """In the query's own thread: answer it, whatever happens."""
        keep_one_free()
        try:
            answer: Answer | Exception = self._answer(select)
        except QueryError as error:
            answer = error
        except duckdb.Error as error:
            answer = QueryError(explained(error, self._settings))
        except Exception as error:  # noqa: BLE001 the edge of a thread: whoever asked is told
            log.error("a query has failed", error=repr(error))  # noqa: TRY400 the query is the user's
            answer = QueryError(f"the query cannot be answered: {error}")
        self._threads.discard(threading.current_thread())
        try:
            select.loop.call_soon_threadsafe(_settle, select.future, answer)
        except RuntimeError:
            log.debug("the loop of a query has closed")

    def _answer(self, select: Select) -> Answer:
        with self._headroom.taken(), open_beside(self._path, self._settings) as connection:
            if not select.begin(connection.interrupt):
                raise QueryError("nobody waits for this query any more")
            try:
                check(connection, select.sql)
                connection.execute("BEGIN TRANSACTION READ ONLY")
                with _memory_watched(connection) as overdrawn:
                    try:
                        connection.execute(select.sql, list(select.params))
                        return _fetched(connection, select.max_rows)
                    except duckdb.InterruptException:
                        if overdrawn():
                            raise QueryError(_TOO_MUCH_MEMORY) from None
                        raise QueryError("the query was stopped") from None
            finally:
                select.end()


def _settle(future: "asyncio.Future[Answer]", answer: Answer | Exception) -> None:
    if future.done():
        return
    if isinstance(answer, Exception):
        future.set_exception(answer)
    else:
        future.set_result(answer)


_TOO_MUCH_MEMORY: Final = (
    f"the query was stopped: it made texts or lists of more than {_MOST_UNACCOUNTED // 1024**2} MB in memory"
)


def explained(error: duckdb.Error, settings: StoreSettings) -> str:
    """Return DuckDB's message for the writer of the query: with the place, without advice that does not help here."""
    text = str(error).strip()
    if isinstance(error, duckdb.OutOfMemoryException):
        if "max_temp_directory_size" in text or "offload" in text:
            return (
                f"the query needs more disk than store.spill_limit ({settings.spill_limit}) allows; "
                "ask for less, or raise it"
            )
        return (
            f"the query needs more memory than store.memory_limit ({memory_limit(settings)}) allows; "
            "group or filter earlier, or raise it"
        )
    if isinstance(error, duckdb.InterruptException):
        return "the query was stopped"
    if isinstance(error, duckdb.PermissionException):
        first = text.splitlines()[0].removeprefix("Permission Error: ")
        return f"a query has no access to files or the network: {first}"
    if isinstance(error, duckdb.TransactionException) and "read-only" in text:
        return "a query can only read; it may not change anything"
    return text


# ------------------------------------------------------------------ memory


@contextmanager
def _memory_watched(connection: duckdb.DuckDBPyConnection) -> Iterator[Callable[[], bool]]:
    """Interrupt the connection when the process grows by what DuckDB does not count; yields whether that was so."""
    done, overdrawn = threading.Event(), threading.Event()
    beside = connection.cursor()
    process = psutil.Process()

    def accounted() -> int:
        row = beside.execute("SELECT sum(memory_usage_bytes)::BIGINT FROM duckdb_memory()").fetchone()
        return int((row[0] if row else 0) or 0)

    def watch(resident: int, counted: int) -> None:
        most = 0  # what was counted is freed bit by bit: for a second it still has its memory, and counts no more
        while not done.wait(_LOOK_EVERY_S):
            grown = process.memory_info().rss - resident
            # DuckDB is asked only when it matters: each look takes the interpreter from the loop.
            if grown - most > _MOST_UNACCOUNTED:
                most = max(most, accounted() - counted)
                if grown - most > _MOST_UNACCOUNTED:
                    overdrawn.set()
                    connection.interrupt()
                    return

    before = (process.memory_info().rss, accounted())
    watcher = threading.Thread(target=watch, args=before, name="callboard-query-memory", daemon=True)
    watcher.start()
    try:
        yield overdrawn.is_set
    finally:
        done.set()
        watcher.join()
        beside.close()


# ------------------------------------------------------------------ rows → JSON


def _fetched(connection: duckdb.DuckDBPyConnection, max_rows: int) -> Answer:
    described = connection.description or []
    columns = [{"name": str(column[0]), "type": str(column[1])} for column in described]
    if not columns:
        raise QueryError("this gives no rows")
    lines: list[str] = []
    size, truncated = 0, None
    while truncated is None and (rows := connection.fetchmany(_ROWS_AT_ONCE)):
        for row in rows:
            line = json.dumps([plain(value) for value in row], ensure_ascii=False, separators=(",", ":"))
            size += len(line) + 1
            if len(lines) == max_rows:
                truncated = f"the first {max_rows:,} rows; there are more (--limit)"
            elif size > MOST_BYTES:
                truncated = f"the first {len(lines):,} rows: more would be above {MOST_BYTES // 1024**2} MB"
            else:
                lines.append(line)
                continue
            break
    head = json.dumps({"columns": columns, "truncated": truncated}, ensure_ascii=False)
    body = f'{head[:-1]}, "rows": [' + ",\n".join(lines) + "]}"
    return Answer(body.encode("utf-8", "replace"), len(lines), truncated)


def _span(value: timedelta) -> str:
    sign, value = ("-", -value) if value < timedelta() else ("", value)
    hours, rest = divmod(value.seconds, 3600)
    days = f"{sign}{value.days} days " if value.days else ""
    text = f"{days}{sign}{hours:02}:{rest // 60:02}:{rest % 60:02}"
    return f"{text}.{value.microseconds:06}" if value.microseconds else text


def plain(value: object) -> object:
    """Return a value as JSON has it; see `Answer`."""
    match value:
        case None | bool() | str():
            return value
        case int():
            return value if -_SAFE_INTEGER <= value <= _SAFE_INTEGER else str(value)
        case float():
            return value if math.isfinite(value) else str(value)
        case datetime():
            if value.tzinfo is None:
                return value.isoformat(sep=" ")
            return value.astimezone(UTC).replace(tzinfo=None).isoformat(sep=" ") + "+00"
        case date() | time():
            return value.isoformat()
        case bytes() | bytearray():
            return value.hex()
        case list() | tuple():
            return [plain(each) for each in value]
        case dict():
            return {str(name): plain(each) for name, each in value.items()}
        case timedelta():
            return _span(value)
        case Decimal() | UUID():
            return str(value)
        case _:
            return str(value)
