"""Native commands and buttons have two clocks: three seconds to acknowledge, fifteen minutes to answer."""

import asyncio
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import aiohttp
import structlog

from actors.clock import Clock
from actors.gateway.edge import EdgeError
from actors.gateway.platforms.discord.errors import DiscordError
from actors.gateway.platforms.discord.rest import Rest
from actors.gateway.platforms.discord.translate import Asked
from messages.delivery import ProblemKind
from messages.gateway import Acceptance, Receipt

log = structlog.get_logger(__name__)

VALID_S = 15 * 60.0
MARGIN_S = 20.0
TIDY_S = 14 * 60.0
"""A placeholder that has no answer by then is taken away: the answer comes as a normal post."""
MOST_OPEN = 5000

EXPIRED = frozenset({10008, 10015, 10062, 50027})
"""The token, or what it would edit, is gone."""

_CALLBACK = "/interactions/{interaction}/{token}/callback"
_ORIGINAL = "/webhooks/{webhook}/{token}/messages/@original"
_FOLLOW_UP = "/webhooks/{webhook}/{token}"

DEFERRED_ANSWER = 5
DEFERRED_UPDATE = 6
EPHEMERAL = 1 << 6
NO_PINGS: Mapping[str, Any] = {"parse": [], "replied_user": False}


@dataclass(slots=True)
class Open:
    """An interaction that can be answered once it is acknowledged."""

    asked: Asked
    until: float
    """On the monotonic clock."""
    settled: asyncio.Event = field(default_factory=asyncio.Event)
    """Set when Discord has said whether it takes the acknowledgement."""
    acknowledged: bool = False
    answered: bool = False


class Interactions:
    """The interactions of the last quarter of an hour."""

    def __init__(self, rest: Rest, clock: Clock) -> None:
        self._rest, self._clock = rest, clock
        self._open: OrderedDict[str, Open] = OrderedDict()

    def __len__(self) -> int:
        return len(self._open)

    def open(self, asked: Asked) -> Open:
        """Remember an interaction; its answer waits for `acknowledge`."""
        now = self._clock.monotonic()
        self._forget_expired(now)
        found = self._open[asked.message.message_id] = Open(asked, now + VALID_S - MARGIN_S)
        return found

    async def acknowledge(self, found: Open) -> None:
        """Tell Discord at once that an answer will come. Never raises: without it the answer is a normal post."""
        asked = found.asked
        kind = DEFERRED_UPDATE if asked.button else DEFERRED_ANSWER
        identity = asked.message.message_id
        try:
            await self._rest.call(
                "POST",
                _CALLBACK,
                interaction=identity,
                token=asked.token,
                json={"type": kind},
                patience_s=1.0,
            )
            found.acknowledged = True
        except EdgeError as error:
            # 10062 is never tried again: the three seconds are over, or another program has answered.
            log.warning("an interaction could not be acknowledged", why=error.problem.detail)
            found.acknowledged = error.problem.kind is ProblemKind.UNKNOWN
        finally:
            found.settled.set()

    def known(self, identity: str | None) -> bool:
        """Say whether this is the id of a recent interaction, not of a message."""
        return identity is not None and identity in self._open

    def can_answer(self, identity: str | None) -> Open | None:
        """Return the interaction that a post answers, while its token is valid."""
        found = self._open.get(identity) if identity is not None else None
        if found is None or found.answered or self._clock.monotonic() >= found.until:
            return None
        return found

    async def answer(
        self, found: Open, payload: Mapping[str, Any], form: aiohttp.FormData | None
    ) -> str | None:
        """Answer through the interaction; the post's id, or None when its token is gone. Raises EdgeError."""
        await found.settled.wait()
        if not found.acknowledged:
            return None
        asked = found.asked
        try:
            if asked.button:
                # With `wait`, Discord says which message came of it.
                body = await self._rest.call(
                    "POST",
                    _FOLLOW_UP,
                    webhook=asked.application,
                    token=asked.token,
                    query={"wait": "true"},
                    json=None if form is not None else payload,
                    form=form,
                )
            else:
                body = await self._rest.call(
                    "PATCH",
                    _ORIGINAL,
                    webhook=asked.application,
                    token=asked.token,
                    json=None if form is not None else payload,
                    form=form,
                )
        except DiscordError as error:
            if error.code in EXPIRED or error.status in (401, 404):
                found.answered = True
                log.info("an interaction's token is gone: the answer is a normal post", code=error.code)
                return None
            raise
        identity = body.get("id") if isinstance(body, dict) else None
        if not isinstance(identity, str):
            raise DiscordError(ProblemKind.UNKNOWN, "Discord took the answer and named no message")
        found.answered = True
        return identity

    async def settle(self, asked: Asked, receipt: Receipt) -> None:
        """Say what became of it at the door, where no answer will come. Never raises."""
        found = self.can_answer(asked.message.message_id)
        if found is None:
            return
        if receipt.acceptance is Acceptance.REFUSED:
            await self._refuse(found, receipt.why or "This was not taken.")
        elif receipt.acceptance is Acceptance.OVERHEARD:
            await self.tidy(asked.message.message_id)

    async def _refuse(self, found: Open, why: str) -> None:
        payload: dict[str, Any] = {"content": why[:2000], "allowed_mentions": dict(NO_PINGS)}
        if found.asked.button:
            payload["flags"] = EPHEMERAL
        try:
            await self.answer(found, payload, None)
        except EdgeError as error:
            log.info("a refusal could not be shown", why=error.problem.detail)

    async def tidy(self, identity: str) -> None:
        """Take away a placeholder that nobody will fill. Never raises."""
        found = self.can_answer(identity)
        if found is None or found.asked.button:
            return
        await found.settled.wait()
        if not found.acknowledged or found.answered:
            return
        found.answered = True
        try:
            await self._rest.call(
                "DELETE", _ORIGINAL, webhook=found.asked.application, token=found.asked.token
            )
        except EdgeError as error:
            log.debug("a placeholder could not be taken away", why=error.problem.detail)

    def _forget_expired(self, now: float) -> None:
        # Kept for as long again: their ids must not be taken for those of messages.
        while self._open:
            oldest = next(iter(self._open.values()))
            if len(self._open) < MOST_OPEN and now < oldest.until + VALID_S:
                return
            self._open.popitem(last=False)
