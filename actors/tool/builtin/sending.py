"""A file that goes with the answer."""

import os
import secrets
import shutil
import unicodedata
from pathlib import Path
from typing import Annotated

from pydantic import Field

from actors.tool.names import show_name
from actors.tool.output import binary_type
from actors.tool.results import open_private
from actors.tool.run import ToolError, ToolOutput, ToolRun
from actors.tool.spec import WorkspacePath, tool
from messages.blocks import FileBlock

LARGEST = 100 * 1024 * 1024
"""In bytes; what a platform takes is less, and is said where the file goes."""

_TEXT = "text/plain"
_LONGEST_NAME = 120
_UNSEEN = frozenset({"Cc", "Cf", "Cs", "Zl", "Zp"})
"""Characters that show nothing, or turn the direction of what does."""


@tool(toolset="files")
def send_file(
    run: ToolRun, path: WorkspacePath, shown_as: Annotated[str, Field(max_length=_LONGEST_NAME)] = ""
) -> ToolOutput:
    """Send a file of the workspace to the person, together with your answer.

    It is sent as it is now. Do not repeat its content in the answer.

    Args:
        path: Of the file, relative to the workspace's root.
        shown_as: The name under which the person gets it; else its own.
    """
    real = run.workspace.resolve_for_reading(path)
    if not real.is_file():
        raise ToolError(f"{run.workspace.show(real)} is no file.")
    size = real.stat().st_size
    if not size:
        raise ToolError(f"{run.workspace.show(real)} is empty: there is nothing to send.")
    if size > LARGEST:
        raise ToolError(f"{run.workspace.show(real)} has {size:,} bytes; at most {LARGEST:,} can be sent.")
    kept = _copy(run, real)
    with kept.open("rb") as file:
        mime = binary_type(file.read(8192)) or _TEXT
    shown = _file_name(shown_as or real.name)
    block = FileBlock(name=shown, mime=mime, path=str(kept), size=kept.stat().st_size)
    return ToolOutput(f"{shown} ({block.size:,} bytes) goes with your answer.", files=(block,))


def _copy(run: ToolRun, real: Path) -> Path:
    """Keep the file beside the session's results: what is sent later is what it is now."""
    place = run.keep_at.with_name(f"sent-{secrets.token_hex(8)}{real.suffix[:12]}")
    try:
        with os.fdopen(open_private(place), "wb") as kept, real.open("rb") as file:
            shutil.copyfileobj(file, kept)
    except OSError as error:
        raise ToolError(f"The file cannot be kept for sending: {error.strerror}.") from None
    return place


def _file_name(text: str) -> str:
    """Return a base name: no folders, nothing that does not show."""
    base = show_name(text.replace("\\", "/").rpartition("/")[2])
    return "".join(c for c in base if unicodedata.category(c) not in _UNSEEN)[:_LONGEST_NAME] or "file"
