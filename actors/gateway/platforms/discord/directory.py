"""What the gateway tells of servers and channels: names, and which thread belongs where. Bounded; never raises."""

from collections import OrderedDict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

MOST_CHANNELS = 50_000
MOST_ROLES = 20_000
NAME = 100
TOPIC = 300

THREADS = (10, 11, 12)
FORUMS = (15, 16)
DIRECT = (1, 3)
EPOCH_MS = 1_420_070_400_000


def as_id(value: object) -> str | None:
    """Read a snowflake: digits, as text or as a number."""
    if isinstance(value, bool):
        return None
    if isinstance(value, int):
        return str(value) if 0 <= value < 1 << 64 else None
    if isinstance(value, str) and value.isascii() and value.isdigit() and len(value) <= 20:
        return value
    return None


def as_text(value: object, longest: int = NAME) -> str:
    return value[:longest] if isinstance(value, str) else ""


def as_dict(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}


def as_dicts(value: object, most: int = 10_000) -> Iterator[Mapping[str, Any]]:
    """Yield the objects of a list, whatever else is in it."""
    if isinstance(value, list):
        yield from (each for each in value[:most] if isinstance(each, dict))


def as_int(value: object) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def millis(snowflake: str) -> int:
    """Return when an id was made, in milliseconds since 1970."""
    return (int(snowflake) >> 22) + EPOCH_MS


def snowflake_at(seconds: float) -> str:
    """Return the lowest id of a moment, in seconds since 1970."""
    return str(max(0, int(seconds * 1000) - EPOCH_MS) << 22)


def later(a: str | None, b: str | None) -> bool:
    """Say whether the id `a` is newer than `b`; an absent one is the oldest."""
    return int(a or 0) > int(b or 0)


@dataclass(frozen=True, slots=True)
class Channel:
    """A channel or a thread."""

    id: str
    guild: str | None
    type: int
    name: str = ""
    topic: str = ""
    parent: str | None = None
    last: str | None = None
    """Its last message, as of when we were told of it."""

    @property
    def is_thread(self) -> bool:
        return self.type in THREADS and self.parent is not None


def read_channel(data: Mapping[str, Any], guild: str | None = None) -> Channel | None:
    """Read a channel object; None when it has no id."""
    identity = as_id(data.get("id"))
    if identity is None:
        return None
    return Channel(
        id=identity,
        guild=as_id(data.get("guild_id")) or guild,
        type=as_int(data.get("type")) or 0,
        name=as_text(data.get("name")),
        topic=as_text(data.get("topic"), TOPIC),
        parent=as_id(data.get("parent_id")),
        last=as_id(data.get("last_message_id")),
    )


class Directory:
    """Servers, channels and roles by id."""

    def __init__(self) -> None:
        self.guilds: dict[str, str] = {}
        self.roles: OrderedDict[str, str] = OrderedDict()
        self._channels: OrderedDict[str, Channel] = OrderedDict()

    def __len__(self) -> int:
        return len(self._channels)

    def channel(self, identity: str | None) -> Channel | None:
        return None if identity is None else self._channels.get(identity)

    def learn(self, channel: Channel) -> None:
        """Remember a channel in the place of what was known of it."""
        self._channels[channel.id] = channel
        self._channels.move_to_end(channel.id)
        if len(self._channels) > MOST_CHANNELS:
            self._channels.popitem(last=False)

    def hear(self, event: str, data: Mapping[str, Any]) -> tuple[Channel, ...]:
        """Take what an event says of places; return the channels that are new or changed by it."""
        match event:
            case "GUILD_CREATE":
                return self._guild(data)
            case "GUILD_UPDATE":
                self._named(data)
            case "GUILD_DELETE":
                self._forget_guild(data)
            case "CHANNEL_CREATE" | "CHANNEL_UPDATE" | "THREAD_CREATE" | "THREAD_UPDATE":
                channel = read_channel(data)
                if channel is not None:
                    self.learn(channel)
                    return (channel,)
            case "CHANNEL_DELETE" | "THREAD_DELETE":
                self._channels.pop(as_id(data.get("id")) or "", None)
            case "THREAD_LIST_SYNC":
                return self._learn_all(data.get("threads"), as_id(data.get("guild_id")))
            case "GUILD_ROLE_CREATE" | "GUILD_ROLE_UPDATE":
                self._role(as_dict(data.get("role")))
        return ()

    def _guild(self, data: Mapping[str, Any]) -> tuple[Channel, ...]:
        guild = self._named(data)
        if guild is None:
            return ()
        for role in as_dicts(data.get("roles"), 500):
            self._role(role)
        return (
            *self._learn_all(data.get("channels"), guild),
            *self._learn_all(data.get("threads"), guild),
        )

    def _named(self, data: Mapping[str, Any]) -> str | None:
        guild = as_id(data.get("id"))
        if guild is not None and (guild in self.guilds or len(self.guilds) < MOST_ROLES):
            self.guilds[guild] = as_text(data.get("name"))
        return guild

    def _forget_guild(self, data: Mapping[str, Any]) -> None:
        guild = as_id(data.get("id"))
        if guild is None or data.get("unavailable") is True:
            return  # an outage of Discord's: it comes back
        self.guilds.pop(guild, None)
        for identity in [c.id for c in self._channels.values() if c.guild == guild]:
            del self._channels[identity]

    def _learn_all(self, many: object, guild: str | None) -> tuple[Channel, ...]:
        channels = [c for each in as_dicts(many) if (c := read_channel(each, guild)) is not None]
        for channel in channels:
            self.learn(channel)
        return tuple(channels)

    def _role(self, role: Mapping[str, Any]) -> None:
        identity = as_id(role.get("id"))
        if identity is not None:
            self.roles[identity] = as_text(role.get("name"))
            if len(self.roles) > MOST_ROLES:
                self.roles.popitem(last=False)
