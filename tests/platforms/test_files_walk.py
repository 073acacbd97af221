"""Files with answers, through the real program: they arrive with their names, and what cannot arrive is said."""

import asyncio
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.counterparts.model_server import Call, ModelServer, Say
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


@pytest.fixture(params=SIMULATORS)
def platform(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
async def sim(platform: str) -> AsyncIterator[Simulator]:
    async with SIMULATORS[platform]() as simulator:
        yield simulator


@pytest.fixture
async def model() -> AsyncIterator[ModelServer]:
    async with ModelServer() as server:
        yield server


def settings(platform: str, sim: Simulator, model: ModelServer, workspace: Path) -> dict[str, Any]:
    ours = sim.settings(users=["*"])
    return {
        **scripted(model.base_url),
        "platforms": {platform: ours},
        "tools": {"workspace": str(workspace), "allow": ["*"]},
    }


async def until(sim: Simulator, words: str) -> list[SimPost]:
    posts: list[SimPost] = []
    try:
        async with asyncio.timeout(PATIENCE_S):
            while True:
                posts = await sim.posts()
                if any(words in post.text for post in posts):
                    break
                await asyncio.sleep(0.05)
    except TimeoutError:
        pytest.fail(f"what stands is {posts}")
    return posts


async def connected(program: Program, platform: str) -> None:
    async with asyncio.timeout(PATIENCE_S), program.http() as http:
        while True:
            async with http.get("/api/status") as response:
                if (await response.json())["platforms"].get(platform) == "connected":
                    return
            await asyncio.sleep(0.05)


def named(posts: list[SimPost]) -> list[str]:
    return [name for post in posts for name in post.files]


async def test_D10_a_file_arrives_with_its_name_and_all_of_its_text(
    platform: str, sim: Simulator, model: ModelServer, tmp_path: Path
) -> None:
    workspace = tmp_path / "work"
    workspace.mkdir()
    (workspace / "plan.txt").write_text("one, two, three")
    text = " ".join(f"word{number:03d}" for number in range(200)) + " the end."
    model.when("send me", Call(("send_file", {"path": "plan.txt", "shown_as": "../My plan \u202e(1).txt"})))
    model.will(Say(text))
    async with Program(tmp_path / "home", settings(platform, sim, model, workspace)) as program:
        await connected(program, platform)
        await sim.says("lobby", "ann", "send me the plan")
        await until(sim, "the end.")
        async with asyncio.timeout(PATIENCE_S):
            while not named(posts := await sim.posts()):
                await asyncio.sleep(0.05)
    (name,) = named(posts)
    assert "My plan" in name.replace("_", " ")
    assert name.endswith(".txt")
    assert "/" not in name
    assert "\u202e" not in name
    assert " ".join(" ".join(post.text for post in posts).split()) == text


async def test_D10_a_file_that_is_too_large_is_said_and_the_answer_stands(
    platform: str, sim: Simulator, model: ModelServer, tmp_path: Path
) -> None:
    if platform == "slack":
        pytest.skip("Slack takes larger files than a model may send")
    workspace = tmp_path / "work"
    workspace.mkdir()
    with (workspace / "film.bin").open("wb") as file:
        file.truncate(51_000_000)
    model.when("send me", Call(("send_file", {"path": "film.bin"})))
    model.will(Say("Here it is."))
    async with Program(tmp_path / "home", settings(platform, sim, model, workspace)) as program:
        await connected(program, platform)
        await sim.says("lobby", "ann", "send me the film")
        await until(sim, "Here it is.")
        posts = await until(sim, "film.bin")
        assert any("too large" in post.text and "51,000,000" in post.text for post in posts)
        assert named(posts) == []


async def test_a_very_long_answer_arrives_whole_in_a_file(
    platform: str, sim: Simulator, model: ModelServer, tmp_path: Path
) -> None:
    workspace = tmp_path / "work"
    workspace.mkdir()
    model.when("tell me", Say("\n\n".join(f"Paragraph {n}. " + "word " * 380 for n in range(60))))
    async with Program(tmp_path / "home", settings(platform, sim, model, workspace)) as program:
        await connected(program, platform)
        await sim.says("lobby", "ann", "tell me everything")
        async with asyncio.timeout(PATIENCE_S):
            while not named(posts := await sim.posts()):
                await asyncio.sleep(0.05)
    assert ["answer" in name and name.endswith(".md") for name in named(posts)] == [True]
    assert len(posts) <= 10
