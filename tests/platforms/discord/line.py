"""An edge on a line to a simulated Discord, with somebody who hears; for tests."""

import asyncio
import itertools
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Self, TypeVar

from actors.clock import Clock, WallClock
from actors.gateway.edge import EdgeContext, EdgeError, LastHeard, OfferedCommand
from actors.gateway.platforms.discord import PLATFORM
from actors.gateway.platforms.discord.edge import DiscordEdge
from actors.gateway.platforms.discord.options import DiscordOptions
from messages.delivery import PartText, Place, Post
from messages.gateway import Acceptance, EdgeHeard, MessageReceived, Receipt
from messages.ids import MessageId
from tests.platforms.simulators.discord import DiscordSimulator

PATIENCE_S = 30.0
COMMANDS = (
    OfferedCommand(name="help", argument="[COMMAND]", summary="Say what I can do"),
    OfferedCommand(name="stop", argument="", summary="Stop what is running now"),
    OfferedCommand(
        name="busy",
        argument="[interrupt|queue]",
        summary="Choose what a message does that comes while I am busy",
    ),
)
T = TypeVar("T", bound=EdgeHeard)


class Listening:
    """A front desk that notes what it hears; it can be told to answer otherwise, or to hold."""

    def __init__(self) -> None:
        self.heard: list[EdgeHeard] = []
        self.acceptance = Acceptance.ACCEPTED
        self.why = ""
        self.fails: list[EdgeError] = []
        self.held: asyncio.Event | None = None
        self.news = asyncio.Condition()

    async def hear(self, message: EdgeHeard) -> Receipt:
        if self.fails:
            raise self.fails.pop(0)
        self.heard.append(message)
        async with self.news:
            self.news.notify_all()
        if self.held is not None:
            await self.held.wait()
        identity = MessageId(getattr(message, "message_id", "moved"))
        return Receipt(message_id=identity, session_key=None, acceptance=self.acceptance, why=self.why)

    async def until(self, true: Callable[[], bool]) -> None:
        async with asyncio.timeout(PATIENCE_S), self.news:
            await self.news.wait_for(true)

    async def messages(self, count: int = 1) -> list[MessageReceived]:
        await self.until(lambda: len(self.of(MessageReceived)) >= count)
        return self.of(MessageReceived)

    async def texts(self, count: int = 1) -> list[str]:
        return [message.text for message in await self.messages(count)]

    def of(self, kind: type[T]) -> list[T]:
        return [each for each in self.heard if isinstance(each, kind)]


class Wire:
    """Runs an edge. `async with`; what it ended with is in `ended`."""

    def __init__(
        self,
        sim: DiscordSimulator,
        files: Path,
        *,
        clock: Clock | None = None,
        last_heard: Mapping[str, LastHeard] | None = None,
        chance: float = 0.0,
        commands: tuple[OfferedCommand, ...] = (),
        **options: Any,
    ) -> None:
        self.desk = Listening()
        self.troubles: list[str] = []
        self.connections = 0
        self.clock = clock or WallClock()
        context = EdgeContext(
            platform="discord",
            account="main",
            clock=self.clock,
            files=files,
            last_heard=last_heard or {},
            commands=commands,
            trouble=self.troubles.append,
        )
        self.edge = DiscordEdge(DiscordOptions(**sim.options(**options)), context, lambda: chance)
        self._keys = itertools.count(1)
        self._running: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Self:
        self.start()
        await self.connected()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.stop()

    def start(self) -> None:
        self._running = asyncio.create_task(self.edge.run(self.desk.hear, self._is_connected))

    async def stop(self) -> None:
        assert self._running is not None
        self._running.cancel()
        async with asyncio.timeout(5):
            await asyncio.wait({self._running})
        if not self._running.cancelled():
            self._running.exception()

    async def ended(self) -> EdgeError:
        """Wait until the connection has ended with an error, and return it."""
        assert self._running is not None
        async with asyncio.timeout(PATIENCE_S):
            await asyncio.wait({self._running})
        error = self._running.exception()
        assert isinstance(error, EdgeError), error
        return error

    def _is_connected(self) -> None:
        self.connections += 1

        async def tell() -> None:
            async with self.desk.news:
                self.desk.news.notify_all()

        self._telling = asyncio.create_task(tell())

    async def connected(self, times: int = 1) -> None:
        """Wait until it has been connected so often; fails with its error when it ends instead."""
        assert self._running is not None
        waiting = asyncio.create_task(self.desk.until(lambda: self.connections >= times))
        await asyncio.wait({waiting, self._running}, return_when=asyncio.FIRST_COMPLETED)
        if not waiting.done():
            waiting.cancel()
            self._running.result()
        await waiting

    def post(self, chat: str | None, text: str = "", **more: Any) -> Post:
        """Return a post to an id of a channel."""
        thread, user = more.pop("thread", None), more.pop("user", None)
        body = more.pop("body", None) or PartText(text=text, buttons=more.pop("buttons", ()))
        fields = {
            "delivery_id": "d",
            "part": 1,
            "of": 1,
            "attempt": 1,
            "key": f"{next(self._keys):024x}",
            "place": Place(chat=chat, thread=thread, user=user),
            "body": body,
            **more,
        }
        return Post.model_validate(fields)


__all__ = ["COMMANDS", "PLATFORM", "Listening", "Wire"]
