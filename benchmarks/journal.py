"""Durable facts per second and append latency, by number of writers, on a real file with real fsync.

    python -m benchmarks.journal [--dir FOLDER] [--seconds 5]

Each writer owns one stream and appends one message of a person (a fact of about
500 bytes and a row of `messages`) as soon as its last one is acknowledged. Prints
one JSON line: `facts_per_s_…`, `p50_ms_…`, `p99_ms_…` for 1, 32 and 1,000 writers.
"""

import argparse
import asyncio
import json
import resource
import shutil
import tempfile
import time
from pathlib import Path

from actors.clock import WallClock
from actors.session.facts import MessageAccepted
from messages.gateway import Author, ChatType, Origin
from messages.ids import MessageId, SessionId, StreamId
from messages.settings import StoreSettings
from store.journal import Journal
from store.store import Store

WRITERS = {"1": 1, "32": 32, "1000": 1000}
_CLOCK = WallClock()
_TEXT = "Could you look at the figures of last week and say what changed, please? " * 3


def message(number: int) -> MessageAccepted:
    """Return a fact of about 500 bytes."""
    return MessageAccepted(
        session_id=SessionId("s1"),
        message_id=MessageId(f"m-{number:012d}"),
        origin=Origin(platform="web", chat_type=ChatType.DM, chat=f"chat-{number}", user="u-1"),
        author=Author(id="u-1", name="Ada Lovelace"),
        text=_TEXT,
        at=_CLOCK.now(),
    )


async def _writer(
    journal: Journal, stream: StreamId, start: asyncio.Event, until: list[float], latencies: list[float]
) -> None:
    seq = 0
    await start.wait()
    while time.perf_counter() < until[0]:
        began = time.perf_counter()
        recorded = await journal.append(stream, seq, (message(seq),))
        latencies.append(time.perf_counter() - began)
        seq = recorded[-1].seq


async def _measure(journal: Journal, name: str, seconds: float, place: str = "chat") -> dict[str, float]:
    count = WRITERS[name]
    start, until, latencies = asyncio.Event(), [0.0], list[float]()
    streams = [StreamId(f"session:agent:main:web:main:dm:{place}-{name}-{number}") for number in range(count)]
    async with asyncio.TaskGroup() as group:
        for stream in streams:
            group.create_task(_writer(journal, stream, start, until, latencies))
        await asyncio.sleep(0)
        began = time.perf_counter()
        until[0] = began + seconds
        start.set()
    wall = time.perf_counter() - began
    latencies.sort()
    suffix = "1000_writers" if name == "1000" else name
    return {
        f"facts_per_s_{suffix}": round(len(latencies) / wall),
        f"p50_ms_{name}": round(latencies[len(latencies) // 2] * 1000, 2),
        f"p99_ms_{name}": round(latencies[int(len(latencies) * 0.99)] * 1000, 2),
    }


async def _run(folder: Path, seconds: float) -> dict[str, float]:
    store = Store.open(folder / "journal.duckdb", StoreSettings(), _CLOCK)
    await store.start()
    figures: dict[str, float] = {
        "fact_bytes": len(message(0).model_dump_json()),
        "open_store_rss_mb": round(_rss_mb(), 1),
    }
    try:
        await _measure(store.journal, "1", 0.3, place="warm-up")
        for name in WRITERS:
            cpu = time.process_time()
            figures |= await _measure(store.journal, name, seconds)
            facts = figures["facts_per_s_1000_writers" if name == "1000" else f"facts_per_s_{name}"] * seconds
            figures[f"cpu_us_per_fact_{name}"] = round((time.process_time() - cpu) / facts * 1e6)
    finally:
        await store.close()
    return figures


def _rss_mb() -> float:
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    return pages * resource.getpagesize() / 1e6


def main() -> None:
    """Measure in a folder of its own below `--dir`, which must be on the disk that is asked about."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--dir", type=Path, help="a folder on a real disk; else the temporary folder")
    parser.add_argument("--seconds", type=float, default=5.0, help="for each number of writers")
    arguments = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="journal-bench-", dir=arguments.dir))
    try:
        print(json.dumps(asyncio.run(_run(folder, arguments.seconds))))
    finally:
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main()
