"""Drafts on the real edges, through the real program: whatever happens, one message stands with the whole answer."""

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.counterparts.model_server import Call, Fail, ModelServer, Say
from tests.platforms.simulators.discord import DiscordSimulator
from tests.platforms.simulators.port import SimPost, Simulator
from tests.platforms.simulators.slack import SlackSimulator
from tests.platforms.simulators.telegram import TelegramSimulator
from tests.process.real import PATIENCE_S, Program, scripted

pytestmark = pytest.mark.slow  # of the walks that take longest, one is enough each time: `make soak` has all

SIMULATORS: Mapping[str, type[Any]] = {
    "discord": DiscordSimulator,
    "slack": SlackSimulator,
    "telegram": TelegramSimulator,
}
ANSWER = " ".join(f"word{number:03d}" for number in range(60)) + " the end."
LONG = (
    "\n\n".join(" ".join(f"p{part}w{number:03d}" for number in range(100)) for part in range(9)) + " the end."
)


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


@pytest.mark.soak
async def test_a_kill_leaves_one_answer(
    platform: str, sim: Simulator, model: ModelServer, tmp_path: Path
) -> None:
    model.when("question", slowly(ANSWER))
    async with Program(tmp_path / "home", settings(platform, sim, model)) as program:
        await connected(program, platform)
        await sim.says("lobby", "ann", "question")
        await drafted(sim)
        if platform != "discord":
            # Elsewhere, nothing tells a new life of a draft that was posted in the moment of the kill.
            await until(sim, lambda posts: posts[0].edits >= 1)
        await program.kill()
        await program.start()
        await whole(sim)
        await quiet(sim, 12.0)
        await whole(sim)


@pytest.mark.soak
async def test_a_stopped_turn_leaves_no_draft(
    platform: str, sim: Simulator, model: ModelServer, tmp_path: Path
) -> None:
    model.when("question", slowly(ANSWER, 60.0))
    async with Program(tmp_path / "home", settings(platform, sim, model)) as program:
        await connected(program, platform)
        await sim.says("lobby", "ann", "question")
        draft = await drafted(sim)
        await sim.says("lobby", "ann", "/stop", thread=draft.thread)
        posts = await until(sim, lambda posts: bool(posts) and not any(post.buttons for post in posts))
        await until(sim, lambda posts: bool(posts) and all("opped" in post.text for post in posts))
        assert draft.text not in [post.text for post in posts]


@pytest.mark.soak
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


@pytest.mark.soak
async def test_a_draft_that_a_moderator_takes_away_comes_back_as_the_answer(
    platform: str, sim: Simulator, model: ModelServer, tmp_path: Path
) -> None:
    model.when("question", slowly(ANSWER))
    async with Program(tmp_path / "home", settings(platform, sim, model)) as program:
        await connected(program, platform)
        await sim.says("lobby", "ann", "question")
        draft = await drafted(sim)
        await taken_away(sim, draft)
        post = await whole(sim)
        assert post.id != draft.id
        await quiet(sim)
        await whole(sim)


async def taken_away(sim: Any, post: SimPost) -> None:
    """Delete a message, as a moderator does."""
    if isinstance(sim, DiscordSimulator):
        await sim.control("deletes", message=post.id)
    elif isinstance(sim, SlackSimulator):
        await sim.tell("deletes", chat=post.chat, id=post.id)
    else:
        await sim.tell("deletes", chat=post.chat, id=post.id)


async def no_edits(sim: Any, seconds: float, times: int) -> None:
    """Let the service refuse the next edits for a while."""
    if isinstance(sim, DiscordSimulator):
        await sim.misbehaves("rate_limit", times=times, method="PATCH", retry_after=seconds)
    elif isinstance(sim, SlackSimulator):
        await sim.misbehaves("rate_limited", times=times, method="chat.update", retry_after=int(seconds))
    else:
        await sim.misbehaves("flood", times=times, method="editMessageText", retry_after=int(seconds))


@pytest.mark.soak
async def test_A12_edits_that_are_refused_for_a_while_leave_one_answer(
    platform: str, sim: Simulator, model: ModelServer, tmp_path: Path
) -> None:
    model.when("question", slowly(ANSWER))
    model.when("another", Say("another answer"))
    async with Program(tmp_path / "home", settings(platform, sim, model)) as program:
        await connected(program, platform)
        await sim.says("lobby", "ann", "question")
        await drafted(sim)
        await no_edits(sim, 3, 3)
        await sim.says("kitchen", "bob", "another")
        await until(sim, lambda posts: [post.text for post in posts] == ["another answer"], "kitchen")
        await whole(sim)
        await quiet(sim, 6.0)
        await whole(sim)


@pytest.mark.soak
@pytest.mark.parametrize("after", [Say("NO_REPLY"), Fail(400, {"error": {"message": "it is broken"}})])
async def test_a_draft_of_which_nothing_comes_goes_away(
    platform: str, sim: Simulator, model: ModelServer, tmp_path: Path, after: Say | Fail
) -> None:
    whole_settings = {**settings(platform, sim, model), "tools": {"allow": ["*"]}}
    model.when("question", Call(("terminal", {"command": "sleep 5"}), text=ANSWER))
    model.will(after)
    async with Program(tmp_path / "home", whole_settings) as program:
        await connected(program, platform)
        await sim.says("lobby", "ann", "question")
        await drafted(sim)
        posts = await until(sim, lambda posts: all("word" not in post.text for post in posts))
        if isinstance(after, Fail):
            posts = await until(sim, lambda posts: len(posts) == 1)
            assert posts[0].buttons == ()
        else:
            assert posts == []
