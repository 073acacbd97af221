"""From Discord's payloads to what the front desk hears. Pure, and never raises: odd payloads are refused.

What comes in is doubted field by field: ids are digits, texts are texts, lists hold
objects. Names are data, trimmed and nothing else.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from actors.gateway.attachments import safe_name
from actors.gateway.platforms.discord.directory import (
    Channel,
    Directory,
    as_dict,
    as_dicts,
    as_id,
    as_int,
    as_text,
    millis,
    read_channel,
)
from messages.gateway import (
    Author,
    ChatType,
    MessageDeleted,
    MessageEdited,
    MessageReceived,
    Origin,
    Quote,
    Surroundings,
)
from messages.ids import MessageId

LONGEST_TEXT = 16_000
LONGEST_QUOTE = 4000
MOST_ATTACHMENTS = 10
SAID_BY_PEOPLE = (0, 19, 20, 23)
"""Kinds of messages that somebody wrote: plain, a reply, and the answer of a command. Others tell of
joins, pins, boosts and the like."""

_MARKS = re.compile(
    r"<@!?(?P<user>\d{1,20})>|<@&(?P<role>\d{1,20})>|<#(?P<channel>\d{1,20})>"
    r"|<a?:(?P<emoji>\w{1,64}):\d{1,20}>|</(?P<command>[^:<>\n]{1,100}):\d{1,20}>"
)


@dataclass(frozen=True, slots=True)
class Refusal:
    """Something that is not handed in, and why."""

    why: str


@dataclass(frozen=True, slots=True)
class Attached:
    """A file at Discord; its address is good for a day at most."""

    name: str
    url: str
    mime: str
    size: int | None


@dataclass(frozen=True, slots=True)
class Incoming:
    """A message, and what is attached to it, not fetched yet."""

    message: MessageReceived
    attached: tuple[Attached, ...] = ()


@dataclass(frozen=True, slots=True)
class Asked:
    """A native command or a pressed button: what is heard of it, and what answers it."""

    message: MessageReceived
    token: str
    application: str
    channel: str
    button: bool


@dataclass(frozen=True, slots=True)
class Ourselves:
    """Who we are, and where."""

    user: str
    name: str
    application: str
    platform: str
    account: str


@dataclass(frozen=True, slots=True)
class Translator:
    """Translates for one account."""

    us: Ourselves
    places: Directory
    now: Callable[[], datetime]

    # ------------------------------------------------------------------ messages

    def message(self, data: Mapping[str, Any]) -> Incoming | Refusal:
        """Translate MESSAGE_CREATE, or a message of a channel's history."""
        identity, channel = as_id(data.get("id")), as_id(data.get("channel_id"))
        author = self.author(data)
        if identity is None or channel is None or author is None:
            return Refusal("without an id, a channel or an author")
        if author.id == self.us.user:
            return Refusal("our own")
        kind = as_int(data.get("type")) or 0
        if kind not in SAID_BY_PEOPLE:
            return Refusal("a message of the system")
        content = as_text(data.get("content"), LONGEST_TEXT)
        attached = attachments(data)
        text = self.text(content, data) or _other_content(data, self)
        if not text and not attached and not content:
            return Refusal("without content")
        origin = self.origin(channel, as_id(data.get("guild_id")), author.id)
        return Incoming(
            MessageReceived(
                message_id=MessageId(identity),
                origin=origin,
                author=author,
                text=text,
                mentions_us=self._names_us(content, data),
                quote=self._quote(data),
                surroundings=self.surroundings(channel, origin),
                sent_at=_instant(data.get("timestamp")) or _made(identity),
                at=self.now(),
            ),
            attached,
        )

    def edit(self, data: Mapping[str, Any]) -> MessageEdited | Refusal:
        """Translate MESSAGE_UPDATE; link previews and pins, which change no text, are refused."""
        identity, channel = as_id(data.get("id")), as_id(data.get("channel_id"))
        author = self.author(data)
        if identity is None or channel is None or author is None:
            return Refusal("without an id, a channel or an author")
        if author.id == self.us.user:
            return Refusal("our own")
        if _instant(data.get("edited_timestamp")) is None or not isinstance(data.get("content"), str):
            return Refusal("its text did not change")
        if (as_int(data.get("type")) or 0) not in SAID_BY_PEOPLE:
            return Refusal("a message of the system")
        return MessageEdited(
            message_id=MessageId(identity),
            origin=self.origin(channel, as_id(data.get("guild_id")), author.id),
            author=author,
            text=self.text(as_text(data.get("content"), LONGEST_TEXT), data),
            at=self.now(),
        )

    def deletion(self, data: Mapping[str, Any], identity: object) -> MessageDeleted | Refusal:
        """Translate MESSAGE_DELETE, or one id of MESSAGE_DELETE_BULK."""
        message, channel = as_id(identity), as_id(data.get("channel_id"))
        if message is None or channel is None:
            return Refusal("without an id or a channel")
        return MessageDeleted(
            message_id=MessageId(message),
            origin=self.origin(channel, as_id(data.get("guild_id")), None),
            at=self.now(),
        )

    # ------------------------------------------------------------------ commands and buttons

    def interaction(self, data: Mapping[str, Any]) -> Asked | Refusal:
        """Translate INTERACTION_CREATE."""
        identity, channel = as_id(data.get("id")), as_id(data.get("channel_id"))
        token, kind = data.get("token"), as_int(data.get("type"))
        member = as_dict(data.get("member"))
        author = self.author({"author": member.get("user") or data.get("user"), "member": member})
        if identity is None or channel is None or author is None:
            return Refusal("without an id, a channel or a user")
        if not isinstance(token, str) or not 0 < len(token) <= 1000 or kind not in (2, 3):
            return Refusal("an interaction of another kind")
        details = as_dict(data.get("data"))
        if kind == 3:
            text = as_text(details.get("custom_id"))
        elif (as_int(details.get("type")) or 1) == 1:
            text = _command(details, self)
        else:
            text = ""  # of a menu on users or messages: we register none
        if not text:
            return Refusal("an interaction without a command")
        told = read_channel(as_dict(data.get("channel")), as_id(data.get("guild_id")))
        origin = self.origin(channel, as_id(data.get("guild_id")), author.id, told)
        return Asked(
            MessageReceived(
                message_id=MessageId(identity),
                origin=origin,
                author=author,
                text=text,
                via="button" if kind == 3 else "command",
                surroundings=self.surroundings(channel, origin, told),
                sent_at=_made(identity),
                at=self.now(),
            ),
            token=token,
            application=as_id(data.get("application_id")) or self.us.application,
            channel=channel,
            button=kind == 3,
        )

    # ------------------------------------------------------------------ pieces

    def author(self, data: Mapping[str, Any]) -> Author | None:
        """Read who wrote a message; None when nobody did."""
        user = as_dict(data.get("author"))
        identity = as_id(user.get("id"))
        if identity is None:
            return None
        nick = as_text(as_dict(data.get("member")).get("nick"))
        bot = user.get("bot") is True or as_id(data.get("webhook_id")) is not None
        return Author(id=identity, name=nick or _name(user), bot=bot)

    def origin(
        self, channel: str, guild: str | None, user: str | None, told: Channel | None = None
    ) -> Origin:
        """Say where a message came from: a thread carries its parent as the chat."""
        known = self.places.channel(channel) or told
        guild = guild or (known.guild if known else None)
        thread = known is not None and known.is_thread
        kind = ChatType.THREAD if thread else ChatType.GROUP if guild else ChatType.DM
        return Origin(
            platform=self.us.platform,
            account=self.us.account,
            server=guild,
            chat_type=kind,
            chat=known.parent if known is not None and thread else channel,
            thread=channel if thread else None,
            user=user,
        )

    def surroundings(self, channel: str, origin: Origin, told: Channel | None = None) -> Surroundings:
        known = self.places.channel(channel) or told
        chat = self.places.channel(origin.chat) if origin.thread else known
        return Surroundings(
            server=self.places.guilds.get(origin.server or "", ""),
            chat=chat.name if chat else "",
            thread=known.name if origin.thread and known else "",
            topic=chat.topic if chat else "",
        )

    def text(self, content: str, data: Mapping[str, Any]) -> str:
        """Return a message's text as people see it, without our own mention at its start."""
        ours = re.compile(rf"\s*<@!?{self.us.user}>[\s,:]*")
        while (found := ours.match(content)) is not None:
            content = content[found.end() :]
        names = {as_id(user.get("id")): _name(user) for user in as_dicts(data.get("mentions"), 200)}
        names[self.us.user] = self.us.name

        def shown(mark: re.Match[str]) -> str:
            match mark.lastgroup:
                case "user":
                    return f"@{_line(names.get(mark['user']) or mark['user'])}"
                case "role":
                    return f"@{_line(self.places.roles.get(mark['role']) or mark['role'])}"
                case "channel":
                    place = self.places.channel(mark["channel"])
                    return f"#{_line(place.name if place and place.name else mark['channel'])}"
                case "emoji":
                    return f":{mark['emoji']}:"
                case _:
                    return f"/{mark['command']}"

        return _MARKS.sub(shown, content).strip()

    def _names_us(self, content: str, data: Mapping[str, Any]) -> bool:
        """Whether we are mentioned by id. A reply that pings us mentions us without naming us: not here."""
        if f"<@{self.us.user}>" not in content and f"<@!{self.us.user}>" not in content:
            return False
        # In code, a mention is text: Discord's own list decides.
        mentions = data.get("mentions")
        return any(as_id(user.get("id")) == self.us.user for user in as_dicts(mentions, 200))

    def _quote(self, data: Mapping[str, Any]) -> Quote | None:
        reference = as_dict(data.get("message_reference"))
        identity = as_id(reference.get("message_id"))
        if identity is None or as_int(reference.get("type")) == 1:  # 1: forwarded
            return None
        return self.quote(identity, as_dict(data.get("referenced_message")))

    def quote(self, identity: str, quoted: Mapping[str, Any]) -> Quote:
        """Say what a message replies to, or a thread began under; `quoted` is empty where that is gone."""
        author = self.author(quoted)
        text = self.text(as_text(quoted.get("content"), LONGEST_QUOTE), quoted)
        return Quote(
            message_id=MessageId(identity),
            author=author,
            text="\n".join(filter(None, (text or _other_content(quoted, self), _attached_names(quoted)))),
            ours=author is not None and author.id == self.us.user,
        )


def attachments(data: Mapping[str, Any]) -> tuple[Attached, ...]:
    """Read what is attached to a message, or to the message that it forwards."""
    found = [
        Attached(
            name=as_text(each.get("filename"), 300),
            url=url,
            mime=as_text(each.get("content_type")),
            size=size if (size := as_int(each.get("size"))) is not None and size >= 0 else None,
        )
        for each in as_dicts(data.get("attachments"), MOST_ATTACHMENTS)
        if isinstance(url := each.get("url"), str) and url.startswith(("https://", "http://"))
    ]
    if not found and (forwarded := _forwarded(data)):
        return attachments({"attachments": forwarded.get("attachments")})
    return tuple(found)


def _attached_names(data: Mapping[str, Any]) -> str:
    names = ", ".join(safe_name(each.name) for each in attachments(data))
    return f"[attached: {names}]" if names else ""


def _forwarded(data: Mapping[str, Any]) -> Mapping[str, Any]:
    first = next(as_dicts(data.get("message_snapshots"), 1), {})
    return as_dict(first.get("message"))


def _other_content(data: Mapping[str, Any], translator: Translator) -> str:
    """Say in words what a message without text shows."""
    forwarded = _forwarded(data)
    if forwarded:
        text = translator.text(as_text(forwarded.get("content"), LONGEST_TEXT), forwarded)
        return f"[forwarded] {text}" if text else "[forwarded]"
    lines = [f"[sticker {_line(as_text(s.get('name')))}]" for s in as_dicts(data.get("sticker_items"), 5)]
    question = as_text(as_dict(as_dict(data.get("poll")).get("question")).get("text"), 500)
    if question:
        answers = as_dicts(as_dict(data.get("poll")).get("answers"), 20)
        texts = [as_text(as_dict(a.get("poll_media")).get("text")) for a in answers]
        lines.append(f"[poll] {question}: {', '.join(filter(None, texts))}")
    for embed in as_dicts(data.get("embeds"), 10):
        title, words = as_text(embed.get("title"), 300), as_text(embed.get("description"), 4096)
        lines += [line for line in (title, words) if line]
    return "\n".join(lines)


def _command(details: Mapping[str, Any], translator: Translator) -> str:
    name = as_text(details.get("name"), 32)
    if not name:
        return ""
    words = [f"/{name}"]
    users = as_dict(as_dict(details.get("resolved")).get("users"))
    named = {"mentions": list(users.values())[:200]}
    options = as_dicts(details.get("options"), 25)
    for _ in range(3):  # a sub-command is an option that has options
        inner: list[Mapping[str, Any]] = []
        for option in options:
            value = option.get("value")
            if isinstance(value, str):
                words.append(translator.text(value[:LONGEST_TEXT], named))
            elif isinstance(value, bool):
                words.append("true" if value else "false")
            elif isinstance(value, int | float):
                words.append(str(value)[:50])
            elif isinstance(option.get("options"), list):
                words.append(as_text(option.get("name"), 32))
                inner += as_dicts(option.get("options"), 25)
        options = iter(inner)
    return " ".join(word for word in words if word)


def _name(user: Mapping[str, Any]) -> str:
    return as_text(user.get("global_name")) or as_text(user.get("username"))


def _line(name: str) -> str:
    return " ".join(name.split())


def _instant(value: object) -> datetime | None:
    if not isinstance(value, str) or len(value) > 64:
        return None
    try:
        instant = datetime.fromisoformat(value)
        return (instant if instant.tzinfo else instant.replace(tzinfo=UTC)).astimezone(UTC)
    except (ValueError, OverflowError):
        return None


def _made(identity: str) -> datetime | None:
    try:
        return datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=millis(identity))
    except (ValueError, OverflowError):
        return None
