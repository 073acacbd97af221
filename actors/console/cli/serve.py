"""`callboard run`: the whole house, until a signal says to stop."""

import asyncio
import gc
import os
import signal

import structlog

from actors.clock import WallClock
from actors.console.cli.attach import own_house
from actors.console.cli.invocation import ExitCode, House, Invocation
from actors.console.cli.printable import printable
from actors.console.cli.running import find_running
from actors.errors import StartError
from messages.gateway import StatusReport

GARBAGE = (20_000, 20, 20)
"""Allocations, and generations of them, between two looks of the garbage collector."""

log = structlog.get_logger(__name__)


async def serve(invocation: Invocation) -> int:
    """Run until SIGTERM or SIGINT; then stop in good order. A second signal quits at once."""
    other = find_running(invocation.home)
    if other is not None:
        raise StartError(
            f"Callboard runs on this data folder already: pid {other.pid}, {other.url or 'no web address'}.",
            f"Use that one, stop it (kill {other.pid}), or name another folder with --home.",
        )
    _warn_of_others(invocation)
    clock = WallClock()
    stop = asyncio.Event()
    _listen_for_signals(invocation, stop)
    async with own_house(invocation, clock, serve_tcp=True, quiet=False) as house:
        _spare_what_stays()
        invocation.out(welcome(house, house.status()))
        await stop.wait()
        invocation.note("Stopping: turns that run may finish; a second signal quits at once.")
    invocation.note("Stopped.")
    return ExitCode.OK


def _spare_what_stays() -> None:
    """Let the garbage collector leave alone what a start has made, and come less often.

    Modules and rooms stay as long as the process; looking through them all again and
    again took a third of the CPU of a thousand turns at once. Reference counts free nearly all else.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(*GARBAGE)


def _warn_of_others(invocation: Invocation) -> None:
    """Say when another gateway runs that may use our accounts; ask when it does use them and somebody is there.

    Raises StartError when that person would rather stop it first.
    """
    settings = invocation.read_settings().settings
    if not settings.platforms:
        return
    from actors.console.cli.other_gateways import others_beside  # noqa: PLC0415 it looks at all processes

    for other in others_beside(invocation, settings):
        invocation.note(printable(f"Warning: {other.warning} Stop it: {other.stop}"))
        if other.same_token and invocation.stdin.isatty():
            invocation.stdout.write("Start all the same? [y/N] ")
            invocation.stdout.flush()
            if invocation.stdin.readline().strip().lower() not in {"y", "yes"}:
                raise StartError(f"{other.name} uses the same account.", f"Stop it first: {other.stop}")


def _listen_for_signals(invocation: Invocation, stop: asyncio.Event) -> None:
    loop = asyncio.get_running_loop()

    def heard(number: signal.Signals) -> None:
        if stop.is_set():
            invocation.note("Quitting at once. What was accepted is kept and goes on at the next start.")
            os._exit(128 + number)
        log.info("a signal asks to stop", signal=number.name)
        stop.set()

    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, heard, number)


def welcome(house: House, status: StatusReport) -> str:
    """Return what the operator sees first: where to open it, and what answers."""
    lines = ["", f"  Callboard {status.version} is up.", ""]
    lines += [f"  Open    {house.login_url()}", "          (this link works once and within ten minutes)"]
    lines += [f"  API     {house.url}/v1   docs/http-api.md tells how to call it"]
    lines += [
        f"  Model   {line}" if n == 0 else f"          {line}" for n, line in enumerate(model_lines(status))
    ]
    lines += [f"  Data    {status.home}"]
    lines += ["  Stop    Ctrl-C", ""]
    return "\n".join(lines)


CONNECT_A_MODEL = (
    "Connect a better one: set ANTHROPIC_API_KEY or OPENAI_API_KEY and start again, or start Ollama,"
    " LM Studio or llama.cpp on this machine; docs/configuration.md has the rest."
)


def model_lines(status: StatusReport) -> list[str]:
    """Return which model answers, and what the operator should know of it."""
    if status.model is None:
        return ["none can answer.", status.model_problem or CONNECT_A_MODEL]
    name = f"{status.model.provider}/{status.model.name}"
    if status.model.provider == "local":
        return [
            f"{name}, the small model that comes along: it answers at once and without a key, but poorly.",
            CONNECT_A_MODEL,
        ]
    return [name, *([status.model_problem] if status.model_problem else [])]
