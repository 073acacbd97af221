"""The JSON API under /api: what the web page and the command line stand on."""

import secrets
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from dataclasses import dataclass

from pydantic import BaseModel
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from actors.clock import Clock
from actors.console.access import Access
from actors.console.bodies import Body, ConfirmBody, LoginBody, MessageBody
from actors.console.follow import converse, failure_of
from actors.console.guard import DOOR
from actors.console.port import Desk, WatchLostError
from actors.console.wire import (
    ApiError,
    EventStream,
    OpenRequests,
    json_response,
    read_body,
    read_json,
    server_event,
)
from actors.gateway.commands import COMMANDS
from messages.gateway import (
    Acceptance,
    Author,
    ChatType,
    DraftChanged,
    MessageReceived,
    Origin,
    Receipt,
    TranscriptEntry,
)
from messages.ids import CallId, MessageId, SessionKey

RETRY_AFTER_S = 2

COMMAND_HELP = tuple((command.name, command.summary) for command in COMMANDS)


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What all routes share."""

    desk: Desk
    access: Access
    clock: Clock
    open_requests: OpenRequests
    url: str
    """Where a browser finds the page, without a slash at the end."""
    commands: Sequence[tuple[str, str]] = COMMAND_HELP


def require_ready(desk: Desk) -> None:
    """Raise ApiError 503 while no messages are taken."""
    if not desk.ready():
        raise ApiError(
            503, "not ready: starting or stopping; try again", retry_after_s=RETRY_AFTER_S, code="not_ready"
        )


class Api:
    """The routes under /api."""

    def __init__(self, around: Surroundings) -> None:
        self._around = around
        self._desk = around.desk

    def routes(self) -> list[Route]:
        session = "/api/sessions/{key}"
        return [
            Route("/api/messages", self.speak, methods=["POST"]),
            Route("/api/sessions", self.sessions),
            Route(session + "/messages", self.transcript),
            Route(session + "/events", self.events),
            Route(session + "/stop", self.stop, methods=["POST"]),
            Route(session + "/confirm", self.confirm, methods=["POST"]),
            Route("/api/session-key", self.session_key),
            Route("/api/status", self.status),
            Route("/api/commands", self.commands),
            Route("/api/login", self.login, methods=["POST"]),
            Route("/api/logout", self.logout, methods=["POST"]),
            Route("/api/login-codes", self.login_code, methods=["POST"]),
        ]

    # --------------------------------------------------------------- speaking

    async def speak(self, request: Request) -> Response:
        require_ready(self._desk)
        sync = _flag(request, "sync")
        body = await read_json(request, MessageBody)
        if body.platform == "terminal" and request.scope[DOOR] != "control":
            raise ApiError(
                422, "platform: 'terminal' is for programs on the control socket", param="platform"
            )
        message = self._heard(body)
        if sync:
            key_of(self._desk, message.origin)
            return await self._around.open_requests.attend(request, self._answer(message))
        return receipt_response(await self._desk.speak(message))

    async def _answer(self, message: MessageReceived) -> Response:
        async with aclosing(converse(self._desk, message)) as steps:
            async for step in steps:
                match step:
                    case Receipt():
                        receipt = step
                        if receipt.acceptance is Acceptance.REFUSED:
                            return receipt_response(receipt)
                    case TranscriptEntry():
                        return _settled_response(message, receipt, step)
                    case DraftChanged():
                        pass
        raise AssertionError("a conversation ends with a refusal or an entry")

    def _heard(self, body: MessageBody) -> MessageReceived:
        return MessageReceived(
            message_id=MessageId(body.message_id or f"{body.platform}-{secrets.token_hex(12)}"),
            origin=Origin(
                platform=body.platform,
                chat_type=ChatType.DM,
                chat=body.chat,
                thread=body.thread,
                user=body.user,
            ),
            author=Author(id=body.user or body.platform),
            text=body.text,
            can_confirm=body.can_confirm,
            at=self._around.clock.now(),
        )

    # --------------------------------------------------------------- sessions

    async def sessions(self, _: Request) -> Response:
        return json_response({"sessions": [_plain(session) for session in await self._desk.sessions()]})

    async def transcript(self, request: Request) -> Response:
        after = _number(request, "after")
        entries = await self._desk.transcript(_key(request), after)
        last = entries[-1].seq if entries else after
        return json_response({"entries": [_plain(entry) for entry in entries], "last": last})

    async def events(self, request: Request) -> Response:
        last_seen = request.headers.get("last-event-id", "")
        after = _whole(last_seen)
        if after is None:
            after = _number(request, "after")
        return EventStream(
            self._events(_key(request), after),
            open_requests=self._around.open_requests,
            clock=self._around.clock,
            closing=server_event("{}", event="closing"),
        )

    async def _events(self, key: SessionKey, after: int) -> AsyncGenerator[bytes, None]:
        with self._desk.watch(key) as watch:
            state, live = watch.now()
            last = after
            for entry in await self._desk.transcript(key, after):
                last = entry.seq
                yield server_event(entry.model_dump_json(), event="entry", seq=last)
            yield server_event(state.model_dump_json(), event="ready")
            for event in live:
                yield server_event(event.model_dump_json(), event="live")
            try:
                async for news in watch:
                    if not isinstance(news, TranscriptEntry):
                        yield server_event(news.model_dump_json(), event="live")
                    elif news.seq > last:
                        last = news.seq
                        yield server_event(news.model_dump_json(), event="entry", seq=last)
            except WatchLostError:
                yield server_event("{}", event="lost")

    async def stop(self, request: Request) -> Response:
        await read_nothing(request)
        return json_response({"stopped": await self._desk.stop(_key(request))})

    async def confirm(self, request: Request) -> Response:
        body = await read_json(request, ConfirmBody)
        by = "terminal" if request.scope[DOOR] == "control" else "web"
        if await self._desk.confirm(_key(request), CallId(body.call_id), yes=body.yes, by=by):
            return json_response({"settled": True})
        raise ApiError(409, "nobody is waiting for this answer any more", code="not_waiting")

    async def session_key(self, request: Request) -> Response:
        asked = request.query_params
        known = {"profile", "platform", "account", "chat_type", "chat", "thread", "user"}
        unknown = sorted(set(asked) - known)
        if unknown:
            raise ApiError(
                422, f"{unknown[0]}: unknown; known are {', '.join(sorted(known))}", param=unknown[0]
            )
        try:
            kind = ChatType(asked.get("chat_type", "dm"))
        except ValueError:
            raise ApiError(422, "chat_type: must be dm, group or thread", param="chat_type") from None
        given = {name: value for name, value in asked.items() if name != "chat_type" and value}
        origin = Origin(**{"platform": "web", **given}, chat_type=kind)
        return json_response({"session_key": key_of(self._desk, origin)})

    # ----------------------------------------------------------------- the rest

    async def status(self, _: Request) -> Response:
        return json_response(self._desk.status())

    async def commands(self, _: Request) -> Response:
        offered = [{"name": f"/{name.lstrip('/')}", "help": text} for name, text in self._around.commands]
        return json_response({"commands": offered})

    async def login(self, request: Request) -> Response:
        body = await read_json(request, LoginBody)
        if not self._around.access.is_token(body.token):
            raise ApiError(401, "that is not the token", param="token", code="invalid_api_key")
        return json_response({"ok": True}, headers={"set-cookie": self._cookie(request)})

    async def logout(self, request: Request) -> Response:
        await read_nothing(request)
        return json_response({"ok": True}, headers={"set-cookie": self._around.access.no_cookie()})

    async def login_code(self, request: Request) -> Response:
        await read_nothing(request)
        if not self._around.url:
            raise ApiError(409, "this process serves no web page; `callboard run` does", code="no_page")
        return json_response({"url": f"{self._around.url}/?login={self._around.access.codes.make()}"})

    def _cookie(self, request: Request) -> str:
        return self._around.access.cookie(secure=request.url.scheme == "https")


class NothingBody(Body):
    """A request that says nothing but its address."""


async def read_nothing(request: Request) -> None:
    """Take an empty body, or an empty JSON object."""
    if request.headers.get("content-length", "0") == "0" and "transfer-encoding" not in request.headers:
        await read_body(request)
    else:
        await read_json(request, NothingBody)


def receipt_response(receipt: Receipt) -> Response:
    """Return the front desk's answer as HTTP has it."""
    match receipt.acceptance:
        case Acceptance.ACCEPTED | Acceptance.QUEUED:
            return json_response(receipt, 202)
        case Acceptance.DUPLICATE | Acceptance.OVERHEARD:
            return json_response(receipt)
        case Acceptance.REFUSED:
            refusal = ApiError(429, receipt.why, code="refused")
            content = receipt.model_dump(mode="json") | refusal.body()
            return json_response(content, 429, {"retry-after": str(RETRY_AFTER_S)})


def _settled_response(message: MessageReceived, receipt: Receipt, entry: TranscriptEntry) -> Response:
    answer: dict[str, object] = {"receipt": _plain(receipt), "reply": entry.text, "turn": entry.turn}
    failure = failure_of(message, entry)
    if failure is not None:
        return json_response(answer | failure.body(), failure.status, failure.headers())
    return json_response(answer)


def key_of(desk: Desk, origin: Origin) -> SessionKey:
    """Return the key of a place. Raises ApiError 400 when it names nobody."""
    try:
        return desk.key_of(origin)
    except ValueError as error:
        raise ApiError(400, str(error)) from None


def _key(request: Request) -> SessionKey:
    return SessionKey(request.path_params["key"])


def _plain(message: BaseModel) -> object:
    return message.model_dump(mode="json")


def _flag(request: Request, name: str) -> bool:
    value = request.query_params.get(name, "false").lower()
    if value not in {"true", "false", "1", "0"}:
        raise ApiError(422, f"{name}: must be true or false, not {value!r}", param=name)
    return value in {"true", "1"}


def _number(request: Request, name: str) -> int:
    value = request.query_params.get(name, "0")
    number = _whole(value)
    if number is None:
        raise ApiError(422, f"{name}: must be a whole number from 0, not {value!r}", param=name)
    return number


def _whole(text: str) -> int | None:
    return int(text) if text.isascii() and text.isdecimal() and len(text) < 16 else None
