"""Runs one synchronous tool: the program of a process of its own. See `worker.in_process`."""

import importlib
import os
import sys
import traceback
from functools import reduce
from pathlib import Path
from typing import BinaryIO, Literal

from actors.clock import WallClock
from actors.tool.job import Job, Report
from actors.tool.results import fit
from actors.tool.run import ToolError, ToolOutput, ToolRun, as_output
from actors.tool.spec import ToolSpec, spec_of
from actors.tool.workspace import OutsideWorkspaceError, Workspace
from messages.blocks import ToolStatus


def main() -> None:
    job = Job.model_validate_json(sys.stdin.buffer.read())
    sys.path[:] = dict.fromkeys((*job.path, *sys.path))
    channel = os.fdopen(os.dup(1), "wb", buffering=0)
    os.dup2(2, 1)

    def report(kind: Literal["line", "part"], text: str) -> None:
        _write(channel, job, Report(kind=kind, text=text))

    run = ToolRun(
        context=job.context,
        workspace=Workspace(Path(job.workspace), Path(job.keep_at).parent),
        settings=job.settings,
        clock=WallClock(),
        result_bytes=job.result_bytes,
        keep_at=Path(job.keep_at),
        on_line=lambda line: report("line", line),
        on_part=lambda text: report("part", text),
    )
    output = _run(job, run)
    kept_in = None if output.kept_in is None else str(output.kept_in)
    _write(channel, job, Report(kind="result", text=output.text, status=output.status, kept_in=kept_in))


def _run(job: Job, run: ToolRun) -> ToolOutput:
    try:
        output = as_output(_find(job).call(job.arguments, run))
    except (ToolError, OutsideWorkspaceError) as error:
        output = ToolOutput(str(error), ToolStatus.ERROR)
    except Exception as error:  # noqa: BLE001 the edge of a tool: its failure is its result
        traceback.print_exc()
        output = ToolOutput(f"{type(error).__name__}: {error}", ToolStatus.ERROR)
    return fit(output, job.result_bytes, run.keep_at)


def _find(job: Job) -> ToolSpec:
    found = reduce(getattr, job.function.split("."), importlib.import_module(job.module))
    spec = spec_of(found)
    if spec is None:
        raise ToolError(f"`{job.module}.{job.function}` is no tool.")
    return spec


def _write(channel: BinaryIO, job: Job, report: Report) -> None:
    data = f"\n{job.token}{report.model_dump_json()}\n".encode()
    while data:
        data = data[channel.write(data) :]


if __name__ == "__main__":
    main()
