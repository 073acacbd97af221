"""One Slack edge at work against the simulated service: what it heard, and what it can be told."""

import asyncio
import contextlib
import tempfile
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any, Self

from actors.clock import Clock, WallClock
from actors.gateway.edge import EdgeContext, EdgeError, LastHeard
from actors.gateway.platforms.slack.edge import SlackEdge
from actors.gateway.platforms.slack.options import SlackOptions
from messages.blocks import FileBlock, ImageBlock
from messages.delivery import PartText, Place, Post, ProblemKind
from messages.gateway import Acceptance, Button, EdgeHeard, MessageReceived, Receipt
from messages.ids import DeliveryId, MessageId
from tests.platforms.simulators.slack import SlackSimulator

PATIENCE_S = 20.0


class Rig:
    """`async with`: the edge is connected then, unless it is not to be waited for."""

    def __init__(
        self,
        sim: SlackSimulator,
        *,
        clock: Clock | None = None,
        last_heard: Mapping[str, LastHeard] | None = None,
        waits: bool = True,
        **options: Any,
    ) -> None:
        self.sim = sim
        self.clock = clock or WallClock()
        self._folder = tempfile.TemporaryDirectory(prefix="callboard-slack-")
        self.files = Path(self._folder.name) / "attachments"
        self.troubles: list[str] = []
        self.heard: list[EdgeHeard] = []
        self.hear_fails = 0
        """So many of the next messages are not taken."""
        self.on_hear: Callable[[EdgeHeard], Awaitable[None]] | None = None
        self.connected = asyncio.Event()
        self._news = asyncio.Condition()
        self._waits = waits
        context = EdgeContext(
            platform="slack",
            account="main",
            clock=self.clock,
            files=self.files,
            last_heard=last_heard or {},
            trouble=self.troubles.append,
        )
        self.edge = SlackEdge(SlackOptions.model_validate(sim.options(**options)), context)
        self.run: asyncio.Task[None]

    async def __aenter__(self) -> Self:
        self.run = asyncio.create_task(self.edge.run(self._hear, self.connected.set))
        if self._waits:
            waiting = asyncio.create_task(self.connected.wait())
            await asyncio.wait([self.run, waiting], timeout=PATIENCE_S, return_when=asyncio.FIRST_COMPLETED)
            waiting.cancel()
            if self.run.done():
                self.run.result()
            assert self.connected.is_set()
        return self

    async def __aexit__(self, *_: object) -> None:
        self.run.cancel()
        async with asyncio.timeout(5):
            with contextlib.suppress(asyncio.CancelledError, EdgeError):
                await self.run
        self._folder.cleanup()

    async def _hear(self, message: EdgeHeard) -> Receipt:
        if self.hear_fails > 0:
            self.hear_fails -= 1
            raise EdgeError(ProblemKind.TRANSIENT, "the journal is full")
        self.heard.append(message)
        async with self._news:
            self._news.notify_all()
        if self.on_hear is not None:
            await self.on_hear(message)
        message_id = getattr(message, "message_id", MessageId("moved"))
        return Receipt(message_id=message_id, session_key=None, acceptance=Acceptance.ACCEPTED)

    async def heard_so_many(self, count: int) -> list[EdgeHeard]:
        """Wait until so many have been handed in."""
        async with asyncio.timeout(PATIENCE_S), self._news:
            await self._news.wait_for(lambda: len(self.heard) >= count)
        return self.heard

    async def messages(self, count: int) -> list[MessageReceived]:
        return [m for m in await self.heard_so_many(count) if isinstance(m, MessageReceived)]

    async def ended(self) -> EdgeError:
        """Wait for the connection's end; why it ended."""
        async with asyncio.timeout(PATIENCE_S):
            try:
                await self.run
            except EdgeError as error:
                return error
        raise AssertionError("it ended without a reason")


def post(
    text: str,
    chat: str | None,
    *,
    thread: str | None = None,
    key: str = "0" * 24,
    attempt: int = 1,
    reply_to: str | None = None,
    draft: str | None = None,
    buttons: tuple[Button, ...] = (),
    file: FileBlock | ImageBlock | None = None,
    file_name: str | None = None,
    user: str | None = None,
) -> Post:
    return Post(
        delivery_id=DeliveryId("d1"),
        part=1,
        of=1,
        attempt=attempt,
        key=key,
        place=Place(chat=chat, thread=thread, user=user),
        body=PartText(text=text, buttons=buttons, file=file, file_name=file_name),
        reply_to=reply_to,
        draft=draft,
    )


async def eventually(holds: Callable[[], Awaitable[bool]]) -> None:
    """Ask the service until it is so."""
    async with asyncio.timeout(PATIENCE_S):
        while not await holds():
            await asyncio.sleep(0.02)
