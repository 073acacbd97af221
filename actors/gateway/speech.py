"""What a platform's actor does with an edge when something is to be said: one call, and what became of it."""

import asyncio
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from typing import Any, Final, Protocol

import structlog

from actors.gateway.edge import Edge, EdgeError
from actors.redaction import Clean
from actors.system import ActorSystem
from messages.delivery import (
    DraftRemovalTried,
    DraftRemoved,
    DraftShown,
    EdgeView,
    OutboxHeard,
    Place,
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

EDIT_PATIENCE_S: Final = 10.0
"""So long an answer waits for an edit of its draft that is on its way."""

MOST_CLOSED: Final = 1000
LONGEST_DETAIL: Final = 500

Draft = tuple[Place, str]


class SpeechLinks(Protocol):
    """Whom it tells."""

    @property
    def tell_outbox(self) -> Callable[[OutboxHeard], None]: ...

    @property
    def tell_live(self) -> Callable[[ViewShown], None]: ...

    @property
    def chance(self) -> Callable[[], float]: ...

    @property
    def clean(self) -> Clean: ...


class Speech:
    """Each call goes its own way: one that waits holds up no other."""

    def __init__(self, system: ActorSystem, name: str, links: SpeechLinks) -> None:
        self._system = system
        self._name = name
        self._links = links
        self._edits: dict[Draft, asyncio.Future[None]] = {}
        """Edits of drafts that are on their way."""
        self._closed: OrderedDict[Draft, None] = OrderedDict()
        """Drafts that are answers now, or are gone: what is shown of them any more would be wrong."""

    async def say(self, edge: Edge | None, post: Post) -> None:
        """Post, and tell the outbox. A late edit of its draft must not undo it."""
        if post.draft is not None:
            await self._close((post.place, post.draft))
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
        """Show a view, once, and tell the live view; the outbox, when a draft was to be removed."""
        outcome = await self._shown(edge, asked.view)
        if isinstance(asked.view, DraftRemoved):
            self._links.tell_outbox(
                DraftRemovalTried(
                    place=asked.view.place,
                    receipt=asked.view.receipt,
                    problem=outcome if isinstance(outcome, Problem) else None,
                    chance=self._links.chance(),
                    at=self._system.clock.now(),
                )
            )
        if asked.token:
            self._links.tell_live(
                ViewShown(
                    token=asked.token,
                    receipt=None if isinstance(outcome, Problem) else outcome,
                    problem=outcome if isinstance(outcome, Problem) else None,
                    at=self._system.clock.now(),
                )
            )

    async def _shown(self, edge: Edge | None, view: EdgeView) -> str | Problem | None:
        def call(there: Edge) -> Awaitable[str | None]:
            return there.show(view)

        if isinstance(view, DraftRemoved):
            await self._close((view.place, view.receipt))
        if not isinstance(view, DraftShown) or view.receipt is None:
            return await self._tried(edge, call)
        draft = (view.place, view.receipt)
        if draft in self._closed or draft in self._edits:
            return None
        self._edits[draft] = asyncio.get_running_loop().create_future()
        try:
            return await self._tried(edge, call)
        finally:
            self._edits.pop(draft).set_result(None)

    async def _close(self, draft: Draft) -> None:
        """Let no edit of a draft begin any more, and wait for the one that is on its way."""
        self._closed[draft] = None
        if len(self._closed) > MOST_CLOSED:
            self._closed.popitem(last=False)
        if (edit := self._edits.get(draft)) is not None:
            await asyncio.wait({edit}, timeout=EDIT_PATIENCE_S)

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
            return self._told(error.problem)
        except Exception as error:
            log.exception("a platform's edge failed in a way of its own", platform=self._name)
            self._system.stats.crashes += 1
            return self._told(Problem(kind=ProblemKind.UNKNOWN, detail=f"{type(error).__name__}: {error}"))

    def _told(self, problem: Problem) -> Problem:
        """What went wrong is written down, and said in the chat: without secrets, whatever a library puts into it."""
        detail = self._links.clean(problem.detail)[:LONGEST_DETAIL]
        return problem if detail == problem.detail else problem.model_copy(update={"detail": detail})
