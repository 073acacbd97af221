"""Checks of a bot, for `callboard doctor` and `callboard platform add`; and posting without a connection."""

from typing import Any

from actors.clock import WallClock
from actors.gateway.edge import EdgeContext, EdgeError
from actors.gateway.platforms.telegram.api import Api
from actors.gateway.platforms.telegram.options import TelegramOptions, shape
from actors.gateway.platforms.telegram.posting import Poster
from actors.gateway.platforms.telegram.translate import Me
from actors.gateway.registry import Finding
from messages.delivery import Post, ProblemKind

MANY_WAITING = 100


async def examine(options: TelegramOptions, _: EdgeContext) -> tuple[Finding, ...]:
    """Look at the token, the bot's switches, and how it is told of messages. Disturbs nobody who polls."""
    api = Api(options)
    try:
        try:
            me = await api.call("getMe")
            Me.of(me)
        except ValueError:
            return (Finding(False, "what answers is no Bot API server", "Correct options.api_url."),)
        except EdgeError as error:
            if error.problem.kind is not ProblemKind.NEEDS_HUMAN:
                raise
            return (Finding(False, error.problem.detail, "Ask @BotFather: /mybots → your bot → API Token."),)
        info = await api.call("getWebhookInfo")
    finally:
        await api.close()
    return (*_switches(me), *_hearing(info if isinstance(info, dict) else {}, options))


def _switches(me: dict[str, Any]) -> tuple[Finding, ...]:
    name = f"@{me.get('username')}"
    sees_all = me.get("can_read_all_group_messages") is True
    joins = me.get("can_join_groups") is True
    return (
        Finding(True, f"the token is good: {name} ({me.get('id')})"),
        Finding(joins, "it can be added to groups")
        if joins
        else Finding(
            False, "it cannot be added to groups", "@BotFather: /setjoingroups → your bot → Enable."
        ),
        Finding(True, "it hears everything in its groups (privacy mode is off)")
        if sees_all
        else Finding(
            False,
            "in groups it hears only commands, mentions and replies (privacy mode is on): no context, no "
            "chats in which everything is answered",
            "@BotFather: /setprivacy → your bot → Disable, then remove it from each group and add it again. "
            "An administrator of a group hears everything anyway.",
        ),
    )


def _hearing(info: dict[str, Any], options: TelegramOptions) -> tuple[Finding, ...]:
    url, waiting = str(info.get("url") or ""), info.get("pending_update_count")
    found = []
    if options.webhook is None and url:
        found.append(
            Finding(
                False,
                "another program has set a webhook for this token",
                "Stop that program; at its start Callboard takes the webhook away, and polls.",
            )
        )
    elif options.webhook is not None and url and url != options.webhook.url:
        found.append(
            Finding(
                False,
                "the webhook is another program's",
                "Stop that program, or give one of them its own bot.",
            )
        )
    if options.webhook is not None and info.get("last_error_message"):
        why = str(info["last_error_message"])[:200]
        found.append(
            Finding(
                False,
                f"Telegram cannot reach the webhook: {why}",
                f"What comes to options.webhook.url must get to {options.webhook.listen}: look at your proxy.",
            )
        )
    if type(waiting) is int and waiting > MANY_WAITING:
        found.append(
            Finding(True, f"{waiting} updates wait; they are handed in at the next start, oldest first")
        )
    return tuple(found)


async def standalone(options: TelegramOptions, post: Post) -> str:
    """Post without a running connection. Raises EdgeError."""
    limits, _ = shape(options)
    assert limits.file_bytes is not None
    api = Api(options)
    try:
        return await Poster(api, options, WallClock(), limits.file_bytes).post(post)
    finally:
        await api.close()
