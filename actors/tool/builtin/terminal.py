"""Run a command."""

from pathlib import Path
from typing import Annotated

from pydantic import Field

from actors.tool.process import Command, Ended, Running, run_command
from actors.tool.run import ToolError, ToolOutput, ToolRun
from actors.tool.spec import tool
from messages.blocks import ToolStatus
from messages.tool import Effect

_ROOM_FOR_NOTES = 200
_SHELLS = (Path("/bin/bash"), Path("/bin/sh"))


@tool(
    toolset="terminal",
    effect=Effect.DANGEROUS,
    repeatable=False,
    timeout_s=lambda arguments: arguments.get("timeout_s"),
)
async def terminal(
    run: ToolRun,
    command: Annotated[str, Field(min_length=1, max_length=100_000)],
    cwd: str = ".",
    timeout_s: Annotated[float, Field(gt=0, le=3600)] | None = None,  # noqa: ARG001 the call's limit is read from it
) -> ToolOutput:
    """Run a shell command in the workspace and give its output and exit code.

    Standard error comes with the output; nothing can be typed in. Whatever the command
    leaves running when it ends is ended too.

    Args:
        command: For the shell (bash where there is one).
        cwd: The folder to run it in, relative to the workspace's root.
        timeout_s: Seconds after which it is ended.
    """
    folder = run.workspace.resolve(cwd)
    if not folder.is_dir():
        raise ToolError(f"{run.workspace.show(folder)} is not a folder.")
    if "\x00" in command:
        raise ToolError("A command cannot hold the character NUL.")
    shell = next((shell for shell in _SHELLS if shell.exists()), _SHELLS[-1])

    def started(running: Running) -> None:
        def so_far() -> str:
            text = running.output.text()
            run.kept_in = running.output.kept_in
            return text

        run.partial_from(so_far)

    ended = await run_command(
        Command(
            argv=[str(shell), "-c", command],
            cwd=folder,
            env={**run.environ, "PWD": str(folder)},
            budget=run.result_bytes - _ROOM_FOR_NOTES,
            keep_at=run.keep_at,
        ),
        on_line=run.say,
        on_start=started,
    )
    return _as_result(ended)


def _as_result(ended: Ended) -> ToolOutput:
    if ended.error:
        raise ToolError(f"The shell cannot be started: {ended.error}.")
    if ended.code == 0:
        return ToolOutput(ended.text or "[no output]", kept_in=ended.kept_in)
    how = f"exit code {ended.code}" if ended.signal is None else f"ended by signal {ended.signal}"
    text = f"{ended.text.rstrip()}\n[{how}]" if ended.text else f"[{how}]"
    return ToolOutput(text, ToolStatus.ERROR, ended.kept_in)
