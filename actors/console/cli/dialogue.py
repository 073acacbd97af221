"""A conversation in the shapes that other programs train on and import: OpenAI's messages, and ShareGPT.

Made from the facts, so that tool calls have their arguments and results are whole.
"""

import json
from collections.abc import Iterable
from typing import Any

from actors.session.state import Session, fold
from messages.blocks import AssistantEntry, Entry, ResultsEntry, TextBlock, ToolCallBlock, UserEntry
from messages.ids import SessionKey
from store.journal import Recorded


def entries_of(key: SessionKey, recorded: Iterable[Recorded]) -> tuple[Entry, ...]:
    """Return the conversation that is open now, as the model reads it."""
    facts: Any = (r.fact for r in recorded)  # a session's stream holds session facts only
    return fold(Session(key=key), facts).entries


def as_openai(key: SessionKey, recorded: Iterable[Recorded]) -> str:
    """Return `{"messages": […]}` as Chat Completions has them: the line of a fine-tuning file."""
    messages: list[dict[str, Any]] = []
    for entry in entries_of(key, recorded):
        match entry:
            case UserEntry():
                messages.append({"role": "user", "content": _words(entry)})
            case AssistantEntry():
                messages.append(_assistant(entry))
            case ResultsEntry():
                messages += [
                    {"role": "tool", "tool_call_id": result.call_id, "content": result.text}
                    for result in entry.results
                ]
    return json.dumps({"messages": messages}, ensure_ascii=False) + "\n"


def as_sharegpt(key: SessionKey, recorded: Iterable[Recorded]) -> str:
    """Return `{"id": …, "conversations": [{"from": …, "value": …}]}`."""
    said: list[dict[str, str]] = []
    for entry in entries_of(key, recorded):
        match entry:
            case UserEntry():
                said.append({"from": "human", "value": _words(entry)})
            case AssistantEntry():
                if text := _words(entry):
                    said.append({"from": "gpt", "value": text})
                said += [
                    {
                        "from": "function_call",
                        "value": json.dumps(
                            {"name": call.name, "arguments": _arguments(call)}, ensure_ascii=False
                        ),
                    }
                    for call in _calls(entry)
                ]
            case ResultsEntry():
                said += [{"from": "observation", "value": result.text} for result in entry.results]
    return json.dumps({"id": key, "conversations": said}, ensure_ascii=False) + "\n"


def _assistant(entry: AssistantEntry) -> dict[str, Any]:
    calls = [
        {
            "id": call.call_id,
            "type": "function",
            "function": {"name": call.name, "arguments": call.arguments},
        }
        for call in _calls(entry)
    ]
    message: dict[str, Any] = {"role": "assistant", "content": _words(entry) or None}
    return message | {"tool_calls": calls} if calls else message


def _calls(entry: AssistantEntry) -> list[ToolCallBlock]:
    return [block for block in entry.blocks if isinstance(block, ToolCallBlock)]


def _arguments(call: ToolCallBlock) -> Any:
    try:
        return json.loads(call.arguments)
    except ValueError:
        return call.arguments


def _words(entry: UserEntry | AssistantEntry) -> str:
    parts = [block.text for block in entry.blocks if isinstance(block, TextBlock)]
    if isinstance(entry, UserEntry):
        parts += [
            f"[{block.kind}: {getattr(block, 'name', '') or block.mime}]"
            for block in entry.blocks
            if not isinstance(block, TextBlock)
        ]
    return "\n\n".join(parts)
