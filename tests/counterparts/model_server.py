"""A model server that does as it is told: Chat Completions and Messages, streamed and not, on loopback.

As a library, inside a test:

    async with ModelServer() as server:
        server.will(Say("hello"))
        server.will(Call(("read_file", {"path": "a.txt"})), Say("It says hello."))
        ... base_url=server.base_url (OpenAI) or server.anthropic_url ...
        assert server.requests[0].body["model"] == "m"
        await server.requests[0].closed()      # the client hung up

As a process:  python -m tests.counterparts.model_server --port 0 --script file.json
prints `listening on http://127.0.0.1:PORT/v1`. Without a script it echoes what the
user said last. The script is a list of replies in the vocabulary of `reply_from()`.

Nothing in it waits for the clock unless a script says `delay_s`.
"""

import argparse
import asyncio
import contextlib
import json
from collections import deque
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any, Literal, Self

from aiohttp import web

Json = dict[str, Any]
Protocol = Literal["openai", "anthropic"]


@dataclass(frozen=True)
class Say:
    """Answer with text, in pieces of words. `stop` is the provider's own word; None for its usual one."""

    text: str
    stop: str | None = None
    thinking: str = ""
    delay_s: float = 0.0
    """Before each piece."""
    pieces: tuple[str, ...] | None = None


class Call:
    """Answer with tool calls: (name, arguments) pairs; arguments may be raw JSON text."""

    def __init__(
        self,
        *calls: tuple[str, Mapping[str, Any] | str],
        text: str = "",
        stop: str | None = None,
        ids: Sequence[str] | None = None,
    ) -> None:
        self.calls = tuple((name, a if isinstance(a, str) else json.dumps(a)) for name, a in calls)
        self.text = text
        self.stop = stop
        self.ids = ids


@dataclass(frozen=True)
class Fail:
    """Answer with an HTTP error. `body` may be JSON or text (HTML, say)."""

    status: int
    body: Json | str = ""
    headers: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Hang:
    """Send headers and this text, then nothing more, until the client goes or `server.release()`.

    With `headers` False not even the headers are sent.
    """

    after: str = ""
    headers: bool = True


@dataclass(frozen=True)
class Raw:
    """Send these pieces as they are, then end the stream.

    `end`: `eof` closes it properly (as HTTP), `abort` tears the connection,
    `hang` keeps it open. Use `openai_frames` and `anthropic_frames` to make pieces.
    """

    pieces: tuple[str | bytes, ...]
    end: Literal["eof", "abort", "hang"] = "eof"
    content_type: str = "text/event-stream"


Reply = Say | Call | Fail | Hang | Raw


class Request:
    """A request that came: its body, headers, and whether the client hung up before the end."""

    def __init__(self, path: str, headers: Mapping[str, str], body: Json) -> None:
        self.path = path
        self.headers = dict(headers)
        self.body = body
        self._closed = asyncio.Event()

    @property
    def client_closed(self) -> bool:
        return self._closed.is_set()

    async def closed(self) -> None:
        """Wait until the client hung up before it had the whole answer."""
        await self._closed.wait()

    def mark_closed(self) -> None:
        self._closed.set()

    @property
    def last_user_text(self) -> str:
        for message in reversed(self.body.get("messages", [])):
            if message.get("role") == "user":
                return text_of(message.get("content"))
        return ""


class ModelServer:
    """The server. Replies are used in order; then `otherwise` (an echo by default) answers."""

    def __init__(self, port: int = 0, models: tuple[str, ...] = ("scripted-1",)) -> None:
        self.requests: list[Request] = []
        self.in_flight = 0
        self.max_in_flight = 0
        self.models = models
        self.otherwise: Callable[[Request], Reply] = lambda request: Say(f"echo: {request.last_user_text}")
        self._replies: deque[Reply] = deque()
        self._rules: list[tuple[str, Reply]] = []
        self._port = port
        self._release = asyncio.Event()
        self._changed = asyncio.Condition()
        self._runner: web.AppRunner | None = None

    # ---------------------------------------------------------------- verbs

    def will(self, *replies: Reply) -> None:
        """Answer the next requests so, in this order."""
        self._replies.extend(replies)

    def when(self, said: str, reply: Reply) -> None:
        """Answer so, each time, when the last message is a person's and holds this text."""
        self._rules.append((said, reply))

    def release(self) -> None:
        """Let what hangs go on to its proper end."""
        self._release.set()
        self._release = asyncio.Event()

    async def asked(self, times: int) -> Request:
        """Wait until so many requests have come, all told; return that one."""
        async with self._changed:
            await self._changed.wait_for(lambda: len(self.requests) >= times)
        return self.requests[times - 1]

    @property
    def root(self) -> str:
        return f"http://127.0.0.1:{self._port}"

    @property
    def port(self) -> int:
        return self._port

    @property
    def base_url(self) -> str:
        """For an OpenAI client."""
        return f"{self.root}/v1"

    @property
    def anthropic_url(self) -> str:
        """For an Anthropic client, which adds /v1 itself."""
        return self.root

    async def __aenter__(self) -> Self:
        app = web.Application(client_max_size=64 * 1024 * 1024)
        app.router.add_post("/v1/chat/completions", self._chat)
        app.router.add_post("/v1/messages", self._messages)
        app.router.add_get("/v1/models", self._list)
        self._runner = web.AppRunner(app, handler_cancellation=True, access_log=None, shutdown_timeout=0.5)
        await self._runner.setup()
        site = web.TCPSite(self._runner, "127.0.0.1", self._port, backlog=4096)
        await site.start()
        self._port = self._runner.addresses[0][1]
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.release()
        if self._runner is not None:
            await self._runner.cleanup()

    # -------------------------------------------------------------- inside

    async def _chat(self, raw: web.Request) -> web.StreamResponse:
        return await self._answer(raw, "openai")

    async def _messages(self, raw: web.Request) -> web.StreamResponse:
        return await self._answer(raw, "anthropic")

    async def _list(self, _raw: web.Request) -> web.StreamResponse:
        data = [{"id": name, "object": "model", "type": "model"} for name in self.models]
        return web.json_response({"object": "list", "data": data})

    async def _answer(self, raw: web.Request, protocol: Protocol) -> web.StreamResponse:
        request = Request(raw.path, raw.headers, await raw.json())
        reply = self._next(request)
        self.in_flight += 1
        self.max_in_flight = max(self.max_in_flight, self.in_flight)
        self.requests.append(request)
        async with self._changed:
            self._changed.notify_all()
        try:
            return await self._play(raw, request, reply, protocol)
        except (asyncio.CancelledError, ConnectionResetError):
            request.mark_closed()
            raise
        finally:
            self.in_flight -= 1

    def _next(self, request: Request) -> Reply:
        messages = request.body.get("messages") or [{}]
        if messages[-1].get("role") == "user":
            for said, reply in self._rules:
                if said in request.last_user_text:
                    return reply
        return self._replies.popleft() if self._replies else self.otherwise(request)

    async def _play(
        self, raw: web.Request, request: Request, reply: Reply, protocol: Protocol
    ) -> web.StreamResponse:
        match reply:
            case Fail():
                return _failed(reply)
            case Hang(headers=False):
                await self._release.wait()
                return await self._stream(raw, frames_of(Say(""), protocol, request), "eof", 0.0)
            case Raw():
                return await self._stream(raw, reply.pieces, reply.end, 0.0, reply.content_type)
            case Hang():
                frames = frames_of(Say(reply.after), protocol, request)
                cut = 2 if protocol == "openai" else 3
                return await self._hang(raw, frames[:-cut], frames[-cut:])
            case _ if not request.body.get("stream"):
                return web.json_response(whole_of(reply, protocol, request))
            case _:
                delay = reply.delay_s if isinstance(reply, Say) else 0.0
                return await self._stream(raw, frames_of(reply, protocol, request), "eof", delay)

    async def _hang(
        self, raw: web.Request, before: Sequence[str], after: Sequence[str]
    ) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        await response.prepare(raw)
        for frame in before:
            await response.write(frame.encode())
        await self._release.wait()
        for frame in after:
            await response.write(frame.encode())
        await response.write_eof()
        return response

    async def _stream(
        self,
        raw: web.Request,
        pieces: Sequence[str | bytes],
        end: Literal["eof", "abort", "hang"],
        delay_s: float,
        content_type: str = "text/event-stream",
    ) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Type": content_type})
        await response.prepare(raw)
        for piece in pieces:
            if delay_s:
                await asyncio.sleep(delay_s)
            await response.write(piece if isinstance(piece, bytes) else piece.encode())
        if end == "hang":
            await self._release.wait()
        if end == "abort":
            if raw.transport is not None:
                raw.transport.abort()
            return response
        await response.write_eof()
        return response


def _failed(reply: Fail) -> web.Response:
    if isinstance(reply.body, str):
        kind = "text/html" if reply.body.lstrip().startswith("<") else "text/plain"
        return web.Response(
            status=reply.status, text=reply.body, content_type=kind, headers=dict(reply.headers)
        )
    return web.json_response(reply.body, status=reply.status, headers=dict(reply.headers))


# ---------------------------------------------------------------------- frames


def text_of(content: object) -> str:
    """Return the text in a message's content, in either protocol."""
    if isinstance(content, str):
        return content
    if isinstance(content, list):
        return "\n".join(part["text"] for part in content if part.get("type") == "text")
    return ""


def data(payload: Json | str) -> str:
    """Return one OpenAI frame."""
    return f"data: {payload if isinstance(payload, str) else json.dumps(payload)}\n\n"


def event(kind: str, **fields: Any) -> str:
    """Return one Anthropic frame."""
    return f"event: {kind}\ndata: {json.dumps({'type': kind, **fields})}\n\n"


def chunk(delta: Json, finish: str | None = None, **fields: Any) -> Json:
    """Return an OpenAI chunk with one choice."""
    return {
        "id": "chatcmpl-1",
        "object": "chat.completion.chunk",
        "created": 1,
        "model": "scripted-1",
        "choices": [{"index": 0, "delta": delta, "finish_reason": finish}],
        **fields,
    }


def words(text: str) -> list[str]:
    """Cut text into pieces that end with their blank."""
    return [piece for piece in text.replace(" ", " \0").split("\0") if piece]


def frames_of(reply: Reply, protocol: Protocol, request: Request) -> list[str]:
    """Return the frames of a whole streamed answer."""
    counted = len(json.dumps(request.body)) // 4
    return openai_frames(reply, counted) if protocol == "openai" else anthropic_frames(reply, counted)


def _calls_of(reply: Say | Call) -> list[tuple[str, str, str]]:
    if isinstance(reply, Say):
        return []
    ids = reply.ids or [f"call_{number}" for number in range(1, len(reply.calls) + 1)]
    return [(call_id, name, arguments) for call_id, (name, arguments) in zip(ids, reply.calls, strict=True)]


def _pieces_of(reply: Say | Call) -> Sequence[str]:
    return (reply.pieces if isinstance(reply, Say) else None) or words(reply.text)


def openai_frames(reply: Reply, counted: int = 10) -> list[str]:
    """Return a Chat Completions stream, `[DONE]` included."""
    assert isinstance(reply, Say | Call)
    calls = _calls_of(reply)
    frames = [data(chunk({"role": "assistant", "content": ""}))]
    if isinstance(reply, Say) and reply.thinking:
        frames.append(data(chunk({"reasoning_content": reply.thinking})))
    frames.extend(data(chunk({"content": piece})) for piece in _pieces_of(reply))
    for index, (call_id, name, arguments) in enumerate(calls):
        head = {
            "index": index,
            "id": call_id,
            "type": "function",
            "function": {"name": name, "arguments": ""},
        }
        frames.append(data(chunk({"tool_calls": [head]})))
        middle = len(arguments) // 2
        for piece in (arguments[:middle], arguments[middle:]):
            more = {"index": index, "function": {"arguments": piece}}
            frames.append(data(chunk({"tool_calls": [more]})))
    frames.append(data(chunk({}, reply.stop or ("tool_calls" if calls else "stop"))))
    usage = {"prompt_tokens": counted, "completion_tokens": 5, "total_tokens": counted + 5}
    frames.append(data({**chunk({}), "choices": [], "usage": usage}))
    frames.append(data("[DONE]"))
    return frames


def anthropic_frames(reply: Reply, counted: int = 10) -> list[str]:
    """Return a Messages stream, `message_stop` included."""
    assert isinstance(reply, Say | Call)
    calls = _calls_of(reply)
    message: Json = {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "model": "scripted-1",
        "content": [],
        "stop_reason": None,
        "stop_sequence": None,
        "usage": {"input_tokens": counted, "output_tokens": 1},
    }
    frames = [event("message_start", message=message)]
    blocks: list[tuple[Json, list[Json]]] = []
    if isinstance(reply, Say) and reply.thinking:
        pieces = [
            {"type": "thinking_delta", "thinking": reply.thinking},
            {"type": "signature_delta", "signature": "c2lnbmVk"},
        ]
        blocks.append(({"type": "thinking", "thinking": "", "signature": ""}, pieces))
    if reply.text or not calls:
        texts = [{"type": "text_delta", "text": piece} for piece in _pieces_of(reply)]
        blocks.append(({"type": "text", "text": ""}, texts))
    for call_id, name, arguments in calls:
        middle = len(arguments) // 2
        parts = [
            {"type": "input_json_delta", "partial_json": piece}
            for piece in ("", arguments[:middle], arguments[middle:])
        ]
        blocks.append(({"type": "tool_use", "id": call_id, "name": name, "input": {}}, parts))
    for index, (start, deltas) in enumerate(blocks):
        frames.append(event("content_block_start", index=index, content_block=start))
        frames.extend(event("content_block_delta", index=index, delta=delta) for delta in deltas)
        frames.append(event("content_block_stop", index=index))
    stop = reply.stop or ("tool_use" if calls else "end_turn")
    delta = {"stop_reason": stop, "stop_sequence": None}
    frames.append(event("message_delta", delta=delta, usage={"output_tokens": 5}))
    frames.append(event("message_stop"))
    return frames


def whole_of(reply: Reply, protocol: Protocol, request: Request) -> Json:
    """Return an answer that is not streamed."""
    assert isinstance(reply, Say | Call)
    calls = _calls_of(reply)
    counted = len(json.dumps(request.body)) // 4
    if protocol == "openai":
        message: Json = {"role": "assistant", "content": reply.text or None}
        if calls:
            message["tool_calls"] = [
                {"id": call_id, "type": "function", "function": {"name": name, "arguments": arguments}}
                for call_id, name, arguments in calls
            ]
        finish = reply.stop or ("tool_calls" if calls else "stop")
        return {
            "id": "chatcmpl-1",
            "object": "chat.completion",
            "created": 1,
            "model": "scripted-1",
            "choices": [{"index": 0, "message": message, "finish_reason": finish}],
            "usage": {"prompt_tokens": counted, "completion_tokens": 5, "total_tokens": counted + 5},
        }
    content: list[Json] = [{"type": "text", "text": reply.text}] if reply.text else []
    content.extend(
        {"type": "tool_use", "id": call_id, "name": name, "input": json.loads(arguments)}
        for call_id, name, arguments in calls
    )
    return {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "model": "scripted-1",
        "content": content,
        "stop_reason": reply.stop or ("tool_use" if calls else "end_turn"),
        "stop_sequence": None,
        "usage": {"input_tokens": counted, "output_tokens": 5},
    }


# --------------------------------------------------------------------- process


def reply_from(step: Mapping[str, Any]) -> Reply:
    """Read one step of a script file.

    {"say": "text", "delay_s": 0.1} · {"call": [["tool", {…}], …], "say": "text"} ·
    {"fail": 429, "body": {…}, "headers": {…}} · {"hang": "text before"} ·
    {"raw": ["data: …\\n\\n"], "end": "abort"}
    """
    if "fail" in step:
        return Fail(step["fail"], step.get("body", ""), step.get("headers", {}))
    if "hang" in step:
        return Hang(step["hang"], headers=step.get("headers", True))
    if "raw" in step:
        return Raw(tuple(step["raw"]), end=step.get("end", "eof"))
    if "call" in step:
        return Call(*((name, args) for name, args in step["call"]), text=step.get("say", ""))
    return Say(step["say"], stop=step.get("stop"), delay_s=step.get("delay_s", 0.0))


@contextlib.asynccontextmanager
async def serving(port: int, script: Sequence[Mapping[str, Any]]) -> AsyncIterator[ModelServer]:
    """Serve a script; a step with `when` answers each message that holds its text."""
    server = ModelServer(port)
    for step in script:
        reply = reply_from(step)
        if "when" in step:
            server.when(step["when"], reply)
        else:
            server.will(reply)
    async with server:
        yield server


async def _main(port: int, script: Sequence[Mapping[str, Any]]) -> None:
    async with serving(port, script) as server:
        print(f"listening on {server.base_url}", flush=True)  # noqa: T201 the port is this program's output
        await asyncio.Event().wait()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="A scripted model server for tests.")
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--script", type=Path)
    options = parser.parse_args()
    with contextlib.suppress(KeyboardInterrupt):
        asyncio.run(
            _main(options.port, json.loads(options.script.read_text("utf-8")) if options.script else [])
        )
