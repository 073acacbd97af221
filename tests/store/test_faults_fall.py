"""Threads of the store that die, of anything: it comes back, and what waited is written exactly once."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pykka
import pytest

from actors.clock import WallClock
from messages.ids import StreamId
from messages.settings import StoreSettings
from store.duckdb_store import StoreActor
from store.journal import JournalUnavailableError, StaleWriterError
from store.keeper import PATIENCE_S
from store.readers import JournalReader, SelectReader
from store.requests import Append
from store.store import Store
from tests.fakes.clock import ManualClock
from tests.store.test_store import incident

pytestmark = pytest.mark.slow

A, B = StreamId("session:a"), StreamId("session:b")


class Stand:
    """A store whose clock is in the hand of the test, and whose threads can be made to die."""

    def __init__(self, path: Path) -> None:
        self.clock = ManualClock()
        self.reports: list[tuple[str, str]] = []
        self.store = Store.open(path, StoreSettings(), self.clock)
        self.store.report_to(lambda what, detail: self.reports.append((what, detail)))

    async def kill(self, kind: type[pykka.ThreadingActor]) -> None:
        """Give a thread something that it cannot bear; return when it is gone."""
        (ref, *_) = pykka.ActorRegistry.get_by_class(kind)
        ref.tell("nonsense")
        async with asyncio.timeout(20):
            while self.store.problem is None or not self.reports:
                await asyncio.sleep(0.001)

    async def until(self, done: "asyncio.Future[Any]") -> None:
        """Let time pass until this is done."""
        async with asyncio.timeout(20):
            while not done.done():
                await self.clock.advance(0.1)
                await asyncio.sleep(0.002)

    def whats(self) -> list[str]:
        return [what for what, _ in self.reports]


def _in_the_way(path: Path, other: Path) -> None:
    """Nothing can be opened where a folder stands."""
    path.rename(other)
    path.mkdir()


def _out_of_the_way(path: Path, other: Path) -> None:
    path.rmdir()
    other.rename(path)


@pytest.fixture
async def stand(path: Path) -> AsyncIterator[Stand]:
    stand = Stand(path)
    await stand.store.start()
    yield stand
    await stand.store.close()


@pytest.mark.parametrize("kind", [StoreActor, JournalReader, SelectReader])
async def test_B03_a_dead_thread_takes_all_down_and_all_come_back(
    stand: Stand, kind: type[pykka.ThreadingActor]
) -> None:
    store = stand.store
    await store.journal.append(A, 0, [incident("before")])
    await stand.kill(kind)
    assert store.problem is not None
    assert "the store has failed" in store.problem
    assert store.stats()["problem"] == store.problem
    late = [asyncio.ensure_future(store.journal.append(A, 1 + n, [incident(str(n))])) for n in range(3)]
    read = asyncio.ensure_future(store.journal.read(A))
    counted = asyncio.ensure_future(store.select("SELECT count(*) FROM facts"))
    await stand.until(asyncio.gather(*late, read, counted))
    assert [appended.result()[0].seq for appended in late] == [2, 3, 4]
    assert store.problem is None
    assert stand.whats() == ["crashed", "restarted"]
    assert [recorded.fact for recorded in await store.journal.read(A)] == [
        incident("before"),
        *(incident(str(n)) for n in range(3)),
    ]
    assert (await store.select("SELECT count(*) FROM incidents")).rows == ((4,),)


async def test_B03_patience_ends_aloud_and_nothing_refused_is_written(path: Path, stand: Stand) -> None:
    store = stand.store
    await store.journal.append(A, 0, [incident("before")])
    other = path.with_suffix(".elsewhere")
    await stand.kill(StoreActor)
    _in_the_way(path, other)
    appended = asyncio.ensure_future(store.journal.append(A, 1, [incident("too late")]))
    read = asyncio.ensure_future(store.journal.read(A))
    await stand.clock.advance(PATIENCE_S - 2)
    assert not appended.done()
    await stand.until(asyncio.gather(appended, read, return_exceptions=True))
    for asked in (appended, read):
        with pytest.raises(JournalUnavailableError, match=f"waited for {PATIENCE_S} s"):
            asked.result()
    _out_of_the_way(path, other)
    again = asyncio.ensure_future(store.journal.append(A, 1, [incident("in time")]))
    await stand.until(again)
    facts = [recorded.fact for recorded in await store.journal.read(A)]
    assert facts == [incident("before"), incident("in time")]
    assert stand.whats()[-1] == "restarted"


async def test_an_append_that_may_be_written_is_looked_for_before_it_is_written_again(stand: Stand) -> None:
    """What a thread left behind that died between its commit and its answer."""
    store = stand.store
    journal = store.journal
    written = await journal.append(A, 0, [incident("one"), incident("two")])
    unwritten = [incident("three")]
    uncertain = []
    for expected, facts in ((0, [incident("one"), incident("two")]), (2, unwritten)):
        request = Append(A, expected, tuple(map(store._codec.encode, facts)), owing=False)
        request.tries = 1
        uncertain.append(request)
    stranger = Append(A, 0, (store._codec.encode(incident("somebody else's")),), owing=False)
    stranger.tries = 1
    store._appends.put_back([*uncertain, stranger], "a thread died")
    store._appends.remind()
    first, second = await asyncio.gather(*(request.future for request in uncertain))
    assert first == written
    assert [recorded.seq for recorded in second] == [3]
    with pytest.raises(StaleWriterError):
        await stranger.future
    assert len(await journal.read(A)) == 3


async def test_an_append_that_the_store_cannot_bear_is_given_up_and_takes_nobody_with_it(
    stand: Stand,
) -> None:
    store = stand.store
    poison = Append(A, 0, (("kind", "no version", 3, None),), owing=False)  # type: ignore[arg-type]
    store._appends.put(poison)
    others = [asyncio.ensure_future(store.journal.append(B, n, [incident(str(n))])) for n in range(3)]
    await stand.until(asyncio.gather(poison.future, *others, return_exceptions=True))
    with pytest.raises(JournalUnavailableError):
        poison.future.result()
    assert [other.result()[0].seq for other in others] == [1, 2, 3]
    assert await store.journal.read(A) == ()


async def test_a_store_that_nobody_looks_after_refuses_after_a_fall(path: Path) -> None:
    store = Store.open(path, StoreSettings(), WallClock())
    (ref,) = pykka.ActorRegistry.get_by_class(StoreActor)
    ref.tell("nonsense")
    async with asyncio.timeout(20):
        while store.problem is None:
            await asyncio.sleep(0.001)
    with pytest.raises(JournalUnavailableError, match="has failed"):
        await store.journal.append(A, 0, [incident("x")])
    await store.close()


async def test_closing_while_it_is_down_is_quick_and_refuses_what_waits(stand: Stand) -> None:
    await stand.kill(StoreActor)
    appended = asyncio.ensure_future(stand.store.journal.append(A, 0, [incident("x")]))
    await asyncio.sleep(0)
    await stand.store.close()
    with pytest.raises(JournalUnavailableError, match="closed"):
        await appended


async def test_it_falls_again_and_again_and_says_that_it_is_degraded(stand: Stand) -> None:
    for number in range(7):
        await stand.kill(StoreActor)
        stand.reports.append(("killed", ""))
        await stand.until(asyncio.ensure_future(stand.store.journal.append(A, number, [incident("x")])))
    assert stand.whats().count("crashed") == 7
    assert stand.whats().count("degraded") == 2
    assert stand.store.stats()["falls"] == 7


async def test_B04_conflicting_writers_are_told_apart_and_none_is_ever_aborted(stand: Stand) -> None:
    """20 writers count 100 each in one stream: the stale ones read again, and 2,000 is what comes out."""
    journal = stand.store.journal
    surprises: list[BaseException] = []

    async def count() -> None:
        known = 0
        for _ in range(100):
            while True:
                try:
                    known = (await journal.append(A, known, [incident("one more")]))[-1].seq
                    break
                except StaleWriterError as stale:
                    known = stale.found
                except JournalUnavailableError as error:
                    surprises.append(error)

    await asyncio.gather(*(count() for _ in range(20)))
    assert surprises == []
    assert (await stand.store.select("SELECT count(*), max(seq) FROM facts")).rows == ((2000, 2000),)
