"""A journal in memory, for tests: the same port, the same refusals, and verbs to make it fail."""

import asyncio
from collections.abc import Sequence
from datetime import datetime

from actors.clock import Clock, WallClock
from messages.base import Message
from messages.ids import StreamId
from store.codec import CODEC, Codec
from store.journal import JournalError, JournalUnavailableError, Recorded, StaleWriterError

_Line = tuple[str, int, str, datetime]


class MemoryJournal:
    """Keeps facts as the text that a file would hold, so that what cannot be stored fails here too.

    It outlives whoever writes to it: a test restarts its actors over the same journal.
    """

    def __init__(self, clock: Clock | None = None, codec: Codec = CODEC) -> None:
        self._clock = clock or WallClock()
        self._codec = codec
        self._lines: dict[StreamId, list[_Line]] = {}
        self._owing: dict[StreamId, None] = {}
        self._failures: list[JournalError] = []
        self._fuse: int | None = None
        self._let_through = asyncio.Event()
        self._let_through.set()

    async def append(
        self, stream: StreamId, expected: int, facts: Sequence[Message], *, owing: bool = False
    ) -> tuple[Recorded, ...]:
        """Write facts; see `store.journal.Journal`."""
        encoded = tuple(map(self._codec.encode, facts))
        await asyncio.sleep(0)  # the real one lets others run here too
        await self._let_through.wait()
        self._fail_if_told_to()
        lines = self._lines.get(stream, [])
        if len(lines) != expected:
            raise StaleWriterError(stream, expected, len(lines))
        if not encoded:
            return ()
        now = self._clock.now()
        self._lines.setdefault(stream, []).extend((kind, v, text, now) for kind, v, text, _ in encoded)
        self._owing.pop(stream, None)
        if owing:
            self._owing[stream] = None
        return tuple(Recorded(seq, fact.fact, now) for seq, fact in enumerate(encoded, start=expected + 1))

    async def read(self, stream: StreamId, after: int = 0) -> tuple[Recorded, ...]:
        """Return a stream's facts; see `store.journal.Journal`."""
        await asyncio.sleep(0)
        return tuple(
            Recorded(seq, self._codec.decode(kind, v, text), at)
            for seq, (kind, v, text, at) in enumerate(self._lines.get(stream, ()), start=1)
            if seq > after
        )

    async def owed(self) -> tuple[StreamId, ...]:
        """Name the streams that owe something; see `store.journal.Journal`."""
        await asyncio.sleep(0)
        return tuple(self._owing)

    # ------------------------------------------------------------ verbs for tests

    def will_fail_next_append(self, error: JournalError | None = None) -> None:
        """Let the next append fail, writing nothing. Said twice: the next two."""
        self._failures.append(error or JournalUnavailableError("told to fail"))

    def fuse(self, appends: int) -> None:
        """Cut the power after so many more appends: every later one fails until `mend`."""
        self._fuse = appends

    def mend(self) -> None:
        """Put the power on again."""
        self._fuse = None

    def hold(self) -> None:
        """Let appends wait, unwritten and unanswered, until `release`."""
        self._let_through.clear()

    def release(self) -> None:
        """Let the appends that wait, and all later ones, through."""
        self._let_through.set()

    @property
    def streams(self) -> tuple[StreamId, ...]:
        """The streams that have facts, in order of their first append."""
        return tuple(self._lines)

    def facts(self, stream: StreamId) -> tuple[Message, ...]:
        """Return what a stream holds, without awaiting."""
        return tuple(self._codec.decode(kind, v, text) for kind, v, text, _ in self._lines.get(stream, ()))

    def _fail_if_told_to(self) -> None:
        if self._failures:
            raise self._failures.pop(0)
        if self._fuse is None:
            return
        if self._fuse == 0:
            raise JournalUnavailableError("the power is off")
        self._fuse -= 1
