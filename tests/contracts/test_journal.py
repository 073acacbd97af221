"""One contract for every journal: in memory and in DuckDB."""

import asyncio
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from pathlib import Path

import pytest

from actors.clock import WallClock
from messages.base import Message
from messages.ids import StreamId
from messages.settings import StoreSettings
from messages.system import ProcessStopped
from store.codec import UnknownFactError
from store.journal import Journal, StaleWriterError
from store.memory_store import MemoryJournal
from store.store import Store

A, B, C = StreamId("session:a"), StreamId("session:b"), StreamId("session:c")
AT = datetime(2026, 1, 15, 12, tzinfo=UTC)


def ended(life: str = "hm") -> ProcessStopped:
    return ProcessStopped(life=life, at=AT)


@pytest.fixture(params=["memory", "duckdb"])
async def journal(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Journal]:
    if request.param == "memory":
        yield MemoryJournal()
        return
    store = Store.open(tmp_path / "callboard.duckdb", StoreSettings(), WallClock())
    yield store.journal
    await store.close()


async def test_an_unknown_stream_is_empty(journal: Journal) -> None:
    assert await journal.read(A) == ()
    assert await journal.owed() == ()


async def test_facts_come_back_as_they_were_returned(journal: Journal) -> None:
    first = await journal.append(A, 0, [ended("one"), ended("two")])
    second = await journal.append(A, 2, [ended("three")])
    assert [recorded.seq for recorded in (*first, *second)] == [1, 2, 3]
    assert [recorded.fact for recorded in first] == [ended("one"), ended("two")]
    assert all(recorded.at.tzinfo is UTC for recorded in first)
    assert await journal.read(A) == (*first, *second)


async def test_reading_after_a_number(journal: Journal) -> None:
    written = await journal.append(A, 0, [ended(str(number)) for number in range(5)])
    assert await journal.read(A, 3) == written[3:]
    assert await journal.read(A, 5) == ()
    assert await journal.read(A, 99) == ()


async def test_streams_do_not_mix(journal: Journal) -> None:
    await journal.append(A, 0, [ended("a1")])
    await journal.append(B, 0, [ended("b1")])
    await journal.append(A, 1, [ended("a2")])
    assert [(r.seq, r.fact) for r in await journal.read(A)] == [(1, ended("a1")), (2, ended("a2"))]
    assert [(r.seq, r.fact) for r in await journal.read(B)] == [(1, ended("b1"))]


@pytest.mark.parametrize("expected", [0, 1, 3, -1])
async def test_a_stale_writer_is_refused_and_nothing_is_written(journal: Journal, expected: int) -> None:
    await journal.append(A, 0, [ended(), ended()])
    with pytest.raises(StaleWriterError) as refusal:
        await journal.append(A, expected, [ended("lost"), ended("lost")], owing=True)
    assert (refusal.value.stream, refusal.value.expected, refusal.value.found) == (A, expected, 2)
    assert len(await journal.read(A)) == 2
    assert await journal.owed() == ()
    assert [r.seq for r in await journal.append(A, 2, [ended()])] == [3]


async def test_a_writer_who_thinks_a_new_stream_is_old_is_stale(journal: Journal) -> None:
    with pytest.raises(StaleWriterError):
        await journal.append(A, 7, [ended()])


async def test_an_append_of_nothing_writes_nothing_but_still_fences(journal: Journal) -> None:
    assert await journal.append(A, 0, []) == ()
    await journal.append(A, 0, [ended()], owing=True)
    assert await journal.append(A, 1, []) == ()
    assert await journal.owed() == (A,)
    with pytest.raises(StaleWriterError):
        await journal.append(A, 0, [])


async def test_what_is_owed_is_said_by_the_last_append_in_its_order(journal: Journal) -> None:
    await journal.append(A, 0, [ended()], owing=True)
    await journal.append(B, 0, [ended()], owing=True)
    await journal.append(C, 0, [ended()])
    assert await journal.owed() == (A, B)
    await journal.append(A, 1, [ended(), ended()], owing=True)
    assert await journal.owed() == (B, A)
    await journal.append(B, 1, [ended()])
    assert await journal.owed() == (A,)


async def test_appends_of_one_stream_given_at_once_work_in_order(journal: Journal) -> None:
    written = await asyncio.gather(*(journal.append(A, number, [ended(str(number))]) for number in range(50)))
    assert [recorded.seq for (recorded,) in written] == list(range(1, 51))
    assert [r.fact for r in await journal.read(A)] == [ended(str(number)) for number in range(50)]


async def test_of_two_writers_at_once_one_is_stale(journal: Journal) -> None:
    results = await asyncio.gather(
        *(journal.append(A, 0, [ended(f"writer {number}")] * 2) for number in range(8)),
        return_exceptions=True,
    )
    assert sum(isinstance(result, StaleWriterError) for result in results) == 7
    assert [r.fact for r in await journal.read(A)] == [ended("writer 0")] * 2


async def test_many_writers_at_once_each_have_their_own_order(journal: Journal) -> None:
    async def write(stream: StreamId) -> None:
        for seq in range(5):
            await journal.append(stream, seq, [ended(f"{stream} {seq}")], owing=seq < 4)

    streams = [StreamId(f"session:{number}") for number in range(200)]
    await asyncio.gather(*(write(stream) for stream in streams))
    histories = await asyncio.gather(*(journal.read(stream, 1) for stream in streams))
    for stream, history in zip(streams, histories, strict=True):
        assert [(r.seq, r.fact) for r in history] == [(n + 1, ended(f"{stream} {n}")) for n in range(1, 5)]
    assert await journal.owed() == ()


async def test_reads_of_one_stream_at_once_each_get_what_they_asked_for(journal: Journal) -> None:
    written = await journal.append(A, 0, [ended(str(number)) for number in range(6)])
    await journal.append(B, 0, [ended()])
    found = await asyncio.gather(*(journal.read(A, after) for after in range(6)), journal.read(B))
    assert [len(facts) for facts in found] == [6, 5, 4, 3, 2, 1, 1]
    assert found[2] == written[2:]


async def test_a_cancelled_writer_harms_nobody(journal: Journal) -> None:
    impatient = asyncio.ensure_future(journal.append(A, 0, [ended("impatient")]))
    patient = asyncio.ensure_future(journal.append(B, 0, [ended("patient")]))
    await asyncio.sleep(0)
    impatient.cancel()
    assert [r.fact for r in await patient] == [ended("patient")]
    history = await journal.read(A)
    assert [r.fact for r in history] in ([], [ended("impatient")])
    await journal.append(A, len(history), [ended("next")])


async def test_what_is_no_fact_is_refused(journal: Journal) -> None:
    with pytest.raises(UnknownFactError, match="Message is not a fact"):
        await journal.append(A, 0, [Message()])
    assert await journal.read(A) == ()
