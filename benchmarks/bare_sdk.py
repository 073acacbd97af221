"""What a streamed call costs at the least: the bare OpenAI SDK over its aiohttp transport, N calls at once.

    python -m benchmarks.bare_sdk --calls 1000 --url http://127.0.0.1:PORT/v1
    python -m benchmarks.bare_sdk --calls 1000 --ours

starts `benchmarks.model_server` by itself when no `--url` is given, and prints one JSON
line: `cpu_ms_per_call` (of this process, best of the rounds), `wall_s`, `calls`,
`errors`. With `--ours` the same calls go through `ModelDirectory.ask`, which is what a
session uses; the ratio of the two is our own share.
"""

import argparse
import asyncio
import contextlib
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from pathlib import Path

import httpx2
import openai
import uvloop

from actors.clock import WallClock
from actors.session.models.directory import ModelDirectory
from messages.blocks import TextBlock, UserEntry
from messages.model import ModelRef, ModelRequest
from messages.settings import ModelSettings, ProviderSettings, Settings

SYSTEM = "You are a helpful assistant in a chat. Answer briefly and plainly."
QUESTION = "What should I cook tonight with two eggs, a bit of rice and an onion? " * 3

Call = Callable[[], Awaitable[str]]


@contextlib.asynccontextmanager
async def bare(url: str) -> AsyncIterator[Call]:
    """One call as the SDK's documentation shows it."""
    limits = httpx2.Limits(max_connections=100_000, max_keepalive_connections=100_000)
    http = openai.DefaultAioHttpClient(limits=limits, timeout=600)
    async with openai.AsyncOpenAI(base_url=url, api_key="none", max_retries=0, http_client=http) as client:

        async def call() -> str:
            stream = await client.chat.completions.create(
                model="bench-1",
                messages=[{"role": "system", "content": SYSTEM}, {"role": "user", "content": QUESTION}],
                stream=True,
                stream_options={"include_usage": True},
            )
            pieces = [chunk.choices[0].delta.content or "" async for chunk in stream if chunk.choices]
            return "".join(pieces)

        yield call


@contextlib.asynccontextmanager
async def ours(url: str) -> AsyncIterator[Call]:
    """The same call through the product's models."""
    settings = Settings(
        model=ModelSettings(provider="bench", name="bench-1"),
        providers={"bench": ProviderSettings(base_url=url, max_concurrent=100_000)},
    )
    with tempfile.TemporaryDirectory() as home:
        models = ModelDirectory(settings, {}, WallClock(), Path(home), print)
        request = ModelRequest(
            model=ModelRef(provider="bench", name="bench-1"),
            system=SYSTEM,
            entries=(UserEntry(blocks=(TextBlock(text=QUESTION),)),),
            max_output_tokens=4096,
        )

        async def call() -> str:
            reply = await models.ask(request, lambda _delta: None)
            return "".join(block.text for block in reply.blocks if isinstance(block, TextBlock))

        yield call
        await models.close()


async def measure(url: str, calls: int, rounds: int, *, through_ours: bool = False) -> dict[str, float]:
    """Drive the calls at once, several times; return the best round's figures."""
    best: dict[str, float] = {}
    async with (ours if through_ours else bare)(url) as call:
        await call()
        for _ in range(rounds):
            cpu, wall = time.process_time(), time.perf_counter()
            answers = await asyncio.gather(*(call() for _ in range(calls)), return_exceptions=True)
            figures = {
                "cpu_ms_per_call": round((time.process_time() - cpu) * 1000 / calls, 3),
                "wall_s": round(time.perf_counter() - wall, 2),
                "calls": calls,
                "errors": sum(not isinstance(answer, str) or not answer for answer in answers),
            }
            if not best or figures["cpu_ms_per_call"] < best["cpu_ms_per_call"]:
                best = figures
    return best


@contextlib.contextmanager
def serving(latency_s: float, tokens: int) -> Iterator[str]:
    """Run the load's model server as its own process; give its base URL."""
    command = [
        sys.executable,
        "-m",
        "benchmarks.model_server",
        "--latency",
        str(latency_s),
        "--tokens",
        str(tokens),
    ]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            yield process.stdout.readline().strip().removeprefix("listening on ")
        finally:
            process.terminate()


def main() -> None:
    """Read the command line, measure, print one JSON line."""
    parser = argparse.ArgumentParser(description="The cost of a streamed call.")
    parser.add_argument("--calls", type=int, default=1000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--latency", type=float, default=1.0)
    parser.add_argument("--tokens", type=int, default=20)
    parser.add_argument("--url", help="of a server that runs already")
    parser.add_argument("--ours", action="store_true", help="through the product's models")
    options = parser.parse_args()
    with contextlib.ExitStack() as stack:
        url = options.url or stack.enter_context(serving(options.latency, options.tokens))
        figures = uvloop.run(measure(url, options.calls, options.rounds, through_ours=options.ours))
    print(json.dumps({"what": "ours" if options.ours else "bare", **figures}))


if __name__ == "__main__":
    main()
