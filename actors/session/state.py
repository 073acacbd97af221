"""What a session remembers between messages: the fold of its facts. Pure.

`apply` never decides and never fails on a fact that was once accepted; facts of
kinds that mean nothing to the state are simply passed over.
"""

from collections.abc import Callable, Iterable
from dataclasses import replace
from datetime import datetime
from functools import reduce
from typing import assert_never

from actors.session import facts as f
from actors.session.entries import first_words, summary_entry, user_entry
from actors.session.shape import REMEMBERED_APPROVALS, REMEMBERED_IDS, Call, Exchange, Running, Session
from actors.session.words import MARKERS
from messages.blocks import (
    AssistantBlock,
    AssistantEntry,
    Entry,
    ResultsEntry,
    TextBlock,
    ThinkingBlock,
    ToolResultBlock,
    UserEntry,
)
from messages.gateway import Said, Surroundings
from messages.ids import CallId, DeliveryId, MessageId, Turn
from messages.model import StopReason

__all__ = ["CUT", "Call", "Exchange", "Running", "Session", "apply", "fold", "owes"]


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
                noted=0,
                first_words=state.first_words or first_words(fact.text),
                last_at=_later(state.last_at, fact.at),
            )
        case f.MessagesRefused():
            gone = set(fact.message_ids)
            return replace(state, waiting=tuple(w for w in state.waiting if w.message_id not in gone))
        case f.EditNoted() | f.DeletionNoted():
            return _changed(state, fact)
        case f.CommandAccepted():
            return replace(
                state, seen=_remember(state.seen, fact.message_id), last_at=_later(state.last_at, fact.at)
            )
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
            return _in_call(
                state,
                fact.turn,
                fact.call_id,
                lambda call: replace(
                    call,
                    phase="asking",
                    approval=fact.approval,
                    in_chat=fact.in_chat,
                    expires_at=fact.expires_at,
                ),
            )
        case f.ConfirmationSettled():
            outcome = "expired" if fact.timed_out else "approved" if fact.yes else "denied"
            state = _decided(state, fact.turn, fact.call_id, outcome)
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
            return replace(state, running=None, carried=carried, last_at=_later(state.last_at, fact.at))
        case f.ReplyOwed():
            return replace(state, owed=(*state.owed, fact), notices=state.notices + (1 if fact.notice else 0))
        case f.ReplyDelivered() | f.ReplyGivenUp():
            return replace(state, owed=tuple(o for o in state.owed if o.delivery_id != fact.delivery_id))
        case f.PolicyChosen():
            return replace(state, policy=fact.policy)
        case f.ModelChosen():
            return replace(state, model=fact.model)
        case f.TitleChosen():
            return replace(state, title=fact.title)
        case f.PersonalityChosen():
            return replace(state, personality=fact.name)
        case f.AnswerDiscarded() | f.ExchangesUndone():
            return _taken_back(state, fact)
        case f.ConversationResumed():
            return replace(state, entries=fact.entries, title=fact.title, exchanges=(), told=None)
        case f.ContextCompacted():
            return _compacted(state, fact)
        case f.SideBegan():
            return replace(state, sides=(*state.sides, fact))
        case f.SideFinished():
            return replace(state, sides=tuple(s for s in state.sides if s.side != fact.side))
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
        last_at=_later(state.last_at, fact.at),
        title="",
        first_words="",
        told=None,
        exchanges=(),
    )


def _said(line: Said) -> Entry:
    block = TextBlock(text=line.text)
    if line.role == "assistant":
        return AssistantEntry(blocks=(block,))
    return UserEntry(blocks=(block,))


def _began(state: Session, fact: f.TurnBegan) -> Session:
    taken = [w for w in state.waiting if w.message_id in fact.message_ids]
    last = state.exchanges[-1] if state.exchanges else None
    entries, told, exchanges = state.entries, state.told, state.exchanges
    if fact.purpose == "answer":
        said, told = _entries_of(taken, told)
        exchange = _exchange(state, fact, taken, said)
        # What an interrupted turn had begun to answer is answered here: the two are one exchange.
        kept = exchanges[:-1] if fact.carried and last else exchanges
        entries, exchanges = (*entries, *said), (*kept, exchange)
    elif fact.purpose == "again" and last is not None:
        exchange = replace(last, turn=fact.turn)
        exchanges = (*exchanges[:-1], exchange)
    else:
        assert state.origin is not None, "a turn begins in an opened session"
        exchange = Exchange(fact.turn, len(entries), (), state.origin)
    running = Running(
        turn=fact.turn,
        message_ids=fact.message_ids,
        began_at=fact.at,
        origin=exchange.origin,
        can_confirm=exchange.can_confirm,
        speakers=exchange.speakers,
        purpose=fact.purpose,
        upto=fact.upto,
        personality=state.personality,
    )
    return replace(
        state,
        running=running,
        last_turn=fact.turn,
        carried=(),
        waiting=tuple(w for w in state.waiting if w.message_id not in fact.message_ids),
        entries=entries,
        told=told,
        exchanges=exchanges,
        last_at=_later(state.last_at, fact.at),
    )


def _exchange(
    state: Session, fact: f.TurnBegan, taken: list[f.MessageAccepted], said: tuple[UserEntry, ...]
) -> Exchange:
    carried = state.exchanges[-1] if fact.carried and state.exchanges else None
    origin = taken[0].origin if taken else carried.origin if carried else state.origin
    assert origin is not None, "a turn begins in an opened session"
    new = Exchange(
        turn=fact.turn,
        start=len(state.entries),
        said=said,
        origin=origin,
        speakers=tuple(dict.fromkeys(w.author.id for w in taken)),
        can_confirm=any(w.can_confirm for w in taken),
        asked=first_words(taken[0].text) if taken else "",
    )
    if carried is None:
        return new
    return replace(
        new,
        start=carried.start,
        said=(*carried.said, *said),
        speakers=tuple(dict.fromkeys((*carried.speakers, *new.speakers))),
        can_confirm=new.can_confirm or (not taken and carried.can_confirm),
        asked=carried.asked or new.asked,
    )


def _entries_of(
    messages: Iterable[f.MessageAccepted], told: Surroundings | None
) -> tuple[tuple[UserEntry, ...], Surroundings | None]:
    """Return what the model reads of messages, and what it knows of the place's names then."""
    entries = []
    for message in messages:
        entries.append(user_entry(message, told))
        told = message.surroundings or told
    return tuple(entries), told


def _changed(state: Session, fact: f.EditNoted | f.DeletionNoted) -> Session:
    """What waits is answered as it is now written, or not at all; what is past stays as it was."""
    noted = state.noted + 1
    if not fact.in_time:
        return replace(state, noted=noted)
    if isinstance(fact, f.DeletionNoted):
        kept = tuple(w for w in state.waiting if w.message_id != fact.message_id)
        return replace(state, waiting=kept, noted=noted)
    return replace(
        state,
        noted=noted,
        waiting=tuple(
            w.model_copy(update={"text": fact.text}) if w.message_id == fact.message_id else w
            for w in state.waiting
        ),
    )


def _taken_back(state: Session, fact: f.AnswerDiscarded | f.ExchangesUndone) -> Session:
    turns = fact.turns if isinstance(fact, f.ExchangesUndone) else (fact.turn,)
    place = next((i for i, e in enumerate(state.exchanges) if e.turn in turns), None)
    if place is None:
        return state
    first = state.exchanges[place]
    kept = state.entries[: first.start]
    if isinstance(fact, f.ExchangesUndone):
        return replace(state, entries=kept, exchanges=state.exchanges[:place], carried=(), told=None)
    return replace(state, entries=(*kept, *first.said), exchanges=state.exchanges[: place + 1])


def _compacted(state: Session, fact: f.ContextCompacted) -> Session:
    moved = 1 - fact.upto
    return replace(
        state,
        entries=(summary_entry(fact.summary), *state.entries[fact.upto :]),
        exchanges=tuple(replace(e, start=e.start + moved) for e in state.exchanges if e.start >= fact.upto),
        told=None,
    )


def _decided(state: Session, turn: Turn, call_id: CallId, outcome: str) -> Session:
    """Remember what became of an approval, for whoever presses its button later."""
    run = state.running
    call = next((c for c in run.calls if c.prepared.call_id == call_id), None) if run else None
    if run is None or run.turn != turn or call is None or call.phase != "asking" or not call.approval:
        return state
    kept = state.decided[-(REMEMBERED_APPROVALS - 1) :]
    return replace(state, decided=(*kept, (call.approval, outcome)))


def _answered(state: Session, fact: f.ModelCallAnswered) -> Session:
    run = state.running
    if run is None or run.turn != fact.turn:
        return state
    summing_up = run.purpose == "compress"  # a summary is no part of the conversation, nor are its calls
    run = replace(
        run,
        call=fact.call + 1,
        attempt=1,
        calls=() if summing_up else tuple(Call(prepared=prepared) for prepared in fact.calls),
        tools_called=run.tools_called + len(fact.calls),
        input_tokens=_sum(run.input_tokens, fact.usage.input_tokens),
        output_tokens=_sum(run.output_tokens, fact.usage.output_tokens),
        malformed=run.malformed + (fact.stop is StopReason.MALFORMED),
        cut_calls=run.cut_calls + (1 if fact.calls and fact.stop in CUT else 0),
    )
    entries = state.entries
    blocks = tuple(block for block in fact.blocks if not _says_nothing(block))
    if not summing_up and not all(isinstance(block, ThinkingBlock) for block in blocks):
        entries = (*entries, AssistantEntry(blocks=blocks))
    return replace(state, running=run, entries=entries, last_at=_later(state.last_at, fact.at))


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
    state = replace(
        _decided(state, fact.turn, fact.call_id, "dropped"), last_at=_later(state.last_at, fact.at)
    )
    state = _in_call(state, fact.turn, fact.call_id, lambda call: replace(call, phase="done", result=result))
    if fact.files:
        state = _in_run(state, fact.turn, lambda run: replace(run, files=(*run.files, *fact.files)))
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
    said, told = _entries_of(taken, state.told)
    speakers = tuple(dict.fromkeys((*run.speakers, *(w.author.id for w in taken))))
    exchanges = state.exchanges
    if exchanges:
        exchanges = (*exchanges[:-1], replace(exchanges[-1], said=(*exchanges[-1].said, *said)))
    return replace(
        state,
        running=replace(run, message_ids=(*run.message_ids, *fact.message_ids), speakers=speakers),
        waiting=tuple(w for w in state.waiting if w.message_id not in fact.message_ids),
        entries=(*state.entries, *said),
        told=told,
        exchanges=exchanges,
    )


def _nudged(state: Session, fact: f.Nudged) -> Session:
    run = state.running
    if run is None or run.turn != fact.turn:
        return state
    run = replace(run, nudges=(*run.nudges, fact.reason), final=run.final or fact.reason == "budget")
    nudge = UserEntry(blocks=(TextBlock(text=fact.text),))
    return replace(state, running=run, entries=(*state.entries, nudge))


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


def _later(last: datetime | None, at: datetime) -> datetime:
    """Clocks may go back; what happened after something is not before it."""
    return at if last is None or at > last else last


def _sum(a: int | None, b: int | None) -> int | None:
    return b if a is None else a if b is None else a + b
