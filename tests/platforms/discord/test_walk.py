"""From a person on Discord to the answer there, through the real program and over its death."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from tests.counterparts.model_server import ModelServer, Say
from tests.platforms.simulators.discord import DiscordSimulator
from tests.platforms.simulators.port import SimPost
from tests.process.real import Program, scripted

pytestmark = pytest.mark.slow


def settings(sim: DiscordSimulator, server: ModelServer, **access: Any) -> dict[str, Any]:
    return {**scripted(server.base_url), "platforms": {"discord": sim.settings(users=["*"], **access)}}


async def answered(sim: DiscordSimulator, count: int) -> list[SimPost]:
    async with asyncio.timeout(60):
        while len(posts := await sim.posts()) < count:
            await asyncio.sleep(0.02)
    return posts


async def test_people_are_answered_where_they_ask(sim: DiscordSimulator, tmp_path: Path) -> None:
    async with ModelServer() as server:
        for place in ("the lobby", "the thread", "private"):
            server.when(place, Say(f"hello in {place}"))
        async with Program(tmp_path / "home", settings(sim, server)) as program:
            async with asyncio.timeout(60):
                while not (await sim.state())["sessions"]:
                    await asyncio.sleep(0.02)
            asked = await sim.says("lobby", "ann", "this is the lobby")
            await sim.says("lobby", "ann", "this is the thread", thread="soups")
            await sim.says("ann-dm", "ann", "this is private", dm=True)
            posts = await answered(sim, 3)
            assert {(p.chat, p.thread, p.text) for p in posts} == {
                ("lobby", None, "hello in the lobby"),
                ("lobby", "soups", "hello in the thread"),
                ("ann-dm", None, "hello in private"),
            }
            assert next(p for p in posts if p.text.endswith("lobby")).reply_to == asked
            given = await sim.control("asks", chat="lobby", user="ann", name="help")
            (*_, last) = await answered(sim, 4)
            assert last.reply_to == given["id"]
            assert "/help" in last.text
            assert program.process is not None


async def test_A24_what_was_said_while_it_was_dead_is_answered_once(
    sim: DiscordSimulator, tmp_path: Path
) -> None:
    async with ModelServer() as server:
        for number in range(4):
            server.when(f"question {number}", Say(f"answer {number}"))
        async with Program(tmp_path / "home", settings(sim, server)) as program:
            async with asyncio.timeout(60):
                while not (await sim.state())["sessions"]:
                    await asyncio.sleep(0.02)
            await sim.says("lobby", "ann", "question 0")
            await answered(sim, 1)
            await program.kill()
            await sim.says("lobby", "ann", "question 1")
            await sim.says("kitchen", "ann", "question 2")
            await program.start()
            await answered(sim, 3)
            await sim.says("lobby", "ann", "question 3")
            posts = await answered(sim, 4)
    assert sorted(p.text for p in posts) == [f"answer {number}" for number in range(4)]
    assert {p.text: p.chat for p in posts}["answer 2"] == "kitchen"
