"""Conversations beside a conversation: their names, their keys, and how one begins. Pure."""

from hashlib import blake2b

from actors.session.entries import first_words
from actors.session.facts import SideBegan
from messages.gateway import MessageReceived
from messages.ids import SessionKey

MOST_SIDES = 5
"""How many may be going on beside one conversation."""


def begin_side(main: SessionKey, heard: MessageReceived, text: str) -> SideBegan:
    """Return the beginning of a conversation beside `main`: what is to be said in it first."""
    about = f"{main}\0{heard.message_id}\0{heard.at.isoformat()}"
    side = blake2b(about.encode("utf-8", "surrogatepass"), digest_size=4).hexdigest()
    origin = heard.origin.model_copy(update={"side": side})
    said = heard.model_copy(update={"origin": origin, "text": text, "via": "message"})
    return SideBegan(side=side, title=first_words(text), heard=said, at=heard.at)


def side_key(main: SessionKey, side: str) -> SessionKey:
    """Return the key of a conversation beside `main`."""
    return SessionKey(f"{main}:~{side}")


def side_in(key: SessionKey) -> str | None:
    """Return the side that a key names; None for a conversation that stands beside no other."""
    _, found, side = key.rpartition(":~")
    return side if found else None


def main_key(key: SessionKey) -> SessionKey:
    """Return the key of the conversation that a side conversation stands beside."""
    return SessionKey(key.rsplit(":~", 1)[0])
