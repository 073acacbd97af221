"""From a room's events to what is handed in. Pure and total: what cannot be read is a Refusal, never an error."""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from html import unescape
from typing import Any
from urllib.parse import unquote

from pydantic import ValidationError

from messages.gateway import (
    Author,
    ChatType,
    EdgeHeard,
    MessageDeleted,
    MessageEdited,
    MessageReceived,
    Origin,
    Quote,
    Surroundings,
)
from messages.ids import MessageId

LONGEST_NAME = 200
LONGEST_TEXT = 70_000
"""No event is longer."""

_ID = re.compile(r"^[^\s]{1,255}$")
_PILL = "https://matrix.to/#/"
_LINK = re.compile(
    r"""https://matrix\.to/\#/(?P<user>[^"'?<>\s]{1,600})[^<>]{0,600}>(?P<label>[^<]{0,600})"""
)
_FALLBACK = re.compile(r"^> <(@[^>\s]+)> ?")
_FILES = {"m.image", "m.file", "m.audio", "m.video"}
_TEXTS = {"m.text", "m.notice", "m.emote", "m.location"}


@dataclass(frozen=True, slots=True)
class Us:
    """Who we are on the server, and which commands people may write with our prefix."""

    user_id: str
    platform: str = "matrix"
    account: str = "main"
    prefix: str = "!"
    commands: frozenset[str] = frozenset()


def _no_name(_: str) -> str:
    return ""


@dataclass(frozen=True, slots=True)
class Room:
    """What is known of the room that an event came from."""

    id: str
    members: int = 3
    """Who is in it or invited, we too."""
    name: str = ""
    topic: str = ""
    server: str | None = None
    """The space that it belongs to."""
    server_name: str = ""
    name_of: Callable[[str], str] = _no_name
    """The display name of a member, by id."""


@dataclass(frozen=True, slots=True)
class Media:
    """A file that somebody attached, as the event describes it. All of it is theirs to choose."""

    mxc: str
    name: str
    mime: str
    size: int | None
    secret: Mapping[str, Any] | None = None
    """Of a file in an encrypted room: its key, its counter and its hash."""


@dataclass(frozen=True, slots=True)
class Translated:
    """Something to hand in, and what the edge has to look up before it does."""

    heard: EdgeHeard
    media: Media | None = None
    reply_to: str | None = None
    """The event that it replies to; its author and text are not in the event itself."""
    thread: str | None = None


@dataclass(frozen=True, slots=True)
class Moved:
    """The room was closed in favour of another one, as one of its events says."""

    old: str
    new: str


@dataclass(frozen=True, slots=True)
class Unreadable:
    """An encrypted event that we have no key for."""

    event_id: str
    sender: str


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why an event is not handed in, though it is somebody's."""

    why: str


Outcome = Translated | Moved | Unreadable | Refusal | None


def translate(event: object, room: Room, us: Us, at: datetime) -> Outcome:
    """Translate one event of a timeline; None for what is nobody's message."""
    try:
        return _translated(event, room, us, at)
    except (ValidationError, ValueError, OverflowError, RecursionError) as error:
        return Refusal(f"{type(error).__name__}: {str(error)[:200]}")


def _translated(event: object, room: Room, us: Us, at: datetime) -> Outcome:
    if not isinstance(event, Mapping):
        return Refusal("no object")
    event_id, sender, content = event.get("event_id"), event.get("sender"), event.get("content")
    if not _is_id(event_id) or not _is_id(sender) or not isinstance(content, Mapping):
        return Refusal("no id, sender or content")
    assert isinstance(event_id, str)
    assert isinstance(sender, str)
    kind = event.get("type")
    if kind == "m.room.tombstone" and "state_key" in event:
        new = content.get("replacement_room")
        return Moved(room.id, new) if isinstance(new, str) and _is_id(new) else None
    if sender == us.user_id or "state_key" in event:
        return None
    match kind:
        case "m.room.message" | "m.sticker":
            if not content:
                return None  # taken back before we saw it
            return _message(_Event(event, event_id, sender, content), room, us, at)
        case "m.room.redaction":
            return _taken_back(event, sender, content, room, us, at)
        case "m.room.encrypted":
            return Unreadable(event_id, sender)
        case _:
            return None


@dataclass(frozen=True, slots=True)
class _Event:
    whole: Mapping[Any, Any]
    id: str
    sender: str
    content: Mapping[Any, Any]

    @property
    def relation(self) -> Mapping[Any, Any]:
        return _mapping(self.content.get("m.relates_to"))


def _message(event: _Event, room: Room, us: Us, at: datetime) -> Outcome:
    if event.relation.get("rel_type") == "m.replace":
        return _edit(event, room, us, at)
    thread, reply_to = places_of(event.content)
    kind = "m.image" if event.whole.get("type") == "m.sticker" else _word(event.content.get("msgtype"))
    media = _media(event.content, kind) if kind in _FILES else None
    if kind not in _FILES | _TEXTS:
        return None  # a verification of devices, and what later versions bring
    if kind in _FILES and media is None:
        return Refusal("a file without an address")
    author = Author(id=event.sender, name=room.name_of(event.sender)[:LONGEST_NAME], bot=kind == "m.notice")
    heard = MessageReceived(
        message_id=MessageId(event.id),
        origin=origin_of(room, us, event.sender, thread),
        author=author,
        text=_said(event, kind, media, room, us),
        mentions_us=us.user_id in mentioned(event.content),
        quote=Quote(message_id=MessageId(reply_to)) if reply_to else None,
        surroundings=surroundings_of(room),
        sent_at=_sent_at(event.whole),
        at=at,
    )
    return Translated(heard, media, reply_to, thread)


def _said(event: _Event, kind: str, media: Media | None, room: Room, us: Us) -> str:
    if media is not None:
        body = _text(event.content.get("body"))
        name = event.content.get("filename")
        if not isinstance(name, str) or name == body or event.whole.get("type") == "m.sticker":
            return ""  # the body is the file's name
        return as_command(_ours_off(_named(body, event.content, us), event.content, room, us), us)
    text = text_of(event.content, room, us)
    if kind == "m.emote":
        return f"* {room.name_of(event.sender)[:LONGEST_NAME] or event.sender} {text}"
    return as_command(text, us)


def text_of(content: Mapping[Any, Any], room: Room, us: Us) -> str:
    """Return what somebody wrote, without what clients add: the reply's fallback, our own mention."""
    text = _without_fallback(_text(content.get("body")), content)
    return _ours_off(_named(text, content, us), content, room, us)


def _edit(event: _Event, room: Room, us: Us, at: datetime) -> Outcome:
    target, new = event.relation.get("event_id"), _mapping(event.content.get("m.new_content"))
    kind = _word(new.get("msgtype"))
    if not _is_id(target) or kind not in _FILES | _TEXTS:
        return Refusal("an edit of nothing")
    edited = _Event(event.whole, event.id, event.sender, new)
    media = _media(new, kind) if kind in _FILES else None
    heard = MessageEdited(
        message_id=MessageId(str(target)),
        origin=origin_of(room, us, event.sender, None),
        author=Author(id=event.sender, name=room.name_of(event.sender)[:LONGEST_NAME]),
        text=_said(edited, kind, media, room, us),
        at=at,
    )
    return Translated(heard)


def _taken_back(
    event: Mapping[Any, Any], sender: str, content: Mapping[Any, Any], room: Room, us: Us, at: datetime
) -> Outcome:
    target = event.get("redacts") or content.get("redacts")
    if not _is_id(target):
        return Refusal("a redaction of nothing")
    return Translated(
        MessageDeleted(message_id=MessageId(str(target)), origin=origin_of(room, us, sender, None), at=at)
    )


def origin_of(room: Room, us: Us, sender: str, thread: str | None) -> Origin:
    """Say where something was said. With one other person in the room it is a direct message."""
    kind = ChatType.DM if room.members <= 2 else ChatType.GROUP
    return Origin(
        platform=us.platform,
        account=us.account,
        server=room.server,
        chat_type=ChatType.THREAD if thread else kind,
        chat=room.id,
        thread=thread,
        user=sender,
    )


def surroundings_of(room: Room) -> Surroundings:
    return Surroundings(
        server=room.server_name[:LONGEST_NAME], chat=room.name[:LONGEST_NAME], topic=room.topic[:500]
    )


def places_of(content: Mapping[Any, Any]) -> tuple[str | None, str | None]:
    """Return the thread that a message belongs to, and what it replies to."""
    relation = _mapping(content.get("m.relates_to"))
    reply = _mapping(relation.get("m.in_reply_to")).get("event_id")
    reply_to = reply if _is_id(reply) else None
    root = relation.get("event_id")
    if relation.get("rel_type") != "m.thread" or not _is_id(root):
        return None, reply_to
    # In a thread, clients without threads are told to show a reply to the last message.
    return str(root), None if relation.get("is_falling_back") is True else reply_to


def mentioned(content: Mapping[Any, Any]) -> frozenset[str]:
    """Return the ids of the people whom a message mentions. `@room` is nobody."""
    mentions = content.get("m.mentions")
    if isinstance(mentions, Mapping):
        ids = mentions.get("user_ids")
        return frozenset(str(each) for each in ids if _is_id(each)) if isinstance(ids, list) else frozenset()
    # From a client that is older than m.mentions: the links, or the id itself in the text.
    body = _text(content.get("body"))
    in_text = re.findall(
        r"(?<![\w@])@[^\s:@]+:[\w.\-\[\]]+(?::\d+)?", _without_fallback(body, content)[:20_000]
    )
    return frozenset(pill for pill, _ in _pills(content)) | frozenset(in_text)


def as_command(text: str, us: Us) -> str:
    """Make `/stop` of `!stop`, where there is such a command."""
    if not us.prefix or not text.startswith(us.prefix):
        return text
    word = re.match(r"[\w-]+", text[len(us.prefix) :])
    return "/" + text[len(us.prefix) :] if word and word[0].lower() in us.commands else text


# ------------------------------------------------------------------ names in texts


def _ours_off(text: str, content: Mapping[Any, Any], room: Room, us: Us) -> str:
    """Take our own name off the beginning, if the message does mention us."""
    if us.user_id not in mentioned(content):
        return text
    names = {us.user_id, us.user_id[1:].partition(":")[0], room.name_of(us.user_id)}
    names |= {label for user, label in _pills(content) if user == us.user_id}
    for name in sorted(filter(None, names), key=len, reverse=True):
        start = text.lstrip()
        for written in (f"@{name}", name) if not name.startswith("@") else (name,):
            rest = start[len(written) :]
            if start.startswith(written) and (not rest or not (rest[0].isalnum() or rest[0] in "_-")):
                return rest.lstrip(" \t\n\u00a0:,").strip()
    return text


def _named(text: str, content: Mapping[Any, Any], us: Us) -> str:
    """Write mentions of others as @name."""
    at = 0
    for user, label in _pills(content):
        if not label or label.startswith("@"):
            continue
        found = text.find(label, at)
        if found < 0:
            continue
        if user != us.user_id and (found == 0 or text[found - 1] != "@"):
            text = f"{text[:found]}@{text[found:]}"
            found += 1
        at = found + len(label)
    return text


def _without_fallback(body: str, content: Mapping[Any, Any]) -> str:
    """Take off the quotation that older clients put before a reply."""
    relation = _mapping(content.get("m.relates_to"))
    if not _mapping(relation.get("m.in_reply_to")) or not _FALLBACK.match(body):
        return body
    lines = body.split("\n")
    quoted = next((at for at, line in enumerate(lines) if not line.startswith(">")), len(lines))
    return "\n".join(lines[quoted:]).lstrip("\n")


def _pills(content: Mapping[Any, Any]) -> list[tuple[str, str]]:
    """The links to people: their id, and what the link shows; at most 100."""
    rich = content.get("formatted_body")
    if not isinstance(rich, str) or _PILL not in rich:
        return []
    rich = _without_reply(rich[:LONGEST_TEXT])
    found: list[tuple[str, str]] = []
    at = rich.find(_PILL)
    while at >= 0 and len(found) < 100:
        link = _LINK.match(rich, at)
        if link is not None:
            user = unquote(link["user"])
            if _is_id(user) and user.startswith("@"):
                found.append((user, unescape(link["label"]).strip()[:LONGEST_NAME]))
        at = rich.find(_PILL, at + 1)
    return found


def _without_reply(rich: str) -> str:
    start = rich.find("<mx-reply>")
    end = rich.find("</mx-reply>", start)
    return rich[:start] + rich[end + 11 :] if 0 <= start < end else rich


# ------------------------------------------------------------------ small things


def _media(content: Mapping[Any, Any], kind: str) -> Media | None:
    info = _mapping(content.get("info"))
    secret = content.get("file")
    mxc = secret.get("url") if isinstance(secret, Mapping) else content.get("url")
    if not isinstance(mxc, str) or not re.fullmatch(r"mxc://[^/\s?#]{1,255}/[\w-]{1,255}", mxc):
        return None
    name, size, mime = content.get("filename") or content.get("body"), info.get("size"), info.get("mimetype")
    return Media(
        mxc=mxc,
        name=name if isinstance(name, str) else kind.removeprefix("m."),
        mime=mime if isinstance(mime, str) and re.fullmatch(r"[\w.+-]+/[\w.+-]+", mime) else "",
        size=size if isinstance(size, int) and not isinstance(size, bool) and size >= 0 else None,
        secret=secret if isinstance(secret, Mapping) else None,
    )


def _sent_at(event: Mapping[Any, Any]) -> datetime | None:
    stamp = event.get("origin_server_ts")
    if not isinstance(stamp, int) or isinstance(stamp, bool) or not 0 < stamp < 4_102_444_800_000:
        return None
    return datetime.fromtimestamp(stamp / 1000, UTC)


def _mapping(value: object) -> Mapping[Any, Any]:
    return value if isinstance(value, Mapping) else {}


def _text(value: object) -> str:
    return value[:LONGEST_TEXT] if isinstance(value, str) else ""


def _word(value: object) -> str:
    return value if isinstance(value, str) else ""


def _is_id(value: object) -> bool:
    return isinstance(value, str) and bool(_ID.match(value))


@dataclass
class Counted:
    """How many events were refused, and why; kinds of reasons, not their texts, so that it cannot grow."""

    refused: dict[str, int] = field(default_factory=dict)

    def add(self, refusal: Refusal) -> None:
        kind = refusal.why.partition(":")[0]
        if kind in self.refused or len(self.refused) < 50:
            self.refused[kind] = self.refused.get(kind, 0) + 1
