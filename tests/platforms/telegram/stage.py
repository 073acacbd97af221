"""A Telegram edge on one side, the simulated service on the other, and what was heard between them."""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, Self

import pytest

from actors.clock import Clock
from actors.gateway.edge import Edge, EdgeContext, EdgeError, OfferedCommand
from actors.gateway.registry import Registry
from messages.blocks import FileBlock, ImageBlock
from messages.delivery import PartText, Place, Post
from messages.gateway import Acceptance, Button, EdgeHeard, MessageReceived, Receipt
from messages.ids import DeliveryId, MessageId
from tests.fakes.clock import ManualClock
from tests.platforms.simulators.telegram import TelegramSimulator

PATIENCE_S = 20.0
COMMANDS = tuple(
    OfferedCommand(name=name, argument="", summary=f"The command {name}")
    for name in ("help", "stop", "status", "new")
)


async def until(check: Callable[[], Awaitable[object] | object]) -> Any:
    """Wait until something holds that nobody tells us of; return it."""
    async with asyncio.timeout(PATIENCE_S):
        while True:
            found = check()
            if asyncio.iscoroutine(found):
                found = await found
            if found:
                return found
            await asyncio.sleep(0.01)


class Line:
    """A connection. `async with`; it may be made again with `again`."""

    def __init__(self, sim: TelegramSimulator, folder: Path, clock: Clock, **options: Any) -> None:
        self.sim = sim
        self.folder = folder
        self.clock = clock
        self.options = options
        self.heard: list[EdgeHeard] = []
        self.troubles: list[str] = []
        self.receipts: dict[str, Receipt] = {}
        self.hold: asyncio.Event | None = None
        """While set and not released, nothing becomes durable."""
        self.failing: list[EdgeError] = []
        self.giving_up = False
        self.edge: Edge
        self.running: asyncio.Task[None]

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.stop()

    def make(self) -> Edge:
        entry = Registry.discover().get("telegram")
        context = EdgeContext(
            platform="telegram",
            account="main",
            clock=self.clock,
            files=self.folder / "attachments",
            commands=COMMANDS,
            trouble=self.troubles.append,
        )
        return entry.factory(entry.config(**self.sim.options(**self.options)), context)

    async def start(self) -> None:
        self.edge = self.make()
        connected = asyncio.Event()
        self.running = asyncio.ensure_future(self.edge.run(self.hear, connected.set))
        waiting = asyncio.ensure_future(connected.wait())
        await asyncio.wait({self.running, waiting}, timeout=PATIENCE_S, return_when=asyncio.FIRST_COMPLETED)
        waiting.cancel()
        if self.running.done():
            self.running.result()
        assert connected.is_set()

    async def stop(self) -> None:
        self.running.cancel()
        with suppress(asyncio.CancelledError, EdgeError):
            await self.running

    async def hear(self, message: EdgeHeard) -> Receipt:
        if self.failing:
            raise self.failing.pop(0)
        if self.giving_up:
            raise asyncio.CancelledError
        self.heard.append(message)
        if self.hold is not None:
            await self.hold.wait()
        plain = Receipt(message_id=MessageId("?"), session_key=None, acceptance=Acceptance.ACCEPTED)
        return self.receipts.get(getattr(message, "message_id", ""), plain)

    async def hears(self, count: int) -> list[EdgeHeard]:
        """Wait until so many messages were handed in."""
        await until(lambda: len(self.heard) >= count)
        return self.heard

    async def hears_messages(self, count: int) -> list[MessageReceived]:
        return [each for each in await self.hears(count) if isinstance(each, MessageReceived)]

    async def confirmed(self) -> None:
        """Wait until the service keeps nothing for us any more."""
        await until(self.nothing_pending)

    async def nothing_pending(self) -> bool:
        return bool((await self.sim.state())["pending"] == 0)

    async def requests(self, method: str) -> list[dict[str, Any]]:
        return await self.sim.requests(method)

    async def chat_id(self, name: str) -> str:
        return str((await self.sim.state())["ids"][name])


def post(
    chat: str,
    text: str = "",
    *,
    thread: str | None = None,
    reply_to: str | None = None,
    draft: str | None = None,
    buttons: tuple[Button, ...] = (),
    file: FileBlock | ImageBlock | None = None,
    file_name: str | None = None,
    key: str = "k" * 24,
) -> Post:
    return Post(
        delivery_id=DeliveryId("d1"),
        part=1,
        of=1,
        attempt=1,
        key=key,
        place=Place(chat=chat, thread=thread),
        body=PartText(text=text, buttons=buttons, file=file, file_name=file_name),
        reply_to=reply_to,
        draft=draft,
    )


PNG = "hex:89504e470d0a1a0a" + "00" * 20
JPEG = "hex:ffd8ff" + "00" * 20


async def problem_of(work: Any) -> Any:
    with pytest.raises(EdgeError) as caught:
        await work
    return caught.value.problem


async def turned(clock: ManualClock, seconds: float, check: Callable[[], Any], step: float = 1.0) -> Any:
    """Turn the clock step by step, waiting for the sockets in between, until something holds."""
    for _ in range(int(seconds / step) + 1):
        found = check()
        if asyncio.iscoroutine(found):
            found = await found
        if found:
            return found
        await clock.advance(step)
        await asyncio.sleep(0.02)
    pytest.fail(f"not within {seconds} s")


async def a_chat(line: Line, name: str = "kitchen") -> str:
    before = len(line.heard)
    await line.sim.says(name, "ann", "hello")
    await line.hears(before + 1)
    return await line.chat_id(name)


async def counted(line: Line, method: str, least: int) -> bool:
    return len(await line.requests(method)) >= least


async def files_asked_for(line: Line, count: int) -> bool:
    return len(await line.requests("file")) >= count
