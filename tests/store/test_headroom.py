import contextlib
import threading
from collections.abc import Iterator
from pathlib import Path

import duckdb
import pytest

from messages.ids import StreamId
from messages.settings import StoreSettings
from messages.system import IncidentHappened
from store.headroom import Headroom
from store.opening import open_database
from store.store import Store
from tests.fakes.clock import ManualClock

SETTINGS = StoreSettings(memory_limit="3GB", threads=1)
TRIM_FROM, KEPT = 8_000_000, 4_000_000
FILL = "CREATE TABLE t AS SELECT md5(range::VARCHAR) AS text FROM range({})"


def room() -> Headroom:
    return Headroom(SETTINGS, trim_from=TRIM_FROM, kept=KEPT)


@pytest.fixture
def connection(path: Path) -> Iterator[duckdb.DuckDBPyConnection]:
    connection = duckdb.connect(path, config={"memory_limit": "3GB", "threads": 1})
    connection.execute(FILL.format(500_000))
    connection.execute("CHECKPOINT")
    yield connection
    connection.close()


def read_all(connection: duckdb.DuckDBPyConnection) -> int:
    connection.execute("SELECT max(text), count(DISTINCT text[:2]) FROM t").fetchall()
    return pages(connection)


def pages(connection: duckdb.DuckDBPyConnection) -> int:
    sql = "SELECT memory_usage_bytes FROM duckdb_memory() WHERE tag = 'BASE_TABLE'"
    ((found,),) = connection.execute(sql).fetchall()
    return int(found)


def limit(connection: duckdb.DuckDBPyConnection) -> str:
    ((found,),) = connection.execute("SELECT current_setting('memory_limit')").fetchall()
    return str(found)


def test_many_pages_are_given_back_and_the_limit_is_as_before(connection: duckdb.DuckDBPyConnection) -> None:
    before = limit(connection)
    assert read_all(connection) > TRIM_FROM
    given = room().trim(connection)
    assert given >= TRIM_FROM - KEPT
    assert pages(connection) <= KEPT
    assert limit(connection) == before
    assert read_all(connection) > TRIM_FROM  # and all can be read as before


def test_few_pages_stay(connection: duckdb.DuckDBPyConnection) -> None:
    connection.execute("DROP TABLE t")
    connection.execute("CHECKPOINT")
    assert room().trim(connection) == 0


def test_nothing_is_given_back_under_a_query_and_a_query_waits_meanwhile(
    connection: duckdb.DuckDBPyConnection,
) -> None:
    read_all(connection)
    ours = room()
    with ours.taken():
        assert ours.trim(connection) == 0
    took = threading.Event()

    def query() -> None:
        with ours.taken():
            took.set()

    with ours._lock:
        thread = threading.Thread(target=query)
        thread.start()
        assert not took.is_set()
    thread.join(10)
    assert took.is_set()
    assert ours.trim(connection) > 0


@pytest.mark.slow
async def test_a_store_gives_back_what_a_query_over_everything_has_read(
    path: Path, clock: ManualClock
) -> None:
    with contextlib.closing(open_database(path, SETTINGS)) as filling:
        filling.execute(FILL.format(3_000_000))
    store = Store.open(path, SETTINGS, clock)
    held = "SELECT coalesce(sum(memory_usage_bytes), 0)::BIGINT FROM duckdb_memory() WHERE tag = 'BASE_TABLE'"
    try:
        await store.start()
        await store.query("SELECT max(text), count(DISTINCT text[:2]) FROM t", timeout_s=60)
        ((before,),) = (await store.select(held)).rows
        for _ in range(31):
            await clock.advance(1.0)
        past = IncidentHappened(life="l", child="store", what="recovered", detail="after it", at=clock.now())
        await store.journal.append(StreamId("system:x"), 0, [past])
        ((after,),) = (await store.select(held)).rows
    finally:
        await store.close()
    assert int(str(before)) > 32 * 1024**2
    assert int(str(after)) <= 16 * 1024**2
