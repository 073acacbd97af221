"""The live view: what is going on in a session right now, for whoever watches.

Sessions publish into the hub; surfaces watch. Everything here is a view: it may be
dropped and nothing is lost, because what counts is in the journal. A watcher that
falls behind is told so, and reads the journal again.
"""

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Self

from actors.console.port import WatchLostError
from actors.session import transcript
from actors.session.heartbeat import Heartbeat
from messages.delivery import TurnGone, TurnSeen
from messages.gateway import (
    ConfirmationAsked,
    DraftChanged,
    LiveEvent,
    Origin,
    Receipt,
    SessionStateChanged,
    ToolProgressed,
    TranscriptEntry,
)
from messages.ids import CallId, MessageId, SessionKey
from store.journal import Recorded

FURTHEST_BEHIND = 5000
"""Events that may wait for one watcher."""

WaitingFor = tuple[SessionKey, MessageId]


class _Now:
    """What a newcomer must know of a running turn."""

    __slots__ = ("asked", "call", "draft", "state", "tools", "turn")

    def __init__(self, state: SessionStateChanged) -> None:
        self.state = state
        self.turn = state.turn
        self.call = 0
        self.draft: list[str] = []
        self.tools: dict[CallId, ToolProgressed] = {}
        self.asked: dict[CallId, ConfirmationAsked] = {}

    def events(self) -> tuple[LiveEvent, ...]:
        text = "".join(self.draft)
        draft = (DraftChanged(turn=self.turn, call=self.call, text=text, whole=True),) if text else ()
        return (*draft, *self.tools.values(), *self.asked.values())


class LiveHub:
    """All that is being watched. On the loop only; every call is cheap and synchronous."""

    def __init__(self, settled: Callable[[SessionKey, MessageId], None] | None = None) -> None:
        self._settled = settled
        """Told of every message that has got its receipt."""
        self.on_turn: Callable[[TurnSeen | TurnGone], None] | None = None
        """Told of the turns whose answers go to a platform."""
        self._shown: dict[SessionKey, Origin] = {}
        self._now: dict[SessionKey, _Now] = {}
        self._watches: dict[SessionKey, set[HubWatch]] = {}
        self._silences: dict[SessionKey, Heartbeat] = {}
        self._expected: dict[WaitingFor, list[asyncio.Future[Receipt]]] = {}

    # -------------------------------------------------- from sessions

    def state_changed(
        self, key: SessionKey, state: SessionStateChanged, seen: TurnSeen | None = None
    ) -> None:
        """A session became idle or busy, or its queue changed. `seen`: its turn, where a platform shows it."""
        if state.state == "idle":
            gone = self._now.pop(key, None)
            if gone is not None:
                self._turn_gone(key, gone.turn)
        else:
            now = self._now.get(key)
            if now is None or now.turn != state.turn:
                if now is not None:
                    self._turn_gone(key, now.turn)
                self._now[key] = _Now(state)
                if seen is not None and self.on_turn is not None:
                    self._shown[key] = seen.origin
                    self.on_turn(seen)
            else:
                now.state = state
        self._tell(key, state)

    def draft_now(self, key: SessionKey) -> tuple[int, str]:
        """Return the running turn (0: none) and what is written of its answer so far."""
        now = self._now.get(key)
        return (now.turn, "".join(now.draft)) if now is not None else (0, "")

    def _turn_gone(self, key: SessionKey, turn: int) -> None:
        origin = self._shown.pop(key, None)
        if origin is not None and self.on_turn is not None:
            self.on_turn(TurnGone(session_key=key, turn=turn, origin=origin))

    def drafted(self, key: SessionKey, turn: int, call: int, text: str) -> None:
        """The answer being written has grown."""
        now = self._now.get(key)
        if now is None or now.turn != turn:
            return
        if now.call != call:
            now.call, now.draft = call, []
        now.draft.append(text)
        if key in self._watches:
            self._tell(key, DraftChanged(turn=turn, call=call, text=text))

    def draft_dropped(self, key: SessionKey, turn: int, call: int) -> None:
        """What was drafted is void: the call failed and is tried again."""
        now = self._now.get(key)
        if now is not None and now.turn == turn and now.draft:
            now.draft = []
            self._tell(key, DraftChanged(turn=turn, call=call, text="", whole=True))

    def progressed(self, key: SessionKey, event: ToolProgressed) -> None:
        """A tool began, has something to say, or ended."""
        now = self._now.get(key)
        if now is not None:
            now.asked.pop(event.call_id, None)
            if event.phase == "ended":
                now.tools.pop(event.call_id, None)
            else:
                now.tools[event.call_id] = event
        self._tell(key, event)

    def asked(self, key: SessionKey, event: ConfirmationAsked) -> None:
        """A tool waits for a yes."""
        now = self._now.get(key)
        if now is not None:
            now.asked[event.call_id] = event
        self._tell(key, event)

    def told(self, key: SessionKey, event: LiveEvent) -> None:
        """Anything else for those who watch."""
        self._tell(key, event)

    @contextmanager
    def waiting_for_model(self, key: SessionKey, beat: Heartbeat) -> Iterator[None]:
        """A context while a session waits for its model."""
        self._silences[key] = beat
        try:
            yield
        finally:
            if self._silences.get(key) is beat:
                del self._silences[key]

    def longest_silence_s(self, now: float) -> float:
        """Return for how long the most silent model has said nothing; `now` is the clock's monotonic time."""
        return max((now - beat.heard_at for beat in self._silences.values()), default=0.0)

    def recorded(self, key: SessionKey, facts: Iterable[Recorded]) -> None:
        """Facts are durable: their lines go to those who watch."""
        if key in self._watches:
            for line in transcript.lines(facts):
                self._tell(key, line)

    def acknowledge(self, key: SessionKey, receipt: Receipt) -> None:
        """What became of a message at the door."""
        if self._settled is not None:
            self._settled(key, receipt.message_id)
        for future in self._expected.pop((key, receipt.message_id), ()):
            if not future.done():
                future.set_result(receipt)

    # -------------------------------------------------- from surfaces

    def expect(self, key: SessionKey, message_id: MessageId) -> asyncio.Future[Receipt]:
        """Return a future of the receipt of a message that is about to be handed in."""
        future: asyncio.Future[Receipt] = asyncio.get_running_loop().create_future()
        self._expected.setdefault((key, message_id), []).append(future)
        return future

    def give_up(self, key: SessionKey, message_id: MessageId, future: asyncio.Future[Receipt]) -> None:
        """Nobody waits for this receipt any more."""
        waiting = self._expected.get((key, message_id), [])
        if future in waiting:
            waiting.remove(future)
        if not waiting:
            self._expected.pop((key, message_id), None)

    def watch(self, key: SessionKey, *, live: bool = True) -> "HubWatch":
        """Return a watch over a session; without `live` it sees durable lines and states only."""
        return HubWatch(self, key, live=live)

    def now(self, key: SessionKey) -> tuple[SessionStateChanged, tuple[LiveEvent, ...]]:
        """Return the state of a session and what a newcomer must know of it."""
        now = self._now.get(key)
        if now is None:
            return SessionStateChanged(state="idle", turn=0), ()
        return now.state, now.events()

    def busy(self) -> tuple[SessionKey, ...]:
        """Return the sessions with a running turn."""
        return tuple(self._now)

    def add(self, watch: "HubWatch") -> None:
        self._watches.setdefault(watch.key, set()).add(watch)

    def remove(self, watch: "HubWatch") -> None:
        watches = self._watches.get(watch.key)
        if watches is not None:
            watches.discard(watch)
            if not watches:
                del self._watches[watch.key]

    def _tell(self, key: SessionKey, event: TranscriptEntry | LiveEvent) -> None:
        for watch in self._watches.get(key, ()):
            watch.hear(event)


class HubWatch:
    """One look at one session; see `actors.console.port.Watch`."""

    def __init__(self, hub: LiveHub, key: SessionKey, *, live: bool) -> None:
        self.key = key
        self._hub = hub
        self._live = live
        self._heard: deque[TranscriptEntry | LiveEvent] = deque()
        self._lost = False
        self._wake: asyncio.Future[None] | None = None

    def __enter__(self) -> Self:
        self._hub.add(self)
        return self

    def __exit__(self, *_: object) -> None:
        self._hub.remove(self)

    def now(self) -> tuple[SessionStateChanged, tuple[LiveEvent, ...]]:
        """Return the state and the newcomer's events; earlier live events are in them already."""
        self._heard = deque(e for e in self._heard if isinstance(e, TranscriptEntry))
        return self._hub.now(self.key)

    def heard(self) -> tuple[TranscriptEntry | LiveEvent, ...]:
        """Return what has been heard and not been read yet."""
        return tuple(self._heard)

    def hear(self, event: TranscriptEntry | LiveEvent) -> None:
        if not self._live and not isinstance(event, TranscriptEntry | SessionStateChanged):
            return
        if len(self._heard) >= FURTHEST_BEHIND:
            self._lost = True
            self._heard.clear()
        self._heard.append(event)
        if self._wake is not None and not self._wake.done():
            self._wake.set_result(None)

    async def __aiter__(self) -> AsyncIterator[TranscriptEntry | LiveEvent]:
        while True:
            while self._heard:
                if self._lost:
                    raise WatchLostError(f"more than {FURTHEST_BEHIND} events of {self.key} were not read")
                yield self._heard.popleft()
            self._wake = asyncio.get_running_loop().create_future()
            await self._wake
            self._wake = None
