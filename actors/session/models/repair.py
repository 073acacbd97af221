"""A history as it happened → one that every provider takes. The outgoing copy is repaired, never the journal.

After repair, whatever the entries were:

* the first turn is a user's; two users' turns, or two assistants' turns without calls
  between them, never follow one another;
* every call has exactly one result, in the order of the calls, directly after them,
  before anything a person said meanwhile; no result stands without its call;
* no block and no turn is empty; call ids are unique and, like names, of characters
  that every protocol takes;
* reasoning goes only to the provider that wrote it, with its signature untouched,
  and never ends a turn.
"""

import re
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import PurePath
from typing import Any

from actors.session.models.images import GONE, Pictures
from actors.session.quoting import quoted, visible
from actors.tool.arguments import ArgumentsError, parse_arguments
from messages.base import clean_text
from messages.blocks import (
    AssistantEntry,
    Entry,
    FileBlock,
    ImageBlock,
    ResultsEntry,
    TextBlock,
    ThinkingBlock,
    ToolCallBlock,
    ToolResultBlock,
    ToolStatus,
    UserEntry,
)
from messages.ids import CallId

NO_BEGINNING = "(The beginning of this conversation is not shown.)"
NO_TEXT = "(a message without text)"
NO_RESULT = (
    "interrupted: this call has no recorded result; it was stopped before it ended, or never started. "
    "Check before you rely on its effect."
)

_ODD = re.compile(r"[^a-zA-Z0-9_-]")


@dataclass(slots=True)
class WireCall:
    """A call with its result, under the id and name that go out."""

    wire_id: str
    name: str
    arguments: dict[str, Any]
    result: ToolResultBlock


@dataclass(slots=True)
class UserTurn:
    """What people said between two turns of the model."""

    blocks: list[TextBlock | ImageBlock] = field(default_factory=list)


@dataclass(slots=True)
class AssistantTurn:
    """What the model said, with the results of its calls. A WireCall stands where its call stood."""

    blocks: list[TextBlock | ThinkingBlock | WireCall] = field(default_factory=list)

    @property
    def calls(self) -> list[WireCall]:
        return [block for block in self.blocks if isinstance(block, WireCall)]


Turns = list[UserTurn | AssistantTurn]


def repaired(entries: Sequence[Entry], provider: str, pictures: Pictures) -> Turns:
    """Return the turns to send to this provider."""
    return _Repair(provider, pictures).turns(entries)


class _Repair:
    def __init__(self, provider: str, pictures: Pictures) -> None:
        self._provider = provider
        self._pictures = pictures
        self._turns: Turns = []
        self._waiting: dict[CallId, deque[WireCall]] = {}
        self._wire_ids: set[str] = set()

    def turns(self, entries: Sequence[Entry]) -> Turns:
        for entry in entries:
            match entry:
                case UserEntry():
                    self._user(entry)
                case AssistantEntry():
                    self._assistant(entry)
                case ResultsEntry():
                    self._results(entry)
        if not self._turns:
            return [UserTurn([TextBlock(text=NO_TEXT)])]
        if isinstance(self._turns[0], AssistantTurn):
            self._turns.insert(0, UserTurn([TextBlock(text=NO_BEGINNING)]))
        return self._turns

    def _user(self, entry: UserEntry) -> None:
        blocks = [said for block in entry.blocks if (said := self._said(block)) is not None]
        if not blocks:
            blocks = [TextBlock(text=NO_TEXT)]
        last = self._turns[-1] if self._turns else None
        if isinstance(last, UserTurn):
            last.blocks.extend(blocks)
        else:
            self._turns.append(UserTurn(blocks))

    def _said(self, block: TextBlock | ImageBlock | FileBlock) -> TextBlock | ImageBlock | None:
        match block:
            case TextBlock():
                return block if block.text.strip() else None
            case ImageBlock() if block.path in self._pictures.shown:
                return block
            case ImageBlock():
                why = self._pictures.hidden.get(block.path, "it cannot be shown to this model")
                if why == GONE:
                    name = quoted(PurePath(block.path).name)
                    return TextBlock(text=f"[image no longer available: {name}]")
                return TextBlock(text=f"[image not shown: {why}]")
            case FileBlock():
                about = f"{quoted(block.name)}, {visible(block.mime)[:80]}, {block.size} bytes"
                return TextBlock(text=f"[file: {about}, at {block.path}]")

    def _assistant(self, entry: AssistantEntry) -> None:
        blocks: list[TextBlock | ThinkingBlock | WireCall] = []
        opened: dict[CallId, deque[WireCall]] = {}
        for block in entry.blocks:
            match block:
                case TextBlock() if block.text.strip():
                    blocks.append(block)
                case ThinkingBlock() if block.opaque and block.provider == self._provider:
                    blocks.append(block)
                case ToolCallBlock():
                    call = self._call(block)
                    blocks.append(call)
                    opened.setdefault(block.call_id, deque()).append(call)
        self._waiting.update(opened)
        while blocks and isinstance(blocks[-1], ThinkingBlock):
            blocks.pop()
        if not blocks:
            return
        last = self._turns[-1] if self._turns else None
        if isinstance(last, AssistantTurn) and not last.calls:
            last.blocks.extend(blocks)
        else:
            self._turns.append(AssistantTurn(blocks))

    def _call(self, block: ToolCallBlock) -> WireCall:
        result = ToolResultBlock(call_id=block.call_id, status=ToolStatus.INTERRUPTED, text=NO_RESULT)
        return WireCall(
            wire_id=self._wire_id(block.call_id),
            name=wire_name(block.name),
            arguments=_arguments(block.arguments),
            result=result,
        )

    def _results(self, entry: ResultsEntry) -> None:
        for result in entry.results:
            waiting = self._waiting.get(result.call_id)
            if waiting:
                waiting.popleft().result = result

    def _wire_id(self, call_id: CallId) -> str:
        base = _ODD.sub("_", call_id)[:40] or "call"
        candidate, number = base, 1
        while candidate in self._wire_ids:
            number += 1
            candidate = f"{base[:32]}_{number}"
        self._wire_ids.add(candidate)
        return candidate


def wire_name(name: str) -> str:
    """Return a tool's name in the characters that every protocol takes."""
    return _ODD.sub("_", name)[:64] or "unknown_tool"


def _arguments(text: str) -> dict[str, Any]:
    try:
        parsed = parse_arguments(text)
    except ArgumentsError:
        return {"unreadable_arguments": text}
    cleaned: dict[str, Any] = clean_json(parsed)
    return cleaned


def clean_json(value: Any) -> Any:
    """Return JSON data whose every string can be encoded (escapes may hide halves of surrogate pairs)."""
    match value:
        case str():
            return clean_text(value)
        case dict():
            return {str(clean_text(key)): clean_json(item) for key, item in value.items()}
        case list():
            return [clean_json(item) for item in value]
        case _:
            return value
