"""What an envelope is, before it is translated: of which chat, told before or not, and what to look up. Pure and total."""

import re
from dataclasses import dataclass
from typing import Any

from actors.gateway.platforms.slack.fields import (
    WORD,
    action_of,
    command_of,
    dict_of,
    id_or_none,
    is_id,
    is_spoken,
    is_ts,
    list_of,
    opened,
    text_of,
)
from actors.gateway.platforms.slack.wording import MARK

MOST_NAMES = 20
"""So many people of one message are looked up; the others keep their ids."""


@dataclass(frozen=True, slots=True)
class Needs:
    """What should be looked up before an envelope is translated."""

    users: tuple[str, ...] = ()
    chat: str | None = None
    root: tuple[str, str] | None = None
    """A thread that we are asked into, and whose beginning the conversation in it does not know."""


@dataclass(frozen=True, slots=True)
class Answerable:
    """An interaction that can be answered at an address of its own for a while."""

    id: str
    url: str
    command: str
    """The command's name, without the slash."""
    direct: bool


def identity(envelope: object) -> str | None:
    """Name what an envelope tells, however often and in whatever wrapping it comes; None: it tells nothing."""
    kind, payload = opened(envelope)
    if kind == "events_api":
        event = dict_of(payload, "event")
        channel, what = text_of(event, "channel"), text_of(event, "subtype")
        if text_of(event, "type") == "channel_id_changed":
            return f"moved:{text_of(event, 'old_channel_id')}:{text_of(event, 'new_channel_id')}"
        if what == "message_changed":
            message = dict_of(event, "message")
            when = (
                text_of(dict_of(message, "edited"), "ts")
                or text_of(event, "event_ts")
                or text_of(event, "ts")
            )
            return f"{channel}:{text_of(message, 'ts')}:changed:{when}"[:200]
        if what == "message_deleted":
            return f"{channel}:{text_of(event, 'deleted_ts')}:deleted"[:200]
        if not is_spoken(event):
            return None
        known = f"{channel}:{text_of(event, 'ts')}"
        edited = edited_mention(event)  # what was overheard before is said to us now
        return f"{known}:mention:{edited}"[:200] if edited else known[:200]
    if kind == "slash_commands":
        return text_of(payload, "trigger_id")[:200] or None
    if kind == "interactive":
        trigger, action = text_of(payload, "trigger_id"), action_of(payload)
        return f"{trigger}:{text_of(action, 'action_ts')}"[:200] if trigger else None
    return None


def edited_mention(event: dict[str, Any]) -> str:
    """Return when somebody changed a message so that it mentions us; empty when it did from the beginning."""
    return text_of(dict_of(event, "edited"), "ts") if text_of(event, "type") == "app_mention" else ""


def is_bare_mention(envelope: object) -> bool:
    """Whether it is the shorter one of the two events that Slack sends for a mention: it tells of no files."""
    kind, payload = opened(envelope)
    event = dict_of(payload, "event") if kind == "events_api" else {}
    # An order has no files, and is not kept waiting for any.
    orders = re.search(r"(?:^|>)[\s:,]*[!/]", text_of(event, "text")) is not None
    alone = "files" not in event and not edited_mention(event)
    return text_of(event, "type") == "app_mention" and alone and not orders


def is_message_in_channel(envelope: object) -> bool:
    """Whether it is something said in a channel, as Slack tells it to those who hear all that is said."""
    kind, payload = opened(envelope)
    event = dict_of(payload, "event") if kind == "events_api" else {}
    return text_of(event, "type") == "message" and not text_of(event, "channel").startswith("D")


def chat_of(envelope: object) -> str:
    """Return the channel that an envelope is of; messages of one channel keep their order."""
    kind, payload = opened(envelope)
    match kind:
        case "events_api":
            return text_of(dict_of(payload, "event"), "channel")
        case "slash_commands":
            return text_of(payload, "channel_id")
        case _:
            return text_of(dict_of(payload, "channel"), "id")


def ending(envelope: object) -> str:
    """Say that the app's access was withdrawn; empty when it was not."""
    kind, payload = opened(envelope)
    what = text_of(dict_of(payload, "event"), "type") if kind == "events_api" else ""
    if what == "app_uninstalled":
        return "the app was removed from the workspace: install it again and set the new bot_token"
    revoked = list_of(dict_of(dict_of(payload, "event"), "tokens"), "bot")
    if what == "tokens_revoked" and revoked:
        return "the bot token was revoked: install the app again and set the new bot_token"
    return ""


def changed_user(envelope: object) -> str:
    """Return whose name may be another now."""
    kind, payload = opened(envelope)
    event = dict_of(payload, "event") if kind == "events_api" else {}
    return (
        text_of(dict_of(event, "user"), "id")
        if text_of(event, "type") in ("user_change", "user_profile_changed")
        else ""
    )


def needs(envelope: object, ours: str) -> Needs:
    """Say what should be looked up first: the author, who is mentioned, the place. `ours` is our own id."""
    kind, payload = opened(envelope)
    if kind != "events_api":
        user = text_of(payload, "user_id") or text_of(dict_of(payload, "user"), "id")
        return Needs((user,) if is_id(user) else (), id_or_none(chat_of(envelope)))
    event = dict_of(payload, "event")
    if not is_spoken(event):
        event = dict_of(event, "message") if text_of(event, "subtype") == "message_changed" else {}
        if not event:
            return Needs()
    text = text_of(event, "text")
    named = [text_of(event, "user"), text_of(event, "parent_user_id")]
    named += [mark.lstrip("@").partition("|")[0] for mark in MARK.findall(text) if mark.startswith("@")]
    users = tuple(dict.fromkeys(u for u in named if is_id(u) and u != ours))[:MOST_NAMES]
    chat = id_or_none(chat_of(envelope))
    thread, ts = text_of(event, "thread_ts"), text_of(event, "ts")
    # In a direct message, what we said is part of the conversation anyway.
    under_ours = text_of(event, "parent_user_id") == ours and chat is not None and not chat.startswith("D")
    asked = f"<@{ours}" in text or under_ours
    root = (chat, thread) if chat and asked and is_ts(thread) and thread != ts else None
    return Needs(users, chat, root)


def answerable(envelope: object) -> Answerable | None:
    """Read how an interaction can be answered; None when it cannot, or is none."""
    kind, payload = opened(envelope)
    url, trigger = text_of(payload, "response_url"), text_of(payload, "trigger_id")
    if kind != "slash_commands" or not url or not trigger:
        return None
    text, _ = command_of(payload, frozenset())
    name = text_of(payload, "command").lstrip("/").lower()
    first = WORD.match(text_of(payload, "text"))
    word = first[1].lower() if text.startswith("/") and first is not None else name
    return Answerable(trigger, url, word, direct=chat_of(envelope).startswith("D"))
