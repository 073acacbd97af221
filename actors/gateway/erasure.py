"""Deleting a session for good: its facts, its rows, its files. And saying what that does not reach."""

import asyncio
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import structlog

from actors.clock import Clock
from actors.session import facts as f
from actors.session.directory import Route
from actors.session.live import LiveHub
from actors.session.state import Session, fold
from actors.session.transition import erased
from actors.tool.results import shelf_of
from messages.gateway import TranscriptEntry
from messages.history import SessionErased
from messages.ids import SessionKey, StreamId
from messages.session import ErasureAsked
from store.dead_letters import open_letters
from store.journal import Journal, JournalUnavailableError
from store.retention import LEFTOVERS, PREFIX
from store.store import QueryError, Store

log = structlog.get_logger(__name__)

PATIENCE_S: Final = 30.0
"""How long a session may take to write that it was erased: it is at once, unless the store is in trouble."""

WHAT_REMAINS: Final = (
    "The bytes stay in the database file until their place is used again; `callboard store compact` drops them.",
    "Backups, exports, and copies of the file from before an update are not touched.",
    "Logs and the incidents table may name the session; they hold no conversations.",
    "The search index drops its messages within two minutes.",
    "Files that tools wrote in the workspace, and messages on the platforms themselves, are not ours to delete.",
)


class UnknownSessionError(Exception):
    """There is no session with this key."""


class Eraser:
    """Deletes sessions of a running house, awake or asleep."""

    def __init__(
        self,
        store: Store,
        hub: LiveHub,
        clock: Clock,
        tell_sessions: Callable[[Route], None],
        results: Path,
        on_letters_deleted: Callable[[int], None] = lambda _: None,
    ) -> None:
        """`on_letters_deleted` is told how many open dead letters went with a session."""
        self._on_letters_deleted = on_letters_deleted
        self._store = store
        self._hub = hub
        self._clock = clock
        self._tell_sessions = tell_sessions
        self._results = results

    async def erase(self, key: SessionKey) -> SessionErased:
        """Stop what runs in the session and delete its history.

        Raises UnknownSessionError, JournalUnavailableError, and TimeoutError when the
        session cannot write; then nothing is deleted.
        """
        stream = StreamId(f"{PREFIX}{key}")
        if not await self._store.journal.read(stream):
            raise UnknownSessionError(f"there is no session {key!r}")
        try:
            letters = await open_letters(self._store.select, stream)
        except QueryError as error:
            raise JournalUnavailableError(str(error)) from error
        unanswered = await self._void(key)
        facts = await self._store.purge([stream])
        self._on_letters_deleted(letters)
        files = await asyncio.to_thread(remove_results, self._results, key)
        log.info("a session's history was deleted", session=key, facts=facts, files=files)
        return SessionErased(session_key=key, facts=facts, unanswered=unanswered, files=files)

    async def finish(self) -> int:
        """Delete what an earlier life had begun to delete; return how many facts."""
        found = await self._store.select(LEFTOVERS, timeout_s=120.0)
        streams = [StreamId(str(stream)) for (stream,) in found.rows]
        return await self._store.purge(streams) if streams else 0

    async def _void(self, key: SessionKey) -> int:
        """Have the session say that its history is void; return how many messages get no answer by that."""
        with self._hub.watch(key, live=False) as watch:
            self._tell_sessions(Route(key, ErasureAsked(at=self._clock.now())))
            async with asyncio.timeout(PATIENCE_S):
                async for news in watch:
                    if isinstance(news, TranscriptEntry) and news.status == "erased":
                        return len(news.answers)
        raise AssertionError("a watch has no end")


async def erase_asleep(store: Store, key: SessionKey, clock: Clock, results: Path) -> SessionErased:
    """Delete a session's history in a database that no house has open. Raises UnknownSessionError, JournalError."""
    stream = StreamId(f"{PREFIX}{key}")
    journal: Journal = store.journal
    recorded = await journal.read(stream)
    if not recorded:
        raise UnknownSessionError(f"there is no session {key!r}")
    facts: Any = (r.fact for r in recorded)  # a session's stream holds session facts only
    last: f.HistoryErased = erased(fold(Session(key=key), facts), clock.now())
    await journal.append(stream, recorded[-1].seq, [last], owing=False)
    count = await store.purge([stream])
    files = await asyncio.to_thread(remove_results, results, key)
    return SessionErased(session_key=key, facts=count, unanswered=len(last.message_ids), files=files)


def remove_results(results: Path, key: SessionKey) -> int:
    """Delete the kept results of a session's tools; return how many files. What cannot be deleted is logged."""
    shelf = shelf_of(results, key)
    try:
        files = sum(1 for path in shelf.iterdir() if path.is_file())
        shutil.rmtree(shelf)
    except FileNotFoundError:
        return 0
    except OSError as error:
        log.warning("kept results could not be deleted", folder=str(shelf), error=str(error))
        return 0
    return files
