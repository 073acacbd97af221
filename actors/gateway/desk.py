"""The house as its surfaces see it: `actors.console.port.Desk` over the actors."""

from collections.abc import Callable, Sequence
from pathlib import Path

from actors.clock import Clock
from actors.gateway.dead_letters import DeadLetterBox
from actors.gateway.door import Door
from actors.gateway.erasure import Eraser
from actors.gateway.platform_control import PlatformControl
from actors.gateway.sending import Sender
from actors.metrics import Metrics
from actors.session import transcript
from actors.session.directory import Roster, Route
from actors.session.live import HubWatch, LiveHub
from actors.session.models.port import Models
from messages.access import AccessAnswered, AccessAsked
from messages.dead_letters import DeadLetter
from messages.gateway import (
    MessageReceived,
    Origin,
    Receipt,
    SessionSummary,
    StatusReport,
    TranscriptEntry,
)
from messages.history import SessionErased
from messages.ids import CallId, SessionKey, StreamId
from messages.model import ModelRef
from messages.platforms import PlatformState, PlatformWish
from messages.search import SearchAsked, SearchFound
from messages.sending import SendAsked, SendEnded
from messages.session import ConfirmationGiven, StopAsked
from store.query import Answer
from store.search_keeper import HistorySearch
from store.store import Store


class HouseDesk:
    """Stands between the HTTP console and the actors."""

    def __init__(  # noqa: PLR0913 it stands between all of them
        self,
        *,
        hub: LiveHub,
        store: Store,
        search: HistorySearch,
        eraser: Eraser,
        roster: Roster,
        models: Models,
        clock: Clock,
        door: Door,
        tell_sessions: Callable[[Route], None],
        status: Callable[[], StatusReport],
        metrics: Metrics,
        sender: Sender,
        control: PlatformControl,
        letters: DeadLetterBox,
    ) -> None:
        self._hub = hub
        self._store = store
        self._search = search
        self._roster = roster
        self._models = models
        self._clock = clock
        self._door = door
        self._tell_sessions = tell_sessions
        self._status = status
        self._metrics = metrics
        self._sender = sender
        self._control = control
        self._eraser = eraser
        self._letters = letters

    async def speak(self, message: MessageReceived) -> Receipt:
        """Hand in a message; return when it is durable, or refused."""
        return await self._door.speak(message)

    async def send(self, asked: SendAsked) -> SendEnded:
        """Say something in a chat, in nobody's conversation. Raises SendRefusedError and OSError."""
        return await self._sender.send(asked)

    def key_of(self, origin: Origin) -> SessionKey:
        """Return the session key of a place. Raises ValueError."""
        return self._door.key_of(origin)

    async def access(self, asked: AccessAsked) -> AccessAnswered:
        """Change who may talk to us, or say who may."""
        return await self._door.access(asked)

    async def stop(self, key: SessionKey) -> bool:
        """End the running turn now."""
        running = self._hub.now(key)[0].state == "running"
        if running:
            self._tell_sessions(Route(key, StopAsked(at=self._clock.now())))
        return running

    async def confirm(self, key: SessionKey, call_id: CallId, *, yes: bool, by: str) -> bool:
        """Answer a question that waits for a yes."""
        waiting = any(
            event.kind == "confirmation_asked" and event.call_id == call_id for event in self._hub.now(key)[1]
        )
        if waiting:
            given = ConfirmationGiven(call_id=call_id, yes=yes, by=by, at=self._clock.now())
            self._tell_sessions(Route(key, given))
        return waiting

    async def transcript(self, key: SessionKey, after: int = 0) -> tuple[TranscriptEntry, ...]:
        """Return the conversation that is open now under this key."""
        facts = await self._store.journal.read(StreamId(f"session:{key}"), after)
        return transcript.lines(transcript.current(facts))

    async def sessions(self) -> tuple[SessionSummary, ...]:
        """Return all sessions, latest first, with what they are doing."""
        stored = await self._store.sessions()
        return tuple(s.model_copy(update={"state": self._state(s.session_key)}) for s in stored)

    async def query(
        self, sql: str, params: Sequence[object] = (), *, timeout_s: float, max_rows: int
    ) -> Answer:
        """Run one SELECT that a person wrote."""
        return await self._store.query(sql, params, timeout_s=timeout_s, max_rows=max_rows)

    async def erase(self, key: SessionKey) -> SessionErased:
        """Delete a session's history for good."""
        return await self._eraser.erase(key)

    async def search(self, asked: SearchAsked) -> SearchFound:
        """Search in all conversations: whoever stands at a desk may read them all."""
        return await self._search.search(asked)

    def _state(self, key: SessionKey) -> str:
        state = self._hub.now(key)[0].state
        if state == "idle" and key not in self._roster.awake:
            return "sleeping"
        return state

    def watch(self, key: SessionKey, *, live: bool = True) -> HubWatch:
        return self._hub.watch(key, live=live)

    def status(self) -> StatusReport:
        return self._status()

    async def dead_letters(self) -> tuple[DeadLetter, ...]:
        return await self._letters.all()

    async def retry_dead_letter(self, number: int, *, by: str) -> DeadLetter:
        return await self._letters.retry(number, by=by)

    async def drop_dead_letter(self, number: int, *, by: str) -> DeadLetter:
        return await self._letters.drop(number, by=by)

    def metrics(self) -> bytes:
        return self._metrics.text()

    def platforms(self) -> tuple[PlatformState, ...]:
        return self._control.states()

    async def control_platform(self, name: str, wish: PlatformWish, *, by: str) -> PlatformState:
        return await self._control.wish(name, wish, by=by)

    def ready(self) -> bool:
        return self._door.open

    async def back_up(self, copy: Path) -> int:
        """Write a consistent copy of the database into a new file."""
        return await self._store.copy_to(copy)

    def problem(self) -> str:
        """Return why what is taken has to wait now; empty when all is well."""
        return self._store.problem or ""

    def models(self) -> tuple[ModelRef, ...]:
        return self._models.known()
