"""Finding the process that serves a data folder."""

import json
import socket
from dataclasses import dataclass
from pathlib import Path

ANSWERS_WITHIN_S = 2.0


@dataclass(frozen=True, slots=True)
class RunningProcess:
    """What a running process says about itself in `run.json`."""

    pid: int
    url: str
    socket: Path
    started_at: str
    version: str


def said_to_run(home: Path) -> RunningProcess | None:
    """Return what `run.json` says, whether or not the process is still there; None without a readable one."""
    try:
        said = json.loads((home / "run.json").read_text("utf-8"))
        return RunningProcess(
            pid=int(said["pid"]),
            url=str(said.get("url") or ""),
            socket=Path(said["socket"]),
            started_at=str(said.get("started_at", "")),
            version=str(said.get("version", "")),
        )
    except (OSError, ValueError, KeyError, TypeError):
        return None


def find_running(home: Path) -> RunningProcess | None:
    """Return the process that serves this data folder and takes connections; None when there is none."""
    found = said_to_run(home)
    return found if found and _takes_connections(found.socket) else None


def _takes_connections(path: Path) -> bool:
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        probe.settimeout(ANSWERS_WITHIN_S)
        try:
            probe.connect(str(path))
        except OSError:
            return False
    return True
