"""Checks an account: is the token good, who is it, what may it do, and where is it."""

from typing import Any

from actors.gateway.edge import EdgeContext, EdgeError
from actors.gateway.platforms.discord.directory import as_dict, as_dicts, as_id, as_int, as_text
from actors.gateway.platforms.discord.errors import TOKEN_PAGE
from actors.gateway.platforms.discord.options import DiscordOptions
from actors.gateway.platforms.discord.rest import Rest
from actors.gateway.registry import Finding
from messages.delivery import ProblemKind

MESSAGE_CONTENT = (1 << 18) | (1 << 19)
"""The application's flags for the intent: granted, or allowed to a bot on few servers."""

ADMINISTRATOR = 1 << 3
PERMISSIONS = {
    "View Channels": 1 << 10,
    "Send Messages": 1 << 11,
    "Attach Files": 1 << 15,
    "Read Message History": 1 << 16,
    "Add Reactions": 1 << 6,
    "Send Messages in Threads": 1 << 38,
}
MOST_NAMED = 5


def install_link(application: str) -> str:
    """Return where somebody invites the bot to a server, with the permissions that it needs."""
    wanted = sum(PERMISSIONS.values())
    return (
        f"https://discord.com/oauth2/authorize?client_id={application}"
        f"&scope=bot+applications.commands&permissions={wanted}"
    )


async def examine(options: DiscordOptions, context: EdgeContext) -> tuple[Finding, ...]:
    """Ask Discord about the account. Raises EdgeError when it cannot be reached."""
    async with Rest(options, context.clock) as rest:
        try:
            user = as_dict(await rest.call("GET", "/users/@me"))
        except EdgeError as error:
            if error.problem.kind is not ProblemKind.NEEDS_HUMAN:
                raise
            return (Finding(False, "The token is not valid.", f"Press Reset Token at {TOKEN_PAGE}."),)
        name = as_text(user.get("username"))
        findings = [Finding(True, f"The token is good; the bot is {name} ({as_id(user.get('id'))}).")]
        application = as_dict(await rest.call("GET", "/applications/@me"))
        findings += _intent(options, application)
        guilds = list(as_dicts(await rest.call("GET", "/users/@me/guilds", query={"limit": "200"})))
        findings += _servers(guilds, as_id(application.get("id")) or as_id(user.get("id")) or "")
        findings += _budget(as_dict(await rest.call("GET", "/gateway/bot")))
    return tuple(findings)


def _intent(options: DiscordOptions, application: Any) -> list[Finding]:
    granted = bool((as_int(application.get("flags")) or 0) & MESSAGE_CONTENT)
    if granted and options.message_content:
        return [Finding(True, "The Message Content Intent is on: all messages can be read.")]
    if not options.message_content:
        said = "`message_content: false`: only mentions, replies to the bot and direct messages can be read."
        return [Finding(True, said)]
    remedy = f"Switch it on at {TOKEN_PAGE} → Privileged Gateway Intents, or set `message_content: false`."
    return [Finding(False, "The Message Content Intent is off.", remedy)]


def _servers(guilds: list[Any], application: str) -> list[Finding]:
    if not guilds:
        remedy = f"Invite it: {install_link(application)}"
        return [Finding(False, "The bot is on no server.", remedy)]
    findings = [Finding(True, f"It is on {len(guilds)} server{'s' if len(guilds) != 1 else ''}.")]
    lacking: list[str] = []
    for guild in guilds:
        text = guild.get("permissions")
        granted = int(text) if isinstance(text, str) and text.isdigit() else 0
        missing = [name for name, bit in PERMISSIONS.items() if not granted & (bit | ADMINISTRATOR)]
        if missing:
            lacking.append(f"{as_text(guild.get('name')) or as_id(guild.get('id'))}: {', '.join(missing)}")
    if lacking:
        more = f", and on {len(lacking) - MOST_NAMED} more servers" if len(lacking) > MOST_NAMED else ""
        what = f"Permissions are missing on {'; '.join(lacking[:MOST_NAMED])}{more}."
        remedy = f"Give them to the bot's role there, or invite it anew: {install_link(application)}"
        findings.append(Finding(False, what, remedy))
    return findings


def _budget(told: Any) -> list[Finding]:
    limit = as_dict(told.get("session_start_limit"))
    left, total = as_int(limit.get("remaining")), as_int(limit.get("total"))
    if left is None or total is None or left > total // 10:
        return []
    hours = (as_int(limit.get("reset_after")) or 0) / 3_600_000
    remedy = f"Something connects over and over with this token. It is allowed again in {hours:.1f} hours."
    return [Finding(False, f"Only {left} of {total} connections are left today.", remedy)]
