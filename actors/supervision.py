"""Supervision as data: child specs, a pure verdict on each crash, and the actor that carries it out.

What is decided for a child that crashed:

    =========  =======================================  =================================
    restart    crashes within `within_seconds`          verdict
    =========  =======================================  =================================
    never      any                                      LetGo
    other      up to `most`                             Restart after a jittered backoff
    other      more, `beyond` is "degrade"              Degraded: again, at the longest interval
    other      more, `beyond` is "escalate"             Escalate: the supervisor itself crashes
    =========  =======================================  =================================

A child that stops in good order is let go, unless `restart` is "always".

Time is counted while the child runs: waiting for a restart is not a healthy
period. So the backoff resets, and a degraded child has recovered, after it has run
for `within_seconds` without a crash.

Mail outlives its actor. Other rooms hold a child's `Handle`, not its ref. Told or
asked while the child is down, mail waits (bounded). After a crash the new
incarnation gets, in this order: the message that crashed its predecessor if it has
attempts left, what that one had not handled, what has come since.
"""

import random
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final, Literal

import pykka
import structlog
from pykka import ActorDeadError

from actors.endings import (
    Crashed,
    DeadLetter,
    Ended,
    SupervisedEnvelope,
    adopt,
    end_actor,
    give_up,
    stop_actor,
)
from actors.handle import Handle
from actors.mailbox import ControlSignal
from actors.runtime import LoopActor
from actors.system import GRACE_S, ActorSystem, within
from messages.base import Lane, Message

log = structlog.get_logger(__name__)

STOP_S: Final = 10.0
"""How long a child may take to handle what it has and stop, before it is ended by force."""

POLL_S: Final = 1.0
"""How often an actor that is not one of ours is asked whether it lives."""


# ------------------------------------------------------------------------- rules


@dataclass(frozen=True, slots=True)
class Backoff:
    """How long to wait before a restart: exponential, with full jitter. In seconds."""

    first_s: float = 1.0
    most_s: float = 60.0
    factor: float = 2.0

    def wait(self, attempt: int, chance: float) -> float:
        """Return the wait before the attempt (from 1); `chance` in [0, 1) is drawn by the caller."""
        ceiling = self.first_s
        for _ in range(attempt - 1):
            if ceiling >= self.most_s or self.factor <= 1.0:
                break
            ceiling *= self.factor
        return chance * min(ceiling, self.most_s)


@dataclass(frozen=True)
class Child:
    """How one child is started and what happens when it ends."""

    name: str
    start: "Callable[[], pykka.ActorRef[Any]]"
    """Starts the actor and returns its ref. May raise: that is a crash like any other."""
    restart: Literal["always", "on_crash", "never"] = "on_crash"
    backoff: Backoff = Backoff()
    most: int = 5
    """So many crashes within `within_seconds` are borne."""
    within_seconds: float = 60.0
    beyond: Literal["degrade", "escalate"] = "escalate"
    attempts: int = 1
    """How often a message that kills the actor is handled before it becomes a dead letter."""


@dataclass(frozen=True, slots=True)
class Restart:
    """Start it again after so many seconds."""

    after_s: float


@dataclass(frozen=True, slots=True)
class Degraded:
    """It crashes too often: try it at the longest interval, for ever, and say so."""

    after_s: float


@dataclass(frozen=True, slots=True)
class Escalate:
    """It crashes too often, and nothing works without it: the supervisor's own supervisor decides."""


@dataclass(frozen=True, slots=True)
class LetGo:
    """Leave it."""


Verdict = Restart | Degraded | Escalate | LetGo


def verdict(child: Child, crashes: tuple[float, ...], now: float, chance: float) -> Verdict:
    """Decide about a child that has just crashed.

    `crashes` are the times of its crashes, this one included; `now` is on the same
    clock (seconds of the child's running time); `chance` is in [0, 1).
    """
    if child.restart == "never":
        return LetGo()
    recent = sum(now - at < child.within_seconds for at in crashes)
    if recent <= child.most:
        return Restart(child.backoff.wait(max(recent, 1), chance))
    return Degraded(child.backoff.most_s) if child.beyond == "degrade" else Escalate()


# ----------------------------------------------------------------------- reports


@dataclass(frozen=True, slots=True)
class Incident:
    """Something that happened to a child, for the log, the store and the people who watch."""

    child: str
    what: Literal["crashed", "restarted", "degraded", "recovered", "escalated", "dead_letter"]
    detail: str
    at: datetime


@dataclass(frozen=True, slots=True)
class ChildStatus:
    """How a child is, for the console and for health checks."""

    name: str
    state: Literal["up", "waiting", "degraded", "down"]
    starts: int
    recent_crashes: int
    held: int
    """Mail that waits because the child is down."""


class EscalatedError(Exception):
    """A child crashed more often than is borne; `__cause__` is its last crash."""


# -------------------------------------------------------------------- supervisor


class _ChildEnded(ControlSignal):
    """A child is gone, or could not be started; `cause` is None when it stopped in good order."""

    def __init__(self, name: str, life: int, cause: BaseException | None) -> None:
        self.name = name
        self.life = life
        self.cause = cause


class RestartDue(Message):
    """The wait before a child's next start is over."""

    lane = Lane.CONTROL
    child: str
    life: int


class HealthyPeriodOver(Message):
    """A child has run for as long as it takes to count as healthy."""

    lane = Lane.CONTROL
    child: str
    life: int


class PollDue(Message):
    """Time to look whether the actors live that cannot tell of their end."""

    lane = Lane.CONTROL


@dataclass
class _Slot:
    """A child's place: the spec, and how it goes."""

    spec: Child
    handle: Handle
    ref: "pykka.ActorRef[Any] | None" = None
    life: int = 0
    crashes: tuple[float, ...] = ()
    ran_s: float = 0.0
    """Running time of all lives before this one."""
    up_since: float = 0.0
    state: Literal["up", "waiting", "degraded", "down"] = "down"
    stopping: bool = False
    degraded: bool = False
    tells_its_end: bool = True


@dataclass(frozen=True)
class Reports:
    """Whom a supervisor tells what; both are called on the loop and must not block."""

    on_incident: Callable[[Incident], None] = field(default=lambda _incident: None)
    on_dead_letter: Callable[[DeadLetter], None] = field(default=lambda _letter: None)


class Supervisor(LoopActor):
    """Starts its children in order, restarts them as their specs say, stops them in reverse.

    With `one_for_one` a crash concerns the child alone; with `rest_for_one` also
    those that were started after it, which are stopped and started again with it.
    """

    def __init__(
        self,
        system: ActorSystem,
        children: tuple[Child, ...],
        *,
        name: str = "supervisor",
        strategy: Literal["one_for_one", "rest_for_one"] = "one_for_one",
        reports: Reports | None = None,
        chance: Callable[[], float] | None = None,
    ) -> None:
        super().__init__(system, name=name)
        self._strategy = strategy
        self._reports = reports or Reports()
        self._chance = chance or random.Random().random  # noqa: S311 jitter, no secret
        self._slots = {child.name: _Slot(child, Handle(child.name)) for child in children}
        if len(self._slots) != len(children):
            raise ValueError("two children of one supervisor have the same name")

    def handle(self, name: str) -> Handle:
        """Return a child's stable address. Raises KeyError."""
        return self._slots[name].handle

    def status(self) -> tuple[ChildStatus, ...]:
        """Say how the children are, in the order of their start."""
        return tuple(
            ChildStatus(name, slot.state, slot.life, len(slot.crashes), len(slot.handle))
            for name, slot in self._slots.items()
        )

    async def on_actor_start(self) -> None:
        for slot in self._slots.values():
            self._start_child(slot)

    async def on_receive(self, message: object) -> None:
        match message:
            case _ChildEnded():
                await self._child_ended(self._slots[message.name], message)
            case RestartDue():
                self._restart(self._slots[message.child], message.life)
            case HealthyPeriodOver():
                self._recovered(self._slots[message.child], message.life)
            case PollDue():
                self._poll()
            case _:
                log.warning("message that a supervisor does not know", supervisor=self.name, message=message)

    async def on_actor_stop(self) -> None:
        await self._stop_children()

    async def on_actor_failure(self, cause: BaseException) -> None:  # noqa: ARG002 whatever it is
        await self._stop_children()

    # ---------------------------------------------------------------- starting

    def _start_child(self, slot: _Slot) -> None:
        slot.life += 1
        life = slot.life
        try:
            ref = slot.spec.start()
        except Exception as error:  # noqa: BLE001 starting cannot fail: whatever it raises is a crash, counted
            slot.up_since = self.clock.monotonic()
            slot.ref, slot.state = None, "waiting"
            self._report(slot, "crashed", f"{error!r} in its start")
            self._signal(_ChildEnded(slot.spec.name, life, error))
            return
        slot.ref, slot.state = ref, "up"
        slot.up_since = self.clock.monotonic()
        slot.tells_its_end = adopt(ref, lambda ended: self._child_gone(slot, life, ended))
        if not slot.tells_its_end:
            self.after(POLL_S, PollDue(), name="poll")
        slot.handle.up(ref)
        if life > 1:
            self._report(slot, "restarted", f"start number {life}")
            healthy = HealthyPeriodOver(child=slot.spec.name, life=life)
            self.after(slot.spec.within_seconds, healthy, name=f"healthy {slot.spec.name}")

    def _restart(self, slot: _Slot, life: int) -> None:
        if slot.life != life or slot.ref is not None or self.system.stopping:
            return
        self._start_child(slot)
        if self._strategy == "rest_for_one":
            for later in self._after(slot):
                if later.ref is None and later.state != "down":
                    self._start_child(later)

    def _after(self, slot: _Slot) -> tuple[_Slot, ...]:
        slots = tuple(self._slots.values())
        return slots[slots.index(slot) + 1 :]

    def _recovered(self, slot: _Slot, life: int) -> None:
        if slot.life != life or slot.ref is None:
            return
        slot.crashes = ()
        if slot.degraded:
            slot.degraded = False
            self._report(slot, "recovered", f"running for {slot.spec.within_seconds:g} s")

    # ------------------------------------------------------------------ ending

    def _child_gone(self, slot: _Slot, life: int, ended: Ended) -> None:
        """Take over the mail of a child that is gone, at once. Called by the runtime, between two messages."""
        if slot.life == life:
            slot.ref = None
        crashed = ended.crashed
        for envelope in slot.handle.down(*ended.leftover):
            self._bury(slot, envelope)
        if crashed is not None:
            self._report(slot, "crashed", _describe(crashed))
            if crashed.message is not None:
                self._try_again_or_give_up(slot, crashed)
        if not slot.stopping and not self.actor_stopped.is_set():
            self._signal(_ChildEnded(slot.spec.name, life, crashed.cause if crashed is not None else None))

    async def _child_ended(self, slot: _Slot, end: _ChildEnded) -> None:
        if slot.life != end.life:
            return  # somebody else has decided about it meanwhile
        slot.ref = None
        in_order = end.cause is None and slot.spec.restart != "always"
        if in_order or self.system.stopping:
            self._carry_out_let_go(slot)
            return
        slot.ran_s += self.clock.monotonic() - slot.up_since
        slot.crashes = (*slot.crashes[-slot.spec.most :], slot.ran_s)
        decision = verdict(slot.spec, slot.crashes, slot.ran_s, self._chance())
        await self._carry_out(slot, decision, end)

    def _signal(self, end: "_ChildEnded") -> None:
        self.actor_inbox.accept(SupervisedEnvelope(end))

    async def _carry_out(self, slot: _Slot, decision: Verdict, end: _ChildEnded) -> None:
        match decision:
            case Restart():
                slot.state = "waiting"
            case Degraded():
                slot.state = "degraded"
                if not slot.degraded:
                    slot.degraded = True
                    self._report(slot, "degraded", f"tried again every {decision.after_s:g} s")
            case LetGo():
                self._carry_out_let_go(slot)
                return
            case Escalate():
                self._report(slot, "escalated", f"more than {slot.spec.most} crashes")
                raise EscalatedError(f"{slot.spec.name} crashes too often") from end.cause
        if self._strategy == "rest_for_one":
            for later in reversed(self._after(slot)):
                await self._stop_child(later, "waiting")
        due = RestartDue(child=slot.spec.name, life=slot.life)
        self.after(decision.after_s, due, name=f"restart {slot.spec.name}")

    def _carry_out_let_go(self, slot: _Slot) -> None:
        slot.state = "down"
        for envelope in slot.handle.close():
            self._bury(slot, envelope)

    async def _stop_child(self, slot: _Slot, state: Literal["waiting", "down"]) -> None:
        """Stop a child that runs; its mail stays in its handle. `down` children stay down."""
        if slot.state != "down":
            slot.state = state
        ref = slot.ref
        if ref is None:
            slot.life += 1  # a restart that is under way is ours to do now
            return
        slot.stopping = True
        try:
            if not await within(stop_actor(ref), STOP_S):
                log.warning("child did not stop in time and is ended", child=slot.spec.name)
                await within(end_actor(ref), GRACE_S)
        finally:
            slot.stopping, slot.ref = False, None

    async def _stop_children(self) -> None:
        for slot in reversed(tuple(self._slots.values())):
            await self._stop_child(slot, "down")
            self._carry_out_let_go(slot)

    def _poll(self) -> None:
        blind = [s for s in self._slots.values() if s.ref is not None and not s.tells_its_end]
        for slot in blind:
            if slot.ref is not None and not slot.ref.is_alive():
                slot.handle.down()
                error = ActorDeadError(f"{slot.ref} is dead; why is in the log")
                self._report(slot, "crashed", str(error))
                self._signal(_ChildEnded(slot.spec.name, slot.life, error))
        if blind:
            self.after(POLL_S, PollDue(), name="poll")

    # -------------------------------------------------------------------- mail

    def _try_again_or_give_up(self, slot: _Slot, crashed: Crashed) -> None:
        attempt = getattr(crashed.envelope, "attempt", 1)
        if attempt < slot.spec.attempts:
            again = SupervisedEnvelope(crashed.message, crashed.envelope.reply_to, attempt + 1)
            for envelope in slot.handle.down(again):
                self._bury(slot, envelope)
        else:
            self._give_up(slot, crashed)

    def _give_up(self, slot: _Slot, crashed: Crashed) -> None:
        letter = give_up(self.system, slot.spec.name, crashed.envelope, crashed.cause)
        self._report_letter(slot, letter)

    def _bury(self, slot: _Slot, envelope: Any) -> None:
        if envelope.reply_to is not None:
            envelope.reply_to.fail(ActorDeadError(f"{slot.spec.name} is not running any more"))
            return
        letter = DeadLetter(slot.spec.name, envelope.message)
        self.system.bury(letter)
        self._report_letter(slot, letter)

    def _report_letter(self, slot: _Slot, letter: DeadLetter) -> None:
        self._report(slot, "dead_letter", f"{type(letter.message).__name__}: {letter.cause!r}")
        self._reports.on_dead_letter(letter)

    def _report(
        self,
        slot: _Slot,
        what: Literal["crashed", "restarted", "degraded", "recovered", "escalated", "dead_letter"],
        detail: str,
    ) -> None:
        log.warning("incident", supervisor=self.name, child=slot.spec.name, what=what, detail=detail)
        self._reports.on_incident(Incident(slot.spec.name, what, detail, self.clock.now()))


def _describe(crashed: Crashed) -> str:
    message = crashed.message
    where = "outside of a message" if message is None else f"while handling {type(message).__name__}"
    return f"{crashed.cause!r} {where}"
