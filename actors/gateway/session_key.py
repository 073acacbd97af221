"""Session keys: one place, one key, and back again. Pure.

`agent:<profile>:<platform>:<account>:<chat_type>:<chat>[:<thread>][:<user>][:~<side>]`,
each part percent-encoded, so that no id of any platform can be mistaken for a separator.
The chat type says which of the optional parts there are. A direct message that
carries no chat id goes by its user: `@` and the user's id stand for the chat, and
`@` itself is always encoded. `~` begins the name of a side conversation of the place
and of nothing else: at the beginning of any other part it is encoded.
"""

from dataclasses import dataclass
from urllib.parse import quote, unquote

from actors.gateway.access import AccessBook
from messages.gateway import ChatType, Origin
from messages.ids import SessionKey

LONGEST_PART = 512
"""In characters; no platform's ids come near it, and a key is stored with every fact."""


class SessionKeyError(ValueError):
    """A place that names nobody, or a text that is no key."""


@dataclass(frozen=True, slots=True)
class KeyParts:
    """What a key says. `user` is set where people in one chat have sessions of their own."""

    profile: str
    platform: str
    account: str
    chat_type: ChatType
    chat: str | None
    thread: str | None = None
    user: str | None = None
    side: str | None = None
    """A conversation beside the place's own."""


def parts_of(origin: Origin, *, shared: bool | None = None) -> KeyParts:
    """Say whose session a place is.

    Direct messages go by chat, else by user. Groups have a session for each
    participant, or one for all when `shared`; threads one for all, or one for each
    participant when `shared` is False.

    Raises SessionKeyError for a place that names neither chat nor user: it is
    never sent to some default session.
    """
    chat, thread, user = origin.chat or None, origin.thread or None, origin.user or None
    if origin.chat_type is ChatType.DM:
        if chat is None and user is None:
            raise SessionKeyError("a direct message with neither a chat id nor a user id has no session")
        return _checked(origin, chat, None, None if chat else user)
    if chat is None:
        raise SessionKeyError(f"a {origin.chat_type} message without a chat id has no session")
    if origin.chat_type is ChatType.THREAD:
        if thread is None:
            raise SessionKeyError("a thread message without a thread id has no session")
        return _checked(origin, chat, thread, user if shared is False else None)
    return _checked(origin, chat, None, None if shared else user)


def _checked(origin: Origin, chat: str | None, thread: str | None, user: str | None) -> KeyParts:
    parts = KeyParts(
        origin.profile,
        origin.platform,
        origin.account,
        origin.chat_type,
        chat,
        thread,
        user,
        origin.side or None,
    )
    for name in ("profile", "platform", "account"):
        if not getattr(parts, name):
            raise SessionKeyError(f"a message without a {name} has no session")
    for name in ("profile", "platform", "account", "chat", "thread", "user", "side"):
        if len(getattr(parts, name) or "") > LONGEST_PART:
            raise SessionKeyError(f"the {name} id is longer than {LONGEST_PART} characters")
    return parts


def build(parts: KeyParts) -> SessionKey:
    """Write a key. Different parts give different keys."""
    if parts.chat is not None:
        chat = _encode(parts.chat)
    elif parts.user is not None:
        chat = "@" + _encode(parts.user)
    else:
        raise SessionKeyError("a key needs a chat or a user")
    words = [
        "agent",
        *map(_encode, (parts.profile, parts.platform, parts.account)),
        parts.chat_type.value,
        chat,
    ]
    if parts.thread is not None:
        words.append(_encode(parts.thread))
    if parts.user is not None and parts.chat is not None:
        words.append(_encode(parts.user))
    if parts.side is not None:
        words.append("~" + _encode(parts.side))
    return SessionKey(":".join(words))


def parse(key: str) -> KeyParts:
    """Read a key. `parse(build(parts)) == parts`. Raises SessionKeyError for anything else."""
    words = key.split(":")
    if len(words) < 6 or words[0] != "agent":
        raise SessionKeyError(f"{key!r} is not a session key: it should be agent:profile:platform:account:…")
    try:
        chat_type = ChatType(words[4])
    except ValueError:
        raise SessionKeyError(f"{key!r} is not a session key: {words[4]!r} is no chat type") from None
    side = _decode(words.pop()[1:]) if len(words) > 6 and words[-1].startswith("~") else None
    profile, platform, account = map(_decode, words[1:4])
    optional = [_decode(word) for word in words[6:]]
    thread = optional.pop(0) if chat_type is ChatType.THREAD and optional else None
    user = optional.pop(0) if optional and chat_type is not ChatType.DM else None
    if optional or (chat_type is ChatType.THREAD and thread is None):
        raise SessionKeyError(f"{key!r} is not a session key: its {chat_type} has the wrong number of parts")
    if words[5].startswith("@"):
        return KeyParts(profile, platform, account, chat_type, None, thread, _decode(words[5][1:]), side)
    parts = KeyParts(profile, platform, account, chat_type, _decode(words[5]), thread, user, side)
    if build(parts) != key:
        raise SessionKeyError(f"{key!r} is not a session key: it is not written the one way keys are written")
    return parts


def key_of(origin: Origin, *, shared: bool | None = None) -> SessionKey:
    """Return the key of a place. Raises SessionKeyError."""
    return build(parts_of(origin, shared=shared))


def key_for(origin: Origin, book: AccessBook) -> SessionKey:
    """Return the key of a place as operators have it. Raises SessionKeyError.

    They say which profile answers there and whose the conversation is; and a chat that
    has changed its id keeps the conversation that it had under its first.
    """
    return build(parts_of(book.at_home(origin), shared=book.shares(origin)))


def _encode(part: str) -> str:
    if part.isascii() and part.isalnum():
        return part  # most ids are; quoting costs more than all the rest of a key
    encoded = quote(part, safe="", errors="surrogatepass")
    return f"%7E{encoded[1:]}" if encoded.startswith("~") else encoded


def _decode(part: str) -> str:
    return unquote(part, errors="surrogatepass")
