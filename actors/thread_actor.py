"""ThreadActor: a pykka.ThreadingActor for blocking work that lives in the same system as the loop's actors.

Asking it from the loop gives a future that can be awaited, so it blocks nobody.
Its end, with its leftover mail, is told on the loop like that of any other actor.
"""

import logging
import queue
import threading
from collections.abc import Callable
from typing import Any

import pykka
from pykka import ActorDeadError

from actors.asking import HANDLING, LoopFuture
from actors.endings import Crashed, Ended, SupervisedEnvelope, conclude
from actors.pykka_private import ActorStop
from actors.refs import LoopRef
from actors.system import ActorSystem

pykka_log = logging.getLogger("pykka")


class ThreadInbox:
    """A queue that is closed when its actor ends: mail that comes later is refused, not forgotten."""

    def __init__(self) -> None:
        self._queue: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self._lock = threading.Lock()
        self._closed = False

    def put(self, envelope: Any, /) -> None:
        """Add mail. Raises ActorDeadError; of an ask, the error becomes the reply instead."""
        try:
            self.accept(envelope)
        except ActorDeadError as error:
            if envelope.reply_to is None:
                raise
            envelope.reply_to.fail(error)

    def accept(self, envelope: Any, *, forced: bool = False) -> None:  # noqa: ARG002 it is never full
        """Add mail. Raises ActorDeadError, also for an ask."""
        with self._lock:
            if self._closed:
                raise ActorDeadError("the actor stopped before it could take the message")
            self._queue.put(envelope)

    def get(self) -> Any:
        """Take the next mail, waiting for it."""
        return self._queue.get()

    def get_nowait(self) -> Any:
        """Take the next mail. Raises queue.Empty."""
        return self._queue.get_nowait()

    def empty(self) -> bool:
        """Say whether nothing waits."""
        return self._queue.empty()

    def qsize(self) -> int:
        """Say how much waits."""
        return self._queue.qsize()

    def close(self) -> tuple[Any, ...]:
        """Take no more; return what was left, in order."""
        with self._lock:
            self._closed = True
        left = []
        while not self._queue.empty():
            left.append(self._queue.get())
        return tuple(left)


class ThreadActor(pykka.ThreadingActor):
    """An actor with a thread of its own. Subclass it as pykka says: `on_start`, `on_receive`, `on_stop`."""

    def __init__(
        self, system: ActorSystem, *, name: str = "", on_crash: Callable[[Crashed], None] | None = None
    ) -> None:
        super().__init__()
        self.system = system
        self.clock = system.clock
        self.name = name or type(self).__name__
        self._actor_ref = LoopRef(self)
        self._on_end: Callable[[Ended], None] | None = None
        self._on_crash = on_crash
        self._ended: Ended | None = None
        self._in_a_hurry = False

    @staticmethod
    def _create_actor_inbox() -> Any:
        return ThreadInbox()

    @staticmethod
    def _create_future() -> "pykka.Future[Any]":
        return LoopFuture()

    def _start_actor_loop(self) -> None:
        self.system.admit(self)
        thread = threading.Thread(target=self._actor_loop, name=self.name, daemon=self.use_daemon_thread)
        thread.start()

    def end_now(self) -> LoopFuture[None]:
        """End after the message that is being handled: a thread cannot be interrupted."""
        self._in_a_hurry = True
        return self.actor_ref.ask(ActorStop(), block=False)  # type: ignore[return-value]

    # ------------------------------------------------------------- in the thread

    def _actor_loop(self) -> None:
        crashed: Crashed | None = None
        last: Any = None
        try:
            self.on_start()
        except Exception as error:  # noqa: BLE001 a start hook of any kind may fail in any way: a crash
            self._handle_failure(type(error), error, error.__traceback__)
            crashed = Crashed(self.name, self.actor_ref, error, None, ())
        while not self.actor_stopped.is_set():
            last = self.actor_inbox.get()
            if self._in_a_hurry:
                self._stop()
                self._pass_on(None, last)
                return
            crashed = self._handle_one(last)
        self._pass_on(crashed)
        if last is not None and type(last.message) is ActorStop and last.reply_to is not None:
            last.reply_to.set(None)

    def _handle_one(self, envelope: Any) -> Crashed | None:
        reply_to = envelope.reply_to
        if reply_to is not None and reply_to.done():
            return None
        me = self._actor_ref
        me.current = envelope  # type: ignore[attr-defined]
        HANDLING.set((me, envelope))  # type: ignore[arg-type]
        try:
            result = self._handle_receive(envelope.message)
        except Exception as error:  # noqa: BLE001 the shell of every handler: a reply or a crash
            if reply_to is None or type(envelope) is SupervisedEnvelope:
                return self._crash(envelope, error)
            pykka_log.info("Exception returned from %s to caller:", self, exc_info=error)
            reply_to.fail(error)
        except BaseException as error:  # noqa: BLE001 as in pykka: it ends all actors
            pykka_log.debug("%r in %s. Stopping all actors.", error, self)
            if reply_to is not None:
                reply_to.fail(error)
            self._stop()
            for ref in reversed(self.system.live()):
                ref.stop(block=False)
        else:
            if reply_to is not None and type(envelope.message) is not ActorStop:
                reply_to.set(result)
        finally:
            me.current = None  # type: ignore[attr-defined]
        return None

    def _crash(self, envelope: Any, error: Exception) -> Crashed:
        self.system.stats.crashes += 1
        self._handle_failure(type(error), error, error.__traceback__)
        try:
            self.on_failure(type(error), error, error.__traceback__)
        except Exception as another:  # noqa: BLE001 the same
            self._handle_failure(type(another), another, another.__traceback__)
        return Crashed(self.name, self.actor_ref, error, envelope.message, (), envelope)

    def _pass_on(self, crashed: Crashed | None, *unhandled: Any) -> None:
        leftover = (*unhandled, *self.actor_inbox.close())  # type: ignore[attr-defined]
        try:
            self.system.loop.call_soon_threadsafe(self._conclude, crashed, leftover)
        except RuntimeError:  # the loop is gone: nobody can take the mail over
            for envelope in leftover:
                if envelope.reply_to is not None:
                    envelope.reply_to.fail(ActorDeadError(f"{self} stopped before handling the message"))
            self.system.dismiss(self)

    def _conclude(self, crashed: Crashed | None, leftover: tuple[Any, ...]) -> None:
        self.system.dismiss(self)
        conclude(self, crashed, leftover)
