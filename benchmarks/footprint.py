"""What it costs to be there: `python -m benchmarks.footprint`.

`start_s` is from exec to the first 200 of /readyz (median of five starts), `idle_rss_mb`
the process after that. `live_session_kb` is what a session in memory adds, after one
turn in each of them; `sleeping_session_kb` what a session adds that is only in the
journal: a process that starts with all of them, against one that starts with none.
"""

import argparse
import asyncio
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import median

import aiohttp

from benchmarks.concurrency import speak
from benchmarks.running import ROOT, _disk, callboard, fake_provider, model_server

IN_FLIGHT = 200


async def starts(times: int) -> tuple[float, float]:
    """Return the median of start-up seconds and of idle megabytes; no model is configured or near."""
    settings = {
        "model": {"provider": "none", "name": "none"},
        "providers": {"none": {"base_url": "http://127.0.0.1:9/v1"}},
    }
    seconds, sizes = [], []
    for _ in range(times):
        async with callboard(settings) as board:
            seconds.append(board.start_s)
            await asyncio.sleep(1.0)
            sizes.append(board.rss_mb())
    return median(seconds), median(sizes)


async def sessions_cost(sessions: int) -> tuple[float, float]:
    """Return the kilobytes of a live and of a sleeping session."""
    with tempfile.TemporaryDirectory(prefix="callboard-bench-", dir=_disk()) as folder:
        home = Path(folder)
        async with model_server("--latency", "0", "--tokens", "5") as base_url:
            settings = {**fake_provider(base_url), "session": {"sleep_after_s": 3600}}  # all stay live
            async with callboard(settings) as board:
                none = await _settled_rss(board.rss_mb)
            async with (
                callboard(settings, home) as board,
                aiohttp.ClientSession(headers=board.headers) as http,
            ):
                for n in range(300):  # loads the SDK and fills the caches that one session has too
                    await speak(http, board, "warm", f"hello {n}")
                before = board.rss_mb()
                limit = asyncio.Semaphore(IN_FLIGHT)

                async def one(n: int) -> bool:
                    async with limit:
                        return await speak(http, board, f"s{n}", f"hello {n}") is not None

                assert all(await asyncio.gather(*(one(n) for n in range(sessions))))
                live = await _settled_rss(board.rss_mb)
            async with callboard(settings, home) as board:
                sleeping = await _settled_rss(board.rss_mb)
    return (live - before) * 1000 / sessions, (sleeping - none) * 1000 / sessions


async def _settled_rss(read: object) -> float:
    await asyncio.sleep(3.0)
    return float(read())  # type: ignore[operator]


def help_s(times: int) -> float:
    """Return the median seconds of `callboard --help`."""
    took = []
    for _ in range(times):
        began = time.perf_counter()
        subprocess.run([sys.executable, ROOT / "run_system.py", "--help"], check=True, capture_output=True)
        took.append(time.perf_counter() - began)
    return median(took)


async def measure(sessions: int) -> dict[str, float | int]:
    start_s, idle = await starts(5)
    live, sleeping = await sessions_cost(sessions)
    return {
        "sessions": sessions,
        "start_s": round(start_s, 2),
        "idle_rss_mb": round(idle, 1),
        "live_session_kb": round(live, 2),
        "sleeping_session_kb": round(sleeping, 3),
        "help_s": round(help_s(5), 2),
    }


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--sessions", type=int, default=10_000)
    args = parser.parse_args()
    print(json.dumps({"benchmark": "footprint", **asyncio.run(measure(args.sessions))}))


if __name__ == "__main__":
    main()
