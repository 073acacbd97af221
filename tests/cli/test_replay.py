"""`callboard replay`: the journal of one session, fact by fact."""

import json
from pathlib import Path
from typing import Any

import pytest

from actors.console.cli.invocation import ExitCode
from actors.console.cli.replay import replay
from tests.cli.house import noted, printed, typed
from tests.fakes.desk import FakeDesk

NAME = "discord-ann"
KEY = f"agent:main:discord:main:dm:{NAME}"


async def lines(home: Path, to: int | None = None) -> list[Any]:
    call = typed(home, FakeDesk())
    assert await replay(call, NAME, to=to, as_json=True) == ExitCode.OK
    return [json.loads(line) for line in printed(call).splitlines()]


async def test_every_fact_is_shown_with_the_state_after_it(demo: Path) -> None:
    steps = await lines(demo)
    assert [step["seq"] for step in steps] == list(range(1, len(steps) + 1))
    assert steps[0]["fact"]["kind"] == "session_opened"
    assert {step["session_key"] for step in steps} == {KEY}
    assert steps[-1]["state"].startswith("idle")
    assert steps[-1]["owes"] == []


async def test_what_is_owed_in_between_is_shown(demo: Path) -> None:
    steps = await lines(demo)
    began = next(step for step in steps if step["fact"]["kind"] == "turn_began")
    assert began["owes"][0].startswith("AskModel(turn=1")
    owed = next(step for step in steps if step["fact"]["kind"] == "reply_owed")
    assert any(effect.startswith("Deliver(") for effect in owed["owes"])


async def test_it_stops_at_the_end_of_a_turn(demo: Path) -> None:
    steps, whole = await lines(demo, to=1), await lines(demo)
    assert len(steps) < len(whole)
    assert steps == whole[: len(steps)]
    assert {step["fact"]["turn"] for step in steps if "turn" in step["fact"]} == {1}
    assert "turn_ended" in {step["fact"]["kind"] for step in steps}


async def test_people_read_it_line_by_line(demo: Path) -> None:
    call = typed(demo, FakeDesk())
    assert await replay(call, KEY, to=None, as_json=False) == ExitCode.OK
    text = printed(call)
    assert "turn_began" in text
    assert "→ running turn 1" in text
    assert "owes AskModel(" in text


@pytest.mark.parametrize(("name", "to", "word"), [("nobody", None, "no session"), (NAME, 99, "no turn 99")])
async def test_what_is_not_there_is_told(demo: Path, name: str, to: int | None, word: str) -> None:
    call = typed(demo, FakeDesk())
    assert await replay(call, name, to=to, as_json=False) == ExitCode.FAILED
    assert word in noted(call)


async def test_replay_changes_nothing(demo: Path) -> None:
    assert await lines(demo) == await lines(demo)
