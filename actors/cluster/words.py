"""What an isolated edge's process is told, and what it says. Numbers tie answers to what was asked."""

from typing import Annotated, Any, Literal

from pydantic import Field

from actors.gateway.edge import LastHeard, OfferedCommand
from messages.base import Message, Text
from messages.delivery import EdgeView, Post, Problem
from messages.gateway import EdgeHeard, Receipt

# ------------------------------------------------------------------ to the process


class EdgeAwaited(Message):
    """Import what an edge of this platform will need; which one comes later, or never."""

    kind: Literal["edge_awaited"] = "edge_awaited"
    platform: str
    module: str
    """Where the platform's factory was found: looked at first."""


class EdgeBegun(Message):
    """Make this edge and run it. The only message that holds secrets."""

    kind: Literal["edge_begun"] = "edge_begun"
    account: str
    options: dict[str, Any]
    files: str
    last_heard: dict[str, LastHeard]
    commands: tuple[OfferedCommand, ...]


class SayAsked(Message):
    """Post this."""

    kind: Literal["say_asked"] = "say_asked"
    number: int
    post: Post


class FindAsked(Message):
    """Look for this post."""

    kind: Literal["find_asked"] = "find_asked"
    number: int
    post: Post


class ShowAsked(Message):
    """Show this."""

    kind: Literal["show_asked"] = "show_asked"
    number: int
    view: EdgeView


class ProbeAsked(Message):
    """Prove that the connection is alive."""

    kind: Literal["probe_asked"] = "probe_asked"
    number: int


class PulseAsked(Message):
    """Answer at once, so that it is known that your loop turns."""

    kind: Literal["pulse_asked"] = "pulse_asked"
    number: int


class HeardTaken(Message):
    """What became of a message that was handed in; `problem` says why it was not taken."""

    kind: Literal["heard_taken"] = "heard_taken"
    number: int
    receipt: Receipt | None
    problem: Problem | None = None


ToProcess = Annotated[
    EdgeAwaited | EdgeBegun | SayAsked | FindAsked | ShowAsked | ProbeAsked | PulseAsked | HeardTaken,
    Field(discriminator="kind"),
]

# ------------------------------------------------------------------ from the process


class EdgeConnected(Message):
    """Posts can be made."""

    kind: Literal["edge_connected"] = "edge_connected"


class HeardSomething(Message):
    """Hand this in: it was heard."""

    kind: Literal["heard_something"] = "heard_something"
    number: int
    heard: EdgeHeard


class EdgeAnswered(Message):
    """What came of SayAsked, FindAsked, ShowAsked, ProbeAsked or PulseAsked."""

    kind: Literal["edge_answered"] = "edge_answered"
    number: int
    receipt: Text | None = None
    problem: Problem | None = None


class TroubleSaid(Message):
    """See `EdgeContext.trouble`."""

    kind: Literal["trouble_said"] = "trouble_said"
    text: Text


class LogSaid(Message):
    """A line for the log."""

    kind: Literal["log_said"] = "log_said"
    level: Literal["debug", "info", "warning", "error"]
    event: Text
    fields: dict[str, str] = Field(default_factory=dict)


class EdgeEnded(Message):
    """The edge's `run` has ended: in good order, or with an EdgeError."""

    kind: Literal["edge_ended"] = "edge_ended"
    problem: Problem | None


class EdgeCrashed(Message):
    """The edge failed in a way that no edge should."""

    kind: Literal["edge_crashed"] = "edge_crashed"
    error: Text


FromProcess = Annotated[
    EdgeConnected | HeardSomething | EdgeAnswered | TroubleSaid | LogSaid | EdgeEnded | EdgeCrashed,
    Field(discriminator="kind"),
]
