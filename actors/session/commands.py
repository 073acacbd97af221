"""Slash commands that a session carries out itself. Pure."""

from collections.abc import Callable

from actors.session import approvals, past, words
from actors.session import facts as f
from actors.session.decision import Decision, Draft, Rules, name_session
from actors.session.effects import Acknowledge, StartSide, TellStatus
from actors.session.quoting import named, quoted, visible
from actors.session.run import begin_turn, open_anew, stop, tools_go_on
from actors.session.sides import MOST_SIDES, begin_side
from actors.session.state import Session
from messages import session as m
from messages.gateway import Acceptance
from messages.settings import BusyPolicy


def carry_out(state: Session, given: m.CommandGiven, rules: Rules) -> Decision:
    """Do what a command says, and answer it."""
    heard = given.heard
    if heard.message_id in state.seen:
        return Decision((), (Acknowledge(heard.message_id, Acceptance.DUPLICATE, key=given.came_to),))
    draft = Draft(state, rules)
    draft.open_for(heard)
    draft.take_command(heard, given.name, given.argument)
    draft.do(Acknowledge(heard.message_id, Acceptance.ACCEPTED, key=given.came_to))
    carry = _COMMANDS.get(given.name)
    if carry is not None:
        carry(draft, given, rules)
    elif given.name in ("steer", "queue"):
        _answer(draft, given, words.SAY_SOMETHING.format(verb=given.name))
    else:
        _answer(draft, given, given.info or words.UNKNOWN_COMMAND.format(name=visible(given.name)[:40]))
    return draft.decision()


def _answer(draft: Draft, given: m.CommandGiven, text: str) -> None:
    draft.notice(text, given.heard.at, given.heard)


# ------------------------------------------------------------------ conversations


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


def _list_earlier(draft: Draft, given: m.CommandGiven, rules: Rules) -> None:  # noqa: ARG001 one form for all
    number = _number(given, past.MOST_LISTED, otherwise=past.USUALLY_LISTED)
    if isinstance(number, str):
        _answer(draft, given, number)
        return
    earlier = [c for c in given.earlier if c.session_id != draft.state.session_id]
    _answer(draft, given, past.listed(earlier[:number], given.info))


def _resume(draft: Draft, given: m.CommandGiven, rules: Rules) -> None:  # noqa: ARG001 one form for all
    found = past.find(given.earlier, given.argument)
    state, heard = draft.state, given.heard
    if isinstance(found, str):
        _answer(draft, given, given.info or found)
    elif _busy(draft, given):
        return
    elif found.session_id == state.session_id:
        _answer(draft, given, words.RESUMED_THIS)
    elif given.entries is None:
        _answer(draft, given, given.info or words.NO_SUCH_SESSION.format(id=quoted(given.argument, 60)))
    else:
        session_id = name_session(state.key, heard.message_id, heard.at)
        open_anew(draft, session_id, draft.session_id, heard.at)
        draft.say(
            f.ConversationResumed(
                session_id=session_id,
                resumed=found.session_id,
                title=found.title,
                entries=given.entries,
                at=heard.at,
            )
        )
        text = words.RESUMED.format(title=quoted(found.title), date=f"{found.last_at:%Y-%m-%d %H:%M} UTC")
        _answer(draft, given, text)


def _title(draft: Draft, given: m.CommandGiven, rules: Rules) -> None:  # noqa: ARG001 one form for all
    title = visible(given.argument)[: words.LONGEST_TITLE]
    if title:
        draft.say(f.TitleChosen(session_id=draft.session_id, title=title, at=given.heard.at))
    now = draft.state.shown_title
    _answer(draft, given, words.TITLE_NOW.format(title=quoted(now)) if now else words.NO_TITLE)


# ------------------------------------------------------------------ exchanges


def _busy(draft: Draft, given: m.CommandGiven) -> bool:
    """Say that a command has to wait for the running turn to end, where it has to."""
    if draft.running is None:
        return False
    _answer(draft, given, words.BUSY_NOW_FIRST.format(name=given.name))
    return True


def _retry(draft: Draft, given: m.CommandGiven, rules: Rules) -> None:  # noqa: ARG001 one form for all
    if _busy(draft, given):
        return
    heard, exchanges = given.heard, draft.state.exchanges
    if not exchanges:
        _answer(draft, given, words.NOTHING_TO_RETRY)
        return
    draft.say(f.AnswerDiscarded(turn=exchanges[-1].turn, at=heard.at))
    begin_turn(draft, heard.message_id, "again", heard.at)


def _undo(draft: Draft, given: m.CommandGiven, rules: Rules) -> None:  # noqa: ARG001 one form for all
    if _busy(draft, given):
        return
    number = _number(given, 100, otherwise=1)
    if isinstance(number, str):
        _answer(draft, given, number)
        return
    undone = draft.state.exchanges[-number:]
    if not undone:
        _answer(draft, given, words.NOTHING_TO_UNDO)
        return
    draft.say(f.ExchangesUndone(turns=tuple(e.turn for e in undone), at=given.heard.at))
    asked = " · ".join(quoted(e.asked) for e in undone[-5:])
    _answer(draft, given, words.UNDONE.format(asked=asked))


def _compress(draft: Draft, given: m.CommandGiven, rules: Rules) -> None:
    if _busy(draft, given):
        return
    upto = past.older_part(draft.state)
    if upto < past.LEAST_COMPRESSED:
        _answer(draft, given, words.TOO_SHORT_TO_COMPRESS)
        return
    begin_turn(draft, given.heard.message_id, "compress", given.heard.at, upto)
    draft.do(TellStatus(draft.run.turn, words.COMPRESSING))
    heard = given.heard
    if heard.origin.platform not in rules.pulled:  # who watches sees the status; a chat does not
        draft.remark(words.COMPRESSING_HERE, heard.at, heard.origin, reply_to=heard.message_id)


# ------------------------------------------------------------------ approvals


def _decide_approval(draft: Draft, given: m.CommandGiven, rules: Rules) -> None:
    heard, yes = given.heard, given.name == "approve"
    call = approvals.find(draft, given.argument)
    if isinstance(call, str):
        _answer(draft, given, call)
        return
    why_not = approvals.objection(rules, draft.run, heard)
    if not why_not and yes and not call.in_chat:
        why_not = words.APPROVAL_ON_PAGE
    if why_not:
        _answer(draft, given, why_not)
        return
    approvals.settle(draft, call, heard.author, yes=yes, at=heard.at)
    told = words.APPROVED if yes else words.DENIED
    _answer(draft, given, told.format(by=named(heard.author), name=call.prepared.name))
    tools_go_on(draft, rules, heard.at)


# ------------------------------------------------------------------ beside the conversation


def _background(draft: Draft, given: m.CommandGiven, rules: Rules) -> None:  # noqa: ARG001 one form for all
    state, heard = draft.state, given.heard
    if not given.argument.strip():
        _answer(draft, given, words.SAY_SOMETHING.format(verb="work on"))
    elif heard.origin.side is not None:
        _answer(draft, given, words.SIDE_IN_SIDE)
    elif len(state.sides) >= MOST_SIDES:
        _answer(draft, given, words.SIDES_FULL.format(count=len(state.sides)))
    else:
        begun = begin_side(state.key, heard, given.argument)
        draft.say(begun)
        _answer(draft, given, words.SIDE_BEGAN.format(title=quoted(begun.title)))
        draft.do(StartSide(begun.side, begun.heard))


# ------------------------------------------------------------------ choices


def _choose_policy(draft: Draft, given: m.CommandGiven, rules: Rules) -> None:
    heard = given.heard
    wanted = given.argument.strip().lower()
    if wanted and wanted not in list(BusyPolicy):
        _answer(draft, given, words.BAD_POLICY.format(given=wanted))
        return
    policy = draft.state.policy or rules.policy_for(heard.origin)
    if wanted:
        policy = BusyPolicy(wanted)
        draft.say(f.PolicyChosen(policy=policy, at=heard.at))
    _answer(draft, given, words.BUSY_NOW.format(does=words.POLICY_DOES[policy]))


def _choose_model(draft: Draft, given: m.CommandGiven, rules: Rules) -> None:  # noqa: ARG001 one form for all
    heard = given.heard
    wanted = given.argument.strip().lower()
    if wanted in ("default", "auto"):
        draft.say(f.ModelChosen(model=None, at=heard.at))
    elif given.model is not None:
        draft.say(f.ModelChosen(model=given.model, at=heard.at))
    elif wanted:
        _answer(draft, given, given.info)  # what was wrong with it
        return
    text = words.MODEL_NOW.format(model=_model_name(draft.state))
    _answer(draft, given, f"{text}\n\n{given.info}".strip())


def _choose_personality(draft: Draft, given: m.CommandGiven, rules: Rules) -> None:
    names = ", ".join(f"`{visible(name)}`" for name in sorted(rules.personalities))
    wanted = given.argument.strip().lower()
    at = given.heard.at
    if not names:
        _answer(draft, given, words.NO_PERSONALITIES)
    elif not wanted:
        now = draft.state.personality
        _answer(
            draft,
            given,
            words.PERSONALITIES.format(now=f"`{now}`" if now else words.NOBODY_ELSE, names=names),
        )
    elif wanted in ("none", "default", "off"):
        draft.say(f.PersonalityChosen(name=None, at=at))
        _answer(draft, given, words.PERSONALITY_NONE)
    else:
        chosen = next((name for name in rules.personalities if name.lower() == wanted), None)
        if chosen is None:
            _answer(draft, given, words.UNKNOWN_PERSONALITY.format(given=quoted(wanted, 40), names=names))
            return
        draft.say(f.PersonalityChosen(name=chosen, at=at))
        _answer(draft, given, words.PERSONALITY_NOW.format(name=f"`{visible(chosen)}`"))


# ------------------------------------------------------------------ reports


def _model_name(state: Session) -> str:
    return f"{state.model.provider}/{state.model.name}" if state.model else words.MODEL_DEFAULT


def _report(draft: Draft, given: m.CommandGiven, rules: Rules) -> None:
    state = draft.state
    policy = state.policy or rules.policy_for(given.heard.origin)
    asked = [f"`{call.approval}` ({call.prepared.name})" for call in approvals.asking(state.running)]
    title = f" {quoted(state.shown_title)}" if state.shown_title else ""
    lines = [
        f"- **State**: {_doing(state, given)}",
        *([f"- **Waiting for a yes**: {', '.join(asked)}"] if asked else []),
        f"- **Waiting**: {len(state.waiting)} message(s)",
        *([f"- **Beside this**: {len(state.sides)} background task(s)"] if state.sides else []),
        f"- **While busy**: {policy}",
        f"- **Model**: {_model_name(state)}",
        *([f"- **Personality**: {state.personality}"] if state.personality else []),
        f"- **Conversation**:{title} {state.session_id}, {_figures(state)}",
    ]
    _answer(draft, given, "\n".join([*lines, given.info]).strip())


def _figures(state: Session) -> str:
    return f"{state.messages} message(s), {state.last_turn} turn(s) here"


def _doing(state: Session, given: m.CommandGiven) -> str:
    run = state.running
    if run is None:
        return "idle"
    tools = [c.prepared.name for c in run.calls if c.phase == "running"]
    since = (given.heard.at - run.began_at).total_seconds()
    if tools:
        what = f"running {', '.join(tools)}"
    elif any(c.phase == "asking" for c in run.calls):
        what = "waiting for a yes"
    else:
        what = f"waiting for the model (call {run.call})"
    return f"turn {run.turn}, {what}, for {since:.0f} s" + (", stopping" if run.stopping else "")


def _say_info(draft: Draft, given: m.CommandGiven, rules: Rules) -> None:  # noqa: ARG001 one form for all
    """What the actor or the front desk found out is the answer."""
    _answer(draft, given, given.info)


def _number(given: m.CommandGiven, most: int, *, otherwise: int) -> int | str:
    """Read the number that follows a command; a text says what is wrong with it."""
    text = given.argument.strip()
    if not text:
        return otherwise
    if text.isascii() and text.isdigit() and len(text) < 6 and 1 <= int(text) <= most:
        return int(text)
    return words.BAD_NUMBER.format(name=given.name, most=most, given=quoted(text, 20))


_COMMANDS: dict[str, Callable[[Draft, m.CommandGiven, Rules], None]] = {
    "new": _begin_anew,
    "busy": _choose_policy,
    "model": _choose_model,
    "status": _report,
    "help": _say_info,
    "retry": _retry,
    "undo": _undo,
    "usage": _say_info,
    "sessions": _list_earlier,
    "resume": _resume,
    "title": _title,
    "compress": _compress,
    "personality": _choose_personality,
    "background": _background,
    "approve": _decide_approval,
    "deny": _decide_approval,
}
