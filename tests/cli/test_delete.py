"""`callboard sessions delete` and the exports that come from facts."""

import json
from pathlib import Path

import pytest

from actors.console.cli.delete import delete_sessions
from actors.console.cli.history import find_key, open_history
from actors.console.cli.invocation import ExitCode
from actors.console.cli.sessions import export_sessions
from actors.tool.results import place_of
from messages.ids import CallId, SessionKey, Turn
from tests.cli.house import noted, printed, running, typed
from tests.fakes.desk import FakeDesk, Talk

pytestmark = pytest.mark.slow

NAME = "discord-ann"
KEY = SessionKey(f"agent:main:discord:main:dm:{NAME}")


async def rows_of(home: Path, key: str = KEY) -> int:
    async with open_history(typed(home, FakeDesk())) as history:
        found = await history.query(
            """
            SELECT (SELECT count(*) FROM messages WHERE session_key = $1)
                + (SELECT count(*) FROM turns WHERE session_key = $1)
                + (SELECT count(*) FROM model_calls WHERE session_key = $1)
                + (SELECT count(*) FROM tool_calls WHERE session_key = $1)
                + (SELECT count(*) FROM deliveries WHERE session_key = $1)
                + (SELECT count(*) FROM sessions WHERE session_key = $1)
                + (SELECT count(*) FROM facts WHERE stream = 'session:' || $1 AND kind <> 'history_erased')
            """,
            [key],
        )
    return int(found.rows[0][0])


async def others_of(home: Path) -> int:
    async with open_history(typed(home, FakeDesk())) as history:
        found = await history.query("SELECT count(*) FROM messages WHERE session_key <> $1", [KEY])
    return int(found.rows[0][0])


async def test_after_a_yes_everything_is_gone_and_what_remains_is_told(demo: Path) -> None:
    kept = place_of(demo / "results", KEY, Turn(1), CallId("c"), "read_file")
    kept.parent.mkdir(parents=True)
    kept.write_text("a long result")
    others = await others_of(demo)
    call = typed(demo, FakeDesk(), stdin="yes\n")
    assert await delete_sessions(call, [NAME], yes=False) == ExitCode.OK
    assert await rows_of(demo) == 0
    assert not kept.parent.exists()
    assert await others_of(demo) == others > 0
    assert "What remains" in noted(call)
    assert "Backups" in noted(call)
    assert "1 kept results" in printed(call)


async def test_without_a_yes_nothing_happens(demo: Path) -> None:
    before = await rows_of(demo)
    for said in ("", "no\n", "y\n", "yes please\n"):
        call = typed(demo, FakeDesk(), stdin=said)
        assert await delete_sessions(call, [NAME], yes=False) == ExitCode.FAILED
        assert "cannot be undone" in noted(call)
    assert await rows_of(demo) == before > 0


async def test_an_unknown_one_stops_nobody(demo: Path) -> None:
    call = typed(demo, FakeDesk())
    assert await delete_sessions(call, ["nobody", NAME], yes=True) == ExitCode.FAILED
    assert "no session 'nobody'" in noted(call)
    assert await rows_of(demo) == 0


async def test_a_running_process_deletes_itself(tmp_path: Path) -> None:
    desk = FakeDesk()
    desk.talks[KEY] = talk = Talk(KEY)
    talk.enter("user", "hello")
    call = typed(tmp_path, desk)
    async with running(tmp_path, desk), open_history(call) as history:
        erased = await history.erase(KEY)
        assert erased.facts == 1
        assert desk.talks == {}


async def test_a_name_that_means_several_is_not_guessed(demo: Path) -> None:
    async with open_history(typed(demo, FakeDesk())) as history:
        assert await find_key(history, KEY) == KEY
        assert await find_key(history, NAME) == KEY
    call = typed(demo, FakeDesk())
    assert await delete_sessions(call, ["discord"], yes=True) == ExitCode.FAILED


async def test_exports_for_other_programs(demo: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    for form in ("openai", "sharegpt"):
        call = typed(demo, FakeDesk())
        assert await export_sessions(call, [], out, form) == ExitCode.OK
    messages = [json.loads(file.read_text("utf-8"))["messages"] for file in out.glob("*.openai.jsonl")]
    talks = [json.loads(file.read_text("utf-8"))["conversations"] for file in out.glob("*.sharegpt.jsonl")]
    assert len(messages) == len(talks) > 5
    calls = [message for talk in messages for message in talk if message.get("tool_calls")]
    assert calls
    for talk in messages:
        asked = {call["id"] for message in talk for call in message.get("tool_calls", ())}
        told = {message["tool_call_id"] for message in talk if message["role"] == "tool"}
        assert asked == told
    assert {line["from"] for talk in talks for line in talk} == {
        "human",
        "gpt",
        "function_call",
        "observation",
    }
