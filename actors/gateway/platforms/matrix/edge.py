"""The edge of a Matrix account: one login, its rooms."""

import secrets
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory

import structlog

from actors.clock import WallClock
from actors.gateway.edge import EdgeContext, EdgeError, Hear
from actors.gateway.keeping import Keeping
from actors.gateway.platforms.matrix.hearing import Hearing
from actors.gateway.platforms.matrix.media import Files
from actors.gateway.platforms.matrix.options import LIMITS, MatrixOptions
from actors.gateway.platforms.matrix.reading import Reader
from actors.gateway.platforms.matrix.recent import Bounded, Known
from actors.gateway.platforms.matrix.render import (
    KEY,
    MOST_EVENT,
    REACTIONS,
    Content,
    edit_of,
    edited_by,
    relation,
    size_of,
    text_content,
)
from actors.gateway.platforms.matrix.session import CALL_S, POLL_S, Session, opened, path
from actors.gateway.platforms.matrix.translate import Us
from messages.delivery import (
    DraftRemoved,
    DraftShown,
    EdgeView,
    Place,
    Post,
    ProblemKind,
    ReactionShown,
    TypingShown,
)

log = structlog.get_logger(__name__)

TYPING_MS = 10_000
MOST_LOOKED_AT = 300
"""Events of a room's history in which a post is looked for."""

DEAF_S = 2 * POLL_S + CALL_S
"""The server answers each sync within half a minute, with news or without."""


class MatrixEdge:
    """One account. Implements `actors.gateway.edge.Edge`."""

    def __init__(self, options: MatrixOptions, context: EdgeContext) -> None:
        self._options = options
        self._context = context
        self._keeping = Keeping.of(context)
        self._recent: Bounded[str, Known] = Bounded()
        self._reactions: Bounded[str, str] = Bounded(2000)
        """Our reactions, by the event that they stand on."""
        self._session: Session | None = None
        self._files: Files | None = None
        self._reader: Reader | None = None
        self._hearing: Hearing | None = None

    async def run(self, hear: Hear, connected: Callable[[], None]) -> None:
        async with opened(self._options, self._keeping, self._context.clock) as session:
            self._files = Files(
                session, self._context.files, self._options.fetch_bytes, LIMITS.file_bytes or MOST_EVENT
            )
            await self._files.ask_limit()
            self._hearing = Hearing(
                self._context, session, self._files, self._recent, self._us(session), hear
            )
            self._reader = Reader(self._options, self._context, session, self._hearing)
            self._session = session
            try:
                await self._reader.run(connected)
            finally:
                self._session = None

    async def say_alone(self, post: Post) -> str:
        """Log in, post once, and leave. Raises EdgeError."""
        async with opened(self._options, self._keeping, self._context.clock) as session:
            limit = LIMITS.file_bytes or MOST_EVENT
            self._files = Files(session, self._context.files, self._options.fetch_bytes, limit)
            self._session = session
            try:
                await self._refuse_encrypted(session, await self._room_of(post.place))
                return await self.say(post)
            finally:
                self._session = None
                if self._options.password is not None:
                    await session.log_out()

    @staticmethod
    async def _refuse_encrypted(session: Session, room: str) -> None:
        try:
            await session.call("GET", path("rooms", room, "state", "m.room.encryption"))
        except EdgeError as error:
            if error.problem.kind is not ProblemKind.TARGET_GONE:
                raise
            return  # there is no such setting
        raise EdgeError(
            ProblemKind.REFUSED, "the room is encrypted: only a running connection can post there"
        )

    def _us(self, session: Session) -> Us:
        return Us(
            session.user_id,
            self._context.platform,
            self._context.account,
            self._options.command_prefix,
            frozenset(command.name for command in self._context.commands),
        )

    def _connected(self) -> Session:
        if self._session is None:
            raise EdgeError(ProblemKind.NOT_CONNECTED, "not connected")
        return self._session

    # ------------------------------------------------------------------ saying

    async def say(self, post: Post) -> str:
        session = self._connected()
        room = await self._room_of(post.place)
        hidden = self._hidden(room)
        if post.body.file is not None or post.body.file_name is not None:
            return await self._say_file(session, room, post, hidden=hidden)
        content = self._fitting(text_content(post.body.text, notice=self._options.notices))
        content[KEY] = post.key
        self._address(content, post.reply_to)
        if post.draft is not None and self._stands(post.draft):
            await session.send(room, "m.room.message", edit_of(post.draft, content), post.key)
            return post.draft
        self._relate(content, post.place, post.reply_to)
        return await session.send(room, "m.room.message", content, post.key)

    async def _say_file(self, session: Session, room: str, post: Post, *, hidden: bool) -> str:
        assert self._files is not None
        content = await self._files.content(post.body, hidden=hidden)
        if post.body.file is not None and post.body.text.strip():
            shown = text_content(post.body.text)
            content |= {name: shown[name] for name in ("body", "format", "formatted_body") if name in shown}
        content |= {"m.mentions": {}, KEY: post.key}
        self._address(content, post.reply_to)
        self._relate(content, post.place, post.reply_to)
        sent = await session.send(room, "m.room.message", content, post.key)
        if post.draft is not None:
            await self._remove(session, room, post.draft)
        return sent

    def _stands(self, draft: str) -> bool:
        return self._hearing is None or draft not in self._hearing.gone

    def _hidden(self, room: str) -> bool:
        """Whether the room is encrypted. Nothing of ours is said in the open where people do not."""
        known = self._reader.encrypted(room) if self._reader is not None else False
        if known and not self._options.encryption:
            raise EdgeError(
                ProblemKind.REFUSED, "the room is encrypted, and this account has no `encryption: true`"
            )
        return known

    @staticmethod
    def _fitting(content: Content) -> Content:
        """Without its HTML where both do not fit."""
        if size_of(content) > MOST_EVENT:
            content = {k: v for k, v in content.items() if k not in {"format", "formatted_body"}}
        size = size_of(content)
        if size > MOST_EVENT:
            raise EdgeError(
                ProblemKind.REFUSED, f"the text has {size} bytes; a message may have {MOST_EVENT} here"
            )
        return content

    def _address(self, content: Content, reply_to: str | None) -> None:
        """Let the person whom we answer know; nobody else."""
        known = self._recent.get(reply_to) if reply_to is not None else None
        if known is not None and self._session is not None and known.sender != self._session.user_id:
            content["m.mentions"] = {"user_ids": [known.sender]}

    @staticmethod
    def _relate(content: Content, place: Place, reply_to: str | None) -> None:
        related = relation(place.thread, reply_to)
        if related:
            content["m.relates_to"] = related

    async def _room_of(self, place: Place) -> str:
        """Return the room: by id, by alias, or the one that we share with a person alone."""
        chat = place.chat or place.user or ""
        if chat.startswith("#"):
            found = await self._connected().call(
                "GET", path("directory", "room", chat), doing="finding a room"
            )
            return str(found.get("room_id") or chat)
        if chat.startswith("@"):
            room = self._reader.room_with(chat) if self._reader is not None else None
            if room is None:
                raise EdgeError(
                    ProblemKind.TARGET_GONE, f"there is no room with {chat} alone: they must invite us"
                )
            return room
        return chat

    async def find(self, post: Post) -> str | None:
        session = self._connected()
        room, looked, start = await self._room_of(post.place), 0, ""
        while looked < MOST_LOOKED_AT:
            events, end = await session.messages(room, start, None)
            for event in events:
                content = event.get("content") if isinstance(event, dict) else None
                if not isinstance(content, dict) or event.get("sender") != session.user_id:
                    continue
                if content.get(KEY) == post.key:
                    return edited_by(content) or str(event["event_id"])
            if not events or end is None:
                return None
            looked, start = looked + len(events), end
        return None

    # ------------------------------------------------------------------ views

    async def show(self, view: EdgeView) -> str | None:
        session = self._connected()
        room = await self._room_of(view.place)
        match view:
            case TypingShown():
                where = path("rooms", room, "typing", session.user_id)
                await session.call("PUT", where, {"typing": True, "timeout": TYPING_MS})
            case DraftShown():
                return await self._show_draft(session, room, view)
            case DraftRemoved():
                await self._remove(session, room, view.receipt)
            case ReactionShown():
                await self._react(session, room, view)
        return None

    async def _show_draft(self, session: Session, room: str, view: DraftShown) -> str | None:
        self._hidden(room)
        content = self._fitting(text_content(view.text, notice=self._options.notices))
        txn = f"draft-{secrets.token_hex(12)}"
        if view.receipt is not None:
            if self._stands(view.receipt):
                await session.send(room, "m.room.message", edit_of(view.receipt, content), txn)
            return None
        self._relate(content, view.place, view.reply_to)
        return await session.send(room, "m.room.message", content, txn)

    async def _remove(self, session: Session, room: str, event_id: str) -> None:
        where = path("rooms", room, "redact", event_id, f"gone-{secrets.token_hex(12)}")
        await session.call("PUT", where, {}, doing="taking a message back")

    async def _react(self, session: Session, room: str, view: ReactionShown) -> None:
        sign, earlier = REACTIONS.get(view.sign), self._reactions.pop(view.message_id)
        if earlier is not None:
            await self._remove(session, room, earlier)
        if sign is None:
            return
        about = {"rel_type": "m.annotation", "event_id": view.message_id, "key": sign}
        txn = f"sign-{secrets.token_hex(12)}"
        reaction = await session.send(room, "m.reaction", {"m.relates_to": about}, txn)
        self._reactions.put(view.message_id, reaction)

    # ------------------------------------------------------------------ alive?

    async def probe(self) -> None:
        session = self._connected()
        silent = self._context.clock.monotonic() - session.last_sync
        if silent > DEAF_S:
            raise EdgeError(
                ProblemKind.TRANSIENT, f"the server has answered no sync for {silent:.0f} seconds"
            )
        await session.call("GET", path("account", "whoami"), login=True)


async def standalone(options: MatrixOptions, post: Post) -> str:
    """Post without a connection that reads. Not into encrypted rooms. Raises EdgeError."""
    with TemporaryDirectory(prefix="callboard-matrix-") as folder:
        context = EdgeContext("matrix", "standalone", WallClock(), Path(folder) / "files")
        plain = options.model_copy(update={"encryption": False})
        return await MatrixEdge(plain, context).say_alone(post)
