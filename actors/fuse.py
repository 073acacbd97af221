"""A rehearsal of sudden death: the process kills itself at a named instant, as a power cut would end it.

`CALLBOARD_CHAOS=before:reply_owed:3` ends the process by SIGKILL when the third fact of
kind `reply_owed` of this life is about to be written; `after:` when it is durable and
nothing has been done about it yet. The kind `append` counts every append. All that a
session does lies between two appends, so these instants are all there are: a message
taken and not acknowledged is `after:message_accepted`, a tool about to run is
`after:tool_call_started`, one that ran and is not noted `before:tool_call_ended`, a reply
posted and not noted `before:reply_delivered`.

Without the variable nothing is wrapped and nothing is counted.
"""

import os
import signal
from collections.abc import Callable, Sequence
from typing import NoReturn

from actors.errors import StartError
from messages.base import Message
from messages.ids import StreamId
from store.journal import Journal, Recorded

VARIABLE = "CALLBOARD_CHAOS"
EVERY_APPEND = "append"


class Fuse:
    """Counts what passes, and blows at one instant."""

    def __init__(self, when: str, kind: str, most: int, blow: Callable[[], object]) -> None:
        self._when = when
        self._kind = kind
        self._left = most
        self._blow = blow

    def before(self, facts: Sequence[Message]) -> bool:
        """Tell it what is about to be written; returns whether it blows when that is durable."""
        if not any(self._kind in (EVERY_APPEND, getattr(fact, "kind", "")) for fact in facts):
            return False
        self._left -= 1
        if self._left == 0 and self._when == "before":
            self._blow()
        return self._left == 0

    def after(self) -> None:
        """Tell it that what it waited for is durable."""
        self._blow()


class FusedJournal:
    """The journal with a fuse before and behind each append."""

    def __init__(self, journal: Journal, fuse: Fuse) -> None:
        self._journal = journal
        self._fuse = fuse

    async def append(
        self, stream: StreamId, expected: int, facts: Sequence[Message], *, owing: bool = False
    ) -> tuple[Recorded, ...]:
        """Write facts; see `store.journal.Journal`."""
        last = self._fuse.before(facts)
        recorded = await self._journal.append(stream, expected, facts, owing=owing)
        if last:
            self._fuse.after()
        return recorded

    async def read(self, stream: StreamId, after: int = 0) -> tuple[Recorded, ...]:
        """Return a stream's facts; see `store.journal.Journal`."""
        return await self._journal.read(stream, after)

    async def owed(self) -> tuple[StreamId, ...]:
        """Name the streams that owe something; see `store.journal.Journal`."""
        return await self._journal.owed()


def read_fuse(spec: str) -> Fuse | None:
    """Return the fuse that the variable asks for; None when it is empty. Raises StartError for nonsense."""
    if not spec:
        return None
    when, _, rest = spec.partition(":")
    kind, _, most = rest.partition(":")
    if when not in ("before", "after") or not kind or not most.isdecimal() or int(most) < 1:
        raise StartError(
            f"{VARIABLE}={spec!r} names no instant.",
            "Write before:KIND:N or after:KIND:N, KIND being a fact's kind or `append`; or leave it out.",
        )
    return Fuse(when, kind, int(most), _end_at_once)


def with_fuse(journal: Journal, fuse: Fuse | None) -> Journal:
    """Return the journal, behind the fuse when there is one."""
    return journal if fuse is None else FusedJournal(journal, fuse)


def _end_at_once() -> NoReturn:
    os.kill(os.getpid(), signal.SIGKILL)
    raise AssertionError("nobody survives SIGKILL")
