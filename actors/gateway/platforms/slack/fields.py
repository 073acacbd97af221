"""The fields of what Slack sends, whatever they hold: each look gives a value of the wanted type. Pure and total."""

import math
import re
from datetime import UTC, datetime
from typing import Any

ID = re.compile(r"[A-Za-z0-9]{1,64}")
TS = re.compile(r"[0-9]{1,12}\.[0-9]{1,12}", re.ASCII)
WORD = re.compile(r"\s*([A-Za-z_]+)(?=\s|$)")

SPOKEN = frozenset({"", "file_share", "thread_broadcast", "me_message", "bot_message"})
"""Kinds of `message` that somebody said; all others tell of joins, topics and the like."""


def opened(envelope: object) -> tuple[str, dict[str, Any]]:
    """Return an envelope's kind and payload."""
    return (
        (text_of(envelope, "type"), dict_of(envelope, "payload")) if isinstance(envelope, dict) else ("", {})
    )


def is_spoken(event: dict[str, Any]) -> bool:
    """Say whether an event is a message that somebody said."""
    spoken = text_of(event, "subtype") in SPOKEN and text_of(event, "type") in ("message", "app_mention")
    return spoken and is_ts(text_of(event, "ts"))


def action_of(payload: dict[str, Any]) -> dict[str, Any]:
    """Return what was pressed."""
    first = list_of(payload, "actions")[:1]
    return first[0] if first and isinstance(first[0], dict) else {}


def text_of(where: object, name: str) -> str:
    found = where.get(name) if isinstance(where, dict) else None
    return found if isinstance(found, str) else ""


def dict_of(where: object, name: str) -> dict[str, Any]:
    found = where.get(name) if isinstance(where, dict) else None
    return found if isinstance(found, dict) else {}


def list_of(where: object, name: str) -> list[Any]:
    found = where.get(name) if isinstance(where, dict) else None
    return found if isinstance(found, list) else []


def is_id(text: str) -> bool:
    return ID.fullmatch(text) is not None


def id_or_none(text: str) -> str | None:
    return text if is_id(text) else None


def is_ts(text: str) -> bool:
    return TS.fullmatch(text) is not None


def instant(ts: str) -> datetime | None:
    """Return the moment that a `ts` names; None when no calendar has it."""
    try:
        seconds = float(ts)
        return datetime.fromtimestamp(seconds, UTC) if math.isfinite(seconds) else None
    except (ValueError, OverflowError, OSError):
        return None


def command_of(payload: dict[str, Any], known: frozenset[str]) -> tuple[str, bool]:
    """Return what a native command says, and whether that is a command of ours.

    `/stop` is itself; of the app's own command (`/callboard stop`) the first word is
    the command, and what begins with no such word is said to us.
    """
    name, text = text_of(payload, "command").lstrip("/").lower(), text_of(payload, "text")
    if name in known:
        return f"/{name} {text}".rstrip(), True
    first = WORD.match(text.removeprefix("/"))
    if first is not None and (first[1].lower() in known or not known):
        return f"/{text.removeprefix('/').strip()}", True
    return (text, False) if text.strip() else ("/help", True)
