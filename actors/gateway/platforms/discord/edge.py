"""The Discord edge: the port's face of a connection. Cheap to import; discord.py is loaded beside the loop."""

import asyncio
from collections.abc import Callable
from importlib import import_module
from random import SystemRandom
from typing import TYPE_CHECKING, assert_never

from actors.gateway.edge import EdgeContext, EdgeError, Hear
from actors.gateway.platforms.discord.options import DiscordOptions
from messages.delivery import (
    DraftRemoved,
    DraftShown,
    EdgeView,
    Post,
    ProblemKind,
    ReactionShown,
    TypingShown,
)

if TYPE_CHECKING:
    from actors.gateway.platforms.discord.live import Live

CHANCE = SystemRandom().random


class DiscordEdge:
    """One bot's connection. Implements `actors.gateway.edge.Edge`."""

    def __init__(
        self, options: DiscordOptions, context: EdgeContext, chance: Callable[[], float] = CHANCE
    ) -> None:
        self._options, self._context, self._chance = options, context, chance
        self._live: Live | None = None
        """Set while posts can be made."""

    async def run(self, hear: Hear, connected: Callable[[], None]) -> None:
        # A fifth of a second of importing, in which everybody else goes on.
        module = await asyncio.to_thread(import_module, "actors.gateway.platforms.discord.live")

        def session_is_there() -> None:
            self._live = live
            self._context.trouble("")
            connected()

        live: Live = module.Live(self._options, self._context, self._chance, hear, session_is_there)
        try:
            await live.run()
        finally:
            self._live = None

    async def say(self, post: Post) -> str:
        return await self._connected().say(post)

    async def find(self, post: Post) -> str | None:
        return await self._connected().find(post)

    async def probe(self) -> None:
        await self._connected().probe()

    async def show(self, view: EdgeView) -> str | None:
        live = self._connected()
        match view:
            case TypingShown() | ReactionShown():
                await live.show(view)
            case DraftShown():
                return await live.sayer.draft(view)
            case DraftRemoved():
                await live.sayer.undraft(view)
            case _:
                assert_never(view)
        return None

    def _connected(self) -> "Live":
        if self._live is None:
            raise EdgeError(ProblemKind.NOT_CONNECTED, "not connected")
        return self._live
