"""An edge whose code is loaded when it connects, and not on the loop: some SDKs take most of a second."""

import asyncio
from collections.abc import Callable
from importlib import import_module
from typing import Any

from actors.gateway.edge import Edge, EdgeContext, EdgeError, Hear
from messages.delivery import EdgeView, Post, ProblemKind


class LoadedEdge:
    """Implements `actors.gateway.edge.Edge` by the class of that name in a module."""

    def __init__(self, module: str, name: str, options: Any, context: EdgeContext) -> None:
        self._module = module
        self._name = name
        self._options = options
        self._context = context
        self._edge: Edge | None = None

    async def run(self, hear: Hear, connected: Callable[[], None]) -> None:
        loaded = await asyncio.to_thread(import_module, self._module)
        edge: Edge = getattr(loaded, self._name)(self._options, self._context)
        self._edge = edge
        try:
            await edge.run(hear, connected)
        finally:
            self._edge = None

    def _running(self) -> Edge:
        if self._edge is None:
            raise EdgeError(ProblemKind.NOT_CONNECTED, "not connected")
        return self._edge

    async def say(self, post: Post) -> str:
        return await self._running().say(post)

    async def find(self, post: Post) -> str | None:
        return await self._running().find(post)

    async def show(self, view: EdgeView) -> str | None:
        return await self._running().show(view)

    async def probe(self) -> None:
        await self._running().probe()
