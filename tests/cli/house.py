"""A house with a scripted desk behind the real HTTP server: what the command line talks to in these tests."""

import asyncio
import io
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path

from pydantic import SecretStr

from actors.clock import Clock, WallClock
from actors.console.cli.invocation import Invocation
from actors.console.server import ConsoleServer
from actors.errors import StartError
from actors.redaction import Redactor
from messages.gateway import StatusReport
from messages.settings import Settings
from tests.fakes.desk import FakeDesk


class DeskHouse:
    """Implements the command line's `House` with a FakeDesk. `given` is what the constructor was given."""

    def __init__(
        self, settings: Settings, *, desk: FakeDesk, home: Path, clock: Clock, serve_tcp: bool = True
    ) -> None:
        self.settings = settings
        self.serve_tcp = serve_tcp
        self.started = self.stopped = 0
        self.desk = desk
        self._server = ConsoleServer(
            desk,
            settings.server,
            home=home,
            token=SecretStr("t" * 40),
            clock=clock,
            version="9.9",
            serve_tcp=serve_tcp,
        )

    @property
    def url(self) -> str:
        return self._server.url

    @property
    def socket(self) -> Path:
        return self._server.socket

    async def start(self) -> None:
        await self._server.start()
        self.started += 1

    def login_url(self) -> str:
        return self._server.login_url()

    def status(self) -> StatusReport:
        return self.desk.status()

    async def stop(self) -> None:
        await self._server.stop()
        self.stopped += 1


class Builder:
    """Stands where the real house's constructor stands; keeps what it built and what it was given."""

    def __init__(self, desk: FakeDesk, kind: type[DeskHouse] = DeskHouse) -> None:
        self.built: list[DeskHouse] = []
        self.env: Mapping[str, str] = {}
        self.redactor = Redactor()
        self._desk = desk
        self._kind = kind

    def __call__(
        self,
        settings: Settings,
        *,
        home: Path,
        env: Mapping[str, str],
        clock: Clock,
        redactor: Redactor,
        version: str,
        serve_tcp: bool = True,
    ) -> DeskHouse:
        assert version
        self.env, self.redactor = env, redactor
        house = self._kind(settings, desk=self._desk, home=home, clock=clock, serve_tcp=serve_tcp)
        self.built.append(house)
        return house


class BrokenHouse(DeskHouse):
    """Cannot start."""

    async def start(self) -> None:
        raise StartError("The port 8632 is in use.", "Set `server.port` to another one.")


class CrashingHouse(DeskHouse):
    """Has a mistake in it, whose message holds a secret."""

    async def start(self) -> None:
        raise RuntimeError("unexpected: sk-test-AAAA1111BBBB2222")


def typed(
    home: Path,
    desk: FakeDesk,
    *,
    stdin: str = "",
    env: Mapping[str, str] | None = None,
    kind: type[DeskHouse] = DeskHouse,
) -> Invocation:
    """Return a command line in a data folder, with its input and with buffers for its outputs."""
    return Invocation(
        home=home,
        env=env or {},
        version="9.9",
        new_house=Builder(desk, kind),
        stdin=io.StringIO(stdin),
        stdout=io.StringIO(),
        stderr=io.StringIO(),
    )


def printed(invocation: Invocation) -> str:
    assert isinstance(invocation.stdout, io.StringIO)
    return invocation.stdout.getvalue()


def noted(invocation: Invocation) -> str:
    assert isinstance(invocation.stderr, io.StringIO)
    return invocation.stderr.getvalue()


@asynccontextmanager
async def running(home: Path, desk: FakeDesk) -> AsyncIterator[DeskHouse]:
    """A process that runs already on this data folder (in truth, in this process)."""
    house = DeskHouse(Settings(), desk=desk, home=home, clock=WallClock(), serve_tcp=False)
    await house.start()
    try:
        yield house
    finally:
        await house.stop()


async def until(condition: Callable[[], bool]) -> None:
    """Wait, a turn of the loop at a time, until something is so."""
    async with asyncio.timeout(20):
        while not condition():
            await asyncio.sleep(0)
