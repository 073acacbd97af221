"""One turn in one session, durable commits included: `python -m benchmarks.turn --turns 200 --latency 0`."""

import argparse
import asyncio
import json
import time

import aiohttp

from benchmarks.running import callboard, fake_provider, model_server, percentile


async def measure(turns: int, latency: float) -> dict[str, float | int]:
    async with (
        model_server("--latency", str(latency)) as base_url,
        callboard(fake_provider(base_url)) as board,
        aiohttp.ClientSession(headers={**board.headers, "X-Session-Key": "turn"}) as http,
    ):
        took: list[float] = []
        cpu = 0.0
        for n in range(turns + 20):
            if n == 20:  # the first turns load the SDK and warm the caches
                took, cpu = [], board.cpu_s()
            body = {"model": "callboard", "messages": [{"role": "user", "content": f"turn {n}"}]}
            began = time.perf_counter()
            async with http.post(f"{board.url}/v1/chat/completions", json=body) as response:
                answer = await response.json()
                assert response.status == 200, answer
            took.append((time.perf_counter() - began) * 1000)
        cpu_ms = (board.cpu_s() - cpu) / turns * 1000
    return {
        "turns": turns,
        "median_ms": round(percentile(took, 0.5), 2),
        "p99_ms": round(percentile(took, 0.99), 2),
        "cpu_ms_per_turn": round(cpu_ms, 2),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--turns", type=int, default=200)
    parser.add_argument("--latency", type=float, default=0.0, help="seconds the model takes")
    args = parser.parse_args()
    print(json.dumps({"benchmark": "turn", **asyncio.run(measure(args.turns, args.latency))}))


if __name__ == "__main__":
    main()
