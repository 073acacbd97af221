"""`callboard send`: say something in a chat, through the running process or without one."""

import asyncio
import json
import secrets
from dataclasses import dataclass
from pathlib import Path

from actors.clock import WallClock
from actors.console.cli.client import ApiFailureError, ControlClient
from actors.console.cli.invocation import ExitCode, Invocation
from actors.console.cli.printable import printable
from actors.console.cli.running import find_running
from actors.gateway.chunks import split
from actors.gateway.edge import EdgeError
from actors.gateway.registry import PlatformUnavailableError, Ready, Registry
from actors.gateway.sending import NOWHERE, block_of
from actors.gateway.targets import Local, account_name, platform_and_account, resolve
from messages.delivery import PartText, Place, Post
from messages.gateway import Origin
from messages.ids import DeliveryId
from messages.sending import SendEnded


@dataclass(frozen=True, slots=True)
class Sending:
    """What the command line says."""

    target: str
    text: str
    file: Path | None = None
    wait_s: float = 60.0


async def send(invocation: Invocation, sending: Sending, registry: Registry | None = None) -> int:
    """Send, and say how it ended. OK only when the platform took it."""
    if sending.file is not None and not sending.file.is_file():
        invocation.note(f"There is no file {sending.file}.")
        return ExitCode.USAGE
    running = find_running(invocation.home)
    if running is None:
        return await _send_alone(invocation, sending, registry or Registry.discover())
    body = {
        "target": sending.target,
        "text": sending.text,
        "file": str(sending.file) if sending.file else None,
        "delivery_id": secrets.token_hex(12),
        "wait_s": sending.wait_s,
    }
    async with ControlClient(lambda: running.socket, WallClock()) as client:
        try:
            answer = await client.post("/api/send", body, within_s=sending.wait_s + 30)
        except ApiFailureError as failure:
            invocation.note(printable(f"Not sent: {failure}"))
            return ExitCode.USAGE if failure.status == 422 else ExitCode.FAILED
    ended = SendEnded.model_validate_json(json.dumps(answer))
    if ended.state == "owed":
        invocation.note(
            f"Not delivered within {sending.wait_s:.0f} s. It stays owed and goes out when the platform takes it; "
            "`callboard status` says how the platform does."
        )
        return ExitCode.FAILED
    invocation.out(printable(ended.receipt))
    return ExitCode.OK


# ---------------------------------------------------------------------- without a process


async def _send_alone(invocation: Invocation, sending: Sending, registry: Registry) -> int:
    found = _ready_for(invocation, sending, registry)
    if isinstance(found, int):
        return found
    ready, where = found
    if ready.entry.standalone is None:
        invocation.note(
            f"Not running on {invocation.home}, and {ready.entry.name} can be posted to by a running process only. "
            "Start it with: callboard run"
        )
        return ExitCode.NOT_RUNNING
    receipt = ""
    try:
        async with asyncio.timeout(sending.wait_s):
            for post in posts_of(sending, ready, where):
                receipt = await ready.entry.standalone(ready.options, post)
    except EdgeError as error:
        invocation.note(printable(f"Not sent: {error.problem.kind.value}: {error.problem.detail}"))
        return ExitCode.FAILED
    except TimeoutError:
        invocation.note(f"Not answered within {sending.wait_s:.0f} s: nobody knows whether it was posted.")
        return ExitCode.FAILED
    invocation.out(printable(receipt))
    return ExitCode.OK


def _ready_for(invocation: Invocation, sending: Sending, registry: Registry) -> tuple[Ready, Origin] | int:
    """Return the account and the place; an exit code when there is none."""
    settings = invocation.read_settings().settings
    name = sending.target.partition(":")[0].strip()
    name = account_name(*platform_and_account(name))
    account = settings.platforms.get(name)
    if account is None:
        known = ", ".join(settings.platforms) or "none; connect one with `callboard platform add`"
        invocation.note(
            printable(f"Not sent: there is no platform {name!r} in the settings. There are: {known}")
        )
        return ExitCode.USAGE
    try:
        ready = registry.prepare(*platform_and_account(name), account, invocation.env)
    except PlatformUnavailableError as error:
        invocation.note(printable(f"Not sent: {error.what} {error.remedy}"))
        return ExitCode.FAILED
    where = resolve(sending.target, NOWHERE, {name: ready.home})
    if isinstance(where, Local):
        invocation.note(printable(f"Not sent: {where.why}"))
        return ExitCode.USAGE
    return ready, where


def posts_of(sending: Sending, ready: Ready, where: Origin) -> list[Post]:
    """Cut what is to be said into posts, as an outbox does: the text, then the file."""
    limits = ready.limits
    text = sending.text.strip()
    if not text:
        bodies: list[PartText] = []
    elif ready.capabilities.splits_itself:
        bodies = [PartText(text=text)]
    else:
        bodies = [
            PartText(text=chunk.text) for chunk in split(text, limits.length, limits.unit, ready.render)
        ]
    if sending.file is not None:
        bodies.append(PartText(text="", file=block_of(sending.file, sending.file.name)))
    place = Place(chat=where.chat, thread=where.thread)
    delivery = DeliveryId(f"send-{secrets.token_hex(12)}")
    return [
        Post(
            delivery_id=delivery,
            part=n,
            of=len(bodies),
            attempt=1,
            key=secrets.token_hex(12),
            place=place,
            body=body,
        )
        for n, body in enumerate(bodies, start=1)
    ]
