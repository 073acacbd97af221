"""Asking: futures for both worlds, refs that know who waits for whom, and the cycle that is an error.

A future can be awaited on the loop and got with a timeout from any other thread.
Who handles a message and waits for somebody who (over however many others) waits
for him would wait for ever: that is found when the last of them begins to wait,
and it raises there, naming the cycle.
"""

import asyncio
import queue
import sys
import threading
from collections.abc import Callable, Generator, Iterable
from contextvars import ContextVar
from typing import Any, Generic, Self, TypeVar

import pykka

T = TypeVar("T")

_lock = threading.Lock()
"""Guards the outcome of every future and the edges of who waits for whom; held for moments only."""


class Party:
    """Somebody who handles messages, as far as waiting goes."""

    label: str
    """The actor's name, for people."""
    current: object | None
    """The envelope that is being handled."""
    awaiting: "list[Party] | None"
    """Whose answers the handler waits for."""


HANDLING: ContextVar[tuple[Party, object] | None] = ContextVar("handling", default=None)
"""Who handles which envelope here; also in tasks that the handler starts, such as those of a gather."""


class AskCycleError(RuntimeError):
    """Waiting for this answer would never end: the one who is asked waits for the one who asks.

    `cycle` are the names, beginning and ending with the one who would wait.
    """

    def __init__(self, cycle: tuple[str, ...], why: str = "") -> None:
        super().__init__(f"the ask would wait for ever: {' → '.join(cycle)}{why and f' ({why})'}")
        self.cycle = cycle


def current_party() -> Party | None:
    """Return who handles a message in this context; None outside of handlers."""
    marker = HANDLING.get()
    if marker is None:
        return None
    party, envelope = marker
    return party if party.current is envelope else None


def _path(start: Party, end: Party, seen: set[int]) -> tuple[str, ...] | None:
    """Find the chain of waiting that leads from one to the other."""
    if start is end:
        return (end.label,)
    seen.add(id(start))
    for following in start.awaiting or ():
        if id(following) not in seen:
            path = _path(following, end, seen)
            if path is not None:
                return (start.label, *path)
    return None


def _begin_waiting(waiter: Party, target: Party) -> None:
    """Note that one waits for the other. Raises AskCycleError when that closes a cycle."""
    with _lock:
        path = _path(target, waiter, set())
        if path is None:
            waiter.awaiting = [*(waiter.awaiting or ()), target]
            return
    raise AskCycleError((waiter.label, *path))


def _end_waiting(waiter: Party, target: Party) -> None:
    with _lock:
        left = list(waiter.awaiting or ())
        left.remove(target)
        waiter.awaiting = left or None


def on_a_loop() -> bool:
    """Say whether this thread runs an event loop right now, and so must not block."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True


_PENDING = object()


class LoopFuture(pykka.Future[T], Generic[T]):
    """A pykka future that can also be awaited, whoever sets it, from whatever thread."""

    def __init__(self) -> None:
        # Not calling super: its two fields serve a blocking get() that this class does not have.
        self._value: Any = _PENDING
        self._error: BaseException | None = None
        self._hook: Callable[[float | None], Any] | None = None
        self._sources: tuple[pykka.Future[Any], ...] = ()
        self._wakers: list[Callable[[], None]] | None = None
        self.target: Party | None = None
        """Who was asked."""

    def __repr__(self) -> str:
        return f"<LoopFuture {'done' if self.done() else 'pending'}>"

    def done(self) -> bool:
        """Say whether the outcome is known."""
        return self._value is not _PENDING

    # ------------------------------------------------------------------ setting

    def set(self, value: T | None = None) -> None:
        """Set the outcome. Raises queue.Full when there is one already."""
        if not self._settle(value, None):
            raise queue.Full

    def set_exception(self, exc_info: Any = None) -> None:
        """Set an error as the outcome, by default the one being handled. Raises queue.Full like `set`."""
        kind, error, traceback = exc_info or sys.exc_info()
        if error is None:
            error = kind() if kind is not None else RuntimeError("set_exception without an exception")
        if not self._settle(None, error.with_traceback(traceback)):
            raise queue.Full

    def fail(self, error: BaseException) -> None:
        """Set an error as the outcome, unless there is an outcome already."""
        self._settle(None, error)

    def set_get_hook(self, func: Callable[[float | None], T]) -> None:
        """Let the outcome be computed by a function when it is asked for."""
        with _lock:
            if self._value is not _PENDING:
                raise queue.Full
            self._hook = func

    def _settle(self, value: Any, error: BaseException | None) -> bool:
        with _lock:
            if self._value is not _PENDING or self._hook is not None:
                return False
            self._error = error
            self._value = value
            wakers, self._wakers = self._wakers, None
        for waker in wakers or ():
            waker()
        return True

    # ------------------------------------------------------------------ getting

    def get(self, *, timeout: float | None = None) -> Any:
        """Return the outcome, blocking this thread for at most `timeout` seconds.

        Raises pykka.Timeout; AskCycleError at once where blocking could not end
        (on the loop, or in a handler that its own answer waits for); and whatever
        error the outcome is.
        """
        if self._value is not _PENDING:
            return self._outcome()
        if self._hook is not None:
            value = self._hook(timeout)
            self._value = value
            return value
        if timeout is None or timeout > 0:
            self._block(timeout)
        if self._value is _PENDING:
            raise pykka.Timeout(f"{timeout} seconds")
        return self._outcome()

    def _block(self, timeout: float | None) -> None:
        waiter, target = current_party(), self.target
        if on_a_loop():
            forbid_blocking(waiter, target)
        arrived = threading.Event()
        if not self._call_when_done(arrived.set):
            return
        if waiter is None or target is None:
            arrived.wait(timeout)
            return
        _begin_waiting(waiter, target)
        try:
            arrived.wait(timeout)
        finally:
            _end_waiting(waiter, target)

    def __await__(self) -> Generator[Any, None, T]:
        for source in self._sources:
            if isinstance(source, LoopFuture):
                yield from source._until_done()  # noqa: SLF001 of its own class
        if self._hook is None:
            yield from self._until_done()
        return self.get(timeout=0)  # type: ignore[no-any-return]

    __iter__ = __await__

    async def result(self, *, timeout: float | None = None) -> T:  # noqa: ASYNC109 pykka's word and meaning
        """Await the outcome for at most `timeout` seconds. Raises pykka.Timeout, like `get`."""
        try:
            async with asyncio.timeout(timeout) as limit:
                return await self
        except TimeoutError:
            if not limit.expired():
                raise
            raise pykka.Timeout(f"{timeout} seconds") from None

    def _until_done(self) -> Generator[Any, None, None]:
        for source in self._sources:
            if isinstance(source, LoopFuture):
                yield from source._until_done()  # noqa: SLF001 of its own class
        if self._value is not _PENDING or self._hook is not None:
            return
        loop = asyncio.get_running_loop()
        woken: asyncio.Future[None] = loop.create_future()
        home = threading.get_ident()

        def set_woken() -> None:
            if not woken.done():
                woken.set_result(None)

        def wake() -> None:
            if threading.get_ident() == home:
                set_woken()
            elif not loop.is_closed():
                loop.call_soon_threadsafe(set_woken)

        if not self._call_when_done(wake):
            return
        waiter, target = current_party(), self.target
        if waiter is None or target is None:
            yield from woken
            return
        try:
            _begin_waiting(waiter, target)
        except AskCycleError as error:
            self.fail(error)  # the message must not be handled later: nobody waits for it any more
            raise
        try:
            yield from woken
        finally:
            _end_waiting(waiter, target)

    def _call_when_done(self, waker: Callable[[], None]) -> bool:
        with _lock:
            if self._value is not _PENDING:
                return False
            if self._wakers is None:
                self._wakers = [waker]
            else:
                self._wakers.append(waker)
            return True

    def _outcome(self) -> Any:
        if self._error is not None:
            raise self._error
        return self._value

    # ------------------------------------------------------------------ derived

    def _derived(self, future: Any, *sources: pykka.Future[Any]) -> Any:
        future._sources = sources  # noqa: SLF001 of its own class
        return future

    def filter(self: Any, func: Callable[[Any], bool]) -> Any:
        """Return a future of the items for which the function is true."""
        return self._derived(pykka.Future.filter(self, func), self)

    def join(self, *futures: pykka.Future[Any]) -> Any:
        """Return a future of the list of all outcomes."""
        return self._derived(super().join(*futures), self, *futures)

    def map(self, func: Callable[[T], Any]) -> Any:
        """Return a future of the function's value for this outcome."""
        return self._derived(super().map(func), self)

    def reduce(self: Any, func: Callable[[Any, Any], Any], *args: Any) -> Any:
        """Return a future of the items folded by the function."""
        return self._derived(pykka.Future.reduce(self, func, *args), self)

    @classmethod
    def derived(cls, hook: Callable[[float | None], Any], sources: Iterable[pykka.Future[Any]]) -> Self:
        """Make a future that is computed from others; awaiting it awaits them first."""
        future = cls()
        future.set_get_hook(hook)
        future._sources = tuple(sources)
        return future


def forbid_blocking(waiter: Party | None, target: Party | None, label: str = "a future") -> None:
    """Raise AskCycleError: a blocking wait on the loop holds up the one who would answer."""
    me = waiter.label if waiter is not None else "the event loop"
    if target is waiter and target is not None:
        raise AskCycleError((me, me))
    asked = target.label if target is not None else label
    raise AskCycleError((me, asked, me), "a blocking wait on the event loop; await it instead")
