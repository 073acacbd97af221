"""Who may see what was said, as words that can be compared. Pure.

A message names the audiences that it was said to; whoever asks belongs to some. One in
common, and it may be shown:

    asked from           sees
    any session          what was said under its own key, before and after resets
    a direct message     also the same person's other direct messages, on the same account
    a group              also the other sessions of the same group
    a thread             only its own

Never shown: direct messages to anybody who asks in a group, one group in another, one
person's direct messages to another person, and what was said to another profile.

On the web page and in the terminal nobody is named: whoever holds the token or the
account is the operator, and their conversations there are one person's. The API's
callers are many, and each sees only the session that it names.
"""

from actors.gateway.session_key import KeyParts, SessionKeyError, parse
from messages.gateway import ChatType, Origin
from messages.ids import SessionKey

_OPERATORS_OWN = frozenset({"web", "terminal"})


def heard_by(session_key: SessionKey, user: str | None) -> tuple[str, ...]:
    """Return the audiences of what is said under a key; `user` is the person of a direct message, if known."""
    return (_own(session_key), *_wider(session_key, user))


def seen_by(session_key: SessionKey, origin: Origin) -> tuple[str, ...]:
    """Return the audiences that somebody belongs to who asks in this session, from this place."""
    return (_own(session_key), *_wider(session_key, origin.user))


def may_see(asker: SessionKey, origin: Origin, said_in: SessionKey, said_to: str | None) -> bool:
    """Return whether who asks in `asker`, from `origin`, may see what was said in another session.

    `said_to` is the person of that session, where it is a direct message.
    """
    return not set(seen_by(asker, origin)).isdisjoint(heard_by(said_in, said_to))


def _own(session_key: SessionKey) -> str:
    return f"session {session_key}"


def _wider(session_key: SessionKey, user: str | None) -> tuple[str, ...]:
    try:
        parts = parse(session_key)
    except SessionKeyError:
        return ()  # a key that says nothing of its place is nobody else's
    match parts.chat_type:
        case ChatType.DM:
            person = parts.user or user or None
            if person is not None:
                return (_place("person", parts, person),)
            if parts.platform in _OPERATORS_OWN:
                return (_place("operator", parts),)
            return ()
        case ChatType.GROUP:
            return (_place("group", parts, parts.chat or ""),) if parts.chat else ()
        case ChatType.THREAD:
            return ()


def _place(kind: str, parts: KeyParts, *more: str) -> str:
    """Write an audience; lengths keep parts apart that hold any character."""
    words = (parts.profile, parts.platform, parts.account, *more)
    return " ".join((kind, *(f"{len(word)}:{word}" for word in words)))
