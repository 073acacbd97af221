"""Back after SIGKILL: `python -m benchmarks.recovery --sessions 10000`.

A journal with so many sessions is made by the real process, one turn in each. Then runs
begin in `--running` of them, the model takes its time, and the process is killed.
`ready_s` is from exec to the first 200 of /readyz, `first_resumed_s` from exec to the
model's first request of a run that the kill had interrupted, `all_resumed_s` to the
last one. `wal_mb` is the log that is replayed.
"""

import argparse
import asyncio
import json
import os
import signal
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import aiohttp

from benchmarks.concurrency import speak
from benchmarks.running import ROOT, Callboard, _disk, callboard, clean_env, fake_provider, model_server

IN_FLIGHT = 200
FOR_EVER = "600"


async def fill(home: Path, sessions: int) -> None:
    """One turn in each session, with a model that answers at once."""
    async with (
        model_server("--latency", "0", "--tokens", "20") as base_url,
        callboard(fake_provider(base_url), home) as board,
        aiohttp.ClientSession(headers=board.headers) as http,
    ):
        limit = asyncio.Semaphore(IN_FLIGHT)

        async def one(n: int) -> bool:
            async with limit:
                return await speak(http, board, f"s{n}", f"hello {n}") is not None

        assert all(await asyncio.gather(*(one(n) for n in range(sessions))))


async def until(http: aiohttp.ClientSession, model_url: str, true: Callable[[int], bool]) -> None:
    """Wait until the number of requests that the model is answering is so."""
    while True:
        async with http.get(f"{model_url}/stats") as response:
            if true(int((await response.json())["in_flight"])):
                return
        await asyncio.sleep(0.01)


async def interrupt(home: Path, model_url: str, running: int) -> float:
    """Begin runs that do not end, and kill the process in the middle of them; return the log's size in MB."""
    settings = fake_provider(model_url)
    async with callboard(settings, home) as board, aiohttp.ClientSession(headers=board.headers) as http:
        for n in range(running):
            await accepted(http, board, f"s{n}")
        await until(http, model_url, lambda count: count >= running)
        log = (home / "callboard.duckdb.wal").stat().st_size / 1e6
        os.kill(board.process.pid, signal.SIGKILL)
        await until(http, model_url, lambda count: count == 0)
        await asyncio.sleep(0.2)  # the runtime hears of the end
    return log


async def accepted(http: aiohttp.ClientSession, board: Callboard, chat: str) -> None:
    """Hand in a message and wait until it is taken."""
    async with http.post(f"{board.url}/api/messages", json={"text": "go on", "chat": chat}) as response:
        assert response.status == 202, await response.text()


async def come_back(home: Path, model_url: str, running: int) -> dict[str, float]:
    """Start it again, and time what happens. Returns seconds from exec."""
    (home / "run.json").unlink(missing_ok=True)
    began = time.monotonic()
    with (home / "stderr.txt").open("wb") as errors:
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            str(ROOT / "run_system.py"),
            "run",
            "--home",
            str(home),
            stdout=asyncio.subprocess.DEVNULL,
            stderr=errors,
            env=clean_env(),
        )
    try:
        async with aiohttp.ClientSession() as http, asyncio.TaskGroup() as group:
            ready = group.create_task(_ready_after(http, home, began, process))
            resumed = group.create_task(_resumed_after(http, model_url, began, 1))
            everything = group.create_task(_resumed_after(http, model_url, began, running))
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()
    return {
        "ready_s": round(ready.result(), 2),
        "first_resumed_s": round(resumed.result(), 2),
        "all_resumed_s": round(everything.result(), 2),
    }


async def _ready_after(
    http: aiohttp.ClientSession, home: Path, began: float, process: asyncio.subprocess.Process
) -> float:
    while True:
        if process.returncode is not None:
            raise RuntimeError(f"callboard ended: {(home / 'stderr.txt').read_text()[-2000:]}")
        try:
            url = json.loads((home / "run.json").read_text())["url"]
            async with http.get(f"{url}/readyz") as response:
                if response.status == 200:
                    return time.monotonic() - began
        except (FileNotFoundError, aiohttp.ClientError, json.JSONDecodeError):
            pass
        await asyncio.sleep(0.01)


async def _resumed_after(http: aiohttp.ClientSession, model_url: str, began: float, count: int) -> float:
    await until(http, model_url, lambda found: found >= count)
    return time.monotonic() - began


async def measure(sessions: int, running: int) -> dict[str, float | int]:
    """Make the journal, kill, come back."""
    with tempfile.TemporaryDirectory(prefix="callboard-bench-", dir=_disk()) as folder:
        home = Path(folder)
        await fill(home, sessions)
        async with model_server("--latency", FOR_EVER, "--tokens", "1") as model_url:
            log = await interrupt(home, model_url, running)
            figures = await come_back(home, model_url, running)
            size = (home / "callboard.duckdb").stat().st_size / 1e6
    return {
        "sessions": sessions,
        "running": running,
        "db_mb": round(size, 1),
        "wal_mb": round(log, 1),
        **figures,
    }


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--sessions", type=int, default=10_000)
    parser.add_argument("--running", type=int, default=200, help="how many runs the kill interrupts")
    args = parser.parse_args()
    print(json.dumps({"benchmark": "recovery", **asyncio.run(measure(args.sessions, args.running))}))


if __name__ == "__main__":
    main()
