"""The port of a chat platform: what an edge must do, and in which words it fails.

An edge only translates. It decides nothing: order, repetition, waiting and giving up
are the outbox's business; who may speak is the front desk's.
"""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Protocol

from actors.clock import Clock
from messages.delivery import Post, Problem, ProblemKind
from messages.gateway import MessageReceived, Receipt

Hear = Callable[[MessageReceived], Awaitable[Receipt]]
"""Hands a message in. What it returns is what became of it: acknowledge to the platform only then.

Call it in the order of the messages; its work up to the first wait keeps that order.
"""


class EdgeError(Exception):
    """A call of the platform, or the connection, failed. The kind says what is known of it."""

    def __init__(
        self,
        kind: ProblemKind,
        detail: str,
        *,
        retry_after_s: float | None = None,
        whole_account: bool = False,
    ) -> None:
        super().__init__(f"{kind.value}: {detail}")
        self.problem = Problem(
            kind=kind,
            detail=" ".join(detail.split())[:500],
            retry_after_s=retry_after_s,
            whole_account=whole_account,
        )


@dataclass(frozen=True, slots=True)
class EdgeContext:
    """What an edge is given besides its configuration."""

    platform: str
    account: str
    clock: Clock


class Edge(Protocol):
    """One account's connection. `run` once; `say` and `find` only while it runs, many at a time."""

    async def run(self, hear: Hear, connected: Callable[[], None]) -> None:
        """Connect, call `connected` once posts can be made, and hear until the connection ends.

        Returns or raises EdgeError when it has ended; NEEDS_HUMAN when it cannot
        work before somebody does what the detail says.
        """
        ...

    async def say(self, post: Post) -> str:
        """Post once, and return the platform's id of the post. Raises EdgeError.

        An edge never tries again by itself, and never reports as not posted what
        may have been posted.
        """
        ...

    async def find(self, post: Post) -> str | None:
        """Look in the chat's recent history for a post; its id, or None. Raises EdgeError."""
        ...
