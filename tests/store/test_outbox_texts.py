"""Deleting a session deletes what it said from the outboxes too; their facts stay in order."""

from datetime import UTC, datetime
from pathlib import Path

from actors.clock import WallClock
from actors.gateway.outbox import decide
from actors.gateway.outbox_state import Outbox, fold
from actors.gateway.parts import OutboxRules
from actors.session import facts as f
from messages import delivery as d
from messages.ids import DeliveryId, SessionKey, StreamId, Turn
from messages.settings import BusyPolicy, StoreSettings
from store.store import Store

AT = datetime(2026, 1, 1, 12, tzinfo=UTC)
ANN, BOB = SessionKey("agent:main:chat:main:dm:ann"), SessionKey("agent:main:chat:main:dm:bob")
OUTBOX = StreamId("outbox:chat:main")


def taken(key: SessionKey) -> d.DeliveryTaken:
    return d.DeliveryTaken(
        delivery_id=DeliveryId(f"of {key}"),
        session_key=key,
        place=d.Place(chat=key[-3:]),
        parts=(d.PartText(text=f"a secret of {key}"),),
        at=AT,
    )


def left_out(key: SessionKey) -> d.PartNotTaken:
    return d.PartNotTaken(
        delivery_id=DeliveryId(f"of {key}"),
        part=1,
        attempt=1,
        problem=d.Problem(kind=d.ProblemKind.REFUSED, detail="too large"),
        counts=False,
        text_instead=f"a secret of {key}, without its file",
        at=AT,
    )


async def test_texts_go_facts_stay_and_nothing_is_stuck(tmp_path: Path) -> None:
    store = Store.open(tmp_path / "callboard.duckdb", StoreSettings(), WallClock())
    await store.start()
    facts = [taken(ANN), taken(BOB), left_out(ANN), left_out(BOB)]
    await store.journal.append(OUTBOX, 0, facts, owing=True)
    erased = f.HistoryErased(last_turn=Turn(1), at=AT)
    policy = f.PolicyChosen(policy=BusyPolicy.QUEUE, at=AT)
    await store.journal.append(StreamId(f"session:{ANN}"), 0, [policy, erased])
    await store.purge([StreamId(f"session:{ANN}")])
    recorded = await store.journal.read(OUTBOX)
    left = await store.select("SELECT count(*) FROM facts WHERE contains(fact, 'secret of ' || ?)", [ANN])
    await store.close()
    assert [r.seq for r in recorded] == [1, 2, 3, 4]
    assert left.rows[0][0] == 0
    assert (recorded[1].fact, recorded[3].fact) == (taken(BOB), left_out(BOB))
    state = fold(Outbox(), [r.fact for r in recorded])  # type: ignore[misc]
    decision = decide(state, d.PlatformConnected(at=AT), OutboxRules())
    assert [type(fact) for fact in decision.facts] == [d.DeliveryDone, d.PartTried]
