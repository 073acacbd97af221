"""What Discord's error and close codes mean to us. Tables; nothing here talks to anybody."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import aiohttp

from actors.gateway.edge import EdgeError
from actors.gateway.retry_after import retry_after
from messages.delivery import ProblemKind

K = ProblemKind

TOKEN_PAGE = "discord.com/developers/applications → your application → Bot"  # noqa: S105 where it is, not what
NEW_TOKEN = f"the token is not valid (any more): press Reset Token at {TOKEN_PAGE}, and set the new one"


class DiscordError(EdgeError):
    """An EdgeError that remembers Discord's own code."""

    def __init__(self, kind: K, detail: str, *, code: int = 0, status: int = 0, **more: Any) -> None:
        super().__init__(kind, detail, **more)
        self.code = code
        self.status = status


# ------------------------------------------------------------------ REST

CODES: Mapping[int, tuple[K, str]] = {
    # The place.
    10003: (K.TARGET_GONE, "the channel does not exist (any more)"),
    10004: (K.TARGET_GONE, "the server does not exist (any more), or the bot is not in it"),
    10013: (K.TARGET_GONE, "the user does not exist (any more)"),
    50001: (K.TARGET_GONE, "no access to the channel: give the bot's role View Channel there"),
    50007: (K.TARGET_GONE, "this person takes no direct messages from the bot"),
    50008: (K.TARGET_GONE, "nothing can be written in a channel of this kind"),
    50009: (K.TARGET_GONE, "the channel's verification level keeps the bot out"),
    50013: (
        K.TARGET_GONE,
        "a permission is missing: give the bot's role Send Messages (in threads too) there",
    ),
    50024: (K.TARGET_GONE, "this cannot be done in a channel of this kind"),
    50033: (K.TARGET_GONE, "Discord does not know the recipient"),
    50055: (K.TARGET_GONE, "the server is not valid (any more)"),
    50083: (K.TARGET_GONE, "the thread is archived"),
    160005: (K.TARGET_GONE, "the thread is locked"),
    # The message.
    10008: (K.REFUSED, "the message does not exist (any more)"),
    10014: (K.REFUSED, "the emoji does not exist"),
    10015: (K.REFUSED, "the interaction's webhook does not exist (any more)"),
    10062: (K.REFUSED, "the interaction is not known (any more)"),
    20009: (K.REFUSED, "explicit content cannot be sent to this recipient"),
    40005: (K.REFUSED, "the file is too large for this place"),
    40060: (K.REFUSED, "the interaction was acknowledged before"),
    50005: (K.REFUSED, "a message of somebody else cannot be edited"),
    50006: (K.REFUSED, "an empty message cannot be sent"),
    50021: (K.REFUSED, "this cannot be done with a system message"),
    50027: (K.REFUSED, "the interaction's token has expired"),
    50035: (K.REFUSED, "Discord refuses the message's form"),
    90001: (K.REFUSED, "the person has blocked reactions of the bot"),
    160002: (K.REFUSED, "a reply needs the permission Read Message History"),
    200000: (K.REFUSED, "the server's AutoMod blocks the message"),
    200001: (K.REFUSED, "the server's AutoMod blocks the title"),
    240000: (K.REFUSED, "Discord blocks a link in the message as harmful"),
    # Waiting.
    20016: (K.RATE_LIMITED, "the channel is in slow mode"),
    20022: (K.RATE_LIMITED, "too many announcements were edited"),
    20028: (K.RATE_LIMITED, "too much is written in this channel"),
    20029: (K.RATE_LIMITED, "too much is written on this server"),
    30010: (K.REFUSED, "the message has the most reactions it can have"),
    30046: (K.REFUSED, "an old message was edited too often"),
    40003: (K.RATE_LIMITED, "direct messages are opened too fast"),
    130000: (K.TRANSIENT, "Discord is overloaded"),
    # Somebody's hand.
    40001: (K.NEEDS_HUMAN, NEW_TOKEN),
    40002: (K.NEEDS_HUMAN, "Discord wants the owner's account verified before the bot may go on"),
    40333: (
        K.NEEDS_HUMAN,
        "Discord refuses this program's requests as such: is the address of the API right?",
    ),
    50014: (K.NEEDS_HUMAN, NEW_TOKEN),
    20001: (K.NEEDS_HUMAN, "the token is not a bot's: use the one from the page Bot"),
}

STATUSES: Mapping[int, tuple[K, str]] = {
    400: (K.REFUSED, "Discord refuses the request"),
    401: (K.NEEDS_HUMAN, NEW_TOKEN),
    403: (K.TARGET_GONE, "Discord does not allow it there"),
    404: (K.TRANSIENT, "nothing is at this address of the API"),
    405: (K.REFUSED, "Discord refuses the request"),
    408: (K.UNKNOWN, "Discord did not wait for the request"),
    413: (K.REFUSED, "the file is too large for this place"),
    429: (K.RATE_LIMITED, "too many requests"),
}
"""For answers without a code that is known."""

LONGEST_WAIT_S = 3600.0
BANNED_WAIT_S = 60.0
"""A 429 that tells no time comes from the service in front of Discord, which bans addresses."""


def of_answer(status: int, body: Any, headers: Mapping[str, str]) -> DiscordError:
    """Classify an answer that is no success."""
    told: dict[str, Any] = body if isinstance(body, dict) else {}
    code = told.get("code")
    code = code if isinstance(code, int) and not isinstance(code, bool) else 0
    kind, words = CODES.get(code) or STATUSES.get(status) or _by_class(status)
    detail = f"{words} ({status}{f', {code}' if code else ''}{_said(told)})"
    if status != 429 and kind is not K.RATE_LIMITED:
        return DiscordError(kind, detail, code=code, status=status)
    wait = _wait(told, headers)
    banned = not isinstance(body, dict)
    return DiscordError(
        K.RATE_LIMITED,
        detail,
        code=code,
        status=status,
        retry_after_s=BANNED_WAIT_S if wait is None and banned else wait,
        whole_account=banned or told.get("global") is True or headers.get("X-RateLimit-Scope") == "global",
    )


def _by_class(status: int) -> tuple[K, str]:
    if status >= 500:
        return K.UNKNOWN, "Discord has a failure of its own"
    return K.REFUSED, "Discord refuses the request"


def _wait(told: Mapping[str, Any], headers: Mapping[str, str]) -> float | None:
    for value in (
        told.get("retry_after"),
        retry_after(headers),
        headers.get("X-RateLimit-Reset-After"),
    ):
        try:
            seconds = float(value)  # type: ignore[arg-type]
        except (TypeError, ValueError):
            continue
        if seconds >= 0:  # and no NaN
            return min(seconds, LONGEST_WAIT_S)
    return None


def _said(told: Mapping[str, Any]) -> str:
    """Return what Discord says itself: the message, and the first field that it names."""
    message, where = told.get("message"), ""
    errors: Any = told.get("errors")
    names: list[str] = []
    while isinstance(errors, dict) and errors and len(names) < 8:
        if isinstance(errors.get("_errors"), list) and errors["_errors"]:
            first = errors["_errors"][0]
            where = f": {'.'.join(names)}: {first.get('message')}" if isinstance(first, dict) else ""
            break
        name = next(iter(errors))
        names.append(str(name))
        errors = errors[name]
    return f": {message}{where}"[:300] if isinstance(message, str) else ""


def names_field(error: EdgeError, field: str) -> bool:
    """Say whether Discord refused the form because of this field."""
    return isinstance(error, DiscordError) and error.code == 50035 and field in error.problem.detail


def of_connection(error: Exception) -> DiscordError:
    """Classify a call that got no answer: before it was sent nothing happened; after that, nobody knows."""
    words = f"{type(error).__name__}: {error}".rstrip(": ")
    unsent = (aiohttp.ClientConnectorError, aiohttp.ConnectionTimeoutError, aiohttp.InvalidURL)
    return DiscordError(K.TRANSIENT if isinstance(error, unsent) else K.UNKNOWN, words)


# ------------------------------------------------------------------ gateway


@dataclass(frozen=True, slots=True)
class Close:
    """What a close code of the gateway means."""

    words: str
    resume: bool = True
    """Whether the session goes on; else a new one begins."""
    fatal: bool = False
    """Connecting again cannot help before somebody does what `words` say."""


CLOSES: Mapping[int, Close] = {
    1000: Close("closed in good order"),
    1001: Close("the gateway goes away"),
    1006: Close("the line was cut"),
    4000: Close("the gateway has a failure of its own"),
    4001: Close("the gateway did not know what we sent"),
    4002: Close("the gateway could not read what we sent"),
    4003: Close("not identified yet", resume=False),
    4004: Close(NEW_TOKEN, fatal=True),
    4005: Close("identified twice"),
    4007: Close("the session's number was wrong", resume=False),
    4008: Close("we sent too fast"),
    4009: Close("the session timed out", resume=False),
    4010: Close("Discord does not know the shard: this program uses one, it must be mended", fatal=True),
    4011: Close(
        "the bot is on so many servers that Discord demands several shards, which is not supported: "
        "use a bot on fewer than 2,500 servers",
        fatal=True,
    ),
    4012: Close("Discord does not speak this version of the gateway any more: update discord.py", fatal=True),
    4013: Close("Discord does not know the intents that were asked for: update discord.py", fatal=True),
    4014: Close(
        f"the Message Content Intent is not switched on: switch it on at {TOKEN_PAGE} → Privileged Gateway Intents, "
        "or set `message_content: false`",
        fatal=True,
    ),
}


def of_close(code: int | None) -> Close:
    """Look a close code up. One that is unknown is like a cut line."""
    known = CLOSES.get(code) if code is not None else None
    return known or Close(f"closed with {code}" if code else "the line was cut")
