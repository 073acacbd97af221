"""What is said to and by the tool room."""

from enum import StrEnum
from typing import Literal

from messages.base import Instant, Lane, Message, Text
from messages.blocks import FileBlock, ToolStatus
from messages.gateway import Origin
from messages.ids import CallId, SessionKey, Turn


class Effect(StrEnum):
    """What a tool does to the world."""

    READ = "read"
    WRITE = "write"
    """Changes files below the workspace: those that `paths` names."""
    EXTERNAL = "external"
    """Talks to something outside without changing it, such as fetching a page."""
    DANGEROUS = "dangerous"
    """May do anything, such as a shell."""


class Permission(StrEnum):
    """Whether a call may run."""

    YES = "yes"
    ASK = "ask"
    """Only after a yes of somebody who sits there; refused where nobody does."""
    NO = "no"


class PreparedCall(Message):
    """A tool call that was looked up and checked; enough to plan it without touching the world."""

    call_id: CallId
    name: Text
    arguments: Text
    """Validated, as canonical JSON; as they came when there is a `problem`."""
    effect: Effect = Effect.READ
    paths: tuple[str, ...] = ()
    """Real paths that a WRITE changes, or that a READ depends on (a directory covers its content)."""
    interactive: bool = False
    repeatable: bool = True
    """Whether it may be run again when nobody knows if it took effect."""
    permission: Permission = Permission.YES
    problem: Text = ""
    """Why it cannot be run: no such tool, wrong arguments. It is given to the model as the result."""


class ToolContext(Message):
    """What a tool may know of who it works for."""

    session_key: SessionKey
    turn: Turn
    origin: Origin


class RunTool(Message):
    """Run one call now. It was recorded as started before."""

    kind: Literal["run_tool"] = "run_tool"
    call: PreparedCall
    context: ToolContext


class CancelTools(Message):
    """End the running calls of a session's turn (all of them, or those named), with their process trees."""

    kind: Literal["cancel_tools"] = "cancel_tools"
    lane = Lane.CONTROL
    session_key: SessionKey
    turn: Turn
    call_ids: tuple[CallId, ...] | None = None


class ToolFinished(Message):
    """A tool call ended, in whatever way."""

    kind: Literal["tool_finished"] = "tool_finished"
    turn: Turn
    call_id: CallId
    status: ToolStatus
    text: Text
    kept_in: str | None = None
    files: tuple[FileBlock, ...] = ()
    """What goes with the answer of the turn, kept where nothing changes it."""
    began_at: Instant
    at: Instant
