"""`callboard platform add`: from a token to a first answer.

What it does, in this order: says what to do on the platform; looks for other programs
with the same account; asks what is needed; checks it, here and with the service; then
writes secrets into `callboard.env` and the rest into `callboard.yaml`, each whole or
not at all, with a copy of what was there; and makes the code with which the person
becomes the owner. Until the check is through, nothing is written.
"""

import asyncio
import contextlib
import copy
import getpass
import json
import re
import secrets
import shutil
import sys
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from actors.clock import WallClock
from actors.console.cli.invocation import ExitCode, Invocation, make_home
from actors.console.cli.other_gateways import find_others
from actors.console.cli.printable import printable
from actors.console.cli.running import find_running
from actors.console.cli.settings_edit import EditError, check_edit, has_platform, with_platform
from actors.env_file import FILE, read_env, write_env, write_private
from actors.errors import StartError
from actors.gateway.edge import EdgeContext, EdgeError
from actors.gateway.pairing import new_claim
from actors.gateway.registry import (
    Finding,
    PlatformEntry,
    PlatformUnavailableError,
    Question,
    Ready,
    Registry,
)
from actors.gateway.targets import account_name, platform_and_account
from actors.redaction import Redactor
from messages.settings import PlatformSettings, Settings

CHECK_S = 30.0
MADE_BYTES = 32
_NAME = re.compile(r"[a-z0-9][a-z0-9_.-]*(/[A-Za-z0-9][A-Za-z0-9_.-]*)?\Z")
_NUMBER = re.compile(r"(0|-?[1-9][0-9]{0,15})\Z")
_PLAIN: dict[str, bool | int] = {"true": True, "false": False}
_VARIABLE = re.compile(r"\$\{[A-Za-z_][A-Za-z0-9_]*\}\Z")


@dataclass(frozen=True, slots=True)
class Adding:
    """What the command line says."""

    name: str | None
    options: tuple[str, ...] = ()
    token_stdin: bool = False
    yes: bool = False
    check: bool = True
    replace: bool = False


class NotAddedError(Exception):
    """It was not added; the text says why, and nothing was written."""

    def __init__(self, why: str, code: ExitCode = ExitCode.FAILED) -> None:
        super().__init__(why)
        self.code = code


@dataclass(slots=True)
class _Answers:
    """What was asked for and found out."""

    options: dict[str, Any] = field(default_factory=dict)
    """As they are written: secrets as ${NAME}."""
    secrets: dict[str, str] = field(default_factory=dict)
    """By the variable's name; those of the environment are not among them."""
    made: list[str] = field(default_factory=list)
    """Variables whose secrets we made."""


async def add_platform(invocation: Invocation, adding: Adding, registry: Registry | None = None) -> int:
    """Add a platform, or list what there is. Raises StartError."""
    registry = registry or Registry.discover()
    if adding.name is None:
        return list_platforms(invocation, registry)
    try:
        return await _add(invocation, adding, registry, adding.name)
    except NotAddedError as error:
        invocation.note(f"Not added: {error}")
        return error.code
    except EditError as error:
        invocation.note(f"Not added: {error}.")
        return ExitCode.FAILED


def list_platforms(invocation: Invocation, registry: Registry) -> int:
    """List the platforms by name, with what they are called and whether they are set."""
    settings = invocation.read_settings().settings
    for name in registry.names():
        accounts = [each for each in settings.platforms if platform_and_account(each)[0] == name]
        state = f"set: {', '.join(accounts)}" if accounts else ""
        try:
            entry = registry.get(name)
            missing = entry.check()
            title = entry.title or name
            state = state or (f"needs something: {missing} {entry.install_hint}".rstrip() if missing else "")
        except PlatformUnavailableError as error:
            title, state = name, f"cannot be loaded: {error.what}"
        invocation.out(printable(f"{name:<12} {title:<22} {state}".rstrip()))
    invocation.out()
    invocation.out("Connect one:  callboard platform add NAME   (NAME/ACCOUNT for a second account)")
    return ExitCode.OK


async def _add(invocation: Invocation, adding: Adding, registry: Registry, name: str) -> int:
    if not _NAME.match(name):
        raise NotAddedError(f"{name!r} is no name: write PLATFORM or PLATFORM/ACCOUNT.", ExitCode.USAGE)
    platform, account = platform_and_account(name)
    name = account_name(platform, account)
    entry = registry.get(platform)
    missing = entry.check()
    if missing:
        raise NotAddedError(f"{missing} {entry.install_hint}".strip())
    make_home(invocation.home)
    settings = invocation.read_settings().settings
    before = _text_of(invocation.settings_path)
    _may_replace(invocation, adding, before, name)
    if entry.first_steps and not adding.yes:
        invocation.out(printable(entry.first_steps.strip()))
        invocation.out()
    answers = _ask(invocation, adding, entry, account)
    redactor = Redactor(answers.secrets.values())
    ready = _prepared(invocation, registry, name, answers.options, answers)
    _write_plainly(invocation, registry, name, ready, answers)
    _warn_of_others(invocation, adding, [*answers.secrets.values(), *_used(invocation, answers)])
    if adding.check:
        await _check(invocation, adding, ready, redactor)
    _write(invocation, name, before, answers, settings)
    _say_what_next(invocation, entry, name, answers)
    return ExitCode.OK


def _may_replace(invocation: Invocation, adding: Adding, before: str, name: str) -> None:
    if not has_platform(before, name) or adding.replace:
        return
    if adding.yes or not _agrees(invocation, f"{name} is set already. Put the new one in its place?"):
        raise NotAddedError(f"{name} is set already. Name a second account {name}/NAME, or say --replace.")


# ---------------------------------------------------------------------- asking


def _ask(invocation: Invocation, adding: Adding, entry: PlatformEntry, account: str) -> _Answers:
    given = _given(adding.options)
    answers = _Answers()
    token_stdin = adding.token_stdin
    for question in entry.questions:
        variable = variable_of(question, account)
        text = given.pop(question.option, None)
        if text is None and variable and token_stdin:
            text, token_stdin = invocation.stdin.readline().strip(), False
        if text is None and variable and _is_known(invocation, adding, question, variable):
            put(answers.options, question.option, f"${{{variable}}}")
            continue
        if text is None:
            text = _default(question) if adding.yes else _asked(invocation, question)
        _take(answers, question, variable, text.strip())
    for option, text in given.items():
        put(answers.options, option, _value(text))
    return answers


def _is_known(invocation: Invocation, adding: Adding, question: Question, variable: str) -> bool:
    """Whether a secret is there already, and need not be asked for."""
    value = invocation.env.get(variable)
    if not value:
        return False
    kept = read_env(invocation.home / FILE).get(variable) == value
    where = FILE if kept else "the environment"
    if kept and not adding.yes and not _agrees(invocation, f"{question.text}: use the one in {where} again?"):
        return False
    invocation.note(f"{question.text}: taken from {variable} of {where}.")
    return True


def _given(options: Iterable[str]) -> dict[str, str]:
    given: dict[str, str] = {}
    for option in options:
        name, equals, value = option.partition("=")
        if not equals or not name.strip():
            raise NotAddedError(f"--option {name}: write NAME=VALUE.", ExitCode.USAGE)
        given[name.strip()] = value
    return given


def _default(question: Question) -> str:
    if question.default or question.optional or question.made:
        return question.default
    also = f", or {question.variable} in the environment" if question.variable else ""
    raise NotAddedError(f"{question.text} is missing: --option {question.option}=…{also}.", ExitCode.USAGE)


def _asked(invocation: Invocation, question: Question) -> str:
    """Ask until there is an answer, or none is needed. Raises NotAddedError when the input ends."""
    if question.where:
        invocation.out(printable(f"  {question.where}"))
    hint = f" [{question.default}]" if question.default else ""
    hint = hint or (
        " (Enter: one is made)" if question.made else " (Enter: none)" if question.optional else ""
    )
    while True:
        text = _read(invocation, f"{question.text}{hint}: ", hidden=bool(question.variable))
        if text.strip():
            return text
        if question.default or question.optional or question.made:
            return question.default


def _take(answers: _Answers, question: Question, variable: str, text: str) -> None:
    if not text and question.made:
        text = secrets.token_hex(MADE_BYTES)
        answers.made.append(variable)
    if not text:
        if not question.optional:
            raise NotAddedError(f"{question.text} is missing.", ExitCode.USAGE)
        return
    if _VARIABLE.match(text) or not variable:
        put(answers.options, question.option, _value(text))
        return
    if any(ord(char) < 32 for char in text):
        raise NotAddedError(f"{question.text}: there is a line end or another control character in it.")
    answers.secrets[variable] = text
    put(answers.options, question.option, f"${{{variable}}}")


def variable_of(question: Question, account: str) -> str:
    """Name the variable that holds a secret of an account: `DISCORD_BOT_TOKEN`, `DISCORD_BOT_TOKEN_WORK`."""
    if not question.variable or account == "main":
        return question.variable
    return f"{question.variable}_{re.sub(r'[^A-Za-z0-9]', '_', account).upper()}"


def put(options: dict[str, Any], dotted: str, value: Any) -> None:
    """Set `a.b.c`, making the mappings on the way."""
    *above, last = dotted.split(".")
    for step in above:
        inner = options.setdefault(step, {})
        if not isinstance(inner, dict):
            raise NotAddedError(f"--option {dotted}: {step} has a value already.", ExitCode.USAGE)
        options = inner
    options[last] = value


def _value(text: str) -> Any:
    """Read what somebody gave for an option: text, or JSON where it is a list or a mapping."""
    if text[:1] in {"[", "{"}:
        try:
            return json.loads(text)
        except ValueError:
            return _literal(text)
    return _literal(text)


def _literal(text: str) -> str:
    return text if _VARIABLE.match(text) else text.replace("${", "$${")


def _read(invocation: Invocation, prompt: str, *, hidden: bool) -> str:
    if hidden and invocation.stdin is sys.stdin and sys.stdin.isatty():
        return getpass.getpass(prompt)
    invocation.stdout.write(prompt)
    invocation.stdout.flush()
    line = invocation.stdin.readline()
    if not line:
        raise NotAddedError("the input ended before everything was said.")
    if not (invocation.stdin is sys.stdin and sys.stdin.isatty()):
        invocation.out()
    return line.rstrip("\n")


def _agrees(invocation: Invocation, question: str) -> bool:
    return _read(invocation, f"{question} [y/N] ", hidden=False).strip().lower() in {"y", "yes"}


# ---------------------------------------------------------------------- checking


def _environment(invocation: Invocation, answers: _Answers) -> dict[str, str]:
    return {**invocation.env, **answers.secrets}


def _used(invocation: Invocation, answers: _Answers) -> list[str]:
    """The secrets that the options take from the environment."""
    names = re.findall(r"\$\{([A-Za-z_][A-Za-z0-9_]*)\}", json.dumps(answers.options))
    return [invocation.env[name] for name in names if name in invocation.env]


def _write_plainly(
    invocation: Invocation, registry: Registry, name: str, ready: Ready, answers: _Answers
) -> None:
    """Write numbers and truth values as such, wherever that means the same: everything was typed as text."""
    for where in list(_texts(answers.options)):
        plain = _PLAIN.get(text := _at(answers.options, where))
        if plain is None and _NUMBER.match(text):
            plain = int(text)
        if plain is None:
            continue
        changed = copy.deepcopy(answers.options)
        put(changed, ".".join(where), plain)
        with contextlib.suppress(NotAddedError):
            if _prepared(invocation, registry, name, changed, answers).options == ready.options:
                answers.options = changed


def _texts(options: Mapping[str, Any], above: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    for name, value in options.items():
        if isinstance(value, dict):
            yield from _texts(value, (*above, name))
        elif isinstance(value, str) and "." not in name:
            yield (*above, name)


def _at(options: Mapping[str, Any], where: tuple[str, ...]) -> str:
    value: Any = options
    for step in where:
        value = value[step]
    return str(value)


def _prepared(
    invocation: Invocation, registry: Registry, name: str, options: Mapping[str, Any], answers: _Answers
) -> Ready:
    env = _environment(invocation, answers)
    try:
        settings = PlatformSettings.model_validate({"options": _filled(options, env)})
        return registry.prepare(*platform_and_account(name), settings, env)
    except PlatformUnavailableError as error:
        raise NotAddedError(f"{error.what} {error.remedy}".strip(), ExitCode.USAGE) from None
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        raise NotAddedError(f"the options are wrong: {first['msg']}.", ExitCode.USAGE) from None


def _filled(value: Any, env: Mapping[str, str]) -> Any:
    """Return options with their variables' values, as the settings' reader gives them."""
    match value:
        case dict():
            return {name: _filled(each, env) for name, each in value.items()}
        case list():
            return [_filled(each, env) for each in value]
        case str() if _VARIABLE.match(value):
            found = env.get(value[2:-1])
            if found is None:
                raise NotAddedError(f"{value[2:-1]} is not set in the environment.", ExitCode.USAGE)
            return found
        case str():
            return value.replace("$${", "${")
        case _:
            return value


def _warn_of_others(invocation: Invocation, adding: Adding, tokens: list[str]) -> None:
    home = invocation.env.get("HOME")
    others = find_others(Path(home), tokens) if home else ()
    for other in others:
        invocation.note(printable(f"Warning: {other.warning}"))
        invocation.note(printable(f"         Stop it first: {other.stop}"))
    if others and not adding.yes and not _agrees(invocation, "Go on all the same?"):
        raise NotAddedError("another gateway runs. Stop it, then call this again.")


async def _check(invocation: Invocation, adding: Adding, ready: Ready, redactor: Redactor) -> None:
    findings = await examined(ready, invocation.home)
    for finding in findings:
        mark = "ok   " if finding.ok else "wrong"
        invocation.out(printable(redactor.clean(f"{mark} {finding.what}")))
        if finding.remedy and not finding.ok:
            invocation.out(printable(redactor.clean(f"      {finding.remedy}")))
    if all(finding.ok for finding in findings):
        return
    if adding.yes or not _agrees(invocation, "Keep it all the same?"):
        raise NotAddedError("the check failed; nothing was written. --no-check keeps it without a check.")


async def examined(ready: Ready, home: Path, within_s: float = CHECK_S) -> tuple[Finding, ...]:
    """Let a platform examine an account of its own; what keeps it from that is a finding too."""
    if ready.entry.examine is None:
        return ()
    context = EdgeContext(ready.entry.name, ready.account, WallClock(), files=home / "attachments")
    try:
        async with asyncio.timeout(within_s):
            return await ready.entry.examine(ready.options, context)
    except EdgeError as error:
        detail = error.problem.detail or error.problem.kind.value
        return (Finding(ok=False, what=detail, remedy="See docs/platforms for what is needed."),)
    except TimeoutError:
        what = f"the service did not answer within {within_s:.0f} s"
        return (Finding(ok=False, what=what, remedy="Check the network, then call this again."),)
    except Exception as error:  # noqa: BLE001 a platform's own code: what it does wrong is a finding
        return (Finding(ok=False, what=f"the check itself failed: {type(error).__name__}: {error}"[:300]),)


# ---------------------------------------------------------------------- writing


def _text_of(path: Path) -> str:
    try:
        return path.read_text("utf-8-sig")
    except FileNotFoundError:
        return ""


def _write(invocation: Invocation, name: str, before: str, answers: _Answers, settings: Settings) -> None:
    """Write secrets and settings; the settings only when they read back as wanted."""
    block: dict[str, Any] = {"options": answers.options}
    after = with_platform(before, name, block)
    check_edit(before, after, name, block)
    path, env_path = invocation.settings_path.resolve(), invocation.home / FILE
    mode = path.stat().st_mode & 0o777 if path.exists() else 0o600
    candidate = path.with_name(f".{path.name}.candidate")
    try:
        write_private(candidate, after)
        found = _read_back(invocation, candidate, answers)
        if found.model_copy(update={"platforms": {}}) != settings.model_copy(update={"platforms": {}}):
            raise NotAddedError("callboard.yaml could not be changed without changing something else.")
        if answers.secrets:
            write_env(env_path, answers.secrets)
        if before:
            backup = path.with_name(f"{path.name}.{WallClock().now():%Y%m%dT%H%M%S}.bak")
            shutil.copy2(path, backup)
            invocation.note(f"{path.name} as it was: {backup}")
        write_private(path, after, mode)
    except OSError as error:
        raise StartError(
            f"{error.filename or path} cannot be written: {error.strerror}.", "Let this user write there."
        ) from None
    finally:
        candidate.unlink(missing_ok=True)
    invocation.out(f"Written: {path}" + (f", secrets to {env_path}" if answers.secrets else ""))


def _read_back(invocation: Invocation, candidate: Path, answers: _Answers) -> Settings:
    """Read the new settings as a start would. Raises SettingsError."""
    from actors.settings_file import read_settings  # noqa: PLC0415 it is needed here alone

    return read_settings(candidate, _environment(invocation, answers)).settings


def _say_what_next(invocation: Invocation, entry: PlatformEntry, name: str, answers: _Answers) -> None:
    for variable in answers.made:
        invocation.out(
            f"A secret was made: {variable} in {invocation.home / FILE}; give it to the other side."
        )
    overridden = [v for v in answers.secrets if invocation.env.get(v) not in {None, "", answers.secrets[v]}]
    for variable in overridden:
        invocation.note(f"Warning: {variable} is set in the environment too, and that one is used.")
    running = find_running(invocation.home)
    invocation.out()
    if running is not None:
        invocation.out(f"Callboard runs (pid {running.pid}): restart it, and {name} is connected.")
    else:
        invocation.out(f"Start Callboard, and {name} is connected:  callboard run")
    if entry.checks_speakers:
        return
    try:
        code = new_claim(invocation.home, name)
    except OSError as error:
        invocation.note(
            f"No code for its owner could be made: {error.strerror}. Later: callboard access claim"
        )
        return
    invocation.out(f"Then write to the bot in a direct message, within a day:  /claim {code}")
    invocation.out("That makes you its owner: it answers you, and you decide who else may talk to it.")
