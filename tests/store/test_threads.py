"""In which threads was something answered lately? Read from a real file."""

from datetime import UTC, datetime, timedelta
from pathlib import Path

from actors.gateway.session_key import key_of
from actors.session import facts as f
from messages.gateway import ChatType, Origin, Part
from messages.ids import DeliveryId, SessionId, StreamId, Turn
from messages.settings import StoreSettings
from store.store import Store
from store.threads import answered_threads
from tests.fakes.clock import ManualClock

NOW = datetime(2026, 1, 15, 12, tzinfo=UTC)


def thread(name: str, platform: str = "slack") -> Origin:
    return Origin(platform=platform, chat_type=ChatType.THREAD, chat="C1", thread=name)


def answer(origin: Origin, text: str, minutes: int, *, notice: bool = False) -> f.ReplyOwed:
    return f.ReplyOwed(
        delivery_id=DeliveryId(f"{origin.thread}-{minutes}"),
        session_id=SessionId("s"),
        origin=origin,
        turn=Turn(1),
        notice=notice,
        parts=(Part(text=text),),
        at=NOW - timedelta(minutes=minutes),
    )


async def test_the_threads_of_answers_come_back_the_oldest_first(tmp_path: Path) -> None:
    store = Store.open(tmp_path / "x.duckdb", StoreSettings(), ManualClock())
    try:
        await store.start()
        group = Origin(platform="slack", chat_type=ChatType.GROUP, chat="C1", user="u")
        said = (
            answer(thread("new"), "hi", 5),
            answer(thread("old"), "hi", 60),
            answer(thread("old"), "hi again", 30),
            answer(thread("other", "discord"), "hi", 10),
            answer(thread("forgotten"), "hi", 2000),
            answer(thread("silent"), "`NO_REPLY`", 5),
            answer(thread("notice"), "done", 5, notice=True),
            answer(group, "hi", 5),
        )
        for fact in said:
            stream = StreamId(f"session:{key_of(fact.origin)}-{fact.delivery_id}")
            await store.journal.append(stream, 0, [fact])
        found = await answered_threads(store.select, NOW - timedelta(days=1))
        assert [(origin.platform, origin.thread) for origin, _ in found] == [
            ("slack", "old"),
            ("discord", "other"),
            ("slack", "new"),
        ]
        assert found[0] == (thread("old"), NOW - timedelta(minutes=30))
    finally:
        await store.close()
