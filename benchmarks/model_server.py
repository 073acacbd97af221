"""A very cheap model server for load: Chat Completions, streamed and not, thousands at once.

    python -m benchmarks.model_server --port 0 --latency 1.0 --tokens 20

prints `listening on http://127.0.0.1:PORT/v1`. Each answer takes `latency` seconds in
all, its tokens spread evenly over them. With `--echo`, an answer begins with the last
number of the form `q123456` that the request holds, so that it can be told whose it is. `GET /stats` tells `in_flight`,
`max_in_flight` and `served`; `POST /reset` sets the last two to where they began. An
`asyncio.Protocol` with bytes made beforehand, so that its own cost hardly shows.
"""

import argparse
import asyncio
import contextlib
import json
import re
from typing import cast

import uvloop

HEAD = (
    b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ncache-control: no-cache\r\n"
    b"transfer-encoding: chunked\r\n\r\n"
)
END = b"0\r\n\r\n"


NUMBERS = re.compile(rb"q\d{6}")


def _frame(payload: dict[str, object] | str) -> bytes:
    text = payload if isinstance(payload, str) else json.dumps(payload, separators=(",", ":"))
    body = f"data: {text}\n\n".encode()
    return b"%x\r\n%s\r\n" % (len(body), body)


def _chunk(delta: dict[str, object], finish: str | None = None) -> dict[str, object]:
    return {
        "id": "chatcmpl-bench",
        "object": "chat.completion.chunk",
        "created": 1,
        "model": "bench-1",
        "choices": [{"index": 0, "delta": delta, "finish_reason": finish}],
    }


class Script:
    """The bytes of one answer, made once."""

    def __init__(self, latency_s: float, tokens: int, *, echo: bool = False) -> None:
        self.echo = echo
        self.pause_s = latency_s / max(1, tokens)
        self.tokens = tokens
        self.first = HEAD + _frame(_chunk({"role": "assistant", "content": ""}))
        self.token = _frame(_chunk({"content": "word "}))
        usage: dict[str, object] = {
            "prompt_tokens": 20,
            "completion_tokens": tokens,
            "total_tokens": 20 + tokens,
        }
        last = {**_chunk({}), "choices": [], "usage": usage}
        self.last = _frame(_chunk({}, "stop")) + _frame(last) + _frame("[DONE]") + END
        message = {"role": "assistant", "content": "word " * tokens}
        whole = {
            "id": "chatcmpl-bench",
            "object": "chat.completion",
            "created": 1,
            "model": "bench-1",
            "choices": [{"index": 0, "message": message, "finish_reason": "stop"}],
            "usage": usage,
        }
        self.whole = _json(whole)
        self.latency_s = latency_s


class Stats:
    """What the server has seen."""

    def __init__(self) -> None:
        self.in_flight = 0
        self.max_in_flight = 0
        self.served = 0


def _json(value: object, status: bytes = b"200 OK") -> bytes:
    body = json.dumps(value).encode()
    return b"HTTP/1.1 %s\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n%s" % (
        status,
        len(body),
        body,
    )


class Connection(asyncio.Protocol):
    """One kept-alive connection; requests come one after the other."""

    def __init__(self, script: Script, stats: Stats) -> None:
        self._script = script
        self._stats = stats
        self._loop = asyncio.get_running_loop()
        self._buffer = b""
        self._transport: asyncio.Transport | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._left = 0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)  # uvloop's own is none by isinstance

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002 asyncio's signature
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
            self._stats.in_flight -= 1
        self._transport = None

    def data_received(self, data: bytes) -> None:
        self._buffer += data
        end = self._buffer.find(b"\r\n\r\n")
        if end < 0:
            return
        head = self._buffer[:end].lower()
        length = 0
        at = head.find(b"content-length:")
        if at >= 0:
            line_end = head.find(b"\r\n", at)
            length = int(head[at + 15 : line_end if line_end >= 0 else len(head)])
        if len(self._buffer) < end + 4 + length:
            return
        body = self._buffer[end + 4 : end + 4 + length]
        self._buffer = self._buffer[end + 4 + length :]
        self._answer(head, body)

    def _write(self, data: bytes) -> None:
        if self._transport is not None:
            self._transport.write(data)

    def _answer(self, head: bytes, body: bytes) -> None:
        stats = self._stats
        if head.startswith(b"get /stats"):
            self._write(_json(vars(stats)))
        elif head.startswith(b"post /reset"):
            stats.max_in_flight, stats.served = stats.in_flight, 0
            self._write(_json(vars(stats)))
        elif head.startswith(b"get "):
            self._write(_json({"object": "list", "data": [{"id": "bench-1", "object": "model"}]}))
        elif b"chat/completions" in head[:64]:
            stats.in_flight += 1
            stats.max_in_flight = max(stats.max_in_flight, stats.in_flight)
            if b'"stream":true' in body or b'"stream": true' in body:
                self._left = self._script.tokens
                self._write(self._script.first + self._named(body))
                self._timer = self._loop.call_later(self._script.pause_s, self._next_token)
            else:
                self._timer = self._loop.call_later(self._script.latency_s, self._finish_whole)
        else:
            self._write(_json({"error": {"message": "no such path"}}, b"404 Not Found"))

    def _named(self, body: bytes) -> bytes:
        """The piece of an answer that says what it answers."""
        if not self._script.echo:
            return b""
        numbers = NUMBERS.findall(body)
        return _frame(_chunk({"content": f"{numbers[-1].decode()} "})) if numbers else b""

    def _next_token(self) -> None:
        if self._script.pause_s <= 0:
            self._write(self._script.token * self._left + self._script.last)
            self._done()
            return
        self._left -= 1
        if self._left > 0:
            self._write(self._script.token)
            self._timer = self._loop.call_later(self._script.pause_s, self._next_token)
        else:
            self._write(self._script.token + self._script.last)
            self._done()

    def _finish_whole(self) -> None:
        self._write(self._script.whole)
        self._done()

    def _done(self) -> None:
        self._timer = None
        self._stats.in_flight -= 1
        self._stats.served += 1


async def serve(port: int, latency_s: float, tokens: int, *, echo: bool = False) -> None:
    """Serve until cancelled; print where."""
    script, stats = Script(latency_s, tokens, echo=echo), Stats()
    loop = asyncio.get_running_loop()
    server = await loop.create_server(lambda: Connection(script, stats), "127.0.0.1", port, backlog=4096)
    print(f"listening on http://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1", flush=True)
    await server.serve_forever()


def main() -> None:
    """Read the command line and serve."""
    parser = argparse.ArgumentParser(description="A cheap model server for load.")
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--latency", type=float, default=1.0, help="seconds an answer takes")
    parser.add_argument("--tokens", type=int, default=20, help="pieces of an answer")
    parser.add_argument("--echo", action="store_true", help="begin with the request's last q123456")
    options = parser.parse_args()
    with contextlib.suppress(KeyboardInterrupt):
        uvloop.run(serve(options.port, options.latency, options.tokens, echo=options.echo))


if __name__ == "__main__":
    main()
