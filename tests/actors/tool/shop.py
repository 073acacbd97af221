"""Asks the tool room for calls, as a session does, and waits for its answers."""

import asyncio
import itertools
import json
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from actors.runtime import ActorSystem
from actors.tool.actor import ToolWorkshop
from actors.tool.catalogue import Catalogue, ToolSpec
from actors.tool.discovery import builtin_tools
from actors.tool.worker import Watch
from messages.blocks import ToolCallBlock
from messages.gateway import ChatType, Origin, ToolProgressed
from messages.ids import CallId, SessionKey, Turn
from messages.settings import ToolSettings
from messages.tool import CancelTools, PreparedCall, RunTool, ToolContext, ToolFinished

SESSION = SessionKey("agent:main:test:main:dm:1")
EVERYTHING = ToolSettings(allow=("*",))


def block(name: str, arguments: str = "{}", call_id: str = "c1") -> ToolCallBlock:
    return ToolCallBlock(call_id=CallId(call_id), name=name, arguments=arguments)


def context(session: SessionKey = SESSION, turn: int = 1) -> ToolContext:
    return ToolContext(
        session_key=session, turn=Turn(turn), origin=Origin(platform="test", chat_type=ChatType.DM, chat="1")
    )


class Shop:
    """A session's side of the tool room."""

    def __init__(
        self,
        system: ActorSystem,
        workspace: Path,
        results: Path,
        more: Iterable[ToolSpec] = (),
        settings: ToolSettings = EVERYTHING,
        watch: Watch | None = None,
    ) -> None:
        self.system = system
        self.results = results
        self.catalogue = Catalogue((*builtin_tools(), *more), settings, workspace, results)
        self.answers: list[tuple[SessionKey, ToolFinished]] = []
        self.progress: list[ToolProgressed] = []
        self._answered = asyncio.Event()
        self._numbers = itertools.count(1)
        self.ref = ToolWorkshop.start(
            system,
            self.catalogue,
            self._hear,
            self._hear_progress,
            results,
            watch,
            environ={
                "PATH": "/usr/local/bin:/usr/bin:/bin",
                "HOME": "/tmp",
                "LD_PRELOAD": "x",
                "MY_SECRET": "s3cret",
            },
        )

    def _hear(self, key: SessionKey, finished: ToolFinished) -> None:
        self.answers.append((key, finished))
        self._answered.set()

    def _hear_progress(self, _key: SessionKey, progress: ToolProgressed) -> None:
        self.progress.append(progress)
        self._answered.set()

    def prepare(self, name: str, **arguments: Any) -> PreparedCall:
        call_id = f"call-{next(self._numbers)}"
        return self.catalogue.prepare([block(name, json.dumps(arguments), call_id)])[0]

    def run(self, call: PreparedCall, turn: int = 1, session: SessionKey = SESSION) -> CallId:
        """Ask for a prepared call."""
        self.ref.tell(RunTool(call=call, context=context(session, turn)))
        return call.call_id

    def start(self, name: str, /, turn: int = 1, session: SessionKey = SESSION, **arguments: Any) -> CallId:
        """Ask for a call that is in order."""
        call = self.prepare(name, **arguments)
        assert not call.problem, call.problem
        return self.run(call, turn, session)

    def stop(self, turn: int = 1, call_ids: tuple[CallId, ...] | None = None) -> None:
        self.ref.tell(CancelTools(session_key=SESSION, turn=Turn(turn), call_ids=call_ids))

    async def answer(self, call_id: CallId) -> ToolFinished:
        """Wait for the answer to a call."""
        await self._until(lambda: any(finished.call_id == call_id for _, finished in self.answers))
        return next(finished for _, finished in self.answers if finished.call_id == call_id)

    async def said(self, call_id: CallId) -> None:
        """Wait until a call has told how far it is."""
        await self._until(lambda: any(p.call_id == call_id and p.phase == "progress" for p in self.progress))

    async def _until(self, true: Callable[[], bool]) -> None:
        async with asyncio.timeout(60):
            while not true():
                self._answered.clear()
                await self._answered.wait()

    async def call(self, name: str, /, **arguments: Any) -> ToolFinished:
        """Ask and wait."""
        return await self.answer(self.start(name, **arguments))

    async def outcome(self, name: str, /, **arguments: Any) -> str:
        """Return what the model is told in the end: a refusal, or the result."""
        call = self.prepare(name, **arguments)
        return call.problem or (await self.answer(self.run(call))).text
