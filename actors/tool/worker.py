"""Where synchronous tools run: a thread for each call, or a process that can be killed.

A thread cannot be killed. When a call in one is stopped or times out, its result is
given at once and the thread is left to itself and counted; a tool that has left too
many behind is not started again until some of them end. What a thread computes in C
without letting go of the interpreter still holds everybody up: such tools belong
into a process.
"""

import asyncio
import secrets
import sys
import threading
from collections import Counter
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext, suppress
from pathlib import Path
from typing import Any, Protocol, TypeVar

import structlog

from actors.tool.environment import allowed_environment
from actors.tool.job import Job, Report
from actors.tool.process import Command, run_command
from actors.tool.run import ToolError, ToolOutput, ToolRun
from actors.tool.spec import ToolSpec

log = structlog.get_logger(__name__)
T = TypeVar("T")

_ROOT = Path(__file__).resolve().parents[2]


class Watch(Protocol):
    """Who wants to know what runs, to name it when the loop is held up."""

    def working(self, name: str) -> AbstractContextManager[None]: ...


class Workers:
    """The threads of synchronous tools.

    At most `most` run at once, others wait their turn; at most `abandoned_most` of one
    tool may be left running after their calls ended.
    """

    def __init__(self, most: int = 64, abandoned_most: int = 8, watch: Watch | None = None) -> None:
        self._free = asyncio.Semaphore(most)
        self._abandoned: Counter[str] = Counter()
        self._abandoned_most = abandoned_most
        self._watch = watch

    def abandoned(self) -> dict[str, int]:
        """Return how many threads still run for calls that have ended, by tool."""
        return dict(+self._abandoned)

    async def in_thread(self, name: str, function: Callable[[], T], label: str = "") -> T:
        """Call a function in a thread of its own. Cancelling leaves the thread to itself.

        `name` is the tool's, `label` says for whom it works, should it hold up the loop.
        Raises what the function raises, and ToolError when too many threads of this
        tool were left behind.
        """
        if self._abandoned[name] >= self._abandoned_most:
            raise ToolError(
                f"`{name}` has {self._abandoned[name]} calls that were given up but still run; "
                "it cannot be started again before they end."
            )
        async with self._free:
            loop = asyncio.get_running_loop()
            outcome: asyncio.Future[T] = loop.create_future()
            ended = threading.Event()

            def work() -> None:
                try:
                    with self._watch.working(label or name) if self._watch else nullcontext():
                        value = function()
                except BaseException as error:  # noqa: BLE001 carried over to whoever awaits it
                    _post(loop, _fail, outcome, error)
                else:
                    _post(loop, _succeed, outcome, value)
                finally:
                    ended.set()
                    _post(loop, self._came_back, name, outcome)

            threading.Thread(target=work, name=f"tool:{name}", daemon=True).start()
            try:
                return await outcome
            except asyncio.CancelledError:
                if not ended.is_set():
                    self._abandoned[name] += 1
                    log.warning("a thread was left to itself", tool=name, of_this_tool=self._abandoned[name])
                raise

    def _came_back(self, name: str, outcome: "asyncio.Future[Any]") -> None:
        if outcome.cancelled() and self._abandoned[name] > 0:
            self._abandoned[name] -= 1


async def in_process(spec: ToolSpec, arguments: dict[str, Any], run: ToolRun) -> ToolOutput:
    """Run a synchronous tool in a process of its own. Cancelling kills it and all it started.

    Raises ToolError with what the tool said when it failed.
    """
    token = secrets.token_hex(16)
    job = Job(
        token=token,
        module=spec.function.__module__,
        function=spec.function.__qualname__,
        arguments=arguments,
        context=run.context,
        settings=run.settings,
        workspace=str(run.workspace.root),
        keep_at=str(run.keep_at),
        result_bytes=run.result_bytes,
        path=tuple(place for place in sys.path if Path(place).is_absolute()),
    )
    lines = _Lines(run, token)
    # -P, and no relative places: nothing in the workspace may be imported in the place of our modules
    command = Command(
        argv=[sys.executable, "-P", "-m", "actors.tool.child"],
        cwd=run.workspace.root,
        env={**allowed_environment(run.environ, run.settings.pass_env), "PYTHONPATH": str(_ROOT)},
        budget=run.result_bytes,
        keep_at=run.keep_at,
        stdin=job.model_dump_json().encode(),
    )
    ended = await run_command(command, read=lines.feed)
    if lines.result is None:
        how = f"by signal {ended.signal}" if ended.signal else f"with code {ended.code}"
        raise ToolError(f"The tool's process ended {how} without a result. {ended.error}{ended.text[-2000:]}")
    return lines.result


class _Lines:
    """Reads what the process has to say between what it merely prints: a token, and JSON, on a line."""

    def __init__(self, run: ToolRun, token: str) -> None:
        self._run = run
        self._token = token.encode()
        self._held: list[bytes] = []
        self.result: ToolOutput | None = None

    def feed(self, data: bytes) -> bytes:
        """Take what the process wrote; return what of it is mere output."""
        printed = []
        *lines, rest = data.split(b"\n")
        for line in lines:
            whole = b"".join([*self._held, line])
            self._held = []
            before, found, said = whole.partition(self._token)
            if found:
                self._hear(Report.model_validate_json(said))
            if before:
                printed.append(before + b"\n")
        if rest:
            self._held.append(rest)
        return b"".join(printed)

    def _hear(self, report: Report) -> None:
        match report.kind:
            case "line":
                self._run.say(report.text)
            case "part":
                self._run.add(report.text)
            case "result":
                kept_in = None if report.kept_in is None else Path(report.kept_in)
                self.result = ToolOutput(report.text, report.status, kept_in)


def _post(loop: asyncio.AbstractEventLoop, callback: Callable[..., None], *args: object) -> None:
    with suppress(RuntimeError):  # the loop has ended; nobody waits for this any more
        loop.call_soon_threadsafe(callback, *args)


def _succeed(outcome: "asyncio.Future[Any]", value: object) -> None:
    if not outcome.done():
        outcome.set_result(value)


def _fail(outcome: "asyncio.Future[Any]", error: BaseException) -> None:
    if not outcome.done():
        outcome.set_exception(error if isinstance(error, Exception) else RuntimeError(repr(error)))
