"""LoopActor: a pykka actor whose handlers are coroutines on the process's one event loop.

Refs, `tell`, `ask`, futures and ActorDeadError keep pykka's meaning; pykka's own test
suite runs over this class (tests/pykka_suite). What is different:

- An actor costs a task only while it has mail. A burst of mail is handled by one
  task, which gives way after a slot of about two milliseconds: a busy actor delays
  the others by that much and no more, unless its handler blocks.
- Every step of a handler is timed. One that keeps the loop for longer than
  `slow_handler_s` is logged with the actor's name and the message's kind.
- An actor that ends hands its undelivered mail to whoever adopted it (see
  `adopt`), else to its `on_crash`; else asks get ActorDeadError and tells become
  dead letters. Nothing is forgotten without being counted.
"""

import asyncio
import logging
import threading
import time
import types
import uuid
from collections.abc import Callable, Coroutine, Generator
from typing import Any, Final, Self

import pykka
import structlog
from pykka import ActorDeadError

from actors.asking import HANDLING, AskCycleError, LoopFuture
from actors.clock import Alarm
from actors.endings import (
    Crashed,
    DeadLetter,
    Ended,
    HandlingFailedError,
    SupervisedEnvelope,
    adopt,
    conclude,
    redeliver,
    settle,
)
from actors.mailbox import ControlSignal, Mailbox, MailboxFullError
from actors.pykka_private import PYKKA_KINDS, ActorStop, Envelope, registry
from actors.refs import Flag, LoopRef
from actors.system import ActorSystem, Stats
from actors.thread_actor import ThreadActor
from actors.timers import Timer, TimerEnvelope
from messages.base import Message

__all__ = [
    "ActorDeadError",
    "ActorSystem",
    "AskCycleError",
    "Crashed",
    "DeadLetter",
    "Ended",
    "HandlingFailedError",
    "LoopActor",
    "LoopFuture",
    "MailboxFullError",
    "Stats",
    "SupervisedEnvelope",
    "ThreadActor",
    "adopt",
    "redeliver",
    "settle",
]

log = structlog.get_logger(__name__)
pykka_log = logging.getLogger("pykka")

SLOT_S: Final = 0.002
"""How long one actor may go on in one turn of the loop. Wall time, not a count of messages."""

CHILD_GRACE_S: Final = 5.0
"""How long an ending actor waits for its cancelled background tasks to end."""

_now = time.perf_counter


# ------------------------------------------------------------------ loop actors


class _BackgroundFailed(ControlSignal):
    """A background task of the actor failed."""

    def __init__(self, cause: BaseException) -> None:
        self.cause = cause


class _EndNow(ControlSignal):
    """End without handling the mail that waits."""


_SIGNALS: Final = (_BackgroundFailed, _EndNow)


@types.coroutine
def _next_turn() -> Generator[None, None, None]:
    """Let everybody else on the loop have a turn."""
    yield


class LoopActor(pykka.Actor):
    """An actor on the loop. Subclass it, and write `async def on_receive(self, message)`.

    `work_limit` bounds how much *bounded* work may wait. `on_crash` is called on the
    loop when an exception killed the actor; it then owns the leftover mail.
    """

    actor_inbox: Mailbox

    def __init__(
        self,
        system: ActorSystem,
        *,
        name: str = "",
        work_limit: int = 10_000,
        on_crash: Callable[[Crashed], None] | None = None,
    ) -> None:
        # Not calling super: its event costs 1.3 kB and its inbox knows no owner. The fields are the same.
        self.system = system
        self.clock = system.clock
        self.name = name or type(self).__name__
        self.actor_urn = uuid.uuid4().urn
        self.actor_inbox = Mailbox(system.home, self, work_limit)
        self.actor_stopped = Flag()  # type: ignore[assignment]
        self._actor_ref = LoopRef(self)
        self._on_end: Callable[[Ended], None] | None = None
        self._on_crash = on_crash
        self._ended: Ended | None = None
        self._started = False
        self._begun = False
        self._bursting = False
        self._task: asyncio.Task[None] | None = None
        self._timers: dict[object, Timer] | None = None
        self._background: set[asyncio.Task[Any]] | None = None

    @classmethod
    def launch(cls, *args: Any, **kwargs: Any) -> Self:
        """Start as `start` does, but return the actor itself: for its owner, on the loop."""
        actor = cls(*args, **kwargs)
        registry.register(actor.actor_ref)
        actor._start_actor_loop()
        return actor

    # -------------------------------------------------------------- to override

    async def on_actor_start(self) -> None:
        """Do what must be done before the first message. An exception is a crash."""

    async def on_actor_stop(self) -> None:
        """Clean up after the last message, when the actor was told to stop."""

    async def on_actor_failure(self, cause: BaseException) -> None:
        """Clean up after an exception that kills the actor."""

    # --------------------------------------------------------------- for itself

    def after(self, seconds: float, message: Message, *, name: str | None = None) -> Alarm:
        """Send oneself a message after so many seconds; it dies with the actor.

        A later timer of the same name replaces the earlier one, also when that has
        gone off and its message waits in the mailbox: of one name, one at most.
        """
        if self._timers is None:
            self._timers = {}
        elif name is not None and name in self._timers:
            self._timers[name].cancel()
        return Timer(self.clock, seconds, message, name, self._timers, self.actor_inbox)

    def background(self, coro: Coroutine[Any, Any, Any], *, name: str) -> "asyncio.Task[Any]":
        """Run a coroutine beside the mail. It is cancelled when the actor ends; its exception is a crash."""
        task = self.system.spawn(self._steps(coro, f"background {name}"), name=f"{self.name}: {name}")
        if self._background is None:
            self._background = set()
        self._background.add(task)
        task.add_done_callback(self._background_ended)
        return task

    def end_now(self) -> LoopFuture[None]:
        """End without handling the mail that waits; a handler that hangs is cancelled. On the loop."""
        gone: LoopFuture[None] = LoopFuture()
        if self._ended is not None:
            gone.set(None)
            return gone
        self.actor_inbox.accept(Envelope(_EndNow(), gone))
        task = self._task
        if task is not None and self._bursting and task is not asyncio.current_task():
            task.cancel()  # it waits for something, or for its next turn; one that has not begun sees the signal
        return gone

    # ---------------------------------------------------------- pykka's interface

    @staticmethod
    def _create_actor_inbox() -> Any:
        raise NotImplementedError("a LoopActor's mailbox is made with its owner")

    @staticmethod
    def _create_future() -> "pykka.Future[Any]":
        return LoopFuture()

    def _start_actor_loop(self) -> None:
        self.system.admit(self)
        if threading.get_ident() == self.system.home.thread:
            self._start_on_loop()
        else:
            self.system.loop.call_soon_threadsafe(self._start_on_loop)

    def _start_on_loop(self) -> None:
        self._started = True
        kind = type(self)
        if kind.on_actor_start is LoopActor.on_actor_start and kind.on_start is pykka.Actor.on_start:
            self._begun = True
            if self.actor_inbox.empty():
                return
        self.actor_inbox.awake = True
        self._wake()

    def _wake(self) -> None:
        if self._task is not None:
            return
        if self._started and self._ended is None:
            self._task = self.system.spawn(self._burst(), self.name)
        else:
            self.actor_inbox.awake = False

    def _label(self) -> str:
        return self.name

    # ------------------------------------------------------------ handling mail

    async def _burst(self) -> None:
        """Handle mail until there is none: the body of the task that exists only while there is mail."""
        system, inbox = self.system, self.actor_inbox
        self._bursting = True
        try:
            if not self._begun and not await self._begin():
                return
            slot = began = _now()
            system.running = self
            while self._ended is None:
                envelope = inbox.take()
                if envelope is None:
                    if inbox.rest():
                        return
                    continue
                rest = self._handle(envelope, began)
                if rest is not None:
                    suspended = await rest
                    system.running = self
                    began = _now()
                    slot = began if suspended else slot
                else:
                    now = _now()
                    if now - began > system.slow_handler_s:
                        self._slow(envelope.message, now - began)
                    began = now
                if began - slot > SLOT_S:
                    system.running = None
                    await _next_turn()
                    system.running = self
                    slot = began = _now()
        except asyncio.CancelledError:
            await self._cancelled()
        finally:
            self._task, self._bursting = None, False
            self.actor_ref.current = None  # type: ignore[attr-defined]
            if system.running is self:
                system.running = None

    def _handle(self, envelope: Any, began: float) -> Coroutine[Any, Any, bool | None] | None:
        """Handle one message; return what is left to await, if its handler really waits for something."""
        if type(envelope) is TimerEnvelope:
            if envelope.timer.cancelled:
                return None
            envelope.timer.forget()
        reply_to = envelope.reply_to
        if reply_to is not None and reply_to.done():
            return None  # the asker was told that waiting is pointless
        me = self._actor_ref
        me.current = envelope  # type: ignore[attr-defined]
        HANDLING.set((me, envelope))  # type: ignore[arg-type]
        message = envelope.message
        kind = type(message)
        try:
            if kind in PYKKA_KINDS or kind in _SIGNALS:
                if kind is ActorStop or kind in _SIGNALS:
                    return self._finish(envelope)
                result = self._handle_receive(message)
            else:
                result = self.on_receive(message)
            if type(result) is types.CoroutineType:
                try:
                    yielded = result.send(None)
                except StopIteration as done:
                    result = done.value
                else:
                    return self._go_on(envelope, result, yielded, began)
        except BaseException as error:  # noqa: BLE001 the shell of every handler; see _fail
            return self._fail(envelope, error)
        if reply_to is not None:
            reply_to.set(result)
        return None

    async def _go_on(self, envelope: Any, coro: Any, yielded: Any, began: float) -> bool:
        """Await the rest of a handler that suspended itself; True says so."""
        try:
            result = await self._drive(coro, yielded, envelope.message, began)
        except BaseException as error:
            if _is_cancelled(error):
                if envelope.reply_to is not None:
                    envelope.reply_to.fail(ActorDeadError(f"{self} was ended while it handled the message"))
                raise
            await self._fail(envelope, error)
        else:
            if envelope.reply_to is not None and not envelope.reply_to.done():
                envelope.reply_to.set(result)
        return True

    @types.coroutine
    def _drive(self, coro: Any, yielded: Any, what: Any, began: float) -> Generator[Any, Any, Any]:
        """Step a coroutine as `await` does, timing each step."""
        system = self.system
        limit = system.slow_handler_s
        while True:
            if (took := _now() - began) > limit:
                self._slow(what, took)
            system.running = None
            try:
                sent = yield yielded
            except BaseException as thrown:  # noqa: BLE001 handed on to the coroutine it is meant for
                system.running, began = self, _now()
                step, argument = coro.throw, thrown
            else:
                system.running, began = self, _now()
                step, argument = coro.send, sent
            try:
                yielded = step(argument)
            except StopIteration as done:
                if (took := _now() - began) > limit:
                    self._slow(what, took)
                return done.value

    async def _steps(self, coro: Coroutine[Any, Any, Any], what: Any) -> Any:
        """Run a hook or a background coroutine with its steps timed."""
        began, self.system.running = _now(), self
        try:
            yielded = coro.send(None)
        except StopIteration as done:
            return done.value
        else:
            return await self._drive(coro, yielded, what, began)
        finally:
            if self.system.running is self:
                self.system.running = None

    def _slow(self, what: Any, seconds: float) -> None:
        kind = what if isinstance(what, str) else getattr(what, "kind", None) or type(what).__name__
        self.system.report_slow(self.name, kind, seconds)

    # ------------------------------------------------------ beginning and ending

    async def _begin(self) -> bool:
        self._begun = True
        try:
            self.on_start()
            await self._steps(self.on_actor_start(), "on_actor_start")
        except Exception as error:  # noqa: BLE001 a start hook of any kind may fail in any way: a crash
            await self._crash(error, None, hook=False)
            return False
        return True

    async def _fail(self, envelope: Any, error: BaseException) -> None:
        """Decide what an exception in a handler means: a reply, a crash, or the end of everything."""
        if isinstance(error, asyncio.CancelledError):
            if _is_cancelled(error):
                raise error
            wrapped = RuntimeError("the handler waited for something that was cancelled")
            wrapped.__cause__ = error
            error = wrapped
        if not isinstance(error, Exception):
            await self._end_everything(envelope, error)
        elif envelope.reply_to is not None and type(envelope) is not SupervisedEnvelope:
            pykka_log.info("Exception returned from %s to caller:", self, exc_info=error)
            envelope.reply_to.fail(error)
        else:
            await self._crash(error, envelope)

    async def _end_everything(self, envelope: Any, error: BaseException) -> None:
        """A KeyboardInterrupt or its like: pykka stops all actors, and so do we."""
        pykka_log.debug("%r in %s. Stopping all actors.", error, self)
        if envelope.reply_to is not None:
            envelope.reply_to.fail(error)
        await self._finish(None)
        for ref in reversed(self.system.live()):
            ref.stop(block=False)
        if isinstance(error, KeyboardInterrupt | SystemExit):
            raise error

    async def _finish(self, envelope: Any) -> None:
        """End in good order, after the message that asks for it."""
        if envelope is not None and type(envelope.message) is _BackgroundFailed:
            await self._crash(envelope.message.cause, None)
            return
        self._unregister()
        if pykka_log.isEnabledFor(logging.DEBUG):
            pykka_log.debug("Stopped %s", self)
        try:
            await self._let_go()
            self.on_stop()
            await self._steps(self.on_actor_stop(), "on_actor_stop")
        except Exception as error:  # noqa: BLE001 clean-up of any kind may fail in any way; it ends all the same
            self._log_failure(error)
        finally:
            self._conclude(None)
            if envelope is not None and envelope.reply_to is not None:
                envelope.reply_to.set(None)

    async def _crash(self, cause: BaseException, envelope: Any, *, hook: bool = True) -> None:
        self._log_failure(cause)
        self._unregister()
        try:
            await self._let_go()
            if hook:
                self.on_failure(type(cause), cause, cause.__traceback__)
                await self._steps(self.on_actor_failure(cause), "on_actor_failure")
        except Exception as error:  # noqa: BLE001 the same
            self._log_failure(error)
        finally:
            message = envelope.message if envelope is not None else None
            if isinstance(message, ControlSignal):
                message = envelope = None
            self._conclude(Crashed(self.name, self.actor_ref, cause, message, (), envelope))

    async def _cancelled(self) -> None:
        """Somebody cancelled the task (a stop that ran out of patience, or the loop's end)."""
        if self._ended is None:
            task = asyncio.current_task()
            while task is not None and task.uncancel():
                pass
            await self._finish(None)

    def _log_failure(self, error: BaseException) -> None:
        self.system.stats.crashes += 1
        pykka_log.error("Unhandled exception in %s:", self, exc_info=error)

    def _unregister(self) -> None:
        registry.unregister(self.actor_ref)
        self.actor_stopped.set()

    async def _let_go(self) -> None:
        """Cancel the timers and the background tasks, and wait for the latter."""
        for timer in tuple((self._timers or {}).values()):
            timer.cancel()
        tasks = tuple(self._background or ())
        for task in tasks:
            task.cancel()
        if tasks:
            _, late = await asyncio.wait(tasks, timeout=CHILD_GRACE_S)
            for task in late:
                log.error("background task does not end", actor=self.name, task=task.get_name())

    def _background_ended(self, task: "asyncio.Task[Any]") -> None:
        if self._background is not None:
            self._background.discard(task)
        if task.cancelled():
            return
        error = task.exception()
        if error is not None and not self.actor_stopped.is_set():
            self.actor_inbox.accept(Envelope(_BackgroundFailed(error)))

    def _conclude(self, crashed: Crashed | None) -> None:
        """Pass on the leftover mail, and forget the actor."""
        leftover = tuple(e for e in self.actor_inbox.close() if type(e) is not TimerEnvelope)
        self.system.dismiss(self)
        conclude(self, crashed, leftover)


def _is_cancelled(error: BaseException) -> bool:
    """Say whether the task itself is being cancelled; a handler may also await what somebody cancelled."""
    task = asyncio.current_task()
    return isinstance(error, asyncio.CancelledError) and task is not None and task.cancelling() > 0
