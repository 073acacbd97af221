"""What a platform's actor does with an edge when something is to be said: one call, and what became of it."""

from collections.abc import Awaitable, Callable
from typing import Any, Protocol

import structlog

from actors.gateway.edge import Edge, EdgeError
from actors.system import ActorSystem
from messages.delivery import (
    OutboxHeard,
    Post,
    PostFailed,
    PostLookedUp,
    PostTaken,
    Problem,
    ProblemKind,
    ShowView,
    ViewShown,
)

log = structlog.get_logger(__name__)


class SpeechLinks(Protocol):
    """Whom it tells."""

    @property
    def tell_outbox(self) -> Callable[[OutboxHeard], None]: ...

    @property
    def tell_live(self) -> Callable[[ViewShown], None]: ...

    @property
    def chance(self) -> Callable[[], float]: ...


class Speech:
    """Each call goes its own way: one that waits holds up no other."""

    def __init__(self, system: ActorSystem, name: str, links: SpeechLinks) -> None:
        self._system = system
        self._name = name
        self._links = links

    async def say(self, edge: Edge | None, post: Post) -> None:
        """Post, and tell the outbox."""
        outcome = await self._tried(edge, lambda there: there.say(post))
        about = self._about(post)
        if isinstance(outcome, Problem):
            self._links.tell_outbox(PostFailed(problem=outcome, chance=self._links.chance(), **about))
        else:
            self._links.tell_outbox(PostTaken(receipt=outcome or "", **about))

    async def find(self, edge: Edge | None, post: Post) -> None:
        """Look for a post, and tell the outbox."""
        outcome = await self._tried(edge, lambda there: there.find(post))
        self._links.tell_outbox(
            PostLookedUp(
                receipt=None if isinstance(outcome, Problem) else outcome,
                problem=outcome if isinstance(outcome, Problem) else None,
                chance=self._links.chance(),
                **self._about(post),
            )
        )

    async def show(self, edge: Edge | None, asked: ShowView) -> None:
        """Show a view, once. What comes of it matters to the live view alone."""
        outcome = await self._tried(edge, lambda there: there.show(asked.view))
        if asked.token:
            self._links.tell_live(
                ViewShown(
                    token=asked.token,
                    receipt=None if isinstance(outcome, Problem) else outcome,
                    problem=outcome if isinstance(outcome, Problem) else None,
                    at=self._system.clock.now(),
                )
            )

    def _about(self, post: Post) -> dict[str, Any]:
        return {
            "delivery_id": post.delivery_id,
            "place": post.place,
            "part": post.part,
            "attempt": post.attempt,
            "at": self._system.clock.now(),
        }

    async def _tried(
        self, edge: Edge | None, call: Callable[[Edge], Awaitable[str | None]]
    ) -> str | Problem | None:
        if edge is None:
            return Problem(kind=ProblemKind.NOT_CONNECTED)
        try:
            return await call(edge)
        except EdgeError as error:
            return error.problem
        except Exception as error:
            log.exception("a platform's edge failed in a way of its own", platform=self._name)
            self._system.stats.crashes += 1
            return Problem(kind=ProblemKind.UNKNOWN, detail=f"{type(error).__name__}: {error}"[:500])
