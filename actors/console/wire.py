"""What every route stands on: bodies in, answers out, streams that notice when the client has gone."""

import asyncio
import json
from collections.abc import AsyncGenerator, Coroutine
from contextlib import aclosing
from http import HTTPStatus
from typing import TypeVar

from pydantic import BaseModel, ValidationError
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from actors.clock import Clock
from messages.base import Message, clean_text

BODY_LIMIT = 10 * 1024 * 1024
HEARTBEAT_S = 15.0

_T = TypeVar("_T")
_Body = TypeVar("_Body", bound=BaseModel)

_TYPES = {
    401: "authentication_error",
    403: "permission_error",
    404: "not_found_error",
    429: "rate_limit_error",
}


class ApiError(Exception):
    """A request that is answered with an error object, in the shape that OpenAI's clients read."""

    def __init__(
        self,
        status: int,
        message: str,
        *,
        param: str | None = None,
        code: str | None = None,
        retry_after_s: int | None = None,
        try_again: bool = True,
    ) -> None:
        """`try_again` False tells OpenAI's clients not to repeat the request by themselves."""
        super().__init__(message)
        self.status = status
        self.message = message
        self.param = param
        self.code = code
        self.retry_after_s = retry_after_s
        self.try_again = try_again

    def body(self) -> dict[str, object]:
        """Return the error object."""
        kind = _TYPES.get(self.status, "invalid_request_error" if self.status < 500 else "api_error")
        error = {"message": self.message, "type": kind, "param": self.param, "code": self.code}
        return {"error": error}

    def headers(self) -> dict[str, str]:
        headers = {"www-authenticate": "Bearer"} if self.status == HTTPStatus.UNAUTHORIZED else {}
        if self.retry_after_s is not None:
            headers["retry-after"] = str(self.retry_after_s)
        if not self.try_again:
            headers["x-should-retry"] = "false"
        return headers

    def response(self) -> Response:
        return json_response(self.body(), self.status, self.headers())


class ServerClosingError(ApiError):
    """The server stops while somebody waits."""

    def __init__(self) -> None:
        super().__init__(
            503,
            "the server is stopping; what was accepted is kept and will be answered after its next start",
            code="server_stopping",
            retry_after_s=2,
        )


class ClientGoneError(Exception):
    """Nobody is there any more to be answered."""


def json_response(content: object, status: int = 200, headers: dict[str, str] | None = None) -> Response:
    """Return JSON that no cache keeps. A message of ours is written as it is."""
    if isinstance(content, BaseModel):
        body = content.model_dump_json().encode()
    else:
        body = json.dumps(content, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "replace")
    return Response(body, status, {"cache-control": "no-store", **(headers or {})}, "application/json")


# ------------------------------------------------------------------------ in


async def read_json(request: Request, model: type[_Body]) -> _Body:
    """Return the request's body as `model`. Raises ApiError 400, 413, 415, 422 saying what is wrong and where."""
    body = await read_body(request)
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != "application/json" and not (kind.startswith("application/") and kind.endswith("+json")):
        raise ApiError(
            415,
            f"the body must be JSON, with the header Content-Type: application/json (not {kind or 'none'!r})",
        )
    return _validated(_parsed(body), model)


async def read_body(request: Request) -> bytes:
    """Return the whole body. Raises ApiError 413 as soon as it is known to be too large."""
    too_large = ApiError(413, f"the body is larger than {BODY_LIMIT // 1024**2} MB", code="body_too_large")
    declared = request.headers.get("content-length", "0")
    if declared.isdecimal() and int(declared) > BODY_LIMIT:
        raise too_large
    chunks: list[bytes] = []
    size = 0
    more = True
    while more:
        event = await request.receive()
        if event["type"] == "http.disconnect":
            raise ClientGoneError
        chunk = event.get("body", b"")
        size += len(chunk)
        if size > BODY_LIMIT:
            raise too_large
        chunks.append(chunk)
        more = event.get("more_body", False)
    return chunks[0] if len(chunks) == 1 else b"".join(chunks)


def _refuse_constant(name: str) -> float:
    raise ValueError(f"{name} is not JSON")


def _parsed(body: bytes) -> object:
    if not body.strip():
        raise ApiError(400, "the body is empty; it must be a JSON object")
    try:
        return json.loads(body, parse_constant=_refuse_constant)
    except json.JSONDecodeError as error:
        where = f"line {error.lineno}, column {error.colno}"
        raise ApiError(
            400, f"the body is not valid JSON: {error.msg} at {where}", code="invalid_json"
        ) from None
    except UnicodeDecodeError as error:
        message = f"the body is not valid JSON: it is not UTF-8 at byte {error.start}"
        raise ApiError(400, message, code="invalid_json") from None
    except (ValueError, RecursionError) as error:
        why = "it is nested too deeply" if isinstance(error, RecursionError) else str(error)
        raise ApiError(400, f"the body is not valid JSON: {why}", code="invalid_json") from None


def _validated(content: object, model: type[_Body]) -> _Body:
    if not isinstance(content, dict):
        raise ApiError(400, "the body must be a JSON object")
    try:
        return model.model_validate(content)
    except ValidationError as error:
        first = error.errors(include_url=False, include_context=False)[0]
        field = ".".join(str(part) for part in first["loc"])
        says = first["msg"].removeprefix("Value error, ")
        raise ApiError(422, f"{field}: {says}" if field else says, param=field or None) from None


def text_header(request: Request, name: str) -> str | None:
    """Return a header's text: UTF-8 where it is that, else Latin-1; None when it is absent or empty."""
    wanted = name.lower().encode()
    for key, value in request.scope["headers"]:
        if key == wanted and value.strip():
            try:
                return str(value.strip().decode())
            except UnicodeDecodeError:
                return str(value.strip().decode("latin-1"))
    return None


# ----------------------------------------------------------------------- out


class OpenRequests:
    """The requests that wait or stream now: a stopping server ends them in good order."""

    def __init__(self) -> None:
        self.closing = False
        self._tasks: set[asyncio.Task[object]] = set()

    def close(self) -> None:
        """End all that wait, and all that would."""
        self.closing = True
        for task in self._tasks:
            task.cancel()

    async def attend(self, request: Request, work: Coroutine[object, object, _T]) -> _T:
        """Do `work` as long as the client is there and the server is not stopping.

        Raises ClientGoneError and ServerClosingError when that ends first; the work is cancelled then.
        """
        if self.closing:
            work.close()
            raise ServerClosingError
        doing = asyncio.ensure_future(work)
        watching = asyncio.ensure_future(_client_gone(request.receive, doing))
        self._tasks.add(doing)
        try:
            return await doing
        except asyncio.CancelledError:
            current = asyncio.current_task()
            if current is not None and current.cancelling():
                raise
            if watching.done():
                raise ClientGoneError from None
            raise ServerClosingError from None
        finally:
            self._tasks.discard(doing)
            doing.cancel()
            watching.cancel()


async def _client_gone(receive: Receive, doing: asyncio.Future[_T]) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
    doing.cancel()


class EventStream(Response):
    """Server-sent events from an iterator, with a comment as heartbeat when nothing else was sent."""

    def __init__(
        self,
        events: AsyncGenerator[bytes, None],
        *,
        open_requests: OpenRequests,
        clock: Clock,
        closing: bytes = b"",
        headers: dict[str, str] | None = None,
    ) -> None:
        """`closing` is sent as the last thing when the server stops."""
        super().__init__(headers={"cache-control": "no-store", "x-accel-buffering": "no", **(headers or {})})
        self.headers["content-type"] = "text/event-stream; charset=utf-8"
        del self.headers["content-length"]
        self._events = events
        self._open = open_requests
        self._clock = clock
        self._closing = closing
        self._sent = False

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
        heart = asyncio.ensure_future(self._beat(send))
        last = b""
        try:
            await self._open.attend(Request(scope, receive), self._pump(send))
        except ServerClosingError:
            last = self._closing
        except ClientGoneError:
            return
        finally:
            heart.cancel()
        await send({"type": "http.response.body", "body": last, "more_body": False})

    async def _pump(self, send: Send) -> None:
        async with aclosing(self._events) as events:
            async for event in events:
                self._sent = True
                await send({"type": "http.response.body", "body": event, "more_body": True})

    async def _beat(self, send: Send) -> None:
        while True:
            self._sent = False
            await self._clock.sleep(HEARTBEAT_S)
            if not self._sent:
                await send({"type": "http.response.body", "body": b": still here\n\n", "more_body": True})


def server_event(data: str, *, event: str | None = None, seq: int | None = None) -> bytes:
    """Return one server-sent event. JSON text has no line breaks, so one `data` line carries it."""
    name = f"event: {event}\n" if event else ""
    place = f"id: {seq}\n" if seq is not None else ""
    return f"{name}{place}data: {data}\n\n".encode("utf-8", "replace")


def said(message: Message) -> str:
    """Return a message as JSON text."""
    return message.model_dump_json()


def clean(text: str) -> str:
    """Return text without what UTF-8 cannot encode."""
    return str(clean_text(text))
