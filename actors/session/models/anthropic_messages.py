"""The Messages API, both ways: a request to its JSON, a stream of events to an answer."""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from actors.session.models.failures import classify
from actors.session.models.gathering import CallIds, Joiner, call_ids, clean_name, fail, whole_number
from actors.session.models.images import Pictures
from actors.session.models.port import ModelCallError
from actors.session.models.repair import UserTurn, WireCall, repaired
from actors.session.models.schemas import parameters_of
from actors.session.models.sse import Event
from actors.session.models.stops import failed_stop, stop_reason
from actors.session.models.validate import validate_anthropic
from actors.session.models.where import Where
from messages.base import clean_text
from messages.blocks import AssistantBlock, TextBlock, ThinkingBlock, ToolCallBlock, ToolStatus
from messages.ids import CallId
from messages.model import (
    CallDelta,
    Delta,
    FailureKind,
    ModelReply,
    ModelRequest,
    TextDelta,
    ThinkingDelta,
    Usage,
)

PATH = "/v1/messages"
REDACTED = "redacted_thinking:"
"""Begins the opaque part of reasoning that came encrypted as a whole; the rest is its data, byte for byte."""

_MARK = {"type": "ephemeral"}


def to_wire(request: ModelRequest, pictures: Pictures, base_url: str | None = None) -> dict[str, Any]:  # noqa: ARG001 both protocols are called alike
    """Return the body of the request. Raises InvalidRequestError when it breaks the protocol's rules."""
    messages: list[dict[str, Any]] = [{"role": "user", "content": []}]
    for turn in repaired(request.entries, request.model.provider, pictures):
        if isinstance(turn, UserTurn):
            messages[-1]["content"].extend(_user_block(block, pictures) for block in turn.blocks)
        else:
            if messages[-1]["content"]:
                messages.append({"role": "assistant", "content": []})
            else:
                messages[-1] = {"role": "assistant", "content": []}
            messages[-1]["content"].extend(_assistant_block(block) for block in turn.blocks)
            messages.append({"role": "user", "content": [_result(call) for call in turn.calls]})
    if not messages[-1]["content"]:
        messages.pop()
        _trim_end(messages[-1])
    else:
        messages[-1]["content"][-1]["cache_control"] = _MARK
    wire: dict[str, Any] = {
        "model": request.model.name,
        "max_tokens": request.max_output_tokens,
        "messages": messages,
        "stream": True,
    }
    if request.system.strip():
        wire["system"] = [{"type": "text", "text": request.system, "cache_control": _MARK}]
    if request.tools:
        wire["tools"] = [
            {
                "name": tool.name,
                "description": tool.description,
                "input_schema": parameters_of(tool.parameters),
            }
            for tool in request.tools
        ]
        if request.tool_choice == "none":
            wire["tool_choice"] = {"type": "none"}
    validate_anthropic(wire)
    return wire


def _trim_end(message: dict[str, Any]) -> None:
    """Take the blanks off the end of an answer that is to go on: the API refuses them."""
    final = message["content"][-1]
    if final["type"] == "text":
        final["text"] = final["text"].rstrip()


def _user_block(block: Any, pictures: Pictures) -> dict[str, Any]:
    if isinstance(block, TextBlock):
        return {"type": "text", "text": block.text}
    picture = pictures.shown[block.path]
    return {
        "type": "image",
        "source": {"type": "base64", "media_type": picture.mime, "data": picture.data},
    }


def _assistant_block(block: TextBlock | ThinkingBlock | WireCall) -> dict[str, Any]:
    match block:
        case TextBlock():
            return {"type": "text", "text": block.text}
        case ThinkingBlock():
            opaque = block.opaque or ""
            if opaque.startswith(REDACTED):
                return {"type": "redacted_thinking", "data": opaque.removeprefix(REDACTED)}
            return {"type": "thinking", "thinking": block.text, "signature": opaque}
        case WireCall():
            return {"type": "tool_use", "id": block.wire_id, "name": block.name, "input": block.arguments}


def _result(call: WireCall) -> dict[str, Any]:
    result: dict[str, Any] = {
        "type": "tool_result",
        "tool_use_id": call.wire_id,
        "content": call.result.text if call.result.text.strip() else "(no output)",
    }
    if call.result.status is not ToolStatus.OK:
        result["is_error"] = True
        if call.result.status.value not in result["content"]:
            result["content"] = f"[{call.result.status}] {result['content']}"
    return result


@dataclass(slots=True)
class _Block:
    kind: str
    call_id: str = ""
    name: str = ""
    text: Joiner = field(default_factory=Joiner)
    opaque: list[str] = field(default_factory=list)


class MessagesAccumulator:
    """Gathers one streamed answer of the Messages API."""

    def __init__(self, request: ModelRequest, where: Where, now: datetime) -> None:
        self.done = False
        self._model = request.model
        self._where = where
        self._now = now
        self._ids = CallIds(call_ids(request.entries))
        self._blocks: dict[object, _Block] = {}
        self._usage: dict[str, int | None] = {}
        self._raw_stop = ""
        self._on: dict[str, Callable[[Mapping[str, Any]], Sequence[Delta]]] = {
            "message_start": self._message_start,
            "content_block_start": self._block_start,
            "content_block_delta": self._block_delta,
            "message_delta": self._message_delta,
            "message_stop": self._message_stop,
            "error": self._error,
        }

    @property
    def partial(self) -> str:
        return "".join(block.text.text() for block in self._blocks.values() if block.kind == "text")

    def feed(self, event: Event) -> Sequence[Delta]:
        data = event.data.strip()
        if not data or data == "[DONE]":
            return ()
        try:
            body = json.loads(data)
        except (ValueError, RecursionError):
            return self._unread(event)
        if not isinstance(body, dict):
            return ()
        kind = body.get("type", event.name)
        if body.get("error"):
            kind = "error"
        handler = self._on.get(kind)
        return handler(body) if handler is not None else ()

    def whole(self, body: object) -> Sequence[Delta]:
        if not isinstance(body, dict) or body.get("type") != "message":
            self._error(body)
            return ()
        deltas: list[Delta] = []
        for index, block in enumerate(body.get("content") or ()):
            if isinstance(block, dict):
                deltas.extend(self._block_start({"index": index, "content_block": block}))
        self._count(body.get("usage"))
        self._message_delta({"delta": body})
        self.done = True
        return deltas

    def finish(self) -> ModelReply:
        if not self._raw_stop and not self.done:
            fail(FailureKind.CUT, "the stream ended without stop_reason", self._where, self.partial)
        failed = failed_stop(self._raw_stop)
        if failed is not None:
            fail(failed, f"the model's server gave up: {self._raw_stop}", self._where, self.partial)
        blocks = [made for block in self._blocks.values() if (made := self._made(block)) is not None]
        has_calls = any(isinstance(block, ToolCallBlock) for block in blocks)
        has_text = any(isinstance(block, TextBlock) for block in blocks)
        return ModelReply(
            blocks=tuple(blocks),
            stop=stop_reason(self._raw_stop, calls=has_calls, text=has_text),
            raw_stop=self._raw_stop,
            model=self._model,
            usage=Usage(**self._usage),
        )

    def _made(self, block: _Block) -> AssistantBlock | None:
        text, opaque = block.text.text(), "".join(block.opaque)
        match block.kind:
            case "text":
                return TextBlock(text=text) if text else None
            case "tool_use":
                return ToolCallBlock(call_id=CallId(block.call_id), name=block.name, arguments=text)
            case "redacted_thinking":
                return ThinkingBlock(text="", provider=self._model.provider, opaque=REDACTED + opaque)
            case "thinking" if text or opaque:
                return ThinkingBlock(text=text, provider=self._model.provider, opaque=opaque or None)
        return None

    def _unread(self, event: Event) -> Sequence[Delta]:
        lines = event.data.split("\n")
        if len(lines) > 1:
            return [delta for line in lines for delta in self.feed(Event(event.name, line))]
        if event.name == "error":
            self._error(event.data)
        if self._raw_stop:
            return ()
        return fail(FailureKind.CUT, "the stream holds a piece that is not JSON", self._where, self.partial)

    def _error(self, body: object) -> Sequence[Delta]:
        if isinstance(body, dict) and isinstance(body.get("error"), dict | str):
            body = {"error": body["error"]}
        raise ModelCallError(classify(None, body, {}, self._where, self._now), self.partial)

    def _message_start(self, body: Mapping[str, Any]) -> Sequence[Delta]:
        message = body.get("message")
        if isinstance(message, dict):
            self._count(message.get("usage"))
        return ()

    def _block_start(self, body: Mapping[str, Any]) -> Sequence[Delta]:
        start = body.get("content_block")
        if not isinstance(start, dict):
            return ()
        block = _Block(kind=str(start.get("type", "")))
        self._blocks[body.get("index")] = block
        match block.kind:
            case "text" if isinstance(start.get("text"), str) and start["text"]:
                return self._text(block, start["text"])
            case "thinking":
                block.opaque.append(str(start.get("signature") or ""))
                if isinstance(start.get("thinking"), str) and start["thinking"]:
                    return self._thought(block, start["thinking"])
            case "redacted_thinking":
                block.opaque.append(str(start.get("data") or ""))
            case "tool_use":
                block.call_id = self._ids.claim(str(clean_text(str(start.get("id") or ""))).strip())
                block.name = clean_name(start.get("name"))
                if start.get("input"):
                    block.text.add(json.dumps(start["input"]))
                return (CallDelta(call_id=CallId(block.call_id), name=block.name),)
        return ()

    def _block_delta(self, body: Mapping[str, Any]) -> Sequence[Delta]:
        delta, index = body.get("delta"), body.get("index")
        if not isinstance(delta, dict):
            return ()
        kind = delta.get("type")
        block = self._blocks.get(index)
        if block is None:
            if kind != "text_delta":
                return ()
            block = self._blocks[index] = _Block(kind="text")
        match kind:
            case "text_delta" if isinstance(delta.get("text"), str):
                return self._text(block, delta["text"])
            case "thinking_delta" if isinstance(delta.get("thinking"), str):
                return self._thought(block, delta["thinking"])
            case "signature_delta" if isinstance(delta.get("signature"), str):
                block.opaque.append(delta["signature"])
            case "input_json_delta" if isinstance(delta.get("partial_json"), str):
                block.text.add(delta["partial_json"])
        return ()

    def _text(self, block: _Block, piece: str) -> Sequence[Delta]:
        shown = block.text.add(piece)
        return (TextDelta(text=shown),) if shown else ()

    def _thought(self, block: _Block, piece: str) -> Sequence[Delta]:
        shown = block.text.add(piece)
        return (ThinkingDelta(text=shown),) if shown else ()

    def _message_delta(self, body: Mapping[str, Any]) -> Sequence[Delta]:
        delta = body.get("delta")
        if isinstance(delta, dict) and isinstance(delta.get("stop_reason"), str):
            self._raw_stop = delta["stop_reason"]
        self._count(body.get("usage"))
        return ()

    def _message_stop(self, _body: Mapping[str, Any]) -> Sequence[Delta]:
        self.done = True
        return ()

    def _count(self, usage: object) -> None:
        if not isinstance(usage, dict):
            return
        for ours, theirs in (
            ("input_tokens", "input_tokens"),
            ("output_tokens", "output_tokens"),
            ("cache_read_tokens", "cache_read_input_tokens"),
            ("cache_write_tokens", "cache_creation_input_tokens"),
        ):
            count = whole_number(usage.get(theirs))
            if count is not None:
                self._usage[ours] = count
