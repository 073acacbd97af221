"""One account on Slack. Implements `actors.gateway.edge.Edge`, and is cheap to make.

Importing the SDK takes most of a second: that happens in a thread, when the edge runs.
"""

import asyncio
import importlib
from collections.abc import Callable
from typing import TYPE_CHECKING

from actors.gateway.edge import EdgeContext, EdgeError, Hear
from actors.gateway.platforms.slack.options import SlackOptions
from messages.delivery import EdgeView, Post, ProblemKind

if TYPE_CHECKING:
    from actors.gateway.platforms.slack.connection import Connection

_CONNECTION = "actors.gateway.platforms.slack.connection"


class SlackEdge:
    """One connection, from its beginning to its end."""

    def __init__(self, options: SlackOptions, context: EdgeContext) -> None:
        self.options = options
        self._context = context
        self.connection: Connection | None = None

    async def run(self, hear: Hear, connected: Callable[[], None]) -> None:
        module = await asyncio.to_thread(importlib.import_module, _CONNECTION)
        connection: Connection = module.Connection(self.options, self._context)
        self.connection = connection
        await connection.run(hear, connected)

    async def say(self, post: Post) -> str:
        return await self._running().say(post)

    async def find(self, post: Post) -> str | None:
        return await self._running().find(post)

    async def show(self, view: EdgeView) -> str | None:
        return await self._running().show(view)

    async def probe(self) -> None:
        await self._running().probe()

    def _running(self) -> "Connection":
        if self.connection is None:
            raise EdgeError(ProblemKind.NOT_CONNECTED, "not connected")
        return self.connection
