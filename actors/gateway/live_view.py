"""The live view of one account: typing, a sign on the message, an answer that grows while it is written.

All of it may be dropped; the answer itself comes through the outbox, which makes its
first post out of the draft that stands. One actor for an account, one view under way
for a turn at a time, and never more edits than the platform allows: a flood of edits
gets a bot banned, and an answer is not worth that. A wait that the platform asks for
is obeyed chat by chat; a long one ends the live view of the turn.
"""

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import count
from typing import Any, assert_never

import structlog

from actors.gateway.chunks import Unit, split
from actors.gateway.outbox import key_of_part
from actors.gateway.silence import heard_by_people
from actors.runtime import ActorSystem, Crashed, LoopActor
from messages.base import Message
from messages.delivery import (
    DraftOver,
    DraftPosted,
    DraftShown,
    EdgeView,
    Place,
    Problem,
    ProblemKind,
    ReactionShown,
    ShowView,
    TurnGone,
    TurnSeen,
    TypingShown,
    ViewShown,
)
from messages.gateway import Button
from messages.ids import DeliveryId, MessageId, SessionKey

log = structlog.get_logger(__name__)

FIRST_LOOK_S = 1.5
"""A turn that is over sooner shows nothing but its answer."""

TYPING_EVERY_S = 5.0
"""Platforms show it for five to ten seconds."""

LEAST_DRAFT = 60
"""In characters; what is shorter is not worth a message that changes."""

LONGEST_WAIT_S = 60.0
"""A platform that asks for a longer wait gets no live view of this turn any more."""

TAKEN_UP_S = 10.0
"""So long after a turn its answer is with the outbox; a draft that nobody took up is removed."""

ATTEMPTS = 3
"""Views of one turn that may fail before it is left alone."""

MOST_PACES = 1000
"""Chats whose pace is kept; above this, those in which nothing was shown for a minute are forgotten."""

STOP = Button(label="Stop", command="/stop", style="bad")


class Look(Message):
    """See whether there is something new to show of a turn."""

    session_key: SessionKey
    turn: int


class Over(Message):
    """The answer of a turn is with the outbox by now, if there is one."""

    delivery_id: DeliveryId


@dataclass(frozen=True, slots=True)
class LiveRules:
    """What the platform can show, and what the operator wants shown."""

    typing: bool = False
    reactions: bool = False
    drafts: bool = False
    buttons: bool = False
    length: int = 2000
    unit: Unit = Unit.CHARACTERS
    edits_per_second: float = 1.0
    edits_per_minute: float | None = None
    render: Callable[[str], str] | None = None


@dataclass(frozen=True, slots=True)
class LiveLinks:
    """Whom the live view knows."""

    tell_platform: Callable[[ShowView], None]
    tell_outbox: Callable[[DraftPosted | DraftOver], None]
    draft_now: Callable[[SessionKey], tuple[int, str]]
    """The running turn of a session, and what is written of its answer so far."""
    standing: Callable[[DeliveryId], str | None]
    """A draft that stands from before, in an earlier life say."""


@dataclass(slots=True)
class _Turn:
    """A turn that is being shown."""

    seen: TurnSeen
    place: Place
    began_at: float
    typed_at: float = float("-inf")
    marked: bool = False
    """Whether the sign for `working` was put on the message."""
    text: str = ""
    """What was shown last."""
    receipt: str | None = None
    under_way: bool = False
    """A view whose answer is awaited."""
    failures: int = 0


@dataclass(slots=True)
class _Pace:
    """The edits of one chat."""

    at: deque[float] = field(default_factory=deque)
    not_before: float = 0.0

    def wait_s(self, now: float, rules: LiveRules) -> float:
        """Return how long the next edit has to wait; both limits hold."""
        while self.at and now - self.at[0] >= 60.0:
            self.at.popleft()
        waits = [self.not_before - now]
        if self.at:
            waits.append(self.at[-1] + 1.0 / rules.edits_per_second - now)
        most = rules.edits_per_minute
        if most is not None and len(self.at) >= most:
            waits.append(self.at[-int(most)] + 60.0 - now)
        return max(0.0, *waits)

    def idle(self, now: float) -> bool:
        """Say whether nothing has to be remembered of the chat."""
        return self.not_before <= now and (not self.at or now - self.at[-1] >= 60.0)


class LiveViewActor(LoopActor):
    """Hears TurnSeen and TurnGone from the sessions' hub, and ViewShown from the platform."""

    def __init__(
        self,
        system: ActorSystem,
        name: str,
        rules: LiveRules,
        links: LiveLinks,
        *,
        on_crash: Callable[[Crashed], None] | None = None,
    ) -> None:
        super().__init__(system, name=f"live:{name}", on_crash=on_crash)
        self._rules = rules
        self._links = links
        self._turns: dict[SessionKey, _Turn] = {}
        self._paces: dict[str, _Pace] = {}
        """By chat, while something is shown there."""
        self._tokens = count(1)
        self._asked: dict[int, tuple[_Turn, EdgeView]] = {}

    async def on_receive(self, message: Any) -> None:
        match message:
            case TurnSeen():
                self._seen(message)
            case TurnGone():
                self._gone(message)
            case Look():
                turn = self._turns.get(message.session_key)
                if turn is not None and turn.seen.turn == message.turn:
                    self._look(turn)
            case ViewShown():
                self._shown(message)
            case Over():
                self._links.tell_outbox(DraftOver(delivery_id=message.delivery_id, at=self.clock.now()))
            case _:
                assert_never(message)

    # ------------------------------------------------------------------ turns

    def _seen(self, seen: TurnSeen) -> None:
        origin = seen.origin
        chat = origin.chat or None
        place = Place(chat=chat, thread=origin.thread or None, user=None if chat else origin.user)
        turn = _Turn(seen, place, self.clock.monotonic(), receipt=self._links.standing(seen.delivery_id))
        self._turns[seen.session_key] = turn
        if turn.receipt is not None:
            self._tell_stands(turn, turn.receipt)
        self._again(turn, FIRST_LOOK_S)

    def _gone(self, gone: TurnGone) -> None:
        turn = self._turns.get(gone.session_key)
        if turn is None or turn.seen.turn != gone.turn:
            return
        del self._turns[gone.session_key]
        if turn.marked:
            self._mark(turn, "done")
        if turn.receipt is not None:
            self._over(turn)
        if len(self._paces) > MOST_PACES:
            now = self.clock.monotonic()
            self._paces = {chat: pace for chat, pace in self._paces.items() if not pace.idle(now)}

    def _over(self, turn: _Turn) -> None:
        delivery_id = turn.seen.delivery_id
        self.after(TAKEN_UP_S, Over(delivery_id=delivery_id), name=f"over {delivery_id}")

    def _tell_stands(self, turn: _Turn, receipt: str) -> None:
        self._links.tell_outbox(
            DraftPosted(
                delivery_id=turn.seen.delivery_id, place=turn.place, receipt=receipt, at=self.clock.now()
            )
        )

    def _look(self, turn: _Turn) -> None:
        """Show what there is to show, and look again."""
        if turn.failures >= ATTEMPTS:
            return
        rules, now = self._rules, self.clock.monotonic()
        if rules.reactions and not turn.marked and now - turn.began_at >= FIRST_LOOK_S:
            turn.marked = True
            self._mark(turn, "working")
        pace = self._paces.setdefault(turn.place.chat or f"@{turn.place.user}", _Pace())
        wait = pace.wait_s(now, rules)
        text = self._text(turn) if rules.drafts else ""
        if text and text != turn.text and not turn.under_way and wait <= 0:
            pace.at.append(now)
            turn.text = text
            self._draft(turn)
        elif self._types(turn, now) and pace.not_before <= now:
            turn.typed_at = now
            self._show(turn, TypingShown(place=turn.place), awaited=False)
        self._again(turn, max(wait, 1.0 / rules.edits_per_second))

    def _types(self, turn: _Turn, now: float) -> bool:
        return self._rules.typing and turn.receipt is None and now - turn.typed_at >= TYPING_EVERY_S

    def _text(self, turn: _Turn) -> str:
        """Return what is to be seen of the answer so far; empty while it is not worth it."""
        number, text = self._links.draft_now(turn.seen.session_key)
        if number != turn.seen.turn or len(text.strip()) < LEAST_DRAFT:
            return ""
        text = heard_by_people(text, turn.seen.origin.chat_type)
        chunks = split(text, self._rules.length, self._rules.unit, self._rules.render)
        return chunks[0].text.rstrip() if chunks else ""

    def _draft(self, turn: _Turn) -> None:
        ids = turn.seen.message_ids
        view = DraftShown(
            place=turn.place,
            text=turn.text,
            key=key_of_part(turn.seen.delivery_id, 1),
            receipt=turn.receipt,
            reply_to=ids[0] if ids and turn.receipt is None else None,
            buttons=(STOP,) if self._rules.buttons else (),
        )
        turn.under_way = True
        self._show(turn, view, awaited=True)

    def _mark(self, turn: _Turn, sign: Any) -> None:
        for message_id in turn.seen.message_ids[:1]:
            view = ReactionShown(place=turn.place, message_id=MessageId(message_id), sign=sign)
            self._show(turn, view, awaited=False)

    def _again(self, turn: _Turn, seconds: float) -> None:
        key = turn.seen.session_key
        self.after(seconds, Look(session_key=key, turn=turn.seen.turn), name=f"look {key}")

    # ------------------------------------------------------------------ views

    def _show(self, turn: _Turn, view: EdgeView, *, awaited: bool) -> None:
        token = next(self._tokens)
        if awaited or len(self._asked) < 10_000:
            self._asked[token] = (turn, view)
        self._links.tell_platform(ShowView(token=token, view=view))

    def _shown(self, shown: ViewShown) -> None:
        turn, view = self._asked.pop(shown.token, (None, None))
        if turn is None:
            return
        if isinstance(view, DraftShown):
            turn.under_way = False
            if shown.receipt is not None and turn.receipt is None:
                turn.receipt = shown.receipt
                self._tell_stands(turn, shown.receipt)
                if self._turns.get(turn.seen.session_key) is not turn:
                    self._over(turn)  # it came late
        if shown.problem is not None:
            self._failed(turn, view, shown.problem)

    def _failed(self, turn: _Turn, view: EdgeView | None, problem: Problem) -> None:
        """What cannot be shown is left; a wait is obeyed, and a long one ends it for this turn."""
        if isinstance(view, DraftShown):
            turn.text = ""
        if problem.kind is ProblemKind.RATE_LIMITED:
            wait = problem.retry_after_s or 1.0
            pace = self._paces.setdefault(turn.place.chat or f"@{turn.place.user}", _Pace())
            pace.not_before = max(pace.not_before, self.clock.monotonic() + wait)
            if wait <= LONGEST_WAIT_S:
                return
            turn.failures = ATTEMPTS
        elif isinstance(view, DraftShown) and view.receipt is None and problem.kind is ProblemKind.UNKNOWN:
            turn.failures = ATTEMPTS  # it may stand there: another would be one too many
        else:
            turn.failures += 1
        log.debug("not shown", live=self.name, kind=problem.kind.value, detail=problem.detail)
