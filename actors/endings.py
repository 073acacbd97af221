"""How actors end, and what becomes of their mail: every message is accounted for.

Whoever adopted an actor is told of its end and owns the leftover mail. Without
one, a crash's `on_crash` owns it. Without that, asks get ActorDeadError and tells
become dead letters.
"""

# ruff: noqa: SLF001 the ending is private to the actors of both kinds and to this module

import asyncio
import traceback
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from typing import Any, Protocol

import pykka
import structlog
from pykka import ActorDeadError

from actors.asking import LoopFuture, Party
from actors.mailbox import ControlSignal
from actors.pykka_private import ActorStop, Envelope, actor_of

log = structlog.get_logger(__name__)


@dataclass(frozen=True)
class DeadLetter:
    """A message that nobody will handle, or whose handling was given up."""

    name: str
    """Of the actor it was for."""
    message: Any
    cause: BaseException | None = None
    """None: the actor had ended."""
    traceback: str = ""


@dataclass(frozen=True)
class Crashed:
    """An actor died of an exception."""

    name: str
    ref: "pykka.ActorRef[Any]"
    cause: BaseException
    message: Any
    """What was being handled; None in a start hook or a background task."""
    leftover: tuple[Any, ...]
    """Undelivered mail, in order. Whoever is told of the crash owns it: `redeliver` or `settle` it."""
    envelope: Any = None
    """Of `message`, when its sender still waits for a reply or it may be tried again."""


@dataclass(frozen=True)
class Ended:
    """An actor is gone, and everything about it is over."""

    name: str
    ref: "pykka.ActorRef[Any]"
    crashed: Crashed | None
    """None: it stopped in good order."""
    leftover: tuple[Any, ...]


class HandlingFailedError(Exception):
    """What an asker gets when the handling of the message killed the actor; `__cause__` says of what."""

    def __init__(self, name: str, message_kind: str, attempts: int, cause: BaseException) -> None:
        times = "once" if attempts == 1 else f"{attempts} times"
        super().__init__(f"{name} failed {times} while handling {message_kind}; it was given up: {cause!r}")
        self.__cause__ = cause
        self.name = name
        self.message_kind = message_kind
        self.attempts = attempts


class SupervisedEnvelope(Envelope[Any]):
    """Mail through a supervisor: a failure of its handling is a crash, also when it is an ask."""

    __slots__ = ("attempt",)

    def __init__(self, message: Any, reply_to: Any = None, attempt: int = 1) -> None:
        super().__init__(message, reply_to)
        self.attempt = attempt


class Leftover(tuple[Any, ...]):  # noqa: SLOT001 a tuple with a field cannot have slots
    """Undelivered mail on its way to whoever takes it over.

    When nobody does, and it is thrown away, those who asked are told: no ask hangs
    because somebody forgot it.
    """

    loop: asyncio.AbstractEventLoop | None = None

    def __del__(self) -> None:
        # Runs wherever the collector does, perhaps inside a lock: so it only posts.
        orphans = [envelope.reply_to for envelope in self if _is_orphan(envelope)]
        if orphans and self.loop is not None and not self.loop.is_closed():
            self.loop.call_soon_threadsafe(_fail_orphans, orphans)


def _is_orphan(envelope: Any) -> bool:
    """Say whether the ask still belongs to a dead actor: taking it over changes its target."""
    target = getattr(envelope.reply_to, "target", None)
    return isinstance(target, pykka.ActorRef) and not target.is_alive()


def _fail_orphans(futures: list[Any]) -> None:
    for future in futures:
        future.fail(ActorDeadError("the actor ended before it handled the message"))


class Undertaker(Protocol):
    """Who counts dead letters: the actor system."""

    def bury(self, letter: DeadLetter) -> None:
        """Count, log and report a message that will not be handled."""
        ...


class Mortal(Protocol):
    """What the actors of both kinds have in common at their end."""

    name: str
    system: Any

    @property
    def actor_ref(self) -> Any:
        """As pykka has it."""
        ...

    _ended: Ended | None
    _on_end: Callable[[Ended], None] | None
    _on_crash: Callable[[Crashed], None] | None


def conclude(actor: Mortal, crashed: Crashed | None, mail: tuple[Any, ...]) -> None:
    """Tell the one who should know that an actor is gone, and give him its mail. On the loop."""
    for envelope in mail:
        if isinstance(envelope.message, ActorStop | ControlSignal) and envelope.reply_to is not None:
            envelope.reply_to.set(None)  # it has stopped
    leftover = Leftover(e for e in mail if not isinstance(e.message, ActorStop | ControlSignal))
    leftover.loop = actor.system.loop
    actor._ended = Ended(actor.name, actor.actor_ref, crashed, ())  # not the mail: that has another owner now
    if crashed is not None:
        crashed = replace(crashed, leftover=leftover)
    ended = Ended(actor.name, actor.actor_ref, crashed, leftover)
    try:
        if actor._on_end is not None:
            actor._on_end(ended)
            return
        if crashed is not None and actor._on_crash is not None:
            actor._on_crash(crashed)
            return
    except Exception:
        log.exception("whoever was told of an actor's end failed", actor=actor.name)
    settle(actor.system, ended)


def adopt(ref: "pykka.ActorRef[Any]", on_end: Callable[[Ended], None]) -> bool:
    """Have a function called on the loop when the actor is gone, and own its leftover mail from then on.

    It is called at once when the actor is gone already (its mail was settled then).
    Returns False for an actor that is not one of ours: it cannot tell.
    """
    actor = actor_of(ref)
    if actor is None or not hasattr(actor, "_on_end"):
        return False
    if actor._ended is None:
        actor._on_end = on_end
    else:
        on_end(Ended(actor.name, ref, actor._ended.crashed, ()))
    return True


def stop_actor(ref: "pykka.ActorRef[Any]") -> Awaitable[Any]:
    """Ask an actor to stop after the mail it has; awaiting the result never blocks the loop."""
    if isinstance(ref, Party):
        return ref.stop(block=False)
    return asyncio.to_thread(ref.stop)  # a plain pykka actor's future would block whoever awaits it


def end_actor(ref: "pykka.ActorRef[Any]") -> LoopFuture[Any]:
    """End an actor without handling the mail that waits; one that is not ours is only asked to stop."""
    actor = actor_of(ref)
    future: LoopFuture[Any] = LoopFuture()
    if actor is None:
        future.set(None)
    elif hasattr(actor, "end_now"):
        return actor.end_now()  # type: ignore[no-any-return]
    else:
        ref.stop(block=False)
        future.set(None)
    return future


def settle(system: Undertaker, gone: Ended | Crashed) -> None:
    """Account for mail that nobody takes over: asks get ActorDeadError, tells become dead letters."""
    crashed = gone.crashed if isinstance(gone, Ended) else gone
    if crashed is not None and crashed.message is not None:
        give_up(system, gone.name, crashed.envelope, crashed.cause)
    for envelope in gone.leftover:
        if envelope.reply_to is not None:
            envelope.reply_to.fail(ActorDeadError(f"{gone.name} ended before it handled the message"))
        else:
            system.bury(DeadLetter(gone.name, envelope.message))


def give_up(system: Undertaker, name: str, envelope: Any, cause: BaseException) -> DeadLetter:
    """Make a dead letter of a message whose handling failed; its asker gets a typed failure."""
    attempts = getattr(envelope, "attempt", 1)
    letter = DeadLetter(name, envelope.message, cause, "".join(traceback.format_exception(cause)))
    if envelope.reply_to is not None:
        kind = type(envelope.message).__name__
        envelope.reply_to.fail(HandlingFailedError(name, kind, attempts, cause))
    system.bury(letter)
    return letter


def redeliver(gone: Ended | Crashed, to_ref: "pykka.ActorRef[Any]") -> tuple[Any, ...]:
    """Put the leftover mail into another actor's mailbox, in order.

    Returns the messages that could not be delivered because that one is dead too;
    asks among them have got ActorDeadError, tells are the caller's to account for.
    """
    lost = []
    for envelope in gone.leftover:
        try:
            deliver(envelope, to_ref, forced=True)
        except ActorDeadError as error:
            if envelope.reply_to is not None:
                envelope.reply_to.fail(error)
            lost.append(envelope.message)
    return tuple(lost)


def deliver(envelope: Any, to_ref: "pykka.ActorRef[Any]", *, forced: bool = False) -> None:
    """Put an envelope into an actor's mailbox; a `forced` one is never refused for fullness.

    Raises ActorDeadError and MailboxFullError, also for an ask.
    """
    if isinstance(envelope.reply_to, LoopFuture) and isinstance(to_ref, Party):
        envelope.reply_to.target = to_ref
    inbox = to_ref.actor_inbox
    if hasattr(inbox, "accept"):
        inbox.accept(envelope, forced=forced)
    elif to_ref.is_alive():
        inbox.put(envelope)
    else:
        raise ActorDeadError(f"{to_ref} not found")
