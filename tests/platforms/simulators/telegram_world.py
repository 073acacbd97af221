"""The memory of the simulated Telegram: people, places, messages, updates, and its checks. See `telegram.py`."""

import asyncio
import itertools
import json
import re
import time
from collections import defaultdict, deque
from dataclasses import dataclass, field
from typing import Any

from aiohttp import web

Json = dict[str, Any]

BOT_ID = 7000000001
BOT_NAME = "callboard_sim_bot"
TOKEN = f"{BOT_ID}:AA" + "HsimSIMsimSIMsimSIMsimSIMsimSIMsi"
POSTING = frozenset(
    {"sendMessage", "sendDocument", "sendPhoto", "editMessageText", "editMessageCaption", "deleteMessage"}
)
ENTITIES = frozenset(
    [
        "mention",
        "hashtag",
        "cashtag",
        "bot_command",
        "url",
        "email",
        "phone_number",
        "bold",
        "italic",
        "underline",
        "strikethrough",
        "spoiler",
        "blockquote",
        "expandable_blockquote",
        "code",
        "pre",
        "text_link",
        "text_mention",
        "custom_emoji",
    ]
)
REACTIONS = frozenset(
    "👍👎🔥🥰👏😁🤔🤯😱🤬😢🎉🤩🤮💩🙏👌🕊🤡🥱🥴😍🐳🌚🌭💯🤣⚡🍌🏆💔🤨😐🍓🍾💋🖕😈😴😭🤓👻👀🎃🙈😇😨🤝✍🤗🫡❤"
)
RESERVED = re.compile(r"(?<!\\)[.!\-=+|{}#>()]")


class BotError(Exception):
    """An answer with `ok: false`."""

    def __init__(self, status: int, description: str, **parameters: Any) -> None:
        super().__init__(description)
        self.status, self.description, self.parameters = status, description, parameters


def bad(description: str, **parameters: Any) -> BotError:
    return BotError(400, f"Bad Request: {description}", **parameters)


def units(text: str) -> int:
    return len(text.encode("utf-16-le", "surrogatepass")) // 2


@dataclass
class Chat:
    """A place on the service."""

    id: int
    name: str
    kind: str
    title: str = ""
    forum: bool = False
    topics: dict[int, str] = field(default_factory=dict)
    messages: dict[int, Json] = field(default_factory=dict)
    blocked: str = ""
    moved_to: int | None = None
    sent: deque[float] = field(default_factory=deque)
    reactions: dict[int, str] = field(default_factory=dict)
    typing: int = 0

    def face(self) -> Json:
        face: Json = {"id": self.id, "type": self.kind}
        if self.kind == "private":
            face["first_name"] = self.name
        else:
            face["title"] = self.title or self.name
        if self.forum:
            face["is_forum"] = True
        return face


@dataclass
class Misbehaviour:
    """One thing that was ordered, and for how many calls."""

    how: str
    times: int
    method: str | None
    chat: int | None
    more: Json

    def meets(self, method: str, chat: int | None) -> bool:
        if self.times <= 0 or (self.chat is not None and self.chat != chat):
            return False
        if self.method is not None:
            return method == self.method
        if self.how in ("conflict", "webhook"):
            return method == "getUpdates"
        if self.how in ("slow_file", "cut_file"):
            return method == "file"
        return method in POSTING


class World:
    """The service's memory."""

    def __init__(self) -> None:
        self.started = time.time()
        self.chats: dict[int, Chat] = {}
        self.names: dict[str, int] = {}
        self.users: dict[str, Json] = {}
        self.updates: deque[Json] = deque()
        self.allowed: list[str] = []
        self.wake = asyncio.Event()
        self.poll_turn = 0
        self.update_ids = itertools.count(500_000_001)
        self.private_ids = itertools.count(1)
        self.group_ids: dict[int, Any] = defaultdict(lambda: itertools.count(1))
        self.numbers = itertools.count(1)
        self.files: dict[str, tuple[str, bytes | int]] = {}
        self.orders: list[Misbehaviour] = []
        self.released = asyncio.Event()
        self.calls: list[Json] = []
        self.webhook: Json = {}
        self.webhook_error = ""
        self.pushes: list[Json] = []
        self.privacy = False
        self.commands: list[Json] = []
        self.answered: list[Json] = []
        self.per_second: int | None = None
        self.per_minute: int | None = None
        self.posted_at: dict[tuple[int, int], float] = {}
        self.connections: dict[int, web.BaseRequest] = {}
        self.push_task: asyncio.Task[None] | None = None

    # ------------------------------------------------------------------ people and places

    def number(self, name: str, *, group: bool) -> int:
        if re.fullmatch(r"-?\d+", name):
            self.names.setdefault(name, int(name))
        elif name not in self.names:
            at = next(self.numbers)
            self.names[name] = -1_001_000_000_000 - at if group else 40_000_000 + at
        return self.names[name]

    def chat(self, name: str, *, dm: bool = False, forum: bool = False, basic: bool = False) -> Chat:
        number = self.number(name, group=not dm)
        if number not in self.chats:
            kind = "private" if dm or number > 0 else "group" if basic else "supergroup"
            self.chats[number] = Chat(number, name, kind, forum=forum)
        return self.chats[number]

    def user(self, name: str, *, bot: bool = False) -> Json:
        if name not in self.users:
            number = self.number(name, group=False)
            self.users[name] = {"id": number, "is_bot": bot, "first_name": name, "username": f"u_{name}"}
        return self.users[name]

    def next_id(self, chat: Chat) -> int:
        return next(self.group_ids[chat.id] if chat.kind == "supergroup" else self.private_ids)

    # ------------------------------------------------------------------ updates

    def push(self, kind: str, what: Json) -> int:
        number = next(self.update_ids)
        if not self.allowed or kind in self.allowed:
            self.updates.append({"update_id": number, kind: what})
            self.wake.set()
        return number

    def hears(self, chat: Chat, message: Json) -> bool:
        """Whether the bot gets to see it, with the privacy mode as it is set."""
        if not self.privacy or chat.kind == "private":
            return True
        text = message.get("text") or message.get("caption") or ""
        replied = message.get("reply_to_message", {}).get("from", {}).get("id") == BOT_ID
        return replied or f"@{BOT_NAME}" in text or text.startswith("/")

    def says(self, said: Json) -> Json:
        chat = self.chat(
            said["chat"],
            dm=said.get("dm", False),
            forum=said.get("forum", False),
            basic=said.get("basic", False),
        )
        user = self.user(said["user"], bot=said.get("bot", False))
        if chat.kind == "private":
            chat.id, self.chats[user["id"]] = user["id"], chat
            self.names[said["chat"]] = user["id"]
        text, entities = said.get("text", ""), []
        if said.get("mention") and chat.kind != "private" and text and not text.startswith("/"):
            text = f"@{BOT_NAME} {text}"
            entities.append({"type": "mention", "offset": 0, "length": len(BOT_NAME) + 1})
        command = re.match(r"/[A-Za-z0-9_]+(@\w+)?", text)
        if command:
            entities.append({"type": "bot_command", "offset": 0, "length": len(command[0])})
        number = self.next_id(chat)
        message: Json = {
            "message_id": number,
            "date": int(said.get("date") or time.time()),
            "chat": chat.face(),
            "from": user,
        }
        caption = any(kind in said for kind in ("photo", "document", "voice", "video", "audio"))
        if text:
            message["caption" if caption else "text"] = text
        if entities:
            message["caption_entities" if caption else "entities"] = entities
        self._attach(message, said)
        self._place(message, chat, said)
        message.update(said.get("raw", {}))
        chat.messages[number] = message
        if self.hears(chat, message):
            self.push("message", message)
        return {"id": str(number), "chat": str(chat.id), "user": str(user["id"])}

    def _attach(self, message: Json, said: Json) -> None:
        if "photo" in said:
            message["photo"] = [{**self.keep(f"thumb-{n}", b"t"), "width": n, "height": n} for n in (90,)] + [
                {**self.keep("photo.jpg", said["photo"]), "width": 1280, "height": 720}
            ]
        for kind in ("document", "voice", "video", "audio"):
            if kind in said:
                what = said[kind]
                kept = self.keep(what.get("name", f"{kind}.bin"), what.get("size") or what.get("text", "x"))
                message[kind] = {**kept, "file_name": what.get("name"), "mime_type": what.get("mime")}
        if said.get("album"):
            message["media_group_id"] = said["album"]

    def _place(self, message: Json, chat: Chat, said: Json) -> None:
        if said.get("reply_to"):
            old = chat.messages.get(int(said["reply_to"]))
            message["reply_to_message"] = old or {
                "message_id": int(said["reply_to"]),
                "date": 0,
                "chat": chat.face(),
            }
            if chat.kind == "supergroup" and not chat.forum:
                # The head of the chain of replies, as the service gives it in groups without topics.
                head = old.get("message_thread_id") if old else None
                message["message_thread_id"] = head or int(said["reply_to"])
        if said.get("thread"):
            number = int(said["thread"])
            message["message_thread_id"] = number
            if chat.forum:
                chat.topics.setdefault(number, f"topic {number}")
                message["is_topic_message"] = True
                message.setdefault(
                    "reply_to_message",
                    {
                        "message_id": number,
                        "date": 1,
                        "chat": chat.face(),
                        "forum_topic_created": {"name": chat.topics[number], "icon_color": 1},
                        "message_thread_id": number,
                        "is_topic_message": True,
                    },
                )

    def keep(self, name: str, content: str | bytes | int) -> Json:
        """A file: its bytes, or (for a number) as many zeros as that, made while they are sent."""
        number = f"F{next(self.numbers)}"
        data = content if isinstance(content, int | bytes) else _bytes(content)
        self.files[number] = (f"documents/{number}_{name.rpartition('.')[2]}", data)
        size = data if isinstance(data, int) else len(data)
        return {"file_id": number, "file_unique_id": f"u{number}", "file_size": size}

    # ------------------------------------------------------------------ checks

    def target(self, call: Json) -> Chat:
        raw = str(call.get("chat_id") or "")
        if not raw:
            raise bad("chat_id is empty")
        chat = self.chats.get(int(raw)) if re.fullmatch(r"-?\d+", raw) else None
        if chat is None:
            raise bad("chat not found")
        if chat.moved_to is not None:
            raise bad("group chat was upgraded to a supergroup chat", migrate_to_chat_id=chat.moved_to)
        if chat.blocked:
            raise BotError(403, f"Forbidden: {chat.blocked}")
        return chat

    def count(self, chat: Chat) -> None:
        now = time.monotonic()
        while chat.sent and chat.sent[0] < now - 60:
            chat.sent.popleft()
        last = sum(at > now - 1 for at in chat.sent)
        if self.per_second is not None and last >= self.per_second:
            raise BotError(429, "Too Many Requests: retry after 1", retry_after=1)
        if self.per_minute is not None and chat.kind != "private" and len(chat.sent) >= self.per_minute:
            wait = int(60 - (now - chat.sent[0])) + 1
            raise BotError(429, f"Too Many Requests: retry after {wait}", retry_after=wait)
        chat.sent.append(now)

    def text_of(self, call: Json, name: str, most: int, what: str) -> str:
        text = str(call.get(name) or "")
        entities = decoded(call.get(f"{name}_entities" if name == "caption" else "entities"), [])
        mode = call.get("parse_mode")
        if mode == "MarkdownV2" and not entities and (odd := RESERVED.search(re.sub(r"`[^`]*`", "", text))):
            raise bad(
                f"can't parse entities: Character '{odd[0]}' is reserved and must be escaped with the preceding '\\'"
            )
        if mode == "HTML" and text.count("<") != text.count(">"):
            raise bad("can't parse entities: Unclosed start tag at byte offset 0")
        size = units(text)
        _check_entities(entities, size)
        if size > most:
            raise bad(f"{what} is too long")
        return text

    def keyboard(self, call: Json) -> list[Json]:
        markup = decoded(call.get("reply_markup"), {})
        buttons = [button for row in markup.get("inline_keyboard", []) for button in row]
        for button in buttons:
            if not button.get("text"):
                raise bad(
                    "can't parse inline keyboard button: text buttons are unallowed in the inline keyboard"
                )
            if not 1 <= len(str(button.get("callback_data", "")).encode()) <= 64:
                raise bad("BUTTON_DATA_INVALID")
        if len(buttons) > 100:
            raise bad("reply markup is too long")
        return buttons

    def thread(self, call: Json, chat: Chat) -> int | None:
        thread = call.get("message_thread_id")
        if thread is None:
            return None
        if int(thread) not in chat.topics:
            raise bad("message thread not found")
        return int(thread)

    def reply(self, call: Json, chat: Chat) -> int | None:
        wanted = decoded(call.get("reply_parameters"), {})
        number = wanted.get("message_id")
        if number is None:
            return None
        if number not in chat.messages:
            if wanted.get("allow_sending_without_reply"):
                return None
            raise bad("message to be replied not found")
        return int(number)


def decoded(value: Any, default: Any) -> Any:
    if isinstance(value, str):
        try:
            return json.loads(value)
        except ValueError:
            raise bad("object expected") from None
    return default if value is None else value


def _bytes(text: str) -> bytes:
    return bytes.fromhex(text[4:]) if text.startswith("hex:") else text.encode()


def _check_entities(entities: list[Json], size: int) -> None:
    spans = []
    for entity in entities:
        start, length = entity.get("offset", -1), entity.get("length", 0)
        if entity.get("type") not in ENTITIES or start < 0 or length <= 0 or start + length > size:
            raise bad(f"can't parse entities: there is no such place for {entity} in a text of {size}")
        if entity["type"] == "text_link" and not re.match(
            r"(https?|tg|mailto|tel|ton)://?\S", entity.get("url", "")
        ):
            raise bad(f"can't parse entities: wrong HTTP URL {entity.get('url')!r}")
        spans.append((start, start + length))
    for one, other in itertools.combinations(sorted(spans), 2):
        if one[0] < other[0] < one[1] < other[1]:
            raise bad(f"can't parse entities: {one} and {other} overlap")
