"""What a simulated Discord remembers: people, channels, messages, sessions. No network here."""

import itertools
import time
import uuid
from collections import deque
from dataclasses import dataclass, field
from typing import Any, Protocol

Json = dict[str, Any]

TOKEN = "sim-token.for-tests"
BOT = "100000000000000001"
APPLICATION = "100000000000000002"
GUILD = "200000000000000001"
BOT_NAME = "callboard"

GUILD_MESSAGES = 1 << 9
DIRECT_MESSAGES = 1 << 12
MESSAGE_CONTENT = 1 << 15
LOADING = 1 << 7
EPOCH_MS = 1_420_070_400_000
ALL_PERMISSIONS = str((1 << 50) - 1)
MOST_REPLAYED = 20_000


class Line(Protocol):
    """A websocket that events go to."""

    async def send(self, op: int, d: Any = None, t: str | None = None, s: int | None = None) -> None: ...


@dataclass
class Session:
    """A session of the gateway. It outlives its websocket."""

    intents: int
    id: str = field(default_factory=lambda: uuid.uuid4().hex)
    seq: int = 0
    replay: deque[tuple[int, str, Json]] = field(default_factory=lambda: deque(maxlen=MOST_REPLAYED))
    line: Line | None = None
    deaf: bool = False
    """Nothing is sent any more, and the session keeps nothing for later."""

    async def dispatch(self, name: str, data: Json) -> None:
        if self.deaf:
            return
        self.seq += 1
        self.replay.append((self.seq, name, data))
        if self.line is not None:
            await self.line.send(0, data, name, self.seq)


@dataclass
class Channel:
    """A channel, a thread, or a direct message."""

    id: str
    name: str
    type: int = 0
    guild: str | None = GUILD
    parent: str | None = None
    topic: str | None = None
    recipient: str | None = None
    last: str | None = None
    messages: dict[str, Json] = field(default_factory=dict)
    refuses: tuple[int, int] | None = None
    """(status, code) of every call here."""
    hidden: bool = False
    """Not told in GUILD_CREATE, like a thread that sleeps."""
    typing: int = 0

    def face(self) -> Json:
        face: Json = {"id": self.id, "type": self.type, "last_message_id": self.last, "flags": 0}
        if self.guild is None:
            return {**face, "recipients": [{"id": self.recipient, "username": self.name}]}
        face |= {"name": self.name, "guild_id": self.guild, "position": 0, "topic": self.topic, "nsfw": False}
        face |= {"parent_id": self.parent, "permission_overwrites": [], "rate_limit_per_user": 0}
        if self.type in (10, 11, 12):
            meta = {"archived": False, "auto_archive_duration": 1440, "locked": False}
            face |= {
                "thread_metadata": {**meta, "archive_timestamp": iso(time.time())},
                "owner_id": BOT,
                "message_count": 0,
                "member_count": 1,
            }
        return face


@dataclass
class Interaction:
    """A command or a pressed button, from the service's side."""

    id: str
    token: str
    channel: str
    made_at: float
    kind: int
    user: Json
    acknowledged: bool = False
    original: str | None = None

    def face(self) -> Json:
        """Return it as the messages that came of it carry it."""
        told = {"id": self.id, "type": self.kind, "user": self.user, "authorizing_integration_owners": {}}
        return {"interaction_metadata": told, "webhook_id": APPLICATION}


class World:
    """The service's memory."""

    def __init__(self) -> None:
        self.users: dict[str, Json] = {BOT: person(BOT, BOT_NAME, bot=True)}
        self.channels: dict[str, Channel] = {}
        self.ids: dict[str, str] = {}
        """Ids of what tests call by name."""
        self.names: dict[str, str] = {}
        self.messages: dict[str, Json] = {}
        self.posted_at: dict[str, float] = {}
        self.sessions: dict[str, Session] = {}
        self.interactions: dict[str, Interaction] = {}
        self.commands: list[Json] = []
        self.nonces: dict[str, tuple[str, float]] = {}
        self.reactions: list[Json] = []
        self.files: dict[str, bytes] = {}
        self.base = ""
        self.offset = 0.0
        """How far the service's clock is ahead of ours."""
        self.content_allowed = True
        """Whether the Message Content intent is switched on."""
        self.flags = 1 << 19
        self._count = itertools.count(1)
        self._roles = {"500000000000000001": "moderators"}

    def now(self) -> float:
        return time.time() + self.offset

    def snowflake(self) -> str:
        return str(((int(self.now() * 1000) - EPOCH_MS) << 22) | (next(self._count) & 0x3FFFFF))

    # ------------------------------------------------------------------ who and where

    def id_of(self, name: str) -> str:
        """Return the id of what a test calls by name; digits are ids already."""
        if name.isdigit():
            return name
        if name not in self.ids:
            self.ids[name] = self.snowflake()
            self.names[self.ids[name]] = name
        return self.ids[name]

    def user(self, name: str, *, bot: bool = False, shown: str | None = None) -> str:
        identity = self.id_of(name)
        if identity not in self.users or shown is not None:
            self.users[identity] = person(identity, shown or name, bot=bot)
        return identity

    def member(self, user: str) -> Json:
        return {"roles": [], "joined_at": iso(0), "deaf": False, "mute": False, "flags": 0, "nick": None}

    async def channel(self, name: str, *, dm: str | None = None, **more: Any) -> Channel:
        identity = self.id_of(name)
        if identity not in self.channels:
            guild = None if dm is not None else GUILD
            channel = Channel(identity, name, 1 if dm is not None else 0, guild, recipient=dm, **more)
            self.channels[identity] = channel
            if dm is None:
                await self.dispatch("CHANNEL_CREATE", channel.face())
        return self.channels[identity]

    async def thread(
        self, name: str, parent: Channel, *, hidden: bool = False, under: str | None = None
    ) -> Channel:
        """Return a thread, made when it is new; it has the id of the message `under` which it begins."""
        identity = self.ids.setdefault(name, under) if under is not None else self.id_of(name)
        if identity not in self.channels:
            self.channels[identity] = Channel(identity, name, 11, GUILD, parent=parent.id, hidden=hidden)
            if not hidden:
                await self.dispatch("THREAD_CREATE", self.channels[identity].face() | {"newly_created": True})
        return self.channels[identity]

    def guild_face(self) -> Json:
        told = [c for c in self.channels.values() if c.guild == GUILD and not c.hidden]
        role = {"color": 0, "hoist": False, "position": 0, "permissions": ALL_PERMISSIONS, "managed": False}
        named = {GUILD: "@everyone", **self._roles}
        return {
            "id": GUILD,
            "name": "Sim",
            "roles": [{**role, "id": identity, "name": name} for identity, name in named.items()],
            "channels": [c.face() for c in told if c.type not in (10, 11, 12)],
            "threads": [c.face() for c in told if c.type in (10, 11, 12)],
            "members": [],
            "member_count": len(self.users),
            "emojis": [],
            "unavailable": False,
        }

    # ------------------------------------------------------------------ messages

    def add(self, channel: Channel, author: str, content: str, **more: Any) -> Json:
        """Put a message into a channel; `more` are fields of it."""
        identity = self.snowflake()
        named = [u for u in self.users.values() if f"<@{u['id']}>" in content or f"<@!{u['id']}>" in content]
        message: Json = {
            "id": identity,
            "channel_id": channel.id,
            "author": self.users[author],
            "content": content,
            "timestamp": iso(self.now()),
            "edited_timestamp": None,
            "tts": False,
            "mention_everyone": False,
            "mentions": named,
            "mention_roles": [],
            "attachments": [],
            "embeds": [],
            "components": [],
            "pinned": False,
            "type": 0,
            "flags": 0,
            **more,
        }
        if (reference := message.get("message_reference")) is not None:
            known = self.messages.get(str(reference.get("message_id")))
            message |= {"type": 19, "referenced_message": known}
            if known is not None and known["author"]["id"] == BOT and author != BOT:
                # A reply pings whom it answers, unless people switch that off.
                message["mentions"] = [*named, self.users[BOT]] if self.users[BOT] not in named else named
        self.messages[identity] = channel.messages[identity] = message
        self.posted_at[identity] = time.monotonic()
        channel.last = identity
        return message

    def event(self, message: Json, *, with_nonce: str | None = None) -> Json:
        """Return a message as the gateway tells it."""
        channel = self.channels[message["channel_id"]]
        told = dict(message)
        if channel.guild is not None:
            told |= {"guild_id": channel.guild, "member": self.member(message["author"]["id"])}
        if with_nonce:
            told["nonce"] = with_nonce
        return told

    async def dispatch(self, name: str, data: Json) -> None:
        """Tell every session that wants to know."""
        for session in list(self.sessions.values()):
            wanted = GUILD_MESSAGES if data.get("guild_id") else DIRECT_MESSAGES
            if name.startswith("MESSAGE_") and not session.intents & wanted:
                continue
            await session.dispatch(name, self._censored(session, name, data))

    def _censored(self, session: Session, name: str, data: Json) -> Json:
        """Without the intent, texts of others are empty, unless they mention us or are direct messages."""
        if not name.startswith("MESSAGE_") or session.intents & MESSAGE_CONTENT or not data.get("guild_id"):
            return data
        if data.get("author", {}).get("id") == BOT or any(u["id"] == BOT for u in data.get("mentions", ())):
            return data
        return {**data, "content": "", "attachments": [], "embeds": [], "components": []}


def person(identity: str, name: str, *, bot: bool = False) -> Json:
    return {
        "id": identity,
        "username": name[:32] or "someone",
        "discriminator": "0",
        "global_name": name,
        "avatar": None,
        "bot": bot,
    }


def iso(seconds: float) -> str:
    whole = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(seconds))
    return f"{whole}.{int(seconds * 1_000_000) % 1_000_000:06d}+00:00"
