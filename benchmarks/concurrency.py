"""Thousands of chats at once: `python -m benchmarks.concurrency --sessions 1000 --latency 1.0`.

Drives the real `callboard run` over HTTP, one message per session at the same
moment, and the bare SDK over the same transport for the ratio.
"""

import argparse
import asyncio
import json
import sys
import time
from typing import Any

import aiohttp

from benchmarks.running import ROOT, Callboard, callboard, clean_env, fake_provider, model_server, percentile


async def speak(http: aiohttp.ClientSession, board: Callboard, session: str, text: str) -> float | None:
    """Say one thing in one session; return the seconds until its answer, None for an error."""
    body = {"model": "callboard", "messages": [{"role": "user", "content": text}]}
    began = time.perf_counter()
    try:
        async with http.post(
            f"{board.url}/v1/chat/completions", json=body, headers={"X-Session-Key": session}
        ) as response:
            answer = await response.json()
            if response.status != 200 or not answer["choices"][0]["message"]["content"]:
                print(response.status, answer, file=sys.stderr)
                return None
    except (TimeoutError, aiohttp.ClientError) as error:
        print(repr(error), file=sys.stderr)
        return None
    return time.perf_counter() - began


async def drive(base_url: str, sessions: int) -> dict[str, Any]:
    connector = aiohttp.TCPConnector(limit=0)
    timeout = aiohttp.ClientTimeout(total=300)
    async with (
        callboard(fake_provider(base_url)) as board,
        aiohttp.ClientSession(headers=board.headers, connector=connector, timeout=timeout) as http,
    ):
        await speak(http, board, "warm", "loads the SDK")
        before = board.cpu_s()
        await reset_stats(http, base_url)
        began = time.perf_counter()
        took = await asyncio.gather(*(speak(http, board, f"s{n}", f"hello {n}") for n in range(sessions)))
        wall = time.perf_counter() - began
        cpu = board.cpu_s() - before
        stats = await read_stats(http, base_url)
        answered = [t for t in took if t is not None]
        return {
            "wall_s": round(wall, 2),
            "p50_s": round(percentile(answered, 0.5), 2),
            "p99_s": round(percentile(answered, 0.99), 2),
            "max_in_flight": stats["max_in_flight"],
            "cpu_ms_per_turn": round(cpu / sessions * 1000, 2),
            "rss_mb": round(board.rss_mb(), 1),
            "answered": len(answered),
            "errors": sessions - len(answered),
        }


async def reset_stats(http: aiohttp.ClientSession, base_url: str) -> None:
    async with http.post(f"{base_url}/reset") as response:
        assert response.status == 200


async def read_stats(http: aiohttp.ClientSession, base_url: str) -> dict[str, Any]:
    async with http.get(f"{base_url}/stats") as response:
        stats: dict[str, Any] = await response.json()
        return stats


async def bare(base_url: str, calls: int) -> dict[str, Any]:
    """The same calls through the SDK alone, in a process of its own."""
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "benchmarks.bare_sdk",
        "--url",
        f"{base_url}/v1",
        "--rounds",
        "1",  # as ours: the first thousand at once, on connections that are not open yet
        "--calls",
        str(calls),
        stdout=asyncio.subprocess.PIPE,
        cwd=ROOT,
        env=clean_env(),
    )
    out, _ = await process.communicate()
    assert process.returncode == 0, "the bare SDK run failed"
    result: dict[str, Any] = json.loads(out.decode().strip().splitlines()[-1])
    async with aiohttp.ClientSession() as http:
        result["max_in_flight"] = (await read_stats(http, base_url))["max_in_flight"]
    return result


async def measure(sessions: int, latency: float, tokens: int) -> dict[str, Any]:
    async with model_server("--latency", str(latency), "--tokens", str(tokens)) as base_url:
        plain = await bare(base_url, sessions)
        ours = await drive(base_url, sessions)
    bare_cpu = plain["cpu_ms_per_call"]
    return {
        "sessions": sessions,
        "latency_s": latency,
        **ours,
        "bare_cpu_ms_per_turn": round(bare_cpu, 2),
        "bare_wall_s": plain["wall_s"],
        "bare_max_in_flight": plain["max_in_flight"],
        "ratio": round(ours["cpu_ms_per_turn"] / bare_cpu, 2),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sessions", type=int, default=1000)
    parser.add_argument("--latency", type=float, default=1.0, help="seconds the model takes for an answer")
    parser.add_argument("--tokens", type=int, default=20, help="pieces in which an answer is streamed")
    args = parser.parse_args()
    result = asyncio.run(measure(args.sessions, args.latency, args.tokens))
    print(json.dumps({"benchmark": "concurrency", **result}))


if __name__ == "__main__":
    main()
