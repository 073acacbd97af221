"""One program on several simulated services at once, and what people do there, in the same words for each."""

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

from actors.gateway.pairing import new_claim
from tests.counterparts.model_server import ModelServer
from tests.platforms.simulators.discord import DiscordSimulator
from tests.platforms.simulators.port import SimPost
from tests.platforms.simulators.slack import SlackSimulator
from tests.platforms.simulators.telegram import TelegramSimulator
from tests.process.real import PATIENCE_S, Program, scripted

SIMULATORS: Mapping[str, type[Any]] = {
    "discord": DiscordSimulator,
    "slack": SlackSimulator,
    "telegram": TelegramSimulator,
}
STILL = {"typing": False, "drafts": False, "reactions": False}
CLAIMED = "You are my owner"


class Place:
    """One service, as the people on it see it."""

    def __init__(self, name: str, sim: Any, walk: "Walk") -> None:
        self.name = name
        self.sim = sim
        self._walk = walk

    async def says(self, user: str, text: str, chat: str = "lobby", **more: Any) -> str:
        return str(await self.sim.says(chat, user, text, **more))

    async def told(self, words: str, times: int = 1) -> SimPost:
        """Wait until something with these words stands somewhere; return the latest."""
        async with asyncio.timeout(PATIENCE_S):
            while True:
                found: list[SimPost] = [post for post in await self.sim.posts() if words in post.text]
                if len(found) >= times:
                    return found[-1]
                await asyncio.sleep(0.05)

    async def texts(self, chat: str | None = None) -> list[str]:
        return [post.text for post in await self.sim.posts(chat)]

    async def claims(self, user: str = "ann") -> None:
        """This person becomes the owner."""
        await self.says(user, f"/claim {new_claim(self._walk.program.home)}", f"d-{user}", dm=True)
        await self.told(CLAIMED)

    async def opens(self, chat: str = "lobby", user: str = "ann") -> None:
        """The owner lets everybody in a chat in."""
        before = len([text for text in await self.texts() if "may talk to me there now" in text])
        await self.says(user, "/access allow chat here", chat)
        await self.told("may talk to me there now", before + 1)

    async def presses(self, user: str, post: SimPost, label: str, chat: str = "lobby") -> None:
        match self.name:
            case "discord":
                await self.sim.control("presses", user=user, message=post.id, label=label)
            case "slack":
                await self.sim.presses(chat, user, post.id, label)
            case _:
                shown = await self.sim.tell("message", chat=chat, id=post.id)
                rows = shown["reply_markup"]["inline_keyboard"]
                data = next(b["callback_data"] for row in rows for b in row if b["text"] == label)
                await self.sim.tell("presses", chat=chat, user=user, id=post.id, data=data)

    async def edits(self, message: str, text: str, chat: str = "lobby") -> None:
        if self.name == "discord":
            await self.sim.control("edits", message=message, text=text)
        else:
            tell = self.sim.tell
            await tell("edits", chat=chat, id=message, text=text)

    async def deletes(self, message: str, chat: str = "lobby") -> None:
        if self.name == "discord":
            await self.sim.control("deletes", message=message)
        else:
            await self.sim.tell("deletes", chat=chat, id=message)


class Walk:
    """The program, its model, and the places."""

    def __init__(self, server: ModelServer, program: Program, sims: Mapping[str, Any]) -> None:
        self.server = server
        self.program = program
        self.places = {name: Place(name, sim, self) for name, sim in sims.items()}

    def __getitem__(self, name: str) -> Place:
        return self.places[name]

    async def connected(self) -> None:
        """Wait until every place is."""
        async with asyncio.timeout(PATIENCE_S), self.program.http() as http:
            while True:
                async with http.get("/api/status") as response:
                    states = (await response.json())["platforms"]
                if all(states.get(name) == "connected" for name in self.places):
                    return
                await asyncio.sleep(0.05)

    async def again(self) -> None:
        """The power goes and comes."""
        await self.program.kill()
        await self.program.start()
        await self.connected()

    async def until(self, true: Callable[[], bool]) -> None:
        async with asyncio.timeout(PATIENCE_S):
            while not true():
                await asyncio.sleep(0.05)

    def asked(self, words: str) -> bool:
        """Whether the model was told these words."""
        return any(words in request.last_user_text for request in self.server.requests)


@asynccontextmanager
async def walk(
    home: Path,
    *names: str,
    access: Mapping[str, Any] | None = None,
    env: Mapping[str, str] | None = None,
    **settings: Any,
) -> AsyncIterator[Walk]:
    """Run the program on these services; the owner of each is `ann`, and each lobby is let in."""
    async with AsyncExitStack() as stack:
        server = await stack.enter_async_context(ModelServer())
        sims = {name: await stack.enter_async_context(SIMULATORS[name]()) for name in names}
        platforms = {
            name: {**sim.settings(**(access or {})), "live": dict(STILL)} for name, sim in sims.items()
        }
        whole = {**scripted(server.base_url), **settings, "platforms": platforms}
        program = await stack.enter_async_context(Program(home, whole, env=env))
        found = Walk(server, program, sims)
        await found.connected()
        for place in found.places.values():
            await place.claims()
            await place.opens()
        yield found
        assert await program.terminate() == 0
