"""The verbs with which tests make the memory journal fail."""

import asyncio
from datetime import UTC, datetime

import pytest

from messages.ids import StreamId
from messages.system import ProcessStopped
from store.journal import JournalUnavailableError, StaleWriterError
from store.memory_store import MemoryJournal
from tests.fakes.clock import ManualClock

A = StreamId("session:a")
FACT = ProcessStopped(life="l", at=datetime(2026, 1, 1, tzinfo=UTC))


async def test_it_fails_the_next_append_and_only_that(clock: ManualClock) -> None:
    journal = MemoryJournal(clock)
    journal.will_fail_next_append()
    journal.will_fail_next_append(StaleWriterError(A, 0, 9))
    with pytest.raises(JournalUnavailableError):
        await journal.append(A, 0, [FACT])
    with pytest.raises(StaleWriterError):
        await journal.append(A, 0, [FACT])
    (recorded,) = await journal.append(A, 0, [FACT])
    assert recorded.at == clock.now()
    assert journal.facts(A) == (FACT,)
    assert journal.streams == (A,)


async def test_a_fuse_cuts_the_power_until_it_is_mended(clock: ManualClock) -> None:
    journal = MemoryJournal(clock)
    journal.fuse(1)
    await journal.append(A, 0, [FACT])
    for _ in range(2):
        with pytest.raises(JournalUnavailableError):
            await journal.append(A, 1, [FACT])
    journal.mend()
    await journal.append(A, 1, [FACT])
    assert len(journal.facts(A)) == 2


async def test_held_appends_are_neither_written_nor_answered(clock: ManualClock) -> None:
    journal = MemoryJournal(clock)
    journal.hold()
    appending = asyncio.ensure_future(journal.append(A, 0, [FACT]))
    await clock.settle()
    assert not appending.done()
    assert journal.facts(A) == ()
    journal.release()
    await appending
    assert journal.facts(A) == (FACT,)
