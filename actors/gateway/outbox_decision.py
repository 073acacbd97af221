"""What an outbox decides: facts to record, and what is to be done once they are durable. Pure."""

from dataclasses import dataclass, field
from datetime import datetime

from actors.gateway.outbox_state import Ending, Fact, Note, Outbox, apply
from actors.gateway.parts import OutboxRules
from messages import delivery as d
from messages.ids import DeliveryId, SessionKey
from messages.system import IncidentKind


@dataclass(frozen=True, slots=True)
class Call:
    """Post a part."""

    post: d.Post


@dataclass(frozen=True, slots=True)
class Look:
    """Look for a part in the chat's history."""

    post: d.Post


@dataclass(frozen=True, slots=True)
class Wait:
    """Say `WaitOver` after so many seconds."""

    place: d.Place | None
    seconds: float


@dataclass(frozen=True, slots=True)
class RemoveDraft:
    """Take a draft out of its chat."""

    place: d.Place
    receipt: str
    after_s: float = 0.0


@dataclass(frozen=True, slots=True)
class TellSession:
    """Tell a session how its reply ended."""

    key: SessionKey
    ending: Ending


@dataclass(frozen=True, slots=True)
class TellTaken:
    """Tell the delivery room that this is in our journal."""

    delivery_id: DeliveryId


@dataclass(frozen=True, slots=True)
class TellLetter:
    """Tell who decided about a dead letter what became of it."""

    token: int
    written: bool


@dataclass(frozen=True, slots=True)
class ReportIncident:
    """Tell the operator."""

    what: IncidentKind
    detail: str


Effect = Call | Look | Wait | RemoveDraft | TellSession | TellTaken | TellLetter | ReportIncident


@dataclass(frozen=True, slots=True)
class Decision:
    """What is now true, and what should be done about it. `notes` are folded, never recorded."""

    facts: tuple[Fact, ...]
    effects: tuple[Effect, ...]
    state: Outbox
    """The state with all of it folded in, notes too."""


@dataclass(slots=True)
class Deciding:
    """A decision that is being made."""

    state: Outbox
    rules: OutboxRules
    at: datetime
    facts: list[Fact] = field(default_factory=list)
    effects: list[Effect] = field(default_factory=list)

    def say(self, fact: Fact) -> None:
        self.facts.append(fact)
        self.state = apply(self.state, fact)

    def note(self, note: Note) -> None:
        self.state = apply(self.state, note)

    def do(self, effect: Effect) -> None:
        self.effects.append(effect)
