"""What the Discord edge hands in, over the real wire."""

import asyncio
import base64
from pathlib import Path

import pytest

from actors.gateway.edge import EdgeError
from messages.blocks import FileBlock, ImageBlock, TextBlock
from messages.delivery import ProblemKind
from messages.gateway import Acceptance, ChatType, MessageDeleted, MessageEdited
from tests.platforms.discord.line import Wire
from tests.platforms.simulators.discord import DiscordSimulator

pytestmark = pytest.mark.slow

PNG = base64.b64encode(b"\x89PNG\r\n\x1a\n" + b"\0" * 100).decode()


async def test_a_message_in_a_channel(sim: DiscordSimulator, tmp_path: Path) -> None:
    async with Wire(sim, tmp_path) as wire:
        identity = await sim.says("lobby", "ann", "hello there", topic="soups")
        (heard,) = await wire.desk.messages()
    assert heard.text == "hello there"
    assert heard.message_id == identity
    assert heard.mentions_us
    assert heard.origin.chat_type is ChatType.GROUP
    assert heard.origin.chat == await sim.id_of("lobby")
    assert heard.origin.server == "200000000000000001"
    assert heard.author.name == "ann"
    assert not heard.author.bot
    assert (heard.surroundings.server, heard.surroundings.chat, heard.surroundings.topic) == (
        "Sim",
        "lobby",
        "soups",
    )
    assert heard.sent_at is not None


async def test_a_direct_message_and_a_thread(sim: DiscordSimulator, tmp_path: Path) -> None:
    async with Wire(sim, tmp_path) as wire:
        await sim.says("ann-dm", "ann", "privately", dm=True)
        await sim.says("lobby", "ann", "in a thread", thread="soups")
        await sim.says("lobby", "ann", "in one that slept", thread="asleep", hidden=True)
        direct, thread, asleep = await wire.desk.messages(3)
    lobby = await sim.id_of("lobby")
    assert direct.origin.chat_type is ChatType.DM
    assert (thread.origin.chat_type, thread.origin.chat, thread.origin.thread) == (
        ChatType.THREAD,
        lobby,
        await sim.id_of("soups"),
    )
    assert thread.surroundings.thread == "soups"
    assert (asleep.origin.chat, asleep.origin.thread) == (lobby, await sim.id_of("asleep"))


async def test_a_thread_under_a_message_of_ours_is_said_to_us(sim: DiscordSimulator, tmp_path: Path) -> None:
    async with Wire(sim, tmp_path) as wire:
        await sim.says("lobby", "ann", "will it rain?")
        await wire.desk.messages()
        ours = await wire.edge.say(wire.post(await sim.id_of("lobby"), "It will rain."))
        for text in ("and tomorrow?", "and then?"):
            await sim.says("lobby", "bob", text, mention=False, thread="weather", under=ours)
        _, first, second = await wire.desk.messages(3)
        looked_up = [r for r in await sim.requests() if r["method"] == "GET" and r["path"].endswith(ours)]
    assert first.origin.thread == ours
    assert first.quote is not None
    assert (first.quote.ours, first.quote.message_id, first.quote.text) == (True, ours, "It will rain.")
    assert second.quote == first.quote
    assert len(looked_up) == 1


async def test_who_is_asked_into_a_thread_hears_how_it_began(sim: DiscordSimulator, tmp_path: Path) -> None:
    boat = await sim.says("lobby", "ann", "shall we buy a boat?", mention=False)
    async with Wire(sim, tmp_path) as wire:
        await sim.says("lobby", "bob", "a red one", mention=False, thread="boats", under=boat)
        await sim.says("lobby", "bob", "what do you think?", thread="boats")
        await sim.says("lobby", "bob", "and of none?", thread="a thread under nothing")
        chatter, asked, alone = await wire.desk.messages(3)
    assert chatter.quote is None
    assert asked.quote is not None
    assert asked.quote.author is not None
    assert (asked.quote.ours, asked.quote.text) == (False, "shall we buy a boat?")
    assert asked.quote.author.id == await sim.id_of("ann")
    assert alone.quote is None


async def test_edits_and_deletions_of_people(sim: DiscordSimulator, tmp_path: Path) -> None:
    async with Wire(sim, tmp_path) as wire:
        identity = await sim.says("lobby", "ann", "helo https://example.org")
        await wire.desk.messages()
        await sim.control("previews", message=identity)
        await sim.control("edits", message=identity, text="hello")
        await sim.control("previews", message=identity)
        await sim.control("deletes", message=identity)
        await wire.desk.until(lambda: bool(wire.desk.of(MessageDeleted)))
    (edited,) = wire.desk.of(MessageEdited)
    assert (edited.message_id, edited.text) == (identity, "hello")
    assert wire.desk.of(MessageDeleted)[0].message_id == identity


async def test_ours_are_never_handed_in(sim: DiscordSimulator, tmp_path: Path) -> None:
    async with Wire(sim, tmp_path) as wire:
        await sim.says("lobby", "ann", "first")
        (first,) = await wire.desk.messages()
        place = first.origin.chat
        await wire.edge.say(wire.post(place, "ours", reply_to=first.message_id))
        await sim.says("lobby", "ann", "second")
        assert await wire.desk.texts(2) == ["first", "second"]
    assert len(wire.desk.heard) == 2


async def test_replies_quote(sim: DiscordSimulator, tmp_path: Path) -> None:
    async with Wire(sim, tmp_path) as wire:
        await sim.says("lobby", "ann", "first")
        (first,) = await wire.desk.messages()
        ours = await wire.edge.say(wire.post(first.origin.chat, "ours", reply_to=first.message_id))
        await sim.says("lobby", "bob", "and why?", mention=False, reply_to=ours)
        await sim.says("lobby", "bob", "indeed", mention=False, reply_to=first.message_id)
        _, to_us, to_ann = await wire.desk.messages(3)
    assert to_us.quote is not None
    assert (to_us.quote.ours, to_us.quote.text) == (True, "ours")
    assert not to_us.mentions_us  # the ping of a reply is no mention
    assert to_ann.quote is not None
    assert not to_ann.quote.ours
    assert to_ann.quote.author is not None
    assert to_ann.quote.author.name == "ann"


async def test_A19_attachments_become_our_own_copies(sim: DiscordSimulator, tmp_path: Path) -> None:
    files = tmp_path / "attachments"
    async with Wire(sim, files, fetch_bytes=1000) as wire:
        await sim.says(
            "lobby",
            "ann",
            "look",
            files=[
                {"name": "a.txt", "data": PNG, "content_type": "text/plain"},
                {"name": "../../b\u202egnp.exe", "data": "YWJj", "content_type": "text/plain; charset=utf-8"},
                {"name": "big.zip", "size": 40_000_000},
                {"name": "liar.bin", "size": 3, "data": base64.b64encode(b"x" * 2000).decode()},
                {"name": "gone.txt", "absent": True},
            ],
        )
        (heard,) = await wire.desk.messages()
    image, file, big, liar, gone = heard.attachments
    assert isinstance(image, ImageBlock)
    assert image.mime == "image/png"
    assert Path(image.path).read_bytes().startswith(b"\x89PNG")  # noqa: ASYNC240
    assert "http" not in image.path
    assert isinstance(file, FileBlock)
    assert (file.name, file.mime) == ("bgnp.exe", "text/plain")
    assert Path(file.path).parent == files
    assert Path(file.path).name != file.name
    assert isinstance(big, TextBlock)
    assert "big.zip, 40 MB: larger than the 1 kB" in big.text
    assert isinstance(liar, TextBlock)
    assert "larger" in liar.text
    assert isinstance(gone, TextBlock)
    assert "404" in gone.text
    assert files.stat().st_mode & 0o777 == 0o700
    assert len(list(files.iterdir())) == 2


async def test_A19_files_of_what_nobody_keeps_are_deleted(sim: DiscordSimulator, tmp_path: Path) -> None:
    async with Wire(sim, tmp_path / "files") as wire:
        wire.desk.acceptance = Acceptance.OVERHEARD
        await sim.says("lobby", "ann", "look", mention=False, files=[{"name": "a.txt", "data": "YWJj"}])
        await wire.desk.messages()
        async with asyncio.timeout(20):
            while list((tmp_path / "files").iterdir()):
                await wire.edge.probe()


async def test_a_slow_attachment_keeps_the_order(sim: DiscordSimulator, tmp_path: Path) -> None:
    async with Wire(sim, tmp_path / "files") as wire:
        await sim.misbehaves("slow_file")
        await sim.says("lobby", "ann", "with a file", files=[{"name": "a.txt", "data": "YWJj"}])
        await sim.says("lobby", "ann", "after it")
        await sim.says("kitchen", "bob", "elsewhere")
        assert await wire.desk.texts() == ["elsewhere"]
        await sim.releases()
        assert await wire.desk.texts(3) == ["elsewhere", "with a file", "after it"]


@pytest.mark.parametrize("native", [True, False])
async def test_stop_waits_for_no_file(sim: DiscordSimulator, tmp_path: Path, native: bool) -> None:
    async with Wire(sim, tmp_path / "files") as wire:
        await sim.misbehaves("slow_file")
        await sim.says("lobby", "ann", "with a file", files=[{"name": "a.txt", "data": "YWJj"}])
        await sim.says("kitchen", "bob", "elsewhere")
        assert await wire.desk.texts() == ["elsewhere"]
        if native:
            await sim.control("asks", chat="lobby", user="ann", name="stop")
        else:
            await sim.says("lobby", "ann", "/stop")
        _, slow, stop = await wire.desk.messages(3)
        assert (slow.text, stop.text) == ("with a file", "/stop")
        (block,) = slow.attachments
        assert isinstance(block, TextBlock)
        assert block.text == "[file a.txt, 3 bytes: not waited for, because somebody said stop]"


async def test_a_file_that_breaks_off_is_told(sim: DiscordSimulator, tmp_path: Path) -> None:
    async with Wire(sim, tmp_path / "files") as wire:
        await sim.misbehaves("cut_file")
        data = base64.b64encode(b"x" * 500_000).decode()
        await sim.says("lobby", "ann", "with a file", files=[{"name": "a.txt", "data": data}])
        (heard,) = await wire.desk.messages()
    (block,) = heard.attachments
    assert isinstance(block, TextBlock)
    assert block.text.startswith("[file a.txt, 500 kB: it could not be fetched")
    assert list((tmp_path / "files").iterdir()) == []


async def test_a_message_that_was_not_taken_is_handed_in_again(sim: DiscordSimulator, tmp_path: Path) -> None:
    async with Wire(sim, tmp_path) as wire:
        wire.desk.fails = [EdgeError(ProblemKind.TRANSIENT, "the journal is busy")]
        await sim.says("lobby", "ann", "hello")
        assert await wire.desk.texts() == ["hello"]


async def test_A02_a_slow_desk_misses_no_heartbeat(sim: DiscordSimulator, tmp_path: Path) -> None:
    await sim.control("heartbeat", milliseconds=100)
    async with Wire(sim, tmp_path) as wire:
        wire.desk.held = asyncio.Event()
        for number in range(50):
            await sim.says("lobby", "ann", f"m{number}")
        await wire.desk.messages(50)
        before = sum(each["op"] == 1 for each in await sim.heard())
        async with asyncio.timeout(20):
            while sum(each["op"] == 1 for each in await sim.heard()) < before + 10:
                await wire.edge.probe()
        wire.desk.held.set()
    opened = [each for each in await sim.heard() if each["op"] == "connected"]
    assert len(opened) == 1
    assert wire.connections == 1


async def test_a_channel_that_cannot_be_looked_up_is_asked_for_once(
    sim: DiscordSimulator, tmp_path: Path
) -> None:
    async with Wire(sim, tmp_path) as wire:
        await sim.says("lobby", "ann", "hi", thread="asleep", hidden=True, mention=False)
        await wire.desk.messages(1)
        await sim.says("lobby", "ann", "hi", thread="secret", hidden=True, mention=False)
        await wire.desk.messages(2)
        await sim.says("lobby", "ann", "hi", thread="other", hidden=True, mention=False)
        await wire.desk.messages(3)
        assert await _channels_asked_for(sim) == 3
        await sim.misbehaves("refuses", times=9, method="GET", path="/channels/", status=403, code=50001)
        for number in range(4):
            await sim.says("lobby", "ann", f"m{number}", thread="hidden", hidden=True)
        await wire.desk.messages(7)
        assert await _channels_asked_for(sim) == 4


async def _channels_asked_for(sim: DiscordSimulator) -> int:
    asked = [r["path"] for r in await sim.requests() if r["method"] == "GET" and "/channels/" in r["path"]]
    return sum("/messages" not in path for path in asked)
