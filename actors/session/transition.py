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
Stopping          ToolFinished, StopOverdue Idle or Running(next)   what waits begins
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
from actors.session.commands import carry_out
from actors.session.decision import NOTHING, Decision, Draft, Rules
from actors.session.effects import Acknowledge, AskConfirmation, Deliver, RunTool
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
from actors.session.state import Session, owes
from messages import session as m
from messages.blocks import ToolStatus
from messages.gateway import Acceptance, MessageReceived, SayingFailed, SayingSucceeded
from messages.ids import MessageId
from messages.settings import BusyPolicy
from messages.tool import ToolFinished

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
        return Decision((), (Acknowledge(heard.message_id, Acceptance.DUPLICATE),))
    if len(state.waiting) >= rules.queue_limit:
        why = words.QUEUE_FULL.format(waiting=len(state.waiting))
        return Decision((), (Acknowledge(heard.message_id, Acceptance.REFUSED, why),))
    draft = Draft(state, rules)
    draft.open_for(heard)
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
            at=heard.at,
        )
    )
    draft.do(Acknowledge(heard.message_id, Acceptance.QUEUED if state.running else Acceptance.ACCEPTED))
    if state.running is None:
        begin_next(draft, rules, heard.at)
    elif policy is BusyPolicy.INTERRUPT:
        stop(draft, rules, "interrupted", heard.at)
    elif policy is BusyPolicy.STEER:
        _skip_what_has_not_started(draft, rules, heard)
    return draft.decision()


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
    if run is not None and run.stopping in (None, "interrupted"):
        draft.notice(words.STOPPED, asked.at, heard, run=run, status="stopped")
        stop(draft, rules, "stopped", asked.at)
    elif heard is not None:
        draft.notice(words.STOPPED if run else words.NOTHING_RUNS, asked.at, heard)
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
        draft.end_call(call, ToolStatus.REFUSED, words.CALL_DECLINED.format(by=given.by), given.at)
    tools_go_on(draft, rules, given.at)
    return draft.decision()


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
    run = state.running
    if run is None:
        begin_next(draft, rules, woke.at)
        return draft.decision()
    if not woke.crashed:
        lives = {*run.lives, woke.life}
        draft.say(f.TurnResumed(turn=run.turn, life=woke.life, at=woke.at))
        if len(lives) >= MOST_LIVES:
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
            draft.do(AskConfirmation(run.turn, call.prepared))
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
        return Decision((), (Acknowledge(heard.message_id, Acceptance.DUPLICATE),))
    if heard is not None:
        draft.open_for(heard)
        letter = heard.model_dump_json()
        _bury(draft, (heard.message_id,), failure.error, letter, failure.at)
    else:
        _bury(draft, run.message_ids if run else (None,), failure.error, "", failure.at)
    if heard is not None:
        draft.do(Acknowledge(heard.message_id, Acceptance.REFUSED, words.APOLOGY))
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
