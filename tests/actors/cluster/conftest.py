"""A nursery for a test; whatever it raised is gone afterwards."""

import asyncio
import contextlib
import threading
from collections.abc import AsyncIterator

import psutil
import pytest

from actors.clock import WallClock
from actors.cluster.nursery import ThespianNursery
from actors.cluster.spares import Spares


@pytest.fixture
async def nursery() -> AsyncIterator[ThespianNursery]:
    nursery = ThespianNursery()
    if nursery.missing():
        pytest.skip(nursery.missing())
    before = children()
    yield nursery
    await nursery.close()
    await asyncio.get_running_loop().run_in_executor(None, join_bridges)
    async with asyncio.timeout(30):
        while any(child not in before for child in children()):
            await asyncio.sleep(0.01)


@pytest.fixture
async def spares(nursery: ThespianNursery) -> AsyncIterator[Spares]:
    spares = Spares(nursery, WallClock())
    yield spares
    await spares.close()


def join_bridges() -> None:
    """A bridge whose administrator was killed under its hands waits for some seconds."""
    for thread in threading.enumerate():
        if thread.name == "thespian":
            thread.join(15)


def children() -> list[int]:
    """The processes below this one, but for multiprocessing's own."""
    found = []
    for child in psutil.Process().children(recursive=True):
        with contextlib.suppress(psutil.Error):
            if "resource_tracker" not in " ".join(child.cmdline()):
                found.append(child.pid)
    return found
