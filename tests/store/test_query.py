"""What people may ask of the database, and everything that they may not."""

import asyncio
import json
import threading
from pathlib import Path
from typing import Any

import pytest

from actors.clock import WallClock
from messages.ids import StreamId
from messages.settings import StoreSettings
from messages.system import ProcessStarted
from store.query import Answer
from store.store import QueryError, Store

pytestmark = pytest.mark.slow


def found(answer: Answer) -> list[Any]:
    rows: list[Any] = json.loads(answer.json)["rows"]
    return rows


async def refused(store: Store, sql: str, **more: Any) -> str:
    with pytest.raises(QueryError) as caught:
        await store.query(sql, **more)
    return str(caught.value)


async def append(store: Store, seq: int = 0) -> None:
    at = WallClock().now()
    fact = ProcessStarted(life=f"life-{seq}", version="1", pid=1, at=at)
    await store.journal.append(StreamId("system"), seq, [fact])


WRITES = [
    "INSERT INTO meta VALUES ('a', 'b')",
    "UPDATE meta SET value = '2'",
    "DELETE FROM facts",
    "TRUNCATE facts",
    "DROP TABLE facts",
    "DROP VIEW costs",
    "ALTER TABLE facts ADD COLUMN x INTEGER",
    "CREATE TABLE x (i INTEGER)",
    "CREATE TEMP TABLE x AS SELECT 1",
    "CREATE VIEW x AS SELECT 1",
    "CREATE MACRO x() AS 1",
    "CREATE SEQUENCE x",
    "CREATE SECRET x (TYPE http)",
    "CREATE TRIGGER x AFTER INSERT ON meta FOR EACH ROW SELECT 1",
    "MERGE INTO meta USING (SELECT 1) s ON false WHEN NOT MATCHED THEN INSERT VALUES ('a', 'b')",
    "WITH x AS (DELETE FROM meta RETURNING *) SELECT * FROM x",
    "WITH x AS (INSERT INTO meta VALUES ('a', 'b') RETURNING *) SELECT * FROM x",
    "WITH x AS (UPDATE meta SET value = '2' RETURNING *) SELECT * FROM x",
    "EXPLAIN ANALYZE DELETE FROM meta",
    "EXPLAIN ANALYZE INSERT INTO meta VALUES ('a', 'b')",
    "explain /* x */ (analyze) delete from meta",
    "COMMENT ON TABLE facts IS 'mine'",
]

REACHING_OUT = [
    "COPY facts TO '{out}'",
    "COPY (SELECT 1) TO '{out}'",
    "COPY meta FROM '{secret}'",
    "EXPORT DATABASE '{out}'",
    "IMPORT DATABASE '{out}'",
    "ATTACH '{out}'",
    "ATTACH ':memory:' AS m",
    "DETACH callboard",
    "INSTALL httpfs",
    "LOAD httpfs",
    "LOAD json",
    "SELECT * FROM read_csv('{secret}')",
    "SELECT * FROM read_csv_auto('{secret}')",
    "SELECT * FROM read_text('{secret}')",
    "SELECT * FROM read_blob('{secret}')",
    "SELECT * FROM read_json('{secret}')",
    "SELECT * FROM read_parquet('{secret}')",
    "SELECT * FROM read_duckdb('{secret}')",
    "SELECT * FROM parquet_metadata('{secret}')",
    "SELECT * FROM sniff_csv('{secret}')",
    "SELECT * FROM glob('/etc/*')",
    "SELECT * FROM '{secret}'",
    'SELECT * FROM "{secret}"',
    "SELECT * FROM read_json('http://127.0.0.1:1/x')",
    "SELECT * FROM query('SELECT * FROM read_text(''{secret}'')')",
    "SELECT * FROM query_table(['{secret}'])",
    "SELECT * FROM json_execute_serialized_sql(json_serialize_sql('SELECT 1'))",
    "SELECT * FROM duckdb_secrets()",
    "SELECT * FROM which_secret('a', 'b')",
    "SELECT getenv('HOME')",
    "SELECT * FROM some_python_variable",
    "SELECT * FROM pandas_scan(1)",
    "SELECT (SELECT content FROM read_text('{secret}'))",
    "SELECT 1 WHERE EXISTS (FROM read_text('{secret}'))",
    "EXPLAIN ANALYZE SELECT * FROM read_text('{secret}')",
    "SELECT * FROM system.main.read_text('{secret}')",
    "SELECT list_transform([1], lambda x: (SELECT content FROM read_text('{secret}')))",
]

SETTINGS = [
    "SET threads = 1",
    "SET GLOBAL enable_external_access = true",
    "SET SESSION memory_limit = '1TB'",
    "RESET memory_limit",
    "SET VARIABLE a = 1",
    "PRAGMA database_list",
    "PRAGMA enable_profiling",
    "PRAGMA memory_limit = '1TB'",
    "SELECT * FROM enable_logging()",
    "SELECT * FROM enable_profiling()",
    "SELECT * FROM truncate_duckdb_logs()",
    "SELECT * FROM checkpoint()",
    "SELECT * FROM force_checkpoint()",
    "SELECT * FROM pragma_user_agent()",
    "CALL force_checkpoint()",
    "CHECKPOINT",
    "FORCE CHECKPOINT",
    "VACUUM",
    "ANALYZE",
    "USE memory",
    "BEGIN",
    "COMMIT",
    "ROLLBACK",
    "PREPARE x AS SELECT 1",
    "EXECUTE x",
    "DEALLOCATE x",
    "SELECT nextval('x')",
    "SELECT setseed(0.5)",
    "SELECT write_log('mine')",
    "SELECT pg_sleep(100)",
    "SELECT sleep_ms(100000)",
    "SELECT main.pg_sleep(100)",
]

SEVERAL = [
    "SELECT 1; SELECT 2",
    "SELECT 1; DROP TABLE facts",
    "SELECT 1;; DELETE FROM facts;",
    "COMMIT; DROP TABLE facts; BEGIN",
    "",
    "   ",
    "-- nothing",
    ";",
    "PIVOT messages ON role USING count(*)",
]

BOMBS = [
    "SELECT repeat('x', 2000000000)",
    "SELECT repeat('x', n) FROM (SELECT 2000000000 AS n)",
    "SELECT 'x'.repeat(2000000000)",
    "SELECT repeat(repeat(repeat(repeat(repeat('x', 100), 100), 100), 100), 100)",
    "SELECT lpad('x', 2000000000, 'x')",
    "SELECT REPEAT('x', CAST('2000000000' AS INTEGER))",
    "SELECT printf('%999999999d', 1)",
    "SELECT printf('%*d', 999999999, 1)",
    "SELECT format('{:>999999999}', 1)",
    "SELECT format('{:>{}}', 1, 999999999)",
    "SELECT len(range(1000000000))",
    "SELECT len(generate_series(1, n)) FROM (SELECT 1000000000 AS n)",
    "SELECT list_resize([1], 1000000000)",
    "SELECT (SELECT list_resize([1], 1000000000))",
    f"SELECT 1 -- {'x' * 200_000}",
    "SELECT 'a\0b'",
]


@pytest.mark.parametrize("sql", WRITES)
async def test_a_query_changes_nothing(store: Store, sql: str) -> None:
    await append(store)
    before = found(await store.query("SELECT (SELECT count(*) FROM facts), (FROM meta SELECT count(*))"))
    assert await refused(store, sql)
    assert (
        found(await store.query("SELECT (SELECT count(*) FROM facts), (FROM meta SELECT count(*))")) == before
    )


@pytest.mark.parametrize("sql", REACHING_OUT)
async def test_a_query_reaches_no_file_and_no_network(store: Store, tmp_path: Path, sql: str) -> None:
    secret, out = tmp_path / "secret.txt", tmp_path / "out"
    secret.write_text("a secret")
    assert await refused(store, sql.format(secret=secret, out=out))
    assert not out.exists()


@pytest.mark.parametrize("sql", SETTINGS)
async def test_a_query_does_nothing_besides_reading(store: Store, sql: str) -> None:
    threads = found(await store.query("SELECT current_setting('threads'), current_setting('memory_limit')"))
    assert await refused(store, sql)
    assert (
        found(await store.query("SELECT current_setting('threads'), current_setting('memory_limit')"))
        == threads
    )


@pytest.mark.parametrize("sql", SEVERAL)
async def test_a_query_is_one_statement(store: Store, sql: str) -> None:
    assert await refused(store, sql)


@pytest.mark.parametrize("sql", BOMBS)
async def test_a_query_cannot_ask_for_endless_texts_and_lists(store: Store, sql: str) -> None:
    assert await refused(store, sql, timeout_s=20)


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT 1;",
        "  select 1 -- remark",
        "/* first */ SELECT 1 /* last */;",
        "FROM meta",
        "TABLE meta",
        "VALUES (1), (2)",
        "DESCRIBE facts",
        "SHOW TABLES",
        "SUMMARIZE facts",
        "EXPLAIN SELECT 1",
        "EXPLAIN ANALYZE SELECT count(*) FROM facts",
        "-- why\nEXPLAIN (FORMAT json) SELECT 1",
        "WITH RECURSIVE t(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM t WHERE n < 9) SELECT sum(n) FROM t",
        "SELECT * FROM range(1000000000) LIMIT 1",
        "PIVOT messages ON role IN ('user', 'assistant') USING count(*)",
        "SELECT count(*) FROM messages ASOF JOIN sessions ON messages.session_key = sessions.session_key AND messages.id > sessions.id",
        "SELECT bar(5, 0, 10, 20), printf('%.2f', 1.5), lpad('7', 3, '0'), repeat('=', 60)",
        "SELECT list_transform(range(10), lambda x: x + 1)",
        "SELECT * FROM duckdb_columns() WHERE comment IS NULL",
        "SELECT 'DROP TABLE facts; --' AS text",
        "SELECT * FROM latency UNION ALL BY NAME SELECT * FROM latency",
    ],
)
async def test_what_analysts_write_runs(store: Store, sql: str) -> None:
    answer = json.loads((await store.query(sql)).json)
    assert answer["columns"]


async def test_a_cross_join_without_end_is_stopped_in_time(store: Store) -> None:
    sql = "SELECT count(*) FROM range(1000000000) a, range(1000000000) b WHERE hash(a.range, b.range) % 7 = 3"
    said = await refused(store, sql, timeout_s=0.3)
    assert "longer than 0.3 s" in said
    assert found(await store.query("SELECT 42")) == [[42]]


async def test_a_recursion_without_end_is_stopped_in_time(store: Store) -> None:
    sql = "WITH RECURSIVE t(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM t) SELECT count(*) FROM t"
    assert "longer than" in await refused(store, sql, timeout_s=0.3)


async def test_the_writer_goes_on_beside_a_query_without_end(store: Store) -> None:
    sql = "SELECT count(*) FROM range(1000000000) a, range(1000000000) b WHERE hash(a.range, b.range) % 7 = 3"
    endless = asyncio.create_task(store.query(sql, timeout_s=60))
    for seq in range(20):
        await append(store, seq)
    assert not endless.done()
    endless.cancel()
    with pytest.raises(asyncio.CancelledError):
        await endless
    await _query_threads_gone()


async def _query_threads_gone() -> None:
    async with asyncio.timeout(30):
        while any(thread.name.startswith("callboard-query") for thread in threading.enumerate()):
            await asyncio.sleep(0.01)


async def test_closing_stops_what_runs(path: Path) -> None:
    store = Store.open(path, StoreSettings(), WallClock())
    sql = "SELECT count(*) FROM range(1000000000) a, range(1000000000) b WHERE hash(a.range, b.range) % 7 = 3"
    endless = asyncio.create_task(store.query(sql, timeout_s=60))
    await asyncio.sleep(0)
    await store.close()
    with pytest.raises(QueryError):
        await endless
    with pytest.raises(QueryError, match="closed"):
        await store.query("SELECT 1")
    await _query_threads_gone()


async def test_a_query_that_needs_too_much_memory_says_so_and_harms_nobody(path: Path) -> None:
    store = Store.open(path, StoreSettings(memory_limit="100MB", spill_limit="1MB"), WallClock())
    try:
        await append(store)
        said = await refused(store, "SELECT list(range) FROM range(100000000)", timeout_s=60)
        assert "memory_limit (100MB)" in said
        said = await refused(
            store,
            "SELECT a.range FROM range(9000000) a ORDER BY hash(a.range) LIMIT 1 OFFSET 8000000",
            timeout_s=60,
        )
        assert "limit" in said
        await append(store, 1)
    finally:
        await store.close()


async def test_many_rows_are_cut_and_it_is_said(store: Store) -> None:
    answer = await store.query("SELECT * FROM range(100000)", max_rows=10)
    assert len(found(answer)) == answer.rows == 10
    assert answer.truncated is not None
    assert "10 rows" in answer.truncated
    exact = await store.query("SELECT * FROM range(10)", max_rows=10)
    assert (exact.rows, exact.truncated) == (10, None)


async def test_an_answer_has_a_greatest_size(store: Store) -> None:
    sql = "SELECT repeat('x', 100) || repeat('y', 100) || range AS t FROM range(1000000)"
    answer = await store.query(sql, max_rows=10_000_000, timeout_s=120)
    assert answer.truncated is not None
    assert "64 MB" in answer.truncated
    assert len(answer.json) < 65 * 1024 * 1024


async def test_a_mistake_is_told_with_its_place(store: Store) -> None:
    said = await refused(store, "SELECT *\nFORM facts")
    assert "syntax error" in said
    assert "LINE" in said
    assert "^" in said


async def test_an_unknown_column_is_told_with_those_that_are_there(store: Store) -> None:
    said = await refused(store, "SELECT modell FROM model_calls")
    assert "modell" in said
    assert '"model"' in said or "model" in said.split("modell", 1)[1]
    said = await refused(store, "SELECT * FROM mesages")
    assert "messages" in said


async def test_parameters_are_values_and_never_text_of_the_query(store: Store) -> None:
    answer = await store.query("SELECT $1, $2 + 1", ["'; DROP TABLE facts; --", 1])
    assert found(answer) == [["'; DROP TABLE facts; --", 2]]
    assert "parameter" in (await refused(store, "SELECT $1")).lower()


async def test_values_keep_their_meaning_in_json(store: Store) -> None:
    sql = """
    SELECT NULL, true, 1, 9007199254740993, 1.25::DECIMAL(9, 2), 'NaN'::DOUBLE, 'ä\U0001f600',
        TIMESTAMPTZ '2026-01-01 12:00:00+02', TIMESTAMP '2026-01-01 12:00:00', DATE '2026-01-01',
        [1, 2], {'a': 1, 'b': [NULL]}, MAP {'k': 'v'}, '\\xAB'::BLOB, INTERVAL 90 SECONDS,
        'f47ac10b-58cc-4372-a567-0e02b2c3d479'::UUID, TIME '10:00:00'
    """
    assert found(await store.query(sql)) == [
        [
            None,
            True,
            1,
            "9007199254740993",
            "1.25",
            "nan",
            "ä😀",
            "2026-01-01 10:00:00+00",
            "2026-01-01 12:00:00",
            "2026-01-01",
            [1, 2],
            {"a": 1, "b": [None]},
            {"k": "v"},
            "ab",
            "00:01:30",
            "f47ac10b-58cc-4372-a567-0e02b2c3d479",
            "10:00:00",
        ]
    ]


async def test_two_queries_run_side_by_side_and_the_next_waits_its_turn(store: Store) -> None:
    answers = await asyncio.gather(*(store.query("SELECT $1::INTEGER", [n]) for n in range(12)))
    assert [found(answer) for answer in answers] == [[[n]] for n in range(12)]


async def test_texts_and_lists_that_duckdb_does_not_count_are_counted(store: Store) -> None:
    sql = "SELECT max(len(list_transform(range(3000), lambda x: t))) FROM (SELECT repeat('a', 100) || range AS t FROM range(10000000))"
    said = await refused(store, sql, timeout_s=60)
    assert "512 MB" in said or "memory" in said
    await _query_threads_gone()
