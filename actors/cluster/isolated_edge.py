"""An edge that lives in a process of its own: `actors.gateway.edge.Edge`, word for word.

Whoever uses it cannot tell it from one that lives here, except that nothing that
happens to it can touch anything else. A process that ends (killed, crashed in C, out
of memory) is a connection that was lost: what was being said then has an unknown
outcome. One whose loop does not turn for a while is killed.
"""

import asyncio
import contextlib
import itertools
from collections.abc import Callable
from functools import partial
from typing import Final, assert_never

import psutil
import structlog
from pydantic import TypeAdapter, ValidationError

from actors.clock import Clock
from actors.cluster import words as w
from actors.cluster.port import ProcessActor, ProcessGoneError
from actors.cluster.spares import Spares
from actors.cluster.wire import FrameTooLongError
from actors.gateway.edge import EdgeContext, EdgeError, Hear
from actors.gateway.registry import Ready
from messages.base import Message
from messages.delivery import EdgeView, Post, Problem, ProblemKind
from messages.gateway import ChatMoved, EdgeHeard

log = structlog.get_logger(__name__)

PROGRAM: Final = "actors.cluster.edge_process:run"

PULSE_EVERY_S: Final = 5.0
PULSE_WITHIN_S: Final = 15.0
"""A loop that does not turn for so long is blocked, not busy."""

LATE_S: Final = 1.0

END_S: Final = 1.0
"""How long an edge may take to leave in good order before its process is killed."""

_FROM: TypeAdapter[w.FromProcess] = TypeAdapter(w.FromProcess)


class EdgeCrashedError(Exception):
    """The edge's own code failed; the text is its traceback."""


class IsolatedEdge:
    """One connection, in one process."""

    def __init__(
        self, ready: Ready, context: EdgeContext, spares: Spares, *, pulse_within_s: float = PULSE_WITHIN_S
    ) -> None:
        self._ready = ready
        self._context = context
        self._spares = spares
        self._pulse_within_s = pulse_within_s
        self._process: ProcessActor | None = None
        self._asked: dict[int, asyncio.Future[str | None]] = {}
        self._numbers = itertools.count(1)
        self._hearing: set[asyncio.Task[None]] = set()
        self._blocked = False

    def process(self) -> str:
        """Return the process's id and memory, for people; empty when there is none."""
        if self._process is None:
            return ""
        pid = self._process.pid
        try:
            return f"process {pid}, {psutil.Process(pid).memory_info().rss / 1e6:.0f} MB"
        except psutil.Error:
            return f"process {pid}"

    # ------------------------------------------------------------------ the connection

    async def run(self, hear: Hear, connected: Callable[[], None]) -> None:
        try:
            process = await self._spares.raise_process(PROGRAM, _frame(self._awaited()))
        except ProcessGoneError as error:
            raise EdgeError(ProblemKind.TRANSIENT, f"no process for it: {error}") from None
        self._process = process
        pulse = asyncio.ensure_future(self._pulse(process))
        try:
            await process.tell(_frame(self._beginning()))
            await self._listen(process, hear, connected)
        except ProcessGoneError as error:
            how = "did not answer and was killed" if self._blocked else "ended"
            raise EdgeError(ProblemKind.TRANSIENT, f"its process {process.pid} {how}") from error
        finally:
            self._process = None
            pulse.cancel()
            for task in self._hearing:
                task.cancel()
            for answer in self._asked.values():
                if not answer.done():
                    answer.set_exception(
                        EdgeError(ProblemKind.UNKNOWN, "its process ended before it answered")
                    )
            await process.end(END_S)

    def _awaited(self) -> w.EdgeAwaited:
        entry = self._ready.entry
        return w.EdgeAwaited(platform=entry.name, module=getattr(entry.factory, "__module__", ""))

    def _beginning(self) -> w.EdgeBegun:
        context = self._context
        return w.EdgeBegun(
            account=context.account,
            options=self._ready.settings.plain_options(),
            files=str(context.files),
            last_heard=dict(context.last_heard),
            commands=context.commands,
        )

    async def _listen(self, process: ProcessActor, hear: Hear, connected: Callable[[], None]) -> None:
        while True:
            frame = await process.hear()
            try:
                said = _FROM.validate_json(frame)
            except ValidationError as error:
                raise EdgeCrashedError(f"its process said what nobody understands: {error}") from None
            match said:
                case w.HeardSomething():
                    self._check_origin(said.heard)
                    self._hand_in(process, hear, said.number, said.heard)
                case w.EdgeAnswered():
                    self._answered(said)
                case w.EdgeConnected():
                    connected()
                case w.TroubleSaid():
                    self._context.trouble(said.text)
                case w.LogSaid():
                    _log(self._context.platform, said)
                case w.EdgeEnded():
                    if said.problem is None:
                        return
                    raise _error(said.problem)
                case w.EdgeCrashed():
                    raise EdgeCrashedError(said.error)
                case _:
                    assert_never(said)

    async def _pulse(self, process: ProcessActor) -> None:
        """Ask now and then whether the loop over there turns; end the process when it does not."""
        clock = self._context.clock
        try:
            while True:
                await clock.sleep(PULSE_EVERY_S)
                number, answer = self._question()
                over = clock.call_later(self._pulse_within_s, partial(_say_late, answer, clock, last=False))
                try:
                    process.tell_now(_frame(w.PulseAsked(number=number)))
                    await answer
                finally:
                    over.cancel()
                    self._asked.pop(number, None)
        except EdgeError as error:
            if error.problem.kind is not ProblemKind.TRANSIENT:
                return  # the connection is over
        log.warning("an edge's process does not answer", platform=self._context.platform, pid=process.pid)
        self._blocked = True
        # A loop that is blocked cannot leave in good order. The listener hears that the line is closed.
        await process.end(0)

    # ------------------------------------------------------------------ hearing

    def _check_origin(self, heard: EdgeHeard) -> None:
        """An edge speaks for its own account. Raises EdgeCrashedError."""
        about = heard if isinstance(heard, ChatMoved) else heard.origin
        if (about.platform, about.account) != (self._context.platform, self._context.account):
            raise EdgeCrashedError(f"it speaks for {about.platform}/{about.account}")

    def _hand_in(self, process: ProcessActor, hear: Hear, number: int, heard: EdgeHeard) -> None:
        # Tasks begin in the order of the frames.
        task = asyncio.ensure_future(self._heard(process, hear, number, heard))
        self._hearing.add(task)
        task.add_done_callback(self._hearing.discard)

    async def _heard(self, process: ProcessActor, hear: Hear, number: int, heard: EdgeHeard) -> None:
        try:
            taken = w.HeardTaken(number=number, receipt=await hear(heard))
        except EdgeError as error:
            taken = w.HeardTaken(number=number, receipt=None, problem=error.problem)
        except Exception as error:
            log.exception("a message could not be handed in", platform=self._context.platform)
            problem = Problem(kind=ProblemKind.TRANSIENT, detail=repr(error)[:500])
            taken = w.HeardTaken(number=number, receipt=None, problem=problem)
        with contextlib.suppress(
            ProcessGoneError
        ):  # the platform sends it again, and by its id it is taken once
            await process.tell(_frame(taken))

    # ------------------------------------------------------------------ saying

    async def say(self, post: Post) -> str:
        return await self._ask(lambda number: w.SayAsked(number=number, post=post)) or ""

    async def find(self, post: Post) -> str | None:
        return await self._ask(lambda number: w.FindAsked(number=number, post=post))

    async def show(self, view: EdgeView) -> str | None:
        return await self._ask(lambda number: w.ShowAsked(number=number, view=view))

    async def probe(self) -> None:
        await self._ask(lambda number: w.ProbeAsked(number=number))

    def _question(self) -> "tuple[int, asyncio.Future[str | None]]":
        number = next(self._numbers)
        answer: asyncio.Future[str | None] = asyncio.get_running_loop().create_future()
        self._asked[number] = answer
        return number, answer

    async def _ask(self, question: Callable[[int], Message]) -> str | None:
        process = self._process
        if process is None:
            raise EdgeError(ProblemKind.NOT_CONNECTED, "not connected")
        number, answer = self._question()
        try:
            await process.tell(_frame(question(number)))
            return await answer
        except ProcessGoneError as error:
            raise EdgeError(ProblemKind.UNKNOWN, str(error)) from None
        except FrameTooLongError as error:
            raise EdgeError(ProblemKind.REFUSED, str(error)) from None
        finally:
            self._asked.pop(number, None)

    def _answered(self, said: w.EdgeAnswered) -> None:
        answer = self._asked.get(said.number)
        if answer is None or answer.done():
            return
        if said.problem is not None:
            answer.set_exception(_error(said.problem))
        else:
            answer.set_result(said.receipt)


def _say_late(answer: "asyncio.Future[str | None]", clock: Clock, *, last: bool) -> None:
    if answer.done():
        return
    if last:
        answer.set_exception(EdgeError(ProblemKind.TRANSIENT, "its loop does not turn"))
    else:
        # Perhaps it was our own loop that did not turn: then the answer is here, and only not read yet.
        clock.call_later(LATE_S, partial(_say_late, answer, clock, last=True))


def _error(problem: Problem) -> EdgeError:
    error = EdgeError(problem.kind, problem.detail)
    error.problem = problem  # all that is known of it, such as where the chat has moved to
    return error


def _frame(message: Message) -> bytes:
    return message.model_dump_json().encode()


def _log(platform: str, said: w.LogSaid) -> None:
    fields = {name: text for name, text in said.fields.items() if name != "event"}
    getattr(log, said.level)(said.event, **{**fields, "platform": platform})
