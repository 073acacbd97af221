"""A bad day: people write while lines are cut and sessions lost; each message is heard once, in order."""

import asyncio
import random
from collections import defaultdict
from pathlib import Path

import pytest

from tests.platforms.discord.line import Wire
from tests.platforms.simulators.discord import DiscordSimulator

pytestmark = pytest.mark.slow

WAYS = ("cut", "close", "op7", "garbage", "turned away", "lost")


async def trouble(sim: DiscordSimulator, way: str) -> None:
    match way:
        case "cut":
            await sim.cuts()
        case "close":
            await sim.misbehaves("close", code=4000)
        case "op7":
            await sim.misbehaves("reconnect")
        case "garbage":
            await sim.misbehaves("garbage_frame")
        case "turned away":
            await sim.misbehaves("turns_away", times=1)
            await sim.cuts()
        case _:
            await sim.misbehaves("forgets")
            await sim.cuts()


@pytest.mark.parametrize("seed", [1, 2, 3])
async def test_every_message_is_heard_once_and_in_order(
    sim: DiscordSimulator, tmp_path: Path, seed: int
) -> None:
    chance = random.Random(seed)
    said: dict[str, list[str]] = defaultdict(list)
    async with Wire(sim, tmp_path, chance=0.0) as wire:
        for chat in ("a", "b", "c"):  # a channel in which nothing was ever heard has no place to go on from
            said[chat].append(await sim.says(chat, "ann", "first"))
        said["dm"].append(await sim.says("dm", "ann", "first", dm=True))
        await wire.desk.messages(4)
        for number in range(60):
            if number % 12 == 5:
                await trouble(sim, chance.choice(WAYS))
            chat = chance.choice(["a", "b", "c", "dm"])
            thread = "t" if chat == "c" and number % 2 else None
            place = thread or chat
            identity = await sim.says(chat, "ann", f"m{number}", dm=chat == "dm", thread=thread)
            said[place].append(identity)
            await asyncio.sleep(0.02)
        total = sum(map(len, said.values()))
        heard = await wire.desk.messages(total)
    by_place: dict[str, list[str]] = defaultdict(list)
    names = {await sim.id_of(name): name for name in said}
    for message in heard:
        by_place[names[message.origin.thread or message.origin.chat or ""]].append(message.message_id)
    assert by_place == said
