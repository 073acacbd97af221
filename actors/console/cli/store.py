"""`callboard store`: look at the database, copy it, put it back, rewrite it, export it.

A running process has the file to itself. What can be done beside it is asked of it
over the control socket; what cannot says so.
"""

import json
import tempfile
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import asdict
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from actors.clock import WallClock
from actors.console.cli.client import ApiFailureError, ControlClient
from actors.console.cli.invocation import ExitCode, Invocation
from actors.console.cli.running import RunningProcess, find_running
from actors.console.cli.shelf import DATABASE
from actors.errors import StartError

if TYPE_CHECKING:
    from messages.settings import StoreSettings
    from store.check import Ask, Finding

T = TypeVar("T")


async def check_store(invocation: Invocation, *, everything: bool, as_json: bool) -> int:
    """Look at the database, of the running process or on the file. Returns FAILED when something is wrong."""
    from store.check import check  # noqa: PLC0415 it brings DuckDB

    path = _database(invocation)
    async with _asking(invocation, path) as ask:
        findings = await check(path, ask, everything=everything, progress=invocation.note)
    if as_json:
        invocation.out(json.dumps([asdict(finding) for finding in findings], indent=1))
    else:
        _show(invocation, findings)
    return ExitCode.FAILED if any(f.verdict == "fail" for f in findings) else ExitCode.OK


def _show(invocation: Invocation, findings: "Sequence[Finding]") -> None:
    for finding in findings:
        invocation.out(f"{finding.verdict:<5} {finding.subject}: {finding.what}")
        if finding.remedy:
            invocation.out(f"      {finding.remedy}")


async def back_up_store(invocation: Invocation, copy: Path | None) -> int:
    """Write a consistent copy, and open it to see that it is one."""
    from store.upkeep import contents_of  # noqa: PLC0415 it brings DuckDB

    path, settings = _database(invocation), _settings(invocation)
    target = _new_file(copy or invocation.home / "backups", is_folder=copy is None)
    size = await _copied(invocation, path, target, settings)
    contents = _told(lambda: contents_of(target, settings))
    invocation.out(str(target))
    invocation.note(f"{size / 1e6:,.1f} MB, {contents.facts:,} facts; the copy opens and can be read.")
    return ExitCode.OK


async def restore_store(invocation: Invocation, backup: Path, *, yes: bool) -> int:
    """Put a backup in the database's place; the old files stay beside it."""
    from store.upkeep import contents_of, restore  # noqa: PLC0415 it brings DuckDB

    _must_be_stopped(invocation, "restored")
    settings, backup = _settings(invocation), _existing(backup)
    contents = _told(lambda: contents_of(backup, settings))
    path = invocation.home / DATABASE
    if not yes:
        invocation.note(
            f"{backup} holds {contents.facts:,} facts. It would take the place of {path}, which is kept"
            " under another name. Say --yes to do it."
        )
        return ExitCode.USAGE
    contents, kept = _told(lambda: restore(path, backup, settings, _now()))
    invocation.out(f"{path} is now {backup.name}: {contents.facts:,} facts.")
    for file in kept:
        invocation.note(f"The old file is kept as {file}.")
    return ExitCode.OK


async def compact_store(invocation: Invocation) -> int:
    """Rewrite the file without what was deleted."""
    from store.upkeep import compact  # noqa: PLC0415 it brings DuckDB

    _must_be_stopped(invocation, "rewritten")
    path, settings = _database(invocation), _settings(invocation)
    before, after = _told(lambda: compact(path, settings, invocation.note))
    invocation.out(f"{before / 1e6:,.1f} MB before, {after / 1e6:,.1f} MB now.")
    return ExitCode.OK


async def export_store(invocation: Invocation, folder: Path) -> int:
    """Write all tables and views as Parquet files, from a copy, so that a running process goes on."""
    from store.upkeep import export_parquet  # noqa: PLC0415 it brings DuckDB

    path, settings = _database(invocation), _settings(invocation)
    folder = _make_folder(folder)
    with tempfile.TemporaryDirectory(prefix=".callboard-export-", dir=folder) as place:
        copy = Path(place) / DATABASE
        await _copied(invocation, path, copy, settings)
        written = _told(lambda: export_parquet(copy, folder, settings, invocation.note))
    for file, _ in written:
        invocation.out(str(file))
    return ExitCode.OK


async def accept_loss_in_store(invocation: Invocation, *, yes: bool) -> int:
    """Go on with what the database has, although the mark knows of more."""
    from store.upkeep import accept_loss  # noqa: PLC0415 it brings DuckDB

    _must_be_stopped(invocation, "changed")
    path, settings = invocation.home / DATABASE, _settings(invocation)
    if not yes:
        invocation.note(
            "What was acknowledged and cannot be found would be given up for good. Look at"
            " `callboard store check` first; a backup may have it. Say --yes to do it."
        )
        return ExitCode.USAGE
    found = _told(lambda: accept_loss(path, settings))
    for line in found:
        invocation.out(line)
    if found:
        await _write_down(path, settings, found)
    else:
        invocation.out("Nothing is missing.")
    return ExitCode.OK


# ------------------------------------------------------------------ the parts


def _database(invocation: Invocation) -> Path:
    path = invocation.home / DATABASE
    if not path.exists():
        raise StartError(f"There is no database in {invocation.home}.", "Name the data folder with --home.")
    return path


def _settings(invocation: Invocation) -> "StoreSettings":
    return invocation.read_settings().settings.store


def _must_be_stopped(invocation: Invocation, what: str) -> None:
    running = find_running(invocation.home)
    if running is not None:
        raise StartError(
            f"The database cannot be {what} while process {running.pid} runs on it.",
            f"Stop it first (kill {running.pid}, or Ctrl-C in its terminal).",
        )


def _make_folder(folder: Path) -> Path:
    folder = folder.expanduser().absolute()
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise StartError(
            f"The folder {folder} cannot be made: {error.strerror}.", "Name another one."
        ) from None
    return folder


def _new_file(named: Path, *, is_folder: bool) -> Path:
    """Return where a backup goes: the file that was named, or one named after the time in a folder."""
    target = named.expanduser().absolute()
    if is_folder or target.is_dir():
        target /= f"callboard-{_now():%Y%m%dT%H%M%S}.duckdb"
    if target.exists():
        raise StartError(f"{target} is there already.", "Name another file, or move that one away.")
    _make_folder(target.parent)
    return target


def _existing(backup: Path) -> Path:
    backup = backup.expanduser().absolute()
    if not backup.is_file():
        raise StartError(f"There is no file {backup}.", "Name a backup; see `callboard store backup`.")
    return backup


def _megabytes(file: Path) -> str:
    return f"{file.stat().st_size / 1e6:,.1f} MB"


def _told(work: Callable[[], T]) -> T:
    """Do it; what goes wrong outside of the program is told in a line."""
    from store.upkeep import StoreOpenError, UpkeepError  # noqa: PLC0415 it brings DuckDB

    try:
        return work()
    except (StoreOpenError, UpkeepError) as error:
        raise StartError(error.what, error.remedy) from error
    except OSError as error:
        raise StartError(
            f"{error.filename or 'A file'}: {error.strerror}.", "Make room, or name another place."
        ) from error


async def _copied(invocation: Invocation, path: Path, target: Path, settings: "StoreSettings") -> int:
    from store.upkeep import back_up  # noqa: PLC0415 it brings DuckDB

    running = find_running(invocation.home)
    invocation.note(f"copying {_megabytes(path)} …")
    if running is None:
        return _told(lambda: back_up(path, target, settings))
    async with _client(running) as client:
        try:
            answer = await client.post("/api/store/backup", {"path": str(target)}, within_s=3600.0)
        except ApiFailureError as error:
            raise StartError(
                f"The running process could not copy it: {error}.", "Name another place."
            ) from error
    return int(answer["bytes"])


def _client(running: RunningProcess) -> ControlClient:
    return ControlClient(lambda: running.socket, WallClock())


@asynccontextmanager
async def _asking(invocation: Invocation, path: Path) -> "AsyncIterator[Ask]":
    """Yield what runs a SELECT: in the running process, else on the file, which is left as it is."""
    running = find_running(invocation.home)
    if running is not None:
        async with _client(running) as client:

            async def over_the_socket(sql: str) -> Sequence[Sequence[object]]:
                body = {"sql": sql, "timeout_s": 600.0, "max_rows": 20_000}
                answer = await client.post("/api/query", body, within_s=660.0)
                rows: Sequence[Sequence[object]] = answer["rows"]
                return rows

            yield over_the_socket
        return
    import duckdb  # noqa: PLC0415 heavy, and only needed here

    from store.opening import config_of, open_error  # noqa: PLC0415 the same

    try:
        connection = duckdb.connect(path, read_only=True, config=config_of(_settings(invocation)))
    except duckdb.Error as error:
        found = open_error(path, error)
        raise StartError(found.what, found.remedy) from error

    async def of_the_file(sql: str) -> Sequence[Sequence[object]]:
        return connection.execute(sql).fetchall()

    try:
        yield of_the_file
    except duckdb.Error as error:
        reason = " ".join(str(error).split())[:200]
        raise StartError(
            f"{path} cannot be read: {reason}.", "Go back to a backup: `callboard store restore`."
        ) from error
    finally:
        connection.close()


async def _write_down(path: Path, settings: "StoreSettings", found: Sequence[str]) -> None:
    """Leave an incident in the history: whoever reads it must know that something is missing."""
    from actors.chronicle import STREAM  # noqa: PLC0415 it brings the actors
    from messages.system import IncidentHappened  # noqa: PLC0415 the same
    from store.store import Store  # noqa: PLC0415 it brings DuckDB

    store = Store.open(path, settings, WallClock())
    try:
        length = len(await store.journal.read(STREAM))
        facts = [
            IncidentHappened(life="store accept-loss", child="store", what="degraded", detail=line, at=_now())
            for line in found
        ]
        await store.journal.append(STREAM, length, facts)
    finally:
        await store.close()


def _now() -> datetime:
    return WallClock().now()
