"""A platform's actor: keeps the connection of one account, hands in what it hears, posts what it is told.

It connects after its start, and connects again for ever (see `actors.gateway.healing`).
A connection that takes too long to come up, or that is there and deaf, is cut and made
anew; one whose code does not let itself be cut is left behind. A crash in the edge's
own code ends the actor; the supervisor starts it anew.

    state       on                                        goes to
    ----------  ----------------------------------------  ----------
    paused      resume                                    waiting
    waiting     Connect                                   connecting
    connecting  connected in time                         connected
                ended, or not connected in time           waiting
    connected   ended, deaf, or restart                   waiting
    any         pause                                     paused
"""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import dataclass, field
from typing import Any, Final, assert_never

import structlog

from actors.gateway.edge import Edge, EdgeError, Hear
from actors.gateway.healing import STEADY_S, Healing, Incident
from actors.gateway.joining import Joiner, JoinRules
from actors.gateway.marks import Marks
from actors.gateway.speech import Speech
from actors.redaction import Clean
from actors.runtime import ActorSystem, Crashed, LoopActor
from messages.base import Lane, Message
from messages.delivery import (
    ConnectionAsked,
    FindPost,
    OutboxHeard,
    Place,
    PlaceSpoke,
    PlatformConnected,
    PlatformLost,
    Problem,
    ProblemKind,
    SayPost,
    ShowView,
    ViewShown,
)
from messages.gateway import EdgeHeard, MessageReceived, Receipt
from messages.ids import StreamId
from messages.platforms import PlatformAsked
from messages.system import PlatformPaused, PlatformResumed
from store.journal import Journal

log = structlog.get_logger(__name__)

HEAR_PATIENCE_S: Final = 300.0
"""How long a message may take into the journal before its place in the edge is given free."""

PROBE_S: Final = 10.0
"""How long a connection may take to prove that it is alive."""

CUT_S: Final = 5.0
"""How long an edge may take to let itself be cut before it is left behind."""


_UNKEPT: Final = StreamId("platform:")


class Connect(Message):
    """Try to connect."""


class ConnectionLate(Message):
    """A connection should have been made by now."""

    lane = Lane.CONTROL
    number: int


class ConnectionSteady(Message):
    """A connection has held for a while."""

    number: int


class ProbeDue(Message):
    """A connection may have been silent for too long."""

    number: int


class CutLate(Message):
    """A connection that was cut should have ended by now."""

    lane = Lane.CONTROL
    number: int


class ConnectionEnded(Message):
    """The edge has ended; `problem` says why, None when the other side closed in good order."""

    number: int
    problem: Problem | None


async def _nothing_to_prepare() -> None:
    """The edge can be made at once."""


@dataclass(frozen=True, slots=True)
class PlatformLinks:
    """Whom a platform's actor knows, and what it goes by."""

    edge: Callable[[Callable[[str], None]], Edge]
    """Makes a fresh edge for each connection; given whom to tell of trouble with it."""
    hear: Hear
    tell_outbox: Callable[[OutboxHeard], None]
    tell_live: Callable[[ViewShown], None]
    chance: Callable[[], float]
    on_incident: Callable[[str, str], None]
    """(what, detail): `fell`, `rose`, `degraded`, `needs_human`, `blocked`."""
    on_state: Callable[[str], None]
    """`connected`, `waiting`, `paused`, or `degraded: why`: for the status."""
    journal: Journal | None = None
    """Where a pause is kept; without one it ends with the process."""
    stream: StreamId = _UNKEPT
    prepare: Callable[[], Awaitable[None]] = _nothing_to_prepare
    """Awaited before each edge is made."""
    marks: Marks | None = None
    """Told of what was handed in."""
    joins: JoinRules | None = None
    start_timeout_s: float = 30.0
    quiet_probe_s: float = 300.0
    count_reconnect: Callable[[], None] = lambda: None
    clean: Clean = str
    """Takes secrets out of what is said of problems."""


@dataclass
class _Connection:
    """One life of an edge."""

    number: int
    edge: Edge | None = None
    task: "asyncio.Task[None] | None" = None
    up: bool = False
    """Whether posts can be made."""
    heard_at: float = 0.0
    cut: Problem | None = None
    """Why it is being ended by us."""
    over: bool = False
    """It ended, or was left behind: what it still says does not count."""
    trouble: str = ""
    probing: bool = False
    hearing: set["asyncio.Task[Any]"] = field(default_factory=set)


class PlatformActor(LoopActor):
    """Hears SayPost and FindPost from its outbox, ShowView from the live view, PlatformAsked from operators."""

    def __init__(
        self,
        system: ActorSystem,
        name: str,
        links: PlatformLinks,
        *,
        on_crash: Callable[[Crashed], None] | None = None,
    ) -> None:
        super().__init__(system, name=f"platform:{name}", on_crash=on_crash)
        self._links = links
        self._speech = Speech(system, self.name, links)
        self._connection = _Connection(0, over=True)
        self._healing = Healing()
        self._paused = False
        self._length = 0
        """Facts in the journal about it."""
        self._restarting = False
        """An operator waits for the next connection: it is made at once."""
        self._state = ""

    async def on_actor_start(self) -> None:
        self._links.tell_outbox(PlatformLost(at=self.clock.now()))
        if self._links.journal is not None:
            recorded = await self._links.journal.read(self._links.stream)
            self._length = len(recorded)
            self._paused = bool(recorded) and isinstance(recorded[-1].fact, PlatformPaused)
        if self._paused:
            log.info("platform is paused", platform=self.name)
            self._tell_state("paused")
        else:
            self._tell_state("waiting")
            self.actor_ref.tell(Connect())

    async def on_actor_stop(self) -> None:
        self._connection.over = True

    async def on_actor_failure(self, cause: BaseException) -> None:  # noqa: ARG002 whatever it is
        self._connection.over = True
        self._links.tell_outbox(PlatformLost(at=self.clock.now()))
        self._tell_state("waiting")

    async def on_receive(self, message: Any) -> Any:
        match message:
            case SayPost():
                self.background(self._speech.say(self._edge_for(message), message.post), name="say")
            case FindPost():
                self.background(self._speech.find(self._edge_for(message), message.post), name="find")
            case ShowView():
                edge = self._connection.edge if self._connection.up else None
                self.background(self._speech.show(edge, message), name="show")
            case ConnectionAsked():
                now = self.clock.now()
                up = self._connection.up
                self._links.tell_outbox(PlatformConnected(at=now) if up else PlatformLost(at=now))
            case Connect():
                self._connect()
            case ConnectionLate():
                self._late(message.number)
            case ConnectionSteady():
                self._steady(message.number)
            case ProbeDue():
                self._probe_if_quiet(message.number)
            case CutLate():
                self._leave_behind(message.number)
            case ConnectionEnded():
                self._connection_over(message)
            case PlatformAsked():
                return await self._asked(message)
            case _:
                assert_never(message)
        return None

    def _edge_for(self, asked: SayPost | FindPost) -> Edge | None:
        """The edge; None for what waited here so long that the outbox may not see the answer any more."""
        in_time = asked.until > self.clock.monotonic()
        return self._connection.edge if in_time and self._connection.up else None

    # ------------------------------------------------------------------ connecting

    def _connect(self) -> None:
        if self._paused or not self._connection.over:
            return
        connection = _Connection(self._connection.number + 1)
        self._connection = connection
        if connection.number > 1:
            self._links.count_reconnect()
        connection.task = self.background(self._run(connection), name="connection")
        late = ConnectionLate(number=connection.number)
        self.after(self._links.start_timeout_s, late, name="late")

    async def _run(self, connection: _Connection) -> None:
        """Live through one connection. What is no EdgeError is a crash of the actor, unless it was cut."""
        problem: Problem | None = None
        try:
            await self._links.prepare()
            connection.edge = self._links.edge(lambda text: self._trouble(connection, text))
            joiner = Joiner(
                self._links.joins,
                self.clock,
                lambda heard: self._hear(connection, heard),
                lambda coro: self._spawn_hearing(connection, coro),
            )
            await connection.edge.run(joiner.hear, lambda: self._connected(connection))
        except EdgeError as error:
            problem = error.problem
        except asyncio.CancelledError:
            task = asyncio.current_task()
            if connection.cut is None or task is None:
                raise
            task.uncancel()
        except Exception as error:
            if connection.cut is None and not connection.over:
                raise
            log.warning("a cut connection failed while it ended", platform=self.name, error=repr(error))
        finally:
            self._down(connection)
        if not connection.over:
            ended = ConnectionEnded(number=connection.number, problem=connection.cut or problem)
            self.actor_ref.tell(ended)

    def _spawn_hearing(self, connection: _Connection, coro: Coroutine[Any, Any, None]) -> None:
        task = self.system.spawn(coro, name=f"{self.name}: hear")
        connection.hearing.add(task)
        task.add_done_callback(connection.hearing.discard)

    def _down(self, connection: _Connection) -> None:
        """The edge can say nothing more."""
        connection.edge = None
        for task in tuple(connection.hearing):
            task.cancel()
        if connection.up:
            connection.up = False
            if not connection.over:
                self._links.tell_outbox(PlatformLost(at=self.clock.now()))

    def _connected(self, connection: _Connection) -> None:
        """Called by the edge, once posts can be made."""
        if connection.over or connection.up or connection.cut is not None:
            return
        connection.up, connection.heard_at = True, self.clock.monotonic()
        log.info("platform connected", platform=self.name)
        self._report(self._healing.rose(self.clock.monotonic()))
        self._tell_state(f"degraded: {connection.trouble}" if connection.trouble else "connected")
        self._links.tell_outbox(PlatformConnected(at=self.clock.now()))
        self.after(STEADY_S, ConnectionSteady(number=connection.number), name="steady")
        self.after(self._links.quiet_probe_s, ProbeDue(number=connection.number), name="probe")

    def _late(self, number: int) -> None:
        connection = self._connection
        if connection.number == number and not connection.up and not connection.over:
            detail = f"no connection within {self._links.start_timeout_s:g} s"
            self._cut(Problem(kind=ProblemKind.TRANSIENT, detail=detail))

    def _steady(self, number: int) -> None:
        if self._connection.number == number and self._connection.up:
            self._report(self._healing.steady(self.clock.monotonic()))

    def _trouble(self, connection: _Connection, text: str) -> None:
        """Note what the edge says is wrong with its connection while it goes on; empty: all is well again."""
        text = " ".join(text.split())[:500]
        if connection.over or connection.trouble == text:
            return
        connection.trouble = text
        log.warning("trouble with a connection", platform=self.name, what=text or "over")
        if connection.up:
            self._tell_state(f"degraded: {text}" if text else "connected")
        self._links.on_incident("degraded" if text else "recovered", text or "all is well again")

    # ------------------------------------------------------------------ deaf, or hanging

    def _probe_if_quiet(self, number: int) -> None:
        connection = self._connection
        if connection.number != number or not connection.up or connection.edge is None:
            return
        quiet = self.clock.monotonic() - connection.heard_at
        left = self._links.quiet_probe_s - quiet
        if left > 0:
            self.after(left, ProbeDue(number=number), name="probe")
        elif not connection.probing:
            connection.probing = True
            self.background(self._probe(connection, connection.edge), name="probe")

    async def _probe(self, connection: _Connection, edge: Edge) -> None:
        probe = self.system.spawn(edge.probe(), name=f"{self.name}: probe")
        over = asyncio.Event()
        alarm = self.clock.call_later(PROBE_S, over.set)
        probe.add_done_callback(lambda _: over.set())
        try:
            await over.wait()
            why = self._probed(probe)
        finally:
            alarm.cancel()
            probe.cancel()
            connection.probing = False
        if connection.over or connection is not self._connection or connection.cut is not None:
            return
        if why is None:
            connection.heard_at = self.clock.monotonic()
            again = ProbeDue(number=connection.number)
            self.after(self._links.quiet_probe_s, again, name="probe")
        else:
            self._cut(Problem(kind=ProblemKind.TRANSIENT, detail=f"connected but deaf: {why}"))

    @staticmethod
    def _probed(probe: "asyncio.Task[None]") -> str | None:
        """Return why a probe failed; None when it did not."""
        if not probe.done():
            return f"no answer to a probe within {PROBE_S:g} s"
        if probe.cancelled():
            return "the probe was given up"
        error = probe.exception()
        if error is None:
            return None
        return error.problem.detail if isinstance(error, EdgeError) else repr(error)

    def _cut(self, problem: Problem) -> None:
        """End the connection from our side."""
        connection = self._connection
        if connection.over or connection.cut is not None:
            return
        connection.cut = problem
        log.warning("connection is cut", platform=self.name, why=problem.detail)
        if connection.task is not None:
            connection.task.cancel()
        self.after(CUT_S, CutLate(number=connection.number), name="cut late")

    def _leave_behind(self, number: int) -> None:
        """The edge's code goes on although it was cut: it is no part of us any more."""
        connection = self._connection
        if connection.number != number or connection.over or connection.cut is None:
            return
        self._down(connection)
        connection.over = True
        detail = f"a connection that was cut ({connection.cut.detail}) does not end and is left behind"
        log.error("connection does not end", platform=self.name, after_s=CUT_S)
        self._links.on_incident("blocked", detail)
        self._fell(connection.cut)

    # ------------------------------------------------------------------ the end of a connection

    def _connection_over(self, ended: ConnectionEnded) -> None:
        if ended.number != self._connection.number or self._connection.over:
            return
        self._connection.over = True
        self._fell(ended.problem)

    def _fell(self, problem: Problem | None) -> None:
        if self._paused:
            self._tell_state("paused")
            return
        if self._restarting:
            self._restarting = False
            self._healing.up = False
            self._tell_state("waiting")
            self.actor_ref.tell(Connect())
            return
        fall = self._healing.fell(problem, self.clock.monotonic(), self._links.chance())
        self._report(fall.incidents)
        self._tell_state(fall.state)
        log.warning(
            "platform not connected", platform=self.name, why=fall.why, again_in_s=round(fall.wait_s, 1)
        )
        self.after(fall.wait_s, Connect(), name="connect")

    def _report(self, incidents: tuple[Incident, ...]) -> None:
        for what, detail in incidents:
            self._links.on_incident(what, detail)

    def _tell_state(self, state: str) -> None:
        state = self._links.clean(state)
        self._state = state
        self._links.on_state(state)

    # ------------------------------------------------------------------ what operators want

    async def _asked(self, asked: PlatformAsked) -> str:
        log.info("an operator wants something", platform=self.name, what=asked.what, by=asked.by)
        now = self.clock.now()
        match asked.what:
            case "pause" if not self._paused:
                await self._note(PlatformPaused(by=asked.by, at=now))
                self._paused = True
                self._end_for_operator("paused")
            case "resume" if self._paused:
                await self._note(PlatformResumed(by=asked.by, at=now))
                self._paused = False
                self._healing = Healing()
                self._restarting = not self._connection.over
                self._tell_state("waiting")
                self.actor_ref.tell(Connect())
            case "restart" if not self._paused:
                self._healing.needs = ""
                self._restarting = not self._connection.over
                self._end_for_operator("waiting")
                self.actor_ref.tell(Connect())
            case _:
                pass  # it is so already; what is paused is not restarted
        return self._state

    def _end_for_operator(self, state: str) -> None:
        self._cut(Problem(kind=ProblemKind.TRANSIENT, detail="an operator ended it"))
        self._tell_state(state)

    async def _note(self, fact: PlatformPaused | PlatformResumed) -> None:
        if self._links.journal is not None:
            recorded = await self._links.journal.append(self._links.stream, self._length, (fact,))
            self._length = recorded[-1].seq

    # ------------------------------------------------------------------ hearing and saying

    async def _hear(self, connection: _Connection, message: EdgeHeard) -> Receipt:
        if connection.over:
            raise EdgeError(ProblemKind.TRANSIENT, "this connection is over")
        connection.heard_at = self.clock.monotonic()
        mark = None
        if isinstance(message, MessageReceived):
            # Before it is handed in: its answer must not meet a place that still counts as dead.
            self._links.tell_outbox(PlaceSpoke(place=place_of(message), at=self.clock.now()))
            mark = self._links.marks.begin(message) if self._links.marks is not None else None
        try:
            async with asyncio.timeout(HEAR_PATIENCE_S):
                receipt = await self._links.hear(message)
        except BaseException as error:
            # It is not acknowledged: the platform sends it again, and by its id it is taken once.
            if mark is not None:
                mark.lost()
            if isinstance(error, TimeoutError):
                raise EdgeError(ProblemKind.TRANSIENT, "a message was not taken in time") from None
            raise
        if mark is not None:
            mark.taken()
        return receipt


def place_of(message: MessageReceived) -> Place:
    """Return where a message was said, as the outbox names it."""
    origin = message.origin
    chat = origin.chat or None
    return Place(chat=chat, thread=origin.thread or None, user=None if chat else origin.user)
