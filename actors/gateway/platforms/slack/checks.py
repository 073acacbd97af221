"""Is the account set up so that it works? Asks Slack; connects nothing and posts nothing."""

from actors.gateway.edge import EdgeContext
from actors.gateway.platforms.slack.connection import identity, session
from actors.gateway.platforms.slack.errors import SlackError
from actors.gateway.platforms.slack.options import SlackOptions
from actors.gateway.platforms.slack.web import Web
from actors.gateway.registry import Finding
from messages.delivery import ProblemKind

SCOPES = {
    "chat:write": "to post",
    "app_mentions:read": "to hear that it is mentioned",
    "channels:history": "to hear public channels, and what was missed in them",
    "channels:read": "to know channels by name",
    "groups:history": "to hear private channels",
    "im:history": "to hear direct messages",
    "users:read": "to know people by name",
    "files:read": "to fetch what people attach",
    "files:write": "to post files",
    "reactions:write": "to show with a sign that a message was seen",
}
"""What the app needs, and for what."""

OPTIONAL = {
    "groups:read": "to know private channels by name",
    "mpim:history": "to hear direct messages of several people",
    "mpim:read": "to tell them from channels",
    "im:write": "to write to a person first",
    "commands": "for the slash command /callboard",
}
PAGE = "api.slack.com/apps → your app → OAuth & Permissions → Scopes; then install the app again"


async def examine(options: SlackOptions, context: EdgeContext) -> tuple[Finding, ...]:
    """Check the tokens and the permissions. Raises EdgeError when Slack cannot be reached."""
    async with session() as http:
        web = Web(options, http, context.clock)
        try:
            us = await identity(web)
        except SlackError as error:
            if error.problem.kind is not ProblemKind.NEEDS_HUMAN:
                raise
            return (Finding(ok=False, what="The bot token is not taken.", remedy=error.problem.detail),)
        found = [Finding(ok=True, what=f"The bot is {us.user_id} in the workspace {us.team or us.team_id}.")]
        found += _scopes(await web.scopes())
        if options.mode == "socket":
            found.append(await _socket(web))
        else:
            what = f"Events are awaited on {options.listen}{options.path}; Slack must reach it by https."
            found.append(Finding(ok=True, what=what))
        return tuple(found)


def _scopes(granted: frozenset[str]) -> list[Finding]:
    if not granted:
        return [Finding(ok=True, what="Slack did not say which permissions the token has.")]
    lacking = [f"{scope} ({why})" for scope, why in SCOPES.items() if scope not in granted]
    wanted = [f"{scope} ({why})" for scope, why in OPTIONAL.items() if scope not in granted]
    found = []
    if lacking:
        found.append(Finding(ok=False, what=f"Permissions are missing: {', '.join(lacking)}.", remedy=PAGE))
    else:
        found.append(Finding(ok=True, what="All permissions are there."))
    if wanted:
        found.append(Finding(ok=True, what=f"Not granted, and useful: {', '.join(wanted)}."))
    return found


async def _socket(web: Web) -> Finding:
    try:
        await web.socket_url()
    except SlackError as error:
        if error.problem.kind is not ProblemKind.NEEDS_HUMAN:
            raise
        return Finding(ok=False, what="Socket Mode cannot be used.", remedy=error.problem.detail)
    return Finding(ok=True, what="Socket Mode is switched on.")
