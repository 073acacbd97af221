"""What callers ask of the store's threads, and how the answers travel back to their loops."""

import asyncio
import contextlib
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


MOST_WAITING = 10_000
"""Requests that wait while nobody can serve them; the next is refused."""


class WorkWaits(NamedTuple):
    """Told to a store thread when its queue was empty and is not any more."""


@dataclass(slots=True, eq=False)
class Request:
    """Something asked for; `future` belongs to `loop`, and only that loop may touch it."""

    loop: asyncio.AbstractEventLoop = field(default_factory=asyncio.get_running_loop, kw_only=True)
    future: asyncio.Future[Any] = field(init=False)
    tries: int = field(init=False, default=0)
    """How often the store has fallen while it served this one; what became of it is not known then."""
    looks: int = field(init=False, default=0)
    """How often it was found waiting while nobody could serve it."""

    answered: bool = field(init=False, default=False)

    @property
    def uncertain(self) -> bool:
        """Nobody knows what became of it."""
        return False

    def __post_init__(self) -> None:
        self.future = self.loop.create_future()


@dataclass(slots=True, eq=False)
class Append(Request):
    """Write these facts at the end of a stream."""

    stream: StreamId
    expected: int
    facts: tuple[Encoded, ...]
    owing: bool

    @property
    def uncertain(self) -> bool:
        """It may have been written already."""
        return self.tries > 0


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

    def interrupt(self, *, also_waiting: bool = True) -> None:
        """Stop it if it runs; if it does not, never begin it."""
        with self._lock:
            self._abandoned = also_waiting or self._stop is not None
            if self._stop is not None:
                self._stop()


RequestT = TypeVar("RequestT", bound=Request)


class RequestQueue(Generic[RequestT]):
    """Where requests wait for store threads: threads take many at a time, callers from any loop put one.

    It outlives the actors that serve it. Between two of them requests wait
    (`pause`, then `open` with the next) or are refused (`close`).
    """

    def __init__(self) -> None:
        self._lock = Lock()
        self._waiting: deque[RequestT] = deque()
        self._signalled = False
        self._servers: tuple[pykka.ActorRef[Any], ...] = ()
        self._closed: str | None = "the store is not open yet"
        self._trouble: str | None = None

    def __len__(self) -> int:
        return len(self._waiting)

    @property
    def refusal(self) -> str | None:
        """Why requests are refused now; None while they are taken."""
        return self._closed

    @property
    def trouble(self) -> str | None:
        """Why requests are not served now, whether they wait or are refused; None when all is well."""
        return self._closed or self._trouble

    def open(self, *servers: pykka.ActorRef[Any]) -> None:
        """Let these actors serve the queue from now on; they are told of what has waited for them."""
        with self._lock:
            self._servers = servers
            self._closed = self._trouble = None
            self._signalled = bool(self._waiting)
            if self._waiting:
                self._tell()

    def pause(self, why: str) -> None:
        """Let requests wait, until `open` or `close`: whoever served them is gone, and another one will come."""
        with self._lock:
            self._servers = ()
            self._trouble = why
            self._signalled = True

    def put_back(self, requests: Sequence[RequestT], why: str | None = None) -> None:
        """Let these wait again, first in line, announced only by `remind`; `why` they are not served now."""
        with self._lock:
            self._waiting.extendleft(reversed(requests))
            self._signalled = True
            self._trouble = why or self._trouble

    def served(self) -> bool:
        """Note that requests are served; return whether there was trouble until now."""
        with self._lock:
            troubled, self._trouble = self._trouble is not None, None
        return troubled

    def calm(self) -> bool:
        """Forget the trouble, unless something waits that will tell whether it is over; return whether it is forgotten."""
        with self._lock:
            if self._waiting or not self._servers or self._trouble is None:
                return False
            self._trouble, self._signalled = None, False
            return True

    def remind(self) -> None:
        """Tell the servers to try again what was put back."""
        with self._lock:
            if self._waiting and self._trouble is not None:
                self._tell()

    def tired(self, looks: int) -> list[RequestT]:
        """Count one more look at all that waits; return, and forget, what was looked at more than `looks` times.

        What may have been written already is never given up: it waits for the store to tell.
        """
        with self._lock:
            for request in self._waiting:
                request.looks += 1
            tired = [r for r in self._waiting if r.looks > looks and not r.uncertain]
            if tired:
                self._waiting = deque(r for r in self._waiting if r.looks <= looks or r.uncertain)
        return tired

    def close(self, why: str) -> list[RequestT]:
        """Refuse all further requests; return those that waited."""
        with self._lock:
            self._closed = why
            self._servers = ()
            left = list(self._waiting)
            self._waiting.clear()
        return left

    def put(self, request: RequestT) -> None:
        """Let the request wait for a server. Raises JournalUnavailableError when none is to come."""
        with self._lock:
            if self._closed is not None:
                raise JournalUnavailableError(self._closed)
            if self._trouble is not None and len(self._waiting) >= MOST_WAITING:
                raise JournalUnavailableError(f"{self._trouble}, and {MOST_WAITING} requests wait already")
            self._waiting.append(request)
            if not self._signalled:
                self._signalled = True
                self._tell()

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

    def _tell(self) -> None:
        """Announce that something waits. A server that is just dying leaves it to the next one."""
        for server in self._servers:
            with contextlib.suppress(pykka.ActorDeadError):
                server.tell(WorkWaits())


Answer = object
"""What a future is completed with; an exception is raised by it."""


def answer_all(answers: Iterable[tuple[Request, Answer]]) -> None:
    """Complete the futures of many requests with one call into each loop that asked."""
    by_loop: dict[asyncio.AbstractEventLoop, list[tuple[Request, Answer]]] = defaultdict(list)
    for request, answer in answers:
        request.answered = True
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
