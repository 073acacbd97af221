"""Slack's own markup and names, made readable. Pure and total."""

import html
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

NAME_LENGTH = 80
MARK = re.compile(r"<([^<>\n]*)>")
_UNSAFE = re.compile(r"[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028\u2029\u202a-\u202e\u2066-\u2069]+")
_GROUPS = {"channel": "@channel", "here": "@here", "everyone": "@everyone", "group": "@group"}


@dataclass(frozen=True, slots=True)
class Chat:
    """What is known of a channel."""

    name: str = ""
    topic: str = ""
    kind: Literal["im", "mpim", "channel", ""] = ""


@dataclass(frozen=True, slots=True)
class Names:
    """What people and channels are called, as far as it is known."""

    users: Mapping[str, str] = field(default_factory=dict)
    chats: Mapping[str, Chat] = field(default_factory=dict)
    roots: Mapping[tuple[str, str], str] = field(default_factory=dict)
    """What stands at the beginning of a thread, by (chat, ts)."""


def readable(text: str, names: Names) -> str:
    """Make what people see of Slack's own text: mentions by name, links by address, escapes undone."""
    return html_unescaped(MARK.sub(lambda mark: _seen(mark[1], names), text))


def _seen(mark: str, names: Names) -> str:
    what, _, label = mark.partition("|")
    if not what:
        return f"&lt;{mark}&gt;"
    match what[0]:
        case "@":
            return f"@{names.users.get(what[1:]) or clean_name(label) or what[1:]}"
        case "#":
            chat = names.chats.get(what[1:])
            return f"#{clean_name(label) or (chat.name if chat else '') or what[1:]}"
        case "!":
            return _special(what[1:], label)
        case _:
            address = what.removeprefix("mailto:").removeprefix("tel:")
            if not label or label in (what, address) or f"//{label}" in what:
                return label or address
            return f"{label} ({address})"


def _special(what: str, label: str) -> str:
    name, _, rest = what.partition("^")
    if name in _GROUPS:
        return _GROUPS[name]
    if name == "subteam":
        return label if label.startswith("@") else f"@{label or rest}"
    return label or f"&lt;!{what}&gt;"


def html_unescaped(text: str) -> str:
    """Undo Slack's three escapes, and no others."""
    return text.replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&")


def clean_name(name: str) -> str:
    """Make a name one line of bounded length without marks that turn text around."""
    return " ".join(_UNSAFE.sub(" ", html.unescape(name[: NAME_LENGTH * 4])).split())[:NAME_LENGTH]
