"""What a session can hear. Past tense: it happened; imperative: somebody wants it."""

from typing import Literal

from messages.base import Instant, Lane, Message, Text
from messages.blocks import Entry
from messages.gateway import MessageDeleted, MessageEdited, MessageReceived, SayingFailed, SayingSucceeded
from messages.ids import CallId, MessageId, SessionId, SessionKey, Turn
from messages.model import Failure, ModelRef, ModelReply
from messages.settings import BusyPolicy
from messages.tool import PreparedCall, ToolFinished


class UserSpoke(Message):
    """A person said something in the chat this session owns."""

    kind: Literal["user_spoke"] = "user_spoke"
    bounded = True
    heard: MessageReceived
    policy: BusyPolicy | None = None
    """What to do while busy, for this message alone (`/queue …`, `/steer …`)."""


class EarlierConversation(Message):
    """A conversation that was held in a session's place before the one that is open."""

    session_id: SessionId
    title: Text
    messages: int
    began_at: Instant
    last_at: Instant


class CommandGiven(Message):
    """A person gave a slash command to this session."""

    kind: Literal["command_given"] = "command_given"
    bounded = True
    name: str
    argument: Text
    heard: MessageReceived
    info: Text = ""
    """What the front desk knows that the session does not: the list of commands, of models."""
    model: ModelRef | None = None
    """What the argument of /model means."""
    earlier: tuple[EarlierConversation, ...] = ()
    """For /sessions and /resume: read from the journal by the session's actor, latest first."""
    came_to: SessionKey | None = None
    """To whose session it came, where it is about what another session asked: /approve and /deny."""
    entries: tuple[Entry, ...] | None = None
    """For /resume: what the model knew in the conversation that was asked for; None when there is none."""


class StopAsked(Message):
    """A person wants the running turn to end now. Works whatever hangs."""

    kind: Literal["stop_asked"] = "stop_asked"
    lane = Lane.CONTROL
    heard: MessageReceived | None = None
    """The /stop message; None when it was a button or a key."""
    at: Instant


class StopOverdue(Message):
    """The tools of a stopping turn should have been gone by now."""

    kind: Literal["stop_overdue"] = "stop_overdue"
    turn: Turn
    at: Instant


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


class ApprovalOverdue(Message):
    """Nobody decided about a call in time."""

    kind: Literal["approval_overdue"] = "approval_overdue"
    turn: Turn
    call_id: CallId
    approval: str
    at: Instant


class SideEnded(Message):
    """A conversation beside this one is done with what it was begun for."""

    kind: Literal["side_ended"] = "side_ended"
    side: str
    at: Instant


class Woke(Message):
    """The actor has read its journal and is about to go on."""

    kind: Literal["woke"] = "woke"
    lane = Lane.CONTROL
    life: str
    """Names the process's life: a turn that survives several is counted."""
    crashed: bool = False
    """Whether only the actor died, in this very life: tools that ran are still running."""
    at: Instant


class HandlingFailed(Message):
    """A message crashed the actor twice: it is given up, and the person is told."""

    kind: Literal["handling_failed"] = "handling_failed"
    lane = Lane.CONTROL
    heard: MessageReceived | None
    error: Text
    came_to: SessionKey | None = None
    """To whose session it came, where it was handed on to this one."""
    at: Instant


class DeadLetterSettled(Message):
    """An operator decided about a dead letter of this session."""

    kind: Literal["dead_letter_settled"] = "dead_letter_settled"
    letter: int
    """The place in the session's stream of the fact that it is about."""
    how: Literal["retried", "dropped"]
    retried_as: MessageId | None = None
    by: Text
    acknowledge: MessageId
    """Under this id, whoever decided waits to hear that it is durable."""
    at: Instant


class ErasureAsked(Message):
    """The history of this session is to be deleted now, whatever is going on in it."""

    kind: Literal["erasure_asked"] = "erasure_asked"
    at: Instant


Heard = (
    UserSpoke
    | CommandGiven
    | StopAsked
    | StopOverdue
    | ModelAnswered
    | ModelFailed
    | RetryDue
    | ToolFinished
    | ConfirmationGiven
    | ApprovalOverdue
    | SideEnded
    | MessageEdited
    | MessageDeleted
    | SayingSucceeded
    | SayingFailed
    | Woke
    | HandlingFailed
    | ErasureAsked
    | DeadLetterSettled
)
