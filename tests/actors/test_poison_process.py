"""What kills the real process, and what hangs in it: it ends after three deaths, and never holds anybody else up."""

import asyncio
import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.counterparts.model_server import Call, Hang, ModelServer, Reply, Request, Say
from tests.process.real import Program, callboard, scripted

pytestmark = pytest.mark.slow

KILL = "kill -9 $(tr -d '\\n' < ../run.json | sed 's/.*\"pid\": *\\([0-9]*\\).*/\\1/')"
"""A command that ends the program it runs under."""

TOOLS = {"tools": {"allow": ["terminal"]}, "session": {"busy_dm": "queue"}}


def poisonous(request: Request) -> Reply:
    """Whoever says `poison` makes the model call a tool that kills the program, again and again."""
    if request.last_user_text == "poison":
        return Call(("terminal", {"command": KILL}), ids=[f"call-{len(json.dumps(request.body))}"])
    return Say(f"answer {request.last_user_text}")


async def lives_through(program: Program, most: int) -> int:
    """Start it again each time it dies, until the chat was told; return how often it died."""
    deaths = 0
    while True:
        assert program.process is not None
        dying = asyncio.create_task(program.process.wait())
        telling = asyncio.create_task(notices(program, "main", "crashed"))
        done, _ = await asyncio.wait((dying, telling), return_when=asyncio.FIRST_COMPLETED)
        for task in (dying, telling):
            task.cancel()
        await asyncio.gather(dying, telling, return_exceptions=True)
        if dying not in done and telling.exception() is None:
            return deaths
        assert await program.ended() == -9, program.errors()
        deaths += 1
        assert deaths <= most, "it dies again and again"
        try:
            await program.start()
        except AssertionError:
            continue  # it died before it was ready


async def notices(program: Program, chat: str, status: str, times: int = 1) -> list[str]:
    async with asyncio.timeout(30):
        while True:
            found = [e["text"] for e in await program.entries(chat) if e["status"] == status]
            if len(found) >= times:
                return found
            await asyncio.sleep(0.05)


async def letters(program: Program, *more: str) -> list[dict[str, Any]]:
    code, out, err = await callboard(program.home, "dead-letters", "list", "--json", *more)
    assert code == 0, err
    found: list[dict[str, Any]] = json.loads(out)
    return found


async def metric(program: Program, name: str) -> float:
    async with program.http() as http, http.get("/metrics") as response:
        found = re.search(rf"^{name} (\S+)$", await response.text(), re.MULTILINE)
    assert found is not None
    return float(found[1])


async def test_C07_W01_a_tool_that_kills_the_program_is_stopped_after_three_deaths_and_others_go_on(
    tmp_path: Path,
) -> None:
    good = [f"good-{n}" for n in range(8)]
    async with (
        ModelServer() as server,
        Program(tmp_path / "home", scripted(server.base_url) | TOOLS) as program,
    ):
        server.otherwise = poisonous
        for name in good:
            server.when(name, Say(f"answer {name} " + "word " * 10, delay_s=0.1))
            await program.says(name, chat=name, sync=False)
        await program.says("poison", sync=False)
        deaths = await lives_through(program, most=3)
        assert deaths == 3
        (told,) = await notices(program, "main", "crashed")
        assert "3 times" in told
        for name in good:
            (answer,) = await program.answered(1, chat=name)
            assert answer.startswith(f"answer {name}"), "who ran beside it is not blamed"
        server.when("poison", Say("I would rather not"))  # what made it deadly is mended
        assert (await program.says("hello"))["reply"] == "answer hello", "the session goes on"
        await _decides(program)


async def _decides(program: Program) -> None:
    """The dead letter is there, is handed in again once, and another is dropped."""
    (letter,) = await letters(program)
    assert (letter["text"], letter["state"]) == ("poison", "open")
    assert "died" in letter["error"]
    assert await metric(program, "callboard_dead_letters_open") == 1
    number = str(letter["id"])
    code, out, err = await callboard(program.home, "dead-letters", "retry", number)
    assert code == 0, err
    assert number in out
    assert (await program.answered(2))[-1] == "I would rather not"
    assert await letters(program) == []
    assert [entry["state"] for entry in await letters(program, "--all")] == ["retried"]
    assert await metric(program, "callboard_dead_letters_open") == 0
    code, _, err = await callboard(program.home, "dead-letters", "drop", number)
    assert code == 1
    assert "retried already" in err
    assert await program.terminate() == 0
    assert [entry["state"] for entry in await letters(program, "--all")] == ["retried"], "read from the file"


async def test_W01_a_message_that_kills_the_program_before_its_turn_cannot_come_back_for_ever(
    tmp_path: Path,
) -> None:
    """Its client sends it again after each death, as a platform does; others are taken meanwhile."""
    fuse = {"CALLBOARD_CHAOS": "before:message_accepted:1"}
    async with (
        ModelServer() as server,
        Program(tmp_path / "home", scripted(server.base_url) | TOOLS, env=fuse) as program,
    ):
        server.otherwise = poisonous
        for _ in range(3):
            with pytest.raises(Exception, match=r".*"):  # the connection is cut in the middle
                await program.says("deadly", message_id="m1", sync=False)
            assert await program.ended() == -9
            await program.start()
        refused = await program.says("deadly", message_id="m1", sync=False)
        assert refused["status"] == 429, refused
        (letter,) = await letters(program)
        assert (letter["text"], letter["message_id"]) == ("deadly", "m1")
        again = await program.says("deadly", message_id="m1", sync=False)
        assert again["acceptance"] == "duplicate"
        await program.kill()
        program.env = {}
        await program.start()
        assert (await program.says("hello"))["reply"] == "answer hello"
        assert await metric(program, "callboard_dead_letters_open") == 1
        code, _, err = await callboard(program.home, "dead-letters", "drop", str(letter["id"]))
        assert code == 0, err
        assert await metric(program, "callboard_dead_letters_open") == 0
        assert await letters(program) == []


@pytest.mark.parametrize(
    "hanging",
    [
        {"hang": Hang("half an")},
        {"hang": Hang(headers=False)},
        {
            "hang": Call(
                ("terminal", {"command": "trap '' TERM INT HUP; touch began; while :; do sleep 1; done"})
            )
        },
    ],
    ids=["model-in-the-middle", "model-never-answers", "tool-ignores-signals"],
)
async def test_stop_works_whatever_hangs(tmp_path: Path, hanging: Mapping[str, Reply]) -> None:
    async with (
        ModelServer() as server,
        Program(tmp_path / "home", scripted(server.base_url) | TOOLS) as program,
    ):
        server.will(hanging["hang"])
        await program.says("go", sync=False)
        request = await server.asked(1)
        if isinstance(hanging["hang"], Call):
            async with asyncio.timeout(30):
                while not (program.home / "workspace" / "began").exists():
                    await asyncio.sleep(0.02)
        else:
            async with asyncio.timeout(30):
                while (await _status(program))["model_silent_s"] < 0.2:
                    await asyncio.sleep(0.02)
        loop = asyncio.get_running_loop()
        began = loop.time()
        stopped = await program.says("/stop", sync=False)
        assert stopped["status"] in (200, 202)
        assert await notices(program, "main", "stopped") == ["Stopped."]
        async with asyncio.timeout(30):
            while (await _status(program))["turns_running"]:
                await asyncio.sleep(0.02)
        assert loop.time() - began < 20
        if isinstance(hanging["hang"], Hang):
            async with asyncio.timeout(30):
                await request.closed()
        server.will(Say("free again"))
        assert (await program.says("and now?"))["reply"] == "free again"


async def _status(program: Program) -> dict[str, Any]:
    async with program.http() as http, http.get("/api/status") as response:
        found: dict[str, Any] = await response.json()
        return found


async def test_a_stream_that_trickles_is_fine_and_one_that_falls_silent_is_asked_again(
    tmp_path: Path,
) -> None:
    async with ModelServer() as server:
        settings = scripted(server.base_url)
        settings["providers"]["scripted"] |= {"silence_timeout_s": 3, "first_byte_timeout_s": 3}
        async with Program(tmp_path / "home", settings) as program:
            server.will(Say("a b c d e f g h i j k l", delay_s=0.4))
            assert (await program.says("slowly"))["reply"] == "a b c d e f g h i j k l", (
                "slower than the limit"
            )
            server.will(Hang("half an"), Say("whole"))
            assert (await program.says("silently"))["reply"] == "whole"
            assert len(server.requests) == 3
            code, out, _ = await callboard(program.home, "status", "--json")
            assert code == 0
            assert json.loads(out)["model_silent_s"] == 0
