"""Our slash commands in Discord's own menu: written only when they differ from what stands there."""

import re
from collections.abc import Iterable, Mapping
from typing import Any

import structlog

from actors.gateway.edge import EdgeError, OfferedCommand
from actors.gateway.platforms.discord.rest import Rest

log = structlog.get_logger(__name__)

MOST = 100
OPTION = "text"
STRING = 3
SLASH = 1
_NAME = re.compile(r"^[-_a-z0-9]{1,32}$")
_CHOICES = re.compile(r"^\[?([a-z0-9_-]+(?:\|[a-z0-9_-]+)+)\]?$")
_ROUTE = "/applications/{application}/commands"


def wanted(commands: Iterable[OfferedCommand]) -> list[dict[str, Any]]:
    """Return the commands in Discord's form. Names that it does not take are left out."""
    fit = [command for command in commands if _NAME.match(command.name)]
    return [_form(command) for command in fit[:MOST]]


def _form(command: OfferedCommand) -> dict[str, Any]:
    form: dict[str, Any] = {
        "type": SLASH,
        "name": command.name,
        "description": (command.summary or command.name)[:100],
    }
    if command.argument:
        option: dict[str, Any] = {
            "type": STRING,
            "name": OPTION,
            "description": command.argument[:100],
            "required": not command.argument.startswith("["),
        }
        if (choices := _CHOICES.match(command.argument)) is not None:
            option["choices"] = [{"name": each, "value": each} for each in choices[1].split("|")[:25]]
        form["options"] = [option]
    return form


def _core(command: Mapping[str, Any]) -> Any:
    """Reduce a command to what we say of it: Discord adds ids, versions and defaults."""
    options = command.get("options") or []
    return (
        command.get("name"),
        command.get("type", SLASH),
        command.get("description"),
        [
            (
                option.get("name"),
                option.get("type"),
                option.get("description"),
                bool(option.get("required")),
                [(c.get("name"), c.get("value")) for c in option.get("choices") or []],
            )
            for option in options
        ],
    )


def differ(there: Any, ours: list[dict[str, Any]]) -> bool:
    """Say whether Discord's list has to be written."""
    if not isinstance(there, list):
        return True
    try:
        return sorted(map(_core, there), key=repr) != sorted(map(_core, ours), key=repr)
    except (AttributeError, TypeError):
        return True


async def register(rest: Rest, application: str, commands: Iterable[OfferedCommand]) -> bool:
    """Write our commands where they differ; say whether they did. Raises EdgeError."""
    ours = wanted(commands)
    there = await rest.call("GET", _ROUTE, application=application, patience_s=5.0)
    if not differ(there, ours):
        return False
    await rest.call("PUT", _ROUTE, application=application, json=ours, patience_s=5.0)
    log.info("discord's menu of commands is written", commands=len(ours))
    return True


async def register_quietly(rest: Rest, application: str, commands: Iterable[OfferedCommand]) -> None:
    """Do the same, where a failure only means that people have to type the commands."""
    try:
        await register(rest, application, commands)
    except EdgeError as error:
        log.warning("the commands could not be put into discord's menu", why=error.problem.detail)
