"""Deleting a stream's history: void first, then gone, and the stream goes on."""

from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

import pytest

from actors.clock import WallClock
from actors.session import facts as f
from messages.gateway import Author, ChatType, Origin
from messages.ids import MessageId, SessionId, SessionKey, StreamId, Turn
from messages.settings import StoreSettings
from store.journal import StaleWriterError
from store.retention import IDLE_SINCE, LEFTOVERS
from store.store import Store

AT = datetime(2026, 1, 1, 12, tzinfo=UTC)
ANN, BO = StreamId("session:agent:main:web:main:dm:ann"), StreamId("session:agent:main:web:main:dm:bo")
TABLES = ("facts", "messages", "sessions", "turns", "model_calls", "tool_calls", "deliveries")


def said(text: str, at: datetime = AT) -> f.MessageAccepted:
    return f.MessageAccepted(
        message_id=MessageId(f"m-{text}"),
        session_id=SessionId("s1"),
        origin=Origin(platform="web", chat_type=ChatType.DM, chat="ann"),
        author=Author(id="ann"),
        text=text,
        at=at,
    )


def opened(key: str) -> f.SessionOpened:
    origin = Origin(platform="web", chat_type=ChatType.DM, chat="ann")
    return f.SessionOpened(session_id=SessionId("s1"), session_key=SessionKey(key), origin=origin, at=AT)


ERASED = f.HistoryErased(last_turn=Turn(3), at=AT)


async def count(store: Store, word: str) -> int:
    """Return in how many rows of all tables a word occurs."""
    total = 0
    for table in TABLES:
        found = await store.select(f"SELECT count(*) FROM {table} t WHERE contains(t::VARCHAR, ?)", [word])
        total += int(str(found.rows[0][0]))
    return total


async def fill(store: Store, stream: StreamId, texts: Sequence[str], seq: int = 0) -> int:
    facts = [opened(stream.removeprefix("session:")), *map(said, texts)]
    await store.journal.append(stream, seq, facts, owing=True)
    return seq + len(facts)


async def test_what_is_void_is_deleted_from_every_table_and_nothing_else_is(store: Store) -> None:
    await fill(store, ANN, ["apple"])
    await fill(store, BO, ["banana"])
    await store.journal.append(ANN, 2, [said("cherry")])
    assert await count(store, "apple") > 0
    await store.journal.append(ANN, 3, [ERASED, said("damson")])
    assert await store.purge([ANN]) == 3
    assert await count(store, "apple") == await count(store, "cherry") == 0
    assert await count(store, "banana") == await count(store, "damson") == 2
    assert await store.purge([ANN]) == 0


async def test_a_stream_that_was_not_erased_keeps_everything(store: Store) -> None:
    await fill(store, ANN, ["apple"])
    assert await store.purge([ANN, StreamId("session:nobody")]) == 0
    assert len(await store.journal.read(ANN)) == 2


async def test_the_stream_goes_on_and_a_stale_writer_is_refused(store: Store) -> None:
    last = await fill(store, ANN, ["apple", "cherry"])
    await store.journal.append(ANN, last, [ERASED])
    await store.purge([ANN])
    with pytest.raises(StaleWriterError):
        await store.journal.append(ANN, last, [said("late")])
    with pytest.raises(StaleWriterError):
        await store.journal.append(ANN, 0, [said("too early")])
    (recorded,) = await store.journal.append(ANN, last + 1, [said("next")])
    assert recorded.seq == last + 2
    assert [r.seq for r in await store.journal.read(ANN)] == [last + 1, last + 2]
    assert [r.seq for r in await store.journal.read(ANN, last + 1)] == [last + 2]


async def test_the_numbers_hold_over_a_restart_also_when_the_newest_fact_is_deleted(path: Path) -> None:
    store = Store.open(path, StoreSettings(), WallClock())
    last = await fill(store, ANN, ["apple"])
    await store.journal.append(ANN, last, [ERASED])
    await store.purge([ANN])
    await store.close()
    again = Store.open(path, StoreSettings(), WallClock())
    try:
        assert await again.journal.owed() == ()
        await again.journal.append(ANN, last + 1, [said("next")])
        found = await again.select("SELECT count(*), count(DISTINCT id), max(id) FROM facts")
        assert found.rows == ((2, 2, last + 2),)
    finally:
        await again.close()


async def test_what_a_crash_left_half_deleted_is_found(path: Path) -> None:
    store = Store.open(path, StoreSettings(), WallClock())
    last = await fill(store, ANN, ["apple"])
    await fill(store, BO, ["banana"])
    await store.journal.append(ANN, last, [ERASED])
    await store.close()  # before the purge
    again = Store.open(path, StoreSettings(), WallClock())
    try:
        assert (await again.select(LEFTOVERS)).rows == ((ANN,),)
        await again.purge([ANN])
        assert (await again.select(LEFTOVERS)).rows == ()
        assert await count(again, "apple") == 0
    finally:
        await again.close()


async def test_idle_sessions_are_found_by_their_last_word(store: Store) -> None:
    await fill(store, ANN, ["old"])
    await fill(store, BO, ["old"])
    await store.journal.append(BO, 2, [said("new", datetime(2026, 6, 1, tzinfo=UTC))])
    found = await store.select(IDLE_SINCE, [datetime(2026, 3, 1, tzinfo=UTC)])
    assert found.rows == ((ANN.removeprefix("session:"),),)
    found = await store.select(IDLE_SINCE, [datetime(2025, 3, 1, tzinfo=UTC)])
    assert found.rows == ()


async def test_appends_go_on_while_history_is_deleted(store: Store) -> None:
    last = await fill(store, ANN, [f"apple-{n}" for n in range(3000)])
    await store.journal.append(ANN, last, [ERASED])
    await fill(store, BO, ["banana"])
    assert await store.purge([ANN]) == last
    assert [r.seq for r in await store.journal.read(BO)] == [1, 2]
