"""Processes that wait, ready: the next connection of an edge does not have to wait for what it must import.

To start Python and to import a platform's library takes a second on a busy machine.
So behind each process that is in use stands another that has imported the same and
does nothing. When one is taken, its place is filled a little later.
"""

import asyncio
from typing import Final

import structlog

from actors.clock import Clock
from actors.cluster.port import Nursery, ProcessActor, ProcessGoneError

log = structlog.get_logger(__name__)

REFILL_S: Final = 1.0
"""How long after a process was taken its spare is raised: the one that is taken goes first."""


class Spares:
    """Raises processes that begin with the same words, and keeps one of each ready."""

    def __init__(self, nursery: Nursery, clock: Clock) -> None:
        self._nursery = nursery
        self._clock = clock
        self._ready: dict[tuple[str, bytes], ProcessActor] = {}
        self._filling: dict[tuple[str, bytes], asyncio.Task[None]] = {}

    async def raise_process(self, program: str, first: bytes) -> ProcessActor:
        """Return a process that runs a program and was told its first frame. Raises ProcessGoneError."""
        kind = (program, first)
        process = self._ready.pop(kind, None)
        if process is None or not process.alive:
            process = await self._raised(program, first)
        if kind not in self._filling:
            self._filling[kind] = asyncio.ensure_future(self._fill(kind))
        return process

    async def _raised(self, program: str, first: bytes) -> ProcessActor:
        process = await self._nursery.raise_process(program)
        try:
            await process.tell(first)
        except BaseException:
            await process.end(0)
            raise
        return process

    async def _fill(self, kind: tuple[str, bytes]) -> None:
        try:
            await self._clock.sleep(REFILL_S)
            self._ready[kind] = await self._raised(*kind)
        except ProcessGoneError as error:
            log.warning("no spare process could be raised", why=str(error))
        finally:
            self._filling.pop(kind, None)

    async def close(self) -> None:
        """End the spares; the nursery ends the others."""
        filling = tuple(self._filling.values())
        for task in filling:
            task.cancel()
        if filling:
            await asyncio.wait(filling)
        for process in self._ready.values():
            await process.end(0)
        self._ready.clear()
