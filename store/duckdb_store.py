"""The journal in DuckDB: a thread that owns the file, and the port that the loop awaits.

Appends wait in a queue. The actor takes all that wait, commits them in one
transaction with one fsync, and answers them with one call into the loop. While it
commits, the next ones gather: the busier the house, the larger the groups, and a
lonely append never waits for company.
"""

from collections.abc import Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from pathlib import Path
from typing import assert_never

import duckdb
import pykka
import structlog

from actors.clock import Clock
from messages.base import Message, in_utc
from messages.ids import StreamId
from messages.settings import StoreSettings
from store.codec import Codec
from store.heads import StreamHeads
from store.journal import Recorded
from store.meter import Meter
from store.requests import Append, ReadOwed, ReadStream, RequestQueue, WorkWaits, answer_all, refuse_all
from store.writer import Writer

log = structlog.get_logger(__name__)

_MOST_APPENDS = 200
"""In one transaction: about 5 ms of work, so that an append waits for two commits at most."""


@dataclass(frozen=True, slots=True)
class OpenStore:
    """Open the file; `heads` is completed with where its streams stand, or with a StoreOpenError."""

    heads: Future[StreamHeads]


@dataclass(frozen=True, slots=True)
class CheckpointNow:
    """Nothing is going on: move the log into the file."""


class StoreActor(pykka.ThreadingActor):
    """Owns the database file and its only writing connection. `closed` is completed when the file is let go."""

    use_daemon_thread = True

    def __init__(
        self,
        path: Path,
        settings: StoreSettings,
        clock: Clock,
        appends: RequestQueue[Append],
        meter: Meter,
        closed: Future[None],
    ) -> None:
        super().__init__()
        self._closed = closed
        self._path = path
        self._settings = settings
        self._clock = clock
        self._appends = appends
        self._meter = meter
        self._writer: Writer | None = None

    def on_receive(self, message: OpenStore | WorkWaits | CheckpointNow) -> None:
        match message:
            case OpenStore():
                self._open(message.heads)
            case WorkWaits():
                appends, left = self._appends.take(_MOST_APPENDS)
                self._commit(appends)
                if left:
                    self.actor_ref.tell(WorkWaits())  # behind whatever else came meanwhile
            case CheckpointNow():
                self._checkpoint()
            case _:
                assert_never(message)

    def on_stop(self) -> None:
        for append_group in _in_groups(self._appends.close("the store is closed"), _MOST_APPENDS):
            self._commit(append_group)
        self._let_go()

    def on_failure(self, _type: object, error: BaseException | None, _traceback: object) -> None:
        log.error("the store has failed", path=str(self._path), error=str(error))
        why = f"the store has failed: {error}"
        refuse_all(self._appends.close(why), why)
        self._let_go()

    def _open(self, heads: Future[StreamHeads]) -> None:
        try:
            self._writer = Writer(self._path, self._settings)
        except Exception as error:  # noqa: BLE001 whoever opens the store is told, whatever it is
            heads.set_exception(error)
            self.stop()
            return
        self._meter.opened(self._writer.last_id, self._writer.wal_bytes())
        self._appends.open(self.actor_ref)
        heads.set_result(self._writer.heads)

    def _commit(self, appends: Sequence[Append]) -> None:
        if not appends:
            return
        assert self._writer is not None
        began = self._clock.monotonic()
        try:
            outcomes = self._writer.commit(appends, in_utc(self._clock.now()))
        except Exception as error:
            refuse_all(appends, f"the store has failed: {error}")
            raise
        self._meter.committed(
            len(appends), self._clock.monotonic() - began, self._writer.last_id, self._writer.wal_bytes()
        )
        answer_all(zip(appends, outcomes, strict=True))

    def _checkpoint(self) -> None:
        assert self._writer is not None
        try:
            self._writer.checkpoint()
        except (
            duckdb.TransactionException
        ) as error:  # a reader holds an old snapshot; there is another moment
            log.debug("checkpoint put off", error=str(error))
        self._meter.checkpointed(self._writer.wal_bytes())

    def _let_go(self) -> None:
        if self._writer is not None:
            self._writer.close()
            self._writer = None
        self._closed.set_result(None)


class DuckDBJournal:
    """The journal as every loop in the process sees it. Outlives the actors that serve it."""

    def __init__(
        self, codec: Codec, appends: RequestQueue[Append], reads: RequestQueue[ReadStream | ReadOwed]
    ) -> None:
        self._codec = codec
        self._appends = appends
        self._reads = reads
        self._heads = StreamHeads()

    @property
    def streams(self) -> int:
        """How many streams have facts."""
        return len(self._heads)

    def attach(self, heads: StreamHeads) -> None:
        """Look streams up here from now on: a StoreActor has opened the file (again)."""
        self._heads = heads

    async def append(
        self, stream: StreamId, expected: int, facts: Sequence[Message], *, owing: bool = False
    ) -> tuple[Recorded, ...]:
        """Write facts; see `store.journal.Journal`."""
        request = Append(stream, expected, tuple(map(self._codec.encode, facts)), owing)
        self._appends.put(request)
        return await request.future  # type: ignore[no-any-return]

    async def read(self, stream: StreamId, after: int = 0) -> tuple[Recorded, ...]:
        """Return a stream's facts; see `store.journal.Journal`. A new stream costs no query."""
        head = self._heads.find(stream)
        if head is None or head.seq <= after:
            return ()
        request = ReadStream(stream, after, head)
        self._reads.put(request)
        return await request.future  # type: ignore[no-any-return]

    async def owed(self) -> tuple[StreamId, ...]:
        """Name the streams that owe something; see `store.journal.Journal`."""
        ids = self._heads.owing_ids()
        if not ids:
            return ()
        request = ReadOwed(ids)
        self._reads.put(request)
        return await request.future  # type: ignore[no-any-return]


def _in_groups(appends: Sequence[Append], size: int) -> list[Sequence[Append]]:
    return [appends[start : start + size] for start in range(0, len(appends), size)]
