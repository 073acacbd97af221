"""Refs to actors of ours: pykka's, plus who waits for whom."""

import threading
from typing import Any

import pykka
from pykka import ActorDeadError

from actors.asking import LoopFuture, Party, current_party, forbid_blocking, on_a_loop
from actors.pykka_private import ActorStop, Envelope


class Flag:
    """Stands in for threading.Event, which costs more than all the rest of an actor, until one waits."""

    __slots__ = ("_event", "_set")
    _lock = threading.Lock()

    def __init__(self) -> None:
        self._set = False
        self._event: threading.Event | None = None

    def is_set(self) -> bool:
        return self._set

    def set(self) -> None:
        with self._lock:
            self._set = True
            if self._event is not None:
                self._event.set()

    def wait(self, timeout: float | None = None) -> bool:
        with self._lock:
            if self._set:
                return True
            if self._event is None:
                self._event = threading.Event()
        return self._event.wait(timeout)


class LoopRef(pykka.ActorRef[Any], Party):
    """A pykka ref that knows whom its actor waits for. It holds the actor weakly."""

    def __init__(self, actor: Any) -> None:
        super().__init__(actor)
        self.label = actor.name
        self.current = None
        self.awaiting = None

    def tell(self, message: Any) -> None:
        """Send a message. Raises ActorDeadError, and MailboxFullError for work that is bounded."""
        if self.actor_stopped.is_set():
            raise ActorDeadError(f"{self} not found")
        self.actor_inbox.put(Envelope(message))

    def ask(self, message: Any, *, block: bool = True, timeout: float | None = None) -> Any:
        """Send a message and wait for the reply, or return a future of it.

        On the loop, use `block=False` and await the future. Raises AskCycleError
        at once, before anything is sent, where blocking would never end.
        """
        if block and (timeout is None or timeout > 0):
            waiter = current_party()
            if waiter is self or on_a_loop():
                forbid_blocking(waiter, self)
        future: LoopFuture[Any] = LoopFuture()
        future.target = self
        if self.actor_stopped.is_set():
            future.fail(ActorDeadError(f"{self} not found"))
        else:
            self.actor_inbox.put(Envelope(message, reply_to=future))
        return future.get(timeout=timeout) if block else future

    def stop(self, *, block: bool = True, timeout: float | None = None) -> Any:
        """Ask the actor to stop after the mail it has; as in pykka. The future can be awaited."""
        asked = self.ask(ActorStop(), block=False)

        def result(timeout: float | None) -> bool:
            try:
                asked.get(timeout=timeout)
            except ActorDeadError:
                return False
            return True

        stopped: LoopFuture[bool] = LoopFuture.derived(result, (asked,))
        return stopped.get(timeout=timeout) if block else stopped
