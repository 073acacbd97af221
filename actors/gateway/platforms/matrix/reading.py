"""Reading the rooms: the sync loop, what was missed, invitations, rooms that move.

Each room has a line of its own: a slow download in one holds no other. A sync token is
kept only when all that came before it is durable; after a crash the rest comes again,
and the front desk knows it by its ids.
"""

import asyncio
import fnmatch
from collections import deque
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from typing import Any

import structlog

from actors.gateway.edge import EdgeContext, EdgeError, LastHeard
from actors.gateway.keeping import Keeping
from actors.gateway.platforms.matrix.hearing import Hearing
from actors.gateway.platforms.matrix.options import MatrixOptions
from actors.gateway.platforms.matrix.progress import Progress
from actors.gateway.platforms.matrix.recent import Bounded
from actors.gateway.platforms.matrix.session import Session, path
from actors.gateway.platforms.matrix.translate import Room

log = structlog.get_logger(__name__)

MOST_ON_THE_WAY = 1000
"""Rooms' batches that wait to become durable, before reading waits too."""

MOST_MISSED = 500
"""Events of one room that are fetched after a gap; of more, the newest."""

JOIN_TRIES = 3
KEYS_S = 60.0
"""For so long a key may come that is needed for a message that cannot be read yet."""


@dataclass(frozen=True, slots=True)
class Batch:
    """What one sync brought for one room."""

    token: str
    """Of the sync."""
    room_id: str
    events: tuple[Any, ...]
    missed: str | None = None
    """Between the last sync and these events there are more, before this token."""
    until: str = ""
    """What was read before."""
    joined: bool = False
    """We have just come into the room."""


class Reader:
    """Reads for one connection."""

    def __init__(
        self, options: MatrixOptions, context: EdgeContext, session: Session, hearing: Hearing
    ) -> None:
        self._options = options
        self._context = context
        self._session = session
        self._hearing = hearing
        self._keeping = Keeping.of(context)
        self._progress = Progress()
        self._lines: dict[str, deque[Batch]] = {}
        self._tasks: set[asyncio.Task[Any]] = set()
        self._failed: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._room_again = asyncio.Event()
        self._to_keep = asyncio.Event()
        self._writing: asyncio.Future[None] | None = None
        self._unread: Bounded[str, tuple[float, str, Any]] = Bounded(500)
        """Encrypted events without a key yet: when they came, their room, the event as the library has it."""

    # ------------------------------------------------------------------ syncing

    async def run(self, connected: Callable[[], None]) -> None:
        """Read until it fails. Raises EdgeError, or what failed while handing in."""
        await self._start()
        connected()
        await self._go_on()

    async def _start(self) -> None:
        """Read what there is: the state of all rooms, and what was missed."""
        kept = self._keeping.read("sync")
        same = kept.get("user_id") == self._session.user_id
        since = str(kept.get("next_batch") or "") if same else ""
        self._hearing.told = set(kept.get("told") or ()) if same else set()
        self._progress.kept = since
        try:
            told = await self._session.sync(since, first=True)
        except EdgeError as error:
            if not since or "M_UNKNOWN_POS" not in error.problem.detail:
                raise
            log.warning(
                "the server does not know where we stopped reading; what was said since may be missed"
            )
            since = ""
            told = await self._session.sync(since, first=True)
        self._took(told, since)

    async def _go_on(self) -> None:
        loop = asyncio.ensure_future(self._read())
        self._background(self._keeper(), name="matrix:keeping")
        try:
            await asyncio.wait({loop, self._failed}, return_when=asyncio.FIRST_COMPLETED)
            for ended in (self._failed, loop):
                if ended.done():
                    ended.result()
        finally:
            await self._end(loop)

    async def _read(self) -> None:
        while True:
            while self._progress.on_the_way > MOST_ON_THE_WAY:
                self._room_again.clear()
                await self._room_again.wait()
            since = str(self._session.token)
            told = await self._session.sync(since, first=False)
            self._took(told, since)

    async def _end(self, loop: "asyncio.Future[None]") -> None:
        tasks = {loop, *self._tasks}
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        if not self._failed.done():
            self._failed.cancel()
        if self._writing is not None:
            await (
                self._writing
            )  # a thread cannot be stopped, and must not write after the next connection has
        if self._to_keep.is_set():
            self._keep(self._progress.kept, sorted(self._hearing.told)[-1000:])

    def _took(self, told: Any, since: str) -> None:
        """Put what a sync brought into the rooms' lines."""
        token = str(told.next_batch)
        batches = [
            batch
            for room_id, info in told.rooms.join.items()
            if (batch := self._batch(token, room_id, info, since)) is not None
        ]
        self._progress.begins(token, len(batches))
        for batch in batches:
            self._queue(batch)
        for room_id, invited in told.rooms.invite.items():
            self._invited(room_id, invited)
        if told.to_device_events:
            self._read_again()
        if not batches and self._progress.settled() is not None:
            self._to_keep.set()

    def _batch(self, token: str, room_id: str, info: Any, since: str) -> Batch | None:
        events = list(info.timeline.events)
        joined = self._joined_at(events) if since else None
        missed = info.timeline.prev_batch if info.timeline.limited and joined is None else None
        if joined is not None:
            events = events[joined:]
        elif not since:
            events, missed = self._later(room_id, events, missed)
        if not events and missed is None:
            return None
        for event in events:
            source = getattr(event, "source", None)
            if isinstance(source, dict) and source.get("type") == "m.room.encrypted":
                now = self._context.clock.monotonic()
                self._unread.put(str(source.get("event_id")), (now, room_id, event))
        sources = tuple(getattr(event, "source", None) for event in events)
        return Batch(token, room_id, sources, missed, since, joined is not None)

    def _joined_at(self, events: list[Any]) -> int | None:
        """Where in a timeline we were invited, or else came in: what was said before was not said to us."""
        for at, event in enumerate(events):
            source = getattr(event, "source", None)
            if not isinstance(source, dict) or source.get("type") != "m.room.member":
                continue
            content = source.get("content")
            membership = content.get("membership") if isinstance(content, dict) else None
            before = (source.get("unsigned") or {}).get("prev_content") or {}
            if source.get("state_key") == self._session.user_id and membership in {"invite", "join"}:
                if membership == "join" and before.get("membership") == "join":
                    continue  # a new name or picture of ours
                return at
        return None

    def _later(self, room_id: str, events: list[Any], missed: str | None) -> tuple[list[Any], str | None]:
        """Without a token, only what came after the last message that was handed in from the room is new."""
        last = self._last_heard(room_id)
        if last is None:
            return [], None
        ids = [(getattr(event, "source", None) or {}).get("event_id") for event in events]
        if last.message_id in ids:
            return events[ids.index(last.message_id) + 1 :], None
        stamp = last.at.timestamp() * 1000
        sources = [getattr(event, "source", None) or {} for event in events]
        later = [
            event
            for event, source in zip(events, sources, strict=True)
            if isinstance(source.get("origin_server_ts"), int) and source["origin_server_ts"] > stamp
        ]
        return later, missed if len(later) == len(events) else None

    def _last_heard(self, room_id: str) -> LastHeard | None:
        found = [
            last
            for place, last in self._context.last_heard.items()
            if place == room_id or place.startswith(f"{room_id}:$")
        ]
        return max(found, key=lambda last: last.at, default=None)

    # ------------------------------------------------------------------ the rooms' lines

    def _queue(self, batch: Batch) -> None:
        line = self._lines.get(batch.room_id)
        if line is not None:
            line.append(batch)
            return
        self._lines[batch.room_id] = deque([batch])
        self._background(self._work(batch.room_id), name=f"matrix:{batch.room_id}")

    def _background(self, work: Coroutine[Any, Any, None], name: str) -> None:
        task = asyncio.create_task(work, name=name)
        self._tasks.add(task)
        task.add_done_callback(self._worked)

    def _worked(self, task: "asyncio.Task[None]") -> None:
        self._tasks.discard(task)
        if task.cancelled():
            return
        error = task.exception()
        if error is not None and not self._failed.done():
            self._failed.set_exception(error)

    async def _work(self, room_id: str) -> None:
        line = self._lines[room_id]
        while line:
            batch = line[0]
            await self._hand_in(batch)
            line.popleft()
            self._room_again.set()
            if self._progress.handed_in(batch.token) is not None:
                self._to_keep.set()
        del self._lines[room_id]

    async def _keeper(self) -> None:
        """Write down where reading stopped, as often as the disk likes."""
        while True:
            await self._to_keep.wait()
            self._to_keep.clear()
            token, told = self._progress.kept, sorted(self._hearing.told)[-1000:]
            self._writing = asyncio.ensure_future(asyncio.to_thread(self._keep, token, told))
            await asyncio.shield(self._writing)

    def _keep(self, token: str, told: list[str]) -> None:
        what = {"user_id": self._session.user_id, "next_batch": token, "told": told}
        try:
            self._keeping.write("sync", what)
        except OSError as error:
            # Nothing is lost: after the next start more is read again than needed.
            log.warning("where reading stopped could not be kept", error=str(error))

    async def _hand_in(self, batch: Batch) -> None:
        if batch.joined:
            for old in self._session.rooms_before(batch.room_id):
                await self._hearing.moved(old, batch.room_id)
        missed = await self._missed(batch) if batch.missed is not None else []
        last = await self._hearing.hand_in(self.room(batch.room_id), [*missed, *batch.events])
        if last is not None and self._options.read_receipts:
            await self._show_read(batch.room_id, last)

    async def _show_read(self, room_id: str, event_id: str) -> None:
        try:
            await self._session.call("POST", path("rooms", room_id, "receipt", "m.read", event_id), {})
        except EdgeError as error:
            log.debug("a read receipt was not taken", room=room_id, why=error.problem.detail)

    async def _missed(self, batch: Batch) -> list[Any]:
        """Fetch what lies between the last sync and this batch, oldest first."""
        assert batch.missed is not None
        last = self._last_heard(batch.room_id) if not batch.until else None
        start: str | None = batch.missed
        found: list[Any] = []
        while start is not None and len(found) < MOST_MISSED:
            events, start = await self._session.messages(batch.room_id, start, batch.until or None)
            ids = [event.get("event_id") if isinstance(event, dict) else None for event in events]
            if last is not None and last.message_id in ids:
                found += events[: ids.index(last.message_id)]
                start = None
            else:
                found += events
            if not events:
                break
        if start is not None and len(found) >= MOST_MISSED:
            log.warning("more was missed in a room than is fetched", room=batch.room_id, fetched=len(found))
        return found[:MOST_MISSED][::-1]

    # ------------------------------------------------------------------ encrypted rooms

    def _read_again(self) -> None:
        """New keys may have come: try what could not be read."""
        now = self._context.clock.monotonic()
        for since, room_id, event in tuple(self._unread.values()):
            event_id = event.source["event_id"]
            plain = self._session.decrypted(event)
            if plain is not None:
                self._unread.pop(event_id)
                self._queue(Batch("", room_id, (plain,)))
            elif now - since > KEYS_S:
                self._unread.pop(event_id)

    # ------------------------------------------------------------------ rooms

    def encrypted(self, room_id: str) -> bool:
        known = self._session.room(room_id)
        return bool(known is not None and known.encrypted)

    def room_with(self, user: str) -> str | None:
        """Return a room that we share with this person and nobody else."""
        return self._session.room_of_two(user)

    def room(self, room_id: str) -> Room:
        """Return what is known of a room."""
        known = self._session.room(room_id)
        if known is None:
            return Room(room_id)
        parent = next(iter(sorted(known.parents)), None)
        space = self._session.room(parent) if parent else None

        def name_of(user: str) -> str:
            member = known.users.get(user)
            return (member.display_name or "") if member is not None else ""

        return Room(
            room_id,
            known.member_count,
            known.name or known.canonical_alias or "",
            known.topic or "",
            parent,
            (space.name or "") if space is not None else "",
            name_of,
        )

    def _invited(self, room_id: str, invited: Any) -> None:
        inviter = next(
            (
                event.sender
                for event in invited.invite_state
                if getattr(event, "state_key", None) == self._session.user_id and hasattr(event, "membership")
            ),
            "",
        )
        wanted = any(fnmatch.fnmatchcase(inviter, pattern) for pattern in self._options.invites_from)
        if not self._options.accept_invites or not wanted:
            log.info("an invitation is not accepted", room=room_id, by=inviter)
            return
        self._background(self._join(room_id), name="matrix:join")

    async def _join(self, room_id: str) -> None:
        for attempt in range(1, JOIN_TRIES + 1):
            try:
                await self._session.call("POST", path("join", room_id), {}, doing="joining a room")
            except EdgeError as error:
                log.warning("a room could not be joined", room=room_id, why=error.problem.detail)
                if attempt == JOIN_TRIES:
                    return
                await self._context.clock.sleep(error.problem.retry_after_s or 5.0 * attempt)
            else:
                return
