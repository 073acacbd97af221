"""Opening: what is wrong is said in one line, with its remedy, and the file is unharmed."""

import asyncio
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import duckdb
import pytest

from actors.clock import WallClock
from messages.ids import StreamId
from messages.settings import StoreSettings
from messages.system import ProcessStopped
from store.opening import Step, StoreOpenError, known_steps, open_database, open_error, size_in_bytes
from store.store import Store
from tests.store.test_store import AT

SETTINGS = StoreSettings()
SYSTEM = StreamId("system")

AS_NOBODY = """
import os, sys
from pathlib import Path
from actors.clock import WallClock
from messages.settings import StoreSettings
from store.store import Store, StoreOpenError
os.setgroups([])
os.setgid(65534)
os.setuid(65534)
try:
    Store.open(Path(sys.argv[1]), StoreSettings(), WallClock())
except StoreOpenError as error:
    print(error)
    raise SystemExit(3)
"""

IN_SO_MANY_BYTES = """
import resource, signal, sys
from pathlib import Path
from actors.clock import WallClock
from messages.settings import StoreSettings
from store.store import Store, StoreOpenError
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv[2]), resource.RLIM_INFINITY))
try:
    Store.open(Path(sys.argv[1]), StoreSettings(), WallClock())
except StoreOpenError as error:
    print(error)
    raise SystemExit(3)
"""

HOLDER = """
import asyncio, sys
from pathlib import Path
from actors.clock import WallClock
from messages.settings import StoreSettings
from store.store import Store, StoreOpenError
try:
    store = Store.open(Path(sys.argv[1]), StoreSettings(), WallClock())
except StoreOpenError as error:
    print(error)
    raise SystemExit(3)
print("open", flush=True)
sys.stdin.readline()
asyncio.run(store.close())
"""


def refusal(path: Path) -> StoreOpenError:
    with pytest.raises(StoreOpenError) as refused:
        Store.open(path, SETTINGS, WallClock())
    assert "\n" not in str(refused.value)
    assert refused.value.remedy.endswith(".")
    return refused.value


async def written(path: Path) -> None:
    store = Store.open(path, SETTINGS, WallClock())
    await store.journal.append(SYSTEM, 0, [ProcessStopped(life="l", at=AT)])
    await store.close()


async def intact(path: Path) -> bool:
    store = Store.open(path, SETTINGS, WallClock())
    facts = await store.journal.read(SYSTEM)
    await store.close()
    return [recorded.fact for recorded in facts] == [ProcessStopped(life="l", at=AT)]


@pytest.mark.slow
@pytest.mark.parametrize("room", [0, 4096, 8192, 12_288, 20_000, 150_000])
def test_a_disk_that_is_full_at_the_first_start_leaves_nothing_behind_that_cannot_be_opened(
    path: Path, room: int
) -> None:
    done = subprocess.run(
        [sys.executable, "-c", IN_SO_MANY_BYTES, str(path), str(room)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode in (0, 3), done.stderr
    assert done.returncode == 3 or room > 12_288
    asyncio.run(written(path))
    assert asyncio.run(intact(path))


@pytest.mark.slow
def test_B01_a_second_process_is_told_who_holds_the_file_and_harms_nothing(path: Path) -> None:
    asyncio.run(written(path))
    holder = subprocess.Popen(
        [sys.executable, "-c", HOLDER, path], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert holder.stdin is not None
    assert holder.stdout is not None
    try:
        assert holder.stdout.readline() == "open\n"
        refused = refusal(path)
        assert f"in use by process {holder.pid}" in refused.what
        second = subprocess.run(
            [sys.executable, "-c", HOLDER, path],
            capture_output=True,
            text=True,
            check=False,
            stdin=subprocess.DEVNULL,
        )
        assert second.returncode == 3
        assert second.stdout.splitlines() == [str(refused)]
        assert second.stderr == ""
    finally:
        holder.communicate("\n")
    assert holder.returncode == 0
    assert asyncio.run(intact(path))


async def test_B01_this_process_cannot_open_it_twice_with_other_settings(path: Path) -> None:
    store = Store.open(path, SETTINGS, WallClock())
    with pytest.raises(StoreOpenError, match="open in this process with other settings"):
        Store.open(path, StoreSettings(threads=3), WallClock())
    await store.close()


def test_B01_a_holder_in_another_container_has_no_number(path: Path) -> None:
    text = f'IO Error: Could not set lock on file "{path}": Conflicting lock is held in python (PID 0). See also …'
    error = open_error(path, duckdb.IOException(text))
    assert error.what == f"{path} is in use by a process in another container or on another machine."
    assert "kill" not in error.remedy


def test_a_full_disk_says_so(path: Path) -> None:
    text = f'IO Error: Could not write file "{path}": No space left on device'
    assert open_error(path, duckdb.IOException(text)).what == f"The disk of {path.parent} is full."


def test_a_folder_that_is_a_file(tmp_path: Path) -> None:
    (tmp_path / "home").write_text("x")
    assert "is not a folder" in refusal(tmp_path / "home" / "callboard.duckdb").what
    assert "is not a folder" in refusal(tmp_path / "home" / "deeper" / "callboard.duckdb").what


def test_a_folder_that_cannot_be_made() -> None:
    assert "cannot be used" in refusal(Path("/proc/callboard/callboard.duckdb")).what


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
@pytest.mark.parametrize("mode", [0o000, 0o500, 0o300])
def test_a_folder_without_rights(tmp_path: Path, mode: int) -> None:
    folder = tmp_path / "home"
    folder.mkdir(mode=mode)
    assert "data folder" in refusal(folder / "callboard.duckdb").what


@pytest.mark.slow
@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become somebody else")
@pytest.mark.parametrize("mode", [0o500, 0o555, 0o700])
def test_a_folder_that_belongs_to_somebody_else(mode: int) -> None:
    with tempfile.TemporaryDirectory(prefix="callboard-test-") as place:
        folder = Path(place) / "home"
        asyncio.run(written(folder / "callboard.duckdb"))
        before = (folder / "callboard.duckdb").read_bytes()
        Path(place).chmod(0o755)
        folder.chmod(mode)
        child = subprocess.run(
            [sys.executable, "-c", AS_NOBODY, folder / "callboard.duckdb"],
            capture_output=True,
            text=True,
            check=False,
        )
        assert (child.returncode, child.stderr) == (3, "")
        assert child.stdout.startswith(f"The data folder {folder} cannot be ")
        assert len(child.stdout.splitlines()) == 1
        assert sorted(file.name for file in folder.iterdir()) == ["callboard.duckdb", "callboard.mark"]
        assert (folder / "callboard.duckdb").read_bytes() == before


def test_a_folder_in_the_place_of_the_file(path: Path) -> None:
    path.mkdir()
    assert "is a folder" in refusal(path).what


@pytest.mark.parametrize("content", [b"x", b"not a database\n" * 1000, b"SQLite format 3\0" + b"\0" * 9000])
def test_a_file_that_is_no_database(path: Path, content: bytes) -> None:
    path.write_bytes(content)
    assert refusal(path).what == f"{path} is not a DuckDB database."
    assert path.read_bytes() == content


def test_a_database_of_another_program(path: Path) -> None:
    with duckdb.connect(path) as other:
        other.execute("CREATE TABLE birds (name VARCHAR)")
    assert "of another program" in refusal(path).what
    with duckdb.connect(path) as other:
        assert other.execute("SELECT table_name FROM duckdb_tables()").fetchall() == [("birds",)]


def test_a_new_file_and_its_folder_are_the_owners_alone(tmp_path: Path) -> None:
    path = tmp_path / "new" / "home" / "callboard.duckdb"
    open_database(path, SETTINGS).close()
    assert path.stat().st_mode & 0o077 == 0
    assert path.parent.stat().st_mode & 0o077 == 0


async def test_a_newer_schema_is_refused_and_left_alone(path: Path) -> None:
    await written(path)
    open_database(
        path, SETTINGS, [*known_steps(), Step(2, "ALTER TABLE lives ADD COLUMN host VARCHAR")]
    ).close()
    assert "schema version 2; this callboard knows versions up to 1" in refusal(path).what
    assert await intact(path.with_name("callboard.duckdb.version-1"))


async def test_a_migration_keeps_what_was_there_and_a_copy(path: Path) -> None:
    await written(path)
    steps = [
        *known_steps(),
        Step(2, "ALTER TABLE lives ADD COLUMN host VARCHAR"),
        Step(3, "CREATE TABLE pets (name VARCHAR); INSERT INTO pets VALUES ('cat')"),
    ]
    connection = open_database(path, SETTINGS, steps)
    assert connection.execute("SELECT life, event, host FROM lives").fetchall() == [("l", "stopped", None)]
    assert connection.execute("FROM pets").fetchall() == [("cat",)]
    assert connection.execute("FROM meta WHERE name = 'schema_version'").fetchall() == [
        ("schema_version", "3")
    ]
    connection.close()
    again = open_database(path, SETTINGS, steps)  # once is enough
    assert again.execute("FROM pets").fetchall() == [("cat",)]
    again.close()


async def test_a_failed_migration_leaves_the_file_as_it_was(path: Path) -> None:
    await written(path)
    steps = [*known_steps(), Step(2, "ALTER TABLE lives ADD COLUMN host VARCHAR; DROP TABLE unknown")]
    for _ in range(2):
        with pytest.raises(StoreOpenError, match=r"from schema version 1 to 2: .*unknown"):
            open_database(path, SETTINGS, steps)
        assert sorted(file.name for file in path.parent.iterdir()) == ["callboard.duckdb", "callboard.mark"]
    assert await intact(path)


@pytest.mark.parametrize(("text", "size"), [("16MB", 16_000_000), ("1.5 GB", 1_500_000_000), ("2KiB", 2048)])
def test_sizes(text: str, size: int) -> None:
    assert size_in_bytes(text) == size
