"""The session's rules. No clock, no network, no ids of its own, no actor.

state             hears                     becomes                 what is done
----------------  ------------------------  ----------------------  -----------------------------------
Idle              UserSpoke                 Running(turn + 1)       AskModel
Running           UserSpoke, queue/collect  Running, it waits       nothing
Running           UserSpoke, interrupt      Idle→Running or         CancelModel, AskModel; or
                                            Stopping                CancelTools
Running, tools    UserSpoke, steer          Running                 calls not yet started are skipped
Running, model    UserSpoke, steer          Running, it waits       nothing (after the tools, or next turn)
Running           ModelAnswered, calls      Running, tools          RunTool for the first batch
Running           ModelAnswered, text       Idle or Running(next)   Deliver
Running           ModelFailed               Running or Idle         AskModelLater, AskModel, or Deliver
Running, tools    ToolFinished              Running                 next batch, or AskModel with all
Running           StopAsked                 Idle or Stopping        CancelModel or CancelTools
Running, asking   ApprovalOverdue           Running                 the call is refused; the others go on
Stopping          ToolFinished, StopOverdue Idle or Running(next)   what waits begins
any               MessageEdited, -Deleted   the same, but what      nothing is answered anew
                                            waits is as edited
any               Woke                      the same                what is owed (`resume`)
any               what belongs to a turn    the same                nothing at all: late answers are
                  or call not running                               harmless by number

A message that was accepted ends in exactly one of: answered; merged into an
answered turn (interrupt, collect, steer); refused with a reason the person saw.
"""

from collections.abc import Iterable
from datetime import datetime
from typing import Literal, assert_never

from actors.session import facts as f
from actors.session import words
from actors.session.approvals import ask_again, overdue
from actors.session.changes import deleted, edited
from actors.session.commands import carry_out
from actors.session.decision import NOTHING, Decision, Draft, Rules
from actors.session.effects import Acknowledge, Deliver, RunTool, StartSide, StopSide, TellMain
from actors.session.quoting import plain_id
from actors.session.renewal import begin_anew_if_over, is_stale, set_aside_stale
from actors.session.run import (
    answered,
    ask,
    begin_next,
    failed,
    finish_stop,
    retry,
    stop,
    tool_ended,
    tools_go_on,
)
from actors.session.sides import side_in
from actors.session.state import Session, owes
from messages import session as m
from messages.blocks import ToolStatus
from messages.gateway import (
    Acceptance,
    MessageDeleted,
    MessageEdited,
    MessageReceived,
    SayingFailed,
    SayingSucceeded,
    Surroundings,
)
from messages.ids import MessageId
from messages.settings import BusyPolicy
from messages.tool import ToolFinished

NOWHERE = Surroundings()

MOST_LIVES = 3
"""A turn that was running at so many starts of the process in a row is not tried again."""


def decide(state: Session, heard: m.Heard, rules: Rules) -> Decision:
    """Say what is now true and what should be done about it. Changes nothing."""
    match heard:
        case m.UserSpoke():
            return _spoken_to(state, heard, rules)
        case m.CommandGiven():
            return carry_out(state, heard, rules)
        case m.StopAsked():
            return _stop_asked(state, heard, rules)
        case m.StopOverdue():
            return _stop_overdue(state, heard, rules)
        case m.ModelAnswered():
            return answered(state, heard, rules)
        case m.ModelFailed():
            return failed(state, heard, rules)
        case m.RetryDue():
            return retry(state, heard)
        case ToolFinished():
            return tool_ended(state, heard, rules)
        case m.ConfirmationGiven():
            return _confirmed(state, heard, rules)
        case m.ApprovalOverdue():
            return _overdue(state, heard, rules)
        case m.SideEnded():
            return _side_ended(state, heard)
        case MessageEdited():
            return edited(state, heard)
        case MessageDeleted():
            return deleted(state, heard)
        case SayingSucceeded():
            return _delivered(state, heard)
        case SayingFailed():
            return _undeliverable(state, heard)
        case m.Woke():
            return _woke(state, heard, rules)
        case m.HandlingFailed():
            return _given_up(state, heard, rules)
        case m.DeadLetterSettled():
            return _closed(heard)
        case m.ErasureAsked():
            return _erase(state, heard, rules)
        case _:
            assert_never(heard)


def _spoken_to(state: Session, spoke: m.UserSpoke, rules: Rules) -> Decision:
    heard = spoke.heard
    if heard.message_id in state.seen:
        duplicate = Acknowledge(heard.message_id, Acceptance.DUPLICATE)
        return Decision((), (duplicate, *_already_done(state, heard)))
    if len(state.waiting) >= rules.queue_limit:
        why = words.QUEUE_FULL.format(waiting=len(state.waiting))
        return Decision((), (Acknowledge(heard.message_id, Acceptance.REFUSED, why),))
    draft = Draft(state, rules)
    draft.open_for(heard)
    begin_anew_if_over(draft, rules, heard)
    policy = spoke.policy or state.policy or rules.policy_for(heard.origin)
    draft.say(
        f.MessageAccepted(
            message_id=heard.message_id,
            session_id=draft.session_id,
            origin=heard.origin,
            author=heard.author,
            text=heard.text,
            attachments=heard.attachments,
            can_confirm=heard.can_confirm,
            how=_how(state, spoke.policy, policy),
            quote=heard.quote,
            overheard=heard.overheard,
            surroundings=heard.surroundings if heard.surroundings != NOWHERE else None,
            at=heard.at,
        )
    )
    draft.do(Acknowledge(heard.message_id, Acceptance.QUEUED if state.running else Acceptance.ACCEPTED))
    if state.running is None:
        begin_next(draft, rules, heard.at)
    elif policy is BusyPolicy.INTERRUPT and state.running.purpose != "compress":
        stop(draft, rules, "interrupted", heard.at)
    elif policy is BusyPolicy.STEER:
        _skip_what_has_not_started(draft, rules, heard)
    return draft.decision()


def _already_done(state: Session, heard: MessageReceived) -> tuple[TellMain, ...]:
    """Whoever began a side conversation says so again after a restart: it may have ended unheard."""
    side = heard.origin.side
    return (TellMain(side, heard.at),) if side is not None and state.running is None else ()


def _how(state: Session, wanted: BusyPolicy | None, policy: BusyPolicy) -> Literal["turn", "steer", "queue"]:
    if wanted is BusyPolicy.QUEUE:
        return "queue"
    return "steer" if policy is BusyPolicy.STEER and state.running else "turn"


def _skip_what_has_not_started(draft: Draft, rules: Rules, heard: MessageReceived) -> None:
    """A steer comes before the calls that still wait: the person may have said not to make them."""
    run = draft.running
    if run is None or run.stopping or not run.calls:
        return
    for call in run.calls:
        if call.phase in ("ready", "asking"):
            draft.end_call(call, ToolStatus.SKIPPED, words.CALL_SKIPPED, heard.at)
    tools_go_on(draft, rules, heard.at)


def _stop_asked(state: Session, asked: m.StopAsked, rules: Rules) -> Decision:
    heard, run = asked.heard, state.running
    draft = Draft(state, rules)
    if heard is not None:
        if heard.message_id in state.seen:
            return Decision((), (Acknowledge(heard.message_id, Acceptance.DUPLICATE),))
        draft.open_for(heard)
        draft.take_command(heard, "stop", "")
        draft.do(Acknowledge(heard.message_id, Acceptance.ACCEPTED))
    sides = state.sides if heard is not None else ()
    for begun in sides:
        draft.do(StopSide(begun.side, asked.at))
    too = words.SIDES_STOPPED.format(count=len(sides)) if sides else ""
    if run is not None and run.stopping in (None, "interrupted"):
        text = f"{words.STOPPED} {too}".strip()
        draft.notice(text, asked.at, heard, run=run, status="stopped")
        stop(draft, rules, "stopped", asked.at)
    elif heard is not None:
        text = words.STOPPED if run else too or words.NOTHING_RUNS
        draft.notice(text, asked.at, heard)
    elif run is None and (side := side_in(state.key)) is not None:
        draft.do(TellMain(side, asked.at))  # it was done already; whoever began it has not heard of it
    return draft.decision()


def _stop_overdue(state: Session, overdue: m.StopOverdue, rules: Rules) -> Decision:
    run = state.running
    if run is None or run.turn != overdue.turn or not run.stopping:
        return NOTHING
    draft = Draft(state, rules)
    for call in run.calls:
        if call.phase != "done":
            draft.end_call(call, ToolStatus.INTERRUPTED, words.CALL_INTERRUPTED, overdue.at)
    finish_stop(draft, rules, overdue.at)
    return draft.decision()


def _confirmed(state: Session, given: m.ConfirmationGiven, rules: Rules) -> Decision:
    run = state.running
    call = next((c for c in run.calls if c.prepared.call_id == given.call_id), None) if run else None
    if run is None or call is None or call.phase != "asking" or run.stopping:
        return NOTHING
    draft = Draft(state, rules)
    draft.say(
        f.ConfirmationSettled(turn=run.turn, call_id=given.call_id, yes=given.yes, by=given.by, at=given.at)
    )
    if not given.yes:
        draft.end_call(call, ToolStatus.REFUSED, words.CALL_DECLINED.format(by=plain_id(given.by)), given.at)
    if call.approval:  # a chat was asked too: it hears what became of it
        told = words.APPROVED if given.yes else words.DENIED
        text = told.format(by=plain_id(given.by), name=call.prepared.name)
        draft.remark(text, given.at, run.origin, status="approval")
    tools_go_on(draft, rules, given.at)
    return draft.decision()


def _overdue(state: Session, due: m.ApprovalOverdue, rules: Rules) -> Decision:
    """Nobody has answered in time: that is a no. A late or foreign alarm is told by its ids."""
    run = state.running
    call = next((c for c in run.calls if c.prepared.call_id == due.call_id), None) if run else None
    if run is None or run.turn != due.turn or run.stopping or call is None:
        return NOTHING
    if call.phase != "asking" or call.approval != due.approval:
        return NOTHING
    draft = Draft(state, rules)
    overdue(draft, rules, call, due.at)
    tools_go_on(draft, rules, due.at)
    return draft.decision()


def _side_ended(state: Session, ended: m.SideEnded) -> Decision:
    if not any(begun.side == ended.side for begun in state.sides):
        return NOTHING
    return Decision((f.SideFinished(side=ended.side, at=ended.at),), ())


def _delivered(state: Session, receipt: SayingSucceeded) -> Decision:
    if not owes(state, receipt.delivery_id):
        return NOTHING
    return Decision(
        (f.ReplyDelivered(delivery_id=receipt.delivery_id, receipt=receipt.receipt, at=receipt.at),), ()
    )


def _undeliverable(state: Session, failed: SayingFailed) -> Decision:
    if not owes(state, failed.delivery_id):
        return NOTHING
    return Decision((f.ReplyGivenUp(delivery_id=failed.delivery_id, why=failed.why, at=failed.at),), ())


def _woke(state: Session, woke: m.Woke, rules: Rules) -> Decision:
    draft = Draft(state, rules)
    for owed in state.owed:
        draft.do(Deliver(owed))
    for begun in state.sides:
        draft.do(StartSide(begun.side, begun.heard))
    run = state.running
    if run is None:
        begin_next(draft, rules, woke.at)
        return draft.decision()
    if not woke.crashed and is_stale(state, rules, woke.at):
        set_aside_stale(draft, woke.at)
        begin_next(draft, rules, woke.at)
        return draft.decision()
    if not woke.crashed:
        lives = {*run.lives, woke.life}
        draft.say(f.TurnResumed(turn=run.turn, life=woke.life, at=woke.at))
        if len(lives) >= MOST_LIVES and run.stopping not in ("stopped", "reset"):
            _set_aside(draft, rules, woke, len(lives))
            return draft.decision()
        _settle_what_died(draft, woke)
    _go_on(draft, rules, woke)
    return draft.decision()


def _set_aside(draft: Draft, rules: Rules, woke: m.Woke, times: int) -> None:
    run = draft.run
    for call in run.calls:
        if call.phase != "done":
            draft.end_call(call, ToolStatus.UNKNOWN, words.CALL_UNKNOWN, woke.at)
    _bury(draft, run.message_ids, words.DIED_RUNNING.format(times=times), "", woke.at)
    draft.end_turn("crashed", woke.at)
    draft.notice(words.CRASHED.format(times=times), woke.at, run=run, status="crashed")
    begin_next(draft, rules, woke.at)


def _settle_what_died(draft: Draft, woke: m.Woke) -> None:
    """A tool that ran when the process died: run again if that is harmless, else its outcome is unknown."""
    for call in draft.run.calls:
        if call.phase == "running" and (draft.run.stopping or not call.prepared.repeatable):
            draft.end_call(call, ToolStatus.UNKNOWN, words.CALL_UNKNOWN, woke.at)


def _go_on(draft: Draft, rules: Rules, woke: m.Woke) -> None:
    """Take up the running turn where its facts end."""
    run = draft.run
    running = [call for call in run.calls if call.phase == "running"]
    if run.stopping:
        if running:
            draft.cancel_tools()
        else:
            finish_stop(draft, rules, woke.at)
        return
    for call in running:
        # In the same life it is running already, and the workshop knows it by its id.
        draft.do(RunTool(run.turn, call.prepared))
    for call in run.calls:
        if call.phase == "asking":
            ask_again(draft, rules, call, woke.at)
    if run.calls:
        tools_go_on(draft, rules, woke.at)
    else:
        draft.do(ask(draft.state))


def _erase(state: Session, asked: m.ErasureAsked, rules: Rules) -> Decision:
    """Stop what runs and begin anew. Its late answers belong to a turn that is not running: they change nothing."""
    draft = Draft(state, rules)
    run = state.running
    if run is not None:
        draft.cancel_model()
        draft.cancel_tools()
    for begun in state.sides:
        draft.do(StopSide(begun.side, asked.at))
    if (side := side_in(state.key)) is not None:
        draft.do(TellMain(side, asked.at))
    draft.say(erased(state, asked.at))
    return draft.decision()


def erased(state: Session, at: datetime) -> f.HistoryErased:
    """Return the fact that voids everything so far, and names the messages that get no answer by that."""
    running = state.running.message_ids if state.running else ()
    unanswered = (*running, *state.carried, *(waiting.message_id for waiting in state.waiting))
    return f.HistoryErased(last_turn=state.last_turn, message_ids=tuple(dict.fromkeys(unanswered)), at=at)


def _given_up(state: Session, failure: m.HandlingFailed, rules: Rules) -> Decision:
    """A message crashed us twice. Say so; a turn that it belonged to is over."""
    draft = Draft(state, rules)
    heard, run = failure.heard, state.running
    if heard is not None and heard.message_id in state.seen:
        # It was taken before it did harm: it has its outcome, or will have.
        return Decision((), (Acknowledge(heard.message_id, Acceptance.DUPLICATE, key=failure.came_to),))
    if heard is not None:
        draft.open_for(heard)
        letter = heard.model_dump_json()
        _bury(draft, (heard.message_id,), failure.error, letter, failure.at)
    else:
        _bury(draft, run.message_ids if run else (None,), failure.error, "", failure.at)
    if heard is not None:
        draft.do(Acknowledge(heard.message_id, Acceptance.REFUSED, words.APOLOGY, key=failure.came_to))
        draft.notice(words.APOLOGY, failure.at, heard, status="crashed")
    elif run is not None:
        for call in run.calls:
            if call.phase != "done":
                draft.end_call(call, ToolStatus.UNKNOWN, words.CALL_UNKNOWN, failure.at)
        draft.cancel_model()
        draft.cancel_tools()
        draft.end_turn("crashed", failure.at)
        draft.notice(words.APOLOGY, failure.at, run=run, status="crashed")
        begin_next(draft, rules, failure.at)
    return draft.decision()


def _bury(draft: Draft, ids: Iterable[MessageId | None], error: str, letter: str, at: datetime) -> None:
    for message_id in ids:
        draft.say(f.MessageGivenUp(message_id=message_id, error=error, letter=letter, at=at))


def _closed(settled: m.DeadLetterSettled) -> Decision:
    """Note what an operator decided; whoever hands the dead letter in again does that beforehand."""
    closed = f.DeadLetterClosed(
        letter=settled.letter,
        how=settled.how,
        retried_as=settled.retried_as,
        by=settled.by,
        at=settled.at,
    )
    return Decision((closed,), (Acknowledge(settled.acknowledge, Acceptance.ACCEPTED),))
