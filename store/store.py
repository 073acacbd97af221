"""The store as the rest of the process sees it: open, journal, queries, figures, close."""

import asyncio
import contextlib
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, wait
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Any, Self, TypeVar

import duckdb
import pykka

from actors.clock import Alarm, Clock
from messages.base import in_utc
from messages.gateway import SessionSummary
from messages.ids import StreamId
from messages.settings import PriceSettings, StoreSettings
from store.analytics import furnish
from store.codec import CODEC, Codec
from store.duckdb_store import CLOSED, CopyTo, DoBetween, DuckDBJournal, OpenStore, StoreActor, Tidy, What
from store.headroom import Headroom
from store.heads import StreamHeads
from store.journal import Journal, JournalUnavailableError
from store.keeper import PATIENCE_S, Keeper
from store.meter import Meter
from store.opening import StoreOpenError, has_room, open_error, size_in_bytes
from store.query import Analyst, Answer
from store.readers import JournalReader, QueryError, Rows, SelectReader
from store.requests import Append, ReadOwed, ReadStream, RequestQueue, Select, refuse_all
from store.retention import purge

__all__ = ["QueryError", "Rows", "Store", "StoreOpenError"]

_SELECT_THREADS = 2
_TICK_S = 1.0
"""A moment is quiet when nothing was committed from one tick to the next."""

_QUIET_SHARE = 4
"""In a quiet moment the log is moved into the file from a quarter of `checkpoint_wal` on."""

_CALM_COMMITS = 50
"""A moment is calm when no more than this was committed since the last tick, and nothing waits.

In groups that never fall silent there is no quiet moment; what the log holds stays in memory
as rows. So a log of `checkpoint_wal` is moved in a calm one: somebody waits for 0.2 s then.
"""

_TRIM_EVERY_S = 30.0
"""How often, in a calm moment, memory is given back in which only pages of the file are kept."""

_EVERY_ROW = 1_000_000
_TITLE_CHARACTERS = 80

_SESSIONS = """
WITH newest AS (
    SELECT session_key, arg_max(session_id, id) AS session_id, max(id) AS id, max(opened_at) AS opened_at
    FROM sessions GROUP BY session_key
), spoken AS (
    SELECT session_key, count(*) FILTER (role IN ('user', 'assistant')) AS messages,
        max(said_at) AS last_at
    FROM messages GROUP BY session_key
), titles AS (
    SELECT m.session_key, coalesce(
        arg_max(m.text[8:207], m.id) FILTER (m.role = 'command' AND starts_with(m.text, '/title ')),
        arg_min(left(m.text, 200), m.id) FILTER (m.role = 'user')
    ) AS title
    FROM messages m JOIN newest n ON m.session_key = n.session_key AND m.id > n.id
    WHERE m.role IN ('user', 'command') GROUP BY m.session_key
), ended AS (
    SELECT session_key, count(*) AS turns FROM turns GROUP BY session_key
)
SELECT session_key, session_id, title, coalesce(messages, 0), coalesce(turns, 0),
    greatest(opened_at, last_at) AS last_at
FROM newest LEFT JOIN spoken USING (session_key) LEFT JOIN titles USING (session_key)
    LEFT JOIN ended USING (session_key)
ORDER BY last_at DESC, session_key
"""


Report = Callable[[What, str], None]
T = TypeVar("T")


class Store:
    """One open database file, its threads, and what may be asked of them.

    Made by `open` (blocking, before the loop has other work), then `start` on the
    loop; `close` writes what waits and lets the file go. Once started, it brings
    itself back after a fall, and requests wait for it.
    """

    def __init__(self, path: Path, settings: StoreSettings, clock: Clock, codec: Codec = CODEC) -> None:
        self._path = path
        self._settings = settings
        self._clock = clock
        self._codec = codec
        self._meter = Meter()
        self._appends: RequestQueue[Append] = RequestQueue()
        self._reads: RequestQueue[ReadStream | ReadOwed] = RequestQueue()
        self._selects: RequestQueue[Select] = RequestQueue()
        self._queues: tuple[RequestQueue[Any], ...] = (self._appends, self._reads, self._selects)
        self._running: set[Select] = set()
        self._headroom = Headroom(settings)
        self._trim_at = clock.monotonic() + _TRIM_EVERY_S
        self._analyst = Analyst(path, settings, self._headroom)
        self._journal = DuckDBJournal(codec, self._appends, self._reads)
        self._actors: list[tuple[pykka.ActorRef[Any], Future[None]]] = []
        self._alarm: Alarm | None = None
        self._commits_seen = self._commits_tidied = 0
        self._loop: asyncio.AbstractEventLoop | None = None
        self._keeper = Keeper(clock, self._reopen, self._report)
        self._notes: list[tuple[What, str]] = []
        self._on_report: Report | None = None
        self._closing = False

    @classmethod
    def open(
        cls,
        path: Path,
        settings: StoreSettings,
        clock: Clock,
        prices: Mapping[str, PriceSettings] | None = None,
    ) -> Self:
        """Open or make the database file. Blocks until it is usable. Raises StoreOpenError.

        `prices` are the operator's, for the table that costs are computed from; None leaves it as it is.
        """
        store = cls(path.absolute(), settings, clock)
        store._open()
        try:
            store._between(lambda connection: furnish(connection, prices)).result()
        except duckdb.Error as error:
            store._abandon()
            raise open_error(path, error) from error
        return store

    @property
    def journal(self) -> Journal:
        """The journal; usable from any loop of this process."""
        return self._journal

    @property
    def problem(self) -> str | None:
        """Why the store serves nothing now (not open, fallen, disk full, closed); None when all is well."""
        return next((queue.trouble for queue in self._queues if queue.trouble), None)

    async def start(self) -> None:
        """Look after the store from now on, on this loop: bring it back, and tidy up in quiet moments."""
        self._loop = asyncio.get_running_loop()
        self._commits_seen = self._meter.commits
        self._alarm = self._clock.call_later(_TICK_S, self._tick)
        for _, closed in self._actors:
            if closed.done():  # it fell before anybody looked
                self._thread_ended(closed)

    def report_to(self, report: Report) -> None:
        """Tell falls, rises and repairs to this one, on the loop; also those from before."""
        self._on_report = report
        notes, self._notes = self._notes, []
        for what, detail in notes:
            report(what, detail)

    async def select(
        self, sql: str, params: Sequence[object] = (), *, timeout_s: float = 30.0, max_rows: int = 10_000
    ) -> Rows:
        """Run one SELECT beside the writer: it can change nothing and reach no file.

        It is interrupted after `timeout_s` (waiting for its turn included) and when
        the caller is cancelled. Times come back in UTC. Raises QueryError, ValueError
        for a time without a zone, and JournalUnavailableError when the store is closed.
        """
        values = [in_utc(value) if isinstance(value, datetime) else value for value in params]
        request = Select(sql, values, max_rows)
        self._selects.put(request)
        self._running.add(request)
        try:
            async with asyncio.timeout(timeout_s):
                return await request.future  # type: ignore[no-any-return]
        except TimeoutError as error:
            raise QueryError(f"the query took longer than {timeout_s:g} s and was stopped") from error
        finally:
            self._running.discard(request)
            if request.future.cancelled():
                request.interrupt()

    async def query(
        self, sql: str, params: Sequence[object] = (), *, timeout_s: float = 30.0, max_rows: int = 10_000
    ) -> Answer:
        """Run what a person wrote, fenced in more tightly than `select`; see `store.query.Analyst`."""
        return await self._analyst.query(sql, params, timeout_s=timeout_s, max_rows=max_rows)

    async def sessions(self) -> tuple[SessionSummary, ...]:
        """Return every session key's newest conversation, the last active first, all as sleeping."""
        found = await self.select(_SESSIONS, max_rows=_EVERY_ROW)
        return tuple(_summary(row) for row in found.rows)

    def _between(self, work: Callable[[duckdb.DuckDBPyConnection], T]) -> Future[T]:
        """Have something done with the writer's connection, between two commits."""
        done: Future[T] = Future()
        writer, _ = self._actors[0]
        writer.tell(DoBetween(work, done))
        return done

    async def purge(self, streams: Sequence[StreamId]) -> int:
        """Delete for good what is void in these streams; see `store.retention`. Returns how many facts.

        Raises JournalUnavailableError when the store cannot do it now: it can be asked again.
        """
        if self.problem is not None:
            raise JournalUnavailableError(self.problem)
        deleted = 0
        for stream in streams:  # one by one, so that appends wait for one at most
            try:
                deleted += await asyncio.wrap_future(self._between(partial(purge, streams=(stream,))))
            except (duckdb.Error, pykka.ActorDeadError) as error:
                raise JournalUnavailableError(f"the store could not delete: {error}") from error
        return deleted

    async def copy_to(self, path: Path) -> int:
        """Write a whole, consistent copy into a new file; return its size in bytes.

        Appends wait while it is written. Raises OSError, duckdb.Error, JournalUnavailableError.
        """
        if self.problem is not None:
            raise JournalUnavailableError(self.problem)
        done: Future[int] = Future()
        writer, _ = self._actors[0]
        writer.tell(CopyTo(path, done))
        return await asyncio.wrap_future(done)

    def stats(self) -> dict[str, str | int | float]:
        """Return the store's figures: sizes in bytes, durations in milliseconds; `problem` is empty when well."""
        size = self._path.stat().st_size if self._path.exists() else 0
        return {
            "path": str(self._path),
            "problem": self.problem or "",
            "falls": self._meter.falls,
            "file_bytes": size,
            "streams": self._journal.streams,
            "appends_waiting": len(self._appends),
            **self._meter.figures(),
        }

    async def close(self) -> None:
        """Write what waits, stop the threads, let the file go. A second call does nothing."""
        self._closing = True
        if self._alarm is not None:
            self._alarm.cancel()
            self._alarm = None
        await self._keeper.stop()
        await self._analyst.close()
        for select in self._running:
            select.interrupt()
        refuse_all([*self._reads.close(CLOSED), *self._selects.close(CLOSED)], CLOSED)
        await self._end_threads()
        refuse_all(self._appends.close(CLOSED), CLOSED)

    # ------------------------------------------------------------------ the threads

    def _open(self) -> None:
        path, settings = self._path, self._settings
        ends: list[Future[None]] = [Future() for _ in range(_SELECT_THREADS + 2)]
        writer = StoreActor.start(
            path, settings, self._clock, self._appends, self._meter, ends[0], self._report_from_thread
        )
        heads: Future[StreamHeads] = Future()
        writer.tell(OpenStore(heads))
        self._journal.attach(heads.result())
        reader = JournalReader.start(path, settings, ends[1], self._reads, self._codec)
        selectors = [SelectReader.start(path, settings, end, self._selects) for end in ends[2:]]
        self._actors = list(zip((writer, reader, *selectors), ends, strict=True))
        for end in ends:
            end.add_done_callback(self._thread_ended)
        self._appends.open(writer)
        self._reads.open(reader)
        self._selects.open(*selectors)

    def _thread_ended(self, closed: Future[None]) -> None:
        """Called in the thread that ended, and on the loop for one that had ended before the start."""
        error = closed.exception()
        if error is None or self._closing:
            return
        why = f"the store has failed: {error}"
        if self._loop is None:  # nobody looks after it
            for queue in self._queues:
                refuse_all(queue.close(why), why)
            return
        for queue in self._queues:
            queue.pause(why)
        self._meter.fell()
        with contextlib.suppress(RuntimeError):  # the loop is closed
            self._loop.call_soon_threadsafe(self._keeper.fell, why)

    async def _end_threads(self) -> None:
        actors, self._actors = self._actors, []
        for ref, closed in reversed(actors):
            ref.stop(block=False)
            ended = asyncio.wrap_future(closed)
            await asyncio.wait([ended])
            ended.exception()  # it was told when it happened

    def _abandon(self) -> None:
        """End the threads of a store that cannot be used after all. Blocks."""
        self._closing = True
        actors, self._actors = self._actors, []
        for ref, closed in reversed(actors):
            ref.stop(block=False)
            wait([closed])

    async def _reopen(self) -> None:
        for select in self._running:
            select.interrupt(also_waiting=False)
        self._analyst.halt()
        await self._end_threads()
        opening = asyncio.get_running_loop().run_in_executor(None, self._open)
        try:
            await asyncio.shield(opening)
        except asyncio.CancelledError:
            await asyncio.wait([opening])  # what it opens is closed by whoever closes the store
            raise

    def _tick(self) -> None:
        self._alarm = self._clock.call_later(_TICK_S, self._tick)
        if self.problem is not None:
            for queue in self._queues:
                refuse_all(queue.tired(PATIENCE_S), f"{self.problem}; it was waited for {PATIENCE_S} s")
            if len(self._appends):
                self._appends.remind()
            else:
                self._look_for_room()
            return
        committed = self._meter.commits - self._commits_seen
        self._commits_seen = self._meter.commits
        if len(self._appends) or committed > _CALM_COMMITS:
            return
        share = 1 if committed else _QUIET_SHARE
        is_long = self._meter.wal_bytes * share >= size_in_bytes(self._settings.checkpoint_wal)
        if is_long or (not committed and self._commits_tidied != self._commits_seen):
            self._commits_tidied = self._commits_seen
            writer, _ = self._actors[0]
            with contextlib.suppress(pykka.ActorDeadError):  # the keeper hears of it
                writer.tell(Tidy(checkpoint=is_long))
        if self._clock.monotonic() >= self._trim_at:
            self._trim_at = self._clock.monotonic() + _TRIM_EVERY_S
            with contextlib.suppress(pykka.ActorDeadError):
                self._between(self._headroom.trim)

    def _look_for_room(self) -> None:
        """After a full disk, and when nothing waits that would tell, see whether there is room again."""
        if has_room(self._path.parent) and self._appends.calm():
            self._report("recovered", "there is room on the disk again")

    # ------------------------------------------------------------------ reports

    def _report_from_thread(self, what: What, detail: str) -> None:
        if self._loop is None:
            self._notes.append((what, detail))
        else:
            with contextlib.suppress(RuntimeError):  # the loop is closed
                self._loop.call_soon_threadsafe(self._report, what, detail)

    def _report(self, what: What, detail: str) -> None:
        if self._on_report is None:
            self._notes.append((what, detail))
        else:
            self._on_report(what, detail)


def _summary(row: Sequence[object]) -> SessionSummary:
    key, session_id, title, messages, turns, last_at = row
    return SessionSummary.model_validate(
        {
            "session_key": key,
            "session_id": session_id,
            "title": " ".join(str(title or "").split())[:_TITLE_CHARACTERS],
            "state": "sleeping",
            "messages": messages,
            "turns": turns,
            "last_at": last_at,
        }
    )
