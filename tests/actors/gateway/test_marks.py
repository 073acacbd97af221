"""Up to where each chat was heard: from the store for earlier lives, from what is durable for this one."""

from collections.abc import Sequence
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from actors.gateway.marks import MOST_PLACES, Marks
from actors.session import facts as f
from messages.gateway import Author, ChatType, MessageReceived, Origin
from messages.ids import MessageId, StreamId
from messages.settings import StoreSettings
from store.readers import Rows
from store.store import QueryError, Store
from tests.fakes.clock import START, ManualClock


def message(
    message_id: str, chat: str | None = "lobby", thread: str | None = None, **more: Any
) -> MessageReceived:
    return MessageReceived(
        message_id=MessageId(message_id),
        origin=Origin(platform="fake", chat_type=ChatType.GROUP, chat=chat, thread=thread, user="ann"),
        author=Author(id="ann"),
        text="hi",
        at=START,
        **more,
    )


def known(marks: Marks) -> dict[str, str]:
    return {place: last.message_id for place, last in marks.snapshot().items()}


class FakeStore:
    """Answers one query with these rows, or fails."""

    def __init__(self, *rows: Sequence[object], fails: Exception | None = None) -> None:
        self.rows = rows
        self.fails = fails
        self.asked: list[Sequence[object]] = []

    async def select(self, sql: str, params: Sequence[object], **_: Any) -> Rows:
        self.asked.append(params)
        if self.fails is not None:
            raise self.fails
        return Rows((), tuple(tuple(row) for row in self.rows))


def test_each_chat_and_thread_has_its_own_mark() -> None:
    marks = Marks("fake", "main")
    for each in (message("1"), message("2", thread="t"), message("3", chat="other"), message("4", chat=None)):
        marks.begin(each).taken()
    assert known(marks) == {"lobby": "1", "lobby:t": "2", "other": "3", "@ann": "4"}


def test_a_mark_does_not_move_over_what_is_still_under_way() -> None:
    marks = Marks("fake", "main")
    first, second, third = (marks.begin(message(each)) for each in "123")
    second.taken()
    assert "lobby" not in {**marks._known}
    first.taken()
    third.taken()
    assert known(marks) == {"lobby": "3"}


def test_what_a_lost_connection_took_along_counts_as_missed() -> None:
    marks = Marks("fake", "main")
    marks.begin(message("1")).taken()
    marks.begin(message("2"))
    marks.begin(message("3")).taken()
    assert known(marks) == {"lobby": "1"}
    marks.begin(message("2")).taken()
    assert known(marks) == {"lobby": "2"}


def test_what_nobody_took_holds_the_mark_until_the_next_connection() -> None:
    marks = Marks("fake", "main")
    marks.begin(message("1")).taken()
    marks.begin(message("2")).lost()
    for number in range(3, 5000):
        marks.begin(message(str(number))).taken()
    assert sum(map(len, marks._under_way.values())) == 0
    assert known(marks) == {"lobby": "1"}
    marks.begin(message("2")).taken()
    assert known(marks) == {"lobby": "2"}


def test_the_platforms_own_time_counts() -> None:
    marks = Marks("fake", "main")
    marks.begin(message("1", sent_at=START - timedelta(minutes=5))).taken()
    assert marks.snapshot()["lobby"].at == START - timedelta(minutes=5)


def test_there_is_an_end_to_what_is_remembered() -> None:
    marks = Marks("fake", "main")
    for number in range(MOST_PLACES + 10):
        marks.begin(message("1", chat=f"c{number}")).taken()
    assert len(marks.snapshot()) == MOST_PLACES
    assert "c0" not in marks.snapshot()


async def test_earlier_lives_are_read_once_and_never_go_before_this_one() -> None:
    store = FakeStore(["lobby", None, None, "7", START], ["", "", "bob", "8", START])
    marks = Marks("fake", "main")
    marks.begin(message("9")).taken()
    await marks.load(store.select, ManualClock())
    await marks.load(store.select, ManualClock())
    assert len(store.asked) == 1
    assert known(marks) == {"lobby": "9", "@bob": "8"}


@pytest.mark.parametrize("fails", [QueryError("it took too long"), TimeoutError()])
async def test_a_store_that_does_not_answer_keeps_nobody_from_connecting(fails: Exception) -> None:
    marks = Marks("fake", "main")
    await marks.load(FakeStore(fails=fails).select, ManualClock())
    assert known(marks) == {}


async def test_the_real_store_says_what_was_heard_last_within_a_week(tmp_path: Path) -> None:
    clock = ManualClock(START)
    store = Store.open(tmp_path / "callboard.duckdb", StoreSettings(), clock)
    await store.start()
    try:
        for number, (days, chat, thread) in enumerate(
            [(8, "old", None), (1, "lobby", None), (1, "lobby", "t"), (0, "lobby", None), (0, None, None)]
        ):
            await accept(store, f"m{number}", chat, thread, START - timedelta(days=days), number)
        marks = Marks("fake", "main")
        await marks.load(store.select, clock)
        assert known(marks) == {"lobby": "m3", "lobby:t": "m2", "@ann": "m4"}
        other = Marks("fake", "second")
        await other.load(store.select, clock)
        assert known(other) == {}
    finally:
        await store.close()


async def accept(
    store: Store, message_id: str, chat: str | None, thread: str | None, at: datetime, number: int
) -> None:
    origin = Origin(platform="fake", chat_type=ChatType.GROUP, chat=chat, thread=thread, user="ann")
    fact = f.MessageAccepted.model_validate(
        {
            "message_id": message_id,
            "session_id": "s",
            "origin": origin,
            "author": Author(id="ann"),
            "text": "hi",
            "at": at,
        }
    )
    await store.journal.append(StreamId(f"session:{number}"), 0, (fact,))
