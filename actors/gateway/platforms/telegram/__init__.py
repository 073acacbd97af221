"""Telegram: a bot in direct messages, groups, and forums' topics. See docs/platforms/telegram.md.

The library is imported when an account is connected, not when platforms are listed.
"""

from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from actors.gateway.edge import Edge, EdgeContext
from actors.gateway.platforms.telegram.options import CAPABILITIES, LIMITS, TelegramOptions, shape
from actors.gateway.registry import Finding, PlatformEntry, Question
from messages.delivery import Post

if TYPE_CHECKING:
    from collections.abc import Callable


def _edge(options: TelegramOptions, context: EdgeContext) -> Edge:
    from actors.gateway.platforms.telegram.edge import TelegramEdge  # noqa: PLC0415 the library comes with it

    return TelegramEdge(options, context)


async def _examine(options: TelegramOptions, context: EdgeContext) -> tuple[Finding, ...]:
    from actors.gateway.platforms.telegram.examine import examine  # noqa: PLC0415 the same

    return await examine(options, context)


async def _standalone(options: TelegramOptions, post: Post) -> str:
    from actors.gateway.platforms.telegram.examine import standalone  # noqa: PLC0415 the same

    return await standalone(options, post)


def _render(_: Any) -> "Callable[[str], str]":
    from actors.gateway.platforms.telegram.render import shown  # noqa: PLC0415 a Markdown parser comes with it

    return shown


def _missing() -> str:
    absent = [name for name in ("telegram", "mistune") if find_spec(name) is None]
    return f"{', '.join(absent)} is not installed" if absent else ""


PLATFORM = PlatformEntry(
    name="telegram",
    title="Telegram",
    factory=_edge,
    config=TelegramOptions,
    limits=LIMITS,
    capabilities=CAPABILITIES,
    shape=shape,
    render=_render,
    check=_missing,
    install_hint="pip install python-telegram-bot mistune",
    home_variable="TELEGRAM_HOME_CHAT",
    pii_safe=True,
    prompt_hint=(
        "Telegram shows bold, italics, strikethrough, code, quotes and links; headings become bold, tables "
        "plain columns. No images by address."
    ),
    standalone=_standalone,
    questions=(
        Question(
            option="token",
            text="Bot token",
            where="Telegram → @BotFather → /newbot, or /mybots → your bot → API Token",
            variable="TELEGRAM_BOT_TOKEN",
        ),
    ),
    first_steps=(
        "1. In Telegram, write to **@BotFather**: `/newbot`. Choose a name and a user name; it answers with a "
        "token.\n"
        "2. For groups: `/setprivacy` → your bot → **Disable**, so that it hears more than what mentions it.\n"
        "3. Add the bot to your groups, or write to it directly."
    ),
    examine=_examine,
)
