"""What is done to a database that no process has open: copy, put back, rewrite, export. All of it blocks."""

import contextlib
import shutil
from collections.abc import Callable, Iterator, Sequence
from datetime import datetime
from pathlib import Path
from typing import NamedTuple

import duckdb

from messages.settings import StoreSettings
from store.mark import mark_path, remove_mark
from store.opening import StoreOpenError, config_of, known_steps, open_error, open_store
from store.recovery import copy_file, newest_id, wal_path

Progress = Callable[[str], None]

INDEX = "index"
"""The folder of the search index beside the database: derived from it, and made anew when it is not there."""


class UpkeepError(Exception):
    """It could not be done: `what`, and the `remedy`. Nothing was changed."""

    def __init__(self, what: str, remedy: str) -> None:
        super().__init__(f"{what} {remedy}")
        self.what = what
        self.remedy = remedy


class Contents(NamedTuple):
    """What a database file holds."""

    facts: int
    newest_id: int
    schema: int


def contents_of(path: Path, settings: StoreSettings) -> Contents:
    """Open a copy without changing it, and read all of its facts. Raises UpkeepError when it is not one of ours."""
    try:
        with contextlib.closing(
            duckdb.connect(path, read_only=True, config=config_of(settings))
        ) as connection:
            connection.execute("SET GLOBAL enable_external_access = false")
            sql = "SELECT value FROM meta WHERE name = 'schema_version'"
            ((schema,),) = connection.execute(sql).fetchall()
            sql = "SELECT count(*), coalesce(sum(length(fact)), 0) FROM facts"
            ((facts, _),) = connection.execute(sql).fetchall()
            found = Contents(facts, newest_id(connection), int(schema))
    except (duckdb.Error, ValueError) as error:
        reason = " ".join(str(error).split())[:200]
        raise UpkeepError(f"{path} is no database of Callboard: {reason}", "Name another file.") from error
    if found.schema > known_steps()[-1].version:
        raise UpkeepError(f"{path} was written by a newer Callboard.", "Use that one.")
    return found


def back_up(path: Path, copy: Path, settings: StoreSettings) -> int:
    """Copy a database that nobody has open: checked and moved into one file first. Returns the size in bytes."""
    opened = open_store(path, settings)
    try:
        opened.connection.execute("CHECKPOINT")
        copy_file(path, copy)  # while it is ours, so that nobody can write into it
    finally:
        opened.connection.close()
        opened.mark.close()
    return copy.stat().st_size


def restore(
    path: Path, backup: Path, settings: StoreSettings, now: datetime
) -> tuple[Contents, tuple[Path, ...]]:
    """Put a backup in the place of the database; return what it holds, and where the old files are kept."""
    _nobody_has(path, settings)
    arriving = path.with_name(f"{path.name}.restoring")
    try:
        if wal_path(backup).exists():
            copy_file(wal_path(backup), wal_path(arriving))
        copy_file(backup, arriving)
        contents = contents_of(arriving, settings)
        kept = _set_aside(path, f"before-restore-{now:%Y%m%dT%H%M%S}")
        arriving.replace(path)
        if wal_path(arriving).exists():
            wal_path(arriving).replace(wal_path(path))
    finally:
        arriving.unlink(missing_ok=True)
        wal_path(arriving).unlink(missing_ok=True)
    remove_mark(mark_path(path))  # it was the other one's
    shutil.rmtree(path.parent / INDEX, ignore_errors=True)
    return contents, kept


def compact(path: Path, settings: StoreSettings, progress: Progress) -> tuple[int, int]:
    """Write the whole database into a new file and take that; return the size before and after, in bytes."""
    opened = open_store(path, settings)  # whatever a fall has left is put right first
    opened.mark.close()
    opened.connection.close()
    before = path.stat().st_size
    fresh = path.with_name(f"{path.name}.compacting")
    fresh.unlink(missing_ok=True)
    if shutil.disk_usage(path.parent).free < before:
        raise UpkeepError(
            f"Rewriting {path} takes {before / 1e6:,.0f} MB for a while.", "Make room on its disk."
        )
    try:
        with contextlib.closing(_connect(path, settings)) as connection:
            progress(f"rewriting {before / 1e6:,.1f} MB")
            connection.execute(f"ATTACH '{_quoted(fresh)}' AS fresh")
            ((ours,),) = connection.execute("SELECT current_database()").fetchall()
            connection.execute(f'COPY FROM DATABASE "{ours}" TO fresh')
            progress("comparing")
            _same_rows(connection, str(ours))
            connection.execute("DETACH fresh")
        fresh.chmod(0o600)
        fresh.replace(path)
    except duckdb.Error as error:
        raise UpkeepError(f"{path} could not be rewritten: {error}", "The file is as it was.") from error
    finally:
        fresh.unlink(missing_ok=True)
        wal_path(fresh).unlink(missing_ok=True)
    return before, path.stat().st_size


def export_parquet(
    path: Path, folder: Path, settings: StoreSettings, progress: Progress
) -> list[tuple[Path, int]]:
    """Write every documented table and view as a Parquet file; return files and numbers of rows."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    written = []
    try:
        with contextlib.closing(
            duckdb.connect(path, read_only=True, config=config_of(settings))
        ) as connection:
            connection.execute("SET TimeZone = 'UTC'")
            for table in _documented(connection):
                file = folder / f"{table}.parquet"
                ((rows,),) = connection.execute(
                    f"COPY (FROM \"{table}\") TO '{_quoted(file)}' (FORMAT parquet, COMPRESSION zstd)"
                ).fetchall()
                progress(f"{file.name}: {rows:,} rows")
                written.append((file, int(rows)))
    except duckdb.Error as error:
        raise UpkeepError(
            f"{path} could not be exported: {error}", "What was written so far stays."
        ) from error
    return written


def accept_loss(path: Path, settings: StoreSettings) -> tuple[str, ...]:
    """Go on with what the database has, whatever the mark says; return what was found and done."""
    opened = open_store(path, settings, accept_loss=True)
    opened.connection.close()
    opened.mark.close()
    return tuple(note.detail for note in opened.notes)


def _documented(connection: duckdb.DuckDBPyConnection) -> Iterator[str]:
    """Name what docs and comments describe: tables first, then the views that are made of them."""
    sql = """
        SELECT table_name FROM duckdb_tables() WHERE NOT internal AND comment IS NOT NULL
        UNION ALL SELECT view_name FROM duckdb_views() WHERE NOT internal AND comment IS NOT NULL
    """
    return (str(name) for (name,) in connection.execute(sql).fetchall())


def _same_rows(connection: duckdb.DuckDBPyConnection, ours: str) -> None:
    """Raise UpkeepError when a table of the new file has other rows than the old one's."""
    tables: Sequence[tuple[str]] = connection.execute(
        "SELECT table_name FROM duckdb_tables() WHERE database_name = ? ORDER BY ALL", [ours]
    ).fetchall()
    for (table,) in tables:
        sql = 'SELECT count(*), bit_xor(hash(t)) FROM {}.main."{}" t'
        old = connection.execute(sql.format(f'"{ours}"', table)).fetchall()
        if connection.execute(sql.format("fresh", table)).fetchall() != old:
            raise UpkeepError(f"The new file has other rows in {table}.", "The old one was kept.")


def _nobody_has(path: Path, settings: StoreSettings) -> None:
    if not path.exists():
        return
    try:
        duckdb.connect(path, read_only=True, config=config_of(settings)).close()
    except duckdb.Error as error:
        if "lock" in str(error):
            found = open_error(path, error)
            raise UpkeepError(found.what, "Stop that process first.") from error


def _set_aside(path: Path, name: str) -> tuple[Path, ...]:
    aside = path.with_name(f"{path.name}.{name}")
    pairs = [(path, aside), (wal_path(path), wal_path(aside))]
    kept = [(file, copy) for file, copy in pairs if file.exists()]
    for file, copy in kept:
        file.replace(copy)
    return tuple(copy for _, copy in kept)


def _connect(path: Path, settings: StoreSettings) -> duckdb.DuckDBPyConnection:
    try:
        return duckdb.connect(path, config=config_of(settings))
    except duckdb.Error as error:
        raise open_error(path, error) from error


def _quoted(path: Path) -> str:
    return str(path).replace("'", "''")


__all__ = [
    "Contents",
    "StoreOpenError",
    "UpkeepError",
    "accept_loss",
    "back_up",
    "compact",
    "contents_of",
    "export_parquet",
    "restore",
]
