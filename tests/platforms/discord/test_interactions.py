"""Native commands and buttons: acknowledged in time, answered through the interaction while it lasts."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from messages.delivery import DraftShown, Place
from messages.gateway import Acceptance, Button
from tests.fakes.clock import ManualClock
from tests.platforms.discord.line import COMMANDS, Wire
from tests.platforms.simulators.discord import DiscordSimulator

pytestmark = pytest.mark.slow


async def until(sim: DiscordSimulator, key: str, value: Any) -> None:
    async with asyncio.timeout(20):
        while (await sim.state())[key] != value:
            await asyncio.sleep(0)


async def asked(sim: DiscordSimulator, wire: Wire, **more: Any) -> tuple[str, str]:
    """Give a command; return the ids of the channel and of the interaction."""
    what = {"chat": "lobby", "user": "ann", "name": "help", **more}
    identity = (await sim.control("asks", **what))["id"]
    await wire.desk.until(lambda: any(getattr(m, "message_id", "") == identity for m in wire.desk.heard))
    return await sim.id_of(what["chat"]), identity


def paths(requests: list[dict[str, Any]], method: str, end: str) -> int:
    return sum(r["method"] == method and r["path"].endswith(end) for r in requests)


async def test_A16_a_command_is_acknowledged_and_its_answer_edits_the_placeholder(
    sim: DiscordSimulator, tmp_path: Path
) -> None:
    async with Wire(sim, tmp_path) as wire:
        wire.desk.held = asyncio.Event()  # the journal is slow: the acknowledgement does not wait for it
        chat, identity = await asked(sim, wire, text="the rest of it")
        await until(sim, "pending", 1)
        wire.desk.held.set()
        await sim.control("later", seconds=12)
        receipt = await wire.edge.say(wire.post(chat, "an answer", reply_to=identity))
        (post,) = await sim.posts("lobby")
        assert (post.id, post.text, post.reply_to) == (receipt, "an answer", identity)
        await wire.edge.say(wire.post(chat, "its second part", part=2, of=2))
        assert [post.text for post in await sim.posts("lobby")] == ["an answer", "its second part"]
    (heard,) = wire.desk.heard
    assert getattr(heard, "text", "") == "/help the rest of it"
    assert getattr(heard, "via", "") == "command"
    assert paths(await sim.requests(), "PATCH", "/messages/@original") == 1


async def test_A16_an_expired_token_makes_a_normal_post(sim: DiscordSimulator, tmp_path: Path) -> None:
    async with Wire(sim, tmp_path) as wire:
        chat, identity = await asked(sim, wire)
        await until(sim, "pending", 1)
        await sim.control("later", seconds=16 * 60)  # on the service's clock alone
        receipt = await wire.edge.say(wire.post(chat, "late", reply_to=identity))
        (post,) = await sim.posts("lobby")
        assert (post.id, post.text, post.reply_to) == (receipt, "late", None)


async def test_A16_our_own_clock_knows_it_too_and_the_placeholder_goes(
    sim: DiscordSimulator, tmp_path: Path
) -> None:
    clock = ManualClock()
    async with Wire(sim, tmp_path, clock=clock) as wire:
        chat, identity = await asked(sim, wire)
        await until(sim, "pending", 1)
        await clock.advance(14 * 60)
        await until(sim, "pending", 0)
        await clock.advance(2 * 60)
        await wire.edge.say(wire.post(chat, "late", reply_to=identity))
        assert [post.text for post in await sim.posts("lobby")] == ["late"]
    assert paths(await sim.requests(), "PATCH", "/messages/@original") == 0


async def test_A16_unknown_interaction_is_never_tried_again(sim: DiscordSimulator, tmp_path: Path) -> None:
    async with Wire(sim, tmp_path) as wire:
        await sim.misbehaves("refuses", path="/callback", status=404, code=10062)
        chat, identity = await asked(sim, wire)
        await wire.edge.say(wire.post(chat, "an answer", reply_to=identity))
        assert [post.text for post in await sim.posts("lobby")] == ["an answer"]
        requests = await sim.requests()
        assert paths(requests, "POST", "/callback") == 1
        assert paths(requests, "PATCH", "/messages/@original") == 0


async def test_A16_an_answer_is_not_doubled_when_nobody_knows(sim: DiscordSimulator, tmp_path: Path) -> None:
    async with Wire(sim, tmp_path) as wire:
        chat, identity = await asked(sim, wire)
        post = wire.post(chat, "an answer", reply_to=identity, attempt=2)
        await until(sim, "pending", 1)
        first = await wire.edge.say(post.model_copy(update={"attempt": 1}))
        async with Wire(sim, tmp_path) as other:  # another life, that does not know the interaction
            assert await other.edge.say(post) == first
        assert len(await sim.posts("lobby")) == 1


async def test_a_draft_fills_the_placeholder(sim: DiscordSimulator, tmp_path: Path) -> None:
    async with Wire(sim, tmp_path) as wire:
        chat, identity = await asked(sim, wire)
        draft = await wire.edge.show(DraftShown(place=Place(chat=chat), text="Well", reply_to=identity))
        await wire.edge.say(wire.post(chat, "Well, so be it", reply_to=identity, draft=draft))
        (post,) = await sim.posts("lobby")
        assert (post.id, post.text) == (draft, "Well, so be it")


async def test_a_pressed_button_is_a_command(sim: DiscordSimulator, tmp_path: Path) -> None:
    async with Wire(sim, tmp_path) as wire:
        await sim.says("lobby", "ann", "hi")
        await wire.desk.messages()
        chat = await sim.id_of("lobby")
        button = Button(label="Stop", command="/stop")
        message = await wire.edge.say(wire.post(chat, "working", buttons=(button,)))
        identity = (await sim.control("presses", user="bob", message=message, label="Stop"))["id"]
        _, heard = await wire.desk.messages(2)
        assert (heard.text, heard.via, heard.message_id) == ("/stop", "button", identity)
        assert heard.author.name == "bob"
        await wire.edge.say(wire.post(chat, "stopped", reply_to=identity))
        working, stopped = await sim.posts("lobby")
        assert (working.text, stopped.text, stopped.reply_to) == ("working", "stopped", identity)


async def test_a_command_that_is_refused_says_why(sim: DiscordSimulator, tmp_path: Path) -> None:
    async with Wire(sim, tmp_path) as wire:
        wire.desk.acceptance, wire.desk.why = Acceptance.REFUSED, "You may not do that. @everyone"
        await asked(sim, wire)
        async with asyncio.timeout(20):
            while not (posts := await sim.posts("lobby")):
                await asyncio.sleep(0)
    assert posts[0].text.startswith("You may not do that.")


async def test_a_command_that_nobody_heeds_leaves_no_placeholder(
    sim: DiscordSimulator, tmp_path: Path
) -> None:
    async with Wire(sim, tmp_path) as wire:
        wire.desk.acceptance = Acceptance.OVERHEARD
        await asked(sim, wire)
        async with asyncio.timeout(20):
            while not paths(await sim.requests(), "DELETE", "/messages/@original"):
                await asyncio.sleep(0)
        assert (await sim.state())["pending"] == 0


async def test_the_menu_is_written_when_it_differs(sim: DiscordSimulator, tmp_path: Path) -> None:
    async with Wire(sim, tmp_path, commands=COMMANDS):
        async with asyncio.timeout(20):
            while len((await sim.state())["commands"]) != len(COMMANDS):
                await asyncio.sleep(0)
    written = {command["name"]: command for command in (await sim.state())["commands"]}
    assert written["help"]["options"][0]["required"] is False
    assert [choice["value"] for choice in written["busy"]["options"][0]["choices"]] == ["interrupt", "queue"]
    async with Wire(sim, tmp_path, commands=COMMANDS):
        async with asyncio.timeout(20):
            while paths(await sim.requests(), "GET", "/commands") < 2:
                await asyncio.sleep(0)
        await sim.says("lobby", "ann", "hi")
    assert paths(await sim.requests(), "PUT", "/commands") == 1
