"""A child's stable address: what other rooms hold instead of a ref, and what survives restarts."""

from collections import deque
from threading import RLock
from typing import Any, Final

import pykka
from pykka import ActorDeadError

from actors.asking import LoopFuture, current_party, forbid_blocking, on_a_loop
from actors.endings import SupervisedEnvelope, deliver
from actors.mailbox import MailboxFullError

HOLD_LIMIT: Final = 10_000
"""How much mail waits for a child that is down."""


class Handle:
    """A child's stable address: `tell` and `ask` as on a ref, from any thread, over all restarts."""

    def __init__(self, name: str) -> None:
        self.name = name
        self._lock = RLock()
        self._ref: pykka.ActorRef[Any] | None = None
        self._held: deque[Any] = deque()
        self._closed = False

    def __repr__(self) -> str:
        return f"<Handle of {self.name}>"

    def __len__(self) -> int:
        return len(self._held)

    def is_alive(self) -> bool:
        """Say whether mail is taken; it may have to wait for a restart."""
        return not self._closed

    def tell(self, message: Any) -> None:
        """Send a message. Raises MailboxFullError, and ActorDeadError once the child is given up."""
        self._send(SupervisedEnvelope(message))

    def ask(self, message: Any, *, block: bool = True, timeout: float | None = None) -> Any:
        """Send a message and get the reply, or with `block=False` a future of it, which can be awaited.

        When handling it kills the actor as often as the child's `attempts` allow,
        the outcome is a HandlingFailedError with the cause. Raises AskCycleError.
        """
        if block and on_a_loop():
            forbid_blocking(current_party(), None, self.name)
        future: LoopFuture[Any] = LoopFuture()
        try:
            self._send(SupervisedEnvelope(message, future))
        except (ActorDeadError, MailboxFullError) as error:
            future.fail(error)
        return future.get(timeout=timeout) if block else future

    def _send(self, envelope: SupervisedEnvelope) -> None:
        with self._lock:
            if self._closed:
                raise ActorDeadError(f"{self.name} is not running any more")
            if self._ref is not None:
                try:
                    deliver(envelope, self._ref)
                except ActorDeadError:
                    pass  # it died a moment ago; its supervisor will know in another
                else:
                    return
            if len(self._held) >= HOLD_LIMIT:
                raise MailboxFullError(self.name, HOLD_LIMIT)
            self._held.append(envelope)

    # ------------------------------------------------------ for the supervisor

    def up(self, ref: "pykka.ActorRef[Any]") -> None:
        """Pass on what was held, and from now on everything."""
        with self._lock:
            self._ref = ref
            while self._held:
                try:
                    deliver(self._held[0], ref, forced=True)
                except ActorDeadError:
                    return
                self._held.popleft()

    def down(self, *mail: Any) -> tuple[Any, ...]:
        """Hold what comes; this mail came before it. Returns the mail when nothing is held any more."""
        with self._lock:
            if self._closed:
                return mail
            self._ref = None
            for envelope in reversed(mail):
                if isinstance(envelope.reply_to, LoopFuture):
                    envelope.reply_to.target = None
                self._held.appendleft(envelope)
            return ()

    def close(self) -> tuple[Any, ...]:
        """Take no more mail; return what was held."""
        with self._lock:
            self._closed, self._ref = True, None
            held = tuple(self._held)
            self._held.clear()
            return held
