"""The analyst's rows, and the list of sessions made from them."""

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given

from actors.session import facts as f
from messages.base import Message
from messages.blocks import TextBlock, ToolStatus
from messages.gateway import Author, ChatType, Origin, Part
from messages.ids import CallId, DeliveryId, MessageId, SessionId, SessionKey, StreamId, Turn
from messages.model import Failure, FailureKind, ModelRef, StopReason, Usage
from messages.settings import StoreSettings
from messages.system import IncidentHappened, ProcessStarted, ProcessStopped
from messages.tool import Effect
from store.opening import open_database
from store.projection import TABLES, rows
from store.store import Store
from tests.store import strategies

AT = datetime(2026, 1, 15, 12, tzinfo=UTC)
LATER = AT + timedelta(seconds=1.5)
KEY = SessionKey("agent:main:web:main:dm:u")
STREAM, SYSTEM = StreamId(f"session:{KEY}"), StreamId("system")
ORIGIN = Origin(platform="web", chat_type=ChatType.DM, chat="c", user="u")
MODEL = ModelRef(provider="p", name="m")
ADA = Author(id="u", name="Ada")

OPENED = f.SessionOpened(session_id=SessionId("s1"), session_key=KEY, origin=ORIGIN, at=AT)
BEGAN = f.TurnBegan(turn=Turn(1), session_id=SessionId("s1"), message_ids=(MessageId("m1"),), at=AT)
ANSWERED = f.ModelCallAnswered(
    turn=Turn(1),
    call=1,
    model=MODEL,
    blocks=(TextBlock(text="hello"),),
    stop=StopReason.END,
    raw_stop="stop",
    usage=Usage(input_tokens=7, output_tokens=2**70),
    began_at=AT,
    first_token_ms=12.5,
    at=LATER,
)
FAILED = f.ModelCallFailed(
    turn=Turn(1),
    call=1,
    attempt=2,
    failure=Failure(kind=FailureKind.OVERLOADED, detail="busy", status=529, model=MODEL),
    next_step="retry",
    wait_s=2.0,
    began_at=AT,
    at=LATER,
)
TOOL = f.ToolCallEnded(
    turn=Turn(1),
    call_id=CallId("t1"),
    name="read_file",
    arguments='{"path":"a"}',
    effect=Effect.READ,
    status=ToolStatus.OK,
    text="content",
    began_at=AT,
    at=LATER,
)
ENDED = f.TurnEnded(
    turn=Turn(1),
    session_id=SessionId("s1"),
    reason="answered",
    message_ids=(MessageId("m1"),),
    model_calls=1,
    tool_calls=1,
    input_tokens=7,
    began_at=AT,
    at=LATER,
)


def accepted(message_id: str, text: str = "hi\nthere") -> f.MessageAccepted:
    return f.MessageAccepted(
        message_id=MessageId(message_id),
        session_id=SessionId("s1"),
        origin=ORIGIN,
        author=ADA,
        text=text,
        at=AT,
    )


def owed(delivery_id: str, *, notice: bool = False) -> f.ReplyOwed:
    return f.ReplyOwed(
        delivery_id=DeliveryId(delivery_id),
        session_id=SessionId("s1"),
        origin=ORIGIN,
        turn=None if notice else Turn(1),
        notice=notice,
        parts=(Part(text="one"), Part(text="two")),
        reply_to=MessageId("m1"),
        model=None if notice else MODEL,
        at=LATER,
    )


COMMAND = f.CommandAccepted(
    message_id=MessageId("m2"),
    session_id=SessionId("s1"),
    origin=ORIGIN,
    name="busy",
    argument="queue",
    author=ADA,
    at=AT,
)
DELIVERED = f.ReplyDelivered(delivery_id=DeliveryId("d1"), receipt="r", at=LATER)


@pytest.mark.parametrize(
    ("facts", "query", "row"),
    [
        ([OPENED], "SELECT session_id, session_key, parent, platform, chat, platform_user, opened_at FROM sessions",
         ("s1", KEY, None, "web", "c", "u", AT)),
        ([accepted("m1"), BEGAN],
         "SELECT session_key, session_id, turn, role, message_id, author_id, author_name, text, said_at FROM messages",
         (KEY, "s1", 1, "user", "m1", "u", "Ada", "hi\nthere", AT)),
        ([accepted("m1")], "SELECT session_id, turn, attachments FROM messages", ("s1", None, 0)),
        ([COMMAND], "SELECT role, text, platform FROM messages", ("command", "/busy queue", "web")),
        ([owed("d1")],
         "SELECT session_id, turn, role, delivery_id, reply_to, text, provider, model, said_at FROM messages",
         ("s1", 1, "assistant", "d1", "m1", "one\n\ntwo", "p", "m", LATER)),
        ([owed("d1", notice=True)], "SELECT turn, role, model FROM messages", (None, "notice", None)),
        ([ANSWERED],
         "SELECT turn, model_call, attempt, outcome, model, stop, raw_stop, input_tokens, output_tokens FROM model_calls",
         (1, 1, None, "answered", "m", "end", "stop", 7, None)),
        ([ANSWERED], "SELECT failure, first_token_ms, duration_ms FROM model_calls", (None, 12.5, 1500.0)),
        ([FAILED],
         "SELECT attempt, outcome, model, stop, failure, http_status, detail, next_step, ended_at FROM model_calls",
         (2, "failed", "m", None, "overloaded", 529, "busy", "retry", LATER)),
        ([TOOL],
         "SELECT turn, call_id, name, effect, arguments, status, result, kept_in, duration_ms FROM tool_calls",
         (1, "t1", "read_file", "read", '{"path":"a"}', "ok", "content", None, 1500.0)),
        ([ENDED],
         "SELECT session_id, turn, reason, message_ids, model_calls, tool_calls, input_tokens, duration_ms FROM turns",
         ("s1", 1, "answered", ["m1"], 1, 1, 7, 1500.0)),
        ([DELIVERED], "SELECT session_key, delivery_id, receipt, delivered_at FROM deliveries",
         (KEY, "d1", "r", LATER)),
    ],
)  # fmt: skip
async def test_each_fact_gives_its_row(
    store: Store, facts: list[Message], query: str, row: tuple[object, ...]
) -> None:
    await store.journal.append(STREAM, 0, facts)
    assert (await store.select(query)).rows == (row,)


async def test_the_runtimes_own_rows(store: Store) -> None:
    incident = IncidentHappened(life="l", child="web", what="degraded", detail="often", at=AT)
    await store.journal.append(SYSTEM, 0, [ProcessStarted(life="l", version="0.1", pid=7, at=AT)])
    await store.journal.append(SYSTEM, 1, [incident, ProcessStopped(life="l", at=LATER)])
    lives = await store.select("SELECT id, life, event, version, pid, happened_at FROM lives ORDER BY id")
    assert lives.rows == ((1, "l", "started", "0.1", 7, AT), (3, "l", "stopped", None, None, LATER))
    incidents = await store.select("SELECT * FROM incidents")
    assert incidents.rows == ((2, "l", "web", "degraded", "often", AT),)


async def test_rows_join_back_to_their_facts(store: Store) -> None:
    await store.journal.append(
        STREAM, 0, [OPENED, accepted("m1"), BEGAN, ANSWERED, ENDED, owed("d1"), DELIVERED]
    )
    for table, kinds in (("messages", ["message_accepted", "reply_owed"]), ("turns", ["turn_ended"])):
        found = await store.select(f"SELECT kind FROM {table} JOIN facts USING (id) ORDER BY id")
        assert [kind for (kind,) in found.rows] == kinds


@given(strategies.facts())
def test_rows_have_as_many_values_as_their_tables_columns(fact: Message) -> None:
    for table, row in rows(STREAM, [(5, fact)]):
        assert len(row) == COLUMNS[table]
        assert row[0] == 5


COLUMNS: dict[str, int] = {}


@pytest.fixture(scope="module", autouse=True)
def columns(tmp_path_factory: pytest.TempPathFactory) -> None:

    connection = open_database(tmp_path_factory.mktemp("schema") / "callboard.duckdb", StoreSettings())
    counted = connection.execute("SELECT table_name, count(*) FROM duckdb_columns() GROUP BY 1").fetchall()
    COLUMNS.update(counted)
    connection.close()
    assert set(TABLES) <= COLUMNS.keys()


async def test_sessions_are_listed_the_last_active_first(store: Store) -> None:
    assert await store.sessions() == ()
    other = SessionKey("agent:main:web:main:dm:v")
    reset = f.SessionOpened(
        session_id=SessionId("s2"), session_key=KEY, origin=ORIGIN, parent=SessionId("s1"), at=LATER
    )
    await store.journal.append(
        StreamId(f"session:{other}"),
        0,
        [f.SessionOpened(session_id=SessionId("s9"), session_key=other, origin=ORIGIN, at=AT)],
    )
    await store.journal.append(
        STREAM, 0, [OPENED, accepted("m1"), BEGAN, ENDED, owed("d1"), owed("d2", notice=True)]
    )
    await store.journal.append(STREAM, 6, [reset, accepted("m2", "about\n  birds " + "x" * 200)])
    first, second = await store.sessions()
    assert (first.session_key, first.session_id, first.state) == (KEY, "s2", "sleeping")
    assert (first.messages, first.turns, first.last_at) == (3, 1, LATER)
    assert first.title.startswith("about birds xxx")
    assert len(first.title) == 80
    assert (second.session_key, second.title, second.messages, second.turns, second.last_at) == (
        other,
        "",
        0,
        0,
        AT,
    )
