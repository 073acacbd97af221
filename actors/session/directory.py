"""The directory of sessions: one actor for each key that is awake, and who may sleep.

It is the only one that starts sessions and the only way to them. A session that
crashes is started again with the mail it had; the message that crashed it is
tried once more, and given up the second time. A session that is idle leaves
memory; the next message wakes it from the journal.
"""

from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, assert_never

import pykka
import structlog

from actors.endings import end_actor
from actors.runtime import ActorDeadError, ActorSystem, Crashed, LoopActor, MailboxFullError
from actors.session.actor import Services, SessionActor, SleepAgreed, SleepIfIdle, ToSession
from actors.supervision import Backoff
from messages.base import Message
from messages.gateway import Acceptance, MessageReceived, Receipt
from messages.ids import SessionKey
from messages.session import CommandGiven, HandlingFailed, Heard, StopAsked, UserSpoke
from store.journal import JournalUnavailableError

log = structlog.get_logger(__name__)

RESTART = Backoff(first_s=0.1, most_s=30.0)
AWAY = Backoff(first_s=0.2, most_s=5.0)
"""Between two tries while the journal is away; each try waits for the journal itself."""

JOURNAL_PATIENCE_S = 30.0
"""How long messages are kept for a journal that is away, before people are told to try again later."""

PEACE_S = 60.0
"""A session that lived so long without a crash is trusted again."""

READING_PATIENCE_S = 15.0
"""How long a decision waits, after a start, for the session that asked for it to be read."""

MOST_PENDING = 1000
"""Messages that wait while a session is being started again."""

OLDEST_LOOKED_AT = 16
"""How many of the least used are asked to sleep at once when there are too many."""

PREFIX = "session:"
WAKE_AT_ONCE = 50

BUSY = "I have too much to do right now. Please try again in a moment."


@dataclass(frozen=True, slots=True)
class Route:
    """Hand a message to the session of this key, waking it if it sleeps."""

    key: SessionKey
    message: Heard


class Wake(Message):
    """Take up what these sessions owe from an earlier life."""

    keys: tuple[SessionKey, ...]


class DecideLater(Message):
    """Somebody decided about what a session asked before the start that has not been read yet."""

    key: SessionKey
    given: CommandGiven
    until: float
    """On the monotonic clock: then it is decided with what is known."""


class Sweep(Message):
    """Look who has been idle for long enough."""


class TryAgain(Message):
    """The wait before a crashed session's restart is over."""

    key: SessionKey


@dataclass(slots=True)
class _Seat:
    """An awake session."""

    ref: "pykka.ActorRef[Any] | None" = None
    routed: int = 0
    last_used: float = 0.0
    crashes: int = 0
    crashed_at: float = 0.0
    tried: Any = None
    """The message whose handling crashed the actor once."""
    pending: list[Heard] = field(default_factory=list)
    away_times: int = 0
    """How often it ended because the journal was away, in the spell that began at `away_since`."""
    away_since: float = 0.0
    away_at: float = -PEACE_S


class Roster:
    """Which sessions are in memory: written by the directory alone, read by whoever reports."""

    def __init__(self) -> None:
        self.awake: set[SessionKey] = set()
        self.begun = False
        """Whether a directory has been at work in this life of the process."""


class SessionDirectory(LoopActor):
    """Hears Route, Wake and what sessions say about themselves."""

    def __init__(
        self,
        system: ActorSystem,
        services: Services,
        roster: Roster,
        *,
        sleep_after_s: float,
        most_awake: int,
        chance: Callable[[], float],
        on_incident: Callable[[str, str, str], None],
        on_crash: Callable[[Crashed], None] | None = None,
    ) -> None:
        super().__init__(system, name="sessions", on_crash=on_crash)
        self._services = services
        self._roster = roster
        self._sleep_after_s = sleep_after_s
        self._most_awake = most_awake
        self._chance = chance
        self._on_incident = on_incident
        self._seats: OrderedDict[SessionKey, _Seat] = OrderedDict()
        """The least used first."""
        self._after_crash = False

    async def on_actor_start(self) -> None:
        """Take up what is owed from before: from an earlier life, or from an earlier self in this one."""
        self._sweep_later()
        owed = await self._services.journal.owed()
        keys = tuple(SessionKey(stream.removeprefix(PREFIX)) for stream in owed if stream.startswith(PREFIX))
        self._after_crash, self._roster.begun = self._roster.begun, True
        if keys:
            self._services.approvals.awaits(keys)
            log.info("sessions owe something from before; taking it up", sessions=len(keys))
            self.actor_ref.tell(Wake(keys=keys))

    async def on_actor_failure(self, cause: BaseException) -> None:  # noqa: ARG002 whatever it is
        """Sessions without a directory could not be reached: they end too, and are woken by the next."""
        for key, seat in tuple(self._seats.items()):
            if seat.ref is not None:
                await end_actor(seat.ref)
            self._roster.awake.discard(key)

    async def on_receive(self, message: Any) -> None:
        match message:
            case Route():
                self._route(message.key, message.message)
            case ToSession():
                self._route(message.key, message.message)
            case DecideLater():
                self._decide(message.key, message.given, message.until)
            case SleepAgreed():
                self._let_sleep(message)
            case Sweep():
                self._sweep()
            case TryAgain():
                self._try_again(message.key)
            case Wake():
                self._take_up(message.keys)
            case _:
                assert_never(message)

    def _take_up(self, keys: tuple[SessionKey, ...]) -> None:
        """A few at a time, so that new messages are not kept waiting by thousands of old ones."""
        for key in keys[:WAKE_AT_ONCE]:
            if key not in self._seats:
                self._seat(key)
        if len(keys) > WAKE_AT_ONCE:
            self.actor_ref.tell(Wake(keys=keys[WAKE_AT_ONCE:]))

    # ------------------------------------------------------------------ routing

    def _route(self, key: SessionKey, message: Heard) -> None:
        if isinstance(message, CommandGiven) and message.name in ("approve", "deny"):
            self._decide(key, message, self.clock.monotonic() + READING_PATIENCE_S)
        else:
            self._hand_over(key, message)

    def _decide(self, key: SessionKey, given: CommandGiven, until: float) -> None:
        """Hand a decision to the session that asked for it: whoever decides may have another one."""
        book = self._services.approvals
        asked = book.session_of(given.argument)
        if asked is None and not book.complete and self.clock.monotonic() < until:
            self.after(0.1, DecideLater(key=key, given=given, until=until))
        elif asked is None or asked == key:
            self._hand_over(key, given)
        else:
            self._hand_over(asked, given.model_copy(update={"came_to": key}))

    def _hand_over(self, key: SessionKey, message: Heard) -> None:
        seat = self._seats.get(key) or self._seat(key)
        seat.last_used = self.clock.monotonic()
        self._seats.move_to_end(key)
        if seat.ref is None:
            self._keep(key, seat, message)
            return
        try:
            seat.ref.tell(message)
        except MailboxFullError:
            self._refuse(key, message)
        except ActorDeadError:  # it is just dying; `_crashed` comes next
            self._keep(key, seat, message)
        else:
            seat.routed += 1

    def _keep(self, key: SessionKey, seat: _Seat, message: Heard) -> None:
        if len(seat.pending) < MOST_PENDING or not message.bounded:
            seat.pending.append(message)
        else:
            self._refuse(key, message)

    def _refuse(self, key: SessionKey, message: Heard) -> None:
        heard = heard_in(message)
        if heard is not None:
            receipt = Receipt(
                message_id=heard.message_id, session_key=key, acceptance=Acceptance.REFUSED, why=BUSY
            )
            came_to = message.came_to if isinstance(message, CommandGiven | HandlingFailed) else None
            self._services.hub.acknowledge(came_to or key, receipt)

    def _seat(self, key: SessionKey) -> _Seat:
        seat = self._seats[key] = _Seat(last_used=self.clock.monotonic())
        self._roster.awake.add(key)
        self._start(key, seat, after_crash=self._after_crash)
        if len(self._seats) > self._most_awake:
            self._ask_the_oldest()
        return seat

    def _start(self, key: SessionKey, seat: _Seat, *, after_crash: bool) -> None:
        seat.ref = SessionActor.start(
            self.system,
            key,
            self._services,
            self.actor_ref.tell,
            after_crash=after_crash,
            on_crash=lambda crashed: self._crashed(key, crashed),
        )
        pending, seat.pending, seat.routed = seat.pending, [], 0
        for message in pending:
            seat.ref.tell(message)
            seat.routed += 1

    # ------------------------------------------------------------------ crashes

    def _crashed(self, key: SessionKey, crashed: Crashed) -> None:
        """Called on the loop, the moment the actor is gone; its mail is ours now."""
        seat = self._seats.get(key)
        if seat is None or seat.ref is not crashed.ref or self.system.stopping:
            return
        if isinstance(crashed.cause, JournalUnavailableError):
            self._without_journal(key, seat, crashed)
            return
        now = self.clock.monotonic()
        seat.crashes = 1 if now - seat.crashed_at > PEACE_S else seat.crashes + 1
        seat.crashed_at, seat.ref, seat.away_times = now, None, 0
        self._on_incident(f"session:{key}", "crashed", repr(crashed.cause))
        seat.pending = [*self._once_more(key, seat, crashed), *_mail(crashed), *seat.pending]
        wait = 0.0 if seat.crashes == 1 else RESTART.wait(seat.crashes - 1, self._chance())
        self.after(wait, TryAgain(key=key), name=f"restart {key}")

    def _without_journal(self, key: SessionKey, seat: _Seat, crashed: Crashed) -> None:
        """The journal was away for longer than it lets wait: no message is to blame, and none is lost.

        All are kept and tried again, the one that was being handled first. After
        `JOURNAL_PATIENCE_S`, people are told to try again later; what the session owes
        itself is kept for as long as it takes.
        """
        now = self.clock.monotonic()
        if now - seat.away_at > PEACE_S:
            seat.away_since, seat.away_times = now, 0
        seat.away_at, seat.away_times, seat.ref = now, seat.away_times + 1, None
        handled = [crashed.message] if isinstance(crashed.message, Message) else []
        kept = [m for m in (*handled, *_mail(crashed), *seat.pending) if not isinstance(m, SleepIfIdle)]
        if now - seat.away_since >= JOURNAL_PATIENCE_S:
            for message in kept:
                self._refuse(key, message)
            kept = [message for message in kept if heard_in(message) is None]
        seat.pending = kept
        log.warning(
            "a session waits for the journal", session=key, messages=len(kept), why=str(crashed.cause)
        )
        self.after(AWAY.wait(seat.away_times, self._chance()), TryAgain(key=key), name=f"restart {key}")

    def _once_more(self, key: SessionKey, seat: _Seat, crashed: Crashed) -> list[Any]:
        """The message that crashed it: tried once more, and then given up."""
        message = crashed.message
        if message is None or isinstance(message, SleepIfIdle):
            return []
        if seat.tried is not message:
            seat.tried = message
            return [message]
        seat.tried = None
        self._on_incident(f"session:{key}", "dead_letter", f"{type(message).__name__}: {crashed.cause!r}")
        if isinstance(message, HandlingFailed):
            return []
        failed = HandlingFailed(
            heard=heard_in(message),
            error=repr(crashed.cause),
            came_to=message.came_to if isinstance(message, CommandGiven) else None,
            at=self.clock.now(),
        )
        return [failed]

    def _try_again(self, key: SessionKey) -> None:
        seat = self._seats.get(key)
        if seat is not None and seat.ref is None:
            self._start(key, seat, after_crash=seat.away_times == 0 or self._after_crash)
            if seat.away_times == 0:
                self._on_incident(f"session:{key}", "restarted", f"after {seat.crashes} crash(es)")

    # ------------------------------------------------------------------ sleeping

    def _sweep_later(self) -> None:
        self.after(min(30.0, self._sleep_after_s / 4), Sweep(), name="sweep")

    def _sweep(self) -> None:
        now = self.clock.monotonic()
        too_many = len(self._seats) - self._most_awake
        for seat in tuple(self._seats.values()):
            if now - seat.last_used < self._sleep_after_s and too_many <= 0:
                break  # the rest was used later
            self._ask_to_sleep(seat)
            too_many -= 1
        self._sweep_later()

    def _ask_the_oldest(self) -> None:
        seats = iter(self._seats.values())
        for _ in range(min(OLDEST_LOOKED_AT, len(self._seats) - self._most_awake)):
            self._ask_to_sleep(next(seats))

    def _ask_to_sleep(self, seat: _Seat) -> None:
        if seat.ref is not None:
            try:
                seat.ref.tell(SleepIfIdle(routed=seat.routed))
            except ActorDeadError:
                return  # `_crashed` comes next

    def _let_sleep(self, agreed: SleepAgreed) -> None:
        """Let it go, unless something was handed over since: then it stays."""
        seat = self._seats.get(agreed.key)
        if seat is None or seat.ref is None or seat.routed != agreed.routed:
            return
        now = self.clock.monotonic()
        if now - seat.last_used < self._sleep_after_s and len(self._seats) <= self._most_awake:
            return
        del self._seats[agreed.key]
        self._roster.awake.discard(agreed.key)
        seat.ref.stop(block=False)


def _mail(crashed: Crashed) -> list[Any]:
    """Return what an actor had not handled."""
    return [
        e.message
        for e in crashed.leftover
        if isinstance(e.message, Message) and not isinstance(e.message, SleepIfIdle)
    ]


def heard_in(message: Any) -> MessageReceived | None:
    if isinstance(message, UserSpoke | CommandGiven | StopAsked | HandlingFailed):
        return message.heard
    return None
