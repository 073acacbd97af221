"""What was said while we were away: read from the channels' history, and handed in as if it came now."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar
from urllib.parse import unquote

import structlog

from actors.clock import Clock
from actors.gateway.edge import EdgeError, LastHeard
from actors.gateway.platforms.slack.hearing import Hearing, Turn
from actors.gateway.platforms.slack.web import Web
from messages.delivery import ProblemKind

log = structlog.get_logger(__name__)

OLDEST_S = 86_400.0
"""What is older than a day is not asked for."""

MOST_CHATS = 500
MOST_SILENT = 100
"""Channels from which nothing was ever heard and that are asked too: their first message may be what was missed."""

MOST_THREADS = 10
"""Of one channel, those that were heard last."""

ALL_TYPES = "public_channel,private_channel,mpim,im"
PAGES = 3
PAGE = 100
AT_ONCE = 4
HELD_S = 10.0
"""So long a channel's new messages wait for its missed ones; later they go first."""

LONGEST_WAIT_S = 60.0
TRIES = 3

T = TypeVar("T")


@dataclass(slots=True)
class _Missing:
    """Where to look in one channel."""

    oldest: float = 0.0
    """The last message that was heard anywhere in it."""
    threads: dict[str, float] = field(default_factory=dict)


class Gap:
    """Looks back once, when a connection begins."""

    def __init__(self, web: Web, hearing: Hearing, clock: Clock) -> None:
        self._web = web
        self._hearing = hearing
        self._clock = clock
        self._room = asyncio.Semaphore(AT_ONCE)

    def begin(self, last_heard: Mapping[str, LastHeard]) -> "asyncio.Task[None] | None":
        """Hold the lines of all known channels at once, and fetch in the background; None: nothing is known."""
        missing = missed(last_heard, self._clock.now().timestamp())
        if not missing:
            return None
        turns = {chat: self._hearing.lines.join(chat) for chat in missing}
        return asyncio.get_running_loop().create_task(self._all(missing, turns))

    async def _all(self, missing: Mapping[str, _Missing], turns: Mapping[str, Turn]) -> None:
        releasing = asyncio.get_running_loop().create_task(self._release(turns))
        try:
            async with asyncio.TaskGroup() as group:
                for chat, where in missing.items():
                    group.create_task(self._chat(chat, where, turns[chat]))
            await self._silent(missing)
        finally:
            releasing.cancel()
            for turn in turns.values():
                turn.leave()

    async def _silent(self, known: Mapping[str, _Missing]) -> None:
        """Look into channels that are not known, from when something was last heard anywhere."""
        oldest = max(where.oldest for where in known.values())
        try:
            answer = await self._web.read(
                "users.conversations", types=ALL_TYPES, exclude_archived=True, limit=MOST_CHATS
            )
        except EdgeError as error:
            log.info("channels could not be listed", why=error.problem.detail)
            return
        channels = answer.get("channels")
        ids = [c.get("id") for c in channels if isinstance(c, dict)] if isinstance(channels, list) else []
        silent = [chat for chat in ids if isinstance(chat, str) and chat.isalnum() and chat not in known]
        async with asyncio.TaskGroup() as group:
            for chat in silent[:MOST_SILENT]:
                group.create_task(self._chat(chat, _Missing(oldest), self._hearing.lines.join(chat)))

    async def _release(self, turns: Mapping[str, Turn]) -> None:
        await self._clock.sleep(HELD_S)
        for turn in turns.values():
            turn.leave()

    async def _chat(self, chat: str, where: _Missing, turn: Turn) -> None:
        try:
            async with self._room:
                found = await self._found(chat, where)
            # They go in the place that was held for them, one after the other.
            for envelope in found:
                await self._hearing.take(envelope, _held(turn))
            if found:
                log.info("missed messages were fetched", chat=chat, messages=len(found))
        except EdgeError as error:
            log.warning("missed messages could not be fetched", chat=chat, why=error.problem.detail)
        finally:
            turn.leave()

    async def _found(self, chat: str, where: _Missing) -> list[dict[str, Any]]:
        """Return what was missed in a channel, oldest first."""
        messages = {}
        for message in await self._pages("conversations.history", channel=chat, oldest=_ts(where.oldest)):
            messages[_field(message, "ts")] = message
        threads = dict(where.threads)
        for ts, message in messages.items():
            if isinstance(message.get("reply_count"), int) and message["reply_count"] > 0:
                threads.setdefault(ts, where.oldest)
        for thread, oldest in threads.items():
            for message in await self._pages(
                "conversations.replies", channel=chat, ts=thread, oldest=_ts(oldest)
            ):
                if _field(message, "ts") != thread:
                    messages[_field(message, "ts")] = message
        ordered = sorted((ts, m) for ts, m in messages.items() if ts)
        envelopes = [_envelope(chat, message) for _, message in ordered]
        return [envelope for envelope in envelopes if not self._hearing.knows(envelope)]

    async def _pages(self, method: str, **where: Any) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = []
        cursor: str | None = None
        for _ in range(PAGES):
            answer = await self._patiently(
                lambda at=cursor: self._web.read(method, limit=PAGE, cursor=at, **where)  # type: ignore[misc]
            )
            messages = answer.get("messages")
            found += [m for m in messages if isinstance(m, dict)] if isinstance(messages, list) else []
            metadata = answer.get("response_metadata")
            after = metadata.get("next_cursor") if isinstance(metadata, dict) else None
            if not isinstance(after, str) or not after:
                break
            cursor = after
        return found

    async def _patiently(self, ask: Callable[[], Awaitable[T]]) -> T:
        """Ask again after a rate limit, a few times and not for long: only old news waits for it."""
        for tried in range(TRIES):
            try:
                return await ask()
            except EdgeError as error:
                wait = error.problem.retry_after_s or 1.0
                limited = error.problem.kind is ProblemKind.RATE_LIMITED
                if not limited or wait > LONGEST_WAIT_S or tried == TRIES - 1:
                    raise
                await self._clock.sleep(wait)
        raise AssertionError("the last try returns or raises")


@dataclass(frozen=True, slots=True)
class _Held(Turn):
    """A place in a line that belongs to somebody else: taken before, left by its owner."""

    async def comes(self) -> None:
        return

    def leave(self) -> None:
        return


def _held(turn: Turn) -> Turn:
    return _Held(turn.lines, turn.chat, None, turn.place)


def missed(last_heard: Mapping[str, LastHeard], now: float) -> dict[str, _Missing]:
    """Say where to look, by channel, from the last message of each place."""
    found: dict[str, _Missing] = {}
    newest = sorted(last_heard.items(), key=lambda item: item[1].at, reverse=True)
    for place, last in newest:
        chat, _, thread = place.partition(":")
        chat, thread = unquote(chat), unquote(thread)
        if not chat.isalnum():
            continue  # a direct message that goes by its user
        if chat not in found and len(found) >= MOST_CHATS:
            continue
        at = max(_seconds(last), now - OLDEST_S)
        where = found.setdefault(chat, _Missing(at))
        if thread and len(where.threads) < MOST_THREADS and _seconds(last) > now - OLDEST_S:
            where.threads[thread] = at
        where.oldest = max(where.oldest, at)
    return found


def _seconds(last: LastHeard) -> float:
    try:
        return float(last.message_id)
    except ValueError:
        return last.at.timestamp()  # a command or a button


def _ts(seconds: float) -> str:
    return f"{seconds:.6f}"


def _envelope(chat: str, message: dict[str, Any]) -> dict[str, Any]:
    return {"type": "events_api", "payload": {"event": {**message, "channel": chat}}}


def _field(message: dict[str, Any], name: str) -> str:
    found = message.get(name)
    return found if isinstance(found, str) else ""
