"""Tools that a test holds in its hand: they start, wait, and leave a mark."""

import asyncio
from collections import defaultdict

from actors.tool.spec import ToolSpec, spec_of, tool
from messages.tool import Effect


class Bench:
    """Tools whose ends a test decides. `marks` are their side effects, in order."""

    def __init__(self) -> None:
        self.marks: list[str] = []
        self.began: list[str] = []
        self.cancelled: list[str] = []
        self.secret = "nothing"
        self._gates: defaultdict[str, asyncio.Event] = defaultdict(asyncio.Event)

    def let(self, name: str) -> None:
        """Let a waiting call go on."""
        self._gates[name].set()

    def specs(self) -> tuple[ToolSpec, ...]:
        bench = self

        @tool(toolset="test", effect=Effect.READ)
        async def look(name: str) -> str:
            """Look at something.

            name: what to look at
            """
            return await bench.work(name)

        @tool(toolset="test", effect=Effect.WRITE, repeatable=False)
        async def mark(name: str) -> str:
            """Leave a mark.

            name: what to write
            """
            result = await bench.work(name)
            bench.marks.append(name)
            return result

        @tool(toolset="test", effect=Effect.READ)
        async def say(text: str = "nothing") -> str:
            """Say a text at once.

            text: the text
            """
            return text

        @tool(toolset="test", effect=Effect.READ)
        async def spill() -> str:
            """Say what should not be said."""
            return f"KEY={bench.secret}"

        found = [spec_of(function) for function in (look, mark, say, spill)]
        return tuple(spec for spec in found if spec is not None)

    async def work(self, name: str) -> str:
        self.began.append(name)
        try:
            await self._gates[name].wait()
        except asyncio.CancelledError:
            self.cancelled.append(name)
            raise
        return f"{name} is done"
