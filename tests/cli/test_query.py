"""`callboard query`, on the file and on a process that runs."""

import csv
import io
import json
from dataclasses import replace
from pathlib import Path

import duckdb
import pytest

from actors.console.cli.charts import bar, bars
from actors.console.cli.invocation import ExitCode
from actors.console.cli.query import QueryAsked, query
from actors.errors import StartError
from store.query import Answer
from tests.cli.house import noted, printed, running, typed
from tests.fakes.desk import FakeDesk

ROLES = "SELECT role, count(*) AS n FROM messages GROUP BY role ORDER BY role"


async def test_the_table_is_for_people(demo: Path) -> None:
    call = typed(demo, FakeDesk())
    assert await query(call, QueryAsked(ROLES)) == ExitCode.OK
    lines = [line.split() for line in printed(call).splitlines() if line.strip()]
    assert lines[0] == ["role", "n"]
    assert lines[2][0] == "assistant"
    assert "2 rows" in noted(call)


async def test_nothing_that_a_terminal_would_obey_is_printed(demo: Path) -> None:
    call = typed(demo, FakeDesk())
    await query(call, QueryAsked("SELECT chr(27) || '[31mred' AS a, NULL AS b, [1, NULL] AS c"))
    assert "\x1b" not in printed(call)
    assert "NULL" in printed(call)


async def test_csv_and_json_are_for_programs(demo: Path) -> None:
    sql = "SELECT 'a,\"b\"' AS text, NULL AS nothing, 1 AS n, 2 AS n, true AS yes, [1, 2] AS list"
    call = typed(demo, FakeDesk())
    await query(call, QueryAsked(sql, form="csv"))
    header, row = csv.reader(io.StringIO(printed(call)))
    assert header == ["text", "nothing", "n", "n", "yes", "list"]
    assert row == ['a,"b"', "", "1", "2", "true", "[1, 2]"]
    call = typed(demo, FakeDesk())
    await query(call, QueryAsked(sql, form="json"))
    assert json.loads(printed(call)) == [
        {"text": 'a,"b"', "nothing": None, "n": 1, "n_1": 2, "yes": True, "list": [1, 2]}
    ]


async def test_no_rows_are_no_mistake(demo: Path) -> None:
    for form, text in (("json", "[]"), ("csv", "a")):
        call = typed(demo, FakeDesk())
        asked = QueryAsked("SELECT 1 AS a WHERE false", form=form)  # type: ignore[arg-type]
        assert await query(call, asked) == ExitCode.OK
        assert printed(call).strip() == text


def files_in(folder: Path) -> list[str]:
    return [path.name for path in folder.iterdir() if path.is_file()]


async def test_parquet_keeps_types(demo: Path, tmp_path: Path) -> None:
    file = tmp_path / "out's.parquet"
    sql = """
    SELECT id, said_at, text, 1.5::DECIMAL(9, 2) AS d, [1, 2] AS l, {'a': 'x'} AS s, '\\xAB'::BLOB AS b,
        NULL AS nothing, DATE '2026-01-01' AS day, 'NaN'::DOUBLE AS nan, INTERVAL 25 HOURS AS span, id AS id
    FROM messages ORDER BY id LIMIT 3
    """
    call = typed(demo, FakeDesk())
    assert await query(call, QueryAsked(sql, parquet=file)) == ExitCode.OK
    with duckdb.connect() as connection:
        connection.execute("SET TimeZone = 'UTC'")
        found = connection.execute("SELECT * FROM read_parquet(?)", [str(file)])
        types = {column[0]: str(column[1]) for column in found.description or []}
        rows = found.fetchall()
    assert types["said_at"] == "TIMESTAMP WITH TIME ZONE"
    assert types["d"] == "DECIMAL(9,2)"
    assert types["l"] == "INTEGER[]"
    assert types["b"] == "BLOB"
    assert "id_1" in types
    assert len(rows) == 3
    assert rows[0][6] == b"\xab"
    assert files_in(tmp_path) == [file.name]


async def test_a_file_that_cannot_be_written_is_told(demo: Path, tmp_path: Path) -> None:
    call = typed(demo, FakeDesk())
    asked = QueryAsked("SELECT 1", parquet=tmp_path / "nowhere" / "x.parquet")
    assert await query(call, asked) == ExitCode.FAILED
    assert "cannot be written" in noted(call)


async def test_a_plot_has_a_bar_for_each_label(demo: Path) -> None:
    call = typed(demo, FakeDesk())
    await query(call, QueryAsked("SELECT 'a' AS k, 10 AS n UNION ALL SELECT 'bb', 5 ORDER BY k", form="plot"))
    one, two = printed(call).splitlines()
    assert one.startswith("a ")
    assert one.count("█") == 2 * two.count("█")
    call = typed(demo, FakeDesk())
    assert await query(call, QueryAsked("SELECT 'a' AS k", form="plot")) == ExitCode.USAGE
    assert "column of numbers" in noted(call)


async def test_what_is_wrong_is_told_with_its_place_and_changes_nothing(demo: Path) -> None:
    for sql, word in (
        ("SELECT modell FROM model_calls", "model"),
        ("DROP TABLE facts", "SELECT"),
        ("SELEC 1", "^"),
    ):
        call = typed(demo, FakeDesk())
        assert await query(call, QueryAsked(sql)) == ExitCode.USAGE
        assert word in noted(call)
        assert printed(call) == ""


async def test_cut_rows_are_told(demo: Path) -> None:
    call = typed(demo, FakeDesk())
    await query(call, QueryAsked("SELECT * FROM range(100)", limit=10))
    assert "the first 10 rows" in noted(call)


async def test_before_the_first_start_there_is_nothing_to_ask(tmp_path: Path) -> None:
    with pytest.raises(StartError, match="no history"):
        await query(typed(tmp_path, FakeDesk()), QueryAsked("SELECT 1"))


async def test_a_process_that_runs_is_asked(tmp_path: Path) -> None:
    desk = FakeDesk()
    body = {"columns": [{"name": "n", "type": "INTEGER"}], "truncated": None, "rows": [[7]]}
    desk.answers = Answer(json.dumps(body).encode(), 1, None)
    call = typed(tmp_path, desk)
    async with running(tmp_path, desk):
        assert await query(call, QueryAsked("SELECT 7 AS n", form="json")) == ExitCode.OK
        assert json.loads(printed(call)) == [{"n": 7}]
        assert desk.queries == [("SELECT 7 AS n", ())]
        desk.query_fails = "no such column"
        call = replace(call, stdout=io.StringIO(), stderr=io.StringIO())
        assert await query(call, QueryAsked("SELECT x")) == ExitCode.USAGE
    assert "no such column" in noted(call)


def test_bars_are_never_longer_than_their_room() -> None:
    assert bar(1, 1, 10) == "█" * 10
    assert bar(0, 1, 10) == ""
    assert bar(0.000001, 1, 10) == "▏"
    assert bar(2, 1, 10) == "█" * 10
    assert bar(float("nan"), 1, 10) == ""
    lines = bars(["日本", "a"], {"n": [3.0, None]}, 40)
    assert "unknown" in lines[1].plain
