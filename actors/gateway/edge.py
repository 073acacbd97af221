"""The port of a chat platform: what an edge must do, and in which words it fails.

An edge only translates. It decides nothing: order, repetition, waiting and giving up
are the outbox's business; who may speak is the front desk's.
"""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from actors.clock import Clock
from messages.base import Instant, Message
from messages.delivery import EdgeView, Post, Problem, ProblemKind
from messages.gateway import EdgeHeard, Receipt

Hear = Callable[[EdgeHeard], Awaitable[Receipt]]
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
        moved_to: str | None = None,
    ) -> None:
        super().__init__(f"{kind.value}: {detail}")
        self.problem = Problem(
            kind=kind,
            detail=" ".join(detail.split())[:500],
            retry_after_s=retry_after_s,
            whole_account=whole_account,
            moved_to=moved_to,
        )


class LastHeard(Message):
    """The last message that was handed in from a chat, or from a thread of it."""

    message_id: str
    at: Instant


class OfferedCommand(Message):
    """A slash command, for a platform that has menus of them."""

    name: str
    argument: str
    """How the argument is shown; empty when it takes none. In brackets when it may be left out."""
    summary: str


def _unheard(_: str) -> None:
    """Nobody wants to know."""


@dataclass(frozen=True, slots=True)
class EdgeContext:
    """What an edge is given besides its configuration. Its data can cross to another process."""

    platform: str
    account: str
    clock: Clock
    files: Path = Path("attachments")
    """The folder for what people attach; made on first use, mode 0700. Names in it are ours, never theirs."""
    last_heard: Mapping[str, LastHeard] = field(default_factory=dict)
    """By `str(Place)`, as things stood when the edge was made: what came later than these was missed."""
    commands: tuple[OfferedCommand, ...] = ()
    trouble: Callable[[str], None] = _unheard
    """Say, while the connection goes on, what is wrong with it in one line (`another program polls with
    this token`); an empty text when all is well again. It shows as degraded in the status."""


class Edge(Protocol):
    """One account's connection. `run` once; everything else only while it runs, many calls at a time."""

    async def run(self, hear: Hear, connected: Callable[[], None]) -> None:
        """Connect, call `connected` once posts can be made, and hear until the connection ends.

        Returns or raises EdgeError when it has ended; NEEDS_HUMAN when it cannot
        work before somebody does what the detail says. After a gap, what was missed
        is fetched (see `EdgeContext.last_heard`) and handed in, oldest first.
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

    async def show(self, view: EdgeView) -> str | None:
        """Show something that nobody misses when it is dropped; a new draft's id. Raises EdgeError.

        What the platform cannot show is passed over. A rate limit is raised, never waited out.
        """
        ...

    async def probe(self) -> None:
        """Prove that the connection is alive in both directions; raise EdgeError when it is not.

        Asked when nothing has been heard for a while. Uses only what the platform
        allows to be asked often.
        """
        ...
