"""What an outbox remembers: the fold of its facts, and of what is true of this life alone. Pure."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import reduce
from typing import TypeVar, assert_never

from messages import delivery as d
from messages.gateway import SayingFailed, SayingSucceeded
from messages.ids import DeliveryId

K = TypeVar("K")
V = TypeVar("V")

DONE_IN_A_GENERATION = 256
GENERATIONS = 16
"""So many times 256 ended deliveries are remembered, to answer a session that asks again."""


@dataclass(frozen=True, slots=True)
class Owed:
    """A delivery that has not ended."""

    taken: d.DeliveryTaken
    receipts: tuple[str, ...] = ()
    attempt: int = 0
    """Calls with the part that is next, all told."""
    attempts: int = 0
    """Calls with all parts."""
    failures: int = 0
    """Of the part that is next, those that count."""
    tried: bool = False
    """A call with the part has no outcome yet."""
    unclear: int = 0
    """Calls with the part of which nobody knows."""
    tried_at: datetime | None = None
    """The part's first call."""
    maybe_duplicate: bool = False

    @property
    def part(self) -> int:
        """The part that is next, from 1."""
        return len(self.receipts) + 1

    @property
    def doubt(self) -> int:
        return self.unclear + self.tried


@dataclass(frozen=True, slots=True)
class Under:
    """A call that is under way."""

    delivery_id: DeliveryId
    part: int
    attempt: int


Ending = SayingSucceeded | SayingFailed


@dataclass(frozen=True, slots=True)
class Outbox:
    """The fold of the facts and of this life's notes."""

    owed: Mapping[DeliveryId, Owed] = field(default_factory=dict)
    queues: Mapping[d.Place, tuple[DeliveryId, ...]] = field(default_factory=dict)
    dead: Mapping[d.Place, d.TargetDied] = field(default_factory=dict)
    done: tuple[Mapping[DeliveryId, Ending], ...] = ()
    """How deliveries ended, generation by generation, the latest last."""
    drafts: Mapping[DeliveryId, d.DraftStands] = field(default_factory=dict)
    """Live drafts that stand in chats, by the delivery that they will become."""
    removals: Mapping[tuple[d.Place, str], int] = field(default_factory=dict)
    """Drafts that are being removed, and how often it failed."""
    moved: Mapping[d.Place, d.PlaceMoved] = field(default_factory=dict)
    """Places that have another id now, by the old one."""
    letters: frozenset[int] = frozenset()
    """Dead letters that were decided about, by their places in the stream; those of long ago are not known."""
    connected: bool = False
    ready: Mapping[d.Place, None] = field(default_factory=dict)
    """Places whose first delivery may go on now, in the order in which they came to it."""
    under_way: Mapping[d.Place, Under] = field(default_factory=dict)
    waiting: frozenset[d.Place | None] = frozenset()
    """Places that wait; None for the whole account."""

    @property
    def owing(self) -> bool:
        return bool(self.owed)

    def ending(self, delivery_id: DeliveryId) -> Ending | None:
        """Say how a delivery ended, if that is remembered."""
        for generation in reversed(self.done):
            if delivery_id in generation:
                return generation[delivery_id]
        return None


# ------------------------------------------------------------------ notes


@dataclass(frozen=True, slots=True)
class ConnectionChanged:
    connected: bool


@dataclass(frozen=True, slots=True)
class Called:
    place: d.Place
    under: Under


@dataclass(frozen=True, slots=True)
class Returned:
    place: d.Place


@dataclass(frozen=True, slots=True)
class WaitBegan:
    place: d.Place | None


@dataclass(frozen=True, slots=True)
class WaitEnded:
    place: d.Place | None


@dataclass(frozen=True, slots=True)
class Removing:
    """A draft is being removed; `failures` is None when that is over."""

    place: d.Place
    receipt: str
    failures: int | None


Note = Removing | ConnectionChanged | Called | Returned | WaitBegan | WaitEnded
"""True of this life alone; not recorded."""

Fact = (
    d.DeliveryTaken
    | d.PartTried
    | d.PartNotTaken
    | d.PartUnclear
    | d.LookUpFailed
    | d.PartDelivered
    | d.DeliveryDone
    | d.DeliveryFailed
    | d.DeliveryLetterClosed
    | d.TargetDied
    | d.TargetRevived
    | d.DraftStands
    | d.DraftDropped
    | d.PlaceMoved
)


# ------------------------------------------------------------------ folding


def fold(state: Outbox, facts: Iterable[Fact]) -> Outbox:
    return reduce(apply, facts, state)


def apply(state: Outbox, fact: Fact | Note) -> Outbox:
    """Remember. Never decides; a fact about a delivery that has ended long ago changes nothing."""
    match fact:
        case d.DeliveryTaken():
            return _queued(state, fact)
        case d.PartTried():
            return _changed(state, fact.delivery_id, lambda o: _tried(o, fact))
        case d.PartNotTaken():
            return _changed(state, fact.delivery_id, lambda o: _not_taken(o, fact))
        case d.PartUnclear():
            return _changed(state, fact.delivery_id, lambda o: replace(o, tried=False, unclear=o.unclear + 1))
        case d.LookUpFailed():
            return _changed(state, fact.delivery_id, lambda o: replace(o, failures=o.failures + 1))
        case d.PartDelivered():
            state = replace(state, drafts=_without(state.drafts, fact.delivery_id))
            return _changed(state, fact.delivery_id, lambda o: _next_part(o, fact))
        case d.DeliveryDone() | d.DeliveryFailed():
            return _ended(state, fact)
        case d.DeliveryLetterClosed():
            return replace(state, letters=state.letters | {fact.letter})
        case d.TargetDied():
            return replace(state, dead={**state.dead, fact.place: fact})
        case d.TargetRevived():
            return replace(state, dead=_without(state.dead, fact.place))
        case d.DraftStands():
            return replace(state, drafts={**state.drafts, fact.delivery_id: fact})
        case d.DraftDropped():
            return replace(state, drafts=_without(state.drafts, fact.delivery_id))
        case d.PlaceMoved():
            return _moved(state, fact)
        case Removing(place, receipt, failures):
            removals = _without(state.removals, (place, receipt))
            if failures is not None:
                removals = {**removals, (place, receipt): failures}
            return replace(state, removals=removals)
        case ConnectionChanged():
            return replace(state, connected=fact.connected)
        case Called():
            under_way = {**state.under_way, fact.place: fact.under}
            return replace(state, under_way=under_way, ready=_without(state.ready, fact.place))
        case Returned():
            return _readied(replace(state, under_way=_without(state.under_way, fact.place)), fact.place)
        case WaitBegan():
            waiting = state.waiting | {fact.place}
            ready = state.ready if fact.place is None else _without(state.ready, fact.place)
            return replace(state, waiting=waiting, ready=ready)
        case WaitEnded():
            return _readied(replace(state, waiting=state.waiting - {fact.place}), fact.place)
        case _:
            assert_never(fact)


def _queued(state: Outbox, fact: d.DeliveryTaken) -> Outbox:
    queue = state.queues.get(fact.place, ())
    queue = (fact.delivery_id, *queue) if fact.first else (*queue, fact.delivery_id)
    owed = Owed(fact) if fact.doubt is None else Owed(fact, unclear=1, tried_at=fact.doubt.since)
    state = replace(
        state,
        owed={**state.owed, fact.delivery_id: owed},
        queues={**state.queues, fact.place: queue},
    )
    return _readied(state, fact.place)


def _tried(owed: Owed, fact: d.PartTried) -> Owed:
    return replace(
        owed,
        attempt=fact.attempt,
        attempts=owed.attempts + 1,
        tried=True,
        tried_at=owed.tried_at or fact.at,
    )


def _not_taken(owed: Owed, fact: d.PartNotTaken) -> Owed:
    if fact.text_instead is None or owed.part > len(owed.taken.parts):
        return replace(owed, tried=False, failures=owed.failures + (1 if fact.counts else 0))
    parts = list(owed.taken.parts)
    buttons = parts[owed.part - 1].buttons
    parts[owed.part - 1] = d.PartText(text=fact.text_instead, buttons=buttons)
    taken = owed.taken.model_copy(update={"parts": tuple(parts)})
    return replace(owed, taken=taken, tried=False, failures=0)


def _next_part(owed: Owed, fact: d.PartDelivered) -> Owed:
    return Owed(
        owed.taken,
        receipts=(*owed.receipts, fact.receipt),
        attempts=owed.attempts,
        maybe_duplicate=owed.maybe_duplicate or fact.maybe_duplicate,
    )


def _ended(state: Outbox, fact: d.DeliveryDone | d.DeliveryFailed) -> Outbox:
    *older, latest = state.done or ({},)
    if len(latest) >= DONE_IN_A_GENERATION:
        older, latest = [*older[-(GENERATIONS - 2) :], latest], {}
    state = replace(state, done=(*older, {**latest, fact.delivery_id: ending_of(fact)}))
    owed = state.owed.get(fact.delivery_id)
    if owed is None:
        return state
    place = owed.taken.place
    queue = tuple(i for i in state.queues[place] if i != fact.delivery_id)
    queues = {**state.queues, place: queue} if queue else _without(state.queues, place)
    state = replace(state, owed=_without(state.owed, fact.delivery_id), queues=queues)
    return state if queue else replace(state, ready=_without(state.ready, place))


def _moved(state: Outbox, fact: d.PlaceMoved) -> Outbox:
    """What is owed to the old place is owed to the new one, before what that is owed already."""
    queue = state.queues.get(fact.old, ())
    owed = dict(state.owed)
    for delivery_id in queue:
        each = owed[delivery_id]
        owed[delivery_id] = replace(each, taken=each.taken.model_copy(update={"place": fact.new}))
    queues = _without(state.queues, fact.old)
    if queue:
        queues = {**queues, fact.new: (*queue, *queues.get(fact.new, ()))}
    state = replace(
        state,
        owed=owed,
        queues=queues,
        moved={**state.moved, fact.old: fact},
        dead=_without(state.dead, fact.old),
        ready=_without(state.ready, fact.old),
        under_way=_without(state.under_way, fact.old),
    )
    return _readied(state, fact.new)


def _readied(state: Outbox, place: d.Place | None) -> Outbox:
    """The place may go on, if there is anything to do and nothing to wait for."""
    if place is None or place not in state.queues or place in state.under_way or place in state.waiting:
        return state
    return replace(state, ready={**state.ready, place: None})


def _changed(state: Outbox, delivery_id: DeliveryId, change: Callable[[Owed], Owed]) -> Outbox:
    owed = state.owed.get(delivery_id)
    return state if owed is None else replace(state, owed={**state.owed, delivery_id: change(owed)})


def _without(mapping: Mapping[K, V], key: K) -> Mapping[K, V]:
    if key not in mapping:
        return mapping
    rest = dict(mapping)  # copies the hashes too: keys are not hashed and compared again
    del rest[key]
    return rest


def ending_of(fact: d.DeliveryDone | d.DeliveryFailed) -> Ending:
    if isinstance(fact, d.DeliveryDone):
        return SayingSucceeded(delivery_id=fact.delivery_id, receipt=fact.receipt, at=fact.at)
    return SayingFailed(delivery_id=fact.delivery_id, why=fact.why, at=fact.at)
