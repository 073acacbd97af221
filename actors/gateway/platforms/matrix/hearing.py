"""Handing in what was read: with what it replies to, its files, and only what is really somebody's change."""

import asyncio
from typing import Any

import structlog

from actors.gateway.edge import EdgeContext, EdgeError, Hear
from actors.gateway.platforms.matrix.media import Files
from actors.gateway.platforms.matrix.recent import Bounded, Known
from actors.gateway.platforms.matrix.session import Session, path
from actors.gateway.platforms.matrix.translate import (
    Counted,
    Moved,
    Outcome,
    Refusal,
    Room,
    Translated,
    Unreadable,
    Us,
    places_of,
    text_of,
    translate,
)
from messages.blocks import UserBlock
from messages.gateway import (
    Author,
    ChatMoved,
    ChatType,
    MessageDeleted,
    MessageEdited,
    MessageReceived,
    Origin,
    Quote,
)
from messages.ids import MessageId

log = structlog.get_logger(__name__)

FETCHES = 4
LOOK_UP_S = 10.0

CANNOT_READ = (
    "I cannot read this room: it is end-to-end encrypted. "
    "Whoever runs me can change that (`encryption: true`); or write to me in a room without encryption."
)


class Hearing:
    """What one connection hands in. Calls for one room come one after the other."""

    def __init__(
        self,
        context: EdgeContext,
        session: Session,
        files: Files,
        recent: Bounded[str, Known],
        us: Us,
        hear: Hear,
    ) -> None:
        self._context = context
        self._session = session
        self._files = files
        self._recent = recent
        self._us = us
        self._hear = hear
        self._fetching = asyncio.Semaphore(FETCHES)
        self.told: set[str] = set()
        """Rooms that were told that we cannot read them."""
        self.gone: Bounded[str, bool] = Bounded(1000)
        """Messages that somebody took away, ours too."""
        self._unknown_roots: Bounded[str, bool] = Bounded(1000)
        """Beginnings of threads that the server does not show us: it is not asked again."""
        self.counted = Counted()

    async def hand_in(self, room: Room, events: list[Any]) -> str | None:
        """Hand in events of a room in order; return the last one that was a message."""
        now = self._context.clock.now()
        outcomes = [translate(event, room, self._us, now) for event in events]
        fetched = [self._start_fetching(outcome) for outcome in outcomes]
        last: str | None = None
        try:
            for event, outcome, files in zip(events, outcomes, fetched, strict=True):
                if await self._one(outcome, room, files):
                    last = str(event["event_id"])
                else:
                    self._remember(event, room)
        finally:
            for task in filter(None, fetched):
                task.cancel()
        return last

    async def _one(self, outcome: Outcome, room: Room, files: "asyncio.Task[UserBlock] | None") -> bool:
        """Hand one thing in. Says whether it was a message."""
        match outcome:
            case Translated(heard=MessageReceived() as said):
                await self._said(outcome, said, room, files)
                return True
            case Translated(heard=MessageEdited() as edited):
                await self._edited(edited, room)
            case Translated(heard=MessageDeleted() as deleted):
                await self._deleted(deleted)
            case Moved():
                await self._follow(outcome)
            case Unreadable():
                await self._unreadable(outcome, room.id)
            case Refusal():
                self.counted.add(outcome)
                log.debug("an event was not understood", room=room.id, why=outcome.why)
            case _:
                pass
        return False

    def _start_fetching(self, outcome: Outcome) -> "asyncio.Task[UserBlock] | None":
        media = outcome.media if isinstance(outcome, Translated) else None
        if media is None:
            return None

        async def fetch() -> UserBlock:
            async with self._fetching:
                return await self._files.fetch(media)

        return asyncio.create_task(fetch(), name="matrix:fetch")

    async def _said(
        self,
        found: Translated,
        said: MessageReceived,
        room: Room,
        files: "asyncio.Task[UserBlock] | None",
    ) -> None:
        changed: dict[str, Any] = {}
        if found.reply_to is not None:
            changed["quote"] = await self._quote(found.reply_to, room)
        elif found.thread is not None:
            root = await self._root(found.thread, room)
            if root is not None and (root.ours or said.mentions_us):
                changed["quote"] = root
        if files is not None:
            changed["attachments"] = (await files,)
        self._recent.put(said.message_id, Known.message(said.author.id, said.text, found.thread))
        await self._hear(said.model_copy(update=changed) if changed else said)

    async def _root(self, event_id: str, room: Room) -> Quote | None:
        """What a thread began under: said to us when it is ours, and told to whoever is asked into it."""
        if event_id in self._unknown_roots:
            return None
        root = await self._quote(event_id, room)
        if root.author is None:
            self._unknown_roots.put(event_id, True)
        return root

    async def _quote(self, event_id: str, room: Room) -> Quote:
        known = await self._known(event_id, room)
        if known is None or known.kind != "message":
            return Quote(message_id=MessageId(event_id))
        ours = known.sender == self._us.user_id
        author = Author(id=known.sender, name=room.name_of(known.sender)[:200], bot=ours)
        return Quote(message_id=MessageId(event_id), author=author, text=known.text, ours=ours)

    async def _edited(self, edited: MessageEdited, room: Room) -> None:
        known = await self._known(edited.message_id, room)
        if known is not None and known.sender != edited.author.id:
            log.debug("an edit of somebody else's message is no edit", room=room.id)
            return
        if known is None or known.says(edited.text):
            return
        self._recent.put(edited.message_id, known.edited(edited.text))
        if known.thread is not None:
            edited = edited.model_copy(update={"origin": _in_thread(edited.origin, known.thread)})
        await self._hear(edited)

    async def _deleted(self, deleted: MessageDeleted) -> None:
        known = self._recent.get(deleted.message_id)
        self.gone.put(deleted.message_id, True)
        if known is not None and (known.kind == "other" or known.sender == self._us.user_id):
            return
        if known is not None and known.thread is not None:
            deleted = deleted.model_copy(update={"origin": _in_thread(deleted.origin, known.thread)})
        await self._hear(deleted)

    async def _known(self, event_id: str, room: Room) -> Known | None:
        """What we know of an event; the server is asked when we have forgotten it."""
        known = self._recent.get(event_id)
        if known is not None:
            return known
        try:
            async with asyncio.timeout(LOOK_UP_S):
                self._remember(await self._session.event(room.id, event_id), room)
        except (EdgeError, TimeoutError) as error:
            log.debug("a message could not be looked up", room=room.id, why=str(error))
        return self._recent.get(event_id)

    def _remember(self, event: Any, room: Room) -> None:
        if not isinstance(event, dict) or "state_key" in event or event.get("type") == "m.room.redaction":
            return
        event_id, sender, content = event.get("event_id"), event.get("sender"), event.get("content")
        if not isinstance(event_id, str) or not isinstance(sender, str) or event_id in self._recent:
            return
        content = content if isinstance(content, dict) else {}
        relates = content.get("m.relates_to")
        edit = isinstance(relates, dict) and relates.get("rel_type") == "m.replace"
        if event.get("type") not in {"m.room.message", "m.sticker"} or edit:
            if event.get("type") != "m.room.encrypted":
                self._recent.put(event_id, Known(sender, "other"))
            return
        text = text_of(content, room, self._us) if isinstance(content.get("body"), str) else ""
        self._recent.put(event_id, Known.message(sender, text, places_of(content)[0]))

    async def _unreadable(self, found: Unreadable, room_id: str) -> None:
        if found.sender == self._us.user_id:
            return
        log.warning("a message is encrypted and cannot be read", room=room_id, sender=found.sender)
        if not self._session.encrypting:
            await self._tell(room_id, CANNOT_READ)

    async def _tell(self, room_id: str, text: str) -> None:
        """Say once in a room why there is no answer."""
        if room_id in self.told:
            return
        self.told.add(room_id)
        content = {"msgtype": "m.notice", "body": text, "m.mentions": {}}
        try:
            await self._session.send(room_id, "m.room.message", content, f"told-{room_id}")
        except EdgeError as error:
            log.debug("the room could not be told", room=room_id, why=error.problem.detail)

    async def _follow(self, moved: Moved) -> None:
        """Follow a room to its successor. Where we need an invitation first, it is taken for one later."""
        try:
            await self._session.call("POST", path("join", moved.new), {}, doing="following a room")
        except EdgeError as error:
            log.warning("a room that moved cannot be followed yet", room=moved.old, why=error.problem.detail)

    async def moved(self, old: str, new: str) -> None:
        """Say that a room is another one now, if its successor, in which we are, says that too."""
        try:
            created = await self._session.call("GET", path("rooms", new, "state", "m.room.create"))
        except EdgeError as error:
            log.warning("a room's successor cannot be asked", room=new, why=error.problem.detail)
            return
        before = created.get("predecessor")
        if not isinstance(before, dict) or before.get("room_id") != old:
            log.warning("a room's successor does not know of it", room=old, successor=new)
            return
        now = self._context.clock.now()
        await self._hear(
            ChatMoved(platform=self._us.platform, account=self._us.account, old=old, new=new, at=now)
        )


def _in_thread(origin: Origin, thread: str) -> Origin:
    return origin.model_copy(update={"thread": thread, "chat_type": ChatType.THREAD})
