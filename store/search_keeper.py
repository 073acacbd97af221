"""Keeps the index up with the journal, and searches in it: what the process has of the full-text search.

Nothing is opened before it is needed: a house without news costs no memory here. A
note beside the index says what was in it when it was last left, so that a start need
not open it only to see that nothing is missing.
"""

import asyncio
import contextlib
import ctypes
import threading
from collections.abc import Callable, Collection, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import structlog

from actors.clock import Clock
from messages.ids import SessionKey
from messages.search import SearchAsked, SearchFound
from store.search_audience import heard_by
from store.search_entry import Entry, SearchIndexDamagedError, SearchIndexError, erase, note_of
from store.store import Store

if TYPE_CHECKING:
    from store.search import SearchIndex

log = structlog.get_logger(__name__)
T = TypeVar("T")

SPAN = 1_000
"""Facts that are looked through at once: some hundreds of messages, a few milliseconds of work in the thread."""

SPAN_WHEN_BUSY = 250

_COMMIT_AFTER = 20_000
"""Messages, while the index is being built."""

REST_AFTER_S = 30.0
"""Unneeded for so long, the index is closed, and its memory given back."""

CHECK_EVERY_S = 60.0
"""How often the numbers of messages here and in the database are compared."""

_NEWEST = "SELECT coalesce(max(id), 0), count(*) FROM messages"
_COUNT = "SELECT count(*) FROM messages WHERE id <= ?"
_KEYS = "SELECT session_key, count(*) FROM messages WHERE id <= ? GROUP BY session_key"
_READ = """
WITH m AS (
    SELECT id, session_key, session_id, turn, role, author_id, author_name, text, platform, chat,
        epoch_us(said_at) AS said_at
    FROM messages WHERE {}
), s AS (
    SELECT session_key, arg_max(platform_user, id) AS platform_user
    FROM sessions WHERE session_key IN (SELECT session_key FROM m) GROUP BY session_key
)
SELECT m.*, s.platform_user FROM m LEFT JOIN s USING (session_key) ORDER BY m.id
"""
_READ_SPAN = _READ.format("id > ? AND id <= ?")
_READ_SESSION = _READ.format("session_key = ? AND id <= ?")
_EVERY_ROW = 100_000_000

Progress = Callable[[int, int], None]
"""Told (facts read, facts in all) while an index is being built."""


class SearchUnavailableError(Exception):
    """The history cannot be searched now; the text says why."""


class HistorySearch:
    """The full-text search over one store. `catch_up` again and again, `search` at any time, `close`.

    `busy` says whether turns are running: then the index is built more slowly.
    """

    def __init__(
        self,
        folder: Path,
        store: Store,
        clock: Clock,
        *,
        busy: Callable[[], bool] = lambda: False,
        enabled: bool = True,
    ) -> None:
        self._folder = folder
        self._store = store
        self._clock = clock
        self._busy = busy
        self._enabled = enabled
        self._index: SearchIndex | None = None
        self._opening = asyncio.Lock()
        self._writing = asyncio.Lock()
        self._writer = ThreadPoolExecutor(1, "search-write")
        self._reader = ThreadPoolExecutor(1, "search-read")
        self._seen = -1
        self._needed_at = self._checked_at = clock.monotonic()
        self._news = False
        self._distrusted = False
        self._closed = threading.Event()

    # -------------------------------------------------------------- searching

    async def search(self, asked: SearchAsked, audiences: Collection[str] | None = None) -> SearchFound:
        """Find messages; with `audiences` (see `store.search_audience`), only those that one of them may see.

        Raises SearchWordsError when the words say nothing, and SearchUnavailableError.
        """
        for _ in range(2):
            try:
                index = await self._opened()
                found = await self._in(self._reader, partial(index.search, asked, audiences))
            except SearchIndexDamagedError as error:
                await self._start_anew(error)
                continue
            except SearchIndexError as error:
                raise SearchUnavailableError(f"the history cannot be searched now: {error}") from error
            return found.model_copy(update={"not_indexed": max(0, self._head() - index.reached)})
        raise SearchUnavailableError("the search index is damaged and cannot be made anew")

    def figures(self) -> dict[str, int]:
        """Return how many messages are in the index, as far as it is open, and how many facts are to be read."""
        index = self._index
        if index is None:
            return {"search_open": 0}
        return {
            "search_open": 1,
            "search_messages": index.documents,
            "search_facts_behind": max(0, self._head() - index.reached),
        }

    # --------------------------------------------------------------- catching up

    async def catch_up(self, progress: Progress | None = None) -> bool:
        """Read what is new in the journal into the index; return whether there was anything.

        An index that is damaged, or does not belong to this database, is made anew here.
        Raises SearchUnavailableError when it cannot be written, QueryError and
        JournalUnavailableError when the database cannot be read.
        """
        head = self._head()
        try:
            index = self._index
            if index is not None and self._check_is_due(index, head):
                await self._check(index)
            if head == self._seen and self._index_is_whole():
                await self._rest_if_quiet()
                return False
            if self._index is None and await self._left_whole():
                self._seen = head
                return False
            await self._read_on(await self._opened(), head, progress)
        except SearchIndexDamagedError as error:
            await self._start_anew(error)
            return True
        except SearchIndexError as error:
            self._let_go()
            raise SearchUnavailableError(f"the search index cannot be written: {error}") from error
        self._seen = head
        self._news = True
        return True

    async def forget(self, session_key: SessionKey) -> None:
        """Take a session's messages out: at the return, none can be found. Raises SearchUnavailableError.

        The session must be gone from the database, or it comes back when the index is made anew.
        """
        try:
            index = await self._opened()
            async with self._writing:
                await self._in(self._writer, partial(index.forget, session_key))
                await self._commit(index)
        except SearchIndexDamagedError as error:
            await self._start_anew(error)
        except SearchIndexError as error:
            self._let_go()
            raise SearchUnavailableError(f"the search index cannot be written: {error}") from error

    async def close(self) -> None:
        """Stop the threads and let the index go; what was not committed is read again at the next start."""
        self._closed.set()
        index, self._index = self._index, None
        for threads in (self._writer, self._reader):
            await asyncio.to_thread(threads.shutdown, wait=True, cancel_futures=True)
        if index is not None:
            index.let_go()
            await asyncio.to_thread(self._note, index)

    # ------------------------------------------------------------------ inside

    def _head(self) -> int:
        return int(self._store.stats()["facts"])

    def _check_is_due(self, index: "SearchIndex", head: int) -> bool:
        """Check when there is peace again after news (a deletion may have been among them), and now and then."""
        waited_s = self._clock.monotonic() - self._checked_at
        peace = head == self._seen and self._news
        return index.last_id > head or peace or waited_s >= CHECK_EVERY_S

    def _index_is_whole(self) -> bool:
        return self._index is None or self._index.reached >= self._seen

    async def _opened(self) -> "SearchIndex":
        """Return the index; open it, and see whether it belongs to this database, when that is still to be done."""
        async with self._opening:
            if self._closed.is_set() or not self._enabled:
                why = (
                    "it is closed" if self._enabled else "it is switched off in the settings (search.enabled)"
                )
                raise SearchUnavailableError(f"the history cannot be searched: {why}")
            self._needed_at = self._clock.monotonic()
            if self._index is None:
                from store.search import SearchIndex  # noqa: PLC0415 it brings tantivy

                index = await self._in(self._writer, lambda: SearchIndex.open(self._folder))
                await self._check(index)
                self._index = index
            return self._index

    async def _left_whole(self) -> bool:
        """Return whether the index, as it was left, has all messages, so that it need not be opened."""
        newest, count = await self._numbers(_NEWEST)
        if count == 0 and not self._folder.exists():
            return True
        try:
            reached, documents = map(int, note_of(self._folder).read_text("ascii").split())
        except (OSError, ValueError):
            return False
        return newest <= reached and count == documents

    async def _check(self, index: "SearchIndex") -> None:
        """Compare the index with the database; put right what differs, session by session.

        Raises SearchIndexDamagedError when that is not possible.
        """
        self._checked_at = self._clock.monotonic()
        self._news = False
        async with self._writing:
            if index.last_id > self._head():
                raise SearchIndexDamagedError("it is ahead of the database, which was put back")
            await self._commit(index)
            if await self._agrees(index):
                return
            counted = await self._store.select(_KEYS, [index.reached], max_rows=_EVERY_ROW)
            there = {str(key): int(str(count)) for key, count in counted.rows}
            here = await self._in(self._writer, index.sessions)
            differing = [key for key in {*there, *here} if there.get(key) != here.get(key)]
            for key in differing:
                await self._read_again(index, SessionKey(key), there.get(key, 0) > 0)
            await self._commit(index)
            if not await self._agrees(index):
                self._disagree()
                return
        log.info("sessions were put right in the search index", sessions=len(differing))

    def _disagree(self) -> None:
        """Make the index anew, once in a life: what making it anew does not cure is not cured by doing it again."""
        why = "it does not have the messages that the database has"
        if not self._distrusted:
            self._distrusted = True
            raise SearchIndexDamagedError(why)
        log.error("the search index does not agree with the database", why=why)

    async def _read_again(self, index: "SearchIndex", key: SessionKey, is_there: bool) -> None:
        await self._in(self._writer, partial(index.forget, key))
        if is_there:
            found = await self._store.select(_READ_SESSION, [key, index.reached], max_rows=_EVERY_ROW)
            await self._in(self._writer, partial(_add, index, found.rows, index.reached))

    async def _agrees(self, index: "SearchIndex") -> bool:
        (count,) = await self._numbers(_COUNT, index.reached)
        return count == index.documents

    async def _numbers(self, sql: str, *params: int) -> tuple[int, ...]:
        (row,) = (await self._store.select(sql, params)).rows
        return tuple(int(str(number)) for number in row)

    async def _read_on(self, index: "SearchIndex", head: int, progress: Progress | None) -> None:
        uncommitted = 0
        began_at, building = self._clock.monotonic(), head - index.reached > SPAN
        if building:
            log.info("the search index is being built", facts=head - index.reached)
        while index.reached < head:
            began = self._clock.monotonic()
            busy = self._busy()
            async with self._writing:
                upto = min(head, index.reached + (SPAN_WHEN_BUSY if busy else SPAN))
                found = await self._store.select(_READ_SPAN, [index.reached, upto], max_rows=_EVERY_ROW)
                await self._in(self._writer, partial(_add, index, found.rows, upto))
                uncommitted += len(found.rows)
                if uncommitted >= _COMMIT_AFTER:
                    await self._commit(index)
                    uncommitted = 0
            if progress is not None:
                progress(index.reached, head)
            if busy:
                await self._clock.sleep(self._clock.monotonic() - began)
        async with self._writing:
            await self._commit(index)
        if building:
            seconds = round(self._clock.monotonic() - began_at, 1)
            log.info("the search index is built", messages=index.documents, seconds=seconds)

    async def _commit(self, index: "SearchIndex") -> None:
        await self._in(self._writer, index.commit)

    async def _rest_if_quiet(self) -> None:
        """Close the index when nobody has needed it for a while."""
        quiet_s = self._clock.monotonic() - self._needed_at
        if self._index is None or quiet_s < REST_AFTER_S:
            return
        await self._check(self._index)
        async with self._opening, self._writing:
            index, self._index = self._index, None
            if index is not None:
                await self._in(self._writer, partial(self._leave, index))

    def _leave(self, index: "SearchIndex") -> None:
        index.rest()
        self._note(index)
        give_memory_back()

    def _note(self, index: "SearchIndex") -> None:
        with contextlib.suppress(OSError):  # without the note the next start opens the index, that is all
            note_of(self._folder).write_text(f"{index.reached} {index.documents}", "ascii")

    def _let_go(self) -> None:
        index, self._index = self._index, None
        if index is not None:
            index.let_go()

    async def _start_anew(self, why: Exception) -> None:
        log.warning("the search index is made anew", why=str(why))
        async with self._opening, self._writing:
            self._let_go()
            self._seen = -1
            await self._in(self._writer, lambda: erase(self._folder))

    async def _in(self, threads: ThreadPoolExecutor, work: Callable[[], T]) -> T:
        try:
            return await asyncio.get_running_loop().run_in_executor(threads, work)
        except RuntimeError as error:
            if self._closed.is_set():
                raise SearchUnavailableError("the search is closed") from error
            raise


def give_memory_back() -> None:
    """Return to the system what the index's threads have freed: half of what it took, where there is glibc."""
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:
        trim(0)


def _add(index: "SearchIndex", rows: Sequence[Sequence[Any]], reached: int) -> None:
    index.add(map(_entry, rows), reached)


def _entry(row: Sequence[Any]) -> Entry:
    *fields, user = row
    id_, key, session_id, turn, role, author_id, author_name, text, platform, chat, said_at = fields
    return Entry(
        id=id_,
        session_key=key,
        session_id=session_id,
        turn=turn,
        role=role,
        author_id=author_id,
        author_name=author_name,
        text=text or "",
        platform=platform,
        chat=chat,
        said_at_us=said_at,
        audiences=heard_by(SessionKey(key), user),
    )
