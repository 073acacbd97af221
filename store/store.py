"""The store as the rest of the process sees it: open, journal, queries, figures, close."""

import asyncio
from collections.abc import Sequence
from concurrent.futures import Future
from datetime import datetime
from pathlib import Path
from typing import Any, Self

import pykka

from actors.clock import Alarm, Clock
from messages.base import in_utc
from messages.gateway import SessionSummary
from messages.settings import StoreSettings
from store.codec import CODEC, Codec
from store.duckdb_store import CheckpointNow, DuckDBJournal, OpenStore, StoreActor
from store.heads import StreamHeads
from store.journal import Journal
from store.meter import Meter
from store.opening import StoreOpenError, size_in_bytes
from store.readers import JournalReader, QueryError, Rows, SelectReader
from store.requests import Append, ReadOwed, ReadStream, RequestQueue, Select, refuse_all

__all__ = ["QueryError", "Rows", "Store", "StoreOpenError"]

_SELECT_THREADS = 2
_TICK_S = 1.0
"""A moment is quiet when nothing was committed from one tick to the next."""

_QUIET_SHARE = 4
"""In a quiet moment the log is moved into the file from a quarter of `checkpoint_wal` on."""

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
    SELECT m.session_key, arg_min(left(m.text, 200), m.id) AS title
    FROM messages m JOIN newest n ON m.session_key = n.session_key AND m.id > n.id
    WHERE m.role = 'user' GROUP BY m.session_key
), ended AS (
    SELECT session_key, count(*) AS turns FROM turns GROUP BY session_key
)
SELECT session_key, session_id, title, coalesce(messages, 0), coalesce(turns, 0),
    greatest(opened_at, last_at) AS last_at
FROM newest LEFT JOIN spoken USING (session_key) LEFT JOIN titles USING (session_key)
    LEFT JOIN ended USING (session_key)
ORDER BY last_at DESC, session_key
"""


class Store:
    """One open database file, its threads, and what may be asked of them.

    Made by `open` (blocking, before the loop has other work), then `start` on the
    loop; `close` writes what waits and lets the file go.
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
        self._running: set[Select] = set()
        self._journal = DuckDBJournal(codec, self._appends, self._reads)
        self._actors: list[tuple[pykka.ActorRef[Any], Future[None]]] = []
        self._alarm: Alarm | None = None
        self._commits_seen = 0

    @classmethod
    def open(cls, path: Path, settings: StoreSettings, clock: Clock) -> Self:
        """Open or make the database file. Blocks until it is usable. Raises StoreOpenError."""
        store = cls(path.absolute(), settings, clock)
        store._open()
        return store

    @property
    def journal(self) -> Journal:
        """The journal; usable from any loop of this process."""
        return self._journal

    @property
    def problem(self) -> str | None:
        """Why the store takes nothing now (not open, failed, closed); None when all is well."""
        return self._appends.refusal or self._reads.refusal or self._selects.refusal

    async def start(self) -> None:
        """Begin to look for quiet moments, on this loop, to tidy the file in."""
        self._commits_seen = self._meter.commits
        self._alarm = self._clock.call_later(_TICK_S, self._tick)

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

    async def sessions(self) -> tuple[SessionSummary, ...]:
        """Return every session key's newest conversation, the last active first, all as sleeping."""
        found = await self.select(_SESSIONS, max_rows=_EVERY_ROW)
        return tuple(_summary(row) for row in found.rows)

    def stats(self) -> dict[str, str | int | float]:
        """Return the store's figures: sizes in bytes, durations in milliseconds."""
        size = self._path.stat().st_size if self._path.exists() else 0
        return {
            "path": str(self._path),
            "file_bytes": size,
            "streams": self._journal.streams,
            "appends_waiting": len(self._appends),
            **self._meter.figures(),
        }

    async def close(self) -> None:
        """Write what waits, stop the threads, let the file go. A second call does nothing."""
        if self._alarm is not None:
            self._alarm.cancel()
            self._alarm = None
        for select in self._running:
            select.interrupt()
        refuse_all(
            [*self._reads.close("the store is closed"), *self._selects.close("the store is closed")],
            "the store is closed",
        )
        actors, self._actors = self._actors, []
        for ref, closed in reversed(actors):
            ref.stop(block=False)
            await asyncio.wrap_future(closed)

    def _open(self) -> None:
        path, settings = self._path, self._settings
        ends: list[Future[None]] = [Future() for _ in range(_SELECT_THREADS + 2)]
        writer = StoreActor.start(path, settings, self._clock, self._appends, self._meter, ends[0])
        heads: Future[StreamHeads] = Future()
        writer.tell(OpenStore(heads))
        self._journal.attach(heads.result())
        reader = JournalReader.start(path, settings, ends[1], self._reads, self._codec)
        selectors = [SelectReader.start(path, settings, end, self._selects) for end in ends[2:]]
        self._reads.open(reader)
        self._selects.open(*selectors)
        self._actors = list(zip((writer, reader, *selectors), ends, strict=True))

    def _tick(self) -> None:
        quiet = self._meter.commits == self._commits_seen and not len(self._appends)
        self._commits_seen = self._meter.commits
        if quiet and self._meter.wal_bytes * _QUIET_SHARE >= size_in_bytes(self._settings.checkpoint_wal):
            writer, _ = self._actors[0]
            writer.tell(CheckpointNow())
        self._alarm = self._clock.call_later(_TICK_S, self._tick)


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
