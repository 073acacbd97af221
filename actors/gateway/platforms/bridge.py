"""The bridge: any chat, by a small program of the operator's own; JSON lines over loopback or a unix socket.

The line protocol is described in docs/platforms/bridge.md. We connect, the program
listens. Each side proves that it knows the secret; neither sends it.
"""

import asyncio
import hmac
import ipaddress
import json
import math
import secrets
from collections import OrderedDict
from collections.abc import Callable
from typing import Annotated, Any, Literal

import structlog
from pydantic import BaseModel, ConfigDict, Field, SecretStr, ValidationError, field_validator

from actors.gateway.chunks import SMALLEST_LIMIT, Unit
from actors.gateway.edge import EdgeContext, EdgeError, Hear
from actors.gateway.markup import RENDERERS, Markup
from actors.gateway.registry import Capabilities, Limits, PlatformEntry, Question
from actors.gateway.signatures import same, wire_bytes
from messages.delivery import EdgeView, Post, ProblemKind
from messages.gateway import Acceptance, Author, ChatType, MessageReceived, Origin
from messages.ids import MessageId

log = structlog.get_logger(__name__)

LONGEST_LINE = 1 << 20
MOST_UNACKNOWLEDGED = 200
"""So many messages may be on their way into the journal; the next lines wait in the socket."""

MOST_LATE = 1000

GREETING_S = 10.0
QUIET_S = 30.0
LOST = "the connection was lost before an answer came"
_KINDS = {kind.value: kind for kind in ProblemKind if kind is not ProblemKind.NOT_CONNECTED}


class BridgeOptions(BaseModel):
    """`platforms.bridge.options`."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    address: str
    secret: SecretStr = Field(min_length=16)
    idempotency_key: bool = False
    history: bool = False
    limit: Annotated[int, Field(ge=SMALLEST_LIMIT, le=200_000)] = 4000
    unit: Unit = Unit.CHARACTERS
    files: bool = False
    markup: Markup = "markdown"
    answer_timeout_s: Annotated[float, Field(gt=0, le=60)] = 30.0

    @field_validator("address")
    @classmethod
    def _on_this_machine(cls, address: str) -> str:
        if address.startswith("unix:/"):
            return address
        host, _, port = address.rpartition(":")
        loopback = host == "localhost" or ipaddress.ip_address(host.strip("[]")).is_loopback
        if not loopback or not port.isdigit() or not 0 < int(port) < 65536:
            raise ValueError("write unix:/path, or HOST:PORT with a loopback address")
        return address


class _Heard(BaseModel):
    """A `message` line. Ids may be numbers; what else is there is ignored."""

    model_config = ConfigDict(frozen=True, coerce_numbers_to_str=True)

    id: Annotated[str, Field(min_length=1, max_length=512)]
    chat: Annotated[str, Field(min_length=1, max_length=512)]
    chat_type: ChatType
    thread: str | None = None
    user: Annotated[str, Field(min_length=1, max_length=512)]
    name: str | None = None
    text: str
    server: str | None = None
    mentions_us: bool = False
    bot: bool = False


class BridgeEdge:
    """One connection. Implements `actors.gateway.edge.Edge`."""

    def __init__(self, options: BridgeOptions, context: EdgeContext) -> None:
        self._options = options
        self._context = context
        self._writer: asyncio.StreamWriter | None = None
        self._asked: dict[tuple[str, str], asyncio.Future[dict[str, Any]]] = {}
        """Calls that have no answer yet, by what answers them and the key."""
        self._late: OrderedDict[str, str] = OrderedDict()
        """Receipts that came when nobody waited any more: they answer the next call with the key."""
        self._hearing: set[asyncio.Task[None]] = set()
        self._room = asyncio.Semaphore(MOST_UNACKNOWLEDGED)

    # ------------------------------------------------------------------ the connection

    async def run(self, hear: Hear, connected: Callable[[], None]) -> None:
        try:
            reader, writer = await self._open()
        except (OSError, TimeoutError) as error:
            raise EdgeError(ProblemKind.TRANSIENT, f"{self._options.address}: {error}") from None
        try:
            try:
                await self._greet(reader, writer)
            except asyncio.IncompleteReadError:
                why = "closed while greeting: does the bridge know the same secret?"
                raise EdgeError(ProblemKind.TRANSIENT, why) from None
            self._writer = writer
            connected()
            await self._listen(reader, hear)
        except (OSError, asyncio.IncompleteReadError, asyncio.LimitOverrunError, TimeoutError) as error:
            raise EdgeError(ProblemKind.TRANSIENT, f"{type(error).__name__}: {error}") from None
        finally:
            self._writer = None
            for task in self._hearing:
                task.cancel()
            for answer in self._asked.values():
                if not answer.done():
                    answer.set_exception(EdgeError(ProblemKind.UNKNOWN, LOST))
            writer.close()

    async def _open(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        address = self._options.address
        async with asyncio.timeout(GREETING_S):
            if address.startswith("unix:"):
                path = address.removeprefix("unix:")
                return await asyncio.open_unix_connection(path, limit=LONGEST_LINE)
            host, _, port = address.rpartition(":")
            return await asyncio.open_connection(host.strip("[]"), int(port), limit=LONGEST_LINE)

    async def _greet(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        async with asyncio.timeout(GREETING_S):
            hello = await _line(reader)
            theirs, ours = str(hello.get("nonce", "")), secrets.token_hex(16)
            if hello.get("type") != "hello" or hello.get("protocol") != 1 or len(theirs) < 16:
                raise EdgeError(ProblemKind.NEEDS_HUMAN, "the bridge does not greet with protocol 1")
            both = f"{theirs}:{ours}"
            greeting = {"type": "hello", "protocol": 1, "nonce": ours, "account": self._context.account}
            await _write(writer, {**greeting, "proof": self._proof(f"callboard:{both}")})
            welcome = await _line(reader)
        if not same(str(welcome.get("proof", "")), self._proof(f"bridge:{both}")):
            raise EdgeError(
                ProblemKind.NEEDS_HUMAN, "the bridge does not know the secret: compare both sides'"
            )

    def _proof(self, text: str) -> str:
        return hmac.digest(self._options.secret.get_secret_value().encode(), wire_bytes(text), "sha256").hex()

    async def _listen(self, reader: asyncio.StreamReader, hear: Hear) -> None:
        asked = False
        while True:
            try:
                async with asyncio.timeout(QUIET_S):
                    line = await _line(reader)
            except TimeoutError:
                if asked:
                    raise EdgeError(ProblemKind.TRANSIENT, "the bridge is silent") from None
                asked = True
                async with asyncio.timeout(QUIET_S):
                    await self._send({"type": "ping"})
                continue
            asked = False
            match line.get("type"):
                case "message":
                    await self._room.acquire()
                    self._hand_in(line, hear)
                case "receipt":
                    self._answered("say", line)
                case "error":
                    self._answered("say", line)
                    self._answered("find", line)
                case "found":
                    self._answered("find", line)
                case "ping":
                    await self._send({"type": "pong"})
                case _:
                    pass  # of a later version

    # ------------------------------------------------------------------ hearing

    def _hand_in(self, line: dict[str, Any], hear: Hear) -> None:
        task = asyncio.ensure_future(self._heard(line, hear))  # tasks begin in the order of the lines
        self._hearing.add(task)
        task.add_done_callback(self._handed_in)

    def _handed_in(self, task: "asyncio.Task[None]") -> None:
        self._hearing.discard(task)
        self._room.release()
        if not task.cancelled() and task.exception() is not None:
            log.error("a message could not be handed in", error=repr(task.exception()))

    async def _heard(self, line: dict[str, Any], hear: Hear) -> None:
        try:
            message = self._message(_Heard.model_validate(line))
        except ValidationError as error:
            first = error.errors(include_url=False, include_input=False)[0]
            why = f"{'.'.join(map(str, first['loc']))}: {first['msg']}"
            log.warning("the bridge sent a message that cannot be read", why=why)
            await self._send({"type": "refused", "id": line.get("id"), "why": f"Not understood: {why}"})
            return
        receipt = await hear(message)
        if receipt.acceptance is Acceptance.REFUSED:
            await self._send({"type": "refused", "id": line["id"], "why": receipt.why})
        else:
            await self._send({"type": "ack", "id": line["id"]})

    def _message(self, heard: _Heard) -> MessageReceived:
        return MessageReceived(
            message_id=MessageId(heard.id),
            origin=Origin(
                platform=self._context.platform,
                account=self._context.account,
                server=heard.server or None,
                chat_type=heard.chat_type,
                chat=heard.chat,
                thread=heard.thread,
                user=heard.user,
            ),
            author=Author(id=heard.user, name=(heard.name or "")[:200], bot=heard.bot),
            text=heard.text,
            mentions_us=heard.mentions_us,
            at=self._context.clock.now(),
        )

    # ------------------------------------------------------------------ saying

    async def say(self, post: Post) -> str:
        late = self._late.pop(post.key, None)
        if late is not None:
            return late
        line = {
            "type": "say",
            "key": post.key,
            "attempt": post.attempt,
            "chat": post.place.chat,
            "thread": post.place.thread,
            "text": post.body.text,
            "file": post.body.file_name,
            "part": post.part,
            "of": post.of,
            "reply_to": post.reply_to,
            "maybe_duplicate": post.maybe_duplicate or None,
        }
        if post.body.file_name is None:
            line["text"] = _rendered(self._options.markup, post.body.text)
        answer = await self._ask("say", line)
        return str(answer.get("receipt") or post.key)

    async def find(self, post: Post) -> str | None:
        late = self._late.pop(post.key, None)
        if late is not None:
            return late
        text = _rendered(self._options.markup, post.body.text)
        line = {"type": "find", "key": post.key, "chat": post.place.chat, "thread": post.place.thread}
        answer = await self._ask("find", {**line, "text": text})
        receipt = answer.get("receipt")
        return None if receipt is None else str(receipt)

    async def show(self, view: EdgeView) -> None:
        """A bridge shows nothing that passes."""

    async def probe(self) -> None:
        """The pings of `_listen` are the probe."""

    async def _ask(self, kind: Literal["say", "find"], line: dict[str, Any]) -> dict[str, Any]:
        answer: asyncio.Future[dict[str, Any]] = asyncio.get_running_loop().create_future()
        asked = (kind, str(line["key"]))
        if self._writer is None:
            raise EdgeError(ProblemKind.NOT_CONNECTED, "not connected")
        line = {name: value for name, value in line.items() if value is not None}
        if len(_encoded(line)) > LONGEST_LINE:
            raise EdgeError(ProblemKind.REFUSED, f"longer than a line may be ({LONGEST_LINE} bytes)")
        self._asked[asked] = answer
        try:
            async with asyncio.timeout(self._options.answer_timeout_s):
                await self._send(line)
                return await answer
        except TimeoutError:
            raise EdgeError(ProblemKind.UNKNOWN, "no answer in time") from None
        except OSError as error:
            raise EdgeError(ProblemKind.UNKNOWN, f"{LOST}: {error}") from None
        finally:
            if self._asked.get(asked) is answer:
                del self._asked[asked]

    def _answered(self, kind: Literal["say", "find"], line: dict[str, Any]) -> None:
        answer = self._asked.get((kind, str(line.get("key"))))
        if answer is None or answer.done():
            if line["type"] == "receipt":
                self._late[str(line.get("key"))] = str(line.get("receipt") or line.get("key"))
                if len(self._late) > MOST_LATE:
                    self._late.popitem(last=False)
            return
        if line["type"] == "error":
            answer.set_exception(_error(line))
        else:
            answer.set_result(line)

    async def _send(self, line: dict[str, Any]) -> None:
        if self._writer is not None:
            await _write(self._writer, line)


def _error(line: dict[str, Any]) -> EdgeError:
    kind = _KINDS.get(str(line.get("kind")), ProblemKind.UNKNOWN)
    after = line.get("retry_after")
    told = float(after) if isinstance(after, int | float) and math.isfinite(after) else None
    return EdgeError(
        kind,
        str(line.get("detail") or ""),
        retry_after_s=None if told is None else min(max(told, 0.0), 86_400.0),
        whole_account=line.get("scope") == "account",
    )


def _rendered(markup: Markup, text: str) -> str:
    render = RENDERERS[markup]
    return text if render is None else render(text)


async def _line(reader: asyncio.StreamReader) -> dict[str, Any]:
    raw = await reader.readuntil(b"\n")
    try:
        line = json.loads(raw)
    except ValueError:
        line = None
    if not isinstance(line, dict):
        raise EdgeError(ProblemKind.TRANSIENT, "the bridge sent a line that is no JSON object")
    return line


async def _write(writer: asyncio.StreamWriter, line: dict[str, Any]) -> None:
    writer.write(_encoded(line))
    await writer.drain()


def _encoded(line: dict[str, Any]) -> bytes:
    text = json.dumps(line, ensure_ascii=False, separators=(",", ":"))
    return text.encode("utf-8", "replace") + b"\n"


def _shape(options: BridgeOptions) -> tuple[Limits, Capabilities]:
    capabilities = Capabilities(
        threads=True,
        idempotency_key=options.idempotency_key,
        history=options.history,
        says_refusals=True,
    )
    return Limits(options.limit, options.unit, files=options.files), capabilities


PLATFORM = PlatformEntry(
    name="bridge",
    factory=BridgeEdge,
    config=BridgeOptions,
    limits=Limits(4000),
    shape=_shape,
    render=lambda options: RENDERERS[options.markup],
    home_variable="CALLBOARD_BRIDGE_HOME",
    title="A program of yours",
    questions=(
        Question("address", "Where it listens: HOST:PORT on this machine, or unix:/path"),
        Question(
            "secret",
            "Secret that both sides know",
            where="The same goes into your program; nothing entered: one is made",
            variable="CALLBOARD_BRIDGE_SECRET",
            made=True,
        ),
    ),
    first_steps="Your program listens and speaks the line protocol of docs/platforms/bridge.md; we connect to it.",
    prompt_hint="Markdown is shown; posts are short.",
)
