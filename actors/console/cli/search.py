"""`callboard search`: full-text search in the whole history."""

import re
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from datetime import datetime, timedelta
from typing import cast, get_args

from actors.clock import Clock, WallClock
from actors.console.cli.client import ApiFailureError, ControlClient
from actors.console.cli.invocation import ExitCode, Invocation
from actors.console.cli.printable import printable
from actors.console.cli.running import find_running
from actors.console.cli.shelf import DATABASE
from actors.errors import StartError
from messages.search import SearchAsked, SearchFound, SearchHit, SearchRole

Search = Callable[[SearchAsked], Awaitable[SearchFound]]

_AGO = re.compile(r"(\d{1,6})\s*(min|h|d|w)", re.IGNORECASE)
_UNITS = {
    "min": timedelta(minutes=1),
    "h": timedelta(hours=1),
    "d": timedelta(days=1),
    "w": timedelta(weeks=1),
}
_BUILT_FROM = 2_000
"""Facts behind, from which on a person is told that the index is being built."""

ROLES = (*get_args(SearchRole), "any")


class TimeTextError(ValueError):
    """A text that names no moment."""


def moment(text: str, now: datetime, *, end: bool = False) -> datetime:
    """Read `2026-03-01`, `2026-03-01T15:00`, or `7d` (ago; also `min`, `h`, `w`). Raises TimeTextError.

    Without a zone the machine's own holds. With `end`, a date means the end of that day.
    """
    ago = _AGO.fullmatch(text.strip())
    try:
        if ago is not None:
            return now - int(ago[1]) * _UNITS[ago[2].lower()]
        found = datetime.fromisoformat(text.strip())
        if end and re.fullmatch(r"\d{4}-?\d\d-?\d\d", text.strip()):
            found += timedelta(days=1)
    except (ValueError, OverflowError):
        raise TimeTextError(
            f"{text!r} is not a date, a time or a span; write 2026-03-01, 2026-03-01T15:00 or 7d"
        ) from None
    return found.astimezone()


def roles_of(role: str) -> tuple[SearchRole, ...]:
    """Return the roles that `--role` names; what people and models said when it is empty."""
    if role == "any":
        return get_args(SearchRole)
    return (cast("SearchRole", role),) if role else ("user", "assistant")


async def search(invocation: Invocation, asked: SearchAsked, *, as_json: bool) -> int:
    """Print what is found. Returns FAILED when nothing is, and USAGE when nothing was asked."""
    async with open_search(invocation, WallClock()) as ask:
        try:
            found = await ask(asked)
        except ApiFailureError as error:
            invocation.note(str(error))
            return ExitCode.USAGE if error.status == 422 else ExitCode.FAILED
    if as_json:
        invocation.out(found.model_dump_json())
    else:
        _show(invocation, found)
    return ExitCode.OK if found.hits else ExitCode.FAILED


def _show(invocation: Invocation, found: SearchFound) -> None:
    if found.not_indexed > _BUILT_FROM:
        invocation.note(
            f"The index is being built, {found.not_indexed} facts are to be read: there may be more."
        )
    if not found.hits:
        invocation.note("Nothing was found.")
        return
    if found.any_word:
        invocation.note("No message has all the words; these have some of them.")
    colours = invocation.stdout.isatty()
    for hit in found.hits:
        invocation.out(f"{_head(hit)}\n    {_marked(hit, colours=colours)}")
    more = found.total - len(found.hits)
    if more > 0:
        invocation.note(f"{more} more; --limit shows them.")


def _head(hit: SearchHit) -> str:
    who = hit.role if hit.role != "user" else hit.author_name or hit.author_id or "user"
    return printable(f"{hit.said_at.astimezone():%Y-%m-%d %H:%M}  {' '.join(who.split())}  {hit.session_key}")


def _marked(hit: SearchHit, *, colours: bool) -> str:
    """Return the snippet with what was found in bold."""
    if not colours:
        return printable(hit.snippet)
    shown, at = [], 0
    for mark in hit.marks:
        shown += [printable(hit.snippet[at : mark.start]), "\x1b[1m"]
        shown += [printable(hit.snippet[mark.start : mark.end]), "\x1b[0m"]
        at = mark.end
    return "".join((*shown, printable(hit.snippet[at:])))


@asynccontextmanager
async def open_search(invocation: Invocation, clock: Clock) -> AsyncIterator[Search]:
    """Search through the running process, else in the database and the index that nobody uses now.

    Raises StartError when the database cannot be read.
    """
    running = find_running(invocation.home)
    if running is not None:
        async with ControlClient(lambda: running.socket, clock) as client:
            yield lambda asked: _through(client, asked)
        return
    if not (invocation.home / DATABASE).exists():
        yield _nothing
        return
    async with _in_files(invocation, clock) as found:
        yield found


async def _through(client: ControlClient, asked: SearchAsked) -> SearchFound:
    return await client.search(asked)


async def _nothing(asked: SearchAsked) -> SearchFound:
    """What is found before the first start."""
    from store.search_text import SearchWordsError, understand  # noqa: PLC0415 not needed beside a running process

    try:
        understand(asked.words)
    except SearchWordsError as error:
        raise ApiFailureError(422, str(error)) from None
    return SearchFound(hits=(), total=0)


@asynccontextmanager
async def _in_files(invocation: Invocation, clock: Clock) -> AsyncIterator[Search]:
    """Open the database and bring the index up to it first: it may lack what came before a crash."""
    from store.journal import JournalUnavailableError  # noqa: PLC0415 these bring DuckDB and tantivy
    from store.search_keeper import HistorySearch, SearchUnavailableError  # noqa: PLC0415
    from store.search_text import SearchWordsError  # noqa: PLC0415
    from store.store import Store, StoreOpenError  # noqa: PLC0415

    settings = invocation.read_settings().settings
    try:
        store = Store.open(invocation.home / DATABASE, settings.store, clock)
    except StoreOpenError as error:
        raise StartError(error.what, error.remedy) from error
    await store.start()
    history = HistorySearch(invocation.home / "index", store, clock)
    tell = _Progress(invocation)

    async def ask(asked: SearchAsked) -> SearchFound:
        try:
            while await history.catch_up(tell.progress):
                pass
            return await history.search(asked)
        except SearchWordsError as error:
            raise ApiFailureError(422, str(error)) from None
        except (SearchUnavailableError, JournalUnavailableError) as error:
            raise ApiFailureError(503, str(error)) from None

    try:
        yield ask
    finally:
        await history.close()
        await store.close()


class _Progress:
    """Says how far the building of an index is, where it takes long."""

    def __init__(self, invocation: Invocation) -> None:
        self._invocation = invocation
        self._said = 0

    def progress(self, done: int, of: int) -> None:
        tenth = 10 * done // of if of > 100_000 else 0
        if tenth > self._said:
            self._said = tenth
            self._invocation.note(f"Building the index: {10 * tenth} %")
