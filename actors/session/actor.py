"""A session's actor: the shell around the session's rules. It performs their effects, and only it does."""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, assert_never

import structlog

from actors.lifecycle import Lifecycle
from actors.runtime import ActorDeadError, ActorSystem, Crashed, LoopActor
from actors.session import effects as e
from actors.session import words
from actors.session.approvals import ApprovalBook, asking
from actors.session.asking import Asker
from actors.session.decision import Rules, reply_id
from actors.session.events import publish
from actors.session.facts import ReplyOwed, SessionFact
from actors.session.live import LiveHub
from actors.session.lookups import UsageReport, prepared
from actors.session.quarantine import PATIENCE_S, Quarantine
from actors.session.sides import main_key, side_key
from actors.session.state import Running, Session, fold
from actors.session.transition import decide
from messages.base import Lane, Message
from messages.delivery import TurnSeen
from messages.gateway import (
    ChatType,
    ConfirmationAsked,
    ModelStatusChanged,
    Receipt,
    Say,
    SessionStateChanged,
)
from messages.ids import SessionKey, StreamId, Turn
from messages.session import (
    ApprovalOverdue,
    CommandGiven,
    Heard,
    ModelAnswered,
    ModelFailed,
    RetryDue,
    SideEnded,
    StopAsked,
    StopOverdue,
    UserSpoke,
    Woke,
)
from messages.tool import CancelTools, RunTool, ToolContext
from store.journal import Journal

log = structlog.get_logger(__name__)

_NO_FAILURES = frozenset({"", "compressed", "reset"})
"""What a notice may tell of that leaves no question unanswered; see `ReplyOwed.status`."""

STOP_PATIENCE_S = 5.0
"""How long a stopping turn waits for its tools; their process trees are killed within two."""


class QuarantineOver(Message):
    """The turn that was suspected of killing the process has run for a while, and did not."""


OWN = (ModelAnswered, ModelFailed, RetryDue, StopOverdue, ApprovalOverdue, Woke, QuarantineOver)
"""What an actor tells itself; all else comes through the directory, which counts it."""


class ToSession(Message):
    """The directory is asked to hand this to another session."""

    key: SessionKey
    message: UserSpoke | StopAsked | SideEnded


class SleepIfIdle(Message):
    """The directory asks: may you leave memory? `routed` is how many messages it has handed you."""

    routed: int


class SleepAgreed(Message):
    """Nothing runs, nothing waits, and every message that was handed over has been handled."""

    lane = Lane.CONTROL
    key: SessionKey
    routed: int


@dataclass(frozen=True, slots=True)
class Services:
    """What all sessions of a process share."""

    journal: Journal
    asker: Asker
    hub: LiveHub
    lifecycle: Lifecycle
    count: Callable[[Sequence[SessionFact]], None]
    """Told of every fact that is durable, for the metrics."""
    rules: Rules
    life: str
    tell_workshop: Callable[[RunTool | CancelTools], None]
    tell_delivery: Callable[[Say], None]
    quarantine: Quarantine = field(default_factory=Quarantine)
    approvals: ApprovalBook = field(default_factory=ApprovalBook)
    usage: UsageReport | None = None
    """Says what was used in a place; None where nothing can be asked."""


class SessionActor(LoopActor):
    """One conversation's place. Hears `messages.session.Heard`, in order, one at a time."""

    def __init__(
        self,
        system: ActorSystem,
        key: SessionKey,
        services: Services,
        tell_directory: Callable[[Message], None],
        *,
        after_crash: bool,
        on_crash: Callable[[Crashed], None],
    ) -> None:
        super().__init__(system, name=f"session:{key}", on_crash=on_crash)
        self._key = key
        self._stream = StreamId(f"session:{key}")
        self._services = services
        self._tell_directory = tell_directory
        self._after_crash = after_crash
        self._state = Session(key=key)
        self._length = 0
        self._handled = 0
        self._asking: asyncio.Task[None] | None = None
        self._suspect: Turn | None = None
        """A turn that was there at several deaths, while it waits to be taken up or is watched."""
        self._kept_out = False
        """Whether it still waits to be taken up."""

    async def on_actor_start(self) -> None:
        """Come back from a crash, a deploy or a sleep: read, fold, and take up what is owed."""
        recorded = await self._services.journal.read(self._stream)
        facts: Any = (r.fact for r in recorded)  # a session's stream holds session facts only
        self._state = fold(self._state, facts)
        self._length = recorded[-1].seq if recorded else 0  # what was deleted leaves a gap before the rest
        for call in asking(self._state.running):
            self._services.approvals.note(call.approval, self._key)
        self._services.approvals.read(self._key)
        quarantine, run = self._services.quarantine, self._state.running
        crashed = self._after_crash and self._key in quarantine.taken_up
        if run is not None and run.lives and not crashed:
            self._suspect, self._kept_out = run.turn, True
            quarantine.enter(self._key, self._let_in)
            self._show_state(None)
            return
        if self._state.owing:
            await self._hear(Woke(life=self._services.life, crashed=crashed, at=self.clock.now()))
            self._show_state(None)
        quarantine.taken_up.add(self._key)

    async def on_actor_failure(self, cause: BaseException) -> None:  # noqa: ARG002 whatever it is
        """Keep no other suspect waiting."""
        self._services.quarantine.leave(self._key)

    async def on_actor_stop(self) -> None:
        """Leave: the model's connection is closed by the end of its task."""
        self._services.quarantine.leave(self._key)
        if not self._state.owing:
            self._services.quarantine.taken_up.discard(self._key)
        log.debug("session leaves memory", session=self._key)

    async def on_receive(self, message: Any) -> None:
        if isinstance(message, SleepIfIdle):
            self._consider_sleep(message)
            return
        if self._kept_out and isinstance(message, CommandGiven) and message.name in ("approve", "deny"):
            self.after(1.0, message)  # what it lets run would be taken for what had run before
            return
        if not isinstance(message, OWN):
            self._handled += 1
        if isinstance(message, QuarantineOver):
            self._services.quarantine.leave(self._key)
            return
        before = self._state
        if isinstance(message, CommandGiven):
            message = await prepared(message, self._key, self._services.journal, self._services.usage)
        await self._hear(self._taken_up(message) if isinstance(message, Woke) else message)
        if isinstance(message, Woke):
            self._services.quarantine.taken_up.add(self._key)
        self._look_at_suspect()
        self._show_state(before)

    def _let_in(self) -> None:
        at = self.clock.now()
        try:
            self.actor_ref.tell(Woke(life=self._services.life, crashed=False, at=at))
        except ActorDeadError:
            self._services.quarantine.leave(self._key)

    def _taken_up(self, woke: Woke) -> Woke:
        """Quarantine lets us in; when the suspected turn was stopped meanwhile, only what is owed is left."""
        run, self._kept_out = self._state.running, False
        if run is not None and run.turn == self._suspect:
            self.after(PATIENCE_S, QuarantineOver(), name="quarantine")
            return woke
        return woke.model_copy(update={"crashed": True})

    def _look_at_suspect(self) -> None:
        run = self._state.running
        if self._suspect is not None and (run is None or run.turn != self._suspect):
            self._suspect = None
            self._services.quarantine.leave(self._key)

    def _consider_sleep(self, asked: SleepIfIdle) -> None:
        state = self._state
        if state.running is None and not state.waiting and asked.routed == self._handled:
            self._tell_directory(SleepAgreed(key=self._key, routed=asked.routed))

    async def _hear(self, heard: Heard) -> None:
        decision = decide(self._state, heard, self._services.rules)
        if decision.facts:  # nothing is done that was not written down
            running = self._state.running.turn if self._state.running else None
            waiting = len(self._state.waiting)
            state = fold(self._state, decision.facts)
            # A stale writer's append raises: this incarnation ends, the next reads what is true.
            recorded = await self._services.journal.append(
                self._stream, self._length, decision.facts, owing=state.owing
            )
            self._length += len(recorded)
            self._state = state
            self._services.hub.recorded(self._key, recorded)
            self._services.count(decision.facts)
            publish(self._services.lifecycle, self._key, decision.facts, running, waiting)
        for effect in decision.effects:
            self._perform(effect)

    def _show_state(self, before: Session | None) -> None:
        """Tell who watches whether we are busy, and with what."""
        state = self._state
        run, last = state.running, before.running if before else None
        if before is not None and run is last and len(state.waiting) == len(before.waiting):
            return
        if run is None:
            if last is not None:
                shown = SessionStateChanged(state="idle", turn=state.last_turn)
                self._services.hub.state_changed(self._key, shown)
            return
        self._services.hub.state_changed(
            self._key,
            SessionStateChanged(
                state="stopping" if run.stopping else "running",
                turn=run.turn,
                message_ids=run.message_ids,
                queued=len(state.waiting),
            ),
            self._seen(run),
        )

    def _seen(self, run: Running) -> TurnSeen | None:
        """Return what the live view of a platform must know of a turn."""
        state = self._state
        if run.origin.platform in self._services.rules.pulled or state.session_id is None:
            return None
        if run.purpose == "compress" or run.origin.side is not None:
            return None  # what is written is no answer, or none of the chat's own conversation
        return TurnSeen(
            session_key=self._key,
            turn=run.turn,
            delivery_id=reply_id(state.session_id, run.turn),
            origin=run.origin,
            message_ids=run.message_ids,
        )

    # ------------------------------------------------------------------ effects

    def _perform(self, effect: e.Effect) -> None:
        services = self._services
        match effect:
            case e.AskModel():
                self._ask_model(effect)
            case e.AskModelLater():
                self._ask_later(effect)
            case e.CancelModel():
                self._cancel_model()
            case e.RunTool():
                services.tell_workshop(RunTool(call=effect.call, context=self._context()))
            case e.CancelTools():
                services.tell_workshop(CancelTools(session_key=self._key, turn=effect.turn))
                at = self.clock.now() + timedelta(seconds=STOP_PATIENCE_S)
                self.after(STOP_PATIENCE_S, StopOverdue(turn=effect.turn, at=at), name="stop")
            case e.AskConfirmation():
                self._ask_confirmation(effect)
            case e.StartSide():
                self._tell_session(side_key(self._key, effect.side), UserSpoke(heard=effect.heard))
            case e.StopSide():
                self._tell_session(side_key(self._key, effect.side), StopAsked(at=effect.at))
            case e.TellMain():
                self._tell_session(main_key(self._key), SideEnded(side=effect.side, at=effect.at))
            case e.Deliver():
                services.tell_delivery(_say(self._key, effect))
            case e.Acknowledge():
                services.hub.acknowledge(
                    effect.key or self._key,
                    Receipt(
                        message_id=effect.message_id,
                        session_key=self._key,
                        acceptance=effect.acceptance,
                        why=effect.why,
                    ),
                )
            case e.TellStatus():
                services.hub.told(self._key, ModelStatusChanged(turn=effect.turn, text=effect.text))
            case _:
                assert_never(effect)

    def _ask_model(self, effect: e.AskModel) -> None:
        self._cancel_model()
        self._show_state(None)  # a watcher knows the turn before its first draft
        self._asking = self.background(self._answer(self._state.entries, effect), name="model")

    async def _answer(self, entries: Sequence[Any], effect: e.AskModel) -> None:
        heard = await self._services.asker.ask(self._key, entries, effect, self._note_for_model(effect))
        self.actor_ref.tell(heard)

    def _note_for_model(self, effect: e.AskModel) -> str:
        """Return what is added to the instructions here: the same through all of a session."""
        origin, rules = self._state.origin, self._services.rules
        persona = rules.personalities.get(effect.personality or "", "")
        if origin is None or origin.platform in rules.pulled:
            return persona
        note = words.CONTEXT_NOTE if origin.chat_type is ChatType.DM else words.GROUP_NOTE
        hint = rules.at(origin).hint
        return "\n\n".join(part for part in (note, hint, persona) if part)

    def _tell_session(self, key: SessionKey, message: UserSpoke | StopAsked | SideEnded) -> None:
        self._tell_directory(ToSession(key=key, message=message))

    def _ask_later(self, effect: e.AskModelLater) -> None:
        at = self.clock.now() + timedelta(seconds=effect.wait_s)
        due = RetryDue(turn=effect.turn, call=effect.call, attempt=effect.attempt, at=at)
        self.after(effect.wait_s, due, name="retry")

    def _cancel_model(self) -> None:
        if self._asking is not None and not self._asking.done():
            self._asking.cancel()
        self._asking = None

    def _ask_confirmation(self, effect: e.AskConfirmation) -> None:
        call = effect.call
        self._show_state(None)  # after a restart, nobody knows of the turn yet
        self._services.hub.asked(
            self._key,
            ConfirmationAsked(
                turn=effect.turn, call_id=call.call_id, name=call.name, arguments=call.arguments
            ),
        )
        if effect.approval:
            self._services.approvals.note(effect.approval, self._key)
        due = ApprovalOverdue(
            turn=effect.turn,
            call_id=call.call_id,
            approval=effect.approval,
            at=self.clock.now() + timedelta(seconds=effect.wait_s),
        )
        self.after(effect.wait_s, due, name=f"approval {effect.turn} {call.call_id}")

    def _context(self) -> ToolContext:
        run = self._state.running
        assert run is not None, "tools run in a turn"
        return ToolContext(session_key=self._key, turn=run.turn, origin=run.origin)


def _say(key: SessionKey, effect: e.Deliver) -> Say:
    owed = effect.owed
    return Say(
        delivery_id=owed.delivery_id,
        session_key=key,
        origin=owed.origin,
        parts=owed.parts,
        reply_to=owed.reply_to,
        notice=owed.notice,
        instead=_instead(owed),
    )


def _instead(owed: ReplyOwed) -> str:
    """Say what kind of end this tells of instead of an answer; empty when it answers what it replies to."""
    stops = (
        owed.status == "stopped" and owed.reply_to not in owed.answers[:1]
    )  # /stop, and not what it stopped
    return "" if not owed.notice or owed.status in _NO_FAILURES or stops else owed.status
