"""What a session remembers between messages: the fold of its facts. Pure.

`apply` never decides and never fails on a fact that was once accepted; facts of
kinds that mean nothing to the state are simply passed over.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from datetime import datetime
from functools import reduce
from typing import Literal, assert_never

from actors.session import facts as f
from actors.session.words import MARKERS
from messages.blocks import (
    AssistantBlock,
    AssistantEntry,
    Entry,
    ResultsEntry,
    TextBlock,
    ThinkingBlock,
    ToolResultBlock,
    UserBlock,
    UserEntry,
)
from messages.gateway import ChatType, Origin, Said
from messages.ids import CallId, DeliveryId, MessageId, SessionId, SessionKey, Turn
from messages.model import ModelRef, StopReason
from messages.settings import BusyPolicy
from messages.tool import PreparedCall

NO_TURN = Turn(0)

REMEMBERED_IDS = 1000
"""How many message ids a session knows for telling a repeated delivery."""

Phase = Literal["asking", "ready", "running", "done"]


@dataclass(frozen=True, slots=True)
class Call:
    """One tool call of the running turn."""

    prepared: PreparedCall
    phase: Phase = "ready"
    result: ToolResultBlock | None = None
    began_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class Running:
    """The one active run."""

    turn: Turn
    message_ids: tuple[MessageId, ...]
    began_at: datetime
    origin: Origin
    can_confirm: bool = False
    call: int = 1
    """The model call that is asked or was answered last."""
    attempt: int = 1
    model: ModelRef | None = None
    """Another than the session's, after a failover."""
    calls: tuple[Call, ...] = ()
    """The tool calls of the last answer while they are not all done."""
    tools_called: int = 0
    input_tokens: int | None = None
    output_tokens: int | None = None
    nudges: tuple[str, ...] = ()
    """What the model was told by us in this turn."""
    malformed: int = 0
    cut_calls: int = 0
    shrinks: int = 0
    waited_s: float = 0.0
    """How long the turn has waited for a provider whose breaker is open."""
    final: bool = False
    """The budget is spent: one last answer, without tools."""
    stopping: Literal["stopped", "interrupted", "reset"] | None = None
    reset_to: SessionId | None = None
    lives: tuple[str, ...] = ()
    """The lives of the process that found this turn running."""


@dataclass(frozen=True, slots=True)
class Session:
    """A session between two messages."""

    key: SessionKey
    session_id: SessionId | None = None
    origin: Origin | None = None
    running: Running | None = None
    last_turn: Turn = NO_TURN
    waiting: tuple[f.MessageAccepted, ...] = ()
    carried: tuple[MessageId, ...] = ()
    """Messages of an interrupted turn, which the next turn answers with its own."""
    entries: tuple[Entry, ...] = ()
    owed: tuple[f.ReplyOwed, ...] = ()
    seen: tuple[MessageId, ...] = ()
    policy: BusyPolicy | None = None
    model: ModelRef | None = None
    notices: int = 0
    """Counts what was said by us, to name it."""
    messages: int = 0
    opened_at: datetime | None = None

    @property
    def owing(self) -> bool:
        """Whether something is left to do that a restart must take up."""
        return self.running is not None or bool(self.waiting) or bool(self.owed)


def fold(state: Session, facts: Iterable[f.SessionFact]) -> Session:
    """Remember facts, one after the other."""
    return reduce(apply, facts, state)


def apply(state: Session, fact: f.SessionFact) -> Session:
    """Remember one fact."""
    match fact:
        case f.SessionOpened():
            return _opened(state, fact)
        case f.MessageAccepted():
            return replace(
                state,
                waiting=(*state.waiting, fact),
                seen=_remember(state.seen, fact.message_id),
                messages=state.messages + 1,
            )
        case f.MessagesRefused():
            gone = set(fact.message_ids)
            return replace(state, waiting=tuple(w for w in state.waiting if w.message_id not in gone))
        case f.CommandAccepted():
            return replace(state, seen=_remember(state.seen, fact.message_id))
        case f.TurnBegan():
            return _began(state, fact)
        case f.TurnResumed():
            return _in_run(
                state, fact.turn, lambda run: replace(run, lives=(*run.lives, fact.life), attempt=1)
            )
        case f.ModelCallAnswered():
            return _answered(state, fact)
        case f.ModelCallFailed():
            return _in_run(state, fact.turn, lambda run: _failed(run, fact))
        case f.ConfirmationWanted():
            return _in_call(state, fact.turn, fact.call_id, lambda call: replace(call, phase="asking"))
        case f.ConfirmationSettled():
            return _in_call(state, fact.turn, fact.call_id, lambda call: replace(call, phase="ready"))
        case f.ToolCallStarted():
            return _in_call(
                state, fact.turn, fact.call_id, lambda call: replace(call, phase="running", began_at=fact.at)
            )
        case f.ToolCallEnded():
            return _call_ended(state, fact)
        case f.Steered():
            return _steered(state, fact)
        case f.Nudged():
            return _nudged(state, fact)
        case f.TurnStopping():
            return _in_run(
                state, fact.turn, lambda run: replace(run, stopping=fact.reason, reset_to=fact.reset_to)
            )
        case f.TurnEnded():
            carried = fact.message_ids if fact.reason == "interrupted" else ()
            return replace(state, running=None, carried=carried)
        case f.ReplyOwed():
            return replace(state, owed=(*state.owed, fact), notices=state.notices + (1 if fact.notice else 0))
        case f.ReplyDelivered() | f.ReplyGivenUp():
            return replace(state, owed=tuple(o for o in state.owed if o.delivery_id != fact.delivery_id))
        case f.PolicyChosen():
            return replace(state, policy=fact.policy)
        case f.ModelChosen():
            return replace(state, model=fact.model)
        case f.MessageGivenUp():
            seen = state.seen if fact.message_id is None else _remember(state.seen, fact.message_id)
            return replace(state, seen=seen)
        case f.DeadLetterClosed():
            return state
        case f.HistoryErased():
            return Session(key=state.key, last_turn=fact.last_turn)
        case _:
            assert_never(fact)


def owes(state: Session, delivery_id: DeliveryId) -> bool:
    """Whether this reply still waits for its receipt."""
    return any(owed.delivery_id == delivery_id for owed in state.owed)


def _opened(state: Session, fact: f.SessionOpened) -> Session:
    """Begin a conversation; what waits and what is owed belongs to the place, and stays."""
    entries = tuple(_said(line) for line in fact.context)
    return replace(
        state,
        session_id=fact.session_id,
        origin=fact.origin,
        entries=entries,
        carried=(),
        messages=0,
        opened_at=fact.at,
    )


def _said(line: Said) -> Entry:
    block = TextBlock(text=line.text)
    if line.role == "assistant":
        return AssistantEntry(blocks=(block,))
    return UserEntry(blocks=(block,))


def _began(state: Session, fact: f.TurnBegan) -> Session:
    taken = [w for w in state.waiting if w.message_id in fact.message_ids]
    speaker = taken[0] if taken else None
    origin = speaker.origin if speaker else state.origin
    assert origin is not None, "a turn begins in an opened session"
    running = Running(
        turn=fact.turn,
        message_ids=fact.message_ids,
        began_at=fact.at,
        origin=origin,
        can_confirm=any(w.can_confirm for w in taken),
    )
    return replace(
        state,
        running=running,
        last_turn=fact.turn,
        carried=(),
        waiting=tuple(w for w in state.waiting if w.message_id not in fact.message_ids),
        entries=(*state.entries, *(user_entry(w) for w in taken)),
    )


def _answered(state: Session, fact: f.ModelCallAnswered) -> Session:
    run = state.running
    if run is None or run.turn != fact.turn:
        return state
    run = replace(
        run,
        call=fact.call + 1,
        attempt=1,
        calls=tuple(Call(prepared=prepared) for prepared in fact.calls),
        tools_called=run.tools_called + len(fact.calls),
        input_tokens=_sum(run.input_tokens, fact.usage.input_tokens),
        output_tokens=_sum(run.output_tokens, fact.usage.output_tokens),
        malformed=run.malformed + (fact.stop is StopReason.MALFORMED),
        cut_calls=run.cut_calls + (1 if fact.calls and fact.stop in CUT else 0),
    )
    blocks = tuple(block for block in fact.blocks if not _says_nothing(block))
    if all(isinstance(block, ThinkingBlock) for block in blocks):
        return replace(state, running=run)
    return replace(state, running=run, entries=(*state.entries, AssistantEntry(blocks=blocks)))


def _says_nothing(block: AssistantBlock) -> bool:
    return isinstance(block, TextBlock) and (not block.text.strip() or block.text.strip() in MARKERS)


CUT = (StopReason.LENGTH, StopReason.CONTEXT_FULL)


def _failed(run: Running, fact: f.ModelCallFailed) -> Running:
    match fact.next_step:
        case "retry":
            return replace(run, attempt=fact.attempt + 1)
        case "wait":
            return replace(run, waited_s=run.waited_s + fact.wait_s)
        case "fail_over":
            return replace(run, attempt=fact.attempt + 1, model=fact.model)
        case "shrink":
            return replace(run, shrinks=run.shrinks + 1)
        case "give_up":
            return run
        case _:
            assert_never(fact.next_step)


def _call_ended(state: Session, fact: f.ToolCallEnded) -> Session:
    result = ToolResultBlock(call_id=fact.call_id, status=fact.status, text=fact.text, kept_in=fact.kept_in)
    state = _in_call(state, fact.turn, fact.call_id, lambda call: replace(call, phase="done", result=result))
    run = state.running
    if run is None or not run.calls or any(call.phase != "done" for call in run.calls):
        return state
    # All are in: the model gets them together, in the order of its calls.
    results = tuple(call.result for call in run.calls if call.result is not None)
    return replace(
        state,
        running=replace(run, calls=()),
        entries=(*state.entries, ResultsEntry(results=results)),
    )


def _steered(state: Session, fact: f.Steered) -> Session:
    run = state.running
    if run is None or run.turn != fact.turn:
        return state
    taken = [w for w in state.waiting if w.message_id in fact.message_ids]
    return replace(
        state,
        running=replace(run, message_ids=(*run.message_ids, *fact.message_ids)),
        waiting=tuple(w for w in state.waiting if w.message_id not in fact.message_ids),
        entries=(*state.entries, *(user_entry(w) for w in taken)),
    )


def _nudged(state: Session, fact: f.Nudged) -> Session:
    run = state.running
    if run is None or run.turn != fact.turn:
        return state
    run = replace(run, nudges=(*run.nudges, fact.reason), final=run.final or fact.reason == "budget")
    nudge = UserEntry(blocks=(TextBlock(text=fact.text),))
    return replace(state, running=run, entries=(*state.entries, nudge))


def user_entry(message: f.MessageAccepted) -> UserEntry:
    """What the model reads of a message: in shared places with the speaker's name before it.

    Names come from outside: one line, quoted, nothing that could pass for markup of ours.
    """
    text = message.text
    if message.origin.chat_type is not ChatType.DM:
        name = " ".join(message.author.name.split())[:80].replace('"', "'") or message.author.id
        text = f'"{name}": {text}'
    blocks: tuple[UserBlock, ...] = (TextBlock(text=text),) if text else ()
    return UserEntry(blocks=(*blocks, *message.attachments))


def _in_run(state: Session, turn: Turn, change: Callable[[Running], Running]) -> Session:
    run = state.running
    if run is None or run.turn != turn:
        return state
    return replace(state, running=change(run))


def _in_call(state: Session, turn: Turn, call_id: CallId, change: Callable[[Call], Call]) -> Session:
    return _in_run(
        state,
        turn,
        lambda run: replace(
            run,
            calls=tuple(change(call) if call.prepared.call_id == call_id else call for call in run.calls),
        ),
    )


def _remember(seen: tuple[MessageId, ...], message_id: MessageId) -> tuple[MessageId, ...]:
    return (*seen[-(REMEMBERED_IDS - 1) :], message_id)


def _sum(a: int | None, b: int | None) -> int | None:
    return b if a is None else a if b is None else a + b
