"""A service that calls webhooks and takes answers, over real sockets on loopback."""

import asyncio
import base64
import contextlib
import hmac
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import aiohttp
from aiohttp import web

from actors.gateway.edge import EdgeContext, EdgeError
from actors.gateway.platforms.webhook.edge import WebhookEdge
from actors.gateway.platforms.webhook.options import RouteOptions, WebhookOptions
from messages.delivery import PartText, Place, Post
from messages.gateway import Acceptance, EdgeHeard, MessageReceived, Receipt
from messages.ids import DeliveryId
from tests.fakes.clock import ManualClock

SECRET = "a-secret-of-some-length"


def route(**more: Any) -> RouteOptions:
    return RouteOptions.model_validate({"secret": SECRET, "prompt": "{payload}", **more})


def options(more: dict[str, Any] | None = None, **routes: dict[str, Any]) -> WebhookOptions:
    each = {name: {"secret": SECRET, "prompt": "{payload}", **fields} for name, fields in routes.items()}
    return WebhookOptions.model_validate({"listen": "127.0.0.1:0", "routes": each, **(more or {})})


def hex_of(body: bytes, secret: str = SECRET) -> str:
    return hmac.digest(secret.encode(), body, "sha256").hex()


def post(text: str = "Done.", *, chat: str = "main", reply_to: str | None = None, **more: object) -> Post:
    fields: dict[str, object] = {
        "delivery_id": DeliveryId("d1"),
        "part": 1,
        "of": 1,
        "attempt": 1,
        "key": "ab" * 12,
        "place": Place(chat=chat, thread=None),
        "body": PartText(text=text),
        "reply_to": reply_to,
    }
    return Post.model_validate({**fields, **more})


class Desk:
    """Stands for the front desk: takes what it hears, or refuses it, when it is told to."""

    def __init__(self) -> None:
        self.heard: list[MessageReceived] = []
        self.open = asyncio.Event()
        self.open.set()
        self.acceptance = Acceptance.ACCEPTED
        self.error: Exception | None = None
        self._came = asyncio.Condition()

    async def hear(self, message: EdgeHeard) -> Receipt:
        assert isinstance(message, MessageReceived)
        known = any(m.message_id == message.message_id and m.origin == message.origin for m in self.heard)
        self.heard.append(message)
        async with self._came:
            self._came.notify_all()
        await self.open.wait()
        if self.error is not None:
            raise self.error
        taken = Acceptance.DUPLICATE if known and self.acceptance is Acceptance.ACCEPTED else self.acceptance
        why = "too busy" if taken is Acceptance.REFUSED else ""
        return Receipt(message_id=message.message_id, session_key=None, acceptance=taken, why=why)

    async def hears(self, count: int = 1) -> list[MessageReceived]:
        async with asyncio.timeout(30), self._came:
            await self._came.wait_for(lambda: len(self.heard) >= count)
        return self.heard


class Caller:
    """The service's side: calls a route, signed as the test likes."""

    def __init__(
        self, edge: WebhookEdge, http: aiohttp.ClientSession, desk: Desk, clock: ManualClock
    ) -> None:
        self.edge, self.desk, self.clock = edge, desk, clock
        self._http = http

    async def calls(
        self,
        name: str = "main",
        payload: object = None,
        *,
        body: bytes | None = None,
        headers: dict[str, str] | None = None,
        method: str = "POST",
        signed: bool = True,
    ) -> tuple[int, dict[str, Any], dict[str, str]]:
        raw = (
            json.dumps(payload if payload is not None else {"text": "hi"}).encode() if body is None else body
        )
        sent = {"Content-Type": "application/json", **({"X-Signature": hex_of(raw)} if signed else {})}
        async with self._http.request(
            method, f"{self.edge.url}/hooks/{name}", data=raw, headers={**sent, **(headers or {})}
        ) as response:
            text = await response.text()
            return response.status, json.loads(text) if text else {}, dict(response.headers)


@asynccontextmanager
async def listening(opts: WebhookOptions, desk: Desk | None = None) -> AsyncIterator[Caller]:
    """Run the edge as a platform's actor does."""
    clock, desk = ManualClock(), desk or Desk()
    edge = WebhookEdge(opts, EdgeContext("webhook", "main", clock))
    up = asyncio.Event()
    running = asyncio.create_task(edge.run(desk.hear, up.set))
    waiting = asyncio.create_task(up.wait())
    try:
        async with asyncio.timeout(30):
            await asyncio.wait({running, waiting}, return_when=asyncio.FIRST_COMPLETED)
        if running.done():
            running.result()
        async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0)) as http:
            yield Caller(edge, http, desk, clock)
    finally:
        waiting.cancel()
        running.cancel()
        with contextlib.suppress(asyncio.CancelledError, EdgeError):
            await running


@asynccontextmanager
async def taking_answers(
    respond: Callable[[int], web.Response] = lambda _: web.Response(),
) -> AsyncIterator[tuple[str, list[tuple[dict[str, str], bytes]]]]:
    """Run a server that takes answers; give its address and what it got. `respond` is given the call's number."""
    got: list[tuple[dict[str, str], bytes]] = []

    async def take(request: web.Request) -> web.Response:
        got.append((dict(request.headers), await request.read()))
        return respond(len(got))

    app = web.Application()
    app.router.add_post("/answers", take)
    runner = web.AppRunner(app, shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    try:
        yield f"http://127.0.0.1:{runner.addresses[0][1]}/answers", got
    finally:
        await runner.cleanup()


def standard_signature(key: str, stamp: int, body: bytes, secret: bytes = SECRET.encode()) -> str:
    signed = f"{key}.{stamp}.".encode() + body
    return "v1," + base64.b64encode(hmac.digest(secret, signed, "sha256")).decode()
