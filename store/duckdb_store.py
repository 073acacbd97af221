"""The journal in DuckDB: a thread that owns the file, and the port that the loop awaits.

Appends wait in a queue. The actor takes all that wait, commits them in one
transaction with one fsync, and answers them with one call into the loop. While it
commits, the next ones gather: the busier the house, the larger the groups, and a
lonely append never waits for company.
"""

from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, assert_never

import duckdb
import pykka
import structlog

from actors.clock import Clock
from messages.base import Message, in_utc
from messages.ids import StreamId
from messages.settings import StoreSettings
from store.codec import Codec
from store.heads import StreamHeads
from store.journal import JournalUnavailableError, Recorded
from store.meter import Meter
from store.requests import Append, ReadOwed, ReadStream, RequestQueue, WorkWaits, answer_all
from store.writer import Outcome, StoreFullError, Writer

log = structlog.get_logger(__name__)

_MOST_APPENDS = 200
"""In one transaction: about 5 ms of work, so that an append waits for two commits at most."""


_MOST_TRIES = 3
"""So often may the store fall over one append; then it is refused, once it is known not to be written."""

CLOSED = "the store is closed"

What = Literal["crashed", "restarted", "degraded", "recovered"]
"""What is reported of the store; see `messages.system.IncidentHappened`."""


@dataclass(frozen=True, slots=True)
class OpenStore:
    """Open the file; `heads` is completed with where its streams stand, or with a StoreOpenError."""

    heads: Future[StreamHeads]


@dataclass(frozen=True, slots=True)
class Tidy:
    """Nothing is going on: bring the mark to the disk and, when told to, move the log into the file."""

    checkpoint: bool


@dataclass(frozen=True, slots=True)
class CopyTo:
    """Write a copy of the whole database to this new file; `done` is completed with its size in bytes."""

    path: Path
    done: Future[int]


@dataclass(frozen=True, slots=True)
class DoBetween:
    """Do this with the writer's own connection, between two commits; `done` is completed with what it returns.

    It must leave no transaction open. The facts that it may delete are those that a
    later `history_erased` of their stream has made void.
    """

    work: Callable[[duckdb.DuckDBPyConnection], object]
    done: Future[Any]


StoreMessage = OpenStore | WorkWaits | Tidy | CopyTo | DoBetween


class StoreActor(pykka.ThreadingActor):
    """Owns the database file and its only writing connection.

    `closed` is completed when the file is let go: with the error that the actor died
    of, or with None. Appends that it could not answer then are in their queue again.
    """

    use_daemon_thread = True

    def __init__(
        self,
        path: Path,
        settings: StoreSettings,
        clock: Clock,
        appends: RequestQueue[Append],
        meter: Meter,
        closed: Future[None],
        report: Callable[[What, str], None],
    ) -> None:
        super().__init__()
        self._closed = closed
        self._path = path
        self._settings = settings
        self._clock = clock
        self._appends = appends
        self._meter = meter
        self._report = report
        self._writer: Writer | None = None

    def on_receive(self, message: StoreMessage) -> None:
        match message:
            case OpenStore():
                self._open(message.heads)
            case WorkWaits():
                appends, left = self._appends.take(_MOST_APPENDS)
                if self._commit(appends) and left:
                    self.actor_ref.tell(WorkWaits())  # behind whatever else came meanwhile
            case Tidy():
                self._tidy(message)
            case CopyTo():
                self._copy(message)
            case DoBetween():
                self._do_between(message)
            case _:
                assert_never(message)

    def on_stop(self) -> None:
        if self._writer is not None and self._appends.trouble is None:  # else they wait for another one
            for append_group in _in_groups(self._appends.close(CLOSED), _MOST_APPENDS):
                if not self._commit(append_group):
                    break
        self._let_go(None)

    def on_failure(self, _type: object, error: BaseException | None, _traceback: object) -> None:
        log.error("the store has failed", path=str(self._path), error=str(error))
        self._let_go(error or RuntimeError("the store's thread ended"))

    def _open(self, heads: Future[StreamHeads]) -> None:
        try:
            self._writer = Writer(self._path, self._settings, self._clock)
        except Exception as error:  # noqa: BLE001 whoever opens the store is told, whatever it is
            heads.set_exception(error)
            self.stop()
            return
        self._meter.opened(self._writer.last_id, self._writer.wal_bytes())
        for note in self._writer.notes:
            self._report(note.what, note.detail)
        heads.set_result(self._writer.heads)

    def _commit(self, appends: Sequence[Append]) -> bool:
        """Write a group and answer it. What cannot be answered waits in the queue again; False: the disk is full."""
        full: str | None = None
        try:
            for append in appends:
                if append.tries:  # alone: one that the store cannot bear must not take others with it
                    self._commit_together([append])
            self._commit_together([append for append in appends if not append.tries])
        except StoreFullError as error:
            full = self._say_full(error)
        finally:
            left = [append for append in appends if not append.answered]
            if left:
                self._appends.put_back(left, full)
        return full is None

    def _commit_together(self, appends: Sequence[Append]) -> None:
        """Write these in one transaction, and answer them."""
        if not appends:
            return
        assert self._writer is not None
        began = self._clock.monotonic()
        try:
            outcomes = self._outcomes(self._writer, appends)
        except StoreFullError:
            raise
        except Exception:
            for append in appends:
                append.tries += 1
            raise
        self._meter.committed(
            len(appends), self._clock.monotonic() - began, self._writer.last_id, self._writer.wal_bytes()
        )
        if self._appends.served():
            log.info("there is room on the disk again", path=str(self._path))
            self._report("recovered", "there is room on the disk again")
        answer_all(zip(appends, outcomes, strict=True))

    def _outcomes(self, writer: Writer, appends: Sequence[Append]) -> Sequence[Outcome]:
        """Write, unless it is already written: by an earlier try whose outcome nobody could tell."""
        (first, *_) = appends
        if first.tries:
            found = writer.find(first)
            if found is not None:
                return [found]
            if first.tries >= _MOST_TRIES:
                return [JournalUnavailableError(f"the store fell {first.tries} times while it wrote this")]
        return writer.commit(appends, in_utc(self._clock.now()))

    def _say_full(self, error: StoreFullError) -> str:
        """Say it once; whoever looks after the store reminds us of what waits for room."""
        folder = self._path.parent
        if self._appends.trouble is None:
            log.error("the disk is full; appends wait for room", folder=str(folder), error=str(error))
            self._report("degraded", f"the disk of {folder} is full; appends wait for room")
        return f"the disk of {folder} is full"

    def _tidy(self, message: Tidy) -> None:
        assert self._writer is not None
        self._writer.sync_mark()
        if not message.checkpoint:
            return
        try:
            self._writer.checkpoint()
        except (
            duckdb.TransactionException
        ) as error:  # a reader holds an old snapshot; there is another moment
            log.debug("checkpoint put off", error=str(error))
        self._meter.checkpointed(self._writer.wal_bytes())

    def _do_between(self, message: DoBetween) -> None:
        assert self._writer is not None
        try:
            message.done.set_result(self._writer.between(message.work))
        except Exception as error:
            message.done.set_exception(error)
            if isinstance(error, duckdb.FatalException | duckdb.InternalException):
                raise

    def _copy(self, message: CopyTo) -> None:
        """Between two commits nothing changes: moved into one file, the database is one file to copy."""
        assert self._writer is not None
        try:
            message.done.set_result(self._writer.copy_to(message.path))
        except (OSError, duckdb.TransactionException) as error:
            message.done.set_exception(error)
        except Exception as error:
            message.done.set_exception(error)
            raise

    def _let_go(self, error: BaseException | None) -> None:
        try:
            if self._writer is not None:
                self._writer.close()
                self._writer = None
        except duckdb.Error as worse:
            log.warning("the database did not close in good order", error=str(worse))
        finally:
            if error is None:
                self._closed.set_result(None)
            else:
                self._closed.set_exception(error)


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
