"""Chat platforms for tests: one in memory that can be told to misbehave, and a bridge program on a real socket."""

import asyncio
import hmac
import json
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Literal, Self

from actors.gateway.edge import EdgeError, Hear
from messages.delivery import DraftShown, EdgeView, Post, ProblemKind
from messages.gateway import MessageReceived, Receipt

SECRET = "a secret of some length"

Fault = Literal["taken_and_silent", "taken_anew_and_silent", "lost"]
"""The platform posts and nobody hears of it; or it does not, and nobody hears of that either."""


@dataclass
class Posted:
    """What stands in a chat."""

    receipt: str
    post: Post


class FakeChats:
    """The platform's own memory: it outlives our process. Shows what people see."""

    def __init__(self, *, keys: bool = False) -> None:
        self.keys = keys
        self.posted: list[Posted] = []
        self.calls = 0
        self._faults: deque[EdgeError | Fault] = deque()

    # ------------------------------------------------------------------ verbs for tests

    def will_fail(self, kind: ProblemKind, *, times: int = 1, **more: Any) -> None:
        """Let the next calls fail, posting nothing."""
        self._faults.extend(EdgeError(kind, "told to fail", **more) for _ in range(times))

    def will_take_and_be_silent(self, times: int = 1, *, draft_gone: bool = False) -> None:
        """Let the next calls post, and say that nobody knows; `draft_gone`: of those that had a draft, anew."""
        self._faults.extend(
            "taken_anew_and_silent" if draft_gone else "taken_and_silent" for _ in range(times)
        )

    def will_lose(self, times: int = 1) -> None:
        """Let the next calls post nothing, and say that nobody knows."""
        self._faults.extend("lost" for _ in range(times))

    def will_be_well(self) -> None:
        """Let no call fail any more."""
        self._faults.clear()

    def texts(self, chat: str | None = None) -> list[str]:
        return [p.post.body.text for p in self.posted if chat is None or p.post.place.chat == chat]

    # ------------------------------------------------------------------ what the platform does

    def take(self, post: Post) -> str:
        self.calls += 1
        fault = self._faults.popleft() if self._faults else None
        if isinstance(fault, EdgeError):
            raise fault
        receipt = "" if fault == "lost" else self._put(post)
        if fault is not None:
            error = EdgeError(ProblemKind.UNKNOWN, "no answer in time")
            if fault == "taken_anew_and_silent" and post.draft is not None:
                error.problem = error.problem.model_copy(update={"draft_gone": True})
            raise error
        return receipt

    def _put(self, post: Post) -> str:
        known = self.find(post) if self.keys else None
        if known is None:
            known = f"post-{len(self.posted) + 1}"
            self.posted.append(Posted(known, post))
        return known

    def find(self, post: Post) -> str | None:
        return next((p.receipt for p in self.posted if p.post.key == post.key), None)


class FakeEdge:
    """Implements `actors.gateway.edge.Edge` over `FakeChats`; one connection."""

    def __init__(self, chats: FakeChats) -> None:
        self.chats = chats
        self.held: list[tuple[Post, asyncio.Future[None]]] = []
        self.holds = False
        self.looked = 0
        self.shown: list[EdgeView] = []
        self.show_fails: EdgeError | None = None
        self.probes = 0
        self.deaf = False
        self._hear: Hear | None = None
        self._end: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    async def run(self, hear: Hear, connected: Callable[[], None]) -> None:
        self._hear = hear
        connected()
        await self._end

    def loses_connection(self) -> None:
        if not self._end.done():
            self._end.set_exception(EdgeError(ProblemKind.TRANSIENT, "the line went dead"))

    async def hears(self, message: MessageReceived) -> Receipt:
        assert self._hear is not None
        return await self._hear(message)

    async def say(self, post: Post) -> str:
        if self.holds:
            waits: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self.held.append((post, waits))
            await waits
        return self.chats.take(post)

    async def show(self, view: EdgeView) -> str | None:
        """Note what was shown; a new draft is named by its place in the notes."""
        if isinstance(self.show_fails, EdgeError):
            raise self.show_fails
        self.shown.append(view)
        return f"draft-{len(self.shown)}" if isinstance(view, DraftShown) and view.receipt is None else None

    async def probe(self) -> None:
        self.probes += 1
        if self.deaf:
            raise EdgeError(ProblemKind.TRANSIENT, "no answer to the probe")

    def release(self) -> None:
        """Let the calls that wait go on."""
        for _, waits in self.held:
            waits.set_result(None)
        self.held.clear()

    async def find(self, post: Post) -> str | None:
        self.looked += 1
        return self.chats.find(post)


# ------------------------------------------------------------------ a bridge program


@dataclass
class BridgeProgram:
    """What an operator would write: listens, greets, posts. Its answers can be scripted."""

    secret: str = SECRET
    answers: bool = True
    """Whether `say` gets its receipt at once; else a test answers."""
    lines: list[dict[str, Any]] = field(default_factory=list)
    """All that came after the greeting, in order."""
    port: int = 0
    connections: int = 0
    _writer: asyncio.StreamWriter | None = None
    _server: asyncio.Server | None = None
    _news: asyncio.Condition = field(default_factory=asyncio.Condition)
    _tasks: set[asyncio.Task[Any]] = field(default_factory=set)
    _open: set[asyncio.StreamWriter] = field(default_factory=set)

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", self.port)
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, *_: object) -> None:
        assert self._server is not None
        self._server.close()
        for writer in tuple(self._open):
            writer.close()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._server.wait_closed()

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"

    def hangs_up(self) -> None:
        if self._writer is not None:
            self._writer.close()
            self._writer = None

    async def sends(self, **line: Any) -> None:
        await self.until(lambda: self._writer is not None)
        assert self._writer is not None
        self._writer.write(json.dumps(line).encode() + b"\n")
        await self._writer.drain()

    async def sends_raw(self, raw: bytes) -> None:
        assert self._writer is not None
        self._writer.write(raw)
        await self._writer.drain()

    async def until(self, true: Callable[[], bool]) -> None:
        """Wait until something is true of what came."""
        async with asyncio.timeout(30), self._news:
            await self._news.wait_for(true)

    async def hears(self, kind: str, count: int = 1) -> list[dict[str, Any]]:
        """Wait for so many lines of a type, and return all of that type."""
        await self.until(lambda: len(self.of(kind)) >= count)
        return self.of(kind)

    def of(self, kind: str) -> list[dict[str, Any]]:
        return [line for line in self.lines if line["type"] == kind]

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        self._open.add(writer)
        try:
            if await self._greets(reader, writer):
                await self._notice(writer)
                while raw := await reader.readline():
                    await self._heard(json.loads(raw), writer)
        except (ConnectionError, asyncio.IncompleteReadError):
            pass
        finally:
            self._open.discard(writer)
            writer.close()

    async def _greets(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        ours = "bridge-nonce-0123456789"
        writer.write(json.dumps({"type": "hello", "protocol": 1, "nonce": ours}).encode() + b"\n")
        hello = json.loads(await reader.readline() or b"{}")
        both = f"{ours}:{hello.get('nonce')}"
        if hello.get("proof") != self._proof(f"callboard:{both}"):
            return False
        welcome = {"type": "welcome", "proof": self._proof(f"bridge:{both}")}
        writer.write(json.dumps(welcome).encode() + b"\n")
        return True

    def _proof(self, text: str) -> str:
        return hmac.digest(self.secret.encode(), text.encode(), "sha256").hex()

    async def _notice(self, writer: asyncio.StreamWriter) -> None:
        async with self._news:
            self._writer = writer
            self.connections += 1
            self._news.notify_all()

    async def _heard(self, line: dict[str, Any], writer: asyncio.StreamWriter) -> None:
        async with self._news:
            self.lines.append(line)
            self._news.notify_all()
        if line["type"] == "say" and self.answers:
            receipt = {"type": "receipt", "key": line["key"], "receipt": f"post-{len(self.of('say'))}"}
            writer.write(json.dumps(receipt).encode() + b"\n")
