"""Getting at a house: the one that runs already, else one of our own. Either way through its control socket."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import structlog

from actors.clock import Clock
from actors.console.cli.invocation import CommandFailedError, House, Invocation, make_home
from actors.console.cli.running import RunningProcess, find_running, said_to_run
from actors.errors import StartError
from actors.logs import set_up_logs
from actors.redaction import Redactor
from actors.settings_file import secrets_in, secrets_of_environment

if TYPE_CHECKING:
    from actors.console.cli.client import ControlClient

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Attached:
    """A way to a house."""

    client: "ControlClient"
    running: RunningProcess | None
    """The process that we joined; None when the house is our own and ends with us."""


@asynccontextmanager
async def own_house(
    invocation: Invocation, clock: Clock, *, serve_tcp: bool, quiet: bool
) -> AsyncIterator[House]:
    """Start a house in this process; stop it at the end. Raises StartError and SettingsError.

    From here on the secrets are known to the redactor and gone from the process's environment.
    """
    make_home(invocation.home)
    loaded = invocation.read_settings()
    redactor = Redactor()
    from_environment = secrets_of_environment(invocation.env)
    for secret in from_environment.values():
        redactor.register(secret)
    for _, secret in secrets_in(loaded.settings):
        redactor.register(secret)
    try:
        logs = set_up_logs(loaded.settings.log, redactor, home=invocation.home, quiet=quiet)
    except OSError as error:
        raise StartError(
            f"The log file in {invocation.home / 'logs'} cannot be written: {error.strerror}.",
            "Let this user write there (chmod u+rwx, chown), or free some space.",
        ) from None
    try:
        secret_variables = {
            name
            for name in loaded.variables
            if any(invocation.env.get(name) == s for _, s in secrets_in(loaded.settings))
        }
        invocation.forget(secret_variables | set(from_environment))
        for where in loaded.literal_secrets:
            log.warning("a secret is written in the settings file; use ${NAME} instead", setting=where)
        house = invocation.new_house(
            loaded.settings,
            home=invocation.home,
            env=invocation.env,
            clock=clock,
            redactor=redactor,
            version=invocation.version,
            serve_tcp=serve_tcp,
        )
        await house.start()
        try:
            yield house
        finally:
            await house.stop()
    except (StartError, CommandFailedError, BrokenPipeError):
        raise
    except Exception as error:
        # The edge of the program: the traceback belongs into the log, clean, and one line to the operator.
        log.exception("the command failed")
        raise CommandFailedError(redactor.clean(f"{type(error).__name__}: {error}"), logs.file) from None
    finally:
        logs.close()


@asynccontextmanager
async def attached(invocation: Invocation, clock: Clock) -> AsyncIterator[Attached]:
    """Join the running process; when there is none, start a house of our own without a TCP port."""
    from actors.console.cli.client import ControlClient  # noqa: PLC0415 `run` needs no HTTP client

    home = invocation.home
    running = find_running(home)
    if running is not None:

        def socket_now() -> Path | None:
            known = said_to_run(home)
            return known.socket if known else None

        async with ControlClient(socket_now, clock) as client:
            yield Attached(client, running)
        return
    async with (
        own_house(invocation, clock, serve_tcp=False, quiet=True) as house,
        ControlClient(lambda: house.socket, clock) as client,
    ):
        yield Attached(client, None)
