"""One run: model, tools, model again … until answer, budget, stop or failure. Pure."""

from collections.abc import Sequence
from datetime import datetime
from typing import Literal, assert_never

from actors.session import facts as f
from actors.session import words
from actors.session.approvals import ask_for, can_be_asked
from actors.session.decision import NOTHING, Decision, Draft, Rules
from actors.session.effects import AskModel, AskModelLater, RunTool, TellStatus
from actors.session.models.failover import FailOver, GiveUp, Retry, Wait, next_step
from actors.session.state import CUT, Running, Session
from actors.tool.plan import plan
from messages import session as m
from messages.blocks import AssistantBlock, TextBlock, ToolStatus
from messages.ids import MessageId, SessionId, Turn
from messages.model import Failure, FailureKind, ModelRef, StopReason
from messages.settings import BusyPolicy
from messages.tool import Permission, ToolFinished

MOST_SHRINKS = 4
MOST_CUT_CALLS = 3
MOST_WAITED_S = 900.0
"""A provider that is down for longer is not waited for."""


def begin_next(draft: Draft, rules: Rules, at: datetime) -> None:
    """Start the next turn, if somebody waits."""
    state = draft.state
    if state.running is not None or not (state.waiting or state.carried):
        return
    taken = _take(state, rules) if state.waiting else ()
    turn = Turn(state.last_turn + 1)
    draft.say(
        f.TurnBegan(
            turn=turn,
            session_id=draft.session_id,
            message_ids=(*state.carried, *taken),
            carried=state.carried,
            at=at,
        )
    )
    draft.do(ask(draft.state))


def begin_turn(
    draft: Draft, command: MessageId, purpose: Literal["again", "compress"], at: datetime, upto: int = 0
) -> None:
    """Start a turn that a command asks for: its answer is the command's answer."""
    draft.say(
        f.TurnBegan(
            turn=Turn(draft.state.last_turn + 1),
            session_id=draft.session_id,
            message_ids=(command,),
            carried=(command,),
            purpose=purpose,
            upto=upto,
            at=at,
        )
    )
    draft.do(ask(draft.state))


def _take(state: Session, rules: Rules) -> tuple[MessageId, ...]:
    """Choose which of those that wait are answered together."""
    first = state.waiting[0]
    policy = state.policy or rules.policy_for(first.origin)
    together: tuple[str, ...] = ()
    if first.how == "steer":
        together = ("steer",)
    elif first.how == "turn" and policy in (BusyPolicy.INTERRUPT, BusyPolicy.COLLECT):
        together = ("turn", "steer")
    taken = [first.message_id]
    for message in state.waiting[1:]:
        if message.how not in together:
            break
        taken.append(message.message_id)
    return tuple(taken)


def ask(state: Session) -> AskModel:
    """The model call that the running turn waits for."""
    run = state.running
    assert run is not None, "only a running turn asks"
    compress = run.upto if run.purpose == "compress" else None
    return AskModel(
        run.turn,
        run.call,
        run.attempt,
        run.model or state.model,
        tools=not run.final and compress is None,
        shrinks=run.shrinks,
        personality=run.personality,
        compress=compress,
    )


# ------------------------------------------------------------------ the model


def answered(state: Session, heard: m.ModelAnswered, rules: Rules) -> Decision:
    """The model's answer came: run its tools, or say its text."""
    if not _waits_for(state.running, heard.turn, heard.call):
        return NOTHING  # it was stopped, or belongs to a life before this one
    draft = Draft(state, rules)
    reply = heard.reply
    draft.say(
        f.ModelCallAnswered(
            turn=heard.turn,
            call=heard.call,
            model=reply.model,
            blocks=reply.blocks,
            stop=reply.stop,
            raw_stop=reply.raw_stop,
            usage=reply.usage,
            calls=heard.calls,
            began_at=heard.began_at,
            first_token_ms=reply.first_token_ms,
            at=heard.at,
        )
    )
    if draft.run.purpose == "compress":
        _take_up_summary(draft, rules, heard)
    elif heard.calls:
        _take_up_calls(draft, rules, reply.stop, heard.at)
    else:
        _take_up_text(draft, rules, heard)
    return draft.decision()


def _waits_for(run: Running | None, turn: Turn, call: int) -> bool:
    return run is not None and run.turn == turn and run.call == call and not run.stopping and not run.calls


def _take_up_calls(draft: Draft, rules: Rules, stop: StopReason, at: datetime) -> None:
    run = draft.run
    if stop in CUT:
        _end_all(draft, ToolStatus.REFUSED, words.CALL_CUT, at)
        if draft.run.cut_calls >= MOST_CUT_CALLS:
            _end_with_notice(draft, rules, "truncated", words.TOO_MANY_CUTS, at)
            return
    elif run.final:
        _end_all(draft, ToolStatus.SKIPPED, words.CALL_OVER_BUDGET, at)
        _end_with_notice(draft, rules, "budget_spent", words.EMPTY, at)
        return
    for call in draft.run.calls:
        _settle_permission(draft, rules, call.prepared.call_id, at)
    tools_go_on(draft, rules, at)


def _end_all(draft: Draft, status: ToolStatus, text: str, at: datetime) -> None:
    for call in draft.run.calls:
        draft.end_call(call, status, text, at)


def _settle_permission(draft: Draft, rules: Rules, call_id: str, at: datetime) -> None:
    """Refuse what cannot or may not run; ask where somebody can be asked."""
    call = next(c for c in draft.run.calls if c.prepared.call_id == call_id)
    prepared = call.prepared
    if prepared.problem:
        draft.end_call(call, ToolStatus.REFUSED, prepared.problem, at)
    elif prepared.permission is Permission.YES:
        return
    elif prepared.permission is Permission.ASK and can_be_asked(rules, draft.run):
        ask_for(draft, rules, call, at)
    else:
        draft.end_call(call, ToolStatus.REFUSED, words.CALL_NOT_ALLOWED.format(name=prepared.name), at)


def _take_up_text(draft: Draft, rules: Rules, heard: m.ModelAnswered) -> None:
    reply, at = heard.reply, heard.at
    text = _text_of(reply.blocks)
    match reply.stop:
        case StopReason.REFUSED:
            if text:
                draft.reply(text, reply.model, at)
            _end_with_notice(draft, rules, "refused", words.DECLINED, at)
        case StopReason.PAUSED:
            _model_again(draft, rules, at)
        case StopReason.MALFORMED if draft.run.malformed <= 1:
            _nudge(draft, rules, "malformed", words.NUDGE_MALFORMED, at)
        case StopReason.MALFORMED:
            _end_with_notice(draft, rules, "failed", words.UNREADABLE, at)
        case StopReason.LENGTH | StopReason.CONTEXT_FULL if text:
            _end_with_reply(draft, rules, "truncated", text + words.CUT_MARK, reply.model, at)
        case _ if text:
            reason: Literal["budget_spent", "answered"] = "budget_spent" if draft.run.final else "answered"
            _end_with_reply(draft, rules, reason, text, reply.model, at)
        case _ if "empty" not in draft.run.nudges:
            _nudge(draft, rules, "empty", words.NUDGE_EMPTY, at)
        case _:
            _end_with_notice(draft, rules, "empty", words.EMPTY, at)


def _take_up_summary(draft: Draft, rules: Rules, heard: m.ModelAnswered) -> None:
    """A summary takes the place of what it sums up only when it is whole."""
    run, at = draft.run, heard.at
    text = "" if heard.calls else _text_of(heard.reply.blocks)
    if heard.reply.stop in (StopReason.END, StopReason.OTHER) and text:
        draft.say(f.ContextCompacted(turn=run.turn, summary=text, upto=run.upto, at=at))
        done = words.COMPRESSED.format(count=run.upto, characters=len(text))
        draft.notice(done, at, run=draft.run, status="compressed")
        draft.end_turn("answered", at)
        begin_next(draft, rules, at)
        return
    why = words.NO_SUMMARY.get(heard.reply.stop.value, "")
    _end_with_notice(draft, rules, "failed", words.NOT_COMPRESSED.format(why=why).strip(), at)


def _text_of(blocks: Sequence[AssistantBlock]) -> str:
    texts = (block.text for block in blocks if isinstance(block, TextBlock))
    text = "".join(t for t in texts if t.strip() not in words.MARKERS)
    return text.strip()


def _nudge(
    draft: Draft, rules: Rules, reason: Literal["empty", "malformed", "budget"], text: str, at: datetime
) -> None:
    draft.say(f.Nudged(turn=draft.run.turn, reason=reason, text=text, at=at))
    _model_again(draft, rules, at)


def _model_again(draft: Draft, rules: Rules, at: datetime) -> None:
    """Ask with what is new: results, what people added meanwhile, the end of the budget."""
    steers = tuple(w.message_id for w in draft.state.waiting if w.how == "steer")
    if steers:
        draft.say(f.Steered(turn=draft.run.turn, message_ids=steers, at=at))
    run = draft.run
    if run.call > rules.model_calls and not run.final:
        text = words.NUDGE_BUDGET.format(calls=rules.model_calls)
        draft.say(f.Nudged(turn=run.turn, reason="budget", text=text, at=at))
    draft.do(ask(draft.state))


def _end_with_reply(
    draft: Draft,
    rules: Rules,
    reason: Literal["answered", "budget_spent", "truncated"],
    text: str,
    model: ModelRef,
    at: datetime,
) -> None:
    draft.reply(text, model, at, status="truncated" if reason == "truncated" else "")
    draft.end_turn(reason, at)
    begin_next(draft, rules, at)


def _end_with_notice(
    draft: Draft,
    rules: Rules,
    reason: Literal["truncated", "budget_spent", "refused", "failed", "empty"],
    text: str,
    at: datetime,
    status: str = "",
) -> None:
    draft.notice(text, at, run=draft.run, status=status or reason)
    draft.end_turn(reason, at)
    begin_next(draft, rules, at)


def failed(state: Session, heard: m.ModelFailed, rules: Rules) -> Decision:
    """A model call failed: wait and try again, ask another, send less, or say so."""
    run = state.running
    if run is None or not _waits_for(run, heard.turn, heard.call) or heard.attempt != run.attempt:
        return NOTHING
    draft = Draft(state, rules)
    failure = heard.failure
    if failure.kind is FailureKind.CONTEXT_OVERFLOW and run.shrinks < MOST_SHRINKS:
        _note_failure(draft, heard, "shrink")
        draft.do(TellStatus(run.turn, "the conversation is too long for the model; leaving out older parts"))
        draft.do(ask(draft.state))
        return draft.decision()
    step = next_step(failure, heard.attempt, rules.attempts, _chain(rules, run), heard.chance)
    match step:
        case Retry(after_s):
            _note_failure(draft, heard, "retry", wait_s=after_s)
            draft.do(TellStatus(run.turn, _honest(failure, after_s)))
            draft.do(AskModelLater(run.turn, run.call, heard.attempt + 1, after_s))
        case Wait(after_s) if run.waited_s < MOST_WAITED_S:
            _note_failure(draft, heard, "wait", wait_s=after_s)
            draft.do(TellStatus(run.turn, _honest(failure, after_s)))
            draft.do(AskModelLater(run.turn, run.call, heard.attempt, after_s))
        case Wait():
            _note_failure(draft, heard, "give_up")
            text = words.PROVIDER_DOWN.format(minutes=round(run.waited_s / 60))
            _end_with_notice(draft, rules, "failed", text, heard.at, failure.kind.value)
        case FailOver(to):
            _note_failure(draft, heard, "fail_over", model=to)
            draft.do(TellStatus(run.turn, f"{_honest(failure)}; asking {to.provider}/{to.name} instead"))
            draft.do(ask(draft.state))
        case GiveUp(say):
            _note_failure(draft, heard, "give_up")
            text = f"{heard.partial}{words.CUT_MARK}\n\n{say}" if heard.partial.strip() else say
            _end_with_notice(draft, rules, "failed", text, heard.at, failure.kind.value)
        case _:
            assert_never(step)
    return draft.decision()


def _note_failure(
    draft: Draft,
    heard: m.ModelFailed,
    step: Literal["retry", "wait", "fail_over", "shrink", "give_up"],
    *,
    model: ModelRef | None = None,
    wait_s: float = 0.0,
) -> None:
    draft.say(
        f.ModelCallFailed(
            turn=heard.turn,
            call=heard.call,
            attempt=heard.attempt,
            failure=heard.failure,
            next_step=step,
            model=model,
            wait_s=wait_s,
            partial=heard.partial,
            began_at=heard.began_at,
            at=heard.at,
        )
    )


def _honest(failure: Failure, wait_s: float | None = None) -> str:
    what = str(failure.kind).replace("_", " ")
    text = f"{failure.model.provider}/{failure.model.name}: {what}"
    return text if wait_s is None else f"{text}; trying again in {wait_s:.0f} s"


def _chain(rules: Rules, run: Running) -> tuple[ModelRef, ...]:
    """The models that have not failed in this turn yet."""
    if run.model is None or run.model not in rules.fallbacks:
        return rules.fallbacks
    return rules.fallbacks[rules.fallbacks.index(run.model) + 1 :]


def retry(state: Session, due: m.RetryDue) -> Decision:
    """The wait is over, if it is still ours."""
    run = state.running
    if run is None or not _waits_for(run, due.turn, due.call) or due.attempt != run.attempt:
        return NOTHING
    return Decision((), (ask(state),))


# ------------------------------------------------------------------ the tools


def tool_ended(state: Session, ended: ToolFinished, rules: Rules) -> Decision:
    """A tool call has its result."""
    run = state.running
    if run is None or run.turn != ended.turn:
        return NOTHING
    call = next((c for c in run.calls if c.prepared.call_id == ended.call_id), None)
    if call is None or call.phase != "running":
        return NOTHING
    draft = Draft(state, rules)
    draft.say(
        f.ToolCallEnded(
            turn=ended.turn,
            call_id=ended.call_id,
            name=call.prepared.name,
            arguments=call.prepared.arguments,
            effect=call.prepared.effect,
            status=ended.status,
            text=ended.text,
            kept_in=ended.kept_in,
            files=ended.files,
            began_at=call.began_at or ended.began_at,
            at=ended.at,
        )
    )
    if not run.stopping:
        tools_go_on(draft, rules, ended.at)
    elif not draft.run.calls:
        finish_stop(draft, rules, ended.at)
    return draft.decision()


def tools_go_on(draft: Draft, rules: Rules, at: datetime) -> None:
    """Start the next calls; when all are done, ask the model again."""
    run = draft.run
    if any(call.phase in ("asking", "running") for call in run.calls):
        return
    ready = [call.prepared for call in run.calls if call.phase == "ready"]
    if not ready:
        _model_again(draft, rules, at)
        return
    batch = set(plan(ready, rules.parallel)[0])
    for prepared in ready:
        if prepared.call_id in batch:
            draft.say(f.ToolCallStarted(turn=run.turn, call_id=prepared.call_id, name=prepared.name, at=at))
            draft.do(RunTool(run.turn, prepared))


# ------------------------------------------------------------------ the end


def stop(
    draft: Draft,
    rules: Rules,
    reason: Literal["stopped", "interrupted", "reset"],
    at: datetime,
    reset_to: SessionId | None = None,
) -> None:
    """End the running turn now: nothing new starts, what runs is cancelled."""
    run = draft.running
    if run is None or (run.stopping and reason == "interrupted"):
        return
    draft.say(f.TurnStopping(turn=run.turn, reason=reason, reset_to=reset_to or run.reset_to, at=at))
    if run.stopping:
        return  # its tools are being cancelled already; only the reason is another now
    draft.cancel_model()
    for call in run.calls:
        if call.phase in ("ready", "asking"):
            draft.end_call(call, ToolStatus.SKIPPED, words.CALL_STOPPED, at)
    if any(call.phase == "running" for call in draft.run.calls):
        draft.cancel_tools()
    else:
        finish_stop(draft, rules, at)


def finish_stop(draft: Draft, rules: Rules, at: datetime) -> None:
    """All is quiet: the turn is over, and what waits begins."""
    run = draft.run
    assert run.stopping is not None, "only a stopping turn is finished so"
    parent = draft.session_id
    draft.end_turn("reset" if run.reset_to else run.stopping, at)
    if run.reset_to:
        open_anew(draft, run.reset_to, parent, at)
    begin_next(draft, rules, at)


def open_anew(draft: Draft, session_id: SessionId, parent: SessionId, at: datetime) -> None:
    """Begin another conversation in the same place."""
    origin = draft.state.origin
    assert origin is not None, "an opened session has a place"
    draft.say(
        f.SessionOpened(
            session_id=session_id, session_key=draft.state.key, origin=origin, parent=parent, at=at
        )
    )
