"""A platform's actor: keeps the connection of one account, hands in what it hears, posts what it is told.

It connects after its start and connects again for ever, waiting longer each time. A
connection that has failed several times in a row, or that needs somebody's hand, is
degraded: tried at the longest interval, and said in the status. A crash in the edge's
own code ends the actor; the supervisor starts it anew.
"""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, assert_never

import structlog

from actors.gateway.edge import Edge, EdgeError, Hear
from actors.runtime import ActorSystem, Crashed, LoopActor
from actors.supervision import Backoff
from messages.base import Message
from messages.delivery import (
    ConnectionAsked,
    FindPost,
    OutboxHeard,
    Place,
    PlaceSpoke,
    PlatformConnected,
    PlatformLost,
    Post,
    PostFailed,
    PostLookedUp,
    PostTaken,
    Problem,
    ProblemKind,
    SayPost,
    ShowView,
    ViewShown,
)
from messages.gateway import EdgeHeard, MessageReceived, Receipt

log = structlog.get_logger(__name__)

RECONNECT = Backoff(first_s=0.5, most_s=60.0)
MOST_FAILURES = 5
"""So many connections that end at once, one after the other, and the platform is degraded."""

HEAR_PATIENCE_S = 300.0
"""How long a message may take into the journal before its place in the edge is given free."""

HEALTHY_S = 30.0
"""A connection that has lasted so long was a good one."""


class Connect(Message):
    """Try to connect."""


class ConnectionEnded(Message):
    """The edge has ended; `problem` says why, None when the other side closed in good order."""

    problem: Problem | None
    lasted_s: float


@dataclass(frozen=True, slots=True)
class PlatformLinks:
    """Whom a platform's actor knows."""

    edge: Callable[[], Edge]
    """Makes a fresh edge for each connection."""
    hear: Hear
    tell_outbox: Callable[[OutboxHeard], None]
    tell_live: Callable[[ViewShown], None]
    chance: Callable[[], float]
    on_incident: Callable[[str, str], None]
    """(what, detail): `degraded` or `recovered`."""
    on_state: Callable[[str], None]
    """`connected`, `waiting`, or `degraded: why`: for the status."""


class PlatformActor(LoopActor):
    """Hears SayPost and FindPost from its outbox."""

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
        self._edge: Edge | None = None
        """Set while posts can be made."""
        self._failures = 0
        self._degraded = False

    async def on_actor_start(self) -> None:
        self._links.tell_outbox(PlatformLost(at=self.clock.now()))
        self.actor_ref.tell(Connect())

    async def on_actor_stop(self) -> None:
        self._edge = None

    async def on_receive(self, message: Any) -> None:
        match message:
            case SayPost():
                self.background(self._say(self._edge_for(message), message.post), name="say")
            case FindPost():
                self.background(self._find(self._edge_for(message), message.post), name="find")
            case ShowView():
                self.background(self._show(self._edge, message), name="show")
            case ConnectionAsked():
                now = self.clock.now()
                self._links.tell_outbox(PlatformConnected(at=now) if self._edge else PlatformLost(at=now))
            case Connect():
                self.background(self._run(), name="connection")
            case ConnectionEnded():
                self._connection_ended(message)
            case _:
                assert_never(message)

    def _edge_for(self, asked: SayPost | FindPost) -> Edge | None:
        """The edge; None for what waited here so long that the outbox may not see the answer any more."""
        return self._edge if asked.until > self.clock.monotonic() else None

    # ------------------------------------------------------------------ connection

    async def _run(self) -> None:
        edge, began = self._links.edge(), self.clock.monotonic()
        problem: Problem | None = None
        try:
            await edge.run(self._hear, lambda: self._connected(edge))
        except EdgeError as error:
            problem = error.problem
        finally:
            self._edge = None
        lasted = self.clock.monotonic() - began
        self._links.tell_outbox(PlatformLost(at=self.clock.now()))
        self.actor_ref.tell(ConnectionEnded(problem=problem, lasted_s=lasted))

    def _connected(self, edge: Edge) -> None:
        self._edge = edge
        log.info("platform connected", platform=self.name)
        if self._degraded:
            self._degraded = False
            self._links.on_incident("recovered", "connected")
        self._links.on_state("connected")
        self._links.tell_outbox(PlatformConnected(at=self.clock.now()))

    def _connection_ended(self, ended: ConnectionEnded) -> None:
        problem = ended.problem
        why = f"{problem.kind.value}: {problem.detail}" if problem else "closed by the other side"
        self._failures = 1 if ended.lasted_s >= HEALTHY_S else self._failures + 1
        hopeless = problem is not None and problem.kind is ProblemKind.NEEDS_HUMAN
        if hopeless or self._failures > MOST_FAILURES:
            wait = RECONNECT.most_s
            if not self._degraded:
                self._degraded = True
                self._links.on_incident("degraded", why)
            self._links.on_state(f"degraded: {why}")
        else:
            wait = RECONNECT.wait(self._failures, self._links.chance())
            self._links.on_state("waiting")
        wait = max(wait, (problem.retry_after_s or 0.0) if problem else 0.0)
        log.warning("platform not connected", platform=self.name, why=why, again_in_s=round(wait, 1))
        self.after(wait, Connect(), name="connect")

    # ------------------------------------------------------------------ hearing and saying

    async def _hear(self, message: EdgeHeard) -> Receipt:
        if isinstance(message, MessageReceived):
            origin = message.origin
            chat = origin.chat or None
            place = Place(chat=chat, thread=origin.thread or None, user=None if chat else origin.user)
            # Before it is handed in: its answer must not meet a place that still counts as dead.
            self._links.tell_outbox(PlaceSpoke(place=place, at=self.clock.now()))
        try:
            async with asyncio.timeout(HEAR_PATIENCE_S):
                return await self._links.hear(message)
        except TimeoutError:
            # It is not acknowledged: the platform sends it again, and by its id it is taken once.
            raise EdgeError(ProblemKind.TRANSIENT, "a message was not taken in time") from None

    async def _say(self, edge: Edge | None, post: Post) -> None:
        outcome = await self._tried(edge, post, looking=False)
        if isinstance(outcome, Problem):
            self._links.tell_outbox(
                PostFailed(
                    delivery_id=post.delivery_id,
                    place=post.place,
                    part=post.part,
                    attempt=post.attempt,
                    problem=outcome,
                    chance=self._links.chance(),
                    at=self.clock.now(),
                )
            )
            return
        self._links.tell_outbox(
            PostTaken(
                delivery_id=post.delivery_id,
                place=post.place,
                part=post.part,
                attempt=post.attempt,
                receipt=outcome or "",
                at=self.clock.now(),
            )
        )

    async def _find(self, edge: Edge | None, post: Post) -> None:
        outcome = await self._tried(edge, post, looking=True)
        self._links.tell_outbox(
            PostLookedUp(
                delivery_id=post.delivery_id,
                place=post.place,
                part=post.part,
                attempt=post.attempt,
                receipt=None if isinstance(outcome, Problem) else outcome,
                problem=outcome if isinstance(outcome, Problem) else None,
                chance=self._links.chance(),
                at=self.clock.now(),
            )
        )

    async def _show(self, edge: Edge | None, asked: ShowView) -> None:
        """Show a view, once. What comes of it matters to the live view alone."""
        outcome: str | Problem | None = Problem(kind=ProblemKind.NOT_CONNECTED)
        if edge is not None:
            try:
                outcome = await edge.show(asked.view)
            except EdgeError as error:
                outcome = error.problem
            except Exception as error:
                log.exception("a platform's edge failed in a way of its own", platform=self.name)
                self.system.stats.crashes += 1
                outcome = Problem(kind=ProblemKind.UNKNOWN, detail=f"{type(error).__name__}: {error}"[:500])
        if asked.token:
            self._links.tell_live(
                ViewShown(
                    token=asked.token,
                    receipt=None if isinstance(outcome, Problem) else outcome,
                    problem=outcome if isinstance(outcome, Problem) else None,
                    at=self.clock.now(),
                )
            )

    async def _tried(self, edge: Edge | None, post: Post, *, looking: bool) -> str | Problem | None:
        if edge is None:
            return Problem(kind=ProblemKind.NOT_CONNECTED)
        try:
            return await (edge.find(post) if looking else edge.say(post))
        except EdgeError as error:
            return error.problem
        except Exception as error:
            log.exception("a platform's edge failed in a way of its own", platform=self.name)
            self.system.stats.crashes += 1
            return Problem(kind=ProblemKind.UNKNOWN, detail=f"{type(error).__name__}: {error}"[:500])
