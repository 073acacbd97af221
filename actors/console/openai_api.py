"""The part of OpenAI's API that chat clients use, with sessions behind it.

`POST /v1/chat/completions` hands in the last message of the request. The
session is named by the header `X-Session-Key`, else by `user`; without a name,
each request is a session of its own and the earlier messages become its
context. A client that goes away in mid-answer does not stop the turn: the
answer stays in the session's history.
"""

import hashlib
import json
import secrets
from collections.abc import AsyncGenerator
from contextlib import aclosing

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from actors.console.api import RETRY_AFTER_S, Surroundings, key_of, require_ready
from actors.console.bodies import ChatBody, ChatMessage
from actors.console.follow import DraftWriter, Step, converse, failure_of
from actors.console.wire import (
    ApiError,
    EventStream,
    ServerClosingError,
    json_response,
    read_json,
    server_event,
    text_header,
)
from messages.gateway import (
    Acceptance,
    Author,
    ChatType,
    DraftChanged,
    MessageReceived,
    Origin,
    Receipt,
    Said,
    TranscriptEntry,
)
from messages.ids import MessageId
from messages.model import ModelRef

OWN_MODEL = "callboard"
_ROLES = {"system": "system", "developer": "system", "user": "user", "assistant": "assistant"}


class OpenAiApi:
    """The routes under /v1."""

    def __init__(self, around: Surroundings) -> None:
        self._around = around
        self._desk = around.desk

    def routes(self) -> list[Route]:
        return [
            Route("/v1/chat/completions", self.complete, methods=["POST"]),
            Route("/v1/models", self.models),
            Route("/v1/models/{name:path}", self.model),
        ]

    # ----------------------------------------------------------------- models

    async def models(self, _: Request) -> Response:
        return json_response({"object": "list", "data": [self._model(name) for name in self._names()]})

    async def model(self, request: Request) -> Response:
        name = request.path_params["name"]
        if name not in self._names():
            raise ApiError(404, f"there is no model {name!r}", param="model", code="model_not_found")
        return json_response(self._model(name))

    def _names(self) -> list[str]:
        return [OWN_MODEL, *map(_model_name, self._desk.models())]

    def _model(self, name: str) -> dict[str, object]:
        created = int(self._desk.status().started_at.timestamp())
        return {"id": name, "object": "model", "created": created, "owned_by": "callboard"}

    # ------------------------------------------------------------ completions

    async def complete(self, request: Request) -> Response:
        require_ready(self._desk)
        body = await read_json(request, ChatBody)
        _refuse_what_is_not_offered(body)
        message = self._heard(body, request)
        headers: dict[str, str] = {"x-callboard-session": key_of(self._desk, message.origin)}
        completion = _Completion(secrets.token_hex(12), int(self._around.clock.now().timestamp()))
        if not body.stream:
            work = self._whole(message, completion, headers)
            return await self._around.open_requests.attend(request, work)
        # The first step is awaited here, so that a refusal still has a status of its own.
        steps = converse(self._desk, message, drafts=True)
        try:
            _raise_refusal(await anext(steps))
        except BaseException:
            await steps.aclose()
            raise
        usage = bool(body.stream_options and body.stream_options.include_usage)
        return EventStream(
            _chunks(message, steps, completion, usage=usage),
            open_requests=self._around.open_requests,
            clock=self._around.clock,
            closing=_error_event(ServerClosingError()),
            headers=headers,
        )

    async def _whole(
        self, message: MessageReceived, completion: "_Completion", headers: dict[str, str]
    ) -> Response:
        async with aclosing(converse(self._desk, message)) as steps:
            async for step in steps:
                _raise_refusal(step)
                if isinstance(step, TranscriptEntry):
                    failure = failure_of(message, step)
                    if failure is not None:
                        raise failure
                    return json_response(completion.whole(step), headers=headers)
        raise AssertionError("a conversation ends with a refusal or an entry")

    def _heard(self, body: ChatBody, request: Request) -> MessageReceived:
        *earlier, last = [_said(message, place) for place, message in enumerate(body.messages)]
        if last.role != "user":
            raise ApiError(400, "the last message must be the user's", param="messages")
        if not last.text.strip():
            raise ApiError(400, "the last message is empty", param="messages")
        idempotency_key = text_header(request, "idempotency-key")
        return MessageReceived(
            message_id=MessageId(idempotency_key or f"api-{secrets.token_hex(12)}"),
            origin=Origin(
                platform="api",
                chat_type=ChatType.DM,
                chat=text_header(request, "x-session-key") or body.user or _own_session(idempotency_key),
            ),
            author=Author(id=body.user or "api"),
            text=last.text,
            context=tuple(earlier),
            at=self._around.clock.now(),
        )


def _own_session(idempotency_key: str | None) -> str:
    """Name a session for one request; a repeated request finds its own again."""
    if idempotency_key is None:
        return f"request-{secrets.token_hex(12)}"
    return f"request-{hashlib.sha256(idempotency_key.encode('utf-8', 'replace')).hexdigest()[:24]}"


def _refuse_what_is_not_offered(body: ChatBody) -> None:
    if body.tools or body.functions:
        param = "tools" if body.tools else "functions"
        message = "tools of the client's own are not supported: Callboard runs its own tools itself and answers with the result"
        raise ApiError(400, message, param=param, code="unsupported_parameter")
    if body.n not in {None, 1}:
        raise ApiError(400, "only n = 1 is supported", param="n", code="unsupported_parameter")


def _said(message: ChatMessage, place: int) -> Said:
    param = f"messages.{place}"
    role = _ROLES.get(message.role)
    if role is None:
        why = "Callboard runs its own tools" if message.role in {"tool", "function"} else "unknown"
        raise ApiError(400, f"{param}.role: {message.role!r} is not supported ({why})", param=f"{param}.role")
    return Said.model_validate({"role": role, "text": _text(message, param)})


def _text(message: ChatMessage, param: str) -> str:
    content = message.content
    if content is None or isinstance(content, str):
        return content or ""
    for number, part in enumerate(content):
        if part.type not in {"text", "input_text", "output_text"} or part.text is None:
            raise ApiError(
                400,
                f"{param}.content.{number}: a part of type {part.type!r} is not supported yet; only text is",
                param=f"{param}.content.{number}",
                code="unsupported_content",
            )
    return "\n".join(part.text for part in content if part.text is not None)


def _raise_refusal(step: Step) -> None:
    if isinstance(step, Receipt) and step.acceptance is Acceptance.REFUSED:
        raise ApiError(429, step.why, code="refused", retry_after_s=RETRY_AFTER_S)


def _model_name(model: ModelRef | None) -> str:
    return f"{model.provider}/{model.name}" if model else OWN_MODEL


class _Completion:
    """Writes one completion as OpenAI's API does, whole or in chunks."""

    def __init__(self, ident: str, created: int) -> None:
        self._id = f"chatcmpl-{ident}"
        self._created = created

    def whole(self, entry: TranscriptEntry) -> dict[str, object]:
        message = {"role": "assistant", "content": entry.text, "refusal": None}
        choice = {"index": 0, "message": message, "logprobs": None, "finish_reason": _finish_reason(entry)}
        return {**self._frame("chat.completion", entry.model), "choices": [choice], "usage": _usage(entry)}

    def chunk(
        self, delta: dict[str, object], *, finish: str | None = None, model: ModelRef | None = None
    ) -> bytes:
        choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish}
        return self._event({**self._frame("chat.completion.chunk", model), "choices": [choice]})

    def usage(self, entry: TranscriptEntry) -> bytes:
        frame = self._frame("chat.completion.chunk", entry.model)
        return self._event({**frame, "choices": [], "usage": _usage(entry)})

    def _frame(self, kind: str, model: ModelRef | None) -> dict[str, object]:
        return {"id": self._id, "object": kind, "created": self._created, "model": _model_name(model)}

    @staticmethod
    def _event(content: dict[str, object]) -> bytes:
        return server_event(json.dumps(content, ensure_ascii=False, separators=(",", ":")))


def _usage(entry: TranscriptEntry) -> dict[str, int] | None:
    """All tokens of the turn, tools and retries included; nothing where the provider counted nothing."""
    usage = entry.usage
    if usage is None or usage.input_tokens is None or usage.output_tokens is None:
        return None
    return {
        "prompt_tokens": usage.input_tokens,
        "completion_tokens": usage.output_tokens,
        "total_tokens": usage.input_tokens + usage.output_tokens,
    }


def _error_event(error: ApiError) -> bytes:
    return server_event(json.dumps(error.body(), ensure_ascii=False))


def _finish_reason(entry: TranscriptEntry) -> str:
    return {"truncated": "length", "refused": "content_filter"}.get(entry.status, "stop")


async def _chunks(
    message: MessageReceived, steps: AsyncGenerator[Step, None], completion: _Completion, *, usage: bool
) -> AsyncGenerator[bytes, None]:
    writer = DraftWriter()
    async with aclosing(steps):
        yield completion.chunk({"role": "assistant", "content": ""})
        async for step in steps:
            match step:
                case DraftChanged():
                    if piece := writer.heard(step):
                        yield completion.chunk({"content": piece})
                case TranscriptEntry():
                    failure = failure_of(message, step)
                    if failure is not None:
                        yield _error_event(failure)
                        return
                    if piece := writer.finish(step.text):
                        yield completion.chunk({"content": piece})
                    yield completion.chunk({}, finish=_finish_reason(step), model=step.model)
                    if usage:
                        yield completion.usage(step)
                    yield server_event("[DONE]")
                case Receipt():
                    pass
