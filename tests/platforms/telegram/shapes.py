"""Recorded updates of Telegram's Bot API, for fuzzing."""

from datetime import UTC, datetime
from typing import Any

from actors.gateway.platforms.telegram.translate import Ear, Heard, Me, translate
from tests.platforms.fuzz import FuzzTarget

EAR = Ear(Me(7, "our_bot"), "telegram", "main", frozenset({"help", "stop", "status"}))
NOW = datetime(2026, 1, 1, 12, 0, tzinfo=UTC)

Json = dict[str, Any]

ANN: Json = {"id": 11, "is_bot": False, "first_name": "Ann", "last_name": "Lee", "username": "ann"}
US = {"id": 7, "is_bot": True, "first_name": "Us", "username": "our_bot"}
GROUP = {"id": -1001, "type": "supergroup", "title": "Cooks"}
FORUM = {**GROUP, "id": -1002, "is_forum": True}
DM = {"id": 11, "type": "private", "first_name": "Ann"}


def message(text: str | None = None, **more: Any) -> Json:
    base = {"message_id": 5, "date": 1767268800, "chat": GROUP, "from": ANN}
    return {**base, **({} if text is None else {"text": text}), **more}


def mark(kind: str, offset: int, length: int, **more: Any) -> Json:
    return {"type": kind, "offset": offset, "length": length, **more}


TOPIC_HEAD = message(chat=FORUM, message_id=77, forum_topic_created={"name": "Soups", "icon_color": 1})
OURS = {**message("earlier"), "message_id": 4, "from": US}

MESSAGES = [
    message("hello"),
    message("hello", chat=DM),
    message("@our_bot what is this?", entities=[mark("mention", 0, 8)]),
    message(
        "👋 @our_bot and Bob", entities=[mark("mention", 3, 8), mark("text_mention", 16, 3, user={"id": 12})]
    ),
    message("/stop@our_bot now", entities=[mark("bot_command", 0, 13)]),
    message("/start status", chat=DM, entities=[mark("bot_command", 0, 6)]),
    message("see this", entities=[mark("text_link", 4, 4, url="https://example.org/a")]),
    message("a reply", reply_to_message=OURS, message_thread_id=4),
    message(
        "in a topic",
        chat=FORUM,
        message_thread_id=77,
        is_topic_message=True,
        reply_to_message=TOPIC_HEAD,
    ),
    message(
        caption="look",
        media_group_id="9",
        photo=[
            {"file_id": "s", "file_unique_id": "1", "width": 90, "height": 60, "file_size": 900},
            {"file_id": "L", "file_unique_id": "2", "width": 1280, "height": 900, "file_size": 90_000},
        ],
    ),
    message(
        document={"file_id": "D", "file_name": "../../x\u202egnp.exe", "mime_type": "a/b", "file_size": 3}
    ),
    message(voice={"file_id": "V", "duration": 3, "mime_type": "audio/ogg", "file_size": 3000}),
    message(
        animation={"file_id": "A", "file_size": 9},
        document={"file_id": "A", "file_size": 9},
        forward_origin={"type": "hidden_user", "sender_user_name": "Somebody", "date": 1},
    ),
    message(sticker={"file_id": "S", "emoji": "👍"}),
    message(location={"latitude": 52.5, "longitude": 13.4}),
    message(contact={"first_name": "Bob", "phone_number": "+49 1"}),
    message(poll={"question": "Soup?", "options": [{"text": "yes", "voter_count": 0}, {"text": "no"}]}),
    message(dice={"emoji": "🎲", "value": 6}),
    message("as a chat", sender_chat=GROUP),
    message(migrate_to_chat_id=-100200, chat={"id": -100, "type": "group", "title": "Cooks"}),
    message(migrate_from_chat_id=-100, chat={**GROUP, "id": -100200}),
]
SHAPES = [
    *({"update_id": 100 + n, "message": each} for n, each in enumerate(MESSAGES)),
    {"update_id": 200, "edited_message": message("/restart ", edit_date=1767268900)},
    {
        "update_id": 201,
        "callback_query": {"id": "4000000000000000001", "from": ANN, "message": OURS, "data": "/stop"},
    },
]


def feed(raw: object) -> object:
    heard = translate(raw, EAR, NOW)
    return heard.message if isinstance(heard, Heard) else heard


FUZZ = FuzzTarget(SHAPES, feed)
