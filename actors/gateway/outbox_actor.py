"""An outbox's actor: the shell around the outbox's rules, for one account on one platform.

Messages are decided one by one, at once, on a state that already holds what was
decided before; the facts of all that came while an append was under way travel
together in the next. An effect is performed only when its facts are durable: a call
is recorded as tried before it is made. An append that fails ends this incarnation;
the next reads what is true, and the delivery room tells again what was not taken.

Its stream grows for ever, but waking does not: now and then it notes in a small
stream beside it up to where nothing is needed any more.
"""

from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal, assert_never

import structlog

from actors.gateway import outbox_decision as e
from actors.gateway.outbox import decide
from actors.gateway.outbox_state import DONE_IN_A_GENERATION, GENERATIONS, Fact, Outbox, fold
from actors.gateway.parts import OutboxRules
from actors.gateway.targets import outbox_stream
from actors.runtime import ActorSystem, Crashed, LoopActor
from messages import delivery as d
from messages.base import Message
from messages.gateway import Say, SayingFailed, SayingSucceeded
from messages.ids import DeliveryId, SessionKey, StreamId
from store.journal import Journal, Recorded

log = structlog.get_logger(__name__)

PATIENCE_S: Final = 90.0
"""A call that has no answer after so long is one of which nobody knows."""

LATEST_START_S: Final = 20.0
"""A call that could not begin within this is not made: the patience must cover its own time limit."""

LEFT_S: Final = 60.0
"""After so long in a new life, the turns that go on are known."""

MARK_EVERY: Final = 1000
"""Facts between two notes of what is settled."""

REMEMBERED: Final = DONE_IN_A_GENERATION * (GENERATIONS - 1)
"""Ended deliveries that a new life reads again, to answer sessions that ask again."""


OUTCOMES: Final[dict[type, str]] = {
    d.PartDelivered: "posted",
    d.PartNotTaken: "not_posted",
    d.PartUnclear: "unclear",
    d.DeliveryFailed: "given_up",
}


LetterChange = Literal["opened", "closed"]


class DraftsLeft(Message):
    """Drafts of an earlier life that no turn has taken up by now are nobody's."""


class Overdue(Message):
    """A call should have been answered by now."""

    delivery_id: DeliveryId
    place: d.Place
    part: int
    attempt: int
    looking: bool


@dataclass(frozen=True, slots=True)
class OutboxLinks:
    """Whom an outbox knows."""

    journal: Journal
    tell_platform: Callable[[d.SayPost | d.FindPost | d.ConnectionAsked | d.ShowView], None]
    tell_session: Callable[[SessionKey, SayingSucceeded | SayingFailed], None]
    tell_delivery: Callable[[d.SayTaken | d.OutboxWoke], None]
    on_incident: Callable[[str, str], None]
    """(what, detail)"""
    chance: Callable[[], float]
    count: Callable[[str], None]
    """Told of each durable outcome: posted, not_posted, unclear, given_up."""
    on_load: Callable[[int], None]
    """Told how many places are being posted to, or would be at once: 0 when a stop loses no time."""
    on_drafts: Callable[[Mapping[DeliveryId, d.DraftStands]], None]
    """Told of the live drafts that stand, whenever they change."""
    on_letter: Callable[[LetterChange], None] = lambda _: None
    """Told of each durable change of the dead letters."""
    tell_letters: Callable[[d.LetterSettled], None] = lambda _: None
    """Who decides about them."""


class OutboxActor(LoopActor):
    """Hears Say and `messages.delivery.OutboxHeard`."""

    def __init__(
        self,
        system: ActorSystem,
        name: str,
        rules: OutboxRules,
        links: OutboxLinks,
        *,
        on_crash: Callable[[Crashed], None] | None = None,
    ) -> None:
        super().__init__(system, name=f"outbox:{name}", on_crash=on_crash)
        self._name = name
        self._stream = outbox_stream(name)
        self._marks = StreamId(self._stream.replace("outbox:", "outbox-settled:", 1))
        self._rules = rules
        self._links = links
        self._state = Outbox()
        self._facts: list[Fact] = []
        self._effects: list[e.Effect] = []
        self._left: set[DeliveryId] = set()
        """Whose drafts stand from an earlier life; a turn that goes on takes its own up."""
        self._flushing = False
        self._needs = ""
        """What a person was asked to do last."""
        self._length = 0
        self._marked = 0
        self._marks_length = 0
        self._began_at: dict[DeliveryId, int] = {}
        """Sequence numbers of the first facts of the deliveries that have not ended."""
        self._ends: deque[int] = deque(maxlen=REMEMBERED)
        """Sequence numbers of the ends of the latest that have."""

    async def on_actor_start(self) -> None:
        """Read what is true, and begin again with what is owed as soon as the platform is there."""
        marks = await self._links.journal.read(self._marks)
        self._marks_length = len(marks)
        mark = marks[-1].fact if marks else None
        if isinstance(mark, d.OutboxSettled):
            self._length = self._marked = mark.through
            self._state = fold(self._state, (*mark.dead, *mark.moved))
        recorded = await self._links.journal.read(self._stream, self._length)
        facts: Any = [r.fact for r in recorded]  # an outbox's stream holds its facts only
        self._state = fold(self._state, facts)
        self._placed(recorded)
        self._links.on_drafts(self._state.drafts)
        self._left = set(self._state.drafts)
        if self._left:
            self.after(LEFT_S, DraftsLeft(), name="drafts left")
        if self._state.owed:
            log.info("posts are owed from before", outbox=self._name, deliveries=len(self._state.owed))
        self._links.tell_platform(d.ConnectionAsked())
        self._links.tell_delivery(d.OutboxWoke(outbox=self._name))

    async def on_receive(self, message: Any) -> None:
        match message:
            case Say():
                self._hear(d.SayHeard(say=message, at=self.clock.now()))
            case Overdue():
                self._overdue(message)
            case d.ShowView():
                self._links.tell_platform(message)
            case DraftsLeft():
                self._drop_left()
            case d.DraftPosted():
                self._left.discard(message.delivery_id)
                self._hear(message)
            case d.WaitOver():
                self._hear(d.WaitOver(place=message.place, at=self.clock.now()))
            case _:
                self._hear(message)

    def _hear(self, heard: d.OutboxHeard) -> None:
        decision = decide(self._state, heard, self._rules)
        if decision.state.drafts is not self._state.drafts:
            self._links.on_drafts(decision.state.drafts)
        self._state = decision.state
        self._facts += decision.facts
        self._effects += decision.effects
        state = decision.state
        self._links.on_load(len(state.under_way) + (len(state.ready) if state.connected else 0))
        if (self._facts or self._effects) and not self._flushing:
            self._flushing = True
            self.background(self._flush(), name="flush")

    async def _flush(self) -> None:
        while self._facts or self._effects:
            facts, effects = self._facts, self._effects
            self._facts, self._effects = [], []
            if facts:
                # A stale writer's append raises: this incarnation ends, the next reads what is true.
                recorded = await self._links.journal.append(
                    self._stream, self._length, facts, owing=self._owing(facts)
                )
                self._placed(recorded)
                self._count(facts)
            for effect in effects:
                self._perform(effect)
            await self._mark()
        self._flushing = False

    def _count(self, facts: list[Fact]) -> None:
        for fact in facts:
            outcome = OUTCOMES.get(type(fact))
            if outcome is not None:
                self._links.count(outcome)
            if isinstance(fact, d.DeliveryFailed) and fact.is_letter:
                self._links.on_letter("opened")
            elif isinstance(fact, d.DeliveryLetterClosed):
                self._links.on_letter("closed")

    def _owing(self, facts: list[Fact]) -> bool:
        """Whether something is left to do after these facts; those decided since may still be lost."""
        open_ = set(self._began_at)
        for fact in facts:
            match fact:
                case d.DeliveryTaken():
                    open_.add(fact.delivery_id)
                case d.DeliveryDone() | d.DeliveryFailed():
                    open_.discard(fact.delivery_id)
        return bool(open_)

    # ------------------------------------------------------------------ what is settled

    def _placed(self, recorded: tuple[Recorded, ...]) -> None:
        for each in recorded:
            self._length = each.seq
            match each.fact:
                case d.DeliveryTaken():
                    self._began_at[each.fact.delivery_id] = each.seq
                case d.DeliveryDone() | d.DeliveryFailed():
                    self._began_at.pop(each.fact.delivery_id, None)
                    self._ends.append(each.seq)

    async def _mark(self) -> None:
        """Note up to where the stream is settled: before what is open, and before the latest ends."""
        if self._facts:
            return  # the state holds what is not durable yet
        needed = [self._length + 1, *self._began_at.values()]
        if self._ends:
            needed.append(self._ends[0])
        through = min(needed) - 1
        if through - self._marked < MARK_EVERY:
            return
        dead = tuple(self._state.dead.values())
        moved = tuple(self._state.moved.values())
        settled = d.OutboxSettled(through=through, dead=dead, moved=moved, at=self.clock.now())
        await self._links.journal.append(self._marks, self._marks_length, (settled,))
        self._marks_length += 1
        self._marked = through

    # ------------------------------------------------------------------ effects

    def _perform(self, effect: e.Effect) -> None:
        links = self._links
        match effect:
            case e.Call():
                links.tell_platform(
                    d.SayPost(post=effect.post, until=self._until(effect.post, looking=False))
                )
            case e.Look():
                links.tell_platform(
                    d.FindPost(post=effect.post, until=self._until(effect.post, looking=True))
                )
            case e.Wait():
                over = d.WaitOver(place=effect.place, at=self.clock.now())
                self.after(effect.seconds, over, name=f"wait {effect.place!r}")
            case e.RemoveDraft():
                view = d.ShowView(token=0, view=d.DraftRemoved(place=effect.place, receipt=effect.receipt))
                if effect.after_s > 0:
                    self.after(effect.after_s, view, name=f"remove {effect.place!r} {effect.receipt}")
                else:
                    links.tell_platform(view)
            case e.TellSession():
                links.tell_session(effect.key, effect.ending)
            case e.TellTaken():
                links.tell_delivery(d.SayTaken(delivery_id=effect.delivery_id))
            case e.TellLetter():
                links.tell_letters(d.LetterSettled(token=effect.token, written=effect.written))
            case e.ReportIncident():
                self._report(effect)
            case _:
                assert_never(effect)

    def _report(self, effect: e.ReportIncident) -> None:
        if effect.what == "needs_human":
            if effect.detail == self._needs:
                return  # it is said once, not each minute
            self._needs = effect.detail
        log.warning("delivery", outbox=self._name, what=effect.what, detail=effect.detail)
        self._links.on_incident(effect.what, effect.detail)

    def _until(self, post: d.Post, *, looking: bool) -> float:
        """Set the alarm for a call's answer; return how late the call may still begin."""
        overdue = Overdue(
            delivery_id=post.delivery_id,
            place=post.place,
            part=post.part,
            attempt=post.attempt,
            looking=looking,
        )
        self.after(PATIENCE_S, overdue, name=f"overdue {post.place!r}")
        return self.clock.monotonic() + LATEST_START_S

    def _drop_left(self) -> None:
        for delivery_id in self._left:
            self._hear(d.DraftOver(delivery_id=delivery_id, at=self.clock.now()))
        self._left.clear()

    def _overdue(self, overdue: Overdue) -> None:
        """No answer came, not even a failure: the platform's actor has died over it."""
        problem = d.Problem(kind=d.ProblemKind.UNKNOWN, detail="no answer came")
        about: dict[str, Any] = {
            "delivery_id": overdue.delivery_id,
            "place": overdue.place,
            "part": overdue.part,
            "attempt": overdue.attempt,
            "chance": self._links.chance(),
            "at": self.clock.now(),
        }
        if overdue.looking:
            self._hear(d.PostLookedUp(receipt=None, problem=problem, **about))
        else:
            self._hear(d.PostFailed(problem=problem, **about))
