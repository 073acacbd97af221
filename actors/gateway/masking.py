"""Secrets out of what people send: in all the words of a message, whoever chose them. Pure.

A name, a topic, a file's name or a quote can hold a key as well as the text can. Ids
are left as they are: they are compared, and nobody chooses them.
"""

from collections.abc import Iterable
from typing import Final, TypeVar

from actors.redaction import Clean
from messages.base import Message
from messages.gateway import MessageEdited, MessageReceived

M = TypeVar("M", bound=Message)
Spoken = TypeVar("Spoken", MessageReceived, MessageEdited)

WORDS: Final = frozenset({"text", "name", "server", "chat", "thread", "topic"})
"""Fields that hold words, in the parts of a message."""

PARTS: Final = ("author", "quote", "surroundings", "attachments", "context", "overheard")
"""Fields of a message that hold such parts."""


def masked(heard: Spoken, clean: Clean) -> Spoken:
    """Return the message with every known secret in it masked; the same object when there is none."""
    changes: dict[str, object] = {}
    text = clean(heard.text)
    if text != heard.text:
        changes["text"] = text
    for name in PARTS:
        value = getattr(heard, name, None)
        if isinstance(value, Message):
            part: object = _part(value, clean)
        elif value:
            part = _parts(value, clean)
        else:
            continue
        if part is not value:
            changes[name] = part
    return heard.model_copy(update=changes) if changes else heard


def _parts(values: Iterable[Message], clean: Clean) -> object:
    parts = tuple(_part(value, clean) for value in values)
    return values if all(one is other for one, other in zip(parts, values, strict=True)) else parts


def _part(part: M, clean: Clean) -> M:
    changes: dict[str, object] = {}
    for name in type(part).model_fields:
        value = getattr(part, name)
        if isinstance(value, Message):
            inner = _part(value, clean)
            if inner is not value:
                changes[name] = inner
        elif name in WORDS and value:
            words = clean(value)
            if words != value:
                changes[name] = words
    return part.model_copy(update=changes) if changes else part
