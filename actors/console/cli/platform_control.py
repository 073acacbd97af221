"""`callboard platform list|restart|pause|resume`: the connections of the running process."""

import json
from urllib.parse import quote

from pydantic import TypeAdapter

from actors.clock import WallClock
from actors.console.cli.client import ApiFailureError, ControlClient, NotRunningError
from actors.console.cli.invocation import ExitCode, Invocation
from actors.console.cli.printable import printable
from actors.console.cli.running import find_running
from messages.platforms import PlatformState, PlatformWish

_STATES: TypeAdapter[tuple[PlatformState, ...]] = TypeAdapter(tuple[PlatformState, ...])


async def list_platforms(invocation: Invocation, *, as_json: bool) -> int:
    """List the accounts that the settings name, and how they do."""
    running = find_running(invocation.home)
    if running is None:
        return _not_running(invocation)
    try:
        async with ControlClient(lambda: running.socket, WallClock()) as client:
            content = (await client.get("/api/platforms"))["platforms"]
    except NotRunningError:
        return _not_running(invocation)
    states = _STATES.validate_json(json.dumps(content))
    if as_json:
        invocation.out("[" + ",\n ".join(state.model_dump_json() for state in states) + "]")
    elif not states:
        invocation.note("No platform is connected. Connect one: callboard platform add")
    width = max((len(state.name) for state in states), default=0) + 2
    for state in () if as_json else states:
        process = f"  ({state.process})" if state.process else ""
        invocation.out(printable(f"{state.name:<{width}}{state.state}{process}"))
    return ExitCode.OK


async def control_platform(invocation: Invocation, name: str, wish: PlatformWish) -> int:
    """Restart, pause or resume a connection of the running process."""
    running = find_running(invocation.home)
    if running is None:
        return _not_running(invocation)
    try:
        async with ControlClient(lambda: running.socket, WallClock()) as client:
            answer = await client.post(f"/api/platforms/{quote(name)}/{wish}")
    except NotRunningError:
        return _not_running(invocation)
    except ApiFailureError as error:
        invocation.note(f"Not done: {error}")
        return ExitCode.FAILED
    state = PlatformState.model_validate_json(json.dumps(answer))
    invocation.out(printable(f"{state.name}: {state.state}"))
    return ExitCode.OK


def _not_running(invocation: Invocation) -> int:
    invocation.note(f"Not running on {invocation.home}. Start it with: callboard run")
    return ExitCode.NOT_RUNNING
