"""The program of an isolated edge's process: makes the edge that it is told, runs it, passes words on.

It ends when the edge does, or when the line to whoever raised it is closed.
"""

import asyncio
import contextlib
import importlib
import itertools
import pkgutil
import traceback
from collections.abc import Awaitable
from pathlib import Path
from typing import Final, assert_never

from pydantic import TypeAdapter

from actors.clock import WallClock
from actors.cluster import words as w
from actors.cluster.child_log import send_logs_to
from actors.cluster.port import Channel, ProcessGoneError
from actors.gateway.edge import Edge, EdgeContext, EdgeError
from actors.gateway.registry import PlatformEntry, Registry
from messages.base import Message
from messages.delivery import Problem, ProblemKind
from messages.gateway import EdgeHeard, Receipt

MOST_UNDER_WAY: Final = 256
"""So many messages may be on their way into the journal; who hears more waits."""

LEAVE_S: Final = 0.8
"""How long the edge may take to close its connection in good order."""

_TO: TypeAdapter[w.ToProcess] = TypeAdapter(w.ToProcess)


async def run(channel: Channel) -> None:
    """Live one edge's life."""
    send_logs_to(channel)
    try:
        awaited = _TO.validate_json(await channel.hear())
        assert isinstance(awaited, w.EdgeAwaited), "the first word is which platform to expect"
        _import_all(awaited.module)
        begun = _TO.validate_json(await channel.hear())
        assert isinstance(begun, w.EdgeBegun), "the second word is which edge to be"
        edge = _made(awaited, begun, channel)
    except ProcessGoneError:
        return
    except Exception:  # noqa: BLE001 told with its traceback
        await channel.tell(_frame(w.EdgeCrashed(error=traceback.format_exc()[-4000:])))
        return
    await _EdgeProcess(channel, edge).live()


def _import_all(module: str) -> None:
    """Import a platform's module, and what lies in it when it is a package: its library comes along.

    What cannot be imported is told when the edge is made, if it needs it.
    """
    found = importlib.import_module(module)
    for each in pkgutil.iter_modules(getattr(found, "__path__", ())):
        with contextlib.suppress(ImportError):
            importlib.import_module(f"{module}.{each.name}")


def _made(awaited: w.EdgeAwaited, begun: w.EdgeBegun, channel: Channel) -> Edge:
    entry = _entry(awaited)
    context = EdgeContext(
        platform=awaited.platform,
        account=begun.account,
        clock=WallClock(),
        files=Path(begun.files),
        last_heard=begun.last_heard,
        commands=begun.commands,
        trouble=lambda text: _said(channel, w.TroubleSaid(text=text)),
    )
    return entry.factory(entry.config.model_validate(begun.options), context)


def _entry(awaited: w.EdgeAwaited) -> PlatformEntry:
    """Find the platform where the raiser found it, else by its name."""
    found = getattr(importlib.import_module(awaited.module), "PLATFORM", None)
    if isinstance(found, PlatformEntry) and found.name == awaited.platform:
        return found
    return Registry.discover().get(awaited.platform)


class _EdgeProcess:
    """One edge, and the line to where it is used."""

    def __init__(self, channel: Channel, edge: Edge) -> None:
        self._channel = channel
        self._edge = edge
        self._numbers = itertools.count(1)
        self._waiting: dict[int, asyncio.Future[Receipt]] = {}
        self._room = asyncio.Semaphore(MOST_UNDER_WAY)
        self._calls: set[asyncio.Task[None]] = set()

    async def live(self) -> None:
        running = asyncio.ensure_future(self._run())
        listening = asyncio.ensure_future(self._listen())
        await asyncio.wait((running, listening), return_when=asyncio.FIRST_COMPLETED)
        for task in (running, listening, *self._calls):
            task.cancel()
        await asyncio.wait((running, listening, *self._calls), timeout=LEAVE_S)

    async def _run(self) -> None:
        last: Message
        try:
            await self._edge.run(self._hear, lambda: _said(self._channel, w.EdgeConnected()))
            last = w.EdgeEnded(problem=None)
        except EdgeError as error:
            last = w.EdgeEnded(problem=error.problem)
        except Exception:  # noqa: BLE001 told with its traceback
            last = w.EdgeCrashed(error=traceback.format_exc()[-4000:])
        await self._channel.tell(_frame(last))

    async def _hear(self, heard: EdgeHeard) -> Receipt:
        async with self._room:
            number = next(self._numbers)
            receipt: asyncio.Future[Receipt] = asyncio.get_running_loop().create_future()
            self._waiting[number] = receipt
            try:
                await self._channel.tell(_frame(w.HeardSomething(number=number, heard=heard)))
                return await receipt
            except ProcessGoneError as error:
                raise EdgeError(ProblemKind.TRANSIENT, str(error)) from None
            finally:
                self._waiting.pop(number, None)

    async def _listen(self) -> None:
        while True:
            try:
                asked = _TO.validate_json(await self._channel.hear())
            except ProcessGoneError:
                return
            match asked:
                case w.SayAsked():
                    self._answer(asked.number, self._edge.say(asked.post))
                case w.FindAsked():
                    self._answer(asked.number, self._edge.find(asked.post))
                case w.ShowAsked():
                    self._answer(asked.number, self._edge.show(asked.view))
                case w.ProbeAsked():
                    self._answer(asked.number, self._edge.probe())
                case w.PulseAsked():
                    _said(self._channel, w.EdgeAnswered(number=asked.number))
                case w.HeardTaken():
                    self._taken(asked)
                case w.EdgeAwaited() | w.EdgeBegun():
                    raise AssertionError("an edge begins once")
                case _:
                    assert_never(asked)

    def _taken(self, taken: w.HeardTaken) -> None:
        waiting = self._waiting.get(taken.number)
        if waiting is None or waiting.done():
            return
        if taken.receipt is not None:
            waiting.set_result(taken.receipt)
        else:
            detail = taken.problem.detail if taken.problem else "it was not taken"
            waiting.set_exception(EdgeError(ProblemKind.TRANSIENT, detail))

    def _answer(self, number: int, call: Awaitable[str | None]) -> None:
        task = asyncio.ensure_future(self._called(number, call))
        self._calls.add(task)
        task.add_done_callback(self._calls.discard)

    async def _called(self, number: int, call: Awaitable[str | None]) -> None:
        try:
            answer = w.EdgeAnswered(number=number, receipt=await call)
        except EdgeError as error:
            answer = w.EdgeAnswered(number=number, problem=error.problem)
        except Exception as error:  # noqa: BLE001 the edge's own mistake, told with its traceback
            text = traceback.format_exc()[-4000:]
            said = w.LogSaid(
                level="error", event="an edge failed in a way of its own", fields={"error": text}
            )
            _said(self._channel, said)
            problem = Problem(kind=ProblemKind.UNKNOWN, detail=f"{type(error).__name__}: {error}"[:500])
            answer = w.EdgeAnswered(number=number, problem=problem)
        await self._channel.tell(_frame(answer))


def _said(channel: Channel, message: Message) -> None:
    channel.tell_now(_frame(message))


def _frame(message: Message) -> bytes:
    return message.model_dump_json().encode()
