"""A console on real sockets over a fake desk, and clients for both doors."""

import json
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

import aiohttp
from pydantic import SecretStr

from actors.console.server import ConsoleServer
from messages.settings import ServerSettings
from tests.fakes.clock import ManualClock
from tests.fakes.desk import FakeDesk

TOKEN = "a-token-of-the-tests"
BEARER = {"Authorization": f"Bearer {TOKEN}"}


@dataclass
class House:
    desk: FakeDesk
    server: ConsoleServer
    clock: ManualClock
    home: Path
    web: aiohttp.ClientSession
    """Over TCP, with the token."""
    stranger: aiohttp.ClientSession
    """Over TCP, with nothing."""
    control: aiohttp.ClientSession
    """Over the control socket."""

    @property
    def url(self) -> str:
        return self.server.url


def console(desk: FakeDesk, home: Path, clock: ManualClock, **settings: Any) -> ConsoleServer:
    return ConsoleServer(
        desk,
        ServerSettings(**{"port": 0, **settings}),
        home=home,
        token=SecretStr(TOKEN),
        clock=clock,
        version="1.2.3",
    )


@asynccontextmanager
async def serving(desk: FakeDesk | None = None, **settings: Any) -> AsyncIterator[House]:
    desk, clock = desk or FakeDesk(), ManualClock()
    with tempfile.TemporaryDirectory(prefix="cb") as folder:
        home = Path(folder)
        server = console(desk, home, clock, **settings)
        await server.start()
        unix = aiohttp.UnixConnector(str(server.socket))
        try:
            async with (
                aiohttp.ClientSession(server.url, headers=BEARER) as web,
                aiohttp.ClientSession(server.url, cookie_jar=aiohttp.CookieJar(unsafe=True)) as stranger,
                aiohttp.ClientSession("http://control", connector=unix) as control,
            ):
                yield House(desk, server, clock, home, web, stranger, control)
        finally:
            await server.stop()


@dataclass
class Event:
    name: str
    data: Any
    seq: int | None = None


@dataclass
class Events:
    """Server-sent events as they come; comments are counted."""

    response: aiohttp.ClientResponse
    comments: int = 0
    seen: list[Event] = field(default_factory=list)

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Event:
        event = Event("message", None)
        while line := await self.response.content.readline():
            text = line.decode().rstrip("\n")
            name, _, value = text.partition(": ")
            if text == "":
                if event.data is not None:
                    self.seen.append(event)
                    return event
            elif name == "":
                self.comments += 1
            elif name == "event":
                event.name = value
            elif name == "id":
                event.seq = int(value)
            else:
                event.data = json.loads(value) if value != "[DONE]" else value
        raise StopAsyncIteration

    async def until(self, name: str, kind: str | None = None) -> Event:
        """Read on to the next event of this name (and, for a live one, this kind)."""
        async for event in self:
            if event.name == name and (kind is None or event.data["kind"] == kind):
                return event
        raise AssertionError(f"the stream ended before {name} came: {self.seen}")

    async def comment(self) -> None:
        """Read on to the next comment."""
        before = self.comments
        while self.comments == before:
            line = await self.response.content.readline()
            assert line, "the stream ended"
            self.comments += line.startswith(b": ")


def events_of(response: aiohttp.ClientResponse) -> Events:
    assert response.status == 200
    assert response.headers["content-type"].startswith("text/event-stream")
    return Events(response)
