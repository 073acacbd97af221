"""Where something is to be said: `origin`, `local`, `platform` or `platform:chat[:thread]`. Pure.

    =========================  ======================================================
    origin                     where the conversation is
    local                      nowhere: it stays in the history
    PLATFORM                   the home chat that the settings name for the platform
    PLATFORM:CHAT              this chat
    PLATFORM:CHAT:THREAD       this thread
    =========================  ======================================================

PLATFORM may be `platform/account` where there are several accounts. A colon or a
percent sign in an id is percent-encoded: `%3A`, `%25`. What names no platform that
we serve, or no chat, is kept locally, with the reason.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import unquote

from messages.gateway import ChatType, Origin
from messages.ids import StreamId

MAIN = "main"


@dataclass(frozen=True, slots=True)
class Local:
    """It stays in the history; `why` says why it goes nowhere, empty when that was asked for."""

    why: str = ""


def account_name(platform: str, account: str) -> str:
    """Name an account as settings and targets do: `platform`, or `platform/account`."""
    return platform if account == MAIN else f"{platform}/{account}"


def platform_and_account(name: str) -> tuple[str, str]:
    """Read what `account_name` wrote."""
    platform, _, account = name.partition("/")
    return platform, account or MAIN


def outbox_stream(name: str) -> StreamId:
    """Return the stream of an account's outbox."""
    platform, account = platform_and_account(name)
    return StreamId(f"outbox:{platform}:{account}")


def resolve(target: str, origin: Origin, homes: Mapping[str, str | None]) -> Origin | Local:
    """Say where a target is. `homes` has an entry for each account that we serve, with its home chat."""
    words = target.strip().split(":")
    match [word.strip() for word in words]:
        case [""] | ["origin"]:
            return origin
        case ["local"]:
            return Local()
        case [name] if name in homes:
            home = homes[name]
            if not home:
                return Local(f"{name} has no home chat: set platforms.{name}.home")
            return _place(name, home.split(":"), origin)
        case [name, chat, *rest] if name in homes and chat and len(rest) <= 1:
            return _place(name, [chat, *rest], origin)
        case [name, *_] if name in homes:
            return Local(f"{target!r} is no target: write {name}:CHAT or {name}:CHAT:THREAD")
        case _:
            known = ", ".join(["origin", "local", *homes])
            return Local(f"{target!r} names nothing that is connected here; known: {known}")


def _place(name: str, words: list[str], origin: Origin) -> Origin:
    platform, account = platform_and_account(name)
    chat, thread = unquote(words[0]), unquote(words[1]) if len(words) > 1 and words[1] else None
    return Origin(
        platform=platform,
        account=account,
        chat_type=ChatType.GROUP if thread is None else ChatType.THREAD,
        chat=chat,
        thread=thread,
        profile=origin.profile,
    )
