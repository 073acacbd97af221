"""`callboard replay`: a session's journal, fact by fact: what happened, what the session knew then, what it owed.

Nothing is done by it: the same pure functions that a waking session uses are asked
what they would make of the facts so far.
"""

import dataclasses
import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from rich.text import Text

from actors.console.cli.history import UnknownSessionError, facts_of, find_key, open_history
from actors.console.cli.invocation import ExitCode, Invocation
from actors.console.cli.printable import printable
from actors.console.cli.query import console_of

if TYPE_CHECKING:
    from actors.session.decision import Rules
    from actors.session.effects import Effect
    from actors.session.state import Session
    from messages.base import Message
    from messages.ids import SessionKey
    from store.journal import Recorded

_LINE: Final = 160
_LIFE: Final = "replay"


@dataclass(frozen=True, slots=True)
class Step:
    """One fact, and what was true after it."""

    recorded: "Recorded"
    state: "Session"
    owed: tuple["Effect", ...]
    """What the session would do if it woke now."""


async def replay(invocation: Invocation, name: str, *, to: int | None, as_json: bool) -> int:
    """Print a session's steps, up to the end of a turn."""
    from store.journal import JournalError  # noqa: PLC0415 with the facts

    async with open_history(invocation) as history:
        try:
            key = await find_key(history, name)
            facts = await facts_of(history, key)
        except UnknownSessionError as error:
            invocation.note(str(error))
            return ExitCode.FAILED
        except JournalError as error:
            invocation.note(f"The facts of {name} cannot be read: {error}")
            return ExitCode.FAILED
    taken = until(facts, to)
    if to is not None and not any(_turn(r.fact) == to for r in taken):
        invocation.note(
            f"There is no turn {to} in {key}; the last is {max(map(_last_turn, facts), default=0)}."
        )
        return ExitCode.FAILED
    show = _print_json if as_json else _print
    show(invocation, key, list(steps(key, taken, rules_of(invocation))))
    return ExitCode.OK


def rules_of(invocation: Invocation) -> "Rules":
    """Return the rules that the settings make, as far as they matter to what is owed."""
    from actors.house import PULLED  # noqa: PLC0415 it brings everything
    from actors.session.rules import rules_from  # noqa: PLC0415 the same

    return rules_from(invocation.read_settings().settings, fallbacks=(), pulled=PULLED)


def until(facts: "list[Recorded]", turn: int | None) -> "list[Recorded]":
    """Return the facts up to the end of a turn (with what was written together with it); all of them for None."""
    if turn is None:
        return facts
    end = next(
        (n for n, r in enumerate(facts) if _turn(r.fact) is not None and _last_turn(r) > turn), len(facts)
    )
    while 0 < end < len(facts) and getattr(facts[end - 1].fact, "kind", "") == "message_accepted":
        end -= 1  # said together with the begin of the next turn
    return facts[:end]


def _turn(fact: "Message") -> int | None:
    turn = getattr(fact, "turn", None)
    return turn if isinstance(turn, int) else None


def _last_turn(recorded: "Recorded") -> int:
    return _turn(recorded.fact) or 0


def steps(key: "SessionKey", facts: "list[Recorded]", rules: "Rules") -> Iterator[Step]:
    """Fold the facts one by one."""
    from actors.session.state import Session, apply  # noqa: PLC0415 it brings all facts
    from actors.session.transition import decide  # noqa: PLC0415 the same
    from messages.session import Woke  # noqa: PLC0415 the same

    state = Session(key=key)
    for recorded in facts:
        fact: Any = recorded.fact  # a session's stream holds session facts only
        state = apply(state, fact)
        owed: tuple[Effect, ...] = ()
        if state.owing:
            owed = decide(state, Woke(life=_LIFE, at=recorded.at), rules).effects
        yield Step(recorded, state, owed)


# ------------------------------------------------------------------ in words


def describe(state: "Session") -> str:
    """Return a session's state in a line."""
    run = state.running
    if run is None:
        parts = ["idle" if state.session_id else "no conversation is open"]
    else:
        parts = [f"{'stopping' if run.stopping else 'running'} turn {run.turn}"]
        if run.calls:
            parts.append("tools " + ", ".join(f"{c.prepared.name}:{c.phase}" for c in run.calls))
        else:
            parts.append(f"model call {run.call}, attempt {run.attempt}")
    if state.waiting:
        parts.append(f"{len(state.waiting)} waiting")
    if state.owed:
        parts.append(f"{len(state.owed)} to be delivered")
    parts.append(f"{len(state.entries)} entries")
    if state.policy:
        parts.append(f"busy: {state.policy.value}")
    if state.model:
        parts.append(f"model: {state.model.provider}/{state.model.name}")
    return " · ".join(parts)


def describe_effect(effect: "Effect") -> str:
    """Return an effect in a line: its name and its plain fields."""
    fields = ", ".join(
        f"{field.name}={_short(getattr(effect, field.name))}" for field in dataclasses.fields(effect)
    )
    return f"{type(effect).__name__}({fields})"


def _short(value: Any) -> str:
    for name in ("delivery_id", "call_id"):
        if hasattr(value, name):
            return str(getattr(value, name))
    if hasattr(value, "provider"):
        return f"{value.provider}/{value.name}"
    return repr(value)


def describe_fact(fact: "Message") -> str:
    """Return what a fact says, in a line."""
    fields = fact.model_dump(mode="json", exclude={"kind", "v", "at"}, exclude_none=True)
    text = ", ".join(
        f"{name}={value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)}"
        for name, value in fields.items()
        if value not in ([], "", False)
    )
    text = " ".join(text.split())
    return text if len(text) <= _LINE else f"{text[: _LINE - 1]}…"


def _print(invocation: Invocation, key: "SessionKey", found: list[Step]) -> None:
    console = console_of(invocation)
    console.print(Text(f"{key}: {len(found)} facts\n", style="bold"))
    state, owed = "", ""
    for step in found:
        fact = step.recorded.fact
        head = Text(
            f"{step.recorded.seq:>5}  {step.recorded.at:%Y-%m-%d %H:%M:%S.%f}"[:-3] + "  ", style="dim"
        )
        head.append(str(getattr(fact, "kind", "?")), style="cyan not dim")
        head.append(printable(f"  {describe_fact(fact)}"), style="not dim")
        console.print(head)
        if (now := describe(step.state)) != state:
            console.print(Text(f"         → {printable(now)}", style="green"))
            state = now
        due = "; ".join(map(describe_effect, step.owed))
        if due != owed:
            console.print(Text(f"         owes {printable(due) or 'nothing'}", style="yellow"))
            owed = due


def _print_json(invocation: Invocation, key: "SessionKey", found: list[Step]) -> None:
    for step in found:
        line = {
            "session_key": key,
            "seq": step.recorded.seq,
            "at": step.recorded.at.isoformat(),
            "fact": step.recorded.fact.model_dump(mode="json"),
            "state": describe(step.state),
            "owes": [describe_effect(effect) for effect in step.owed],
        }
        invocation.out(json.dumps(line, ensure_ascii=False))
