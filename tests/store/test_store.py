"""The store over a real file: what it keeps, what may be asked, how it fails and closes."""

import asyncio
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path

import duckdb
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from actors.clock import WallClock
from messages.base import Message
from messages.ids import StreamId
from messages.settings import StoreSettings
from messages.system import IncidentHappened, ProcessStarted, ProcessStopped
from store.codec import CODEC
from store.journal import JournalUnavailableError
from store.store import QueryError, Rows, Store
from tests.fakes.clock import ManualClock
from tests.store import strategies

A, SYSTEM = StreamId("session:a"), StreamId("system")
AT = datetime(2026, 1, 15, 12, tzinfo=UTC)


def incident(detail: str) -> IncidentHappened:
    return IncidentHappened(life="l", child="store", what="crashed", detail=detail, at=AT)


async def reopened(path: Path) -> Store:
    return Store.open(path, StoreSettings(), WallClock())


def test_every_kind_of_fact_round_trips_through_the_file(path: Path) -> None:
    with asyncio.Runner() as runner:
        store = Store.open(path, StoreSettings(), WallClock())
        streams = iter(range(1_000_000))

        @settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
        @given(st.lists(strategies.facts(), min_size=1, max_size=8))
        def round_trip(facts: list[Message]) -> None:
            stream = StreamId(f"session:{next(streams)}")
            written = runner.run(store.journal.append(stream, 0, facts))
            assert [recorded.fact for recorded in written] == [CODEC.encode(fact).fact for fact in facts]
            assert runner.run(store.journal.read(stream)) == written

        try:
            round_trip()
        finally:
            runner.run(store.close())


async def test_everything_is_there_after_opening_again(path: Path, store: Store) -> None:
    written = await store.journal.append(A, 0, [incident("one"), incident("two")], owing=True)
    await store.journal.append(SYSTEM, 0, [ProcessStopped(life="l", at=AT)])
    await store.close()
    again = await reopened(path)
    try:
        assert await again.journal.read(A) == written
        assert await again.journal.owed() == (A,)
        assert (again.stats()["facts"], again.stats()["streams"]) == (3, 2)
        await again.journal.append(A, 2, [incident("three")])
        assert (await again.select("SELECT max(id), count(*) FROM facts")).rows == ((4, 4),)
    finally:
        await again.close()


async def test_a_closed_store_says_so(store: Store) -> None:
    waiting = [asyncio.ensure_future(store.journal.append(A, n, [incident(str(n))])) for n in range(500)]
    await asyncio.sleep(0)
    await store.close()
    assert [(await appended)[0].seq for appended in waiting] == list(range(1, 501))
    for asked in (
        store.journal.append(A, 500, [incident("late")]),
        store.journal.read(A),
        store.select("SELECT 1"),
    ):
        with pytest.raises(JournalUnavailableError, match="closed"):
            await asked
    await store.close()


async def test_what_cannot_be_stored_fails_alone(store: Store) -> None:
    unstorable = StreamId("session:\ud83d")  # no key of ours: they are percent-encoded
    good, bad, also_good = await asyncio.gather(
        store.journal.append(A, 0, [incident("a")]),
        store.journal.append(unstorable, 0, [incident("b")]),
        store.journal.append(A, 1, [incident("c")]),
        return_exceptions=True,
    )
    assert isinstance(bad, JournalUnavailableError)
    assert not isinstance(good, BaseException)
    assert not isinstance(also_good, BaseException)
    assert await store.journal.read(A) == (*good, *also_good)
    assert await store.journal.read(unstorable) == ()
    assert (await store.select("SELECT count(*) FROM incidents")).rows == ((2,),)


async def test_figures(store: Store) -> None:
    await asyncio.gather(*(store.journal.append(StreamId(f"s:{n}"), 0, [incident("x")]) for n in range(20)))
    figures = store.stats()
    assert (figures["facts"], figures["streams"], figures["appends_waiting"]) == (20, 20, 0)
    assert 1 <= int(figures["commits"]) <= 20
    assert float(figures["commit_p99_ms"]) >= float(figures["commit_p50_ms"]) > 0
    assert int(figures["wal_bytes"]) > 0


async def test_the_log_is_moved_into_the_file_in_a_quiet_moment(path: Path, clock: ManualClock) -> None:
    store = Store.open(path, StoreSettings(checkpoint_wal="100KB"), clock)
    try:
        await store.start()
        await store.journal.append(A, 0, [incident("x" * 40_000)])
        await clock.advance(1.0)  # something was committed since the start: not quiet
        assert store.stats()["checkpoints"] == 0
        await clock.advance(1.0)
        await store.journal.append(A, 1, [incident("after")])  # the writer has come past the checkpoint
        figures = store.stats()
        assert figures["checkpoints"] == 1
        assert int(figures["wal_bytes"]) < 40_000
        await clock.advance(3.0)
        await store.journal.append(A, 2, [incident("small")])
        assert store.stats()["checkpoints"] == 1
    finally:
        await store.close()
    assert clock.waiting == 0


async def test_a_log_of_full_length_is_moved_in_a_calm_moment_when_none_is_quiet(
    path: Path, clock: ManualClock
) -> None:
    store = Store.open(path, StoreSettings(checkpoint_wal="100KB"), clock)
    try:
        await store.start()
        for second in range(3):
            await store.journal.append(A, second, [incident("x" * 20_000)])
            await clock.advance(1.0)
        await store.journal.append(A, 3, [incident("after")])
        assert store.stats()["checkpoints"] == 1
        for number in range(4, 64):  # too much is going on to let anybody wait
            await store.journal.append(A, number, [incident("x" * 3_000)])
        await clock.advance(1.0)
        await store.journal.append(A, 64, [incident("after")])
        assert store.stats()["checkpoints"] == 1
    finally:
        await store.close()


async def test_no_index_but_the_key_of_facts_and_a_comment_on_every_column(store: Store) -> None:
    assert (await store.select("SELECT count(*) FROM duckdb_indexes()")).rows == ((0,),)
    keys = await store.select(
        "SELECT table_name, constraint_type FROM duckdb_constraints() WHERE constraint_type <> 'NOT NULL'"
    )
    assert keys.rows == (("facts", "PRIMARY KEY"),)
    bare = await store.select(
        "SELECT table_name, column_name FROM duckdb_columns() WHERE NOT internal AND comment IS NULL"
        " UNION ALL SELECT table_name, '' FROM duckdb_tables() WHERE comment IS NULL"
    )
    assert bare.rows == ()


# -------------------------------------------------------------------- queries


async def test_select_gives_columns_and_rows(store: Store) -> None:
    found = await store.select("SELECT ? AS a, i FROM range(3) t(i)", ["x"], max_rows=2)
    assert found == Rows(("a", "i"), (("x", 0), ("x", 1)), truncated=True)
    assert not (await store.select("FROM range(2)", max_rows=2)).truncated


@pytest.mark.parametrize(
    "sql",
    [
        "",
        "DROP TABLE facts",
        "SELECT 1; SELECT 2",
        "INSERT INTO facts SELECT * FROM facts",
        "WITH gone AS (DELETE FROM facts RETURNING id) SELECT * FROM gone",
        "COPY facts TO 'stolen.csv'",
        "SELECT * FROM read_csv('/etc/passwd')",
        "SELECT * FROM read_text('/etc/passwd')",
        "ATTACH '/tmp/other.duckdb'",
        "SET threads = 1",
        "PRAGMA enable_profiling",
        "CALL pragma_version()",
        "BEGIN",
        "EXPLAIN ANALYZE DELETE FROM facts",
        "SELECT nonsense",
        "SELEC 1",
    ],
)
async def test_a_query_can_change_nothing_and_reach_nothing(store: Store, sql: str) -> None:
    await store.journal.append(A, 0, [incident("kept")])
    with pytest.raises(QueryError) as refusal:
        await store.select(sql)
    assert "\n" not in str(refusal.value)
    assert (await store.select("SELECT count(*) FROM facts")).rows == ((1,),)


async def test_a_query_that_takes_too_long_is_stopped_and_the_next_one_runs(store: Store) -> None:
    endless = "SELECT count(*) FROM range(10000000) a, range(10000000) b WHERE a.range + b.range = -1"
    with pytest.raises(QueryError, match=r"longer than 0\.05 s"):
        await store.select(endless, timeout_s=0.05)
    asked = asyncio.ensure_future(store.select(endless))
    assert (await store.select("SELECT 1")).rows == ((1,),)
    await store.journal.append(A, 0, [incident("beside it")])
    asked.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asked
    found = await asyncio.gather(*(store.select("SELECT ?", [n]) for n in range(6)))
    assert [rows for (_, rows, _) in found] == [((n,),) for n in range(6)]


async def test_closing_stops_running_queries(store: Store) -> None:
    endless = "SELECT count(*) FROM range(10000000) a, range(10000000) b WHERE a.range + b.range = -1"
    asked = [asyncio.ensure_future(store.select(endless)) for _ in range(4)]
    await asyncio.sleep(0)
    await store.close()
    for answer in await asyncio.gather(*asked, return_exceptions=True):
        assert isinstance(answer, QueryError | JournalUnavailableError)


# ---------------------------------------------------------------------- times


async def test_B09_instants_are_equal_for_writer_and_reader(store: Store) -> None:
    new_york = timezone(timedelta(hours=-5))
    local = datetime(2026, 1, 15, 7, 0, tzinfo=new_york)
    await store.journal.append(SYSTEM, 0, [ProcessStarted(life="l", version="1", pid=1, at=local)])
    found = await store.select("SELECT happened_at FROM lives WHERE happened_at = ?", [local])
    assert found.rows == ((AT,),)
    assert isinstance(found.rows[0][0], datetime)
    assert found.rows[0][0].tzinfo is UTC
    with pytest.raises(ValueError, match="without a zone"):
        await store.select("SELECT ?", [datetime(2026, 1, 15, 12)])  # noqa: DTZ001


async def test_B09_order_is_by_number_not_by_time(store: Store) -> None:
    before, after = (
        AT.replace(month=10, day=25, hour=0),
        AT.replace(month=10, day=25, hour=1),
    )  # both 02:00 in Berlin
    facts = [ProcessStopped(life="second", at=after), ProcessStopped(life="first", at=before)]
    await store.journal.append(SYSTEM, 0, facts)
    assert [recorded.fact for recorded in await store.journal.read(SYSTEM)] == facts
    days = await store.select(
        "SELECT count(*), (happened_at AT TIME ZONE 'Europe/Berlin')::DATE::VARCHAR FROM lives GROUP BY 2"
    )
    assert days.rows == ((2, "2026-10-25"),)


def test_the_pinned_duckdb_is_the_measured_one() -> None:
    assert duckdb.__version__ == "2.0.1"


async def test_the_manuals_queries_work(store: Store) -> None:
    manual = (Path(__file__).parents[2] / "docs" / "store.md").read_text(encoding="utf-8")
    queries = [block.partition("```")[0] for block in manual.split("```sql\n")[1:]]
    assert len(queries) == 2
    for query in queries:
        await store.select(query)
    tables = {
        line.split("`")[1] for line in manual.splitlines() if line.startswith("| `") and "(view)" not in line
    }
    known = await store.select("SELECT table_name FROM duckdb_tables()")
    assert {(table,) for table in tables} == set(known.rows)
