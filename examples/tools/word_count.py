"""A tool of one's own: counts the words of a file in the workspace.

To offer it, a package names this module under the entry point group `callboard.tools`:

    [project.entry-points."callboard.tools"]
    word_count = "word_count"
"""

import os
from collections import Counter
from typing import Annotated

from pydantic import Field

from actors.tool.catalogue import WorkspacePath, tool
from actors.tool.run import ToolError, ToolRun
from messages.tool import Effect


@tool(toolset="examples", effect=Effect.READ, timeout_s=20)
def word_count(
    run: ToolRun, path: WorkspacePath, most: Annotated[int, Field(ge=1, le=100)] = 10
) -> dict[str, int]:
    """Count the words of a text file and give the most frequent ones.

    Args:
        path: Of the file, relative to the workspace's root.
        most: How many words to give.

    """
    real = run.workspace.resolve(path)
    counts: Counter[str] = Counter()
    try:
        with os.fdopen(run.workspace.open_for_reading(real), encoding="utf-8", errors="replace") as file:
            for number, line in enumerate(file):
                if number % 1000 == 0:
                    run.check()  # a thread cannot be killed: it looks now and then whether it should end
                    run.say(f"line {number}")
                counts.update(line.lower().split())
    except FileNotFoundError:
        raise ToolError(f"There is no file {path}.") from None
    return dict(counts.most_common(most))
