"""Short ways to say requests and streams, for the tests of this room."""

import json
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from typing import Any

from actors.session.models.anthropic_messages import MessagesAccumulator
from actors.session.models.gathering import Accumulator
from actors.session.models.openai_chat import ChatAccumulator
from actors.session.models.sse import Event, EventDecoder
from actors.session.models.where import Where
from messages.blocks import (
    AssistantBlock,
    AssistantEntry,
    Entry,
    ResultsEntry,
    TextBlock,
    ToolCallBlock,
    ToolResultBlock,
    ToolStatus,
    UserEntry,
)
from messages.ids import CallId
from messages.model import Delta, ModelRef, ModelReply, ModelRequest, ToolSchema
from tests.counterparts.model_server import chunk

NOW = datetime(2026, 1, 1, 12, tzinfo=UTC)
KEY = "sk-test-0123456789abcdef"
MODEL = ModelRef(provider="acme", name="acme-1")
WHERE = Where(model=MODEL, address="http://127.0.0.1:1/v1", key_setting="ACME_KEY", secrets=(KEY,))
TOOL = ToolSchema(
    name="read_file",
    description="Reads.",
    parameters='{"type":"object","properties":{"path":{"type":"string"}}}',
)


def user(text: str) -> UserEntry:
    return UserEntry(blocks=(TextBlock(text=text),))


def said(*blocks: AssistantBlock | str) -> AssistantEntry:
    return AssistantEntry(blocks=tuple(TextBlock(text=b) if isinstance(b, str) else b for b in blocks))


def call(call_id: str, name: str = "read_file", arguments: str = "{}") -> ToolCallBlock:
    return ToolCallBlock(call_id=CallId(call_id), name=name, arguments=arguments)


def result(call_id: str, text: str = "done", status: ToolStatus = ToolStatus.OK) -> ToolResultBlock:
    return ToolResultBlock(call_id=CallId(call_id), status=status, text=text)


def results(*each: ToolResultBlock) -> ResultsEntry:
    return ResultsEntry(results=each)


def request(
    *entries: Entry, model: ModelRef = MODEL, system: str = "Be brief.", tools: tuple[ToolSchema, ...] = ()
) -> ModelRequest:
    return ModelRequest(model=model, system=system, entries=entries, tools=tools, max_output_tokens=100)


def openai(*entries: Entry) -> ChatAccumulator:
    return ChatAccumulator(request(*entries), WHERE, NOW)


def anthropic(*entries: Entry) -> MessagesAccumulator:
    return MessagesAccumulator(request(*entries), WHERE, NOW)


def feed(accumulator: Accumulator, frames: Iterable[str | dict[str, Any]]) -> list[Delta]:
    """Give a stream's bytes, as a connection that then ends."""
    raw = "".join(frame if isinstance(frame, str) else f"data: {json.dumps(frame)}\n\n" for frame in frames)
    decoder = EventDecoder()
    events: list[Event] = decoder.feed(raw.encode()) + decoder.finish()
    return [delta for event in events for delta in accumulator.feed(event)]


def answer(accumulator: Accumulator, frames: Iterable[str | dict[str, Any]]) -> ModelReply:
    feed(accumulator, frames)
    return accumulator.finish()


def fragment(
    index: int | None = 0, call_id: str | None = None, name: str | None = None, arguments: str | None = None
) -> dict[str, Any]:
    """One element of `tool_calls`, with only what is given."""
    function = {k: v for k, v in (("name", name), ("arguments", arguments)) if v is not None}
    outer = {k: v for k, v in (("index", index), ("id", call_id)) if v is not None}
    return {**outer, "function": function}


def calls_stream(
    *fragments: dict[str, Any] | Sequence[dict[str, Any]], finish: str | None = "tool_calls"
) -> list[str | dict[str, Any]]:
    """A stream of those fragments, each in a chunk of its own."""
    chunks: list[str | dict[str, Any]] = [
        chunk({"tool_calls": [f] if isinstance(f, dict) else list(f)}) for f in fragments
    ]
    return [*chunks, chunk({}, finish), "data: [DONE]\n\n"]


def calls_of(reply: ModelReply) -> list[tuple[str, str, str]]:
    return [(b.call_id, b.name, b.arguments) for b in reply.blocks if isinstance(b, ToolCallBlock)]


def text_of(reply: ModelReply) -> str:
    return "".join(b.text for b in reply.blocks if isinstance(b, TextBlock))
