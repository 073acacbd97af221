"""What the runtime itself has to say: its lives, its incidents."""

from typing import Annotated, Literal

from pydantic import Field

from messages.base import Instant, Message, Text

IncidentKind = Literal[
    "crashed",
    "restarted",
    "degraded",
    "recovered",
    "escalated",
    "dead_letter",
    "blocked",
    "unclear",
    "maybe_duplicate",
    "needs_human",
    "rate_limited",
    "fell",
    "rose",
]
"""Of deliveries: `unclear` (nobody knows whether a post was made), `maybe_duplicate` (one may stand
there twice) and `rate_limited` (nothing can be posted there for long). Of platforms: `needs_human`
(somebody must do something before it works again), and `fell` and `rose` of a connection."""


class ProcessStarted(Message):
    """A life of the process began."""

    kind: Literal["process_started"] = "process_started"
    v: int = 1
    life: str
    version: str
    pid: int
    at: Instant


class ProcessStopped(Message):
    """A life ended in good order. Missing after a crash."""

    kind: Literal["process_stopped"] = "process_stopped"
    v: int = 1
    life: str
    at: Instant


class IncidentHappened(Message):
    """An actor crashed, was restarted, degraded or recovered; or something else went wrong."""

    kind: Literal["incident_happened"] = "incident_happened"
    v: int = 1
    life: str
    child: str
    """The supervisor's name for it, such as `session:agent:main:web:…` or `store`."""
    what: IncidentKind
    detail: Text
    at: Instant


class PlatformPaused(Message):
    """In the stream `platform:…` of an account: it is to stay unconnected, also after a restart."""

    kind: Literal["platform_paused"] = "platform_paused"
    v: int = 1
    by: Text
    at: Instant


class PlatformResumed(Message):
    """In the stream `platform:…` of an account: it may be connected again."""

    kind: Literal["platform_resumed"] = "platform_resumed"
    v: int = 1
    by: Text
    at: Instant


SystemFact = Annotated[
    ProcessStarted | ProcessStopped | IncidentHappened | PlatformPaused | PlatformResumed,
    Field(discriminator="kind"),
]
