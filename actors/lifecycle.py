"""The event bus: whoever wants to hear what happens subscribes; nobody who speaks ever waits for it.

A subscriber hears the events of one session in order, those of different sessions
side by side. Its queue is bounded: what does not fit is dropped for this subscriber
alone, counted and logged. What it raises, and what takes it too long, is counted and
logged, and harms nobody else.

Handlers of users (`isolated=True`) never run on the loop of the actors: plain
functions run in threads, coroutines on a loop of their own in one thread, where one
that blocks holds up other hooks only. Handlers of the product itself that are
coroutines run on the actors' loop.
"""

import asyncio
import inspect
import threading
from collections import deque
from collections.abc import Callable, Coroutine, Iterable
from dataclasses import dataclass
from typing import Any, Final

import structlog

from actors.system import ActorSystem
from messages.lifecycle import LifecycleEvent

log = structlog.get_logger(__name__)

Handler = Callable[[Any], Any]

QUEUE_LIMIT: Final = 1_000
"""Events that wait for one subscriber."""

SESSIONS_AT_ONCE: Final = 32
"""Of how many sessions one subscriber handles events at the same time."""

ABANDONED_MOST: Final = 8
"""So many calls of one handler may hang in threads; then it gets no more events until one comes back."""

CLOSE_GRACE_S: Final = 2.0


@dataclass
class HookStats:
    """What became of the events for one subscriber."""

    handled: int = 0
    failed: int = 0
    timed_out: int = 0
    dropped: int = 0


class _OwnLoop:
    """A thread with an event loop for the coroutines of users; started when first needed."""

    def __init__(self) -> None:
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None

    def submit(self, coro: Coroutine[Any, Any, Any]) -> "asyncio.Future[Any]":
        """Run a coroutine there; return a future for the loop that called."""
        if self._loop is None:
            self._loop = asyncio.new_event_loop()
            self._thread = threading.Thread(target=self._loop.run_forever, name="hooks", daemon=True)
            self._thread.start()
        return asyncio.wrap_future(asyncio.run_coroutine_threadsafe(coro, self._loop))

    async def close(self) -> None:
        """End the loop and its thread; one that is blocked is left behind, and logged."""
        loop, thread = self._loop, self._thread
        if loop is None or thread is None:
            return
        self._loop = None
        home = asyncio.get_running_loop()
        ended = asyncio.Event()

        async def wind_up() -> None:
            others = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
            for task in others:
                task.cancel()
            if others:
                await asyncio.wait(others, timeout=CLOSE_GRACE_S / 2)
            home.call_soon_threadsafe(ended.set)

        asyncio.run_coroutine_threadsafe(wind_up(), loop)
        try:
            async with asyncio.timeout(CLOSE_GRACE_S):
                await ended.wait()
        except TimeoutError:
            log.warning("a hook blocks its loop; its thread is left behind")
            return
        loop.call_soon_threadsafe(loop.stop)
        thread.join(CLOSE_GRACE_S)
        loop.close()


class Subscription:
    """One subscriber: its queues, one per session that has events waiting, and its counts."""

    def __init__(
        self, bus: "Lifecycle", name: str, handler: Handler, timeout_s: float, isolated: bool
    ) -> None:
        self.name = name
        self.stats = HookStats()
        self._bus = bus
        self._handler = handler
        self._timeout_s = timeout_s
        self._isolated = isolated
        self._is_async = inspect.iscoroutinefunction(handler) or inspect.iscoroutinefunction(
            getattr(handler, "__call__", None)  # noqa: B004 an object whose __call__ is a coroutine
        )
        self._queues: dict[str, deque[LifecycleEvent]] = {}
        self._waiting = 0
        self._ready: deque[str] = deque()
        self._tasks: set[asyncio.Task[None]] = set()
        self._abandoned = 0

    def offer(self, event: LifecycleEvent) -> None:
        """Take an event, or drop it when too many wait. Never blocks."""
        if self._waiting >= QUEUE_LIMIT or self._abandoned >= ABANDONED_MOST:
            self.stats.dropped += 1
            self._say("hook is too slow, event dropped", self.stats.dropped, event=event)
            return
        self._waiting += 1
        key = event.session_key or ""
        queue = self._queues.get(key)
        if queue is not None:
            queue.append(event)
            return
        self._queues[key] = deque((event,))
        self._ready.append(key)
        if len(self._tasks) < SESSIONS_AT_ONCE:
            task = self._bus.system.spawn(self._work(), f"hook {self.name}")
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def close(self) -> None:
        """Let the handler finish what waits, for a moment; then cancel it."""
        tasks = set(self._tasks)
        if tasks:
            _, late = await asyncio.wait(tasks, timeout=CLOSE_GRACE_S)
            for task in late:
                task.cancel()
            if late:
                log.warning("hook did not finish in time", hook=self.name, waiting=self._waiting)
                await asyncio.wait(late, timeout=CLOSE_GRACE_S)

    async def _work(self) -> None:
        """Handle one session's events after the other's, until there are none."""
        while self._ready:
            key = self._ready.popleft()
            queue = self._queues[key]
            await self._handle(queue[0])
            queue.popleft()
            self._waiting -= 1
            if queue:
                self._ready.append(key)
            else:
                del self._queues[key]

    async def _handle(self, event: LifecycleEvent) -> None:
        outcome = self._call(event)
        over: asyncio.Future[None] = self._bus.system.loop.create_future()

        def end(*_: Any) -> None:
            if not over.done():
                over.set_result(None)

        outcome.add_done_callback(end)
        alarm = self._bus.system.clock.call_later(self._timeout_s, end)
        try:
            await over
        finally:
            alarm.cancel()
            if not outcome.done():
                outcome.cancel()
        self._judge(outcome, event)

    def _judge(self, outcome: "asyncio.Future[Any]", event: LifecycleEvent) -> None:
        if not outcome.done() or outcome.cancelled():
            self.stats.timed_out += 1
            self._abandoned += not self._is_async
            self._say("hook took too long", self.stats.timed_out, event=event, timeout_s=self._timeout_s)
        elif (error := outcome.exception()) is not None:
            self.stats.failed += 1
            self._say("hook failed", self.stats.failed, event=event, exc_info=error)
        else:
            self.stats.handled += 1

    def _call(self, event: LifecycleEvent) -> "asyncio.Future[Any]":
        if not self._is_async:
            return self._call_in_thread(event)
        if self._isolated:
            return self._bus.own_loop.submit(_awaited(self._handler, event))
        return self._bus.system.spawn(_awaited(self._handler, event), f"hook {self.name}")

    def _call_in_thread(self, event: LifecycleEvent) -> "asyncio.Future[Any]":
        loop = self._bus.system.loop
        outcome: asyncio.Future[Any] = loop.create_future()

        def settle(value: Any, error: BaseException | None) -> None:
            if outcome.done():
                self._abandoned -= 1  # given up on meanwhile; at least it came back
                return
            if error is None:
                outcome.set_result(value)
            else:
                outcome.set_exception(error)

        def work() -> None:
            value, failure = None, None
            try:
                value = self._handler(event)
            except BaseException as error:  # noqa: BLE001 a hook may raise anything; it is judged on the loop
                failure = error if isinstance(error, Exception) else RuntimeError(repr(error))
            if not loop.is_closed():
                loop.call_soon_threadsafe(settle, value, failure)

        threading.Thread(target=work, name=f"hook:{self.name}", daemon=True).start()
        return outcome

    def _say(self, what: str, count: int, *, event: LifecycleEvent, **facts: Any) -> None:
        """Log the first and then ever more rarely: a hook that always fails must not fill the disk."""
        if count & (count - 1) == 0:
            log.warning(what, hook=self.name, event_kind=type(event).__name__, times=count, **facts)


async def _awaited(handler: Handler, event: LifecycleEvent) -> Any:
    return await handler(event)


class Lifecycle:
    """The bus of one system. Publish from any thread; subscribe and close on the loop."""

    def __init__(self, system: ActorSystem) -> None:
        self.system = system
        self.own_loop = _OwnLoop()
        self._subscriptions: list[tuple[Subscription, frozenset[type[LifecycleEvent]] | None]] = []
        self._listeners: dict[type, tuple[Subscription, ...]] = {}

    @property
    def wanted(self) -> bool:
        """Whether anybody subscribes: without, events need not even be made."""
        return bool(self._subscriptions)

    def publish(self, event: LifecycleEvent) -> None:
        """Let all subscribers know, later. Costs next to nothing when there are none."""
        if not self._subscriptions:
            return
        if threading.get_ident() != self.system.home.thread:
            self.system.loop.call_soon_threadsafe(self.publish, event)
            return
        kind = type(event)
        listeners = self._listeners.get(kind)
        if listeners is None:
            listeners = self._listeners[kind] = tuple(
                subscription
                for subscription, kinds in self._subscriptions
                if kinds is None or any(issubclass(kind, wanted) for wanted in kinds)
            )
        for subscription in listeners:
            subscription.offer(event)

    def subscribe(
        self,
        name: str,
        handler: Handler,
        *,
        kinds: Iterable[type[LifecycleEvent]] | None = None,
        timeout_s: float = 10.0,
        isolated: bool = False,
    ) -> Subscription:
        """Have a function or coroutine function called with each event of these kinds (all, without any).

        `isolated` is for code that is not ours: it never runs on the actors' loop.
        """
        subscription = Subscription(self, name, handler, timeout_s, isolated)
        self._subscriptions.append((subscription, None if kinds is None else frozenset(kinds)))
        self._listeners.clear()
        return subscription

    def unsubscribe(self, subscription: Subscription) -> None:
        """Give the subscriber no more events; it finishes those that wait."""
        self._subscriptions = [pair for pair in self._subscriptions if pair[0] is not subscription]
        self._listeners.clear()

    def stats(self) -> dict[str, HookStats]:
        """Return the counts of each subscriber, by name."""
        return {subscription.name: subscription.stats for subscription, _ in self._subscriptions}

    async def close(self) -> None:
        """Take no more events; let subscribers finish for a moment, and end their threads."""
        subscriptions, self._subscriptions = self._subscriptions, []
        await asyncio.gather(*(subscription.close() for subscription, _ in subscriptions))
        await self.own_loop.close()
