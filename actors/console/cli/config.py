"""`callboard config`: what is set, whether it is right, and the schema for editors."""

import json
from typing import Any

import yaml
from pydantic import BaseModel, SecretStr

from actors.console.cli.invocation import ExitCode, Invocation
from actors.console.cli.printable import printable
from actors.redaction import Redactor, mask
from messages.settings import Settings

KNOWN_SHAPES = Redactor()


async def show_config(invocation: Invocation) -> int:
    """Print all settings as YAML. Raises SettingsError."""
    loaded = invocation.read_settings()
    found = "" if invocation.settings_path.is_file() else " (there is no such file: these are the defaults)"
    invocation.out(f"# {invocation.settings_path}{found}")
    invocation.out(yaml.safe_dump(shown(loaded.settings), sort_keys=False, allow_unicode=True).rstrip())
    return ExitCode.OK


async def check_config(invocation: Invocation) -> int:
    """Say that the settings are right. Raises SettingsError with every mistake."""
    loaded = invocation.read_settings()
    if loaded.path is None:
        invocation.out(f"There is no {invocation.settings_path}; the defaults hold, which is valid.")
        return ExitCode.OK
    wrong = _wrong_platforms(invocation, loaded.settings)
    for line in wrong:
        invocation.note(printable(line))
    if wrong:
        return ExitCode.USAGE
    invocation.out(f"{loaded.path} is valid.")
    for where in loaded.literal_secrets:
        invocation.note(
            f"Warning: {where} holds a secret itself. Write ${{NAME}} and set NAME in the environment."
        )
    return ExitCode.OK


def _wrong_platforms(invocation: Invocation, settings: Settings) -> list[str]:
    """Say what is wrong with the options of the platforms that are set, or keeps them from being used here."""
    if not settings.platforms:
        return []
    # Only those that are set are imported.
    from actors.gateway.registry import PlatformUnavailableError, Registry  # noqa: PLC0415
    from actors.gateway.targets import platform_and_account  # noqa: PLC0415

    registry, wrong = Registry.discover(), []
    for name, each in settings.platforms.items():
        try:
            if each.enabled:
                registry.prepare(*platform_and_account(name), each, invocation.env)
        except PlatformUnavailableError as error:
            wrong.append(str(error))
    return wrong


def shown(value: object) -> Any:
    """Return settings as plain data with every secret masked."""
    match value:
        case SecretStr():
            return mask(value.get_secret_value())
        case BaseModel():
            return {name: shown(item) for name, item in value}
        case dict():
            return {name: shown(item) for name, item in value.items()}
        case list() | tuple():
            return [shown(item) for item in value]
        case str():
            return KNOWN_SHAPES.clean(str(value))  # an address may hold a password: a proxy's, a server's
        case _:
            return value


def schema_text() -> str:
    """Return the JSON schema of callboard.yaml."""
    schema = Settings.model_json_schema()
    whole = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "callboard.yaml",
        **{name: part for name, part in schema.items() if name != "title"},
    }
    return json.dumps(whole, indent=2, ensure_ascii=False) + "\n"
