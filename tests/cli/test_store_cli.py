"""`callboard store`: on a database that nobody uses, and beside a process that runs on it."""

import json
import os
import shutil
from pathlib import Path

import duckdb
import pytest

from actors.clock import WallClock
from actors.console.cli.invocation import ExitCode, Invocation
from actors.console.cli.store import (
    accept_loss_in_store,
    back_up_store,
    check_store,
    compact_store,
    export_store,
    restore_store,
)
from actors.errors import StartError
from messages.ids import StreamId
from messages.settings import StoreSettings
from store.mark import mark_path
from store.recovery import wal_path
from store.store import Store
from tests.cli.house import noted, printed, running, typed
from tests.fakes.desk import FakeDesk
from tests.store.test_store import incident

pytestmark = pytest.mark.slow

A = StreamId("session:a")
FACTS = 50


def command(home: Path) -> Invocation:
    return typed(home, FakeDesk())


async def written(home: Path, facts: int = FACTS, *, stream: StreamId = A) -> Path:
    path = home / "callboard.duckdb"
    store = Store.open(path, StoreSettings(), WallClock())
    known = len(await store.journal.read(stream))
    for number in range(known, known + facts):
        await store.journal.append(stream, number, [incident(f"{number} " + "x" * 200)])
    await store.close()
    return path


async def facts_in(path: Path) -> int:
    store = Store.open(path, StoreSettings(), WallClock())
    count = len(await store.journal.read(A))
    await store.close()
    return count


def copied(file: Path, name: str) -> Path:
    copy = file.with_name(name)
    shutil.copyfile(file, copy)
    return copy


def make_folder(folder: Path) -> None:
    folder.mkdir()


def put(file: Path, content: bytes) -> Path:
    file.write_bytes(content)
    return file


def is_private(file: Path) -> bool:
    return file.stat().st_mode & 0o077 == 0


def content_of(file: Path) -> bytes:
    return file.read_bytes()


def names(folder: Path) -> set[str]:
    return set(os.listdir(folder))  # noqa: PTH208 names are wanted


def changed(path: Path, sql: str) -> None:
    with duckdb.connect(path) as connection:
        connection.execute(sql)


# ------------------------------------------------------------------------ check


async def test_a_good_database_passes(tmp_path: Path) -> None:
    await written(tmp_path)
    asked = command(tmp_path)
    assert await check_store(asked, everything=True, as_json=False) == ExitCode.OK
    text = printed(asked)
    assert "50 facts in 1 streams, numbers 1 to 50" in text
    assert "the rows of all 50 facts are there" in text
    assert "last noted: 50" in text
    assert "fail" not in text


@pytest.mark.parametrize(
    ("sql", "subject"),
    [
        ("DELETE FROM facts WHERE seq = 7", "stream"),
        ("DELETE FROM facts WHERE seq = 1", "stream"),
        ("UPDATE facts SET seq = CASE seq WHEN 7 THEN 8 WHEN 8 THEN 7 ELSE seq END", "streams"),
        ("DELETE FROM incidents WHERE id = 9", "derived rows"),
        ("INSERT INTO incidents (id) VALUES (9999), (3)", None),
        ("INSERT INTO turns (id) VALUES (3)", "derived rows"),
        ("UPDATE meta SET value = '0' WHERE name = 'schema_version'", "versions"),
        ("DELETE FROM facts WHERE seq > 40; DELETE FROM incidents WHERE id > 40", "mark"),
    ],
)
async def test_what_is_wrong_is_found(tmp_path: Path, sql: str, subject: str | None) -> None:
    path = await written(tmp_path)
    changed(path, sql)
    asked = command(tmp_path)
    code = await check_store(asked, everything=True, as_json=True)
    found = {finding["subject"] for finding in json.loads(printed(asked)) if finding["verdict"] == "fail"}
    if subject is not None:
        assert code == ExitCode.FAILED
        assert subject in found


async def test_check_changes_nothing_also_not_a_torn_log(tmp_path: Path) -> None:
    path = await written(tmp_path)
    before = path.read_bytes()
    assert await check_store(command(tmp_path), everything=False, as_json=False) == ExitCode.OK
    assert path.read_bytes() == before


async def test_without_a_database_there_is_nothing_to_check(tmp_path: Path) -> None:
    with pytest.raises(StartError, match="no database"):
        await check_store(command(tmp_path), everything=False, as_json=False)


# ------------------------------------------------------------- backup and restore


async def test_a_backup_is_whole_and_can_be_put_back(tmp_path: Path) -> None:
    path = await written(tmp_path)
    asked = command(tmp_path)
    assert await back_up_store(asked, None) == ExitCode.OK
    backup = Path(printed(asked).strip())
    assert backup.parent == tmp_path / "backups"
    assert is_private(backup)
    assert "50 facts" in noted(asked)
    await written(tmp_path, 10)
    make_folder(tmp_path / "index")
    told = command(tmp_path)
    assert await restore_store(told, backup, yes=False) == ExitCode.USAGE
    assert "--yes" in noted(told)
    assert await facts_in(path) == 60
    assert await restore_store(command(tmp_path), backup, yes=True) == ExitCode.OK
    assert await facts_in(path) == 50
    (old,) = (tmp_path / name for name in names(tmp_path) if "before-restore" in name)
    assert await facts_in(copied(old, "old.duckdb")) == 60
    assert not (tmp_path / "index").exists(), "it is made anew"
    await written(tmp_path, 1)
    assert await facts_in(path) == 51


async def test_a_backup_overwrites_nothing(tmp_path: Path) -> None:
    await written(tmp_path)
    target = put(tmp_path / "precious", b"mine")
    with pytest.raises(StartError, match="there already"):
        await back_up_store(command(tmp_path), target)
    assert content_of(target) == b"mine"


@pytest.mark.parametrize("content", [b"", b"no database", b"SQLite format 3\0" * 1000])
async def test_what_is_no_backup_is_not_restored(tmp_path: Path, content: bytes) -> None:
    path = await written(tmp_path)
    bad = put(tmp_path / "bad", content)
    before = names(tmp_path)
    with pytest.raises(StartError, match="is no database of Callboard"):
        await restore_store(command(tmp_path), bad, yes=True)
    assert names(tmp_path) == before
    assert await facts_in(path) == FACTS


async def test_a_damaged_database_is_no_obstacle_to_a_restore(tmp_path: Path) -> None:
    path = await written(tmp_path)
    backup = copied(path, "backup")
    path.write_bytes(b"\0" * 5000)
    assert await restore_store(command(tmp_path), backup, yes=True) == ExitCode.OK
    assert await facts_in(path) == FACTS


# ---------------------------------------------------------------- the other verbs


async def test_compacting_keeps_every_row_comment_and_view(tmp_path: Path) -> None:
    path = await written(tmp_path, 400)
    changed(path, "CREATE TABLE heap AS SELECT range AS n FROM range(500000); DROP TABLE heap")
    asked = command(tmp_path)
    assert await compact_store(asked) == ExitCode.OK
    assert "before" in printed(asked)
    assert await facts_in(path) == 400
    assert await check_store(command(tmp_path), everything=True, as_json=False) == ExitCode.OK
    with duckdb.connect(path, read_only=True) as connection:
        bare = connection.execute(
            "SELECT count(*) FROM duckdb_columns() WHERE NOT internal AND comment IS NULL"
        ).fetchall()
    assert bare == [(0,)]
    assert not [name for name in names(tmp_path) if "compacting" in name]


async def test_every_table_is_exported(tmp_path: Path) -> None:
    await written(tmp_path)
    asked = command(tmp_path)
    assert await export_store(asked, tmp_path / "out") == ExitCode.OK
    files = {Path(line).name for line in printed(asked).splitlines()}
    assert {"facts.parquet", "messages.parquet", "incidents.parquet", "turns.parquet"} <= files
    assert names(tmp_path / "out") == files
    file = tmp_path / "out" / "incidents.parquet"
    assert duckdb.execute(f"SELECT count(*), min(child) FROM '{file}'").fetchall() == [(FACTS, "store")]
    assert "incidents.parquet: 50 rows" in noted(asked)


async def test_a_loss_is_accepted_by_a_person_and_stays_in_the_history(tmp_path: Path) -> None:
    path = await written(tmp_path, 5)
    older = path.read_bytes()
    await written(tmp_path, 5)
    path.write_bytes(older)
    asked = command(tmp_path)
    assert await check_store(asked, everything=False, as_json=False) == ExitCode.FAILED
    assert "5 acknowledged facts are not in the database (numbers 6 to 10)" in printed(asked)
    assert await accept_loss_in_store(command(tmp_path), yes=False) == ExitCode.USAGE
    told = command(tmp_path)
    assert await accept_loss_in_store(told, yes=True) == ExitCode.OK
    assert "5 ACKNOWLEDGED FACTS ARE LOST" in printed(told)
    store = Store.open(path, StoreSettings(), WallClock())
    rows = (await store.select("SELECT child, what, detail FROM incidents ORDER BY id DESC LIMIT 1")).rows
    await store.close()
    assert rows[0][:2] == ("store", "degraded")
    assert "LOST" in str(rows[0][2])
    again = command(tmp_path)
    assert await accept_loss_in_store(again, yes=True) == ExitCode.OK
    assert printed(again) == "Nothing is missing.\n"
    assert mark_path(path).exists()
    assert not wal_path(path).exists()


# -------------------------------------------------------------- beside a process


async def test_beside_a_process_a_backup_is_asked_of_it_and_the_rest_waits(tmp_path: Path) -> None:
    await written(tmp_path)
    async with running(tmp_path, FakeDesk()):
        for verb in (
            compact_store(command(tmp_path)),
            restore_store(command(tmp_path), tmp_path / "x", yes=True),
            accept_loss_in_store(command(tmp_path), yes=True),
        ):
            with pytest.raises(StartError, match="while process"):
                await verb
        with pytest.raises(StartError, match="is no database"):  # the fake's copy is none: it was looked at
            await back_up_store(command(tmp_path), tmp_path / "copy.duckdb")
        assert (tmp_path / "copy.duckdb").read_bytes() == b"a copy"
