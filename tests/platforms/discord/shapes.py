"""Recorded events of Discord's gateway, for fuzzing."""

from datetime import UTC, datetime
from typing import Any

from actors.gateway.platforms.discord.directory import Directory
from actors.gateway.platforms.discord.translate import Incoming, Ourselves, Translator, attachments
from tests.platforms.fuzz import FuzzTarget

Json = dict[str, Any]

US = Ourselves("100", "callboard", "101", "discord", "main")
NOW = datetime(2026, 1, 1, 12, 0, tzinfo=UTC)
PLACES = Directory()
TRANSLATOR = Translator(US, PLACES, lambda: NOW)

ANN: Json = {"id": "400", "username": "ann", "global_name": "Ann", "discriminator": "0", "bot": False}
BOT: Json = {"id": "100", "username": "callboard", "bot": True}
GUILD: Json = {
    "id": "200",
    "name": "Kitchen",
    "roles": [{"id": "500", "name": "cooks"}, {"id": "200", "name": "@everyone"}],
    "channels": [{"id": "300", "type": 0, "name": "soups", "topic": "hot ones", "last_message_id": "900"}],
    "threads": [{"id": "310", "type": 11, "name": "carrots", "parent_id": "300", "last_message_id": "901"}],
}


def event(name: str, /, **data: Any) -> Json:
    return {"t": name, "d": data}


def message(content: str = "hello", **more: Any) -> Json:
    base: Json = {
        "id": "1400000000000000001",
        "channel_id": "300",
        "guild_id": "200",
        "author": ANN,
        "member": {"nick": "Annie", "roles": ["500"]},
        "content": content,
        "timestamp": "2026-01-01T11:59:59.123000+00:00",
        "edited_timestamp": None,
        "mentions": [],
        "mention_roles": [],
        "attachments": [],
        "embeds": [],
        "type": 0,
        "flags": 0,
    }
    return {**base, **more}


FILE: Json = {
    "id": "1",
    "filename": "../x\u202egnp.exe",
    "size": 3,
    "url": "https://cdn.discordapp.com/attachments/1/2/x.png?ex=1&is=2&hm=3",
    "content_type": "image/png",
}
INTERACTION: Json = {
    "id": "1400000000000000009",
    "application_id": "101",
    "type": 2,
    "token": "aW50ZXJhY3Rpb24",
    "version": 1,
    "guild_id": "200",
    "channel_id": "300",
    "channel": {"id": "300", "type": 0, "name": "soups"},
    "member": {"user": ANN, "nick": None, "permissions": "8"},
    "data": {
        "id": "1",
        "name": "queue",
        "type": 1,
        "options": [{"name": "text", "type": 3, "value": "soup"}],
    },
}

SHAPES: list[Json] = [
    event("GUILD_CREATE", **GUILD),
    event("CHANNEL_UPDATE", id="301", type=15, guild_id="200", name="forum", topic="x"),
    event("THREAD_CREATE", id="311", type=11, guild_id="200", name="t", parent_id="301"),
    event("THREAD_LIST_SYNC", guild_id="200", threads=[{"id": "312", "type": 12, "parent_id": "300"}]),
    event("MESSAGE_CREATE", **message()),
    event("MESSAGE_CREATE", **message("<@100> <@!100>, is <@400> in <#300>?", mentions=[BOT, ANN])),
    event("MESSAGE_CREATE", **message("@everyone <@&500> <a:wave:12> </help:33>", mention_everyone=True)),
    event("MESSAGE_CREATE", **message(channel_id="310")),
    event("MESSAGE_CREATE", **message(guild_id=None, member=None, channel_id="600")),
    event("MESSAGE_CREATE", **message("", attachments=[FILE])),
    event("MESSAGE_CREATE", **message(webhook_id="700", author={"id": "700", "username": "hook"})),
    event(
        "MESSAGE_CREATE",
        **message(
            "and why?",
            type=19,
            message_reference={"message_id": "1400000000000000000", "channel_id": "300"},
            referenced_message=message("because", id="1400000000000000000", author=BOT),
        ),
    ),
    event(
        "MESSAGE_CREATE",
        **message(
            "",
            message_reference={"type": 1, "message_id": "14", "channel_id": "3"},
            message_snapshots=[{"message": {"content": "forwarded <@400>", "attachments": [FILE]}}],
        ),
    ),
    event("MESSAGE_CREATE", **message("", sticker_items=[{"id": "1", "name": "Wave", "format_type": 1}])),
    event(
        "MESSAGE_CREATE",
        **message("", poll={"question": {"text": "Soup?"}, "answers": [{"poll_media": {"text": "Yes"}}]}),
    ),
    event("MESSAGE_CREATE", **message("", embeds=[{"title": "Build 7", "description": "failed"}])),
    event("MESSAGE_CREATE", **message(author=BOT, nonce="000000000000000000000001")),
    event("MESSAGE_CREATE", **message("", type=7)),
    event("MESSAGE_UPDATE", **message("changed", edited_timestamp="2026-01-01T12:00:00+00:00")),
    event("MESSAGE_UPDATE", **message("a link", embeds=[{"type": "link", "title": "A page"}])),
    event("MESSAGE_DELETE", id="1400000000000000001", channel_id="300", guild_id="200"),
    event("MESSAGE_DELETE_BULK", ids=["1400000000000000001", "14"], channel_id="300", guild_id="200"),
    event("INTERACTION_CREATE", **INTERACTION),
    event("INTERACTION_CREATE", **{**INTERACTION, "type": 3, "data": {"custom_id": "/stop"}}),
    event("INTERACTION_CREATE", **{**INTERACTION, "member": None, "user": ANN, "guild_id": None}),
]


def feed(raw: Any) -> object:
    """Feed one event as the edge does, without its connection."""
    raw = raw if isinstance(raw, dict) else {}
    name, data = raw.get("t"), raw.get("d")
    if not isinstance(name, str) or not isinstance(data, dict):
        return None
    match name:
        case "MESSAGE_CREATE":
            attachments(data)
            found = TRANSLATOR.message(data)
            return found.message if isinstance(found, Incoming) else found
        case "MESSAGE_UPDATE":
            return TRANSLATOR.edit(data)
        case "MESSAGE_DELETE":
            return TRANSLATOR.deletion(data, data.get("id"))
        case "MESSAGE_DELETE_BULK":
            ids = data.get("ids")
            return [TRANSLATOR.deletion(data, each) for each in (ids if isinstance(ids, list) else [])[:200]]
        case "INTERACTION_CREATE":
            asked = TRANSLATOR.interaction(data)
            return getattr(asked, "message", asked)
        case _:
            PLACES.hear(name, data)
            return None


PLACES.hear("GUILD_CREATE", GUILD)
FUZZ = FuzzTarget(SHAPES, feed)
