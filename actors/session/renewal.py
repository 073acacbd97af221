"""When a conversation ends by itself, and when an interrupted turn is too old to go on. Pure."""

from datetime import datetime

from actors.session import facts as f
from actors.session import words
from actors.session.decision import Draft, name_session
from actors.session.rules import Rules, is_over
from actors.session.run import open_anew
from actors.session.state import Session
from messages.blocks import ToolStatus
from messages.gateway import MessageReceived


def begin_anew_if_over(draft: Draft, rules: Rules, heard: MessageReceived) -> None:
    """Begin another conversation when the policy of the place says that the last one is over.

    Never while something runs, waits, is asked for or is owed: then the message still
    belongs to what is going on.
    """
    state = draft.state
    if state.owing or not state.messages or state.last_at is None:
        return
    policy = rules.reset_for(heard.origin)
    if policy.policy == "none" or not is_over(policy, state.last_at, heard.at):
        return
    parent, last = draft.session_id, state.last_at
    open_anew(draft, name_session(state.key, heard.message_id, heard.at), parent, heard.at)
    text = words.RESET_NOTICE.format(date=f"{last:%Y-%m-%d}", id=parent)
    draft.remark(text, heard.at, heard.origin, status="reset")


def is_stale(state: Session, rules: Rules, now: datetime) -> bool:
    """Say whether the running turn was left alone for so long that nobody expects its answer any more."""
    if state.running is None or state.running.stopping:
        return False
    last = state.last_at or state.running.began_at
    return now - last > rules.resume_within


def set_aside_stale(draft: Draft, now: datetime) -> None:
    """End the turn, and say how its answer can be had. What waited behind it is part of what is offered."""
    state, run = draft.state, draft.run
    last = state.last_at or run.began_at
    for call in run.calls:
        if call.phase == "running":
            draft.end_call(call, ToolStatus.UNKNOWN, words.CALL_UNKNOWN, now)
        elif call.phase != "done":
            draft.end_call(call, ToolStatus.SKIPPED, words.CALL_STALE, now)
    waiting = tuple(w.message_id for w in state.waiting)
    if waiting and run.purpose != "compress":
        draft.say(f.Steered(turn=run.turn, message_ids=waiting, at=now))
    text = words.STALE if run.origin.side is None else words.STALE_SIDE
    text = text.format(age=_age((now - last).total_seconds()))
    draft.notice(text, now, run=draft.run, status="stale")
    draft.end_turn("stale", now)


def _age(seconds: float) -> str:
    hours = seconds / 3600
    if hours < 2:
        return f"{seconds / 60:.0f} minutes"
    return f"{hours:.0f} hours" if hours < 48 else f"{hours / 24:.0f} days"
