"""A homeserver for all tests of a module, and an edge that runs by itself, without a house around it."""

import asyncio
import itertools
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from actors.clock import WallClock
from actors.gateway.edge import EdgeContext, EdgeError, LastHeard, OfferedCommand
from actors.gateway.platforms.matrix.edge import MatrixEdge
from actors.gateway.platforms.matrix.options import MatrixOptions
from messages.delivery import PartText, Place, Post, Problem
from messages.gateway import (
    Acceptance,
    EdgeHeard,
    MessageDeleted,
    MessageEdited,
    MessageReceived,
    Receipt,
)
from messages.ids import DeliveryId, MessageId
from tests.counterparts.synapse import PATIENCE_S, Person, Synapse, installed_or_skipped

_NAMES = itertools.count(1)
_KEYS = itertools.count(1)


@pytest.fixture(scope="module")
def synapse(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Synapse]:
    installed_or_skipped()
    with Synapse(tmp_path_factory.mktemp("synapse")) as server:
        yield server


@dataclass
class Running:
    """An edge that is connected, and what it has handed in."""

    edge: MatrixEdge
    task: "asyncio.Task[None]"
    heard: list[EdgeHeard] = field(default_factory=list)

    async def until(self, true: Callable[[], Any]) -> Any:
        async with asyncio.timeout(PATIENCE_S):
            while not (found := true()):
                if self.task.done():
                    self.task.result()
                    raise AssertionError("the connection has ended")
                await asyncio.sleep(0.02)
            return found

    @property
    def said(self) -> list[MessageReceived]:
        return [each for each in self.heard if isinstance(each, MessageReceived)]

    async def hears(self, text: str) -> MessageReceived:
        """Wait for a message with this text."""
        return await self.until(lambda: next((s for s in self.said if s.text == text), None))  # type: ignore[no-any-return]

    async def fails(self) -> Problem:
        """Wait until the connection has ended; return why."""
        async with asyncio.timeout(PATIENCE_S):
            await asyncio.wait({self.task})
        error = self.task.exception()
        assert isinstance(error, EdgeError), error
        return error.problem

    async def settles(self, kept: Path) -> None:
        """Wait until all that was read is durable, and that is written down."""

        def written() -> bool:
            session = self.edge._session
            return session is not None and session.token in (kept.read_text() if kept.exists() else "")

        await self.until(written)

    async def sees(self, kind: type[MessageEdited | MessageDeleted]) -> Any:
        return await self.until(lambda: next((h for h in self.heard if isinstance(h, kind)), None))


@dataclass
class Bot:
    """Our account on the server, and what stays of it between connections."""

    person: Person
    url: str
    folder: Path
    options: dict[str, Any] = field(default_factory=dict)
    last_heard: dict[str, LastHeard] = field(default_factory=dict)

    @property
    def id(self) -> str:
        return self.person.id

    def edge(self) -> MatrixEdge:
        way_in = {} if "password" in self.options else {"access_token": self.person.token}
        options = MatrixOptions.model_validate({"homeserver": self.url, **way_in, **self.options})
        commands = (OfferedCommand(name="stop", argument="", summary="Stop"),)
        context = EdgeContext(
            "matrix",
            "main",
            WallClock(),
            self.folder / "attachments",
            last_heard=self.last_heard,
            commands=commands,
        )
        return MatrixEdge(options, context)

    @asynccontextmanager
    async def connects(
        self, hear: Callable[[EdgeHeard], Awaitable[None]] | None = None
    ) -> AsyncIterator[Running]:
        """Run an edge until the block ends."""
        edge, up = self.edge(), asyncio.Event()
        heard: list[EdgeHeard] = []

        async def handed_in(message: EdgeHeard) -> Receipt:
            if hear is not None:
                await hear(message)
            heard.append(message)
            return Receipt(
                message_id=getattr(message, "message_id", MessageId("-")),
                session_key=None,
                acceptance=Acceptance.ACCEPTED,
            )

        task = asyncio.create_task(edge.run(handed_in, up.set))
        running = Running(edge, task, heard)
        waits = asyncio.create_task(up.wait())
        try:
            await asyncio.wait({waits, task}, return_when=asyncio.FIRST_COMPLETED, timeout=PATIENCE_S)
            if task.done():
                task.result()
            yield running
        finally:
            waits.cancel()
            task.cancel()
            async with asyncio.timeout(2):
                await asyncio.gather(task, waits, return_exceptions=True)


@pytest.fixture
async def bot(synapse: Synapse, tmp_path: Path) -> Bot:
    return Bot(await synapse.person(f"bot{next(_NAMES)}"), synapse.url, tmp_path)


@pytest.fixture
async def ann(synapse: Synapse) -> Person:
    return await synapse.person(f"ann{next(_NAMES)}")


@pytest.fixture
async def bob(synapse: Synapse) -> Person:
    return await synapse.person(f"bob{next(_NAMES)}")


def post(room: str, text: str = "hello", *, thread: str | None = None, **more: Any) -> Post:
    """Make a post with a key of its own."""
    body = more.pop("body", None) or PartText(text=text)
    key = more.pop("key", f"{next(_KEYS):024x}")
    given = {"part": 1, "of": 1, "attempt": 1, **more}
    return Post(
        delivery_id=DeliveryId(f"d-{key}"), key=key, place=Place(chat=room, thread=thread), body=body, **given
    )
