"""The view `posts`: what became of every call of a platform, for who looks after deliveries."""

from datetime import UTC, datetime
from pathlib import Path

from actors.clock import WallClock
from messages import delivery as d
from messages.ids import DeliveryId, StreamId
from messages.settings import StoreSettings
from store.store import Store

AT = datetime(2026, 1, 1, 12, tzinfo=UTC)
D1 = DeliveryId("d1")


async def test_every_outcome_is_a_row(tmp_path: Path) -> None:
    store = Store.open(tmp_path / "callboard.duckdb", StoreSettings(), WallClock())
    await store.start()
    problem = d.Problem(kind=d.ProblemKind.RATE_LIMITED, detail="slow down", retry_after_s=3.0)
    facts = (
        d.DeliveryTaken(
            delivery_id=D1, session_key=None, place=d.Place(chat="c"), parts=(d.PartText(text="x"),), at=AT
        ),
        d.PartTried(delivery_id=D1, part=1, attempt=1, at=AT),
        d.PartNotTaken(delivery_id=D1, part=1, attempt=1, problem=problem, counts=False, at=AT),
        d.PartUnclear(delivery_id=D1, part=1, attempt=2, why="no answer", at=AT),
        d.PartDelivered(delivery_id=D1, part=1, receipt="p9", maybe_duplicate=True, at=AT),
        d.DeliveryFailed(
            delivery_id=D1, session_key=None, why="gone", posted=1, parts=2, attempts=3, taken_at=AT, at=AT
        ),
    )
    await store.journal.append(StreamId("outbox:fake:main"), 0, facts)
    columns = "outbox, delivery_id, part, attempt, outcome, problem, detail, receipt, maybe_duplicate"
    rows = await store.select(f"SELECT {columns} FROM posts ORDER BY id")
    await store.close()
    assert [tuple(row) for row in rows.rows] == [
        ("fake:main", "d1", 1, 1, "not_posted", "rate_limited", "slow down", None, None),
        ("fake:main", "d1", 1, 2, "unclear", None, "no answer", None, None),
        ("fake:main", "d1", 1, None, "posted", None, None, "p9", True),
        ("fake:main", "d1", None, None, "given_up", None, "gone", None, None),
    ]
