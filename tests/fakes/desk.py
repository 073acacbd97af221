"""A desk that answers by script: all of the console's counterpart in memory, without a house behind it.

    desk = FakeDesk()
    desk.will_answer("Hello.", chunks=("Hel", "lo."))   # the next turn, at once
    desk.streams("Once upon")                           # the next turn: begins, and then waits …
    desk.adds(" a time"); desk.finish()                 # … for these

A turn with no script answers `you said: …`. Scripts are used up in order, one a turn.
"""

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal, Self
from urllib.parse import quote

from actors.console.port import DeadLetterError, WatchLostError
from actors.gateway.erasure import UnknownSessionError
from actors.gateway.platform_control import PlatformControlError
from actors.gateway.sending import SendRefusedError
from messages.access import AccessAnswered, AccessAsked
from messages.dead_letters import DeadLetter
from messages.gateway import (
    Acceptance,
    ConfirmationAsked,
    DraftChanged,
    LiveEvent,
    MessageReceived,
    ModelStatusChanged,
    Origin,
    Receipt,
    SessionStateChanged,
    SessionSummary,
    StatusReport,
    ToolProgressed,
    TranscriptEntry,
)
from messages.history import SessionErased
from messages.ids import CallId, DeliveryId, MessageId, SessionKey
from messages.model import ModelRef
from messages.platforms import PlatformState, PlatformWish
from messages.search import SearchAsked, SearchFound
from messages.sending import SendAsked, SendEnded
from store.query import Answer
from store.search_text import understand
from store.store import QueryError

START = datetime(2026, 1, 1, tzinfo=UTC)
MODEL = ModelRef(provider="fake", name="parrot-1")


@dataclass
class Script:
    """How one turn goes."""

    chunks: tuple[str, ...] = ()
    text: str | None = None
    """The final text; None: the turn goes on until `finish`."""
    failed: str | None = None
    """A failure's status: the turn ends in a notice instead of an answer."""
    silent: bool = False
    """Whether the drafts are lost on the way (the final is not)."""
    tool: tuple[str, str] | None = None
    """A tool that has run before the answer: its name and its result."""
    asks: tuple[CallId, str, str] | None = None
    """A call that waits for a yes: id, tool, arguments."""


@dataclass
class Running:
    turn: int
    message_ids: tuple[MessageId, ...]
    draft: str = ""
    call: int = 1
    question: ConfirmationAsked | None = None


@dataclass
class Talk:
    """One session."""

    key: SessionKey
    entries: list[TranscriptEntry] = field(default_factory=list)
    watches: list["FakeWatch"] = field(default_factory=list)
    seen: set[MessageId] = field(default_factory=set)
    waiting: deque[MessageReceived] = field(default_factory=deque)
    running: Running | None = None
    turns: int = 0

    def state(self) -> SessionStateChanged:
        run = self.running
        return SessionStateChanged(
            state="running" if run else "idle",
            turn=self.turns,
            message_ids=run.message_ids if run else (),
            queued=len(self.waiting),
        )

    def publish(self, event: TranscriptEntry | LiveEvent) -> None:
        for watch in self.watches:
            watch.hear(event)

    def enter(  # one line of a transcript has this many facets
        self,
        role: Literal["user", "assistant", "tool", "notice"],
        text: str,
        *,
        turn: int | None = None,
        message_id: MessageId | None = None,
        answers: tuple[MessageId, ...] = (),
        name: str = "",
        status: str = "",
    ) -> None:
        seq = len(self.entries) * 3 + 2  # places in a journal have gaps
        said = role in {"assistant", "notice"}
        entry = TranscriptEntry(
            seq=seq,
            role=role,
            text=text,
            at=START,
            turn=turn,
            message_id=message_id,
            delivery_id=DeliveryId(f"d{seq}") if said else None,
            answers=answers,
            name=name,
            status=status,
            model=MODEL if role == "assistant" else None,
        )
        self.entries.append(entry)
        self.publish(entry)


class FakeWatch:
    """Sees everything from the `with` on, until `lose`."""

    def __init__(self, talk: Talk, *, live: bool, changed: asyncio.Event) -> None:
        self._talk = talk
        self._changed = changed
        self._live = live
        self._heard: deque[TranscriptEntry | LiveEvent] = deque()
        self._more = asyncio.Event()
        self._lost = False

    def hear(self, event: TranscriptEntry | LiveEvent) -> None:
        if not self._live and not isinstance(event, TranscriptEntry | SessionStateChanged):
            return
        self._heard.append(event)
        self._more.set()

    def lose(self) -> None:
        self._lost = True
        self._more.set()

    def __enter__(self) -> Self:
        self._talk.watches.append(self)
        self._changed.set()
        return self

    def __exit__(self, *_: object) -> None:
        self._talk.watches.remove(self)
        self._changed.set()

    async def __aiter__(self) -> AsyncIterator[TranscriptEntry | LiveEvent]:
        while True:
            if self._lost:
                raise WatchLostError
            if self._heard:
                yield self._heard.popleft()
            else:
                self._more.clear()
                await self._more.wait()

    def now(self) -> tuple[SessionStateChanged, tuple[LiveEvent, ...]]:
        run = self._talk.running
        live: list[LiveEvent] = []
        if run and run.draft:
            live.append(DraftChanged(turn=run.turn, call=run.call, text=run.draft, whole=True))
        if run and run.question:
            live.append(run.question)
        return self._talk.state(), tuple(live)


class FakeDesk:
    """The whole Desk, in memory. `spoken` and `confirmed` are what was heard."""

    def __init__(self) -> None:
        self.spoken: list[MessageReceived] = []
        self.confirmed: list[tuple[SessionKey, CallId, bool, str]] = []
        self.talks: dict[SessionKey, Talk] = {}
        self.query_fails = ""
        """Why the next queries fail."""
        self.queries: list[tuple[str, tuple[object, ...]]] = []
        self.answers = Answer(b'{"columns": [], "truncated": null, "rows": []}', 0, None)
        self.searches: list[SearchAsked] = []
        self.finds = SearchFound(hits=(), total=0)
        self.letters: dict[int, DeadLetter] = {}
        self.wishes: list[AccessAsked] = []
        self.grants = AccessAnswered(done=True, text="It is so.")
        self.sent: list[SendAsked] = []
        self.platform_states: dict[str, PlatformState] = {}
        self.platform_wishes: list[tuple[str, str, str]] = []
        self.sends_end = SendEnded(delivery_id=DeliveryId("send-1"), state="posted", receipt="post-1")
        self.will_not_send = ""
        """Why the next orders are refused."""
        self._scripts: deque[Script] = deque()
        self._refusals: deque[str] = deque()
        self._ready = True
        self.trouble = ""
        """What `problem` says."""
        self._heard_one = asyncio.Event()
        self._watches_changed = asyncio.Event()

    # ------------------------------------------------------------------ verbs

    def will_answer(self, text: str, chunks: tuple[str, ...] | None = None) -> None:
        """Let the next turn answer at once; `chunks` are its drafts (by default the whole text)."""
        self._scripts.append(Script(chunks=(text,) if chunks is None else chunks, text=text))

    def will_answer_unseen(self, text: str) -> None:
        """Let the next turn answer at once, with all its drafts lost on the way."""
        self._scripts.append(Script(text=text))

    def will_fail(self, text: str, status: str = "failed") -> None:
        """Let the next turn end in a notice."""
        self._scripts.append(Script(text=text, failed=status))

    def will_use(self, tool: str, result: str, *, then: str) -> None:
        """Let the next turn run a tool, then answer."""
        self._scripts.append(Script(chunks=(then,), text=then, tool=(tool, result)))

    def will_ask(self, call_id: str, tool: str, arguments: str) -> None:
        """Let the next turn wait for a yes or no, which it then repeats as its answer."""
        self._scripts.append(Script(asks=(CallId(call_id), tool, arguments)))

    def streams(self, *chunks: str) -> None:
        """Let the next turn write this and then wait for `adds` and `finish`."""
        self._scripts.append(Script(chunks=chunks))

    def refuse(self, why: str) -> None:
        """Refuse the next message."""
        self._refusals.append(why)

    def adds(self, chunk: str, *, key: SessionKey | None = None) -> None:
        """Let the running turn write on."""
        talk, run = self._running(key)
        self._write(talk, run, chunk)

    def starts_over(self, *, key: SessionKey | None = None) -> None:
        """Let the running turn make another model call: its draft begins anew."""
        _, run = self._running(key)
        run.call += 1
        run.draft = ""

    def says_status(self, text: str, *, key: SessionKey | None = None) -> None:
        """Let the running turn say what it waits for."""
        talk, run = self._running(key)
        talk.publish(ModelStatusChanged(turn=run.turn, text=text))

    def uses(self, tool: str, result: str, *, key: SessionKey | None = None) -> None:
        """Let the running turn run a tool now."""
        talk, run = self._running(key)
        self._use_tool(talk, run, tool, result)

    def finish(self, text: str | None = None, *, key: SessionKey | None = None) -> None:
        """End the running turn with this answer (by default with what it has written)."""
        talk, run = self._running(key)
        self._end(talk, run, run.draft if text is None else text)

    def fails(self, text: str, status: str = "failed", *, key: SessionKey | None = None) -> None:
        """End the running turn with a notice."""
        talk, run = self._running(key)
        self._end(talk, run, text, failed=status)

    def lose_watches(self) -> None:
        """Tell all who watch that they were too slow."""
        for talk in self.talks.values():
            for watch in list(talk.watches):
                watch.lose()

    def is_ready(self, ready: bool) -> None:
        self._ready = ready

    async def heard(self, count: int) -> None:
        """Wait until so many messages were handed in, all told."""
        while len(self.spoken) < count:
            self._heard_one.clear()
            await self._heard_one.wait()

    async def watched_by(self, count: int) -> None:
        """Wait until exactly so many watch any session."""
        while self.watchers() != count:
            self._watches_changed.clear()
            await self._watches_changed.wait()

    def watchers(self) -> int:
        """Return how many watch any session."""
        return sum(len(talk.watches) for talk in self.talks.values())

    # ------------------------------------------------------------------- Desk

    async def speak(self, message: MessageReceived) -> Receipt:
        key = self.key_of(message.origin)
        talk = self._talk(key)
        self.spoken.append(message)
        self._heard_one.set()
        if self._refusals:
            why = self._refusals.popleft()
            return self._receipt(message, key, Acceptance.REFUSED, why)
        if message.message_id in talk.seen:
            return self._receipt(message, key, Acceptance.DUPLICATE)
        talk.seen.add(message.message_id)
        talk.enter("user", message.text, message_id=message.message_id)
        if talk.running is not None:
            talk.waiting.append(message)
            talk.publish(talk.state())
            return self._receipt(message, key, Acceptance.QUEUED)
        self._begin(talk, message)
        return self._receipt(message, key, Acceptance.ACCEPTED)

    def platforms(self) -> tuple[PlatformState, ...]:
        return tuple(self.platform_states.values())

    async def control_platform(self, name: str, wish: PlatformWish, *, by: str) -> PlatformState:
        if name not in self.platform_states:
            raise PlatformControlError(f"There is no platform {name!r} in the settings. There are: none.")
        self.platform_wishes.append((name, wish, by))
        state = "paused" if wish == "pause" else "waiting"
        self.platform_states[name] = PlatformState(name=name, state=state)
        return self.platform_states[name]

    async def send(self, asked: SendAsked) -> SendEnded:
        self.sent.append(asked)
        if self.will_not_send:
            raise SendRefusedError(self.will_not_send)
        return self.sends_end

    async def access(self, asked: AccessAsked) -> AccessAnswered:
        self.wishes.append(asked)
        return self.grants

    def key_of(self, origin: Origin) -> SessionKey:
        if not (origin.chat or origin.user):
            raise ValueError("a direct message with neither a chat nor a user names nobody")
        parts = (
            origin.profile,
            origin.platform,
            origin.account,
            origin.chat_type,
            origin.chat or origin.user,
        )
        quoted = [quote(str(part), safe="") for part in (*parts, *filter(None, [origin.thread]))]
        return SessionKey("agent:" + ":".join(quoted))

    async def stop(self, key: SessionKey) -> bool:
        talk = self.talks.get(key)
        if talk is None or talk.running is None:
            return False
        self._end(talk, talk.running, "Stopped.", failed="stopped")
        return True

    async def confirm(self, key: SessionKey, call_id: CallId, *, yes: bool, by: str) -> bool:
        talk = self.talks.get(key)
        run = talk.running if talk else None
        if talk is None or run is None or run.question is None or run.question.call_id != call_id:
            return False
        self.confirmed.append((key, call_id, yes, by))
        name = run.question.name
        run.question = None
        self._use_tool(talk, run, name, "done" if yes else "not allowed")
        self._end(talk, run, "You said yes." if yes else "You said no.")
        return True

    async def transcript(self, key: SessionKey, after: int = 0) -> tuple[TranscriptEntry, ...]:
        talk = self.talks.get(key)
        return tuple(entry for entry in talk.entries if entry.seq > after) if talk else ()

    async def sessions(self) -> tuple[SessionSummary, ...]:
        return tuple(self._summary(talk) for talk in reversed(self.talks.values()) if talk.entries)

    async def query(
        self, sql: str, params: Sequence[object] = (), *, timeout_s: float, max_rows: int
    ) -> Answer:
        self.queries.append((sql, tuple(params)))
        if self.query_fails:
            raise QueryError(self.query_fails)
        return self.answers

    async def erase(self, key: SessionKey) -> SessionErased:
        talk = self.talks.pop(key, None)
        if talk is None:
            raise UnknownSessionError(f"there is no session {key!r}")
        return SessionErased(session_key=key, facts=len(talk.entries))

    async def search(self, asked: SearchAsked) -> SearchFound:
        """Search as the real one reads words; what is found was put there by the test."""
        understand(asked.words)
        self.searches.append(asked)
        return self.finds

    def watch(self, key: SessionKey, *, live: bool = True) -> FakeWatch:
        return FakeWatch(self._talk(key), live=live, changed=self._watches_changed)

    def status(self) -> StatusReport:
        return StatusReport(
            version="0.0.0",
            pid=1,
            life="life-1",
            started_at=START,
            uptime_s=1.0,
            home="/nowhere",
            model=MODEL,
            sessions_awake=len(self.talks),
            turns_running=sum(talk.running is not None for talk in self.talks.values()),
            turns_done=sum(talk.turns for talk in self.talks.values()),
            mailbox_refusals=0,
            loop_lag_ms=0.0,
            incidents=0,
            store={},
        )

    def metrics(self) -> bytes:
        return b"# HELP callboard_turns_total Turns.\n# TYPE callboard_turns_total counter\ncallboard_turns_total 1.0\n"

    async def dead_letters(self) -> tuple[DeadLetter, ...]:
        return tuple(self.letters.values())

    async def retry_dead_letter(self, number: int, *, by: str) -> DeadLetter:
        return self._decided(number, "retried", by)

    async def drop_dead_letter(self, number: int, *, by: str) -> DeadLetter:
        return self._decided(number, "dropped", by)

    def _decided(self, number: int, how: str, by: str) -> DeadLetter:
        letter = self.letters.get(number)
        if letter is None or letter.state != "open":
            raise DeadLetterError(f"there is no open dead letter {number}")
        change: dict[str, object] = {"state": how, "closed_by": by, "closed_at": START}
        if how == "retried":
            change["retried_as"] = f"{letter.message_id or letter.delivery_id}~{number}"
        self.letters[number] = letter.model_copy(update=change)
        return self.letters[number]

    def ready(self) -> bool:
        return self._ready

    async def back_up(self, copy: Path) -> int:
        with copy.open("xb") as file:
            return file.write(b"a copy")

    def problem(self) -> str:
        return self.trouble

    def models(self) -> tuple[ModelRef, ...]:
        return (MODEL,)

    # ---------------------------------------------------------------- private

    def _talk(self, key: SessionKey) -> Talk:
        return self.talks.setdefault(key, Talk(key))

    def _running(self, key: SessionKey | None) -> tuple[Talk, Running]:
        for talk in [self.talks[key]] if key else self.talks.values():
            if talk.running is not None:
                return talk, talk.running
        raise AssertionError("no turn is running")

    @staticmethod
    def _receipt(message: MessageReceived, key: SessionKey, what: Acceptance, why: str = "") -> Receipt:
        return Receipt(message_id=message.message_id, session_key=key, acceptance=what, why=why)

    def _begin(self, talk: Talk, message: MessageReceived) -> None:
        talk.turns += 1
        run = talk.running = Running(turn=talk.turns, message_ids=(message.message_id,))
        talk.publish(talk.state())
        said = f"you said: {message.text}"
        script = self._scripts.popleft() if self._scripts else Script(chunks=(said,), text=said)
        if script.tool:
            self._use_tool(talk, run, *script.tool)
            run.call += 1
        for chunk in script.chunks:
            self._write(talk, run, chunk)
        if script.asks:
            call_id, name, arguments = script.asks
            run.question = ConfirmationAsked(turn=run.turn, call_id=call_id, name=name, arguments=arguments)
            talk.publish(run.question)
        elif script.text is not None:
            self._end(talk, run, script.text, failed=script.failed)

    @staticmethod
    def _write(talk: Talk, run: Running, chunk: str) -> None:
        run.draft += chunk
        talk.publish(DraftChanged(turn=run.turn, call=run.call, text=chunk))

    @staticmethod
    def _use_tool(talk: Talk, run: Running, tool: str, result: str) -> None:
        call_id = CallId(f"call-{run.turn}-{run.call}")
        talk.publish(ToolProgressed(turn=run.turn, call_id=call_id, name=tool, phase="began", text="{}"))
        talk.enter("tool", result, turn=run.turn, name=tool, status="ok")
        talk.publish(ToolProgressed(turn=run.turn, call_id=call_id, name=tool, phase="ended", text=result))

    def _end(self, talk: Talk, run: Running, text: str, *, failed: str | None = None) -> None:
        talk.running = None
        role: Literal["notice", "assistant"] = "assistant" if failed is None else "notice"
        talk.enter(role, text, turn=run.turn, answers=run.message_ids, status=failed or "")
        talk.publish(talk.state())
        if talk.waiting:
            self._begin(talk, talk.waiting.popleft())

    @staticmethod
    def _summary(talk: Talk) -> SessionSummary:
        return SessionSummary(
            session_key=talk.key,
            session_id=f"s-{abs(hash(talk.key))}",
            title=talk.entries[0].text[:60],
            state="running" if talk.running else "idle",
            messages=sum(entry.role == "user" for entry in talk.entries),
            turns=talk.turns,
            last_at=talk.entries[-1].at,
        )
