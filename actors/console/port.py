"""What the HTTP console needs of the rest of the house."""

from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Protocol, Self

from messages.access import AccessAnswered, AccessAsked
from messages.dead_letters import DeadLetter
from messages.gateway import (
    LiveEvent,
    MessageReceived,
    Origin,
    Receipt,
    SessionStateChanged,
    SessionSummary,
    StatusReport,
    TranscriptEntry,
)
from messages.history import SessionErased
from messages.ids import CallId, SessionKey
from messages.model import ModelRef
from messages.platforms import PlatformState, PlatformWish
from messages.search import SearchAsked, SearchFound
from messages.sending import SendAsked, SendEnded
from store.query import Answer


class WatchLostError(Exception):
    """The watcher was too slow and missed something: read the transcript again and watch anew."""


class DeadLetterError(Exception):
    """What was asked about a dead letter cannot be done; the text says why."""


class Watch(Protocol):
    """A look at one session while it goes on: `with desk.watch(key) as watch: async for …`.

    Everything from the `with` on is seen: entries as they become durable, live
    events as they happen. Iterating raises WatchLostError when the watcher fell
    too far behind. Reading the transcript after the `with` and skipping entries
    by `seq` loses and doubles nothing.
    """

    def __enter__(self) -> Self: ...

    def __exit__(self, *_: object) -> None: ...

    def __aiter__(self) -> AsyncIterator[TranscriptEntry | LiveEvent]: ...

    def now(self) -> tuple[SessionStateChanged, tuple[LiveEvent, ...]]:
        """Return the state, and what a newcomer must know of the running turn.

        That is: the whole draft so far (`whole=True`), tools that are running,
        and questions that wait for a yes. Nothing happens between this and the next event.
        """
        ...


class Desk(Protocol):
    """The house, as a surface sees it."""

    async def speak(self, message: MessageReceived) -> Receipt:
        """Hand in a message or a command; return when it is durable, or refused."""
        ...

    async def send(self, asked: SendAsked) -> SendEnded:
        """Say something in a chat, in nobody's conversation. Raises SendRefusedError and OSError."""
        ...

    async def access(self, asked: AccessAsked) -> AccessAnswered:
        """Change who may talk to us, or say who may."""
        ...

    def key_of(self, origin: Origin) -> SessionKey:
        """Return the session key of a place. Raises ValueError when it names nobody."""
        ...

    async def stop(self, key: SessionKey) -> bool:
        """End the running turn now. Returns whether one was running."""
        ...

    async def confirm(self, key: SessionKey, call_id: CallId, *, yes: bool, by: str) -> bool:
        """Answer a ConfirmationAsked. Returns False when nobody is waiting for it any more."""
        ...

    async def transcript(self, key: SessionKey, after: int = 0) -> tuple[TranscriptEntry, ...]:
        """Return the entries of the conversation of this key with `seq > after`; () for an unknown key."""
        ...

    async def sessions(self) -> tuple[SessionSummary, ...]:
        """Return all sessions, latest first."""
        ...

    async def query(
        self, sql: str, params: Sequence[object] = (), *, timeout_s: float, max_rows: int
    ) -> Answer:
        """Run one SELECT over the history. Raises QueryError, with a text for whoever wrote it."""
        ...

    async def erase(self, key: SessionKey) -> SessionErased:
        """Delete a session's history for good; what runs in it is stopped first.

        Raises UnknownSessionError, JournalError, and TimeoutError: then nothing is deleted.
        """
        ...

    async def search(self, asked: SearchAsked) -> SearchFound:
        """Search in all conversations. Raises SearchWordsError and SearchUnavailableError."""
        ...

    def watch(self, key: SessionKey, *, live: bool = True) -> Watch:
        """Look at a session; without `live`, durable entries and changes of state only (cheaper)."""
        ...

    def status(self) -> StatusReport: ...

    def metrics(self) -> bytes:
        """Return all metrics in Prometheus text format."""
        ...

    async def dead_letters(self) -> tuple[DeadLetter, ...]:
        """Return all dead letters, the newest first, also those that were decided about."""
        ...

    async def retry_dead_letter(self, number: int, *, by: str) -> DeadLetter:
        """Hand its message in again, as a new one. Raises DeadLetterError."""
        ...

    async def drop_dead_letter(self, number: int, *, by: str) -> DeadLetter:
        """Note that nothing more will be done about it. Raises DeadLetterError."""
        ...

    def platforms(self) -> tuple[PlatformState, ...]:
        """Say how the accounts on chat platforms are doing that the settings name."""
        ...

    async def control_platform(self, name: str, wish: PlatformWish, *, by: str) -> PlatformState:
        """Restart, pause or resume one. Raises PlatformControlError."""
        ...

    def ready(self) -> bool:
        """Return whether messages are taken."""
        ...

    async def back_up(self, copy: Path) -> int:
        """Write a consistent copy of the database into a new file; return its size in bytes.

        Raises OSError (FileExistsError for a file that is there), duckdb.Error and JournalError.
        """
        ...

    def problem(self) -> str:
        """Return why what is taken has to wait now (the store is down, the disk is full); empty when all is well."""
        ...

    def models(self) -> tuple[ModelRef, ...]: ...
