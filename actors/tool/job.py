"""What a tool's own process is told, and what it tells."""

from typing import Any, Literal

from messages.base import Message, Text
from messages.blocks import ToolStatus
from messages.settings import ToolSettings
from messages.tool import ToolContext


class Job(Message):
    """One call, for a process of its own."""

    token: str
    """Marks the lines that are reports: whatever else it prints is not."""
    module: str
    function: str
    arguments: dict[str, Any]
    context: ToolContext
    settings: ToolSettings
    workspace: str
    keep_at: str
    result_bytes: int
    path: tuple[str, ...]
    """Where modules are imported from."""


class Report(Message):
    """A line for the person, a part of the result, or the result."""

    kind: Literal["line", "part", "result"]
    text: Text
    status: ToolStatus = ToolStatus.OK
    kept_in: str | None = None
