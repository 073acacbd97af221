"""What a session can hear. Past tense: it happened; imperative: somebody wants it."""

from typing import Literal

from messages.base import Instant, Lane, Message, Text
from messages.blocks import AssistantBlock, ToolStatus
from messages.gateway import Author, MessageReceived, Origin, SayingSucceeded
from messages.ids import CallId, MessageId, Turn
from messages.model import Failure, ModelRef, ModelReply, StopReason, Usage
from messages.tool import PreparedCall, ToolFinished


class UserSpoke(Message):
    """A person said something in the chat this session owns."""

    kind: Literal["user_spoke"] = "user_spoke"
    bounded = True
    heard: MessageReceived
    attempt: int = 1
    """2 when the first handling of it crashed the actor."""


class CommandGiven(Message):
    """A person gave a slash command to this session."""

    kind: Literal["command_given"] = "command_given"
    bounded = True
    name: str
    argument: Text
    heard: MessageReceived
    attempt: int = 1


class StopAsked(Message):
    """A person wants the running turn to end now. Works whatever hangs."""

    kind: Literal["stop_asked"] = "stop_asked"
    lane = Lane.CONTROL
    heard: MessageReceived | None = None
    """The /stop message; None when it was a button or a key."""
    attempt: int = 1


class ModelAnswered(Message):
    """The model's stream came to its proper end."""

    kind: Literal["model_answered"] = "model_answered"
    turn: Turn
    call: int
    reply: ModelReply
    calls: tuple[PreparedCall, ...]
    """The reply's tool calls, looked up in the catalogue; empty when it has none."""
    began_at: Instant
    at: Instant


class ModelFailed(Message):
    """The model call failed; nothing was said."""

    kind: Literal["model_failed"] = "model_failed"
    turn: Turn
    call: int
    attempt: int
    failure: Failure
    partial: Text = ""
    """What had arrived before a cut."""
    chance: float
    """In [0, 1): the jitter for the next wait, drawn by the worker."""
    began_at: Instant
    at: Instant


class RetryDue(Message):
    """The wait before the next attempt of a model call is over."""

    kind: Literal["retry_due"] = "retry_due"
    turn: Turn
    call: int
    attempt: int
    at: Instant


class ConfirmationGiven(Message):
    """Somebody said yes or no to one tool call."""

    kind: Literal["confirmation_given"] = "confirmation_given"
    lane = Lane.CONTROL
    call_id: CallId
    yes: bool
    by: str
    at: Instant


class Woke(Message):
    """The actor has read its journal and is about to go on."""

    kind: Literal["woke"] = "woke"
    lane = Lane.CONTROL
    life: str
    """Names the process's life: a turn that survives several is counted."""
    at: Instant


class HandlingFailed(Message):
    """A message crashed the actor twice: it is given up, and the person is told."""

    kind: Literal["handling_failed"] = "handling_failed"
    lane = Lane.CONTROL
    heard: MessageReceived | None
    error: Text
    at: Instant


Heard = (
    UserSpoke
    | CommandGiven
    | StopAsked
    | ModelAnswered
    | ModelFailed
    | RetryDue
    | ToolFinished
    | ConfirmationGiven
    | SayingSucceeded
    | Woke
    | HandlingFailed
)

__all__ = [
    "AssistantBlock",
    "Author",
    "CommandGiven",
    "ConfirmationGiven",
    "HandlingFailed",
    "Heard",
    "MessageId",
    "ModelAnswered",
    "ModelFailed",
    "ModelRef",
    "Origin",
    "RetryDue",
    "SayingSucceeded",
    "StopAsked",
    "StopReason",
    "ToolFinished",
    "ToolStatus",
    "Usage",
    "UserSpoke",
    "Woke",
]
