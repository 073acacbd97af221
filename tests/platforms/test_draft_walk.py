"""Drafts on the real edges, through the real program: whatever happens, one message stands with the whole answer."""

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.counterparts.model_server import Fail, ModelServer, Say
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
ANSWER = " ".join(f"word{number:03d}" for number in range(60)) + " the end."
LONG = "\n\n".join(" ".join(f"p{part}w{number:03d}" for number in range(100)) for part in range(9)) + " the end."
SILENT = " ".join(f"thought{number:03d}" for number in range(40))


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


def slowly(text: str, seconds: float = 6.0) -> Say:
    words = text.split(" ")
    size = -(-len(words) // 60)
    pieces = [" ".join(words[at : at + size]) + " " for at in range(0, len(words), size)]
    pieces[-1] = pieces[-1][:-1]
    return Say(text, delay_s=seconds / len(pieces), pieces=tuple(pieces))


def settings(platform: str, sim: Simulator, model: ModelServer) -> dict[str, Any]:
    ours = sim.settings(users=["*"], user_per_minute=1000, chat_per_minute=1000)
    return {**scripted(model.base_url), "platforms": {platform: ours}, "log": {"level": "debug"}}


async def connected(program: Program, platform: str) -> None:
    async with asyncio.timeout(PATIENCE_S), program.http() as http:
        while True:
            async with http.get("/api/status") as response:
                if (await response.json())["platforms"].get(platform) == "connected":
                    return
            await asyncio.sleep(0.05)


async def until(
    sim: Simulator, what: Callable[[Sequence[SimPost]], bool], chat: str | None = None
) -> list[SimPost]:
    posts: list[SimPost] = []
    try:
        async with asyncio.timeout(PATIENCE_S):
            while not what(posts := await sim.posts(chat)):
                await asyncio.sleep(0.05)
    except TimeoutError:
        pytest.fail(f"what stands is {posts}")
    return posts


def is_draft(post: SimPost) -> bool:
    return any("word" in post.text or "p0w" in post.text for _ in "x") and "the end." not in post.text


async def drafted(sim: Simulator, chat: str = "lobby") -> SimPost:
    posts = await until(sim, lambda posts: any(post.buttons for post in posts), chat)
    return next(post for post in posts if post.buttons)


async def whole(sim: Simulator, chat: str = "lobby") -> SimPost:
    """Wait until one message alone stands in the chat, with the whole answer and nothing to press."""
    (post,) = await until(
        sim, lambda posts: len(posts) == 1 and posts[0].text == ANSWER and not posts[0].buttons, chat
    )
    return post


async def quiet(sim: Simulator, seconds: float = 3.0) -> None:
    """Let come what would come too much."""
    await asyncio.sleep(seconds)


async def test_a_draft_becomes_the_answer(
    platform: str, sim: Simulator, model: ModelServer, tmp_path: Path
) -> None:
    model.when("question", slowly(ANSWER))
    async with Program(tmp_path / "home", settings(platform, sim, model)) as program:
        await connected(program, platform)
        for chat in ("lobby", "kitchen"):
            await sim.says(chat, "ann", "question")
        drafts = {chat: await drafted(sim, chat) for chat in ("lobby", "kitchen")}
        for chat, draft in drafts.items():
            post = await whole(sim, chat)
            assert post.id == draft.id
            assert post.edits >= 2
        await quiet(sim)
        assert [post.text for post in await sim.posts()] == [ANSWER, ANSWER]


async def test_a_kill_leaves_one_answer(
    platform: str, sim: Simulator, model: ModelServer, tmp_path: Path
) -> None:
    model.when("question", slowly(ANSWER))
    async with Program(tmp_path / "home", settings(platform, sim, model)) as program:
        await connected(program, platform)
        await sim.says("lobby", "ann", "question")
        await drafted(sim)
        await program.kill()
        await program.start()
        await whole(sim)
        await quiet(sim, 12.0)
        await whole(sim)


async def test_a_stopped_turn_leaves_no_draft(
    platform: str, sim: Simulator, model: ModelServer, tmp_path: Path
) -> None:
    model.when("question", slowly(ANSWER, 60.0))
    async with Program(tmp_path / "home", settings(platform, sim, model)) as program:
        await connected(program, platform)
        await sim.says("lobby", "ann", "question")
        draft = await drafted(sim)
        await sim.says("lobby", "ann", "/stop")
        posts = await until(sim, lambda posts: bool(posts) and not any(post.buttons for post in posts))
        await until(sim, lambda posts: bool(posts) and all("opped" in post.text for post in posts))
        assert draft.text not in [post.text for post in posts]


async def test_a_long_answer_begins_with_its_draft(
    platform: str, sim: Simulator, model: ModelServer, tmp_path: Path
) -> None:
    model.when("question", slowly(LONG))
    async with Program(tmp_path / "home", settings(platform, sim, model)) as program:
        await connected(program, platform)
        await sim.says("lobby", "ann", "question")
        draft = await drafted(sim)
        posts = await until(sim, lambda posts: bool(posts) and posts[-1].text.endswith("the end."))
        await quiet(sim)
        posts = await sim.posts()
        assert posts[0].id == draft.id
        assert " ".join(" ".join(post.text for post in posts).split()) == " ".join(LONG.split())
        assert not any(post.buttons for post in posts)


async def test_an_answer_of_silence_takes_its_draft_away(
    platform: str, sim: Simulator, model: ModelServer, tmp_path: Path
) -> None:
    model.when("question", Fail(500))
    model.when("silent", slowly(ANSWER))
    async with Program(tmp_path / "home", settings(platform, sim, model)) as program:
        await connected(program, platform)
        await sim.says("lobby", "ann", "silent")
        draft = await drafted(sim)
        # A moderator takes it away in the meantime.
        await removed(sim, draft)
        await whole(sim)


async def removed(sim: Simulator, post: SimPost) -> None:
    """Take a message away, as a moderator does."""
    raise NotImplementedError
