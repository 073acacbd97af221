"""What the HTTP console needs of the rest of the house."""

from collections.abc import AsyncIterator
from typing import Protocol, Self

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
from messages.ids import CallId, SessionKey
from messages.model import ModelRef


class WatchLostError(Exception):
    """The watcher was too slow and missed something: read the transcript again and watch anew."""


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

    def watch(self, key: SessionKey, *, live: bool = True) -> Watch:
        """Look at a session; without `live`, durable entries and changes of state only (cheaper)."""
        ...

    def status(self) -> StatusReport: ...

    def metrics(self) -> bytes:
        """Return all metrics in Prometheus text format."""
        ...

    def ready(self) -> bool:
        """Return whether messages are taken."""
        ...

    def models(self) -> tuple[ModelRef, ...]: ...
