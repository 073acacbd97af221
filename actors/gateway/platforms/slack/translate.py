"""From what Slack sends to what the core hears. Pure and total: whatever comes, it returns, never raises.

A channel's message without `thread_ts`, or with its own `ts` there, is a root: its `ts`
names the thread that its answers make. A reply carries the root's `ts` as `thread_ts`.
A direct message is the conversation itself, threads or not. Slack's slash commands
cannot be given in a thread, and a typed `/stop` never reaches an app: so `!stop` at the
start of a message is `/stop`.
"""

import re
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from actors.gateway.platforms.slack.envelopes import edited_mention
from actors.gateway.platforms.slack.fields import (
    SPOKEN,
    action_of,
    command_of,
    dict_of,
    instant,
    is_id,
    is_ts,
    list_of,
    opened,
    text_of,
)
from actors.gateway.platforms.slack.wording import MARK, Chat, Names, clean_name, readable
from messages.gateway import (
    Author,
    ChatMoved,
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

MOST_FILES = 10
MOST_SHARED = 5
LATEST_MENTION_S = 600.0
"""A message that is edited later than this, so that it mentions us, is not answered any more."""

BUTTON = "callboard_"
"""The beginning of the action ids of our own buttons."""

_LONG_ID = re.compile(r"[A-Za-z0-9._:-]{1,256}")
_ALIAS = re.compile(r"!([A-Za-z_]+)(?=\s|$)")


@dataclass(frozen=True, slots=True)
class Us:
    """Who we are in the workspace."""

    user_id: str
    bot_id: str
    team_id: str
    team: str = ""
    app_id: str = ""


@dataclass(frozen=True, slots=True)
class Reading:
    """How to read: our account, what it is set to, and what time it is."""

    platform: str
    account: str
    us: Us
    commands: frozenset[str]
    reply_in_thread: bool
    now: datetime


@dataclass(frozen=True, slots=True)
class WantedFile:
    """Something that a person attached and that is still at Slack."""

    id: str
    name: str
    mime: str
    size: int | None
    url: str
    why_not: str = ""
    """Why it cannot be fetched, when that is plain already."""


@dataclass(frozen=True, slots=True)
class Heard:
    """What an envelope says; `files` are still to be fetched."""

    message: EdgeHeard
    files: tuple[WantedFile, ...] = ()


@dataclass(frozen=True, slots=True)
class Refusal:
    """Nothing for us; `why` is one of a few fixed words."""

    why: str


# ------------------------------------------------------------------ translation


def translate(envelope: object, reading: Reading, names: Names) -> Heard | Refusal:
    """Translate an envelope: `type`, and the `payload` as Slack sends it in either mode."""
    kind, payload = opened(envelope)
    match kind:
        case "events_api":
            return _event(dict_of(payload, "event"), reading, names)
        case "slash_commands":
            return _slash(payload, reading, names)
        case "interactive":
            return _pressed(payload, reading, names)
        case _:
            return Refusal("envelope")


def _event(event: dict[str, Any], reading: Reading, names: Names) -> Heard | Refusal:
    if text_of(event, "type") == "channel_id_changed":
        return _moved(event, reading)
    if text_of(event, "type") not in ("message", "app_mention"):
        return Refusal("kind of event")
    if not is_id(text_of(event, "channel")):
        return Refusal("no channel")
    match text_of(event, "subtype"):
        case "message_changed":
            return _changed(event, reading, names)
        case "message_deleted":
            return _deleted(
                event, event.get("previous_message"), text_of(event, "deleted_ts"), reading, names
            )
        case subtype if subtype not in SPOKEN:
            return Refusal("kind of message")
    return _said(event, reading, names)


def _said(event: dict[str, Any], reading: Reading, names: Names) -> Heard | Refusal:
    us, ts = reading.us, text_of(event, "ts")
    author = _author(event, names)
    if author is None or not is_ts(ts):
        return Refusal("no author or time")
    if _is_ours(event, us):
        return Refusal("our own")
    if event.get("hidden") is True:
        return Refusal("hidden")
    if edited_mention(event) and _is_old(ts, reading.now):
        return Refusal("an old message that mentions us now")
    raw = text_of(event, "text")
    text = _without_us(readable(raw, names), raw, us, names)
    shared = _shared(event, names)
    whole = "\n\n".join(part for part in (_aliased(text, reading.commands), shared) if part)
    files = _files(event)
    if not whole.strip() and not files and f"<@{us.user_id}" not in raw:
        return Refusal("empty")
    message = MessageReceived(
        message_id=MessageId(ts),
        origin=_origin(event, author.id, reading, names),
        author=author,
        text=whole,
        mentions_us=_mentions(raw, us),
        quote=_quote(event, reading, names),
        surroundings=_surroundings(event, reading, names),
        sent_at=instant(ts),
        at=reading.now,
    )
    return Heard(message, files)


def _changed(event: dict[str, Any], reading: Reading, names: Names) -> Heard | Refusal:
    message, before = dict_of(event, "message"), dict_of(event, "previous_message")
    if text_of(message, "subtype") == "tombstone":
        return _deleted(event, before, text_of(message, "ts"), reading, names)
    author = _author(message, names)
    if author is None or not is_ts(text_of(message, "ts")):
        return Refusal("no author or time")
    if author.bot or _is_ours(message, reading.us):
        return Refusal("a bot's edit")
    same_text = text_of(before, "text") == text_of(message, "text")
    if (before and same_text) or not dict_of(message, "edited"):
        return Refusal("only decorated")  # a link's preview, or a reaction of Slack's own
    placed = {**message, "channel": event.get("channel"), "channel_type": event.get("channel_type")}
    raw = text_of(message, "text")
    text = _without_us(readable(raw, names), raw, reading.us, names)
    edited = MessageEdited(
        message_id=MessageId(text_of(message, "ts")),
        origin=_origin(placed, author.id, reading, names),
        author=author,
        text=_aliased(text, reading.commands),
        at=reading.now,
    )
    return Heard(edited)


def _deleted(
    event: dict[str, Any], previous: object, ts: str, reading: Reading, names: Names
) -> Heard | Refusal:
    before = previous if isinstance(previous, dict) else {}
    if not is_ts(ts):
        return Refusal("no author or time")
    if _is_ours(before, reading.us):
        return Refusal("our own")
    placed = {
        "ts": ts,
        "thread_ts": before.get("thread_ts"),
        "channel": event.get("channel"),
        "channel_type": event.get("channel_type"),
    }
    author = _author(before, names)
    origin = _origin(placed, author.id if author else None, reading, names)
    return Heard(MessageDeleted(message_id=MessageId(ts), origin=origin, at=reading.now))


def _moved(event: dict[str, Any], reading: Reading) -> Heard | Refusal:
    old, new = text_of(event, "old_channel_id"), text_of(event, "new_channel_id")
    if not is_id(old) or not is_id(new) or old == new:
        return Refusal("no channel")
    moved = ChatMoved(platform=reading.platform, account=reading.account, old=old, new=new, at=reading.now)
    return Heard(moved)


def _slash(payload: dict[str, Any], reading: Reading, names: Names) -> Heard | Refusal:
    channel, user, trigger = (text_of(payload, name) for name in ("channel_id", "user_id", "trigger_id"))
    if not is_id(channel) or not is_id(user) or not _LONG_ID.fullmatch(trigger):
        return Refusal("no author or time")
    text, is_command = command_of(payload, reading.commands)
    called = text_of(payload, "channel_name")
    kind = "mpim" if called.startswith("mpdm-") else ""
    event = {"channel": channel, "channel_type": kind}
    message = MessageReceived(
        message_id=MessageId(trigger),
        origin=_origin(event, user, reading, names),
        author=Author(id=user, name=names.users.get(user) or clean_name(text_of(payload, "user_name"))),
        text=readable(text, names),
        via="command" if is_command else "message",
        mentions_us=not is_command,
        surroundings=_surroundings(event, reading, names),
        at=reading.now,
    )
    return Heard(message)


def _pressed(payload: dict[str, Any], reading: Reading, names: Names) -> Heard | Refusal:
    action = action_of(payload)
    command, trigger = text_of(action, "value"), text_of(payload, "trigger_id")
    channel, user = text_of(dict_of(payload, "channel"), "id"), text_of(dict_of(payload, "user"), "id")
    if text_of(payload, "type") != "block_actions" or not text_of(action, "action_id").startswith(BUTTON):
        return Refusal("kind of interaction")
    if not command.startswith("/") or not is_id(channel) or not is_id(user):
        return Refusal("no author or time")
    if not _LONG_ID.fullmatch(trigger):
        return Refusal("no author or time")
    message, container = dict_of(payload, "message"), dict_of(payload, "container")
    thread = text_of(message, "thread_ts") or text_of(container, "thread_ts")
    event = {"channel": channel, "thread_ts": thread}
    name = text_of(dict_of(payload, "user"), "name") or text_of(dict_of(payload, "user"), "username")
    pressed = MessageReceived(
        message_id=MessageId(trigger),
        # Our own post without a thread was said to the channel as such: so is what is pressed below it.
        origin=_origin(event, user, reading, names),
        author=Author(id=user, name=names.users.get(user) or clean_name(name)),
        text=command,
        via="button",
        surroundings=_surroundings(event, reading, names),
        at=reading.now,
    )
    return Heard(pressed)


# ------------------------------------------------------------------ its pieces


def _origin(event: dict[str, Any], user: str | None, reading: Reading, names: Names) -> Origin:
    channel, ts, thread_ts = text_of(event, "channel"), text_of(event, "ts"), text_of(event, "thread_ts")
    place, thread = _kind(event, names), thread_ts if is_ts(thread_ts) and thread_ts != ts else None
    chat_type = ChatType.GROUP
    if place == "im":
        chat_type = ChatType.DM
    elif thread is not None:
        chat_type = ChatType.THREAD
    elif is_ts(ts) and reading.reply_in_thread and place != "mpim":
        chat_type, thread = ChatType.THREAD, ts
    return Origin(
        platform=reading.platform,
        account=reading.account,
        server=reading.us.team_id or None,
        chat_type=chat_type,
        chat=channel,
        thread=thread,
        user=user,
    )


def _kind(event: dict[str, Any], names: Names) -> str:
    channel = text_of(event, "channel")
    if channel.startswith("D"):
        return "im"
    told = text_of(event, "channel_type")
    if told in ("im", "mpim"):
        return told
    known = names.chats.get(channel)
    return known.kind if known is not None and known.kind else "channel"


def _surroundings(event: dict[str, Any], reading: Reading, names: Names) -> Surroundings:
    chat = names.chats.get(text_of(event, "channel"), Chat())
    name = f"#{chat.name}" if chat.name and chat.kind == "channel" else chat.name
    return Surroundings(server=clean_name(reading.us.team), chat=name, topic=chat.topic)


def _author(event: dict[str, Any], names: Names) -> Author | None:
    user, bot_id = text_of(event, "user"), text_of(event, "bot_id")
    profile = dict_of(event, "bot_profile")
    is_bot = bool(bot_id) or text_of(event, "subtype") == "bot_message"
    called = (
        text_of(event, "username")
        or text_of(profile, "name")
        or text_of(dict_of(event, "user_profile"), "display_name")
    )
    for known in (user, bot_id):
        if is_id(known):
            name = names.users.get(known) or clean_name(called)
            return Author(id=known, name=name, bot=is_bot)
    return None


def _is_ours(event: dict[str, Any], us: Us) -> bool:
    ids = (text_of(event, "user"), text_of(event, "bot_id"))
    known = {us.user_id, us.bot_id} - {""}
    return any(each in known for each in ids)


def _quote(event: dict[str, Any], reading: Reading, names: Names) -> Quote | None:
    ts, thread_ts, parent = (text_of(event, name) for name in ("ts", "thread_ts", "parent_user_id"))
    if not is_ts(thread_ts) or thread_ts == ts:
        return None
    author = Author(id=parent, name=names.users.get(parent, "")) if is_id(parent) else None
    root = names.roots.get((text_of(event, "channel"), thread_ts), "")
    ours = parent == reading.us.user_id and bool(parent)
    return Quote(message_id=MessageId(thread_ts), author=author, text=readable(root, names), ours=ours)


def _is_old(ts: str, now: datetime) -> bool:
    said = instant(ts)
    return said is None or (now - said).total_seconds() > LATEST_MENTION_S


def _mentions(raw: str, us: Us) -> bool:
    return any(mark.partition("|")[0] == f"@{us.user_id}" for mark in MARK.findall(raw))


def _without_us(text: str, raw: str, us: Us, names: Names) -> str:
    """Take our own mention away where it begins the message."""
    start = re.match(rf"\s*<@{re.escape(us.user_id)}(?:\|[^<>\n]*)?>[:,]?\s*", raw)
    return readable(raw[start.end() :], names) if start is not None else text


def _aliased(text: str, commands: frozenset[str]) -> str:
    alias = _ALIAS.match(text)
    return f"/{text[1:]}" if alias is not None and alias[1].lower() in commands else text


def _shared(event: dict[str, Any], names: Names) -> str:
    """What somebody passed on with the message, or what a program said in Slack's older form."""
    quoted: list[str] = []
    for each in list_of(event, "attachments")[:MOST_SHARED]:
        attachment = each if isinstance(each, dict) else {}
        passed_on = attachment.get("is_share") is True or attachment.get("is_msg_unfurl") is True
        if not passed_on and (text_of(event, "text").strip() or not text_of(event, "bot_id")):
            continue
        said = readable(text_of(attachment, "text") or text_of(attachment, "fallback"), names)
        who = clean_name(text_of(attachment, "author_name") or text_of(attachment, "author_subname"))
        if said.strip():
            head = f"{who}: " if who else ""
            quoted.append("\n".join(f"> {line}" for line in f"{head}{said}".split("\n")))
    return "\n\n".join(quoted)


def _files(event: dict[str, Any]) -> tuple[WantedFile, ...]:
    return tuple(_file(each) for each in list_of(event, "files")[:MOST_FILES] if isinstance(each, dict))


def _file(raw: dict[str, Any]) -> WantedFile:
    size = raw.get("size")
    why = ""
    match text_of(raw, "mode"):
        case "tombstone":
            why = "it was deleted"
        case "hidden_by_limit":
            why = "the workspace's plan hides it"
        case "external":
            why = "it is kept outside Slack"
    url = text_of(raw, "url_private_download") or text_of(raw, "url_private")
    return WantedFile(
        id=text_of(raw, "id")[:64],
        name=text_of(raw, "name") or text_of(raw, "title") or "file",
        mime=text_of(raw, "mimetype")[:100],
        size=size if isinstance(size, int) and not isinstance(size, bool) and 0 <= size < 2**53 else None,
        url=url,
        why_not=why,
    )
