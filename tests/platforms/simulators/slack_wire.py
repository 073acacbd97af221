"""How the simulated Slack brings events to the app: over sockets, or by calling its address."""

import asyncio
import contextlib
import hashlib
import hmac
import itertools
import json
import time
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlencode

import aiohttp
from aiohttp import web

from tests.platforms.simulators.slack_service import APP, SECRET, Json, Service

ACK_S = 3.0
MOST_SENT = 4


@dataclass
class Socket:
    """One WebSocket of the app."""

    ws: web.WebSocketResponse
    deaf: bool = False
    leaving: bool = False


@dataclass
class Envelope:
    """Something that the app has not acknowledged yet."""

    id: str
    kind: str
    payload: Json
    sent: int = 0
    sent_at: float = 0.0
    acked: asyncio.Event = field(default_factory=asyncio.Event)


class Wire:
    """Distributes envelopes over all open sockets in turn, and sends again what is not acknowledged."""

    def __init__(self, service: Service) -> None:
        self.service = service
        self.sockets: list[Socket] = []
        self.strangers = 0
        """Sockets of another program that shares the app token; they swallow their share."""
        self.swallowed = 0
        self.tickets: set[str] = set()
        self.open: dict[str, Envelope] = {}
        self.ack_s = ACK_S
        self.lives_s: float = 18060
        self.faults: list[Json] = []
        """Ways in which the next sockets or envelopes misbehave."""
        self.undelivered = 0
        self.resent = 0
        self.accepted = 0
        """Sockets that were opened so far."""
        self.acks: list[Json] = []
        self.events_url = ""
        self.pushes: list[Json] = []
        self._ids = itertools.count(1)
        self._turn = itertools.count()
        self._tasks: set[asyncio.Task[Any]] = set()
        self._http: aiohttp.ClientSession | None = None
        service.emit = self.emit

    def fault(self, how: str) -> Json | None:
        for fault in self.faults:
            if fault["how"] == how and fault["times"] > 0:
                fault["times"] -= 1
                return fault
        return None

    def background(self, work: Any) -> None:
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    # ------------------------------------------------------------------ sockets

    def ticket(self) -> str:
        """Give an address for one socket."""
        ticket = f"t{next(self._ids):09d}"
        self.tickets.add(ticket)
        return ticket

    async def socket(self, request: web.Request) -> web.StreamResponse:
        if request.query.get("ticket") not in self.tickets:
            return web.Response(status=404, text="no such ticket")
        self.tickets.discard(request.query["ticket"])
        if self.fault("refuses_socket"):
            return web.Response(status=500)
        ws = web.WebSocketResponse(autoping=False)
        await ws.prepare(request)
        self.accepted += 1
        socket = Socket(ws)
        if self.fault("no_hello"):
            await asyncio.sleep(3600)
        if self.fault("link_disabled"):
            await ws.send_json({"type": "disconnect", "reason": "link_disabled"})
            await ws.close()
            return ws
        self.sockets.append(socket)
        await ws.send_json(self._hello())
        self._again()
        try:
            await self._listen(socket)
        finally:
            if socket in self.sockets:
                self.sockets.remove(socket)
        return ws

    def _hello(self) -> Json:
        count = len([s for s in self.sockets if not s.ws.closed]) + self.strangers
        info = {"host": "sim", "build_number": 1, "approximate_connection_time": self.lives_s}
        return {
            "type": "hello",
            "num_connections": count,
            "debug_info": info,
            "connection_info": {"app_id": APP},
        }

    async def _listen(self, socket: Socket) -> None:
        async for frame in socket.ws:
            if socket.deaf:
                continue
            if frame.type is aiohttp.WSMsgType.PING:
                await socket.ws.pong(frame.data)
            elif frame.type is aiohttp.WSMsgType.TEXT:
                self._acknowledged(json.loads(frame.data))

    def _acknowledged(self, ack: Json) -> None:
        envelope = self.open.get(ack.get("envelope_id", ""))
        self.acks.append({**ack, "at": time.monotonic(), "known": envelope is not None})
        if envelope is not None and not self.fault("drops_ack"):
            envelope.acked.set()
            del self.open[envelope.id]

    def emit(self, kind: str, payload: Json) -> None:
        """Bring something to the app."""
        if self.events_url:
            self.background(self._push(kind, payload))
            return
        envelope = Envelope(f"e{next(self._ids):09d}", kind, payload)
        self.open[envelope.id] = envelope
        self.background(self._deliver(envelope))

    async def _deliver(self, envelope: Envelope) -> None:
        while envelope.sent < MOST_SENT and not envelope.acked.is_set():
            socket = self._next_socket()
            if socket == "stranger":
                self.swallowed += 1
                self.open.pop(envelope.id, None)
                return
            if not isinstance(socket, Socket):
                break
            await self._send(socket, envelope)
            if self.fault("duplicates"):
                await self._send(socket, envelope)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(self.ack_s):
                    await envelope.acked.wait()
        if not envelope.acked.is_set() and envelope.sent == 0:
            # Nobody was there: Slack does not keep it.
            self.undelivered += 1
            self.open.pop(envelope.id, None)

    def _next_socket(self) -> "Socket | str | None":
        live = [s for s in self.sockets if not s.ws.closed and not s.leaving] or [
            s for s in self.sockets if not s.ws.closed
        ]
        choices: list[Socket | str] = [*live, *(["stranger"] * self.strangers)]
        return choices[next(self._turn) % len(choices)] if choices else None

    async def _send(self, socket: Socket, envelope: Envelope) -> None:
        sent: Json = {
            "envelope_id": envelope.id,
            "type": envelope.kind,
            "payload": envelope.payload,
            "accepts_response_payload": envelope.kind != "events_api",
        }
        if envelope.kind == "events_api":
            sent |= {"retry_attempt": envelope.sent, "retry_reason": "timeout" if envelope.sent else ""}
        self.resent += envelope.sent > 0
        envelope.sent += 1
        with contextlib.suppress(ConnectionError, RuntimeError):
            if not socket.deaf:
                await socket.ws.send_json(sent)

    def _again(self) -> None:
        """What was sent to a socket that is gone comes on the new one."""
        for envelope in list(self.open.values()):
            if envelope.sent >= MOST_SENT:
                continue
            self.background(self._deliver(envelope))

    async def cut(self) -> None:
        """Cut all sockets, as a network does."""
        for socket in self.sockets:
            if socket.ws._req is not None and socket.ws._req.transport is not None:
                socket.ws._req.transport.abort()

    async def refresh(self, reason: str, close_after_s: float) -> None:
        """Ask the app for a new connection, and close the old one after a while."""
        for socket in list(self.sockets):
            socket.leaving = True
            await socket.ws.send_json({"type": "disconnect", "reason": reason, "debug_info": {"host": "sim"}})
            self.background(self._close_later(socket, close_after_s))

    async def _close_later(self, socket: Socket, seconds: float) -> None:
        await asyncio.sleep(seconds)
        await socket.ws.close()

    # ------------------------------------------------------------------ the Events API

    async def _push(self, kind: str, payload: Json) -> None:
        """Call the app's address; three more times when it does not answer well."""
        for number in range(MOST_SENT):
            status = await self.push_once(kind, payload, number)
            if status == 200:
                return
            await asyncio.sleep(0.05)

    async def push_once(self, kind: str, payload: Json, number: int = 0, **how: Any) -> int:
        if self._http is None:
            self._http = aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=ACK_S))
        headers, body = signed(kind, payload, **how)
        if number:
            headers |= {"X-Slack-Retry-Num": str(number), "X-Slack-Retry-Reason": "http_error"}
        try:
            async with self._http.post(self.events_url, data=body, headers=headers) as response:
                status = response.status
                text = await response.text()
        except (aiohttp.ClientError, TimeoutError) as error:
            status, text = 0, repr(error)
        self.pushes.append({"kind": kind, "status": status, "text": text[:200], "number": number})
        return status

    async def close(self) -> None:
        if self._http is not None:
            await self._http.close()


def signed(kind: str, payload: Json, *, at: float | None = None, secret: str = SECRET) -> tuple[Json, bytes]:
    """Make the request with which Slack brings something."""
    if kind == "slash_commands":
        body, mime = urlencode(payload).encode(), "application/x-www-form-urlencoded"
    elif kind == "interactive":
        body = urlencode({"payload": json.dumps(payload)}).encode()
        mime = "application/x-www-form-urlencoded"
    else:
        body, mime = json.dumps(payload).encode(), "application/json"
    stamp = str(int(time.time() if at is None else at))
    digest = hmac.new(secret.encode(), f"v0:{stamp}:".encode() + body, hashlib.sha256).hexdigest()
    headers = {"X-Slack-Request-Timestamp": stamp, "X-Slack-Signature": f"v0={digest}", "Content-Type": mime}
    return headers, body
