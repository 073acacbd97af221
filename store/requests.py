"""What callers ask of the store's threads, and how the answers travel back to their loops."""

import asyncio
from collections import defaultdict, deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from threading import Lock
from typing import Any, Generic, NamedTuple, TypeVar

import pykka
import structlog

from messages.ids import StreamId
from store.codec import Encoded
from store.heads import Head
from store.journal import JournalUnavailableError

log = structlog.get_logger(__name__)


class WorkWaits(NamedTuple):
    """Told to a store thread when its queue was empty and is not any more."""


@dataclass(slots=True, eq=False)
class Request:
    """Something asked for; `future` belongs to `loop`, and only that loop may touch it."""

    loop: asyncio.AbstractEventLoop = field(default_factory=asyncio.get_running_loop, kw_only=True)
    future: asyncio.Future[Any] = field(init=False)

    def __post_init__(self) -> None:
        self.future = self.loop.create_future()


@dataclass(slots=True, eq=False)
class Append(Request):
    """Write these facts at the end of a stream."""

    stream: StreamId
    expected: int
    facts: tuple[Encoded, ...]
    owing: bool


@dataclass(slots=True, eq=False)
class ReadStream(Request):
    """Read a stream's facts after a number; `head` says between which ids they lie."""

    stream: StreamId
    after: int
    head: Head


@dataclass(slots=True, eq=False)
class ReadOwed(Request):
    """Name the streams of these facts, in order of their ids."""

    ids: Sequence[int]


@dataclass(slots=True, eq=False)
class Select(Request):
    """Run one SELECT and return at most so many rows. Can be interrupted from any thread."""

    sql: str
    params: Sequence[object]
    max_rows: int
    _lock: Lock = field(init=False, default_factory=Lock)
    _stop: Callable[[], None] | None = field(init=False, default=None)
    _abandoned: bool = field(init=False, default=False)

    def begin(self, stop: Callable[[], None]) -> bool:
        """Say how it can be stopped from now on; False: nobody wants it any more."""
        with self._lock:
            self._stop = None if self._abandoned else stop
            return not self._abandoned

    def end(self) -> None:
        """It runs no more: from now on an interrupt would hit another query."""
        with self._lock:
            self._stop = None

    def interrupt(self) -> None:
        """Stop it if it runs, and never begin it if it does not."""
        with self._lock:
            self._abandoned = True
            if self._stop is not None:
                self._stop()


RequestT = TypeVar("RequestT", bound=Request)


class RequestQueue(Generic[RequestT]):
    """Where requests wait for store threads: threads take many at a time, callers from any loop put one.

    It outlives the actors that serve it: between two of them (`close`, then
    `open` with the next) requests are refused instead of waiting without end.
    """

    def __init__(self) -> None:
        self._lock = Lock()
        self._waiting: deque[RequestT] = deque()
        self._signalled = False
        self._servers: tuple[pykka.ActorRef[Any], ...] = ()
        self._closed: str | None = "the store is not open yet"

    def __len__(self) -> int:
        return len(self._waiting)

    @property
    def refusal(self) -> str | None:
        """Why requests are refused now; None while they are taken."""
        return self._closed

    def open(self, *servers: pykka.ActorRef[Any]) -> None:
        """Let these actors serve the queue from now on."""
        with self._lock:
            self._servers = servers
            self._closed = None
            self._signalled = False

    def close(self, why: str) -> list[RequestT]:
        """Refuse all further requests; return those that waited."""
        with self._lock:
            self._closed = why
            self._servers = ()
            left = list(self._waiting)
            self._waiting.clear()
        return left

    def put(self, request: RequestT) -> None:
        """Let the request wait for a server. Raises JournalUnavailableError when there is none."""
        with self._lock:
            if self._closed is not None:
                raise JournalUnavailableError(self._closed)
            self._waiting.append(request)
            if self._signalled:
                return
            self._signalled = True
            try:
                for server in self._servers:
                    server.tell(WorkWaits())
            except pykka.ActorDeadError as error:
                self._waiting.pop()
                self._closed = "the store has stopped"
                raise JournalUnavailableError(self._closed) from error

    def take(self, most: int) -> tuple[list[RequestT], bool]:
        """Return what waits, the oldest first, without waiting; and whether more is left.

        What is left is not announced again: whoever took must come back for it.
        """
        with self._lock:
            left = len(self._waiting) > most
            self._signalled = left
            if left:
                return [self._waiting.popleft() for _ in range(most)], True
            taken = list(self._waiting)
            self._waiting.clear()
            return taken, False


Answer = object
"""What a future is completed with; an exception is raised by it."""


def answer_all(answers: Iterable[tuple[Request, Answer]]) -> None:
    """Complete the futures of many requests with one call into each loop that asked."""
    by_loop: dict[asyncio.AbstractEventLoop, list[tuple[Request, Answer]]] = defaultdict(list)
    for request, answer in answers:
        by_loop[request.loop].append((request, answer))
    for loop, settled in by_loop.items():
        try:
            loop.call_soon_threadsafe(_settle, settled)
        except RuntimeError:
            log.warning("answers came after their loop had closed", count=len(settled))


def _settle(settled: list[tuple[Request, Answer]]) -> None:
    for request, answer in settled:
        if request.future.done():
            continue  # whoever asked was cancelled
        if isinstance(answer, Exception):
            request.future.set_exception(answer)
        else:
            request.future.set_result(answer)


def refuse_all(requests: Iterable[Request], why: str) -> None:
    """Answer requests that nobody will serve."""
    answer_all((request, JournalUnavailableError(why)) for request in requests)
