"""From Telegram's raw updates to what the front desk hears. Pure, and total: an odd payload is a refusal.

A topic is a thread only where the service says so (`is_topic_message`): in ordinary
groups a chain of replies carries a `message_thread_id` too. Ids of messages, never of
updates, say what was heard before.
"""

import re
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

from actors.gateway.platforms.telegram.media import (
    Attached,
    Json,
    files_in,
    identifier,
    inner,
    notes_in,
    number,
    text,
)
from messages.blocks import TextBlock
from messages.gateway import (
    Author,
    ChatMoved,
    ChatType,
    EdgeHeard,
    MessageEdited,
    MessageReceived,
    Origin,
    Quote,
    Surroundings,
)
from messages.ids import MessageId

UPDATES = ("message", "edited_message", "callback_query")
"""What we ask the service for."""
MOST_ENTITIES = 200
LONGEST_NAME = 200
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_SPACES = re.compile(r"\s+")


@dataclass(frozen=True, slots=True)
class Me:
    """Who we are on the platform."""

    id: int
    username: str

    @classmethod
    def of(cls, answer: object) -> "Me":
        """Read the answer to getMe. Raises ValueError when it makes no sense."""
        found = number(answer.get("id")) if isinstance(answer, dict) else None
        if found is None or not isinstance(answer, dict):
            raise ValueError("the answer to getMe names nobody")
        return cls(found, text(answer.get("username")))


@dataclass(frozen=True, slots=True)
class Ear:
    """What the translation needs to know."""

    me: Me
    platform: str
    account: str
    commands: frozenset[str] = frozenset()
    """Names of the slash commands that we know."""


@dataclass(frozen=True, slots=True)
class Heard:
    """What an update says."""

    message: EdgeHeard
    files: tuple[Attached, ...] = ()
    album: tuple[str, str, str] | None = None
    """Names the album that it is a part of: chat, person, and the service's id of it."""
    query: str = ""
    """The pressed button's, which the service wants acknowledged."""
    below: int | None = None
    """The message that the pressed button stands below."""


@dataclass(frozen=True, slots=True)
class Refusal:
    """An update that says nothing to us; `why` is one of few words, to be counted."""

    why: str


def translate(update: object, ear: Ear, now: datetime) -> Heard | Refusal:
    """Translate one update."""
    if not isinstance(update, dict):
        return Refusal("no object")
    if "callback_query" in update:
        return _pressed(inner(update, "callback_query"), ear, now)
    if "edited_message" in update:
        return _edited(inner(update, "edited_message"), ear, now)
    if "message" in update:
        return _said(inner(update, "message"), ear, now)
    return Refusal("not asked for")


def update_id(update: object) -> int | None:
    """Return the number that confirms an update; None for what is no update."""
    return number(update.get("update_id")) if isinstance(update, dict) else None


# ------------------------------------------------------------------ the kinds of updates


def _said(message: Json, ear: Ear, now: datetime) -> Heard | Refusal:
    moved = _moved(message, ear, now)
    if moved is not None:
        return moved
    found = _who_and_where(message, ear)
    if isinstance(found, Refusal):
        return found
    message_id, origin, author = found
    if author.id == str(ear.me.id):
        return Refusal("our own")
    said = _words(message, ear)
    if isinstance(said, Refusal):
        return said
    files, notes = files_in(message), notes_in(message)
    if not said.text.strip() and not files and not notes and not said.mentions_us:
        return Refusal("nothing said")
    group = identifier(message.get("media_group_id"), 100)
    album = (origin.chat or "", author.id, group) if group and files else None
    received = MessageReceived(
        message_id=message_id,
        origin=origin,
        author=author,
        text=said.text,
        via="command"
        if said.command and (said.mentions_us or _is_ours(said.command, origin, ear))
        else "message",
        mentions_us=said.mentions_us,
        quote=_quote(message, ear),
        surroundings=_surroundings(message),
        album=group or None,
        sent_at=_instant(message.get("date")),
        attachments=_forwarded(message) + notes,
        at=now,
    )
    return Heard(received, files, album)


def _edited(message: Json, ear: Ear, now: datetime) -> Heard | Refusal:
    found = _who_and_where(message, ear)
    if isinstance(found, Refusal):
        return found
    message_id, origin, author = found
    if author.id == str(ear.me.id):
        return Refusal("our own")
    said = _words(message, ear)
    if isinstance(said, Refusal):
        return said
    if not said.text.strip():
        return Refusal("edited without text")  # a live location, say
    return Heard(MessageEdited(message_id=message_id, origin=origin, author=author, text=said.text, at=now))


def _pressed(query: Json, ear: Ear, now: datetime) -> Heard | Refusal:
    number_of, command = identifier(query.get("id"), 64), text(query.get("data"))
    message = inner(query, "message")
    author = _person(inner(query, "from"))
    found = _who_and_where({**message, "from": query.get("from"), "sender_chat": None}, ear)
    if isinstance(found, Refusal) or author is None:
        return Refusal("a button of nowhere")
    if not number_of or not command.strip():
        return Refusal("a button without a command")
    below, origin, _ = found
    received = MessageReceived(
        message_id=MessageId(number_of),
        origin=origin,
        author=author,
        text=command[:4096],
        via="button",
        quote=Quote(message_id=below, text=text(message.get("text"))[:4096], ours=True),
        surroundings=_surroundings(message),
        at=now,
    )
    return Heard(received, query=number_of, below=number(message.get("message_id")))


def _moved(message: Json, ear: Ear, now: datetime) -> Heard | Refusal | None:
    here = number(inner(message, "chat").get("id"))
    to, came = number(message.get("migrate_to_chat_id")), number(message.get("migrate_from_chat_id"))
    if here is None or (to is None and came is None):
        return None
    old, new = (here, to) if to is not None else (came, here)
    if old == new:
        return Refusal("moved nowhere")
    return Heard(ChatMoved(platform=ear.platform, account=ear.account, old=str(old), new=str(new), at=now))


# ------------------------------------------------------------------ people and places


def _who_and_where(message: Json, ear: Ear) -> tuple[MessageId, Origin, Author] | Refusal:
    message_id, chat = number(message.get("message_id")), inner(message, "chat")
    chat_id, kind = number(chat.get("id")), text(chat.get("type"))
    if message_id is None or chat_id is None:
        return Refusal("no ids")
    if kind not in ("private", "group", "supergroup"):
        return Refusal("a channel" if kind == "channel" else "no chat")
    author = _author(message)
    if author is None:
        return Refusal("nobody said it")
    thread = number(message.get("message_thread_id")) if message.get("is_topic_message") is True else None
    in_group = ChatType.GROUP if thread is None else ChatType.THREAD
    chat_type = ChatType.DM if kind == "private" else in_group
    origin = Origin(
        platform=ear.platform,
        account=ear.account,
        chat_type=chat_type,
        chat=str(chat_id),
        thread=None if thread is None else str(thread),
        user=author.id,
    )
    return MessageId(str(message_id)), origin, author


def _author(message: Json) -> Author | None:
    """Whoever speaks: an anonymous admin and a channel speak as a chat, by its id."""
    chat = inner(message, "sender_chat")
    if chat and (chat_id := number(chat.get("id"))) is not None:
        return Author(id=str(chat_id), name=_name(text(chat.get("title"))))
    return _person(inner(message, "from"))


def _person(user: Json) -> Author | None:
    user_id = number(user.get("id"))
    if user_id is None:
        return None
    name = f"{text(user.get('first_name'))} {text(user.get('last_name'))}".strip() or text(
        user.get("username")
    )
    return Author(id=str(user_id), name=_name(name), bot=user.get("is_bot") is True)


def _name(raw: str) -> str:
    return _SPACES.sub(" ", raw[: 2 * LONGEST_NAME]).strip()[:LONGEST_NAME]


def _surroundings(message: Json) -> Surroundings:
    topic = inner(inner(message, "reply_to_message"), "forum_topic_created")
    return Surroundings(
        chat=_name(text(inner(message, "chat").get("title"))), thread=_name(text(topic.get("name")))
    )


def _quote(message: Json, ear: Ear) -> Quote | None:
    replied = inner(message, "reply_to_message")
    message_id = number(replied.get("message_id"))
    part = text(inner(message, "quote").get("text"))
    if message_id is None:
        return _quote_from_elsewhere(inner(message, "external_reply"), part)
    if inner(replied, "forum_topic_created"):
        return None  # the head of a topic: everything in it replies to that
    author = _author(replied)
    whole = text(replied.get("text")) or text(replied.get("caption"))
    return Quote(
        message_id=MessageId(str(message_id)),
        author=author,
        text=(part or whole)[:4096],
        ours=number(inner(replied, "from").get("id")) == ear.me.id,
    )


def _quote_from_elsewhere(external: Json, part: str) -> Quote | None:
    """A reply to something in another chat: its words are there only as far as the person quoted them."""
    if not external:
        return None
    chat, message_id = number(inner(external, "chat").get("id")), number(external.get("message_id"))
    # Ids are counted anew in each chat: one of another chat must be taken for none of this one.
    place = f"{chat if chat is not None else 'elsewhere'}/{message_id if message_id is not None else '?'}"
    origin = inner(external, "origin")
    source = inner(origin, "sender_chat") or inner(origin, "chat")
    person, named = _person(inner(origin, "sender_user")), text(origin.get("sender_user_name"))
    if (source_id := number(source.get("id"))) is not None:
        person = Author(id=str(source_id), name=_name(text(source.get("title"))))
    elif person is None and named:
        person = Author(id="hidden", name=_name(named))
    return Quote(message_id=MessageId(place), author=person, text=part[:4096])


def _forwarded(message: Json) -> tuple[TextBlock, ...]:
    origin = inner(message, "forward_origin")
    if not origin:
        return ()
    chat = inner(origin, "sender_chat") or inner(origin, "chat")
    person = _person(inner(origin, "sender_user"))
    name = _name(text(chat.get("title")) or text(origin.get("sender_user_name"))) or (
        person.name if person else ""
    )
    return (TextBlock(text=f"[forwarded from {name or 'somebody'}]"),)


def _instant(seconds: object) -> datetime | None:
    found = number(seconds)
    # The service writes 0 for what can no longer be read, and never the far future.
    return _EPOCH + timedelta(seconds=found) if found is not None and 0 < found < 1 << 33 else None


def _is_ours(command: str, origin: Origin, ear: Ear) -> bool:
    return command in ear.commands or (origin.chat_type is ChatType.DM and not ear.commands)


# ------------------------------------------------------------------ words


@dataclass(slots=True)
class _Words:
    text: str
    mentions_us: bool = False
    command: str = ""
    """The name of the command that it begins with."""


@dataclass(slots=True)
class _Pieces:
    """A text that is put together anew, around entities counted in UTF-16."""

    raw: bytes
    parts: list[str] = field(default_factory=list)
    at: int = 0

    def piece(self, start: int, end: int) -> str:
        return self.raw[2 * start : 2 * end].decode("utf-16-le", "replace")

    def replace(self, start: int, end: int, new: str) -> None:
        self.parts += [self.piece(self.at, start), new]
        self.at = end

    def whole(self) -> str:
        return "".join([*self.parts, self.piece(self.at, len(self.raw) // 2)])


def _words(message: Json, ear: Ear) -> _Words | Refusal:
    said, marks = text(message.get("text")), message.get("entities")
    if not said:
        said, marks = text(message.get("caption")), message.get("caption_entities")
    words, pieces = _Words(said), _Pieces(said.encode("utf-16-le", "surrogatepass"))
    size = len(pieces.raw) // 2
    for start, end, mark in _places(marks, size):
        if start < pieces.at:
            continue  # inside of another that was replaced
        shown = pieces.piece(start, end)
        match text(mark.get("type")):
            case "bot_command":
                name, _, whose = shown.removeprefix("/").partition("@")
                if start == 0 and whose and whose.lower() != ear.me.username.lower():
                    return Refusal("another bot's command")
                if start == 0:
                    words.command, words.mentions_us = name.lower(), words.mentions_us or bool(whose)
                    pieces.replace(start, end, f"/{name}")
            case "mention" if _same_name(shown, ear):
                words.mentions_us = True
                _drop_at_start(pieces, start, end, shown)
            case "text_mention":
                ours = number(inner(mark, "user").get("id")) == ear.me.id
                words.mentions_us = words.mentions_us or ours
                if ours:
                    _drop_at_start(pieces, start, end, f"@{shown.lstrip('@')}")
                else:
                    pieces.replace(start, end, f"@{shown.lstrip('@')}")
            case "text_link" if url := text(mark.get("url")):
                pieces.replace(start, end, f"[{shown}]({url[:2000]})")
            case _:
                pass
    words.text = pieces.whole()
    if words.command == "start":
        words.text, words.command = _started(words.text, ear)
    return words


def _started(said: str, ear: Ear) -> tuple[str, str]:
    """`/start` is what Telegram's own button says; a link can give it one word, here the name of a command."""
    wanted = said.removeprefix("/start").strip().lower()
    if "start" in ear.commands:
        return said, "start"
    name = wanted if wanted in ear.commands else "help"
    return f"/{name}", name


def _same_name(shown: str, ear: Ear) -> bool:
    return bool(ear.me.username) and shown.lower() == f"@{ear.me.username.lower()}"


def _drop_at_start(pieces: _Pieces, start: int, end: int, shown: str) -> None:
    if pieces.piece(pieces.at, start).strip() or any(part.strip() for part in pieces.parts):
        pieces.replace(start, end, shown)
        return
    size = len(pieces.raw) // 2
    after = pieces.piece(end, size)
    rest = re.sub(r"^[,:]?\s+|^[,:](?=\s|$)", "", after)
    pieces.parts, pieces.at = [], end + (len(after) - len(rest))


def _places(marks: object, size: int) -> list[tuple[int, int, Json]]:
    """Return the entities that are places in the text, in order."""
    found = []
    for mark in marks[:MOST_ENTITIES] if isinstance(marks, list) else ():
        start, length = (
            (number(mark.get(part)) for part in ("offset", "length"))
            if isinstance(mark, dict)
            else (None, None)
        )
        if start is not None and length is not None and 0 <= start < start + length <= size:
            found.append((start, start + length, mark))
    return sorted(found, key=lambda place: (place[0], -place[1]))
