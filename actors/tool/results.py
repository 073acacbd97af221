"""Results that are more than a model is given: cut for it, kept whole in a file."""

import hashlib
import os
import re
from pathlib import Path

import structlog

from actors.tool.output import cut_text
from actors.tool.run import ToolOutput
from messages.ids import CallId, SessionKey, Turn

log = structlog.get_logger(__name__)

_UNSAFE = re.compile(r"[^A-Za-z0-9_-]+")
_PRIVATE_FILE = 0o600
_PRIVATE_DIRECTORY = 0o700
_FLAGS = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC


def shelf_of(results_dir: Path, session: SessionKey) -> Path:
    """Return the folder of a session's kept results. The name tells nothing about the session."""
    return results_dir / hashlib.sha256(session.encode("utf-8", "replace")).hexdigest()[:24]


def place_of(results_dir: Path, session: SessionKey, turn: Turn, call_id: CallId, tool: str) -> Path:
    """Return where a call's whole result goes. Different calls never share a file."""
    digest = hashlib.sha256(call_id.encode("utf-8", "replace")).hexdigest()[:12]
    readable = _UNSAFE.sub("-", tool)[:40]
    return shelf_of(results_dir, session) / f"{turn}-{readable}-{digest}.txt"


def open_private(place: Path) -> int:
    """Open a new file that only we can read, and return its descriptor. Raises OSError."""
    place.parent.mkdir(mode=_PRIVATE_DIRECTORY, parents=True, exist_ok=True)
    return os.open(place, _FLAGS, _PRIVATE_FILE)


def left_out(dropped: int, place: Path) -> str:
    """Say, inside a cut result, what is missing and where it is."""
    return f"\n\n[… {dropped:,} bytes left out here; the whole result is in {place}, for read_file …]\n\n"


def lost(dropped: int) -> str:
    """The same, where it could not be kept."""
    return f"\n\n[… {dropped:,} bytes left out here …]\n\n"


def fit(output: ToolOutput, budget: int, place: Path) -> ToolOutput:
    """Return a result of at most `budget` bytes; the whole is kept at `place` when it is more.

    Where it cannot be kept, the result says only how much is missing.
    """
    data = output.text.encode("utf-8", "replace")
    if len(data) <= budget:
        return output
    kept = output.kept_in or _keep(data, place)
    cut = cut_text(output.text, budget, lambda n: lost(n) if kept is None else left_out(n, kept))
    return ToolOutput(text=cut.text, status=output.status, kept_in=kept)


def _keep(data: bytes, place: Path) -> Path | None:
    try:
        with os.fdopen(open_private(place), "wb") as file:
            file.write(data)
    except OSError as error:
        log.warning("a result cannot be kept", place=str(place), error=str(error))
        return None
    return place
