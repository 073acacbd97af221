"""What a tool is given when it runs, and what it may give back."""

import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pydantic_core import to_json

from actors.clock import Clock
from actors.tool.workspace import Workspace
from messages.blocks import FileBlock, ToolStatus
from messages.settings import ToolSettings
from messages.tool import ToolContext


class ToolError(Exception):
    """A tool could not do what was asked. The message is the result the model is given."""


class ToolStoppedError(Exception):
    """The call was stopped or timed out while a thread was still working on it."""


@dataclass(frozen=True, slots=True)
class ToolOutput:
    """A tool's result, when it has more to say than a string."""

    text: str
    status: ToolStatus = ToolStatus.OK
    kept_in: Path | None = None
    """The file with the whole result, when the tool kept it itself."""
    files: tuple[FileBlock, ...] = ()
    """What goes with the answer; in the shelf of the session, see `ToolRun.shelf`."""


def as_output(result: Any) -> ToolOutput:
    """Return what a tool function returned as a result: text as it is, other values as JSON."""
    if isinstance(result, ToolOutput):
        return result
    if result is None or isinstance(result, str):
        return ToolOutput(result or "")
    return ToolOutput(to_json(result, fallback=str, inf_nan_mode="constants").decode())


@dataclass(slots=True)
class ToolRun:
    """One run of a tool: for whom, where, and how to tell how far it is.

    A tool asks for it by annotating a parameter with this class; the parameter is
    not part of what the model sees. All of it may be used from any thread.
    """

    context: ToolContext
    workspace: Workspace
    settings: ToolSettings
    clock: Clock
    result_bytes: int
    """How much of the result the model is given."""
    keep_at: Path
    """Where the whole result goes when it is more than that."""
    environ: Mapping[str, str] = field(default_factory=dict)
    """What a command may see of our environment."""
    on_line: Callable[[str], None] = lambda _line: None
    on_part: Callable[[str], None] | None = None
    kept_in: Path | None = None
    """Set by a tool that keeps its whole result itself, as it comes."""
    _parts: list[str] = field(default_factory=list)
    _partial: Callable[[], str] | None = None
    _stopped: threading.Event = field(default_factory=threading.Event)

    def say(self, line: str) -> None:
        """Tell the person, in one line, how far it is."""
        self.on_line(line)

    def add(self, text: str) -> None:
        """Keep a piece of the result, in case the run does not come to its end."""
        self._parts.append(text)
        if self.on_part is not None:
            self.on_part(text)

    def partial_from(self, source: Callable[[], str]) -> None:
        """Take the partial result from here instead of what was added."""
        self._partial = source

    def partial(self) -> str:
        """Return the result so far."""
        return self._partial() if self._partial is not None else "".join(self._parts)

    def stop(self) -> None:
        """Ask the tool to end; `check` raises from now on."""
        self._stopped.set()

    def check(self) -> None:
        """Raise ToolStoppedError when the call was stopped. Long loops in threads call this."""
        if self._stopped.is_set():
            raise ToolStoppedError
