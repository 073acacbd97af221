"""The journal's port: where facts are kept, whoever keeps them.

Two implementations stand under one contract suite: `memory_store.MemoryJournal`
for tests, `duckdb_store` for real. Nothing else in the product knows which.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

from messages.base import Message
from messages.ids import StreamId


class JournalError(Exception):
    """Something about the journal that its reader or writer should know."""


class StaleWriterError(JournalError):
    """Somebody else wrote to this stream since we read it: we are not its owner any more."""

    def __init__(self, stream: StreamId, expected: int, found: int) -> None:
        super().__init__(
            f"stream {stream!r} is at {found}, not at {expected}: another writer holds it; this one must stop"
        )
        self.stream = stream
        self.expected = expected
        self.found = found


class JournalUnavailableError(JournalError):
    """The journal cannot take or give facts now. What was not acknowledged is not written."""


@dataclass(frozen=True, slots=True)
class Recorded:
    """A fact with its place: `seq` counts from 1 within the stream, `at` is when it was written (UTC)."""

    seq: int
    fact: Message
    at: datetime


class Journal(Protocol):
    """Append-only streams of facts, each with one writer."""

    async def append(
        self, stream: StreamId, expected: int, facts: Sequence[Message], *, owing: bool = False
    ) -> tuple[Recorded, ...]:
        """Write facts; return them with their places when they are durable.

        `expected` is the sequence number of the last fact the writer knows (0 for
        a new stream); `owing` says whether, after these facts, something is left
        to do that must be taken up after a restart. All facts of one call are
        written together or not at all.

        Raises StaleWriterError (nothing is written) and JournalUnavailableError.
        """
        ...

    async def read(self, stream: StreamId, after: int = 0) -> tuple[Recorded, ...]:
        """Return the stream's facts with `seq > after`, in order; () for an unknown stream."""
        ...

    async def owed(self) -> tuple[StreamId, ...]:
        """Return the streams whose last append was `owing`, in order of that append."""
        ...
