"""The real program between a simulated Slack and a scripted model."""

import asyncio
import re
from collections import Counter
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from tests.counterparts.model_server import ModelServer
from tests.platforms.simulators.port import SimPost
from tests.platforms.simulators.slack import SlackSimulator
from tests.process.real import Program, scripted

pytestmark = pytest.mark.slow

PATIENCE_S = 60


@pytest.fixture
async def sim() -> AsyncIterator[SlackSimulator]:
    async with SlackSimulator() as simulator:
        yield simulator


@pytest.fixture
async def model() -> AsyncIterator[ModelServer]:
    async with ModelServer() as server:
        yield server


def settings(sim: SlackSimulator, model: ModelServer, **access: Any) -> dict[str, Any]:
    return {**scripted(model.base_url), "platforms": {"slack": sim.settings(**{"users": ["*"], **access})}}


async def connected(sim: SlackSimulator) -> None:
    async with asyncio.timeout(PATIENCE_S):
        while (await sim.state())["sockets"] < 1:
            await asyncio.sleep(0.02)


async def answers(sim: SlackSimulator, count: int) -> list[SimPost]:
    """Wait until so many answers stand there as they will stay."""
    async with asyncio.timeout(PATIENCE_S):
        while True:
            posts = [post for post in await sim.posts() if "echo:" in post.text and not post.buttons]
            if len(posts) >= count:
                return posts
            await asyncio.sleep(0.05)


async def test_a_mention_is_answered_in_its_thread_and_a_direct_message_where_it_is(
    tmp_path: Path, sim: SlackSimulator, model: ModelServer
) -> None:
    async with Program(tmp_path, settings(sim, model)) as program:
        await connected(sim)
        root = await sim.says("general", "Ann", "hello")
        private = await sim.says("ann", "Ann", "psst", dm=True)
        await sim.says("general", "Ann", "to nobody", mention=False)
        posts = {post.chat: post for post in await answers(sim, 2)}
        assert "echo:" in posts["general"].text
        assert posts["general"].thread == root
        assert posts["ann"].thread is None
        await sim.says("ann", "Ann", "and in a thread", dm=True, thread=private)
        third = (await answers(sim, 3))[-1]
        assert (third.chat, third.thread) == ("ann", private)
        await sim.commands("general", "Ann", "/callboard", "whoami")
        async with asyncio.timeout(PATIENCE_S):
            while not (private_answers := (await sim.state())["ephemerals"]):
                await asyncio.sleep(0.05)
        assert "Ann" in private_answers[0]["text"] or "U" in private_answers[0]["text"]
        assert (await sim.state())["pings"] == []
        await program.terminate()


async def test_nothing_is_lost_and_nothing_doubled_over_cuts_and_kills(
    tmp_path: Path, sim: SlackSimulator, model: ModelServer
) -> None:
    program = Program(tmp_path, settings(sim, model, user_per_minute=1000, chat_per_minute=1000))
    async with program:
        await connected(sim)
        for number in range(15):
            await sim.says(f"c{number % 3}", "Ann", f"q{number:03d}")
            if number == 3:
                await answers(sim, 4)
            if number == 6:
                await sim.cuts()
            if number == 11:
                await program.kill()
                await sim.says("c0", "Ann", "q900")
                await sim.says("never heard", "Ann", "q901")
                await program.start()
        await answers(sim, 17)
        # What came twice would have been posted before these.
        for number in range(3):
            await sim.says(f"c{number}", "Ann", f"q99{number}")
        await answers(sim, 20)
        posts = [post for post in await sim.posts() if "echo:" in post.text]
    found = Counter(word for post in posts for word in re.findall(r"\bq\d{3}\b", post.text))
    assert found == {
        **{f"q{number:03d}": 1 for number in range(15)},
        "q900": 1,
        "q901": 1,
        **{f"q99{n}": 1 for n in range(3)},
    }
