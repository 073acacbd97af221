"""Reading conversations: from the running process, else straight from the database that nobody uses now."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final, Protocol
from urllib.parse import unquote

from actors.clock import WallClock
from actors.console.cli.client import ControlClient
from actors.console.cli.invocation import Invocation
from actors.console.cli.running import find_running
from actors.errors import StartError
from messages.gateway import SessionSummary, TranscriptEntry
from messages.ids import SessionKey, StreamId
from store.journal import Journal

DATABASE: Final = "callboard.duckdb"
"""The database's name in the data folder."""


class Shelf(Protocol):
    """All conversations, to be read."""

    async def sessions(self) -> tuple[SessionSummary, ...]: ...

    async def transcript(self, key: SessionKey, after: int = 0) -> tuple[TranscriptEntry, ...]: ...


class _Empty:
    """What there is before the first start."""

    async def sessions(self) -> tuple[SessionSummary, ...]:
        return ()

    async def transcript(self, key: SessionKey, after: int = 0) -> tuple[TranscriptEntry, ...]:  # noqa: ARG002 the port
        return ()


class _SessionList(Protocol):
    async def sessions(self) -> tuple[SessionSummary, ...]: ...


class _FromDatabase:
    """Reads the journal itself. Nothing is taken up or answered by that, as it would be by a start."""

    def __init__(self, store: _SessionList, journal: Journal) -> None:
        self._store = store
        self._journal = journal

    async def sessions(self) -> tuple[SessionSummary, ...]:
        return await self._store.sessions()

    async def transcript(self, key: SessionKey, after: int = 0) -> tuple[TranscriptEntry, ...]:
        from actors.session.transcript import lines  # noqa: PLC0415 it brings all facts

        return tuple(
            line for line in lines(await self._journal.read(StreamId(f"session:{key}"))) if line.seq > after
        )


@asynccontextmanager
async def open_shelf(invocation: Invocation) -> AsyncIterator[Shelf]:
    """Open the conversations of a data folder. Raises StartError when the database cannot be read."""
    clock = WallClock()
    running = find_running(invocation.home)
    if running is not None:
        async with ControlClient(lambda: running.socket, clock) as client:
            yield client
        return
    path = invocation.home / DATABASE
    if not path.exists():
        yield _Empty()
        return
    from store.store import Store, StoreOpenError  # noqa: PLC0415 it brings DuckDB

    settings = invocation.read_settings().settings.store
    try:
        store = Store.open(path, settings, clock)
    except StoreOpenError as error:
        raise StartError(error.what, error.remedy) from error
    await store.start()
    try:
        yield _FromDatabase(store, store.journal)
    finally:
        await store.close()


async def key_of(shelf: Shelf, name: str) -> SessionKey | None:
    """Return the key that a person means: a whole key, or the name of a terminal chat. None when unknown."""
    keys = [session.session_key for session in await shelf.sessions()]
    whole = next((key for key in keys if key == name), None)
    return whole or next((key for key in keys if _is_chat(key, name)), None)


def _is_chat(key: SessionKey, name: str) -> bool:
    parts = key.split(":")
    return len(parts) > 3 and parts[2] == "terminal" and unquote(parts[-1]) == name
