"""Neutral content blocks: what the journal keeps and every model protocol is made from."""

from enum import StrEnum
from typing import Annotated, Literal

from pydantic import Field

from messages.base import Message, Text
from messages.ids import CallId


class TextBlock(Message):
    """Plain text (Markdown when a model wrote it)."""

    kind: Literal["text"] = "text"
    text: Text


class ThinkingBlock(Message):
    """A model's reasoning. Shown to nobody by default, given back to its own provider."""

    kind: Literal["thinking"] = "thinking"
    text: Text
    provider: str
    opaque: str | None = None
    """The provider's signature or encrypted form, byte for byte; useless to any other."""


class ToolCallBlock(Message):
    """A model wants a tool run. `arguments` is the JSON text exactly as it came."""

    kind: Literal["tool_call"] = "tool_call"
    call_id: CallId
    name: Text
    arguments: Text


class ToolStatus(StrEnum):
    """How a tool call ended."""

    OK = "ok"
    ERROR = "error"
    TIMED_OUT = "timed_out"
    INTERRUPTED = "interrupted"
    """A person stopped it, or interrupted the turn, while it ran."""
    SKIPPED = "skipped"
    """It was never started, because a person stopped or steered first."""
    REFUSED = "refused"
    """Not allowed, or no such tool, or its arguments were wrong: never started."""
    UNKNOWN = "unknown"
    """The process died while it ran; nobody knows whether it took effect."""


class ToolResultBlock(Message):
    """What a tool call gave back."""

    kind: Literal["tool_result"] = "tool_result"
    call_id: CallId
    status: ToolStatus
    text: Text
    kept_in: str | None = None
    """The file that holds the whole result when `text` was cut to its budget."""


class ImageBlock(Message):
    """An image in a file of ours."""

    kind: Literal["image"] = "image"
    mime: str
    path: str
    size: int
    """In bytes."""


class FileBlock(Message):
    """Any other file of ours."""

    kind: Literal["file"] = "file"
    name: Text
    mime: str
    path: str
    size: int
    """In bytes."""


UserBlock = Annotated[TextBlock | ImageBlock | FileBlock, Field(discriminator="kind")]
AssistantBlock = Annotated[TextBlock | ThinkingBlock | ToolCallBlock, Field(discriminator="kind")]
Block = Annotated[
    TextBlock | ThinkingBlock | ToolCallBlock | ToolResultBlock | ImageBlock | FileBlock,
    Field(discriminator="kind"),
]


class UserEntry(Message):
    """What people said, in one role."""

    role: Literal["user"] = "user"
    blocks: tuple[UserBlock, ...]


class AssistantEntry(Message):
    """What the model said."""

    role: Literal["assistant"] = "assistant"
    blocks: tuple[AssistantBlock, ...]


class ResultsEntry(Message):
    """Results of the tool calls of the assistant entry before it."""

    role: Literal["results"] = "results"
    results: tuple[ToolResultBlock, ...]


Entry = Annotated[UserEntry | AssistantEntry | ResultsEntry, Field(discriminator="role")]
