"""How the Discord edge connects, comes back, and says why it cannot."""

import asyncio
from datetime import UTC, datetime
from pathlib import Path

import pytest

from actors.gateway.edge import EdgeError, LastHeard
from messages.delivery import ProblemKind
from tests.platforms.discord.line import Wire
from tests.platforms.simulators.discord import DiscordSimulator

pytestmark = pytest.mark.slow


async def ops(sim: DiscordSimulator, op: int) -> int:
    return sum(each["op"] == op for each in await sim.heard())


async def connections(sim: DiscordSimulator) -> int:
    return sum(each["op"] == "connected" for each in await sim.heard())


@pytest.mark.parametrize(
    ("code", "words"),
    [
        (4004, "Reset Token"),
        (4010, "shard"),
        (4011, "2,500 servers"),
        (4012, "update discord.py"),
        (4013, "intents"),
        (4014, "Message Content Intent"),
    ],
)
async def test_A01_fatal_codes_end_it_and_say_what_to_do(
    sim: DiscordSimulator, tmp_path: Path, code: int, words: str
) -> None:
    wire = Wire(sim, tmp_path)
    await sim.misbehaves("close_on_identify", code=code)
    wire.start()
    error = await wire.ended()
    assert error.problem.kind is ProblemKind.NEEDS_HUMAN
    assert words in error.problem.detail
    assert await connections(sim) == 1


async def test_A01_a_fatal_code_later_on_ends_it_too(sim: DiscordSimulator, tmp_path: Path) -> None:
    async with Wire(sim, tmp_path) as wire:
        await sim.misbehaves("close", code=4004)
        error = await wire.ended()
        assert error.problem.kind is ProblemKind.NEEDS_HUMAN
        with pytest.raises(EdgeError) as said:
            await wire.edge.say(wire.post("1", "hello"))
        assert said.value.problem.kind is ProblemKind.NOT_CONNECTED
    assert await connections(sim) == 1


async def test_A01_a_bad_token_is_said_before_anything_is_connected(
    sim: DiscordSimulator, tmp_path: Path
) -> None:
    wire = Wire(sim, tmp_path, token="wrong")
    wire.start()
    error = await wire.ended()
    assert error.problem.kind is ProblemKind.NEEDS_HUMAN
    assert "wrong" not in error.problem.detail
    assert await connections(sim) == 0


async def test_A01_a_missing_intent_names_the_switch(sim: DiscordSimulator, tmp_path: Path) -> None:
    await sim.misbehaves("no_intent")
    wire = Wire(sim, tmp_path)
    wire.start()
    error = await wire.ended()
    assert "Privileged Gateway Intents" in error.problem.detail
    async with Wire(sim, tmp_path, message_content=False) as modest:
        await sim.says("lobby", "ann", "not to you", mention=False)
        await sim.says("lobby", "ann", "to you")
        assert await modest.desk.texts() == ["to you"]


@pytest.mark.parametrize("code", [1000, 1001, 4000, 4001, 4005, 4008, 4242])
async def test_A01_other_codes_resume(sim: DiscordSimulator, tmp_path: Path, code: int) -> None:
    async with Wire(sim, tmp_path) as wire:
        await sim.misbehaves("close", code=code)
        await sim.says("lobby", "ann", "meanwhile")
        await wire.connected(2)
        assert await wire.desk.texts() == ["meanwhile"]
    assert await ops(sim, 2) == 1
    assert await ops(sim, 6) == 1


async def test_A01_a_cut_line_resumes(sim: DiscordSimulator, tmp_path: Path) -> None:
    async with Wire(sim, tmp_path) as wire:
        for number in range(3):
            await sim.cuts()
            await sim.says("lobby", "ann", f"m{number}")
            await wire.connected(number + 2)
        assert await wire.desk.texts(3) == ["m0", "m1", "m2"]
    assert await ops(sim, 2) == 1


@pytest.mark.parametrize("code", [4003, 4007, 4009])
async def test_A01_a_session_that_is_over_begins_anew(
    sim: DiscordSimulator, tmp_path: Path, code: int
) -> None:
    async with Wire(sim, tmp_path) as wire:
        await sim.misbehaves("close", code=code)
        await wire.connected(2)
        await sim.says("lobby", "ann", "again")
        assert await wire.desk.texts() == ["again"]
    assert await ops(sim, 2) == 2
    assert await ops(sim, 6) == 0


async def test_the_service_asks_to_reconnect(sim: DiscordSimulator, tmp_path: Path) -> None:
    async with Wire(sim, tmp_path) as wire:
        await sim.misbehaves("reconnect")
        await wire.connected(2)
        assert wire.troubles == ["", ""]
    assert await ops(sim, 6) == 1


async def test_A24_a_session_that_cannot_resume_fetches_what_was_missed(
    sim: DiscordSimulator, tmp_path: Path
) -> None:
    async with Wire(sim, tmp_path) as wire:
        await sim.says("lobby", "ann", "before")
        await wire.desk.messages()
        await sim.misbehaves("forgets")
        await sim.cuts()
        for number in range(3):
            await sim.says("lobby", "ann", f"missed {number}")
        await sim.says("kitchen", "bob", "missed in a new channel")
        await sim.says("ann-dm", "ann", "missed in private", dm=True)
        await wire.connected(2)
        texts = await wire.desk.texts(5)
    assert texts[0] == "before"
    assert [text for text in texts if text.startswith("missed ") and text[-1].isdigit()] == [
        "missed 0",
        "missed 1",
        "missed 2",
    ]
    assert "missed in a new channel" in texts
    assert await ops(sim, 2) == 2


async def test_A24_the_first_session_fetches_what_was_missed(sim: DiscordSimulator, tmp_path: Path) -> None:
    first = await sim.says("lobby", "ann", "answered long ago")
    direct = await sim.says("ann-dm", "ann", "answered in private", dm=True)
    thread = await sim.says("lobby", "ann", "in a thread", thread="asleep", hidden=True)
    await sim.says("lobby", "ann", "missed 1")
    await sim.says("ann-dm", "ann", "missed 2", dm=True)
    await sim.says("lobby", "ann", "missed 3", thread="asleep", mention=False)
    await sim.says("lobby", "ann", "missed 4")
    lobby, private, asleep = [await sim.id_of(name) for name in ("lobby", "ann-dm", "asleep")]
    marks = {
        lobby: LastHeard(message_id=first, at=datetime.now(UTC)),
        private: LastHeard(message_id=direct, at=datetime.now(UTC)),
        f"{lobby}:{asleep}": LastHeard(message_id=thread, at=datetime.now(UTC)),
        "987": LastHeard(message_id="12345", at=datetime.now(UTC)),
    }
    async with Wire(sim, tmp_path, last_heard=marks) as wire:
        heard = await wire.desk.messages(4)
        await sim.says("lobby", "ann", "live")
        await wire.desk.messages(5)
    assert sorted(message.text for message in heard[:4]) == ["missed 1", "missed 2", "missed 3", "missed 4"]
    in_thread = next(message for message in heard if message.text == "missed 3")
    assert (in_thread.origin.chat, in_thread.origin.thread, in_thread.origin.server) == (
        lobby,
        asleep,
        "200000000000000001",
    )
    in_lobby = [message.text for message in wire.desk.of(type(in_thread)) if message.origin.chat == lobby]
    assert [text for text in in_lobby if text != "missed 3"] == ["missed 1", "missed 4", "live"]


async def test_A24_only_so_much_is_fetched(sim: DiscordSimulator, tmp_path: Path) -> None:
    first = await sim.says("lobby", "ann", "first")
    for number in range(130):
        await sim.says("lobby", "ann", f"m{number}", mention=False)
    marks = {await sim.id_of("lobby"): LastHeard(message_id=first, at=datetime.now(UTC))}
    async with Wire(sim, tmp_path, last_heard=marks, history=120) as wire:
        texts = await wire.desk.texts(120)
        await sim.says("lobby", "ann", "live")
        assert (await wire.desk.texts(121))[-1] == "live"
    assert texts == [f"m{number}" for number in range(120)]


async def test_A24_what_is_replayed_is_handed_in_once(sim: DiscordSimulator, tmp_path: Path) -> None:
    async with Wire(sim, tmp_path) as wire:
        await sim.says("lobby", "ann", "41")
        (heard,) = await wire.desk.messages()
        lobby = heard.origin.chat
        again = {
            "id": heard.message_id,
            "channel_id": lobby,
            "guild_id": heard.origin.server,
            "content": "41",
        }
        author = {"id": heard.author.id, "username": "ann"}
        await sim.control("raw", name="MESSAGE_CREATE", data={**again, "author": author})
        await sim.says("lobby", "ann", "42")
        assert await wire.desk.texts(2) == ["41", "42"]


async def test_A24_a_new_session_begins_after_a_second_to_five(sim: DiscordSimulator, tmp_path: Path) -> None:
    async with Wire(sim, tmp_path, chance=0.0) as wire:
        await sim.misbehaves("invalid_session", resumable=False)
        began = asyncio.get_running_loop().time()
        await sim.misbehaves("close", code=4000)
        await wire.connected(2)
        assert asyncio.get_running_loop().time() - began >= 1.0
    assert await ops(sim, 2) == 2


async def test_A24_a_resumable_one_resumes(sim: DiscordSimulator, tmp_path: Path) -> None:
    async with Wire(sim, tmp_path) as wire:
        await sim.misbehaves("invalid_session", resumable=True)
        await sim.misbehaves("close", code=4000)
        await wire.connected(2)
    assert await ops(sim, 2) == 1
    assert await ops(sim, 6) == 2


async def test_the_first_identify_may_come_too_early(sim: DiscordSimulator, tmp_path: Path) -> None:
    await sim.misbehaves("invalid_session", resumable=False)
    async with Wire(sim, tmp_path):
        assert await ops(sim, 2) == 2


async def test_no_session_is_left_today(sim: DiscordSimulator, tmp_path: Path) -> None:
    await sim.misbehaves("no_sessions_left")
    wire = Wire(sim, tmp_path)
    wire.start()
    error = await wire.ended()
    assert error.problem.kind is ProblemKind.RATE_LIMITED
    assert error.problem.retry_after_s == 7200
    assert await connections(sim) == 0


async def test_a_probe_passes_and_finds_a_deaf_line(sim: DiscordSimulator, tmp_path: Path) -> None:
    async with Wire(sim, tmp_path) as wire:
        async with asyncio.timeout(20):
            while True:
                await wire.edge.probe()
                if wire.edge._live is not None and wire.edge._live.listener.places.guilds:
                    break
        await wire.edge.probe()
        await sim.misbehaves("deaf")
        with pytest.raises(EdgeError, match="answers nothing"):
            await wire.edge.probe()


async def test_a_line_without_an_echo_is_cut(sim: DiscordSimulator, tmp_path: Path) -> None:
    await sim.control("heartbeat", milliseconds=200)
    async with Wire(sim, tmp_path) as wire:
        await sim.misbehaves("no_echo")
        async with asyncio.timeout(20):
            while await connections(sim) < 2:
                await sim.says("lobby", "ann", "events still come")
        await sim.misbehaves("no_echo", times=0)
        await wire.connected(2)


async def test_frames_that_cannot_be_read(sim: DiscordSimulator, tmp_path: Path) -> None:
    async with Wire(sim, tmp_path) as wire:
        await sim.misbehaves("garbage_frame")
        await sim.says("lobby", "ann", "hello")
        await wire.connected(2)
        assert await wire.desk.texts() == ["hello"]


async def test_the_service_turns_connections_away_for_a_while(sim: DiscordSimulator, tmp_path: Path) -> None:
    async with Wire(sim, tmp_path) as wire:
        await sim.misbehaves("turns_away", times=2)
        await sim.cuts()
        await wire.connected(2)
        assert any(trouble.startswith("reconnecting") for trouble in wire.troubles)
        assert wire.troubles[-1] == ""


async def test_a_service_that_cannot_be_reached_is_transient(sim: DiscordSimulator, tmp_path: Path) -> None:
    wire = Wire(sim, tmp_path, api="http://127.0.0.1:9/api/v10")
    wire.start()
    assert (await wire.ended()).problem.kind is ProblemKind.TRANSIENT


async def test_a_cancel_ends_it_at_once(sim: DiscordSimulator, tmp_path: Path) -> None:
    async with Wire(sim, tmp_path) as wire:
        wire.desk.held = asyncio.Event()
        await sim.says("lobby", "ann", "hello")
        await wire.desk.messages()
        began = asyncio.get_running_loop().time()
        await wire.stop()
        assert asyncio.get_running_loop().time() - began < 2
    await sim.misbehaves("silent")
    async with Wire(sim, tmp_path) as silent:
        await sim.misbehaves("silent")
        await silent.stop()
