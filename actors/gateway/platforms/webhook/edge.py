"""The webhook's connection: a listener of its own, and calls to the routes' `answer_url`.

    checks of a call, in this order           what the caller gets
    ---------------------------------------   ----------------------------------------
    the route is there, the method is POST    404, 405
    not too many calls at once                503
    the body is as it is, in time, not large  415, 408, 413
    the signature and its time                401; 429 for who fails too often
    the route's rate                          429 with Retry-After
    the event is wanted, the body readable    200 ignored, 400
    it is durable                             202; 200 for one that was heard before
    `sync`: the answer is there               200 with the answer; 202 when it takes too long
    `sync`: there is none                     429, 502 or 503 with the reason

Nothing that a caller sends makes a 500.
"""

import asyncio
import errno
import math
from collections.abc import Callable, Mapping
from typing import Any

import aiohttp
import structlog
from aiohttp import web

from actors.gateway.edge import EdgeContext, EdgeError, Hear
from actors.gateway.ends import http_status_of
from actors.gateway.platforms.webhook.answers import new_http, post_answer
from actors.gateway.platforms.webhook.limits import FAILURES_A_MINUTE, Buckets
from actors.gateway.platforms.webhook.options import RouteOptions, WebhookOptions
from actors.gateway.platforms.webhook.replay import ReplayMemory
from actors.gateway.platforms.webhook.translate import (
    Arrival,
    Ignored,
    Unreadable,
    delivery_id,
    event_of,
    payload_of,
    translate,
)
from actors.gateway.platforms.webhook.verify import Denied, Verified, verify
from actors.gateway.platforms.webhook.waiting import APPROVAL, Answer, Waiter, Waiting
from messages.delivery import EdgeView, Place, Post, ProblemKind
from messages.gateway import Acceptance, MessageReceived, Receipt

log = structlog.get_logger(__name__)

MOST_AT_ONCE = 200
"""Calls that are being read or handed in; callers that wait for an answer do not count."""

BODY_S = 15.0
GOODBYE_S = 1.0
TRY_AGAIN_S = 5
HEALTH = "/healthz"


class WebhookEdge:
    """Implements `actors.gateway.edge.Edge`."""

    def __init__(self, options: WebhookOptions, context: EdgeContext) -> None:
        self._options = options
        self._context = context
        self._replays = ReplayMemory(options.replay_window_s)
        self._rates, self._failures = Buckets(), Buckets()
        self._waiting = Waiting()
        self._at_once = 0
        self._hear: Hear | None = None
        self._http: aiohttp.ClientSession | None = None
        self._url = ""
        self.refused = 0
        """Calls that were not believed or could not be read."""

    @property
    def url(self) -> str:
        """Where the routes are, while it runs: `http://127.0.0.1:8640`."""
        return self._url

    # ------------------------------------------------------------------ the connection

    async def run(self, hear: Hear, connected: Callable[[], None]) -> None:
        app = web.Application(middlewares=[_no_crash], client_max_size=self._options.body_bytes)
        app.router.add_get(HEALTH, _healthy)
        app.router.add_route("*", "/hooks/{route}", self._called)
        # Signatures are over the bytes as they came: nothing is unpacked.
        runner = web.AppRunner(
            app, access_log=None, handle_signals=False, shutdown_timeout=GOODBYE_S, auto_decompress=False
        )
        self._hear = hear
        async with new_http(self._options.answer_timeout_s) as http:
            self._http = http
            try:
                await runner.setup()
                await self._listen(runner)
                connected()
                await asyncio.get_running_loop().create_future()  # until it is cancelled
            finally:
                self._http = self._hear = None
                self._waiting.stop()
                await runner.cleanup()

    async def _listen(self, runner: web.AppRunner) -> None:
        host, port = self._options.address
        try:
            await web.TCPSite(runner, host, port, reuse_address=True).start()
        except OSError as error:
            raise _listener_error(self._options.listen, error) from None
        found = runner.addresses[0]
        shown = f"[{found[0]}]" if ":" in found[0] else found[0]
        self._url = f"http://{shown}:{found[1]}"
        log.info("webhooks are taken", url=self._url, routes=len(self._options.routes))

    # ------------------------------------------------------------------ hearing

    async def _called(self, request: web.Request) -> web.Response:
        name = request.match_info["route"]
        route = self._options.routes.get(name)
        if route is None:
            return _refusal(404, "there is no such route")
        if request.method != "POST":
            return _refusal(405, "only POST is taken here", headers={"Allow": "POST"})
        if self._at_once >= MOST_AT_ONCE:
            return _refusal(503, "too many calls at once", retry_after_s=TRY_AGAIN_S)
        self._at_once += 1
        try:
            outcome = await self._taken(name, route, request)
        finally:
            self._at_once -= 1
        if isinstance(outcome, web.Response):
            return outcome
        return await self._answered(route, request, *outcome)

    async def _taken(
        self, name: str, route: RouteOptions, request: web.Request
    ) -> web.Response | tuple[Receipt, Waiter | None]:
        """Check a call, and hand it in; return its refusal, or what became of it."""
        body = await _body(request)
        if isinstance(body, web.Response):
            return body
        clock = self._context.clock
        verified = verify(route, request.headers, body, clock.now(), self._options.tolerance_s)
        if isinstance(verified, Denied):
            return self._not_believed(name, request.remote or "", verified)
        wait = self._rates.take(name, route.per_minute, clock.monotonic())
        if wait:
            return _refusal(429, "too many calls of this route", retry_after_s=wait)
        arrival = self._arrival(name, route, request, body, verified)
        message = translate(route, arrival)
        match message:
            case Unreadable(why):
                self.refused += 1
                log.debug("a call could not be read", route=name, why=why, refused=self.refused)
                return _refusal(400, why)
            case Ignored(why):
                return _answer(200, {"status": "ignored", "why": why})
        return await self._handed_in(route, message)

    def _not_believed(self, name: str, caller: str, denied: Denied) -> web.Response:
        """Refuse a call; who fails too often is told so, and fills the log no more.

        Right calls are never held up by wrong ones: behind a proxy all come from one address.
        """
        self.refused += 1
        wait = self._failures.take(caller, FAILURES_A_MINUTE, self._context.clock.monotonic())
        if wait:
            return _refusal(429, "too many calls with a wrong signature", retry_after_s=wait)
        log.info("a call was not believed", route=name, why=denied.why, refused=self.refused)
        return _refusal(401, "the signature or token is missing, wrong or too old")

    def _arrival(
        self, name: str, route: RouteOptions, request: web.Request, body: bytes, verified: Verified
    ) -> Arrival:
        now = self._context.clock.now()
        payload = payload_of(body, request.headers.get("Content-Type", ""))
        given = delivery_id(route, request.headers)
        return Arrival(
            platform=self._context.platform,
            account=self._context.account,
            route=name,
            message_id=self._replays.message_id(name, verified, given, now),
            event=event_of(route, request.headers, payload),
            payload=payload,
            at=now,
            sent_at=verified.sent_at,
        )

    async def _handed_in(
        self, route: RouteOptions, message: MessageReceived
    ) -> web.Response | tuple[Receipt, Waiter | None]:
        if self._hear is None:
            return _refusal(503, "stopping", retry_after_s=TRY_AGAIN_S)
        origin = message.origin
        # Whoever waits must be known before the answer can come.
        waiter = (
            self._waiting.add(message.message_id, Place(chat=origin.chat, thread=origin.thread))
            if route.sync
            else None
        )
        try:
            receipt = await self._hear(message)
        except BaseException as error:
            if waiter is not None:
                self._waiting.remove(waiter)
            if isinstance(error, EdgeError):
                return _refusal(503, "this could not be taken in time", retry_after_s=TRY_AGAIN_S)
            raise
        return receipt, waiter

    async def _answered(
        self, route: RouteOptions, request: web.Request, receipt: Receipt, waiter: Waiter | None
    ) -> web.Response:
        if waiter is None:
            return _of_receipt(receipt)
        try:
            kept = self._waiting.kept(receipt.message_id)
            if kept is not None and receipt.acceptance is Acceptance.DUPLICATE:
                return _of_answer(receipt, kept)
            if receipt.acceptance not in {Acceptance.ACCEPTED, Acceptance.QUEUED, Acceptance.DUPLICATE}:
                return _of_receipt(receipt)
            return await self._wait_for_answer(route, request, receipt, waiter)
        finally:
            self._waiting.remove(waiter)

    async def _wait_for_answer(
        self, route: RouteOptions, request: web.Request, receipt: Receipt, waiter: Waiter
    ) -> web.Response:
        try:
            async with asyncio.timeout(route.sync_timeout_s):
                answer = await asyncio.shield(waiter.answer)
        except TimeoutError:
            return _of_receipt(receipt, status="waiting")
        except asyncio.CancelledError:
            if waiter.answer.cancelled():
                return _of_receipt(receipt, status="waiting")  # we stop; the answer comes in the next life
            raise
        response = _of_answer(receipt, answer)
        try:
            await response.prepare(request)
            await response.write_eof()
        except (ConnectionError, aiohttp.ClientError):
            return response  # `remove` says that it was not sent
        waiter.was_sent(well=request.transport is not None and not request.transport.is_closing())
        return response

    # ------------------------------------------------------------------ saying

    async def say(self, post: Post) -> str:
        if self._http is None:
            raise EdgeError(ProblemKind.NOT_CONNECTED, "not listening")
        name = post.place.chat or ""
        route = self._options.routes.get(name)
        if route is None:
            raise EdgeError(ProblemKind.TARGET_GONE, f"there is no route {name!r} any more")
        if await self._waiting.take(post):
            return f"response:{post.reply_to}"
        if route.answer_url is None:
            return "history"
        context = self._context
        return await post_answer(self._http, name, route, post, account=context.account, clock=context.clock)

    async def find(self, post: Post) -> str | None:  # noqa: ARG002 nothing that was posted can be looked up
        return None

    async def show(self, view: EdgeView) -> str | None:  # noqa: ARG002 nobody watches
        return None

    async def probe(self) -> None:
        """Call our own listener."""
        if self._http is None:
            raise EdgeError(ProblemKind.TRANSIENT, "not listening")
        try:
            async with self._http.get(f"{self._url}{HEALTH}") as response:
                alive = response.status == 200
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            raise EdgeError(ProblemKind.TRANSIENT, f"our own listener does not answer: {error}") from None
        if not alive:
            raise EdgeError(ProblemKind.TRANSIENT, "our own listener does not answer as it should")


# ---------------------------------------------------------------------- HTTP


async def _healthy(_: web.Request) -> web.Response:
    return web.Response(text="ok\n")


@web.middleware
async def _no_crash(request: web.Request, handler: Callable[[web.Request], Any]) -> web.StreamResponse:
    try:
        response: web.StreamResponse = await handler(request)
    except web.HTTPException as refusal:
        return _refusal(refusal.status, refusal.reason.lower())
    except Exception:
        # A mistake of ours: the caller tries again, and the log has the traceback.
        log.exception("a call could not be handled", path=request.path)
        return _refusal(503, "this could not be taken", retry_after_s=TRY_AGAIN_S)
    return response


async def _body(request: web.Request) -> bytes | web.Response:
    if request.headers.get("Content-Encoding", "identity").lower() != "identity":
        return _refusal(415, "send the body as it is, not packed")
    try:
        async with asyncio.timeout(BODY_S):
            return await request.read()
    except TimeoutError:
        return _refusal(408, "the body did not come in time")
    except web.HTTPRequestEntityTooLarge:
        return _refusal(413, "the body is too large")
    except (web.RequestPayloadError, aiohttp.ClientError, ConnectionError, ValueError):
        return _refusal(400, "the body cannot be read")


def _of_answer(receipt: Receipt, answer: Answer) -> web.Response:
    """Tell a caller who waited the answer, or why there is none."""
    said = {"status": receipt.acceptance.value, "message_id": receipt.message_id}
    if not answer.instead:
        return _answer(200, {**said, "text": answer.text})
    if answer.instead == APPROVAL:  # the answer comes later, as after too long a time
        return _answer(202, {**said, "status": "waiting", "code": APPROVAL, "text": answer.text})
    failed = {**said, "status": "failed", "code": answer.instead, "error": answer.text}
    return _answer(http_status_of(answer.instead), failed)


def _of_receipt(receipt: Receipt, *, status: str = "") -> web.Response:
    """Tell a caller what became of the call."""
    what = receipt.acceptance
    said = {"status": status or what.value, "message_id": receipt.message_id}
    match what:
        case Acceptance.ACCEPTED | Acceptance.QUEUED:
            return _answer(202, said)
        case Acceptance.DUPLICATE:
            return _answer(202 if status else 200, said)
        case Acceptance.OVERHEARD:
            # Left alone at the door, above a limit for instance: the service must not take it for done.
            why = "not taken: see `access` of this platform"
            return _answer(429, {**said, "status": "refused", "error": why}, retry_after_s=TRY_AGAIN_S)
        case Acceptance.REFUSED:
            return _answer(429, {**said, "error": receipt.why}, retry_after_s=TRY_AGAIN_S)


def _refusal(
    code: int, why: str, *, retry_after_s: float | None = None, headers: dict[str, str] | None = None
) -> web.Response:
    return _answer(code, {"error": why}, retry_after_s=retry_after_s, headers=headers)


def _answer(
    code: int,
    said: Mapping[str, str],
    *,
    retry_after_s: float | None = None,
    headers: dict[str, str] | None = None,
) -> web.Response:
    sent = {"Cache-Control": "no-store", **(headers or {})}
    if retry_after_s is not None:
        sent["Retry-After"] = str(max(1, math.ceil(retry_after_s)))
    return web.json_response(dict(said), status=code, headers=sent)


def _listener_error(listen: str, error: OSError) -> EdgeError:
    what = f"{listen} cannot be listened on: {error.strerror or error}"
    if error.errno == errno.EADDRINUSE:
        return EdgeError(ProblemKind.TRANSIENT, f"{what}. Another program has it; stop it, or set `listen`")
    return EdgeError(ProblemKind.NEEDS_HUMAN, f"{what}. Set `listen` to an address of this machine")
