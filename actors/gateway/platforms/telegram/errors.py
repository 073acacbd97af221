"""What Telegram's refusals mean, and so what follows. Pure.

The Bot API answers with a status and a sentence; only two things are structured
(`retry_after`, `migrate_to_chat_id`). What the sentences mean is in one table here.
"""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from actors.gateway.edge import EdgeError
from messages.delivery import ProblemKind

LONGEST_WAIT_S = 7 * 86_400.0

NEW_TOKEN = "give a new one, from @BotFather with /token"  # noqa: S105 a remedy

_GONE = (
    "chat not found|chat_id is empty|user not found|group chat was (?:deactivated|deleted)|chat was deleted"
    "|PEER_ID_INVALID|CHANNEL_(?:PRIVATE|INVALID)|CHAT_ID_INVALID|INPUT_USER_DEACTIVATED|USER_IS_BLOCKED"
    "|bot was (?:kicked|blocked)|not a member"
)
_SHUT = (
    "(?:have no|not enough) rights to (?:send|post)|need administrator rights|CHAT_WRITE_FORBIDDEN"
    r"|CHAT_RESTRICTED|CHAT_SEND_\w+_FORBIDDEN|CHAT_ADMIN_REQUIRED|CHAT_GUEST_SEND_FORBIDDEN"
)
_BAD_REQUESTS: tuple[tuple[str, ProblemKind], ...] = (
    (_GONE, ProblemKind.TARGET_GONE),
    ("message thread not found|TOPIC_(?:DELETED|CLOSED|ID_INVALID)", ProblemKind.TARGET_GONE),
    (_SHUT, ProblemKind.TARGET_GONE),
    ("too many requests|retry after|FLOOD_WAIT|SLOWMODE_WAIT", ProblemKind.RATE_LIMITED),
    ("try again later|temporarily unavailable|internal", ProblemKind.TRANSIENT),
)
"""Of a 400: what is meant. Whatever is not here was refused for what it is: too long, empty, malformed."""
_TABLE = tuple((re.compile(pattern, re.IGNORECASE), kind) for pattern, kind in _BAD_REQUESTS)

_SECONDS = re.compile(r"(?:retry after|FLOOD_WAIT_|SLOWMODE_WAIT_)\s*(\d{1,7})", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Answer:
    """An answer that is no success."""

    status: int
    description: str
    retry_after_s: float | None = None
    moved_to: str | None = None


def answer_of(status: int, payload: bytes) -> Answer:
    """Read the body of an answer, whatever it is."""
    try:
        body: Any = json.loads(payload)
    except (ValueError, RecursionError):
        body = None
    if not isinstance(body, dict):
        return Answer(status, f"HTTP {status}, and no JSON: another server answers, or a proxy")
    raw = body.get("parameters")
    parameters: Mapping[str, Any] = raw if isinstance(raw, dict) else {}
    wait, moved = parameters.get("retry_after"), parameters.get("migrate_to_chat_id")
    description = str(body.get("description") or f"HTTP {status}")[:400]
    seconds = _seconds(wait)
    if seconds is None and (said := _SECONDS.search(description)):
        seconds = float(said[1])
    return Answer(
        status,
        description,
        None if seconds is None else min(max(seconds, 0.0), LONGEST_WAIT_S),
        str(moved) if type(moved) is int and abs(moved) < 1 << 63 else None,
    )


def _seconds(value: object) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return float(value) if 0 <= value < 1e12 else None


def error_of(answer: Answer) -> EdgeError:
    """Say what a refused call means."""
    kind, said = kind_of(answer), f"{answer.status}: {answer.description}"
    match answer.status:
        case 401:
            said = f"Telegram does not know the bot's token: {NEW_TOKEN}"
        case 404:
            said = f"Telegram does not know the bot's token, or this is no Bot API server: {NEW_TOKEN}"
        case 409:
            said = f"another program uses this token ({answer.description})"
        case 413:
            said = "larger than Telegram takes"
        case _:
            pass
    return EdgeError(kind, said, retry_after_s=answer.retry_after_s, moved_to=answer.moved_to)


def kind_of(answer: Answer) -> ProblemKind:
    """Classify by the structured parts first, then by the status, then by the sentence."""
    if answer.moved_to is not None:
        return ProblemKind.TARGET_GONE
    match answer.status:
        case 401 | 404:
            return ProblemKind.NEEDS_HUMAN
        case 403:
            return ProblemKind.TARGET_GONE
        case 409:
            return ProblemKind.TRANSIENT
        case 413:
            return ProblemKind.REFUSED
        case 420 | 429:
            return ProblemKind.RATE_LIMITED
        case status if status >= 500:
            # A gateway that gave up waiting: the message may stand in the chat.
            return ProblemKind.UNKNOWN
        case 400:
            found = (kind for pattern, kind in _TABLE if pattern.search(answer.description))
            return next(found, ProblemKind.REFUSED)
        case _:
            return ProblemKind.TRANSIENT if answer.status < 400 else ProblemKind.REFUSED


def says(answer: Answer | None, pattern: str) -> bool:
    """Whether this is the 400 with such a sentence."""
    return (
        answer is not None
        and answer.status == 400
        and re.search(pattern, answer.description, re.IGNORECASE) is not None
    )
