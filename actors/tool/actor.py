"""The tool room: one actor for each running call, and the workshop that starts and ends them.

    the workshop hears   and
    RunTool              starts a ToolActor, unless this very call runs already
    CancelTools          tells those of the turn to stop

    a ToolActor hears    while      becomes, and answers
    WorkEnded            running    ended, with what the tool gave
    TimeIsUp             running    ending(timed out); the tool is cancelled
    StopCall             running    ending(interrupted); the tool is cancelled
    WorkEnded            ending     ended, with what there was so far
    PatienceIsUp         ending     ended, the same; the tool is left to itself

Every RunTool is answered by exactly one ToolFinished: by its actor, or, when that
ends without an answer, by the workshop.
"""

import asyncio
import contextlib
import inspect
from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, assert_never

import structlog

from actors.runtime import ActorDeadError, ActorSystem, Ended, LoopActor, adopt
from actors.tool.arguments import ArgumentsError, parse_arguments
from actors.tool.catalogue import Catalogue
from actors.tool.environment import allowed_environment, own_environment
from actors.tool.results import fit, place_of, shelf_of
from actors.tool.run import ToolError, ToolOutput, ToolRun, as_output
from actors.tool.spec import ToolSpec
from actors.tool.worker import Watch, Workers, in_process
from actors.tool.workspace import OutsideWorkspaceError
from messages.base import Instant, Lane, Message, Text
from messages.blocks import FileBlock, ToolStatus
from messages.gateway import ToolProgressed
from messages.ids import CallId, SessionKey, Turn
from messages.tool import CancelTools, PreparedCall, RunTool, ToolContext, ToolFinished

if TYPE_CHECKING:
    import pykka

log = structlog.get_logger(__name__)

PATIENCE_S = 1.8
"""How long a cancelled tool may take to end before its call is answered without it."""

_LINE = 200
_REMEMBERED = 10_000
Key = tuple[SessionKey, Turn, CallId]


class WorkEnded(Message):
    """The tool returned, failed, or was cancelled (then there is no output)."""

    text: Text = ""
    status: ToolStatus = ToolStatus.OK
    kept_in: str | None = None
    files: tuple[FileBlock, ...] = ()


class TimeIsUp(Message):
    """The call took longer than it may."""

    lane = Lane.CONTROL


class StopCall(Message):
    """Somebody stopped the turn."""

    lane = Lane.CONTROL


class PatienceIsUp(Message):
    """The tool does not end, although it was cancelled."""

    lane = Lane.CONTROL


Heard = WorkEnded | TimeIsUp | StopCall | PatienceIsUp


@dataclass(frozen=True, slots=True)
class Assignment:
    """All that a ToolActor needs to know."""

    spec: ToolSpec
    arguments: dict[str, Any]
    call: PreparedCall
    run: ToolRun
    limit_s: float
    workers: Workers
    report: Callable[[ToolFinished], None]
    progress: Callable[[ToolProgressed], None]


class ToolActor(LoopActor):
    """One call of one tool."""

    def __init__(self, system: ActorSystem, assignment: Assignment, *, name: str = "") -> None:
        super().__init__(system, name=name)
        self._job = assignment
        self._ending: ToolStatus | None = None
        self._reported = False
        self._began_at = self.clock.now()

    async def on_actor_start(self) -> None:
        self._job.run.on_line = self._line_from_anywhere
        self._tell_progress("began", _short(self._job.call.arguments))
        self.after(self._job.limit_s, TimeIsUp())
        self._work = self.background(self._do(), name="work")

    async def on_receive(self, message: Heard) -> None:
        match message:
            case WorkEnded():
                await self._work_ended(message)
            case TimeIsUp():
                self._give_up(ToolStatus.TIMED_OUT)
            case StopCall():
                self._give_up(ToolStatus.INTERRUPTED)
            case PatienceIsUp():
                log.warning("a cancelled tool does not end", tool=self._job.spec.name)
                await self._close_call(self._so_far())
            case _:
                assert_never(message)

    async def _do(self) -> None:
        """Run the tool; whatever it does, tell how it ended."""
        ended = WorkEnded(text="The tool gave itself up.", status=ToolStatus.ERROR)
        try:
            output = await self._call()
            kept_in = None if output.kept_in is None else str(output.kept_in)
            ended = WorkEnded(text=output.text, status=output.status, kept_in=kept_in, files=output.files)
        except (ToolError, OutsideWorkspaceError) as error:
            ended = WorkEnded(text=str(error), status=ToolStatus.ERROR)
        except (Exception, SystemExit) as error:  # the edge of a tool: its failure is its result
            log.warning("a tool failed", tool=self._job.spec.name, exc_info=error)
            ended = WorkEnded(text=f"{type(error).__name__}: {error}", status=ToolStatus.ERROR)
        finally:
            if not self.actor_stopped.is_set():
                self.actor_ref.tell(ended)

    async def _call(self) -> ToolOutput:
        spec, run, arguments = self._job.spec, self._job.run, self._job.arguments
        if inspect.iscoroutinefunction(spec.function):
            return as_output(await spec.call(arguments, run))
        if spec.isolation_of(arguments) == "process":
            return await in_process(spec, arguments, run)
        return await self._job.workers.in_thread(
            spec.name, lambda: as_output(spec.call(arguments, run)), label=self.name
        )

    async def _work_ended(self, ended: WorkEnded) -> None:
        if self._ending is not None:
            await self._close_call(self._so_far())
            return
        kept_in = None if ended.kept_in is None else Path(ended.kept_in)
        await self._close_call(ToolOutput(ended.text, ended.status, kept_in, ended.files))

    def _give_up(self, status: ToolStatus) -> None:
        if self._ending is not None or self._reported:
            return
        self._ending = status
        self._job.run.stop()
        self._work.cancel()
        self.after(PATIENCE_S, PatienceIsUp())

    def _so_far(self) -> ToolOutput:
        """What there is of the result, and why there is no more."""
        assert self._ending is not None
        why = (
            f"[stopped: it took longer than {self._job.limit_s:g} s]"
            if self._ending is ToolStatus.TIMED_OUT
            else "[stopped before it ended]"
        )
        partial = self._job.run.partial()
        return ToolOutput(f"{partial}\n{why}" if partial else why, self._ending, self._job.run.kept_in)

    async def _close_call(self, output: ToolOutput) -> None:
        if self._reported:
            return
        self._reported = True
        run = self._job.run
        if len(output.text) * 4 > run.result_bytes:
            cut = await asyncio.to_thread(fit, output, run.result_bytes, run.keep_at)
            output = replace(cut, files=output.files)
        self._job.report(
            ToolFinished(
                turn=run.context.turn,
                call_id=self._job.call.call_id,
                status=output.status,
                text=output.text,
                kept_in=None if output.kept_in is None else str(output.kept_in),
                files=output.files,
                began_at=self._began_at,
                at=self.clock.now(),
            )
        )
        self._tell_progress("ended", f"{output.status}: {_short(output.text)}")
        self.stop()

    def _line_from_anywhere(self, line: str) -> None:
        """Pass a progress line on; tools in threads say theirs from outside the loop."""
        with contextlib.suppress(RuntimeError):  # a thread that was left behind may outlive the loop
            self.system.loop.call_soon_threadsafe(self._line, line)

    def _line(self, line: str) -> None:
        if not self._reported:
            self._tell_progress("progress", _short(line))

    def _tell_progress(self, phase: Any, text: str) -> None:
        call = self._job.call
        turn = self._job.run.context.turn
        self._job.progress(
            ToolProgressed(turn=turn, call_id=call.call_id, name=call.name, phase=phase, text=text)
        )


class ToolWorkshop(LoopActor):
    """Starts one ToolActor for each call, and answers for them.

    `reply` and `on_progress` are called on the loop. `results_dir` keeps results that are
    more than a model is given. `environ` is what commands may be given from (own: None).
    """

    def __init__(
        self,
        system: ActorSystem,
        catalogue: Catalogue,
        reply: Callable[[SessionKey, ToolFinished], None],
        on_progress: Callable[[SessionKey, ToolProgressed], None],
        results_dir: Path,
        watch: Watch | None = None,
        environ: Mapping[str, str] | None = None,
        *,
        catalogue_of: Callable[[SessionKey], Catalogue] | None = None,
    ) -> None:
        """Take the tools; with `catalogue_of`, those of each session, where they differ."""
        super().__init__(system, name="tools")
        self._catalogue_of = catalogue_of or (lambda _: catalogue)
        self._reply = reply
        self._on_progress = on_progress
        self._results_dir = results_dir
        given = own_environment() if environ is None else environ
        self._environ = allowed_environment(given, catalogue.settings.pass_env)
        self._running: dict[Key, tuple[pykka.ActorRef[Any], Instant]] = {}
        self._over: OrderedDict[SessionKey, Turn] = OrderedDict()
        self.workers = Workers(watch=watch)

    async def on_receive(self, message: RunTool | CancelTools) -> None:
        match message:
            case RunTool():
                self._run(message.call, message.context)
            case CancelTools():
                self._cancel(message)
            case _:
                assert_never(message)

    async def on_actor_stop(self) -> None:
        await self._end_all()

    async def on_actor_failure(self, cause: BaseException) -> None:  # noqa: ARG002 the hook's signature
        await self._end_all()

    def running(self) -> int:
        """Return how many calls run now."""
        return len(self._running)

    def _run(self, call: PreparedCall, context: ToolContext) -> None:
        key = (context.session_key, context.turn, call.call_id)
        if key in self._running:
            log.info("a call that runs already was asked for again", tool=call.name, call_id=call.call_id)
            return
        if self._over.get(context.session_key, 0) >= context.turn:
            self._answer_unstarted(key, ToolStatus.SKIPPED, "[not started: the turn was stopped]")
            return
        try:
            assignment = self._assign(call, context, key)
        except ArgumentsError as error:
            self._answer_unstarted(key, ToolStatus.REFUSED, str(error))
            return
        name = f"tool:{call.name}:{context.session_key}"
        ref = ToolActor.start(self.system, assignment, name=name)
        self._running[key] = (ref, self.clock.now())
        adopt(ref, lambda ended: self._gone(key, ended))

    def _assign(self, call: PreparedCall, context: ToolContext, key: Key) -> Assignment:
        """Collect what the call needs. Raises ArgumentsError when it cannot be run."""
        catalogue = self._catalogue_of(context.session_key)
        spec = catalogue.get(call.name)
        if call.problem or spec is None:
            raise ArgumentsError(call.problem or f"There is no tool `{call.name}` any more.")
        settings = catalogue.settings
        arguments = spec.validate(parse_arguments(call.arguments))
        run = ToolRun(
            context=context,
            workspace=catalogue.workspace.with_shelf(shelf_of(self._results_dir, context.session_key)),
            settings=settings,
            clock=self.clock,
            result_bytes=min(spec.result_bytes or settings.result_bytes, settings.result_bytes),
            keep_at=place_of(self._results_dir, *key, spec.name),
            environ=self._environ,
        )
        return Assignment(
            spec=spec,
            arguments=arguments,
            call=call,
            run=run,
            limit_s=spec.time_limit(arguments, settings.timeout_s),
            workers=self.workers,
            report=lambda finished: self._answer(key, finished),
            progress=lambda progress: self._tell_progress(key, progress),
        )

    def _cancel(self, cancel: CancelTools) -> None:
        """Stop what runs; a RunTool of a stopped turn that this message overtook is not started."""
        if cancel.call_ids is None:
            self._over[cancel.session_key] = max(cancel.turn, self._over.pop(cancel.session_key, cancel.turn))
            if len(self._over) > _REMEMBERED:
                self._over.popitem(last=False)
        for (session, turn, call_id), (ref, _) in tuple(self._running.items()):
            meant = cancel.call_ids is None or call_id in cancel.call_ids
            if session == cancel.session_key and turn == cancel.turn and meant:
                _tell(ref, StopCall())

    def _answer_unstarted(self, key: Key, status: ToolStatus, why: str) -> None:
        now = self.clock.now()
        self._running[key] = (self.actor_ref, now)
        self._answer(key, _finished(key, status, why, now, now))

    def _gone(self, key: Key, ended: Ended) -> None:
        """A ToolActor is gone: if it has not answered, its call has no other answer."""
        if key not in self._running:
            return
        began_at, now = self._running[key][1], self.clock.now()
        if ended.crashed is not None:
            cause = ended.crashed.cause
            text = f"The tool could not be run to its end: {type(cause).__name__}: {cause}"
            self._answer(key, _finished(key, ToolStatus.ERROR, text, began_at, now))
        else:
            text = "The process is being stopped; whether the call took effect is not known."
            self._answer(key, _finished(key, ToolStatus.UNKNOWN, text, began_at, now))

    def _answer(self, key: Key, finished: ToolFinished) -> None:
        """Give a call its one answer."""
        if self._running.pop(key, None) is None:
            return
        try:
            self._reply(key[0], finished)
        except ActorDeadError:
            log.info("nobody is there for a tool's result", session=key[0], call_id=finished.call_id)

    def _tell_progress(self, key: Key, progress: ToolProgressed) -> None:
        with contextlib.suppress(ActorDeadError):  # a view: nobody looks
            self._on_progress(key[0], progress)

    async def _end_all(self) -> None:
        refs = [ref for ref, _ in self._running.values()]
        stops = [ref.stop(block=False) for ref in refs]
        await asyncio.gather(*(_done(stop) for stop in stops))


async def _done(stop: Any) -> None:
    await stop


def _tell(ref: "pykka.ActorRef[Any]", message: Message) -> None:
    with contextlib.suppress(ActorDeadError):  # it has ended by itself
        ref.tell(message)


def _finished(key: Key, status: ToolStatus, text: str, began_at: Instant, at: Instant) -> ToolFinished:
    return ToolFinished(turn=key[1], call_id=key[2], status=status, text=text, began_at=began_at, at=at)


def _short(text: str) -> str:
    line = " ".join(text[: 4 * _LINE].split())
    return line if len(line) <= _LINE else line[: _LINE - 1] + "…"
