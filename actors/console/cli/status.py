"""`callboard status`: how the running process is doing."""

from actors.clock import WallClock
from actors.console.cli.client import ControlClient, NotRunningError
from actors.console.cli.invocation import ExitCode, Invocation
from actors.console.cli.running import find_running
from actors.console.cli.serve import model_lines
from messages.gateway import StatusReport


async def show_status(invocation: Invocation, *, as_json: bool) -> int:
    """Print the status. Returns NOT_RUNNING when no process serves the data folder."""
    running = find_running(invocation.home)
    if running is None:
        if as_json:
            invocation.out('{"running": false}')
        invocation.note(f"Not running on {invocation.home}. Start it with: callboard run")
        return ExitCode.NOT_RUNNING
    async with ControlClient(lambda: running.socket, WallClock()) as client:
        try:
            status = await client.status()
        except NotRunningError:
            invocation.note(f"The process {running.pid} ended while it was asked.")
            return ExitCode.NOT_RUNNING
    invocation.out(status.model_dump_json(indent=2) if as_json else status_text(status, running.url))
    return ExitCode.OK


def status_text(status: StatusReport, url: str) -> str:
    """Return the status for people, one fact a line."""
    rows = [
        ("Version", f"{status.version}, pid {status.pid}"),
        ("Up", f"{duration(status.uptime_s)}, since {status.started_at:%Y-%m-%d %H:%M:%S} UTC"),
        ("Address", url or "none (control socket only)"),
        ("Data", status.home),
        ("Model", " ".join(model_lines(status))),
        ("Sessions", f"{status.sessions_awake} awake"),
        ("Turns", f"{status.turns_running} running, {status.turns_done} done"),
        ("Waiting", f"for a model, {status.model_silent_s:.0f} s at most"),
        ("Refused", f"{status.mailbox_refusals} messages, because a mailbox was full"),
        ("Loop lag", f"{status.loop_lag_ms:.1f} ms at worst in the last minute"),
        ("Incidents", str(status.incidents)),
        ("Dead letters", f"{status.dead_letters} open"),
    ]
    processes = {name: f"  ({text})" for name, text in status.platform_processes.items()}
    rows += [
        (f"Platform {name}", state + processes.get(name, ""))
        for name, state in sorted(status.platforms.items())
    ]
    rows += [("Degraded", name) for name in status.degraded]
    rows += [(f"Store {name}", str(value)) for name, value in sorted(status.store.items())]
    width = max(len(name) for name, _ in rows) + 2
    return "\n".join(f"{name:<{width}}{value}" for name, value in rows)


def duration(seconds: float) -> str:
    """Return a time span as people say it: `2 d 3 h`, `4 min 5 s`."""
    whole = int(seconds)
    units = (("d", 86_400), ("h", 3_600), ("min", 60), ("s", 1))
    parts = []
    for name, size in units:
        if whole >= size:
            parts.append(f"{whole // size} {name}")
            whole %= size
    return " ".join(parts[:2]) or "0 s"
