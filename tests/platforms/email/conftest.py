"""Mail servers for all tests of a module, and an edge that runs by itself, without a house around it."""

import asyncio
import itertools
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from actors.clock import WallClock
from actors.gateway.edge import EdgeContext, EdgeError
from actors.gateway.platforms.email.edge import EmailEdge
from actors.gateway.platforms.email.options import EmailOptions
from messages.delivery import PartText, Place, Post, Problem
from messages.gateway import Acceptance, EdgeHeard, MessageReceived, Receipt
from messages.ids import DeliveryId
from tests.counterparts.mail import PASSWORD, PATIENCE_S, Correspondent, MailServers, installed_or_skipped

_NAMES = itertools.count(1)
_KEYS = itertools.count(1)


@pytest.fixture(scope="module")
def mail() -> Iterator[MailServers]:
    installed_or_skipped()
    with MailServers() as servers:
        yield servers


@dataclass
class Running:
    """An edge that is connected, and what it has handed in."""

    edge: EmailEdge
    task: "asyncio.Task[None]"
    heard: list[MessageReceived] = field(default_factory=list)

    async def until(self, true: Callable[[], Any]) -> Any:
        async with asyncio.timeout(PATIENCE_S):
            while not (found := true()):
                if self.task.done():
                    self.task.result()
                    raise AssertionError("the connection has ended")
                await asyncio.sleep(0.02)
            return found

    async def hears(self, text: str) -> MessageReceived:
        """Wait for a message with this text."""
        return await self.until(lambda: next((s for s in self.heard if s.text == text), None))  # type: ignore[no-any-return]

    async def fails(self) -> Problem:
        """Wait until the connection has ended; return why."""
        async with asyncio.timeout(PATIENCE_S):
            await asyncio.wait({self.task})
        error = self.task.exception()
        assert isinstance(error, EdgeError), error
        return error.problem


@dataclass
class Bot:
    """Our mailbox, and what stays of it between connections."""

    mailbox: Correspondent
    folder: Path
    options: dict[str, Any]

    @property
    def address(self) -> str:
        return self.mailbox.address

    def edge(self) -> EmailEdge:
        context = EdgeContext("email", "main", WallClock(), self.folder / "attachments")
        return EmailEdge(EmailOptions.model_validate(self.options), context)

    @property
    def mark(self) -> Path:
        return self.folder / ".email-main" / "mail.json"

    @asynccontextmanager
    async def connects(
        self, hear: Callable[[EdgeHeard], Awaitable[None]] | None = None
    ) -> AsyncIterator[Running]:
        """Run an edge until the block ends."""
        edge, up = self.edge(), asyncio.Event()
        heard: list[MessageReceived] = []

        async def handed_in(message: EdgeHeard) -> Receipt:
            if hear is not None:
                await hear(message)
            assert isinstance(message, MessageReceived)
            heard.append(message)
            return Receipt(message_id=message.message_id, session_key=None, acceptance=Acceptance.ACCEPTED)

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
def bot(mail: MailServers, tmp_path: Path) -> Bot:
    mailbox = mail.person(f"bot{next(_NAMES)}")
    options = {
        "address": mailbox.address,
        "username": mailbox.name,
        "password": PASSWORD,
        "imap_host": "127.0.0.1",
        "imap_port": mail.imap_port,
        "imap_security": "none",
        "smtp_host": "127.0.0.1",
        "smtp_port": mail.smtp_port,
        "smtp_security": "none",
        "smtp_login": False,
    }
    return Bot(mailbox, tmp_path, options)


@pytest.fixture
def ann(mail: MailServers) -> Correspondent:
    return mail.person(f"ann{next(_NAMES)}")


def post(to: str, text: str = "hello", *, thread: str | None = None, **more: Any) -> Post:
    """Make a post with a key of its own."""
    body = more.pop("body", None) or PartText(text=text)
    key = more.pop("key", f"{next(_KEYS):024x}")
    given = {"part": 1, "of": 1, "attempt": 1, **more}
    return Post(
        delivery_id=DeliveryId(f"d-{key}"), key=key, place=Place(chat=to, thread=thread), body=body, **given
    )
