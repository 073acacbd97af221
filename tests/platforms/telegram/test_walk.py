"""From a person on Telegram to the answer there, through the real program and over its death."""

import asyncio
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from tests.counterparts.model_server import ModelServer, Say
from tests.platforms.simulators.port import SimPost
from tests.platforms.simulators.telegram import TelegramSimulator
from tests.platforms.simulators.telegram_world import TOKEN
from tests.process.real import Program, callboard, scripted

pytestmark = pytest.mark.slow


def settings(sim: TelegramSimulator, server: ModelServer, **access: Any) -> dict[str, Any]:
    telegram = sim.settings(users=["*"], **access)
    return {**scripted(server.base_url), "platforms": {"telegram": telegram}, "log": {"level": "debug"}}


async def answered(sim: TelegramSimulator, count: int, chat: str | None = None) -> list[SimPost]:
    """Wait until so many answers stand in the chat, and none of them is being written any more."""
    async with asyncio.timeout(60):
        while len(posts := await sim.posts(chat)) < count:
            await asyncio.sleep(0.02)
    return posts


async def texts(sim: TelegramSimulator, wanted: Sequence[str]) -> list[str]:
    async with asyncio.timeout(60):
        while not set(wanted) <= {post.text for post in await sim.posts()}:
            await asyncio.sleep(0.02)
    return sorted(post.text for post in await sim.posts())


async def polling(sim: TelegramSimulator) -> None:
    async with asyncio.timeout(60):
        while not await sim.requests("getUpdates"):
            await asyncio.sleep(0.02)


@pytest.mark.parametrize("isolation", ["none", "process"])
async def test_people_are_answered_where_they_ask(
    sim: TelegramSimulator, tmp_path: Path, isolation: str
) -> None:
    async with ModelServer() as server:
        for place in ("the kitchen", "the topic", "private"):
            server.when(place, Say(f"hello in {place}"))
        whole = settings(sim, server)
        whole["platforms"]["telegram"]["isolation"] = isolation
        async with Program(tmp_path / "home", whole):
            await polling(sim)
            asked = await sim.says("kitchen", "ann", "this is the kitchen")
            await sim.tell("topic", chat="forum", thread=77, name="Soups")
            await sim.says("forum", "ann", "this is the topic", thread="77", forum=True)
            await sim.says("ann", "ann", "this is private", dm=True)
            await texts(sim, [f"hello in {place}" for place in ("the kitchen", "the topic", "private")])
            posts = {(p.chat, p.thread, p.text): p for p in await sim.posts()}
            assert set(posts) == {
                ("kitchen", None, "hello in the kitchen"),
                ("forum", "77", "hello in the topic"),
                ("ann", None, "hello in private"),
            }
            assert posts["kitchen", None, "hello in the kitchen"].reply_to == asked
            await sim.says("kitchen", "bob", f"/help@{sim.process.addresses['bot']}")
            (*_, last) = await answered(sim, 2, "kitchen")
            assert "/help" in last.text


async def test_A10_what_was_said_while_it_was_dead_is_answered_once(
    sim: TelegramSimulator, tmp_path: Path
) -> None:
    async with ModelServer() as server:
        for number in range(4):
            server.when(f"question {number}", Say(f"answer {number}"))
        async with Program(tmp_path / "home", settings(sim, server)) as program:
            await polling(sim)
            await sim.says("kitchen", "ann", "question 0")
            await texts(sim, ["answer 0"])
            await program.kill()
            await sim.says("kitchen", "ann", "question 1")
            await sim.says("garden", "bob", "question 2")
            await program.start()
            await texts(sim, ["answer 1", "answer 2"])
            await sim.says("kitchen", "ann", "question 3")
            assert await texts(sim, ["answer 3"]) == [f"answer {number}" for number in range(4)]


async def test_A09_R12_a_conflict_and_a_move_are_outlived(sim: TelegramSimulator, tmp_path: Path) -> None:
    async with ModelServer() as server:
        for number in range(2):
            server.when(f"question {number}", Say(f"answer {number}"))
        await sim.misbehaves("conflict", times=2)
        async with Program(tmp_path / "home", settings(sim, server)):
            await sim.says("old", "ann", "question 0", basic=True)
            await texts(sim, ["answer 0"])
            await sim.tell("migrates", chat="old", new="new", announce=False)
            await sim.says("old", "ann", "question 1")
            await texts(sim, ["answer 1"])
            assert {p.text: p.chat for p in await sim.posts()} == {"answer 0": "old", "answer 1": "new"}


@pytest.mark.parametrize("isolation", ["none", "process"])
async def test_X14_nothing_that_the_program_writes_holds_the_token(
    sim: TelegramSimulator, tmp_path: Path, isolation: str
) -> None:
    home = tmp_path / "home"
    async with ModelServer() as server:
        server.when("look", Say("I see a file"))
        whole = settings(sim, server)
        whole["platforms"]["telegram"]["isolation"] = isolation
        async with Program(home, whole) as program:
            await polling(sim)
            await sim.misbehaves("bad_gateway", times=2, method="getUpdates")
            await sim.misbehaves("bad_gateway", method="file")
            await sim.says("kitchen", "ann", "look", document={"name": "a.txt", "size": 1000})
            await sim.says("kitchen", "ann", "look", document={"name": "b.txt", "size": 1000})
            await answered(sim, 1)
            await sim.cuts()
            await sim.says("kitchen", "bob", "look")
            await answered(sim, 2)
            assert program.process is not None
            await program.terminate()
        requests = str([request.body for request in server.requests])
    secret = TOKEN.partition(":")[2][:24].encode()
    written = {path: path.read_bytes() for path in home.rglob("*") if path.is_file()}
    kept = [path.name for path, data in written.items() if secret in data and path.name != "callboard.yaml"]
    assert kept == []
    assert secret.decode() not in requests
    assert any(b"telegram" in data for path, data in written.items() if path.suffix in (".log", ".txt"))


async def test_the_doctor_looks_at_the_bot(sim: TelegramSimulator, tmp_path: Path) -> None:
    async with ModelServer() as server:
        program = Program(tmp_path / "home", settings(sim, server))
        code, out, err = await callboard(program.home, "doctor")
    assert "@callboard_sim_bot" in out, (code, out, err)
    assert TOKEN not in out + err


async def test_A12_A13_a_flooded_chat_waits_exactly_and_alone(sim: TelegramSimulator, tmp_path: Path) -> None:
    async with ModelServer() as server:
        for place in ("flooded", "other"):
            server.when(place, Say(f"hello {place}"))
        async with Program(tmp_path / "home", settings(sim, server)):
            await polling(sim)
            await sim.says("a", "ann", "hush", mention=False)
            await sim.misbehaves("flood", times=2, retry_after=2, method="sendMessage", chat="a")
            await sim.says("a", "ann", "flooded")
            chat = (await sim.state())["ids"]["a"]
            async with asyncio.timeout(60):
                while not [r for r in await sim.requests("sendMessage") if r["status"] == 429]:
                    await asyncio.sleep(0.02)
            await sim.says("b", "bob", "other")
            await texts(sim, ["hello other"])
            assert await texts(sim, ["hello flooded"]) == ["hello flooded", "hello other"]
            calls = [
                r
                for r in await sim.requests()
                if r["chat"] == chat and r["method"].startswith(("send", "edit"))
            ]
            first = next(n for n, call in enumerate(calls) if call["status"] == 429)
            times = [call["at"] for call in calls[first:]]
            assert [call["status"] for call in calls[first:]] == [429, 429, 200]
            assert all(later - earlier >= 1.95 for earlier, later in pairwise(times))
            b = (await sim.state())["ids"]["b"]
            other = next(
                r for r in await sim.requests("sendMessage") if r["chat"] == b and r["status"] == 200
            )
            assert other["at"] < times[-1]


async def test_C21_an_album_is_one_turn(sim: TelegramSimulator, tmp_path: Path) -> None:
    picture = "hex:89504e470d0a1a0a" + "00" * 20
    async with ModelServer() as server:
        server.when("what are these", Say("three pictures"))
        async with Program(tmp_path / "home", settings(sim, server)):
            await polling(sim)
            await sim.says("kitchen", "ann", "what are these?", photo=picture, album="9")
            for _ in range(2):
                await sim.says("kitchen", "ann", "", photo=picture, album="9")
            assert await texts(sim, ["three pictures"]) == ["three pictures"]
        assert len(server.requests) == 1
