"""Discord: servers, threads and direct messages, over the gateway and the REST API.

Only what is cheap stands here: discord.py is loaded when an account is connected.
"""

import importlib.util

from actors.gateway.chunks import Unit
from actors.gateway.edge import Edge, EdgeContext
from actors.gateway.platforms.discord.options import DiscordOptions
from actors.gateway.platforms.discord.render import discord_markdown
from actors.gateway.registry import Capabilities, Finding, Limits, PlatformEntry, Question
from messages.delivery import Post

LONGEST = 2000
KEY_VALID_S = 120.0
"""Discord remembers a nonce for `a few minutes`."""


def _edge(options: DiscordOptions, context: EdgeContext) -> Edge:
    from actors.gateway.platforms.discord.edge import DiscordEdge  # noqa: PLC0415 of use to who connects

    return DiscordEdge(options, context)


async def _standalone(options: DiscordOptions, post: Post) -> str:
    from actors.gateway.platforms.discord.saying import post_alone  # noqa: PLC0415 loads aiohttp

    return await post_alone(options, post)


async def _examine(options: DiscordOptions, context: EdgeContext) -> tuple[Finding, ...]:
    from actors.gateway.platforms.discord.examine import examine  # noqa: PLC0415 loads aiohttp

    return await examine(options, context)


def _missing() -> str:
    return "" if importlib.util.find_spec("discord") else "discord.py is not installed."


def _shape(options: DiscordOptions) -> tuple[Limits, Capabilities]:
    limits = Limits(
        LONGEST,
        Unit.UTF16,
        edits_per_second=1.0,
        edits_per_minute=50.0,
        files=True,
        file_bytes=options.file_bytes,
        fetch_bytes=options.fetch_bytes,
    )
    return limits, CAPABILITIES


CAPABILITIES = Capabilities(
    threads=True,
    buttons=True,
    edits=True,
    typing=True,
    reactions=True,
    idempotency_key=True,
    key_valid_s=KEY_VALID_S,
    history=True,
    says_refusals_natively=True,
)

PLATFORM = PlatformEntry(
    name="discord",
    title="Discord",
    factory=_edge,
    config=DiscordOptions,
    limits=Limits(LONGEST, Unit.UTF16, edits_per_second=1.0, edits_per_minute=50.0, files=True),
    capabilities=CAPABILITIES,
    shape=_shape,
    render=lambda _: discord_markdown,
    check=_missing,
    install_hint="pip install discord.py",
    home_variable="CALLBOARD_DISCORD_HOME",
    pii_safe=True,
    prompt_hint=(
        "Discord shows bold, italics, headings up to ###, lists, quotes, links and code blocks. "
        "Tables become code blocks; keep answers short."
    ),
    standalone=_standalone,
    questions=(
        Question(
            option="token",
            text="Bot token",
            where="discord.com/developers/applications → your application → Bot → Reset Token",
            variable="DISCORD_TOKEN",
        ),
    ),
    first_steps=(
        "1. Open https://discord.com/developers/applications and press **New Application**.\n"
        "2. Under **Bot**, switch on **Message Content Intent** and press **Reset Token**; copy the token.\n"
        "3. Under **Installation**, choose **Guild Install** with the scopes `bot` and `applications.commands` and "
        "the permissions View Channels, Send Messages, Send Messages in Threads, Read Message History, Attach "
        "Files, Add Reactions; open the install link and choose your server."
    ),
    examine=_examine,
)
