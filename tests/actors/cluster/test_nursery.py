"""Processes of our own: raised, talked to, killed, and never left behind."""

import asyncio
import json
import os
import signal
import socket
import sys
from pathlib import Path
from typing import Any

import psutil
import pytest

from actors.cluster.nursery import ThespianNursery
from actors.cluster.port import ProcessActor, ProcessGoneError
from actors.cluster.wire import LONGEST_FRAME, FrameTooLongError
from tests.actors.cluster.conftest import join_bridges

pytestmark = pytest.mark.slow

OBEY = "tests.actors.cluster.programs:obey"
PATIENCE_S = 30.0


async def ask(process: ProcessActor, **what: Any) -> dict[str, Any]:
    await process.tell(json.dumps(what).encode())
    answer: dict[str, Any] = json.loads(await process.hear())
    return answer


async def until_gone(pid: int) -> None:
    async with asyncio.timeout(PATIENCE_S):
        while psutil.pid_exists(pid) and psutil.Process(pid).status() != psutil.STATUS_ZOMBIE:
            await asyncio.sleep(0.01)


async def test_a_process_is_another_one_and_hears_what_it_is_told(nursery: ThespianNursery) -> None:
    process = await nursery.raise_process(OBEY)
    assert (await ask(process, parent=True))["pid"] == process.pid != os.getpid()
    text = "\x00 \U0001f600 " * 100_000
    assert (await ask(process, echo=text))["echo"] == text


async def test_what_is_said_keeps_its_order_and_waits_for_who_reads_slowly(nursery: ThespianNursery) -> None:
    process = await nursery.raise_process(OBEY)
    await process.tell(b'{"flood": 20000}')
    for number in range(20_000):
        assert json.loads(await process.hear())["number"] == number
    assert psutil.Process(process.pid).memory_info().rss < 200e6


@pytest.mark.parametrize("how", ["killed", "faulted"])
async def test_an_end_is_known_at_once_and_the_others_go_on(nursery: ThespianNursery, how: str) -> None:
    victim, other = await nursery.raise_process(OBEY), await nursery.raise_process(OBEY)
    if how == "killed":
        os.kill(victim.pid, signal.SIGKILL)
    else:
        await victim.tell(b'{"fault": 1}')
    async with asyncio.timeout(PATIENCE_S):
        with pytest.raises(ProcessGoneError):
            await victim.hear()
    assert (await ask(other, echo="still here"))["echo"] == "still here"
    with pytest.raises(ProcessGoneError):
        await victim.hear()


async def test_killing_talking_processes_over_and_over_stops_nothing(nursery: ThespianNursery) -> None:
    other = await nursery.raise_process(OBEY)
    for _ in range(20):
        victim = await nursery.raise_process(OBEY)
        await victim.tell(b'{"flood": 100000}')
        await victim.hear()
        os.kill(victim.pid, signal.SIGKILL)
    assert (await ask(other, echo="still here"))["echo"] == "still here"
    assert (await ask(await nursery.raise_process(OBEY), echo="new"))["echo"] == "new"


async def test_a_blocked_process_is_ended_when_its_patience_is_over(nursery: ThespianNursery) -> None:
    process = await nursery.raise_process(OBEY)
    await process.tell(b'{"block": 600}')
    async with asyncio.timeout(PATIENCE_S):
        await process.end(0.2)
    await until_gone(process.pid)


async def test_an_end_in_good_order_needs_no_force(nursery: ThespianNursery) -> None:
    process = await nursery.raise_process(OBEY)
    async with asyncio.timeout(PATIENCE_S):
        await process.end(PATIENCE_S)
    await until_gone(process.pid)


async def test_a_system_that_raises_nothing_is_retired_and_its_processes_go_on() -> None:
    nursery = ThespianNursery(start_s=3.0)
    administrator = 0
    try:
        async with asyncio.timeout(PATIENCE_S):
            old = await raised_at_last(nursery)
            administrator = (await ask(old, parent=True))["parent"]
            os.kill(administrator, signal.SIGSTOP)
            with pytest.raises(ProcessGoneError):
                await nursery._raised(await nursery._ready_system(), OBEY)
            new = await raised_at_last(nursery)
        assert (await ask(new, echo="new"))["echo"] == "new"
        assert (await ask(old, echo="old"))["echo"] == "old"
    finally:
        await nursery.close()
        await asyncio.get_running_loop().run_in_executor(None, join_bridges)
    # It was stopped and could not end by itself.
    await until_gone(administrator)


async def test_a_process_that_ends_while_it_is_raised_is_raised_again(nursery: ThespianNursery) -> None:
    first = await nursery.raise_process(OBEY)
    administrator = psutil.Process((await ask(first, parent=True))["parent"])
    known = {child.pid for child in administrator.children()}
    coming = asyncio.ensure_future(nursery.raise_process(OBEY))
    async with asyncio.timeout(PATIENCE_S):
        while not (new := [child for child in administrator.children() if child.pid not in known]):
            await asyncio.sleep(0)
        new[0].kill()
        process = await coming
    assert (await ask(process, echo="new"))["echo"] == "new"
    assert (await ask(first, echo="still here"))["echo"] == "still here"


async def raised_at_last(nursery: ThespianNursery) -> ProcessActor:
    while True:
        try:
            return await nursery.raise_process(OBEY)
        except ProcessGoneError:
            continue


async def test_the_death_of_the_administrator_ends_its_processes_and_the_next_is_raised_anew(
    nursery: ThespianNursery,
) -> None:
    process = await nursery.raise_process(OBEY)
    os.kill((await ask(process, parent=True))["parent"], signal.SIGKILL)
    async with asyncio.timeout(PATIENCE_S):
        with pytest.raises(ProcessGoneError):
            await process.hear()
        new = await raised_at_last(nursery)
    assert (await ask(new, echo="new"))["echo"] == "new"


async def test_nothing_is_left_of_a_process_that_was_killed_with_processes_of_its_own(tmp_path: Path) -> None:
    told = tmp_path / "pids"
    code = (
        "import asyncio, json, sys\n"
        "from pathlib import Path\n"
        "from actors.cluster.nursery import ThespianNursery\n"
        "async def main():\n"
        "    nursery = ThespianNursery()\n"
        f"    process = await nursery.raise_process({OBEY!r})\n"
        "    await process.tell(b'{\"parent\": 1}')\n"
        f"    Path({str(told)!r}).write_bytes(await process.hear())\n"
        "    await asyncio.Event().wait()\n"
        "if __name__ == '__main__':\n"
        "    asyncio.run(main())\n"
    )
    script = tmp_path / "raiser.py"
    script.write_text(code)
    raiser = await asyncio.create_subprocess_exec(
        sys.executable,
        str(script),
        cwd=Path(__file__).parents[3],
        env={**os.environ, "PYTHONPATH": "."},
        stderr=asyncio.subprocess.DEVNULL,
    )
    async with asyncio.timeout(PATIENCE_S):
        while not told.exists() or not told.read_bytes():
            await asyncio.sleep(0.01)
    pids = json.loads(told.read_bytes())
    family = [pids["pid"], pids["parent"], *(c.pid for c in psutil.Process(pids["parent"]).children())]
    raiser.kill()
    await raiser.wait()
    for pid in family:
        await until_gone(pid)


async def test_no_more_than_one_frame_is_ever_as_long_as_memory(nursery: ThespianNursery) -> None:
    process = await nursery.raise_process(OBEY)
    with pytest.raises(FrameTooLongError):
        await process.tell(b"x" * (LONGEST_FRAME + 1))
    assert (await ask(process, echo="still here"))["echo"] == "still here"


@pytest.mark.parametrize(
    "raw",
    [
        b"",
        b"\x00\x00\x00\x02{}",
        b"\xff\xff\xff\xff" + b"x" * 1000,
        b"\x00\x00\x00\x0enot JSON at all",
        b"cos\nsystem\n(S'touch /tmp/pwned'\ntR.",
        b'\x00\x00\x00\x20{"token": "0000000000000000000"}',
    ],
)
async def test_who_does_not_know_the_token_is_let_in_nowhere(nursery: ThespianNursery, raw: bytes) -> None:
    process = await nursery.raise_process(OBEY)
    path = nursery._socket_path()
    assert Path(path).parent.stat().st_mode & 0o077 == 0
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as stranger:
        stranger.setblocking(False)
        loop = asyncio.get_running_loop()
        await loop.sock_connect(stranger, path)
        await loop.sock_sendall(stranger, raw)
        stranger.shutdown(socket.SHUT_WR)
        async with asyncio.timeout(PATIENCE_S):
            assert await loop.sock_recv(stranger, 100) == b""
    assert (await ask(process, echo="still here"))["echo"] == "still here"


async def test_secrets_do_not_go_by_the_environment_and_the_time_zone_stays(nursery: ThespianNursery) -> None:
    process = await nursery.raise_process(OBEY)
    await process.tell(b'{"environment": 1}')
    theirs = json.loads(await process.hear())
    assert set(theirs) - set(os.environ) <= {"TZ", "COLUMNS", "LINES"}
    assert not os.environ.get("TZ", "").startswith(":")


async def test_nothing_is_raised_after_the_end() -> None:
    nursery = ThespianNursery()
    await nursery.close()
    with pytest.raises(ProcessGoneError):
        await nursery.raise_process(OBEY)
