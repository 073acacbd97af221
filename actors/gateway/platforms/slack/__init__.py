"""Slack: Socket Mode, or the Events API. The SDK is imported when an edge runs."""

import importlib.util

from actors.clock import WallClock
from actors.gateway.edge import Edge, EdgeContext
from actors.gateway.platforms.slack.edge import SlackEdge
from actors.gateway.platforms.slack.options import CAPABILITIES, LIMITS, SlackOptions, shape
from actors.gateway.registry import Finding, PlatformEntry, Question
from messages.delivery import Post

FIRST_STEPS = """\
1. Open api.slack.com/apps, press *Create New App*, choose *From a manifest*, choose your workspace, and paste the
   manifest of docs/platforms/slack.md.
2. Press *Install to Workspace* and allow it.
3. Under *Basic Information → App-Level Tokens* make a token with the scope `connections:write`.
4. Invite the bot into a channel: `/invite @callboard`.
"""

QUESTIONS = (
    Question(
        "bot_token",
        "Bot token (xoxb-…)",
        "api.slack.com/apps → your app → OAuth & Permissions → Bot User OAuth Token",
        variable="SLACK_BOT_TOKEN",
    ),
    Question(
        "app_token",
        "App-level token (xapp-…)",
        "api.slack.com/apps → your app → Basic Information → App-Level Tokens",
        variable="SLACK_APP_TOKEN",
    ),
)


def _edge(options: SlackOptions, context: EdgeContext) -> Edge:
    return SlackEdge(options, context)


async def _examine(options: SlackOptions, context: EdgeContext) -> tuple[Finding, ...]:
    from actors.gateway.platforms.slack.checks import examine  # noqa: PLC0415 the SDK takes long to import

    return await examine(options, context)


async def _standalone(options: SlackOptions, post: Post) -> str:
    from actors.gateway.platforms.slack.connection import post_once  # noqa: PLC0415 as above

    return await post_once(options, EdgeContext("slack", "main", WallClock()), post)


def _check() -> str:
    lacking = [name for name in ("slack_sdk", "aiohttp", "mistune") if importlib.util.find_spec(name) is None]
    return f"{', '.join(lacking)} cannot be imported" if lacking else ""


def _mrkdwn(text: str) -> str:
    from actors.gateway.platforms.slack.render import mrkdwn  # noqa: PLC0415 as above

    return mrkdwn(text)


PLATFORM = PlatformEntry(
    name="slack",
    title="Slack",
    factory=_edge,
    config=SlackOptions,
    limits=LIMITS,
    capabilities=CAPABILITIES,
    shape=shape,
    render=lambda _: _mrkdwn,
    check=_check,
    install_hint="pip install slack_sdk aiohttp mistune",
    home_variable="CALLBOARD_SLACK_HOME",
    pii_safe=True,
    prompt_hint="Bold, italics, lists, quotes, links, code and small tables are shown; headings become bold, "
    "images become links. Nobody can be notified by writing @name.",
    standalone=_standalone,
    questions=QUESTIONS,
    first_steps=FIRST_STEPS,
    examine=_examine,
)
