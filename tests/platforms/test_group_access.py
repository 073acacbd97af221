"""Strangers, the owner, a group that is let in, and what was overheard: the same on every platform."""

import asyncio
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from actors.gateway.pairing import new_claim
from tests.counterparts.model_server import ModelServer, Say
from tests.platforms.simulators.discord import DiscordSimulator
from tests.platforms.simulators.port import SimPost, Simulator
from tests.platforms.simulators.slack import SlackSimulator
from tests.platforms.simulators.telegram import TelegramSimulator
from tests.process.real import PATIENCE_S, Program, scripted

pytestmark = pytest.mark.slow

SIMULATORS: Mapping[str, type[Any]] = {
    "discord": DiscordSimulator,
    "slack": SlackSimulator,
    "telegram": TelegramSimulator,
}


async def posted(sim: Simulator, words: str) -> SimPost:
    async with asyncio.timeout(PATIENCE_S):
        while True:
            for post in await sim.posts():
                if words in post.text:
                    return post
            await asyncio.sleep(0.05)


async def connected(program: Program, platform: str) -> None:
    async with asyncio.timeout(PATIENCE_S), program.http() as http:
        while True:
            async with http.get("/api/status") as response:
                if (await response.json())["platforms"].get(platform) == "connected":
                    return
            await asyncio.sleep(0.05)


@pytest.mark.parametrize("platform", SIMULATORS)
async def test_a_group_is_let_in_by_its_owner(platform: str, tmp_path: Path) -> None:
    home = tmp_path / "home"
    async with ModelServer() as server, SIMULATORS[platform]() as sim:
        settings = {**scripted(server.base_url), "platforms": {platform: sim.settings()}}
        settings["platforms"][platform]["live"] = {"typing": False, "drafts": False, "reactions": False}
        async with Program(home, settings) as program:
            await connected(program, platform)
            await sim.says("lobby", "xenia", "let me in")
            await sim.says("d-sam", "sam", "hello, I am Sam", dm=True)
            await posted(sim, "I do not know you yet")
            assert await sim.posts("lobby") == [], "a stranger in a group is met with silence"
            await sim.says("d-ann", "ann", f"/claim {new_claim(home)}", dm=True)
            await posted(sim, "You are my owner")
            await sim.says("lobby", "ann", "/access allow chat here")
            await posted(sim, "may talk to me there now")
            await sim.says("lobby", "xenia", "the plan is to meet at five", mention=False)
            server.when("when do we meet", Say("At five."))
            await sim.says("lobby", "yuri", "when do we meet?")
            answer = await posted(sim, "At five.")
            assert answer in await sim.posts("lobby")
            assert "the plan is to meet at five" in str(server.requests[-1].body)
            await sim.says("lobby", "yuri", "/access allow chat here")
            await posted(sim, "is for an admin")
            assert await program.terminate() == 0


async def test_R12_a_group_that_gets_another_id_stays_let_in_and_remembers(tmp_path: Path) -> None:
    home = tmp_path / "home"
    async with ModelServer() as server, TelegramSimulator() as sim:
        for number in range(3):
            server.when(f"question {number}", Say(f"answer {number}"))
        settings = {**scripted(server.base_url), "platforms": {"telegram": sim.settings()}}
        async with Program(home, settings) as program:
            await sim.says("d-ann", "ann", f"/claim {new_claim(home)}", dm=True)
            await posted(sim, "You are my owner")
            await sim.says("old", "ann", "/access allow chat here", basic=True)
            await posted(sim, "may talk to me there now")
            await sim.says("old", "xenia", "question 0: remember the word swordfish", basic=True)
            await posted(sim, "answer 0")
            await sim.tell("migrates", chat="old", new="new", announce=True)
            await sim.says("new", "xenia", "question 1")
            assert (await posted(sim, "answer 1")).chat == "new"
            assert "swordfish" in str(server.requests[-1].body)
            assert await program.terminate() == 0
            await program.start()
            await sim.says("new", "xenia", "question 2")
            assert (await posted(sim, "answer 2")).chat == "new"
            assert "swordfish" in str(server.requests[-1].body)
            assert len([post for post in await sim.posts() if "answer" in post.text]) == 3
