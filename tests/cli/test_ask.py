import asyncio
import json
from dataclasses import replace
from pathlib import Path

import pytest

from actors.console.cli.ask import Question, ask
from actors.console.cli.invocation import CommandFailedError, ExitCode
from actors.errors import StartError
from tests.cli.house import BrokenHouse, Builder, CrashingHouse, noted, printed, running, typed, until
from tests.fakes.desk import FakeDesk


async def test_the_answer_goes_to_the_output_and_the_progress_beside_it(tmp_path: Path) -> None:
    desk = FakeDesk()
    desk.will_use("current_time", "12:00", then="It is **noon**.")
    call = typed(tmp_path, desk)
    assert await ask(call, Question("What time is it?")) == ExitCode.OK
    assert printed(call) == "It is **noon**.\n"
    assert "current_time" in noted(call)


async def test_without_a_running_process_the_house_is_our_own_and_stops_with_us(tmp_path: Path) -> None:
    desk = FakeDesk()
    call = typed(tmp_path, desk)
    await ask(call, Question("hello"))
    builder = call.new_house
    assert isinstance(builder, Builder)
    (house,) = builder.built
    assert (house.started, house.stopped, house.serve_tcp) == (1, 1, False)
    assert house.url == ""


async def test_a_running_process_is_joined(tmp_path: Path) -> None:
    desk = FakeDesk()
    async with running(tmp_path, desk):
        call = typed(tmp_path, FakeDesk())
        assert await ask(call, Question("hello", session="work")) == ExitCode.OK
        assert await ask(call, Question("again", session="work", as_json=True)) == ExitCode.OK
    builder = call.new_house
    assert isinstance(builder, Builder)
    assert builder.built == []
    assert [heard.origin.chat for heard in desk.spoken] == ["work", "work"]
    assert all(heard.origin.platform == "terminal" and not heard.can_confirm for heard in desk.spoken)
    answer = json.loads(printed(call).splitlines()[1])
    assert answer == {
        "text": "you said: again",
        "status": "ok",
        "session_key": "agent:main:terminal:main:dm:work",
        "turn": 2,
        "model": {"provider": "fake", "name": "parrot-1"},
    }


async def test_two_questions_without_a_session_are_two_conversations(tmp_path: Path) -> None:
    desk = FakeDesk()
    async with running(tmp_path, desk):
        for _ in range(2):
            await ask(typed(tmp_path, desk), Question("hello"))
    assert len(desk.talks) == 2


@pytest.mark.parametrize("as_json", [False, True])
async def test_a_failed_turn_is_told_and_ends_with_1(tmp_path: Path, as_json: bool) -> None:
    desk = FakeDesk()
    desk.will_fail("The key is wrong. Set OPENAI_API_KEY.", status="auth")
    call = typed(tmp_path, desk)
    assert await ask(call, Question("hello", as_json=as_json)) == ExitCode.FAILED
    if as_json:
        answer = json.loads(printed(call))
        assert (answer["status"], answer["text"]) == ("auth", "The key is wrong. Set OPENAI_API_KEY.")
    else:
        assert printed(call) == ""
        assert "Set OPENAI_API_KEY" in noted(call)


async def test_a_refused_message_is_told_and_ends_with_1(tmp_path: Path) -> None:
    desk = FakeDesk()
    desk.refuse("Busy, try again.")
    call = typed(tmp_path, desk)
    assert await ask(call, Question("hello")) == ExitCode.FAILED
    assert "Busy, try again." in noted(call)


async def test_drafts_that_were_lost_on_the_way_are_not_missing_in_the_end(tmp_path: Path) -> None:
    desk = FakeDesk()
    desk.will_answer_unseen("The whole answer.")
    call = typed(tmp_path, desk)
    await ask(call, Question("hello"))
    assert printed(call) == "The whole answer.\n"


async def test_the_answer_is_complete_when_the_connection_breaks_in_the_middle(tmp_path: Path) -> None:
    desk = FakeDesk()
    desk.streams("Once upon ")
    async with running(tmp_path, desk):
        call = typed(tmp_path, desk)
        asking = asyncio.create_task(ask(call, Question("a tale")))
        await until(lambda: printed(call) == "Once upon ")
    desk.adds("a time.")
    async with running(tmp_path, desk):
        await until(lambda: desk.watchers() > 0)
        desk.finish()
        assert await asking == ExitCode.OK
    assert printed(call) == "Once upon a time.\n"
    assert len(desk.spoken) == 1


async def test_an_interrupted_question_stops_its_turn(tmp_path: Path) -> None:
    desk = FakeDesk()
    desk.streams("Once")
    async with running(tmp_path, desk):
        call = typed(tmp_path, desk)
        asking = asyncio.create_task(ask(call, Question("a tale")))
        await until(lambda: printed(call) == "Once")
        asking.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asking
        (talk,) = desk.talks.values()
        assert talk.running is None


async def test_a_house_that_cannot_start_says_why(tmp_path: Path) -> None:
    call = typed(tmp_path, FakeDesk(), kind=BrokenHouse)
    with pytest.raises(StartError) as caught:
        await ask(call, Question("hello"))
    assert (caught.value.what, caught.value.remedy) == (
        "The port 8632 is in use.",
        "Set `server.port` to another one.",
    )


async def test_X05_a_mistake_of_ours_is_one_line_and_a_clean_traceback_in_the_log(tmp_path: Path) -> None:
    call = typed(tmp_path, FakeDesk(), kind=CrashingHouse)
    with pytest.raises(CommandFailedError) as caught:
        await ask(call, Question("hello"))
    logged = (tmp_path / "logs" / "callboard.log").read_text("utf-8")
    assert caught.value.what == "RuntimeError: unexpected: ***2222"
    assert "callboard.log" in caught.value.remedy
    assert "Traceback" in logged
    assert "AAAA1111" not in logged


async def test_the_house_gets_the_whole_environment_and_the_process_keeps_no_secret(tmp_path: Path) -> None:
    (tmp_path / "callboard.yaml").write_text("server: {token: '${MINE}'}\nlog: {level: '${LEVEL}'}\n")
    env = {"MINE": "the-servers-own-token", "LEVEL": "info", "GITHUB_TOKEN": "ghx-0123456789", "PATH": "/bin"}
    forgotten: set[str] = set()
    call = replace(typed(tmp_path, FakeDesk(), env=env), forget=forgotten.update)
    await ask(call, Question("hello"))
    builder = call.new_house
    assert isinstance(builder, Builder)
    assert builder.env == env
    assert forgotten == {"MINE", "GITHUB_TOKEN"}
    assert builder.redactor.clean("the-servers-own-token ghx-0123456789 /bin") == "***oken *** /bin"
