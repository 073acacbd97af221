"""What happens while messages are processed, for whoever wants to hear of it: hooks, metrics, the live view.

A message's way: heard (or pending, or it interrupts) → processing started → the model
ran, tools began and ended, as often as it takes → response sent → processing
completed. Events tell; they never ask: nothing waits for who hears them.
"""

from typing import Annotated, Literal

from pydantic import Field

from messages.base import Instant, Message, Text
from messages.blocks import ToolStatus
from messages.ids import CallId, DeliveryId, MessageId, SessionKey, Turn
from messages.model import ModelRef, StopReason, Usage


class LifecycleEvent(Message):
    """Something happened; in a session, or to the process when `session_key` is None."""

    session_key: SessionKey | None = None
    at: Instant


class SessionEvent(LifecycleEvent):
    """Something happened in a session. Events of one session are heard in order."""

    session_key: SessionKey


class MessageHeard(SessionEvent):
    """A person's message was accepted and is durable."""

    kind: Literal["message_heard"] = "message_heard"
    message_id: MessageId
    text: Text
    author: Text = ""
    """The author's platform id."""
    platform: str = ""


class MessagePending(SessionEvent):
    """An accepted message waits, because a turn is running."""

    kind: Literal["message_pending"] = "message_pending"
    message_id: MessageId
    turn: Turn
    """The running one."""
    waiting: int
    """How many wait, this one included."""


class Interrupted(SessionEvent):
    """A running turn was cut short: by /stop, or by a newer message."""

    kind: Literal["interrupted"] = "interrupted"
    turn: Turn
    by: Literal["stop", "message", "reset"]


class ProcessingStarted(SessionEvent):
    """A turn began over these messages."""

    kind: Literal["processing_started"] = "processing_started"
    turn: Turn
    message_ids: tuple[MessageId, ...]


class AgentRan(SessionEvent):
    """A model call ended: it answered (`stop` is set), or failed (`failure` is set)."""

    kind: Literal["agent_ran"] = "agent_ran"
    turn: Turn
    call: int
    model: ModelRef | None = None
    stop: StopReason | None = None
    failure: Text | None = None
    usage: Usage | None = None
    began_at: Instant


class ToolBegan(SessionEvent):
    """A tool call is about to run."""

    kind: Literal["tool_began"] = "tool_began"
    turn: Turn
    call_id: CallId
    name: Text


class ToolEnded(SessionEvent):
    """A tool call has its result, in whatever way it ended."""

    kind: Literal["tool_ended"] = "tool_ended"
    turn: Turn
    call_id: CallId
    name: Text
    status: ToolStatus
    began_at: Instant


class ResponseSent(SessionEvent):
    """The platform took a reply."""

    kind: Literal["response_sent"] = "response_sent"
    delivery_id: DeliveryId
    turn: Turn | None = None
    """None for notices, such as the answer to a command."""
    receipt: str = ""


class ProcessingCompleted(SessionEvent):
    """A turn is over; `reason` says how."""

    kind: Literal["processing_completed"] = "processing_completed"
    turn: Turn
    reason: str
    """As in the fact `TurnEnded`: answered, stopped, failed …"""
    message_ids: tuple[MessageId, ...] = ()
    began_at: Instant


class Started(LifecycleEvent):
    """The process is ready."""

    kind: Literal["started"] = "started"
    life: str
    version: str


class Stopping(LifecycleEvent):
    """The process is about to stop; hooks have a moment to finish."""

    kind: Literal["stopping"] = "stopping"
    life: str


class Incident(LifecycleEvent):
    """An actor crashed, was restarted, degraded or recovered, or something blocked the loop."""

    kind: Literal["incident"] = "incident"
    child: str
    what: str
    detail: Text


Event = Annotated[
    MessageHeard
    | MessagePending
    | Interrupted
    | ProcessingStarted
    | AgentRan
    | ToolBegan
    | ToolEnded
    | ResponseSent
    | ProcessingCompleted
    | Started
    | Stopping
    | Incident,
    Field(discriminator="kind"),
]
