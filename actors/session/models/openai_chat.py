"""Chat Completions, both ways: a request to its JSON, a stream of events to an answer.

Spoken by OpenAI and by nearly everybody else, who all deviate: see docs/models.md.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any, NoReturn

from actors.session.models.chat_calls import ChatCalls
from actors.session.models.failures import classify
from actors.session.models.gathering import CallIds, Joiner, call_ids, fail, whole_number
from actors.session.models.images import Pictures
from actors.session.models.port import ModelCallError
from actors.session.models.repair import AssistantTurn, UserTurn, repaired
from actors.session.models.schemas import parameters_of
from actors.session.models.sse import Event
from actors.session.models.stops import failed_stop, stop_reason
from actors.session.models.validate import validate_openai_chat
from actors.session.models.where import Where
from messages.blocks import AssistantBlock, TextBlock, ThinkingBlock, ToolStatus
from messages.model import (
    Delta,
    FailureKind,
    ModelReply,
    ModelRequest,
    StopReason,
    TextDelta,
    ThinkingDelta,
    Usage,
)

PATH = "/chat/completions"
GIVEN_BACK = "field:reasoning_content"
"""Marks reasoning that its provider wants back, in the field of that name, while a turn's tools run."""

_NO_STREAM_OPTIONS = ("api.mistral.ai",)
"""Count the tokens unasked, and refuse the question."""


def to_wire(request: ModelRequest, pictures: Pictures, base_url: str | None = None) -> dict[str, Any]:
    """Return the body of the request. Raises InvalidRequestError when it breaks the protocol's rules."""
    messages: list[dict[str, Any]] = []
    if request.system.strip():
        messages.append({"role": "system", "content": request.system})
    turns = repaired(request.entries, request.model.provider, pictures)
    last_user = max((at for at, turn in enumerate(turns) if isinstance(turn, UserTurn)), default=0)
    for at, turn in enumerate(turns):
        if isinstance(turn, UserTurn):
            messages.append({"role": "user", "content": _user_content(turn, pictures)})
        else:
            messages.extend(_assistant_messages(turn, in_open_turn=at > last_user))
    if messages[-1]["role"] == "assistant":
        messages.append({"role": "user", "content": "Please go on."})
    official = base_url is None or "api.openai.com" in base_url
    wire: dict[str, Any] = {
        "model": request.model.name,
        "messages": messages,
        "stream": True,
        "max_completion_tokens" if official else "max_tokens": request.max_output_tokens,
    }
    if not any(host in (base_url or "") for host in _NO_STREAM_OPTIONS):
        wire["stream_options"] = {"include_usage": True}
    if request.tools:
        wire["tools"] = [
            {
                "type": "function",
                "function": {
                    "name": tool.name,
                    "description": tool.description,
                    "parameters": parameters_of(tool.parameters),
                },
            }
            for tool in request.tools
        ]
        if request.tool_choice == "none":
            wire["tool_choice"] = "none"
    validate_openai_chat(wire)
    return wire


def _user_content(turn: UserTurn, pictures: Pictures) -> str | list[dict[str, Any]]:
    if all(isinstance(block, TextBlock) for block in turn.blocks):
        return "\n\n".join(block.text for block in turn.blocks if isinstance(block, TextBlock))
    parts: list[dict[str, Any]] = []
    for block in turn.blocks:
        if isinstance(block, TextBlock):
            parts.append({"type": "text", "text": block.text})
        else:
            picture = pictures.shown[block.path]
            url = f"data:{picture.mime};base64,{picture.data}"
            parts.append({"type": "image_url", "image_url": {"url": url}})
    return parts


def _assistant_messages(turn: AssistantTurn, *, in_open_turn: bool) -> Iterable[dict[str, Any]]:
    text = "\n\n".join(block.text for block in turn.blocks if isinstance(block, TextBlock))
    message: dict[str, Any] = {"role": "assistant", "content": text or None}
    if turn.calls and in_open_turn:
        thoughts = [b.text for b in turn.blocks if isinstance(b, ThinkingBlock) and b.opaque == GIVEN_BACK]
        if thoughts:
            message["reasoning_content"] = "".join(thoughts)
    if turn.calls:
        message["tool_calls"] = [
            {
                "id": call.wire_id,
                "type": "function",
                "function": {"name": call.name, "arguments": json.dumps(call.arguments)},
            }
            for call in turn.calls
        ]
    elif not text:
        return
    yield message
    for call in turn.calls:
        body = call.result.text if call.result.text.strip() else "(no output)"
        if call.result.status is not ToolStatus.OK and call.result.status.value not in body:
            body = f"[{call.result.status}] {body}"
        yield {"role": "tool", "tool_call_id": call.wire_id, "content": body}


class ChatAccumulator:
    """Gathers one streamed answer of Chat Completions."""

    def __init__(self, request: ModelRequest, where: Where, now: datetime) -> None:
        self.done = False
        self._model = request.model
        self._where = where
        self._now = now
        self._text = Joiner()
        self._thinking = Joiner()
        self._gives_back = False
        self._calls = ChatCalls(CallIds(call_ids(request.entries)))
        self._usage = Usage()
        self._raw_stop = ""
        self._refused = False
        self._came = False

    @property
    def partial(self) -> str:
        return self._text.text()

    def feed(self, event: Event) -> Sequence[Delta]:
        data = event.data.strip()
        if not data:
            return ()
        if data.startswith("[DONE]"):
            self.done = True
            return ()
        try:
            chunk = json.loads(data)
        except (ValueError, RecursionError):
            return self._unread(event)
        if event.name == "error" or not isinstance(chunk, dict):
            self._error(chunk)
        return self._chunk(chunk)

    def whole(self, body: object) -> Sequence[Delta]:
        if not isinstance(body, dict):
            self._error(body)
        deltas = self._chunk(body)
        if not self._came:
            self._error(body)
        self.done = True
        return deltas

    def finish(self) -> ModelReply:
        if not self._raw_stop and not (self.done and self._came):
            fail(FailureKind.CUT, "the stream ended without finish_reason", self._where, self.partial)
        if not self._raw_stop and not self._calls.complete():
            fail(FailureKind.CUT, "the stream ended in the middle of a tool call", self._where, self.partial)
        failed = failed_stop(self._raw_stop)
        if failed is not None:
            fail(failed, f"the model's server gave up: {self._raw_stop}", self._where, self.partial)
        text, thinking, calls = self.partial, self._thinking.text(), self._calls.blocks()
        blocks: list[AssistantBlock] = []
        if thinking:
            opaque = GIVEN_BACK if self._gives_back else None
            blocks.append(ThinkingBlock(text=thinking, provider=self._model.provider, opaque=opaque))
        if text:
            blocks.append(TextBlock(text=text))
        blocks.extend(calls)
        stop = stop_reason(self._raw_stop, calls=bool(calls), text=bool(text))
        return ModelReply(
            blocks=tuple(blocks),
            stop=StopReason.REFUSED if self._refused else stop,
            raw_stop=self._raw_stop,
            model=self._model,
            usage=self._usage,
        )

    def _unread(self, event: Event) -> Sequence[Delta]:
        """Take data that is not JSON: several chunks without blank lines between, or a cut end."""
        lines = event.data.split("\n")
        if len(lines) > 1:
            return [delta for line in lines for delta in self.feed(Event(event.name, line))]
        if event.name == "error":
            self._error(event.data)
        if self._raw_stop:
            return ()
        return fail(FailureKind.CUT, "the stream holds a piece that is not JSON", self._where, self.partial)

    def _error(self, body: object) -> NoReturn:
        raise ModelCallError(classify(None, body, {}, self._where, self._now), self.partial)

    def _chunk(self, chunk: Mapping[str, Any]) -> Sequence[Delta]:
        if chunk.get("error") or chunk.get("object") == "error" or chunk.get("type") == "error":
            self._error(chunk)
        self._count(chunk)
        choices = chunk.get("choices")
        if not isinstance(choices, list) or not choices:
            return ()
        choice = choices[0]
        if not isinstance(choice, dict) or choice.get("index") not in (0, None):
            return ()
        if choice.get("error"):
            self._error(choice)
        self._came = True
        self._count(choice)
        delta = choice.get("delta") or choice.get("message")
        deltas = self._delta(delta) if isinstance(delta, dict) else ()
        finish = choice.get("finish_reason")
        if isinstance(finish, str) and finish:
            self._raw_stop = finish
        return deltas

    def _delta(self, delta: Mapping[str, Any]) -> Sequence[Delta]:
        deltas: list[Delta] = []
        thought = delta.get("reasoning_content")
        if isinstance(thought, str) and thought:
            self._gives_back = True
        else:
            thought = delta.get("reasoning")
        content = delta.get("content")
        if isinstance(content, list):
            thought, content = _parts(content, thought)
        if isinstance(thought, str) and thought and (shown := self._thinking.add(thought)):
            deltas.append(ThinkingDelta(text=shown))
        refusal = delta.get("refusal")
        if isinstance(refusal, str) and refusal:
            self._refused = True
            content = (content if isinstance(content, str) else "") + refusal
        if isinstance(content, str) and content and (shown := self._text.add(content)):
            deltas.append(TextDelta(text=shown))
        calls = delta.get("tool_calls")
        if not calls and delta.get("function_call"):
            calls = [{"index": 0, "function": delta["function_call"]}]
        if isinstance(calls, list):
            deltas.extend(news for raw in calls if (news := self._calls.add(raw)) is not None)
        return deltas

    def _count(self, holder: Mapping[str, Any]) -> None:
        usage = holder.get("usage")
        if usage is None and isinstance(holder.get("x_groq"), dict):
            usage = holder["x_groq"].get("usage")
        if isinstance(usage, dict):
            self._usage = _merged(self._usage, _usage(usage))


def _parts(content: list[Any], thought: object) -> tuple[str, str]:
    """Split content that comes in typed parts into its reasoning and its text."""
    thoughts, texts = [thought if isinstance(thought, str) else ""], []
    for part in content:
        if not isinstance(part, dict):
            continue
        inner = part.get("thinking")
        if isinstance(inner, list):
            thoughts.extend(str(piece.get("text") or "") for piece in inner if isinstance(piece, dict))
        elif isinstance(inner, str):
            thoughts.append(inner)
        elif isinstance(part.get("text"), str):
            texts.append(part["text"])
    return "".join(thoughts), "".join(texts)


def _usage(usage: Mapping[str, Any]) -> Usage:
    details = usage.get("prompt_tokens_details")
    cached = details.get("cached_tokens") if isinstance(details, dict) else None
    for name in ("prompt_cache_hit_tokens", "cached_tokens"):
        cached = usage.get(name) if cached is None else cached
    return Usage(
        input_tokens=whole_number(usage.get("prompt_tokens", usage.get("input_tokens"))),
        output_tokens=whole_number(usage.get("completion_tokens", usage.get("output_tokens"))),
        cache_read_tokens=whole_number(cached),
    )


def _merged(old: Usage, new: Usage) -> Usage:
    return Usage(
        input_tokens=old.input_tokens if new.input_tokens is None else new.input_tokens,
        output_tokens=old.output_tokens if new.output_tokens is None else new.output_tokens,
        cache_read_tokens=old.cache_read_tokens if new.cache_read_tokens is None else new.cache_read_tokens,
    )
