"""The embedded model: its real process and weights, and its supervision."""

import asyncio
import os
import signal
import sys
from pathlib import Path

import pytest

from actors.clock import WallClock
from actors.session.models.directory import ModelDirectory
from actors.session.models.local import LOCAL_REF, LocalModel, installed
from actors.session.models.port import ModelCallError
from messages.settings import Settings
from tests.actors.session.models.test_contract import Heard
from tests.actors.session.models.wires import TOOL, request, text_of, user

LOADS_S = 120

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not installed(), reason="the embedded model's packages are not installed"),
]


def environment() -> dict[str, str]:
    return {name: os.environ[name] for name in ("PATH", "HOME") if name in os.environ}


async def test_it_loads_streams_survives_a_kill_and_ends_with_us(tmp_path: Path) -> None:
    said: list[str] = []
    models = ModelDirectory(Settings(), environment(), WallClock(), tmp_path, said.append)
    question = request(user("Say hello."), model=LOCAL_REF, system="You are friendly.", tools=(TOOL,))
    async with asyncio.timeout(LOADS_S):
        heard = Heard()
        reply = await models.ask(question, heard)
        assert text_of(reply).strip()
        assert len(heard.deltas) > 1
        assert heard.text == text_of(reply)
        for _ in range(3):  # one directly after the other: its server closes connections without a word
            assert text_of(await models.ask(question, Heard())).strip()
        first = models.local_pid
        assert first is not None
        os.kill(first, signal.SIGKILL)
        await gone(first)
        again = text_of(await models.ask(question, Heard()))
        second = models.local_pid
        assert again.strip()
        assert second is not None
        assert second != first
    await models.close()
    assert models.local_pid is None
    with pytest.raises(ProcessLookupError):
        os.kill(second, 0)
    assert any("Loading" in line for line in said)
    assert any("tiny" in line for line in said)


async def gone(pid: int) -> None:
    """Wait until a process has ended (whether or not it was waited for by its parent)."""
    loop, ended = asyncio.get_running_loop(), asyncio.Event()
    try:
        watch = os.pidfd_open(pid)
    except ProcessLookupError:
        return
    loop.add_reader(watch, ended.set)
    await ended.wait()
    loop.remove_reader(watch)
    os.close(watch)


async def test_its_process_ends_when_its_parent_is_killed(tmp_path: Path) -> None:
    program = (
        "import asyncio, os, sys\n"
        "from pathlib import Path\n"
        "from actors.clock import WallClock\n"
        "from actors.session.models.local import LocalModel\n"
        "async def main():\n"
        "    local = LocalModel(os.environ, WallClock(), Path(sys.argv[1]), lambda _: None)\n"
        "    await local.endpoint()\n"
        "    print(local.pid, flush=True)\n"
        "    await asyncio.Event().wait()\n"
        "asyncio.run(main())\n"
    )
    parent = await asyncio.create_subprocess_exec(
        sys.executable,
        "-c",
        program,
        str(tmp_path),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL,
    )
    assert parent.stdout is not None
    async with asyncio.timeout(LOADS_S):
        lines = [await parent.stdout.readline()]
        while not lines[-1].strip().isdigit():
            lines.append(await parent.stdout.readline())
        child = int(lines[-1])
        parent.kill()
        await parent.wait()
        await gone(child)


async def test_only_who_has_its_key_may_use_it(tmp_path: Path) -> None:
    local = LocalModel(environment(), WallClock(), tmp_path, lambda _: None)
    async with asyncio.timeout(LOADS_S):
        endpoint = await local.endpoint()
        port = int((endpoint.base_url or "").split(":")[-1].split("/")[0])
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(b"POST /v1/chat/completions HTTP/1.0\r\nContent-Length: 2\r\n\r\n{}")
        assert b"401" in await reader.readline()
        writer.close()
    await local.close()
    with pytest.raises(ModelCallError):
        await local.endpoint()
