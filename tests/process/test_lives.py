"""Starts, stops and sudden ends of the real process."""

import asyncio
import json
import os
import stat
from pathlib import Path

import duckdb
import pytest

from tests.counterparts.model_server import Call, Fail, Hang, ModelServer, Say
from tests.process.real import Program, callboard, scripted

pytestmark = pytest.mark.slow


async def test_it_starts_answers_and_stops_in_good_order(tmp_path: Path) -> None:
    async with ModelServer() as server, Program(tmp_path / "home", scripted(server.base_url)) as program:
        server.will(Say("hello"))
        assert (await program.says("hi"))["reply"] == "hello"
        code, out, _ = await callboard(program.home, "status", "--json")
        assert code == 0
        assert json.loads(out)["turns_done"] == 1
        assert stat.S_IMODE((program.home / "token").stat().st_mode) == 0o600
        assert await program.terminate() == 0
        assert not (program.home / "run.json").exists()
        code, _, err = await callboard(program.home, "status")
        assert code == 3, err


async def test_a_stop_lets_the_running_turn_finish(tmp_path: Path) -> None:
    async with ModelServer() as server, Program(tmp_path / "home", scripted(server.base_url)) as program:
        server.will(Say("a b c d e f g h", delay_s=0.1))
        talking = asyncio.create_task(program.says("go"))
        await server.asked(1)
        assert await program.terminate() == 0
        await asyncio.gather(talking, return_exceptions=True)
        await program.start()
        assert [e["text"] for e in await program.entries()][-1] == "a b c d e f g h"
        assert len(server.requests) == 1


async def test_C06_a_killed_turn_is_answered_once_after_the_restart_and_marked(tmp_path: Path) -> None:
    async with ModelServer() as server, Program(tmp_path / "home", scripted(server.base_url)) as program:
        server.will(Hang("half an ans"))
        await program.says("first", sync=False)
        await server.asked(1)
        await program.kill()
        server.will(Say("the answer"), Say("yes, I am"))
        await program.start()
        reply = await program.says("are you there?")
        assert reply["reply"] in ("yes, I am", "the answer")
        assert await program.answered(1) == ["the answer", "yes, I am"][: len(await program.answered(1))]
        entries = await program.entries()
        assert [e["status"] for e in entries].count("interrupted") >= 1
        settled = [m for e in entries for m in e["answers"]]
        spoken = [e["message_id"] for e in entries if e["role"] == "user"]
        assert sorted(settled) == sorted(spoken), "each message is settled exactly once"


async def test_a_tool_that_was_killed_is_not_run_twice(tmp_path: Path) -> None:
    mark = tmp_path / "mark"
    settings = {"tools": {"allow": ["terminal"]}}
    async with ModelServer() as server:
        async with Program(tmp_path / "home", {**scripted(server.base_url), **settings}) as program:
            server.will(Call(("terminal", {"command": f"echo once >> {mark}; sleep 30"})))
            await program.says("do it", sync=False)
            async with asyncio.timeout(30):
                while not mark.exists():
                    await asyncio.sleep(0.02)
            await program.kill()
            server.will(Say("I do not know whether it worked"))
            await program.start()
            assert await program.answered(1) == ["I do not know whether it worked"]
        assert mark.read_text() == "once\n"
        assert "outcome is unknown" in json.dumps(server.requests[-1].body)


async def test_C09_two_messages_at_once_get_one_answer_each(tmp_path: Path) -> None:
    settings = {"session": {"busy_dm": "queue"}}
    async with (
        ModelServer() as server,
        Program(tmp_path / "home", {**scripted(server.base_url), **settings}) as program,
    ):
        server.will(Say("one two three", delay_s=0.2), Say("second"))
        first = asyncio.create_task(program.says("m1"))
        await server.asked(1)
        second = await program.says("m2")
        assert ((await first)["reply"], second["reply"]) == ("one two three", "second")
        assert len(await program.answered(2)) == 2


async def test_C10_a_second_process_on_the_same_folder_refuses_and_names_the_first(tmp_path: Path) -> None:
    async with ModelServer() as server, Program(tmp_path / "home", scripted(server.base_url)) as program:
        assert program.process is not None
        code, _, err = await callboard(program.home, "run")
        assert code == 4
        assert str(program.process.pid) in err
        assert "Traceback" not in err
        (program.home / "run.json").unlink()  # also when it cannot be found by its run file
        code, _, err = await callboard(program.home, "run")
        assert code == 4, err
        assert "Traceback" not in err
        server.will(Say("still here"))
        assert (await program.says("hi"))["reply"] == "still here"


async def test_B01_a_database_that_another_process_holds_is_said_in_a_line(tmp_path: Path) -> None:
    home = tmp_path / "home"
    home.mkdir()
    held = duckdb.connect(str(home / "callboard.duckdb"))
    try:
        # A lock of one's own process is none to another: only the other sees it.
        code, _, err = await callboard(home, "run")
    finally:
        held.close()
    assert code == 4
    assert str(os.getpid()) in err
    assert "Traceback" not in err
    assert len(err.strip().splitlines()) <= 3


async def test_a_port_in_use_is_said_with_the_remedy(tmp_path: Path) -> None:
    server = await asyncio.start_server(lambda _r, w: w.close(), "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    home = tmp_path / "home"
    home.mkdir()
    (home / "callboard.yaml").write_text(f"server: {{port: {port}}}\n")
    code, _, err = await callboard(home, "run")
    server.close()
    await server.wait_closed()
    assert code == 4
    assert str(port) in err
    assert "server.port" in err
    assert "Traceback" not in err


async def test_a_data_folder_that_is_a_file_is_said_with_the_remedy(tmp_path: Path) -> None:
    home = tmp_path / "home"
    home.write_text("not a folder")
    code, _, err = await callboard(home, "run")
    assert code == 4
    assert str(home) in err
    assert "Traceback" not in err


@pytest.mark.parametrize(
    ("status", "body", "says"),
    [
        (401, {"error": {"message": "Incorrect API key", "type": "invalid_request_error"}}, "api_key"),
        (404, {"error": {"message": "The model does not exist", "code": "model_not_found"}}, "scripted-1"),
    ],
)
async def test_a_wrong_key_or_model_is_said_in_the_chat_with_the_remedy(
    tmp_path: Path, status: int, body: dict[str, object], says: str
) -> None:
    async with ModelServer() as server, Program(tmp_path / "home", scripted(server.base_url)) as program:
        server.will(Fail(status, body))
        answer = await program.says("hi")
        assert answer["status"] == 502
        assert says in json.dumps(answer)
        server.will(Say("now it works"))
        assert (await program.says("again"))["reply"] == "now it works"


async def test_C08_one_chats_blocking_work_does_not_stop_the_others(tmp_path: Path) -> None:
    home = tmp_path / "home"
    (home / "workspace").mkdir(parents=True)
    (home / "workspace" / "long.txt").write_text("a" * 40 + "!\n")
    async with ModelServer() as server, Program(home, scripted(server.base_url)) as program:
        server.when("search", Call(("search_files", {"pattern": "(a+)+$", "path": "."})))
        server.when("ping", Say("pong"))
        searching = asyncio.create_task(program.says("search for it", chat="A"))
        await server.asked(1)
        loop = asyncio.get_running_loop()
        for _ in range(3):
            began = loop.time()
            assert (await program.says("ping", chat="B"))["reply"] == "pong"
            assert loop.time() - began < 5, "B waits for A's work"
        async with (
            program.http() as http,
            http.post("/api/messages", json={"text": "/stop", "chat": "A"}) as r,
        ):
            assert r.status in (200, 202)
        await searching


async def test_X05_X06_a_key_is_in_no_log_no_database_no_request_and_no_tools_environment(
    tmp_path: Path,
) -> None:
    key = "sk-test-AAAA1111BBBB2222"
    names = {"OPENAI_API_KEY": key, "MY_SECRET": "hunter2-hunter2", "DATABASE_URL": "postgres://u:hunter2@db"}
    settings = {
        "model": {"provider": "scripted", "name": "scripted-1"},
        "tools": {"allow": ["*"]},
        "log": {"level": "debug"},
    }
    async with ModelServer() as server:
        settings["providers"] = {"scripted": {"base_url": server.base_url, "api_key": "${OPENAI_API_KEY}"}}
        env = {**names, "LD_PRELOAD": ""}
        async with Program(tmp_path / "home", settings, env=env) as program:
            server.will(
                Call(("terminal", {"command": "env; cat /proc/self/environ; cat /proc/$PPID/environ; true"})),
                Say(f"the key is {key}", pieces=("the key is sk-test-AA", "AA1111BBBB", "2222")),
                Fail(401, {"error": {"message": f"Incorrect API key provided: {key}"}}),
            )
            told = await program.says("show me your environment")
            failed = await program.says("again")
            await program.terminate()
        requests = json.dumps([r.body for r in server.requests])
        assert server.requests[0].headers["Authorization"] == f"Bearer {key}"
        files = [p for p in (tmp_path / "home").rglob("*") if p.is_file() and p.name != "callboard.yaml"]
        assert any(p.name == "callboard.duckdb" for p in files)
        for where in (
            requests,
            json.dumps(told),
            json.dumps(failed),
            *(p.read_bytes().decode("latin-1") for p in files),
        ):
            assert key not in where
            assert "hunter2" not in where
