"""What some commands need to know before the session's rules can answer them: read, then given along."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import structlog

from actors.session import past, words
from actors.session.quoting import quoted
from messages.ids import SessionKey, StreamId
from messages.session import CommandGiven, EarlierConversation
from store.journal import Journal, JournalError
from store.readers import QueryError

log = structlog.get_logger(__name__)

UsageReport = Callable[[SessionKey, int], Awaitable[str]]
"""Says in words what was used in a session's place in the last so many days. May raise JournalError or QueryError."""

USUAL_DAYS = 30
MOST_DAYS = 3650
PATIENCE_S = 10.0
"""How long the session waits for figures; people are told when they cannot be had."""


async def prepared(
    given: CommandGiven, key: SessionKey, journal: Journal, usage: UsageReport | None
) -> CommandGiven:
    """Return the command with what it needs from the journal or the store. Most need nothing."""
    try:
        async with asyncio.timeout(PATIENCE_S):
            match given.name:
                case "usage":
                    return given.model_copy(update={"info": await _usage(given, key, usage)})
                case "sessions" | "resume":
                    return await _earlier(given, key, journal)
                case _:
                    return given
    except (JournalError, QueryError, TimeoutError) as error:
        log.warning("a command cannot be prepared", command=given.name, session=key, why=str(error))
        away = words.USAGE_AWAY if given.name == "usage" else words.EARLIER_AWAY
        return given.model_copy(update={"info": away})


async def _usage(given: CommandGiven, key: SessionKey, usage: UsageReport | None) -> str:
    text = given.argument.strip()
    days = USUAL_DAYS
    if text:
        if not (text.isascii() and text.isdigit() and len(text) < 6 and 1 <= int(text) <= MOST_DAYS):
            return words.BAD_NUMBER.format(name="usage", most=MOST_DAYS, given=quoted(text, 20))
        days = int(text)
    return words.USAGE_AWAY if usage is None else await usage(key, days)


async def _earlier(given: CommandGiven, key: SessionKey, journal: Journal) -> CommandGiven:
    """A long history takes a while to go through: it is done beside the loop."""
    recorded = await journal.read(StreamId(f"session:{key}"))
    facts: list[Any] = [r.fact for r in recorded]  # a session's stream holds session facts only
    earlier: tuple[EarlierConversation, ...] = await asyncio.to_thread(past.conversations, key, facts)
    given = given.model_copy(update={"earlier": earlier})
    if given.name == "resume":
        found = past.find(earlier, given.argument)
        if isinstance(found, EarlierConversation):
            entries = await asyncio.to_thread(past.entries_of, key, facts, found.session_id)
            given = given.model_copy(update={"entries": entries})
    return given
