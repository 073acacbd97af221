"""The real process when its disk takes nothing, and when DuckDB gives the database up: it says so, waits, goes on."""

import asyncio
import json
import resource
from pathlib import Path

import aiohttp
import pytest

from tests.counterparts.model_server import ModelServer
from tests.process.real import Program, callboard, scripted

pytestmark = pytest.mark.slow

SMALL_LOG = {"store": {"checkpoint_wal": "200KB"}}


def limit_files(program: Program, size: int) -> None:
    """Let no file of the process grow beyond this size, as a full disk does."""
    assert program.process is not None
    _, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.prlimit(program.process.pid, resource.RLIMIT_FSIZE, (size, hard))


async def readiness(program: Program) -> tuple[int, str]:
    async with program.http() as http, http.get("/readyz") as response:
        return response.status, await response.text()


async def until_ready(program: Program, *, ready: bool) -> str:
    async with asyncio.timeout(60):
        while True:
            status, text = await readiness(program)
            if (status == 200) is ready:
                return text
            await asyncio.sleep(0.05)


async def test_B03_a_store_that_takes_nothing_is_told_of_and_comes_back_and_nothing_is_lost(
    tmp_path: Path,
) -> None:
    async with (
        ModelServer() as server,
        Program(tmp_path / "home", {**scripted(server.base_url), **SMALL_LOG}) as program,
    ):
        for number in range(3):
            await program.says(f"{number} " + "x" * 20_000)
        limit_files(program, 60_000)  # what is longer already cannot be written to at its end
        first = asyncio.create_task(program.says("one"))
        text = await until_ready(program, ready=False)
        assert json.loads(text)["problem"].startswith("the ")
        async with aiohttp.ClientSession() as stranger, stranger.get(f"{program.url}/readyz") as response:
            assert str(tmp_path) not in await response.text()
        code, out, _ = await callboard(program.home, "status", "--json")
        assert code == 0
        status = json.loads(out)
        assert "store" in status["degraded"]
        assert status["store"]["problem"]
        more = [asyncio.create_task(program.says(text)) for text in ("two", "three")]
        limit_files(program, resource.RLIM_INFINITY)
        answers = await asyncio.gather(first, *more)
        assert [answer["status"] for answer in answers] == [200, 200, 200]
        await until_ready(program, ready=True)
        entries = await program.entries()
        for word in ("one", "two", "three"):
            assert [entry["text"] for entry in entries if entry["role"] == "user"].count(word) == 1
        settled = [message_id for entry in entries for message_id in entry["answers"]]
        assert len(settled) == len(set(settled)) == 6
        code, out, err = await callboard(program.home, "store", "check", "--full")
        assert code == 0, out + err
        assert await program.terminate() == 0
        found = await incidents(program)
        assert ("store", "degraded") in found or ("store", "crashed") in found
        assert ("store", "recovered") in found or ("store", "restarted") in found


async def incidents(program: Program) -> set[tuple[str, str]]:
    code, out, err = await callboard(program.home, "query", "--json", "SELECT child, what FROM incidents")
    assert code == 0, err
    return {(row["child"], row["what"]) for row in json.loads(out)}


async def test_beside_the_process_it_can_be_checked_copied_and_exported(tmp_path: Path) -> None:
    async with ModelServer() as server, Program(tmp_path / "home", scripted(server.base_url)) as program:
        for number in range(5):
            await program.says(f"hello {number}")
        code, out, err = await callboard(program.home, "store", "check")
        assert code == 0, out + err
        code, out, err = await callboard(program.home, "store", "backup")
        assert code == 0, err
        backup = Path(out.strip())
        code, out, err = await callboard(program.home, "store", "export", "--parquet", str(tmp_path / "out"))
        assert code == 0, err
        assert str(tmp_path / "out" / "messages.parquet") in out.splitlines()
        code, _, err = await callboard(program.home, "store", "restore", str(backup), "--yes")
        assert code == 4
        assert "while process" in err
        await program.says("only after the backup")
        await program.kill()
        code, out, err = await callboard(program.home, "store", "restore", str(backup), "--yes")
        assert code == 0, err
        await program.start()
        texts = [entry["text"] for entry in await program.entries() if entry["role"] == "user"]
        assert texts == [f"hello {number}" for number in range(5)]
        await program.says("and on")
        async with (
            program.http() as http,
            http.post("/api/store/backup", json={"path": "/tmp/x"}) as response,
        ):
            assert response.status == 403


async def test_B12_a_log_lost_after_a_kill_is_noticed_and_what_was_in_it_is_there_again(
    tmp_path: Path,
) -> None:
    async with ModelServer() as server, Program(tmp_path / "home", scripted(server.base_url)) as program:
        for number in range(5):
            await program.says(f"hello {number}")
        before = await program.entries()
        await program.kill()
        (program.home / "callboard.duckdb.wal").unlink()
        await program.start()
        assert await program.entries() == before
        assert "written again" in program.errors()
        await program.says("and on")
        assert await program.terminate() == 0
        assert ("store", "recovered") in await incidents(program)
        (program.home / "callboard.duckdb").unlink()
        code, _, err = await callboard(program.home, "run")
        assert code == 4
        assert "is missing, with" in err
        assert "callboard store" in err
