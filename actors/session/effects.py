"""What a session wants done. Performed by `actor.py`, and only after its facts are durable."""

from dataclasses import dataclass
from datetime import datetime

from actors.session.facts import ReplyOwed
from messages.gateway import Acceptance, MessageReceived
from messages.ids import CallId, MessageId, SessionKey, Turn
from messages.model import ModelRef
from messages.tool import PreparedCall


@dataclass(frozen=True, slots=True)
class AskModel:
    """Ask the model with the history as it is now."""

    turn: Turn
    call: int
    attempt: int
    model: ModelRef | None
    """None: the configured one."""
    tools: bool
    shrinks: int
    """How often the history was found too long: each halves what is sent."""
    personality: str | None = None
    """The name of the personality that answers."""
    compress: int | None = None
    """Ask for a summary of so many entries from the beginning, instead of an answer."""


@dataclass(frozen=True, slots=True)
class AskModelLater:
    """Ask again after a wait."""

    turn: Turn
    call: int
    attempt: int
    wait_s: float


@dataclass(frozen=True, slots=True)
class CancelModel:
    """Close the connection of the model call that is running, and forget a wait for the next."""

    turn: Turn


@dataclass(frozen=True, slots=True)
class RunTool:
    """Run a call that was recorded as started."""

    turn: Turn
    call: PreparedCall


@dataclass(frozen=True, slots=True)
class CancelTools:
    """End the running calls of a turn, and look again if they are not gone in time."""

    turn: Turn


@dataclass(frozen=True, slots=True)
class AskConfirmation:
    """Ask whoever sits there for a yes, and hear about it when nobody has answered in time."""

    turn: Turn
    call: PreparedCall
    approval: str = ""
    """The id under which people answer in a chat."""
    wait_s: float = 0.0
    """How long an answer is waited for."""


@dataclass(frozen=True, slots=True)
class Deliver:
    """Post a reply. Its delivery id is the idempotency key, the same however often it is tried."""

    owed: ReplyOwed


@dataclass(frozen=True, slots=True)
class StartSide:
    """Say this in a conversation beside this one. Doing it again changes nothing."""

    side: str
    heard: MessageReceived


@dataclass(frozen=True, slots=True)
class StopSide:
    """Stop what a conversation beside this one is doing."""

    side: str
    at: datetime


@dataclass(frozen=True, slots=True)
class TellMain:
    """Tell the conversation that began this one that it is done."""

    side: str
    at: datetime


@dataclass(frozen=True, slots=True)
class Acknowledge:
    """Tell the edge what became of a message at the door."""

    message_id: MessageId
    acceptance: Acceptance
    why: str = ""
    key: SessionKey | None = None
    """Under whose key the edge waits, where that is another session's: somebody pressed its button."""


@dataclass(frozen=True, slots=True)
class TellStatus:
    """Tell who waits what is going on. A view: nothing depends on it."""

    turn: Turn
    text: str


Effect = (
    AskModel
    | AskModelLater
    | CancelModel
    | RunTool
    | CancelTools
    | AskConfirmation
    | StartSide
    | StopSide
    | TellMain
    | Deliver
    | Acknowledge
    | TellStatus
)

__all__ = [
    "Acknowledge",
    "AskConfirmation",
    "AskModel",
    "AskModelLater",
    "CallId",
    "CancelModel",
    "CancelTools",
    "Deliver",
    "Effect",
    "RunTool",
    "StartSide",
    "StopSide",
    "TellMain",
    "TellStatus",
]
