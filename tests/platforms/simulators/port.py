"""What every simulated service can be told to do, whatever wire protocol it speaks.

A simulator is a process of its own: `python -m tests.platforms.simulators.NAME`. When it
is ready it prints one JSON line with its addresses; it ends when its standard input
does. Its memory is the service's memory: it outlives every connection, and every life
of Callboard.
"""

import asyncio
import json
import os
import sys
from dataclasses import dataclass
from typing import Any, Protocol, Self

import aiohttp

READY_S = 30.0


@dataclass(frozen=True)
class SimPost:
    """A message of ours that stands in a chat of the service."""

    id: str
    chat: str
    text: str
    """As it stands now, in the service's own markup."""
    at: float
    """When it was first posted, on the simulator's monotonic clock."""
    thread: str | None = None
    reply_to: str | None = None
    edits: int = 0
    files: tuple[str, ...] = ()
    """Names of what is attached."""
    buttons: tuple[str, ...] = ()
    """Labels of what can be pressed."""


class Simulator(Protocol):
    """A service under a test's hand. `async with` starts and ends its process."""

    async def __aenter__(self) -> Self: ...

    async def __aexit__(self, *_: object) -> None: ...

    def settings(self, **access: Any) -> dict[str, Any]:
        """Return `platforms.NAME` of callboard.yaml: how to reach it, and who may talk to us."""
        ...

    async def says(
        self,
        chat: str,
        user: str,
        text: str,
        *,
        mention: bool = True,
        dm: bool = False,
        reply_to: str | None = None,
        thread: str | None = None,
        **more: Any,
    ) -> str:
        """Let a person write; return the message's id. The chat and the person are made when they are new."""
        ...

    async def posts(self, chat: str | None = None) -> list[SimPost]:
        """Return what we posted and what still stands, oldest first."""
        ...

    async def cuts(self) -> None:
        """Cut every connection, as a network does."""
        ...

    async def misbehaves(self, how: str, *, times: int = 1, **more: Any) -> None:
        """Let the next `times` calls or connections fail in this way; each simulator names its ways."""
        ...

    async def requests(self) -> list[dict[str, Any]]:
        """Return every call that we made, refused ones too: method, path, status, at."""
        ...


class SimulatorProcess:
    """Starts a simulator, and talks to its control address (`/_sim/…`, JSON both ways)."""

    def __init__(self, name: str, *arguments: str) -> None:
        self.name = name
        self._arguments = arguments
        self.addresses: dict[str, Any] = {}
        self._process: asyncio.subprocess.Process | None = None
        self._http: aiohttp.ClientSession | None = None

    async def __aenter__(self) -> Self:
        self._process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-m",
            f"tests.platforms.simulators.{self.name}",
            *self._arguments,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            env=dict(os.environ),
        )
        assert self._process.stdout is not None
        async with asyncio.timeout(READY_S):
            line = await self._process.stdout.readline()
        self.addresses = json.loads(line)
        self._http = aiohttp.ClientSession(self.addresses["control"])
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._http is not None:
            await self._http.close()
        if self._process is not None and self._process.returncode is None:
            self._process.kill()
            await self._process.wait()
            # The transport's pipes are closed in its next turn of the loop.
            await asyncio.sleep(0)

    async def control(self, verb: str, **what: Any) -> Any:
        """Tell it to do something; return what it answers."""
        assert self._http is not None, "start it first"
        async with self._http.post(f"/_sim/{verb}", json=what) as response:
            answer = await response.json()
            assert response.status == 200, (verb, answer)
            return answer
