"""Opens the database file: checks, settings, schema and its versions, and errors in plain words."""

import contextlib
import os
import re
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import duckdb
import structlog

from actors.clock import Clock, WallClock
from messages.settings import StoreSettings
from store.machine import memory_limit, query_threads
from store.mark import Mark, MarkRead, mark_path, read_mark
from store.processors import workers_keep_one_free
from store.recovery import (
    MOST_CUTS,
    REMEDY,
    Damage,
    Note,
    StoreOpenError,
    copy_file,
    find_missing,
    judge,
    mend_log,
    newest_id,
    say_what_happened,
    wal_path,
    write_again,
)

__all__ = [
    "Opened",
    "Step",
    "StoreOpenError",
    "config_of",
    "is_fatal",
    "is_full",
    "known_steps",
    "open_beside",
    "open_database",
    "open_store",
]

log = structlog.get_logger(__name__)

_FOLDER = Path(__file__).parent
_SMALLEST_BYTES = 12_288
"""Of a database of DuckDB's: its three headers."""
_LEAST_FREE_BYTES = 32 * 1024 * 1024
_BUSY_FACTOR = 4
"""How far the log may outgrow `checkpoint_wal` before DuckDB makes a commit wait for a checkpoint."""

_FULL = re.compile(r"No space left|File too large|quota exceeded", re.IGNORECASE)

_UNITS = {"K": 1, "M": 2, "G": 3}


class Step(NamedTuple):
    """What makes a version of the schema from the one before it."""

    version: int
    sql: str


def known_steps(folder: Path = _FOLDER) -> tuple[Step, ...]:
    """Return schema.sql as version 1 and `migrations/NNNN_*.sql` after it, in order."""
    later = [
        Step(int(path.name[:4]), path.read_text(encoding="utf-8"))
        for path in sorted((folder / "migrations").glob("[0-9][0-9][0-9][0-9]_*.sql"))
    ]
    return (Step(1, (folder / "schema.sql").read_text(encoding="utf-8")), *later)


def size_in_bytes(text: str) -> int:
    """Read a size such as `16MB` or `2GiB`."""
    number, unit = re.fullmatch(r"([\d.]+)\s?([KMG]i?)B", text).groups()  # type: ignore[union-attr]
    return int(float(number) * (1024 if unit.endswith("i") else 1000) ** _UNITS[unit[0]])


def config_of(settings: StoreSettings) -> dict[str, str | bool | int | float | list[str]]:
    """Return DuckDB's configuration. All connections of a process must give the same."""
    return {
        "threads": query_threads(settings),
        "memory_limit": memory_limit(settings),
        "checkpoint_threshold": f"{size_in_bytes(settings.checkpoint_wal) * _BUSY_FACTOR}B",
        "max_temp_directory_size": f"{size_in_bytes(settings.spill_limit)}B",
        # Give memory back after each burst: 10,000 sessions' facts left 70 MB behind, now 19.
        "allocator_flush_threshold": "64KB",
        "allocator_bulk_deallocation_flush_threshold": "64KB",
        "autoinstall_known_extensions": False,
        "autoload_known_extensions": False,
    }


@dataclass(frozen=True, slots=True)
class Opened:
    """An open database: the connection, the mark to be carried on, and what there is to tell."""

    connection: duckdb.DuckDBPyConnection
    mark: Mark
    notes: tuple[Note, ...]


def open_database(
    path: Path, settings: StoreSettings, steps: Sequence[Step] | None = None
) -> duckdb.DuckDBPyConnection:
    """Open or make the database, as `open_store` does, for whoever does not write. Raises StoreOpenError."""
    opened = open_store(path, settings, steps)
    opened.mark.close()
    return opened.connection


def open_store(
    path: Path,
    settings: StoreSettings,
    steps: Sequence[Step] | None = None,
    *,
    clock: Clock | None = None,
    accept_loss: bool = False,
) -> Opened:
    """Open or make the database, at the newest schema and with all that was acknowledged. Blocks.

    Raises StoreOpenError; the files are as they were then. With `accept_loss`, facts
    that cannot be written again are given up. The file is ours alone afterwards:
    no other process can open it, and no SQL of any connection can reach other
    files or change a setting.
    """
    _check_folder(path)
    steps = known_steps() if steps is None else steps
    mark = read_mark(mark_path(path))
    damage = Damage(path, (clock or WallClock()).now())
    if mark is not None and mark.base > 0 and not path.exists() and not accept_loss:
        raise StoreOpenError(
            f"{path} is missing, with {mark.last_id:,} facts that were acknowledged.", REMEDY
        )
    connection = _connect_mending(path, settings, damage, mark, accept_loss=accept_loss)
    try:
        newest = steps[-1].version
        version = _version(connection, path, newest)
        missing = find_missing(connection, mark)
        if missing is not None and mark is not None:
            judge(missing, damage, mark, accept_loss=accept_loss)
            damage.set_aside()  # nothing has been written yet: DuckDB leaves both files alone until then
        damage.decided = True
        if version == 0:
            _apply(connection, steps)
        elif version < newest:
            connection = _migrate(connection, path, settings, version, steps)
        if missing is not None and missing.groups:
            write_again(connection, missing)
        say_what_happened(damage, missing)
        opened = Opened(connection, _carry_on(connection, path, mark), tuple(damage.notes))
        connection.execute("SET GLOBAL TimeZone = 'UTC'")
        connection.execute("SET GLOBAL enable_external_access = false")  # nobody can allow it again
    except (duckdb.Error, StoreOpenError) as error:
        _leave_alone(connection)
        damage.put_back()
        raise (open_error(path, error) if isinstance(error, duckdb.Error) else error) from error
    return opened


def _carry_on(connection: duckdb.DuckDBPyConnection, path: Path, read: MarkRead | None) -> Mark:
    mark, wal = Mark(mark_path(path)), wal_path(path)
    empty = not wal.exists() or wal.stat().st_size == 0
    mark.carry_on(read, newest_id(connection), log_is_empty=empty)
    return mark


def _connect_mending(
    path: Path, settings: StoreSettings, damage: Damage, mark: MarkRead | None, *, accept_loss: bool
) -> duckdb.DuckDBPyConnection:
    """Connect; a log that DuckDB refuses is cut where it becomes unreadable, and tried again."""
    for _ in range(MOST_CUTS):
        try:
            return _connect(path, settings)
        except duckdb.Error as error:
            if not mend_log(damage, error, mark, accept_loss=accept_loss):
                raise open_error(path, error) from error
    try:
        return _connect(path, settings)
    except duckdb.Error as error:
        damage.put_back()
        raise open_error(path, error) from error


def _leave_alone(connection: duckdb.DuckDBPyConnection) -> None:
    """Close without moving the log into the file: somebody has to look at both first."""
    with contextlib.suppress(duckdb.Error):
        connection.execute("PRAGMA disable_checkpoint_on_shutdown")
    connection.close()


def open_beside(path: Path, settings: StoreSettings) -> duckdb.DuckDBPyConnection:
    """Open another connection to a database that this process has open, for another thread."""
    return duckdb.connect(path, config=config_of(settings))


def is_fatal(error: duckdb.Error) -> bool:
    """Whether DuckDB has given the database up: all its connections must be closed."""
    return isinstance(error, duckdb.FatalException | duckdb.InternalException)


def is_full(error: duckdb.Error) -> bool:
    """Whether this says that the disk has no room."""
    return _FULL.search(str(error)) is not None


def open_error(path: Path, error: duckdb.Error) -> StoreOpenError:
    """Put what DuckDB says when it opens a file into a line and a remedy."""
    text = " ".join(str(error).split())
    if "Could not set lock" in text:
        return _lock_error(path, text)
    if "not a valid DuckDB database" in text:
        return StoreOpenError(
            f"{path} is not a DuckDB database.", "Move it away, or name another data folder."
        )
    if "different configuration" in text:
        return StoreOpenError(
            f"{path} is open in this process with other settings.",
            "Close it there, or use the same settings.",
        )
    if "No space left" in text:
        return StoreOpenError(f"The disk of {path.parent} is full.", "Make room, then start again.")
    if "Permission denied" in text:
        return StoreOpenError(
            f"The database {path} cannot be read and written.", "Give this user both rights."
        )
    return StoreOpenError(
        f"{path} cannot be opened: {text[:300]}",
        "Keep copies of the file and its .wal; then go back to a backup: `callboard store restore FILE`.",
    )


def has_room(folder: Path) -> bool:
    """Whether the disk has enough room to go on."""
    return shutil.disk_usage(folder).free >= _LEAST_FREE_BYTES


def _check_folder(path: Path) -> None:
    folder = path.parent
    remedy = "Set CALLBOARD_HOME to a folder that this user may write to."
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        os.listdir(folder)  # noqa: PTH208 only whether it can be read
        free = shutil.disk_usage(folder).free
    except (FileExistsError, NotADirectoryError) as error:
        raise StoreOpenError(f"The data folder {folder} is not a folder.", remedy) from error
    except OSError as error:
        reason = error.strerror or str(error)
        raise StoreOpenError(f"The data folder {folder} cannot be used: {reason}.", remedy) from error
    if not os.access(folder, os.W_OK | os.X_OK):
        raise StoreOpenError(f"The data folder {folder} cannot be written to.", remedy)
    if path.is_dir():
        raise StoreOpenError(f"{path} is a folder, not a database.", "Move it away.")
    if path.exists() and not os.access(path, os.R_OK | os.W_OK):
        raise StoreOpenError(
            f"The database {path} cannot be read and written.", "Give this user both rights."
        )
    if not _looks_like_duckdb(path):
        raise _not_a_database(path)
    if free < _LEAST_FREE_BYTES:
        raise StoreOpenError(
            f"The disk of {folder} is full ({free // 1_000_000} MB free).", "Make room, then start again."
        )


def _looks_like_duckdb(path: Path) -> bool:
    """Whether the file is new, empty or DuckDB's; told another kind, DuckDB looks for an extension."""
    if not path.exists():
        return True
    with path.open("rb") as file:
        start = file.read(12)
    return not start or start[8:] == b"DUCK"


def _not_a_database(path: Path) -> StoreOpenError:
    return StoreOpenError(f"{path} is not a DuckDB database.", "Move it away, or name another data folder.")


def _connect(path: Path, settings: StoreSettings) -> duckdb.DuckDBPyConnection:
    is_new = not path.exists()
    try:
        with workers_keep_one_free():
            connection = duckdb.connect(path, config=config_of(settings))
    except duckdb.Error as error:
        if is_new and "Could not set lock" not in str(error):
            _drop_stump(path)
        raise
    if is_new:
        path.chmod(0o600)
    return connection


def _drop_stump(path: Path) -> None:
    """Take away what DuckDB could not finish, on a full disk for instance: nobody could open it ever after."""
    if path.exists() and path.stat().st_size < _SMALLEST_BYTES:
        path.unlink()


def _lock_error(path: Path, text: str) -> StoreOpenError:
    found = re.search(r"PID (\d+)", text)
    pid = int(found[1]) if found else 0
    holder = f"process {pid}" if pid else "a process in another container or on another machine"
    stop = f"Stop it (kill {pid})" if pid else "Stop it"
    return StoreOpenError(
        f"{path} is in use by {holder}.",
        f"{stop}, ask it over its own commands, or give this one another data folder (CALLBOARD_HOME).",
    )


def _version(connection: duckdb.DuckDBPyConnection, path: Path, newest: int) -> int:
    """Return the schema version of the file; 0 for an empty one. Refuses what is newer than we are."""
    tables = {
        str(name) for (name,) in connection.execute("SELECT table_name FROM duckdb_tables()").fetchall()
    }
    if not tables:
        return 0
    row = (
        connection.execute("SELECT value FROM meta WHERE name = 'schema_version'").fetchone()
        if "meta" in tables
        else None
    )
    if row is None:
        raise StoreOpenError(
            f"{path} is a DuckDB database of another program.", "Move it away, or name another data folder."
        )
    version = int(row[0])
    if version > newest:
        raise StoreOpenError(
            f"{path} has schema version {version}; this callboard knows versions up to {newest}.",
            "Run the newer callboard that wrote it, or give this one another data folder.",
        )
    return version


def _apply(connection: duckdb.DuckDBPyConnection, steps: Sequence[Step]) -> None:
    connection.begin()
    try:
        for step in steps:
            connection.execute(step.sql)
        connection.execute("DELETE FROM meta WHERE name = 'schema_version'")
        connection.execute("INSERT INTO meta VALUES ('schema_version', ?)", [str(steps[-1].version)])
        connection.commit()
    except duckdb.Error:
        connection.rollback()
        raise
    connection.execute("CHECKPOINT")


def _migrate(
    connection: duckdb.DuckDBPyConnection,
    path: Path,
    settings: StoreSettings,
    version: int,
    steps: Sequence[Step],
) -> duckdb.DuckDBPyConnection:
    """Bring an older file up to date; keep a copy of it as it was, and put it back on failure."""
    connection.execute("CHECKPOINT")
    connection.close()
    copy = path.with_name(f"{path.name}.version-{version}")
    _copy(path, copy)
    connection = _connect(path, settings)
    try:
        _apply(connection, [step for step in steps if step.version > version])
    except duckdb.Error as error:
        connection.close()
        path.with_name(f"{path.name}.wal").unlink(missing_ok=True)
        copy.replace(path)
        reason = " ".join(str(error).split())[:300]
        raise StoreOpenError(
            f"{path} could not be brought from schema version {version} to {steps[-1].version}: {reason}",
            "The file is as it was; run the callboard that wrote it, and report this.",
        ) from error
    log.info("store brought up to date", path=str(path), was=version, now=steps[-1].version, copy=str(copy))
    return connection


def _copy(path: Path, copy: Path) -> None:
    try:
        copy_file(path, copy)
    except OSError as error:
        raise StoreOpenError(
            f"{path} must be copied before it is brought up to date, and cannot be: {error.strerror}.",
            "Make room in its folder, then start again.",
        ) from error
