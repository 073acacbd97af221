"""The whole program as a process, over a scripted model server: starting, stopping, being refused."""

import asyncio
import base64
import json
import os
import re
import signal
import socket
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from urllib.parse import quote

import duckdb
import pytest

import run_system
from tests.counterparts.model_server import Call, Fail, Hang, ModelServer, Say

pytestmark = pytest.mark.slow

PROGRAM = str(Path(run_system.__file__))
KEY = "sk-test-AAAA1111BBBB2222"
LONG_S = 60


class Process:
    """One run of the program: its output so far, and its end."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self.pid = process.pid
        self._process = process
        self.out = self.err = ""
        assert process.stdout is not None
        assert process.stderr is not None
        self._readers = [
            asyncio.create_task(self._read(process.stdout, "out")),
            asyncio.create_task(self._read(process.stderr, "err")),
        ]
        self._more = asyncio.Event()

    async def _read(self, stream: asyncio.StreamReader, name: str) -> None:
        while piece := await stream.read(65536):
            setattr(self, name, getattr(self, name) + piece.decode("utf-8", "replace"))
            self._more.set()

    async def prints(self, text: str) -> None:
        """Wait until it has printed this."""
        async with asyncio.timeout(LONG_S):
            while text not in self.out + self.err:
                self._more.clear()
                await self._more.wait()

    def send(self, number: signal.Signals) -> None:
        self._process.send_signal(number)

    async def ends(self, stdin: str | None = None) -> int:
        """Give it its input, if any; wait for its end; return its code."""
        writer = self._process.stdin
        assert writer is not None
        if stdin:
            writer.write(stdin.encode())
        writer.close()
        async with asyncio.timeout(LONG_S):
            await asyncio.gather(*self._readers)
            return await self._process.wait()

    def environment(self) -> bytes:
        """Return what the system shows of its environment."""
        return Path(f"/proc/{self.pid}/environ").read_bytes()

    async def quit(self) -> None:
        if self._process.returncode is None:
            self._process.kill()
        await self._process.wait()
        await asyncio.gather(*self._readers)


class Place:
    """A data folder whose settings name a scripted model server."""

    def __init__(self, home: Path, server: ModelServer) -> None:
        self.home = home
        self.server = server
        self._started: list[Process] = []
        home.mkdir()
        self.settings()

    def settings(self, port: int = 0) -> None:
        (self.home / "callboard.yaml").write_text(
            "model: {provider: scripted, name: scripted-1, attempts: 1}\n"
            f"providers:\n  scripted:\n    base_url: {self.server.base_url}\n    api_key: ${{SCRIPTED_KEY}}\n"
            f"server: {{port: {port}}}\ntools: {{allow: [terminal]}}\n"
        )

    async def start(self, *arguments: str) -> Process:
        env = {"PATH": os.environ["PATH"], "CALLBOARD_HOME": str(self.home), "SCRIPTED_KEY": KEY, "HOME": "/"}
        process = Process(
            await asyncio.create_subprocess_exec(
                sys.executable,
                PROGRAM,
                *arguments,
                env=env,
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.PIPE,
            )
        )
        self._started.append(process)
        return process

    async def runs(self) -> Process:
        process = await self.start("run")
        await process.prints("Ctrl-C")
        return process

    async def ask(self, text: str, *more: str) -> tuple[int, Process]:
        process = await self.start("ask", text, *more)
        return await process.ends(), process

    async def leave(self) -> None:
        for process in self._started:
            await process.quit()


@asynccontextmanager
async def a_place(tmp_path: Path) -> AsyncIterator[Place]:
    async with ModelServer() as server:
        place = Place(tmp_path / "home", server)
        try:
            yield place
        finally:
            await place.leave()


async def test_run_says_where_it_is_and_stops_cleanly_on_sigterm(tmp_path: Path) -> None:
    async with a_place(tmp_path) as place:
        run = await place.runs()
        assert re.search(r"Open    http://127\.0\.0\.1:\d+/\?login=\S+", run.out)
        assert "scripted/scripted-1" in run.out
        place.server.will(Say("Good day."))
        code, asked = await place.ask("hello")
        assert (code, asked.out) == (0, "Good day.\n")
        run.send(signal.SIGTERM)
        assert await run.ends() == 0
        assert "Stopped." in run.err
        assert "Traceback" not in run.err
        assert not (place.home / "run.json").exists()


async def test_a_second_run_on_one_data_folder_names_the_first(tmp_path: Path) -> None:
    async with a_place(tmp_path) as place:
        first = await place.runs()
        second = await place.start("run")
        assert await second.ends() == 4
        assert f"pid {first.pid}" in second.err
        assert second.err.count("\n") == 2


async def test_a_second_signal_quits_at_once_and_nothing_is_lost(tmp_path: Path) -> None:
    async with a_place(tmp_path) as place:
        run = await place.runs()
        # The blank matters: a last word that might begin a secret is held back until more comes.
        place.server.will(Hang("Once upon "), Say("A time."))
        asking = await place.start("ask", "a tale", "--session", "tale", "--stream")
        await asking.prints("Once upon")
        run.send(signal.SIGTERM)
        await run.prints("a second signal quits at once")
        run.send(signal.SIGTERM)
        assert await run.ends() == 128 + signal.SIGTERM
        await place.runs()
        assert await asking.ends() == 0
        assert asking.out.endswith("A time.\n")


async def test_after_a_kill_the_next_run_starts_and_answers(tmp_path: Path) -> None:
    async with a_place(tmp_path) as place:
        run = await place.runs()
        place.server.will(Hang(), Say("Here I am again."))
        asking = await place.start("ask", "are you there?")
        await _a_request(place.server)
        run.send(signal.SIGKILL)
        await run.ends()
        await place.runs()
        assert await asking.ends() == 0
        assert asking.out == "Here I am again.\n"


async def _a_request(server: ModelServer) -> None:
    async with asyncio.timeout(LONG_S):
        while not server.requests:
            await asyncio.sleep(0.01)


async def test_an_interrupted_question_ends_with_130(tmp_path: Path) -> None:
    async with a_place(tmp_path) as place:
        place.server.will(Hang("Once upon "))
        asking = await place.start("ask", "a tale", "--stream")
        await asking.prints("Once upon")
        asking.send(signal.SIGINT)
        assert await asking.ends() == 130
        assert "Traceback" not in asking.err


async def test_the_chat_works_from_a_pipe_with_a_house_of_its_own(tmp_path: Path) -> None:
    async with a_place(tmp_path) as place:
        place.server.will(Say("One."), Say("Two."))
        chat = await place.start("chat")
        assert await chat.ends("first\nsecond\n") == 0
        assert chat.out == "One.\nTwo.\n"
        listed = await place.start("sessions", "show", "main")
        assert await listed.ends() == 0
        assert "second" in listed.out
        assert "Two." in listed.out


async def test_a_port_in_use_ends_with_4_and_the_remedy(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        async with a_place(tmp_path) as place:
            place.settings(port)
            run = await place.start("run")
            assert await run.ends() == 4
            assert str(port) in run.err
            assert "server.port" in run.err
            assert "Traceback" not in run.err
            doctor = await place.start("doctor")
            assert await doctor.ends() == 1
            assert "fail  port" in doctor.out


async def test_a_database_locked_by_another_process_ends_with_4_and_its_pid(tmp_path: Path) -> None:
    async with a_place(tmp_path) as place:
        with duckdb.connect(place.home / "callboard.duckdb"):
            for command in (["run"], ["ask", "hello"], ["sessions", "list"]):
                refused = await place.start(*command)
                assert await refused.ends() == 4
                assert str(os.getpid()) in refused.err
                assert "Traceback" not in refused.err
            doctor = await place.start("doctor")
            assert await doctor.ends() == 1
            assert "fail  database" in doctor.out


async def test_a_data_folder_that_cannot_be_used_ends_with_4(tmp_path: Path) -> None:
    async with a_place(tmp_path) as place:
        for folder in ("/proc/callboard", "/dev/null", "/dev/null/below"):
            for command in (["run"], ["ask", "hello"], ["chat"]):
                refused = await place.start("--home", folder, *command)
                assert await refused.ends() == 4
                assert folder.removesuffix("/below") in refused.err
                assert "CALLBOARD_HOME" in refused.err
                assert "Traceback" not in refused.err


async def test_a_wrong_key_is_told_with_the_remedy(tmp_path: Path) -> None:
    async with a_place(tmp_path) as place:
        place.server.will(Fail(401, {"error": {"message": f"Incorrect API key provided: {KEY}"}}))
        code, asked = await place.ask("hello", "--json")
        assert code == 1
        answer = json.loads(asked.out)
        assert answer["status"] != "ok"
        assert "key" in answer["text"]
        assert KEY not in asked.out + asked.err


def everything_stored(home: Path) -> str:
    """Return the text of every row of the database, and of the logs."""
    with duckdb.connect(home / "callboard.duckdb", read_only=True) as database:
        tables = [name for (name,) in database.execute("SELECT table_name FROM duckdb_tables()").fetchall()]
        rows = [str(row) for table in tables for row in database.execute(f"FROM {table}").fetchall()]
    return "\n".join([*rows, *(file.read_text("utf-8") for file in (home / "logs").iterdir())])


async def test_X05_the_key_is_nowhere_but_in_its_header(tmp_path: Path) -> None:
    raw = KEY.encode()
    forms = [KEY, base64.b64encode(raw).decode().rstrip("="), quote(KEY, safe=""), raw.hex()]
    forms.append("".join(f"%{byte:02X}" for byte in raw))
    leak = tmp_path / "leak.txt"
    leak.write_text(KEY)
    command = f"env; cat /proc/$PPID/environ | tr '\\0' ' '; cat {leak}; base64 {leak}; od -An -tx1 {leak} | tr -d ' \n'"
    async with a_place(tmp_path) as place:
        place.server.will(
            Call(("terminal", {"command": command})),
            Say("", pieces=("The key is sk-te", "st-AAAA1111B", f"BBB2222, in hex {raw.hex()}")),
            Fail(401, {"error": {"message": f"Incorrect API key provided: {KEY}"}}),
        )
        run = await place.runs()
        questions = ("show me your environment", f"is it {KEY}?")
        said = [await place.ask(text, "--stream", "--session", "x") for text in questions]
        outputs = [run.environment().decode("utf-8", "replace")]
        run.send(signal.SIGTERM)
        await run.ends()
        shown = await place.start("sessions", "show", "x")
        await shown.ends()
    outputs += [run.out, run.err, shown.out, shown.err, everything_stored(place.home)]
    outputs += [process.out + process.err for _, process in said]
    outputs += [json.dumps(request.body) for request in place.server.requests]
    assert len(place.server.requests) == 3
    for form in forms:
        assert not [text for text in outputs if form in text], form
    assert [code for code, _ in said] == [0, 1]
    assert shown.out.count("***") > 3
    assert place.server.requests[0].headers["Authorization"] == f"Bearer {KEY}"
