"""What it costs that an edge lives in a process of its own: `python -m benchmarks.isolation`.

The platform does nothing (tests/actors/cluster/trial_platform.py): what is measured is the
way there and back. `start_ms` is from asking for the process to the edge's `connected`,
`known_ms` from SIGKILL to the end of `run`; medians. Prints one JSON object.
"""

import asyncio
import json
import os
import signal
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil

from actors.clock import WallClock
from actors.cluster.isolated_edge import IsolatedEdge
from actors.cluster.nursery import ThespianNursery
from actors.cluster.spares import Spares
from actors.gateway.edge import Edge, EdgeContext, EdgeError
from actors.gateway.registry import Ready, Registry
from messages.delivery import PartText, Place, Post
from messages.gateway import Acceptance, EdgeHeard, MessageReceived, Receipt
from messages.ids import DeliveryId
from messages.settings import PlatformSettings
from tests.actors.cluster.trial_platform import PLATFORM

SAYS = 2000
HEARS = 10_000
LIVES = 5


def post(text: str) -> Post:
    """A post of the usual size."""
    body = PartText(text=text)
    place = Place(chat="lobby")
    return Post(delivery_id=DeliveryId("d1"), part=1, of=1, attempt=1, key="ab" * 12, place=place, body=body)


async def taken(heard: EdgeHeard) -> Receipt:
    """A front desk that takes everything at once."""
    assert isinstance(heard, MessageReceived)
    return Receipt(message_id=heard.message_id, session_key=None, acceptance=Acceptance.ACCEPTED)


async def up(edge: Edge) -> "tuple[asyncio.Task[None], float]":
    """Run an edge; return its task and how long it took to connect."""
    connected, began = asyncio.Event(), time.perf_counter()
    task = asyncio.ensure_future(edge.run(taken, connected.set))
    await connected.wait()
    return task, time.perf_counter() - began


async def through(edge: Edge) -> dict[str, float]:
    """Say and hear a lot."""
    times = []
    for _ in range(SAYS):
        began = time.perf_counter()
        await edge.say(post("a message of some length " * 8))
        times.append(time.perf_counter() - began)
    began = time.perf_counter()
    await asyncio.gather(*(edge.say(post("a message of some length " * 8)) for _ in range(SAYS)))
    together = time.perf_counter() - began
    began = time.perf_counter()
    await edge.say(post(f"hears {HEARS}"))
    heard = time.perf_counter() - began
    return {
        "say_p50_ms": round(statistics.median(times) * 1000, 3),
        "say_p99_ms": round(sorted(times)[len(times) * 99 // 100] * 1000, 3),
        "says_per_s": round(SAYS / together),
        "hears_per_s": round(HEARS / heard),
    }


async def lives(make: Callable[[], IsolatedEdge]) -> dict[str, float]:
    """Start and kill it a few times."""
    starts, known, memory = [], [], []
    for _ in range(LIVES):
        edge = make()
        task, took = await up(edge)
        starts.append(took)
        pid = int(await edge.say(post("pid")))
        await asyncio.sleep(5)  # until its spare is ready
        memory.append(psutil.Process(pid).memory_full_info().uss)
        began = time.perf_counter()
        os.kill(pid, signal.SIGKILL)
        try:
            await task
        except EdgeError:
            known.append(time.perf_counter() - began)
    return {
        "first_start_ms": round(starts[0] * 1000),
        "start_ms": round(statistics.median(starts[1:]) * 1000),
        "known_ms": round(statistics.median(known) * 1000, 1),
        "own_mb": round(statistics.median(memory) / 1e6, 1),
    }


async def main() -> None:
    registry = Registry.discover(())
    registry.register(PLATFORM)
    ready: Ready = registry.prepare("trial", "main", PlatformSettings(), {})
    context = EdgeContext("trial", "main", WallClock(), files=Path("attachments"))
    nursery = ThespianNursery()
    spares = Spares(nursery, WallClock())
    figures: dict[str, Any] = {}
    try:
        here = PLATFORM.factory(ready.options, context)
        task, _ = await up(here)
        figures["here"] = await through(here)
        task.cancel()
        figures["process"] = await lives(lambda: IsolatedEdge(ready, context, spares))
        there = IsolatedEdge(ready, context, spares)
        task, _ = await up(there)
        figures["process"] |= await through(there)
        kin = psutil.Process().children(recursive=True)
        pid = int(await there.say(post("pid")))
        kin += psutil.Process(psutil.Process(pid).ppid()).children()
        kin += [psutil.Process(psutil.Process(pid).ppid())]
        others = {each.pid: each for each in kin if each.pid != pid and each.is_running()}
        figures["thespian_own_mb"] = round(sum(uss(each) for each in others.values()) / 1e6, 1)
        task.cancel()
        await asyncio.wait((task,))
    finally:
        await spares.close()
        await nursery.close()
    print(json.dumps(figures, indent=2))


def uss(process: psutil.Process) -> int:
    """Memory that is a process's alone; 0 for one that has ended."""
    try:
        return int(process.memory_full_info().uss)
    except psutil.Error:
        return 0


if __name__ == "__main__":
    asyncio.run(main())
