"""What was said while we were away: found out after a new session has begun, and fetched, oldest first.

A resumed session needs none of it: Discord sends again what came meanwhile. A new one
tells each channel's last message. Where that is newer than the last that we know of,
the channel's history is read from there, before anything new of it is handed in.
"""

from collections.abc import AsyncIterator, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import structlog

from actors.clock import Clock
from actors.gateway.edge import EdgeError, LastHeard
from actors.gateway.platforms.discord.directory import Channel, as_dicts, as_id, later, snowflake_at
from actors.gateway.platforms.discord.rest import Rest
from messages.delivery import ProblemKind

log = structlog.get_logger(__name__)

PAGE = 100
OVERLAP_S = 60.0
OLDEST_S = 3600.0
"""Channels in which nothing was ever heard are looked at for what is younger than this."""
MOST_STRANGERS = 200
"""So many of those channels, at most."""
TRIES = 5


def channel_marks(last_heard: Mapping[str, LastHeard]) -> dict[str, str]:
    """Return the last message by channel: a place is `chat` or `chat:thread`, and a thread is a channel."""
    marks: dict[str, str] = {}
    for place, last in sorted(last_heard.items(), key=lambda each: each[1].at):
        channel, message = as_id(place.rpartition(":")[2]), as_id(last.message_id)
        if channel is not None and message is not None:
            marks[channel] = message
    return marks


@dataclass
class Gaps:
    """From where on each channel's history has to be read; empty once that is done."""

    after: dict[str, str] = field(default_factory=dict)
    strangers_after: str | None = None
    _strangers: int = 0

    @classmethod
    def since(cls, marks: Mapping[str, str], now_s: float) -> "Gaps":
        """All channels that we know of may have a gap now."""
        newest = max(marks.values(), key=int, default=None)
        if newest is None:
            return cls()
        away = str(max(0, int(newest) - (int(OVERLAP_S * 1000) << 22)))
        return cls(dict(marks), max(away, snowflake_at(now_s - OLDEST_S), key=int))

    def close(self, channels: Iterable[Channel]) -> list[tuple[str, str]]:
        """Take channels whose last message is told; return those with a gap, and where it begins."""
        found: list[tuple[str, str]] = []
        for channel in channels:
            known = self.after.pop(channel.id, None)
            if known is None:
                known = self._stranger(channel)
            if known is not None and later(channel.last, known):
                found.append((channel.id, known))
        return found

    def take(self, channel: str) -> str | None:
        """Take one channel whose last message is not told, such as a direct message."""
        return self.after.pop(channel, None)

    def _stranger(self, channel: Channel) -> str | None:
        if self.strangers_after is None or not later(channel.last, self.strangers_after):
            return None
        self._strangers += 1
        return self.strangers_after if self._strangers <= MOST_STRANGERS else None


async def history(
    rest: Rest, clock: Clock, channel: str, after: str, most: int
) -> AsyncIterator[Mapping[str, Any]]:
    """Yield the messages of a channel after one, oldest first. A channel that is gone has none."""
    left = most
    while left > 0:
        page = await _page(rest, clock, channel, after, min(PAGE, left))
        told = ((as_id(each.get("id")), each) for each in page)
        messages = sorted(((i, each) for i, each in told if i is not None), key=lambda pair: int(pair[0]))
        for identity, each in messages:
            if later(identity, after):
                after = identity
                yield each
        left -= len(messages)
        if len(messages) < PAGE:
            return
    log.warning("more was missed in a channel than is fetched", channel=channel, fetched=most)


async def _page(rest: Rest, clock: Clock, channel: str, after: str, limit: int) -> list[Mapping[str, Any]]:
    for attempt in range(1, TRIES + 1):
        try:
            query = {"after": after, "limit": str(limit)}
            page = await rest.call("GET", "/channels/{channel}/messages", channel=channel, query=query)
            return list(as_dicts(page))
        except EdgeError as error:
            problem = error.problem
            if problem.kind in (ProblemKind.TARGET_GONE, ProblemKind.REFUSED):
                log.info("a channel's history cannot be read", channel=channel, why=problem.detail)
                return []
            if problem.kind is ProblemKind.NEEDS_HUMAN or attempt == TRIES:
                raise
            await clock.sleep(min(problem.retry_after_s or float(attempt), 60.0))
    raise AssertionError
