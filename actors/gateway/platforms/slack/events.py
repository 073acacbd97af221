"""The Events API: Slack calls us. Nothing is believed before its signature is."""

import asyncio
import json
from collections import OrderedDict
from collections.abc import Callable, Coroutine
from typing import Any
from urllib.parse import parse_qs

import structlog
from aiohttp import web

from actors.clock import Clock
from actors.gateway.edge import EdgeError
from actors.gateway.platforms.slack.hearing import Hearing
from actors.gateway.platforms.slack.options import SlackOptions
from actors.gateway.signatures import hmac_matches
from messages.delivery import ProblemKind

log = structlog.get_logger(__name__)

MOST_BYTES = 2 << 20
OLDEST_S = 300.0
"""A request that was signed longer ago (or so far in the future) is refused."""

ACK_S = 2.0
MOST_SIGNATURES = 50_000


class Listener:
    """Listens for Slack's requests."""

    def __init__(self, options: SlackOptions, clock: Clock, hearing: Hearing) -> None:
        assert options.signing_secret is not None
        self._options = options
        self._secret = options.signing_secret.get_secret_value()
        self._clock = clock
        self._hearing = hearing
        self._seen: OrderedDict[bytes, float] = OrderedDict()
        """Signatures that were accepted, with the time until which they would be again."""
        self._under_way: set[asyncio.Future[None]] = set()
        self._lost: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        """Fails when something that Slack takes for heard cannot be handed in."""
        self.refused = 0

    async def run(self, connected: Callable[[], None]) -> None:
        """Listen until cancelled. Raises EdgeError when nothing can be listened on."""
        app = web.Application(client_max_size=MOST_BYTES)
        app.router.add_post(self._options.path, self._request)
        runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.5)
        await runner.setup()
        host, _, port = self._options.listen.rpartition(":")
        try:
            await web.TCPSite(runner, host.strip("[]"), int(port)).start()
            connected()
            await self._lost
        except OSError as error:
            raise EdgeError(
                ProblemKind.TRANSIENT, f"cannot listen on {self._options.listen}: {error}"
            ) from None
        finally:
            await runner.cleanup()
            for taking in tuple(self._under_way):
                taking.cancel()

    async def _request(self, request: web.Request) -> web.Response:
        body = await request.read()
        signature, why = self._distrust(request, body)
        if why:
            self.refused += 1
            log.warning("a request to Slack's address was refused", why=why, refused=self.refused)
            return web.Response(status=401, text=why)
        envelope = _envelope(request.content_type, body)
        if envelope is None:
            return web.Response(status=400, text="not understood")
        if envelope["type"] == "url_verification":
            return web.Response(text=envelope["payload"].get("challenge", ""))
        if envelope["type"] == "ssl_check":
            return web.Response()
        return await self._answer(envelope, signature)

    def _distrust(self, request: web.Request, body: bytes) -> tuple[bytes, str]:
        """Return a request's signature, and why it is not Slack's; empty when it is. Remembers the signature."""
        headers = {name.lower(): value for name, value in request.raw_headers}
        stamp = headers.get(b"x-slack-request-timestamp", b"")
        signature = headers.get(b"x-slack-signature", b"")
        if not (stamp.isdigit() and len(stamp) <= 12):
            return signature, "no time"
        now = self._clock.now().timestamp()
        if abs(now - int(stamp)) > OLDEST_S:
            return signature, "too old"
        if not hmac_matches(signature, self._secret, b"v0:" + stamp + b":" + body, prefix="v0="):
            return signature, "wrong signature"
        signature = signature.lower()
        while self._seen and (next(iter(self._seen.values())) < now or len(self._seen) > MOST_SIGNATURES):
            self._seen.popitem(last=False)
        if signature in self._seen:
            return signature, "seen before"
        self._seen[signature] = int(stamp) + OLDEST_S + 1
        return signature, ""

    async def _answer(self, envelope: dict[str, Any], signature: bytes) -> web.Response:
        """Hand in, then answer; at the latest just before Slack would send it again."""
        taking = self._begun(self._hearing.take(envelope))
        if envelope["type"] == "events_api":
            await asyncio.wait([taking], timeout=ACK_S)
        if taking.done() and (taking.cancelled() or taking.exception() is not None):
            self._seen.pop(signature, None)  # it comes again; within the same second, signed the same
            return web.Response(status=503, text="not taken")
        self._begun(self._insist(taking, envelope))
        return web.Response()

    def _begun(self, work: Coroutine[Any, Any, None]) -> "asyncio.Future[None]":
        task = asyncio.ensure_future(work)
        self._under_way.add(task)
        task.add_done_callback(self._ended)
        return task

    def _ended(self, task: "asyncio.Future[None]") -> None:
        self._under_way.discard(task)
        if not task.cancelled() and task.exception() is not None:
            log.warning("a message was not taken", why=repr(task.exception()))

    async def _insist(self, taking: "asyncio.Future[None]", envelope: dict[str, Any]) -> None:
        """Slack will not send it again; should it never be taken, the next connection looks for it."""
        try:
            try:
                await taking
            except EdgeError as error:
                await self._hearing.take_at_last(envelope, error)
        except EdgeError as error:
            if not self._lost.done():
                self._lost.set_exception(error)


def _envelope(content_type: str, body: bytes) -> dict[str, Any] | None:
    """Give a request the form of a Socket Mode envelope; None when it cannot be read."""
    try:
        if content_type == "application/x-www-form-urlencoded":
            fields = {
                name: values[-1] for name, values in parse_qs(body.decode(), keep_blank_values=True).items()
            }
            if "payload" in fields:
                return _of("interactive", json.loads(fields["payload"]))
            return _of("ssl_check" if fields.get("ssl_check") == "1" else "slash_commands", fields)
        payload = json.loads(body)
    except (ValueError, RecursionError):
        return None
    if isinstance(payload, dict) and payload.get("type") == "url_verification":
        challenge = payload.get("challenge")
        return _of("url_verification", {"challenge": challenge if isinstance(challenge, str) else ""})
    return _of("events_api", payload)


def _of(kind: str, payload: object) -> dict[str, Any] | None:
    return {"type": kind, "payload": payload} if isinstance(payload, dict) else None
