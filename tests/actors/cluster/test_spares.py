"""A spare stands behind each process that is taken, and nothing is raised twice."""

import asyncio

import pytest

from actors.cluster.port import ProcessGoneError
from actors.cluster.spares import REFILL_S, Spares
from tests.fakes.clock import ManualClock


class FakeProcess:
    """Implements `actors.cluster.port.ProcessActor`."""

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self.alive = True
        self.told: list[bytes] = []

    async def tell(self, frame: bytes) -> None:
        self.told.append(frame)

    def tell_now(self, frame: bytes, *, droppable: bool = False) -> None:
        self.told.append(frame)

    async def hear(self) -> bytes:
        raise ProcessGoneError("a fake says nothing")

    async def end(self, patience_s: float) -> None:
        self.alive = False


class FakeNursery:
    """Implements `actors.cluster.port.Nursery`; raises at once."""

    def __init__(self) -> None:
        self.raised: list[FakeProcess] = []
        self.fails = False

    async def raise_process(self, program: str) -> FakeProcess:
        await asyncio.sleep(0)
        if self.fails:
            raise ProcessGoneError("it did not come up in time")
        self.raised.append(FakeProcess(len(self.raised) + 1))
        return self.raised[-1]

    async def close(self) -> None:
        """Nothing is left."""


async def test_the_next_is_the_one_that_waits() -> None:
    clock, nursery = ManualClock(), FakeNursery()
    spares = Spares(nursery, clock)
    first = await spares.raise_process("m:f", b"discord")
    assert [process.told for process in nursery.raised] == [[b"discord"]]
    await clock.advance(REFILL_S)
    assert len(nursery.raised) == 2
    second = await spares.raise_process("m:f", b"discord")
    assert (first.pid, second.pid) == (1, 2)
    await clock.advance(3600)
    assert len(nursery.raised) == 3
    await spares.close()
    assert [process.alive for process in nursery.raised] == [True, True, False]


async def test_each_platform_has_a_spare_of_its_own() -> None:
    clock, nursery = ManualClock(), FakeNursery()
    spares = Spares(nursery, clock)
    await spares.raise_process("m:f", b"discord")
    await clock.advance(REFILL_S)
    slack = await spares.raise_process("m:f", b"slack")
    assert slack.pid == 3
    await spares.close()


async def test_a_spare_that_has_died_is_not_taken() -> None:
    clock, nursery = ManualClock(), FakeNursery()
    spares = Spares(nursery, clock)
    await spares.raise_process("m:f", b"discord")
    await clock.advance(REFILL_S)
    nursery.raised[1].alive = False
    assert (await spares.raise_process("m:f", b"discord")).pid == 3
    await spares.close()


async def test_many_takings_fill_one_place() -> None:
    clock, nursery = ManualClock(), FakeNursery()
    spares = Spares(nursery, clock)
    for _ in range(10):
        await spares.raise_process("m:f", b"discord")
    await clock.advance(10)
    assert len(nursery.raised) == 11
    await spares.close()


async def test_without_a_spare_there_is_still_a_process_and_a_failure_is_told() -> None:
    clock, nursery = ManualClock(), FakeNursery()
    spares = Spares(nursery, clock)
    await spares.raise_process("m:f", b"discord")
    nursery.fails = True
    await clock.advance(10)
    with pytest.raises(ProcessGoneError):
        await spares.raise_process("m:f", b"discord")
    nursery.fails = False
    assert (await spares.raise_process("m:f", b"discord")).pid == 2
    await spares.close()
