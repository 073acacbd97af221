"""`callboard access`: who may talk to us; live on the running process, or in the database that nobody uses."""

import json
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from actors.clock import WallClock
from actors.console.cli.client import ApiFailureError, ControlClient
from actors.console.cli.invocation import ExitCode, Invocation
from actors.console.cli.printable import printable
from actors.console.cli.running import find_running
from actors.console.cli.shelf import DATABASE
from actors.errors import StartError
from messages.access import (
    AccessAnswered,
    AccessEntry,
    AnyWish,
    ApprovePairing,
    MakeClaim,
    PendingPairing,
    ShowAccess,
    ShowPending,
)

if TYPE_CHECKING:
    from store.journal import Journal

BY = "the command line"


async def show_access(invocation: Invocation, account: str, *, as_json: bool) -> int:
    """List who may do what, and where each entry comes from."""
    answer = await _ask(invocation, ShowAccess(account=account))
    if as_json:
        invocation.out(
            json.dumps([json.loads(entry.model_dump_json()) for entry in answer.entries], indent=1)
        )
    elif not answer.entries:
        invocation.note("Nobody may talk to me on any platform yet, except by a pairing code.")
    for line in () if as_json else access_lines(answer.entries):
        invocation.out(printable(line))
    return ExitCode.OK


def access_lines(entries: Iterable[AccessEntry]) -> list[str]:
    """Return the list as lines of a table: account, what, id, what holds, where it comes from."""
    rows = [("ACCOUNT", "WHAT", "ID", "HOLDS", "FROM")]
    for entry in entries:
        source: str = entry.source
        if entry.at is not None:
            source = f"{entry.by or 'live'}, {entry.at:%Y-%m-%d %H:%M} UTC"
        rows.append((entry.account, entry.what, entry.id, entry.holds, source))
    return _columns(rows)


async def show_pending(invocation: Invocation, account: str, *, as_json: bool) -> int:
    """List the strangers who were given a code."""
    answer = await _ask(invocation, ShowPending(account=account))
    if as_json:
        invocation.out(json.dumps([json.loads(each.model_dump_json()) for each in answer.pending], indent=1))
    elif not answer.pending:
        invocation.note("Nobody waits.")
    for line in () if as_json else pending_lines(answer.pending):
        invocation.out(printable(line))
    return ExitCode.OK


def pending_lines(pending: Iterable[PendingPairing]) -> list[str]:
    """Return those who wait as lines of a table. Their names are theirs: shown, and never used."""
    rows = [("ACCOUNT", "ID", "NAME", "ASKED", "UNTIL")]
    for each in pending:
        name = " ".join(each.name.split())[:40]
        asked, until = f"{each.asked_at:%Y-%m-%d %H:%M}", f"{each.expires_at:%H:%M} UTC"
        rows.append((each.account, each.user, name, asked, until))
    return _columns(rows) if len(rows) > 1 else []


def _columns(rows: Sequence[tuple[str, ...]]) -> list[str]:
    if len(rows) == 1:
        return []
    widths = [min(60, max(len(row[column]) for row in rows)) for column in range(len(rows[0]))]
    return [
        "  ".join(f"{cell:<{width}}" for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in rows
    ]


async def change(invocation: Invocation, wish: AnyWish) -> int:
    """Do what is wished, and say what holds now."""
    answer = await _ask(invocation, wish)
    text = printable(answer.text.replace("`", "").replace("**", ""))
    if not answer.done:
        invocation.note(text)
        return ExitCode.FAILED
    invocation.out(text)
    return ExitCode.OK


async def claim(invocation: Invocation, account: str) -> int:
    """Print a one-time code for the owner."""
    return await change(invocation, MakeClaim(account=account))


async def _ask(invocation: Invocation, wish: AnyWish) -> AccessAnswered:
    running = find_running(invocation.home)
    if running is None:
        return await _alone(invocation, wish)
    async with ControlClient(lambda: running.socket, WallClock()) as client:
        try:
            answer = await client.post("/api/access", json.loads(wish.model_dump_json()))
        except ApiFailureError as error:
            return AccessAnswered(done=False, text=f"Not done: {error}.")
    return AccessAnswered.model_validate_json(json.dumps(answer))


async def _alone(invocation: Invocation, wish: AnyWish) -> AccessAnswered:
    """Nothing runs: do it in the database. What is changed holds from the next start."""
    from store.store import Store, StoreOpenError  # noqa: PLC0415 it brings DuckDB

    settings = invocation.read_settings().settings
    reads = isinstance(wish, ShowAccess | ShowPending)
    path = invocation.home / DATABASE
    if reads and not path.exists():
        from store.memory_store import MemoryJournal  # noqa: PLC0415

        return await _decided(invocation, wish, MemoryJournal())
    try:
        store = Store.open(path, settings.store, WallClock())
    except StoreOpenError as error:
        raise StartError(error.what, error.remedy) from error
    await store.start()
    try:
        return await _decided(invocation, wish, store.journal)
    finally:
        await store.close()


async def _decided(invocation: Invocation, wish: AnyWish, journal: "Journal") -> AccessAnswered:
    from actors.gateway import access_rules, pairing  # noqa: PLC0415
    from actors.gateway.access import AccessBook  # noqa: PLC0415
    from actors.gateway.access_facts import fold  # noqa: PLC0415
    from messages.access import ACCESS  # noqa: PLC0415

    settings, now = invocation.read_settings().settings, WallClock().now()
    recorded = await journal.read(ACCESS)
    base = AccessBook.of_settings(settings.platforms, settings.routes)
    book = fold(base, (each.fact for each in recorded))
    if isinstance(wish, MakeClaim):
        outcome = access_rules.claimed(book, pairing.make_claim(wish.account, BY, now), wish.account)
    else:
        found = None
        if isinstance(wish, ApprovePairing):
            offers = access_rules.open_offers(book, wish.account, now)
            found = next((o for o in offers if pairing.matches(wish.code, o.salt, o.digest)), None)
        outcome = access_rules.grant(book, wish, access_rules.Asker(BY), now, found)
    if outcome.facts:
        await journal.append(ACCESS, recorded[-1].seq if recorded else 0, outcome.facts)
    return outcome.answer
