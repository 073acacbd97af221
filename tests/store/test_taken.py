"""Whose conversation did the latest messages go to? Read from a real file."""

from datetime import UTC, datetime, timedelta
from pathlib import Path

from actors.gateway.session_key import key_of
from actors.session import facts as f
from messages.gateway import Author, ChatType, Origin
from messages.ids import MessageId, SessionId, StreamId
from messages.settings import StoreSettings
from store.store import Store
from store.taken import taken_messages
from tests.fakes.clock import ManualClock

NOW = datetime(2026, 1, 15, 12, tzinfo=UTC)
GROUP = Origin(platform="discord", account="work", chat_type=ChatType.GROUP, chat="C1", user="7")
THREAD = Origin(
    platform="discord", account="work", chat_type=ChatType.THREAD, chat="C1", thread="T", user="7"
)
DM = Origin(platform="discord", account="work", chat_type=ChatType.DM, user="7")


def accepted(origin: Origin, number: int, minutes: int) -> f.MessageAccepted:
    return f.MessageAccepted(
        message_id=MessageId(str(number)),
        session_id=SessionId("s"),
        origin=origin,
        author=Author(id="7"),
        text="hello",
        at=NOW - timedelta(minutes=minutes),
    )


async def test_the_latest_messages_come_back_with_their_conversations(tmp_path: Path) -> None:
    store = Store.open(tmp_path / "x.duckdb", StoreSettings(), ManualClock())
    try:
        await store.start()
        bob = GROUP.model_copy(update={"user": "8"})
        for number, (origin, minutes) in enumerate(((bob, 3000), (GROUP, 30), (DM, 20), (THREAD, 10)), 1):
            stream = StreamId(f"session:{key_of(origin)}")
            await store.journal.append(stream, 0, [accepted(origin, number, minutes)])
        found = await taken_messages(store.select, NOW - timedelta(days=1))
        assert [(o.chat_type, o.chat, o.user, m, k) for o, m, k in found] == [
            (ChatType.GROUP, "C1", None, "2", key_of(GROUP)),
            (ChatType.DM, None, "7", "3", key_of(DM)),
            (ChatType.THREAD, "C1", None, "4", key_of(THREAD)),
        ]
        assert {(o.platform, o.account) for o, _, _ in found} == {("discord", "work")}
    finally:
        await store.close()
