"""Slash commands that a session carries out itself. Pure."""

from actors.session import facts as f
from actors.session import words
from actors.session.decision import Decision, Draft, Rules, name_session
from actors.session.effects import Acknowledge
from actors.session.run import open_anew, stop
from actors.session.state import Session
from messages import session as m
from messages.gateway import Acceptance
from messages.settings import BusyPolicy


def carry_out(state: Session, given: m.CommandGiven, rules: Rules) -> Decision:
    """Do what a command says, and answer it."""
    heard = given.heard
    if heard.message_id in state.seen:
        return Decision((), (Acknowledge(heard.message_id, Acceptance.DUPLICATE),))
    draft = Draft(state, rules)
    draft.open_for(heard)
    draft.take_command(heard, given.name, given.argument)
    draft.do(Acknowledge(heard.message_id, Acceptance.ACCEPTED))
    match given.name:
        case "new":
            _begin_anew(draft, given, rules)
        case "busy":
            _choose_policy(draft, given, rules)
        case "model":
            _choose_model(draft, given)
        case "status":
            draft.notice(_status(draft.state, given, rules), heard.at, heard)
        case "help":
            draft.notice(given.info, heard.at, heard)
        case "steer" | "queue":
            draft.notice(words.SAY_SOMETHING.format(verb=given.name), heard.at, heard)
        case _:
            draft.notice(given.info or words.UNKNOWN_COMMAND.format(name=given.name), heard.at, heard)
    return draft.decision()


def _begin_anew(draft: Draft, given: m.CommandGiven, rules: Rules) -> None:
    heard = given.heard
    waiting = draft.state.waiting
    text = words.NEW
    if waiting:
        texts = " · ".join(" ".join(w.text.split())[:60] for w in waiting)
        text = words.NEW_WITH_DROPPED.format(count=len(waiting), texts=texts)
        draft.say(
            f.MessagesRefused(
                message_ids=tuple(w.message_id for w in waiting), why=words.DROPPED_BY_NEW, at=heard.at
            )
        )
    run = draft.running
    session_id = name_session(draft.state.key, heard.message_id, heard.at)
    if draft.running is not None:
        stop(draft, rules, "reset", heard.at, reset_to=session_id)
    elif draft.state.messages or draft.state.entries:
        open_anew(draft, session_id, draft.session_id, heard.at)
    settled = run if run is not None and run.stopping in (None, "interrupted") else None
    draft.notice(text, heard.at, heard, run=settled, also=tuple(w.message_id for w in waiting))


def _choose_policy(draft: Draft, given: m.CommandGiven, rules: Rules) -> None:
    heard = given.heard
    wanted = given.argument.strip().lower()
    if wanted and wanted not in list(BusyPolicy):
        draft.notice(words.BAD_POLICY.format(given=wanted), heard.at, heard)
        return
    policy = draft.state.policy or rules.policy_for(heard.origin)
    if wanted:
        policy = BusyPolicy(wanted)
        draft.say(f.PolicyChosen(policy=policy, at=heard.at))
    draft.notice(words.BUSY_NOW.format(does=words.POLICY_DOES[policy]), heard.at, heard)


def _choose_model(draft: Draft, given: m.CommandGiven) -> None:
    heard = given.heard
    wanted = given.argument.strip().lower()
    if wanted in ("default", "auto"):
        draft.say(f.ModelChosen(model=None, at=heard.at))
    elif given.model is not None:
        draft.say(f.ModelChosen(model=given.model, at=heard.at))
    elif wanted:
        draft.notice(given.info, heard.at, heard)  # what was wrong with it
        return
    text = words.MODEL_NOW.format(model=_model_name(draft.state))
    draft.notice(f"{text}\n\n{given.info}".strip(), heard.at, heard)


def _model_name(state: Session) -> str:
    return f"{state.model.provider}/{state.model.name}" if state.model else words.MODEL_DEFAULT


def _status(state: Session, given: m.CommandGiven, rules: Rules) -> str:
    run = state.running
    policy = state.policy or rules.policy_for(given.heard.origin)
    doing = "idle"
    if run is not None:
        tools = [c.prepared.name for c in run.calls if c.phase == "running"]
        since = (given.heard.at - run.began_at).total_seconds()
        what = f"running {', '.join(tools)}" if tools else f"waiting for the model (call {run.call})"
        doing = f"turn {run.turn}, {what}, for {since:.0f} s" + (", stopping" if run.stopping else "")
    lines = [
        f"- **State**: {doing}",
        f"- **Waiting**: {len(state.waiting)} message(s)",
        f"- **While busy**: {policy}",
        f"- **Model**: {_model_name(state)}",
        f"- **Conversation**: {state.session_id}, {state.messages} message(s), {state.last_turn} turn(s) here",
    ]
    return "\n".join([*lines, given.info]).strip()
