"""Albums, and files both ways."""

import asyncio
from functools import partial
from pathlib import Path

import pytest

from messages.blocks import FileBlock, ImageBlock, TextBlock
from messages.delivery import (
    ProblemKind,
)
from messages.gateway import Button
from tests.fakes.clock import ManualClock
from tests.platforms.simulators.telegram import TelegramSimulator
from tests.platforms.simulators.telegram_world import TOKEN
from tests.platforms.telegram.stage import (
    JPEG,
    PNG,
    Line,
    files_asked_for,
    post,
    problem_of,
    turned,
    until,
)

pytestmark = pytest.mark.slow


async def test_C21_an_album_is_one_message_however_long_its_pictures_take(
    sim: TelegramSimulator, tmp_path: Path, clock: ManualClock
) -> None:
    await sim.misbehaves("slow_file", times=2)
    await sim.says("kitchen", "ann", "what are these?", photo=PNG, album="9")
    for _ in range(2):
        await sim.says("kitchen", "ann", "", photo=JPEG, album="9")
    async with Line(sim, tmp_path, clock) as line:
        await until(lambda: files_asked_for(line, 3))
        await clock.advance(11)
        assert line.heard == []  # complete, but two pictures are not here
        await sim.tell("releases")
        (heard,) = await line.hears_messages(1)
        mimes = [block.mime for block in heard.attachments if isinstance(block, ImageBlock)]
        assert (heard.text, heard.message_id) == ("what are these?", "1")
        assert mimes == ["image/png", "image/jpeg", "image/jpeg"]
        await turned(clock, 60, line.nothing_pending)
        assert len(line.heard) == 1


async def test_C21_a_picture_that_never_comes_is_said_to_be_missing(
    sim: TelegramSimulator, tmp_path: Path, clock: ManualClock
) -> None:
    await sim.misbehaves("slow_file")
    await sim.says("kitchen", "ann", "look", photo=PNG, album="9")
    await sim.says("kitchen", "ann", "", photo=PNG, album="9")
    async with Line(sim, tmp_path, clock) as line:
        await until(lambda: files_asked_for(line, 2))
        await until(lambda: any(path.stat().st_size for path in (line.folder / "attachments").iterdir()))
        await turned(clock, 30, lambda: line.heard)
        (heard,) = await line.hears_messages(1)
        missing = TextBlock(text="[image missing: it did not arrive within 20 seconds]")
        assert sorted(type(block).__name__ for block in heard.attachments) == ["ImageBlock", "TextBlock"]
        assert missing in heard.attachments
        await turned(clock, 60, line.nothing_pending)
        await sim.tell("behaves")


async def test_C21_albums_of_two_people_are_two_messages(
    sim: TelegramSimulator, tmp_path: Path, clock: ManualClock
) -> None:
    for piece in range(2):
        await sim.says("kitchen", "ann", "hers" if piece == 1 else "", photo=PNG, album="9")
        await sim.says("kitchen", "bob", "his" if piece == 0 else "", photo=PNG, album="10")
    async with Line(sim, tmp_path, clock) as line:
        await until(lambda: files_asked_for(line, 4))
        await turned(clock, 30, lambda: len(line.heard) == 2)
        found = sorted(await line.hears_messages(2), key=lambda m: m.text)
        assert [(m.text, len(m.attachments), m.author.name) for m in found] == [
            ("hers", 2, "ann"),
            ("his", 2, "bob"),
        ]


async def test_C21_whoever_goes_on_talking_has_sent_the_whole_album(
    sim: TelegramSimulator, tmp_path: Path, clock: ManualClock
) -> None:
    for _ in range(2):
        await sim.says("kitchen", "ann", "", photo=PNG, album="9")
    await sim.says("kitchen", "ann", "and?")
    async with Line(sim, tmp_path, clock) as line:
        heard = await line.hears_messages(2)  # the clock stands still
        assert [(m.text, len(m.attachments)) for m in heard] == [("", 2), ("and?", 0)]


async def test_C21_pieces_that_come_one_by_one_are_one_message(line: Line) -> None:
    for _ in range(4):
        await line.sim.says("kitchen", "ann", "", photo=PNG, album="9")
        await asyncio.sleep(0.05)
    (heard,) = await line.hears_messages(1)
    assert len(heard.attachments) == 4
    await line.confirmed()


async def test_a_slow_file_holds_up_its_chat_alone_and_never_a_stop(line: Line) -> None:
    await line.sim.misbehaves("slow_file")
    await line.sim.says(
        "kitchen", "ann", "read this", document={"name": "a.txt", "text": "hi", "mime": "text/plain"}
    )
    await line.sim.says("kitchen", "ann", "well?")
    await line.sim.says("garden", "bob", "hello")
    await line.sim.says("kitchen", "ann", "/stop")
    assert sorted(m.text for m in await line.hears_messages(2)) == ["/stop", "hello"]
    await line.sim.tell("releases")
    assert [m.text for m in (await line.hears_messages(4))[2:]] == ["read this", "well?"]
    await line.confirmed()


async def test_D10_a_file_that_is_too_large_is_not_fetched_and_the_message_goes_on(line: Line) -> None:
    name = "../../x\u202egnp.exe"
    await line.sim.says(
        "kitchen", "ann", "run it", document={"name": name, "size": 20_000_001, "mime": "a/b"}
    )
    (heard,) = await line.hears_messages(1)
    (block,) = heard.attachments
    assert block == TextBlock(
        text="[file xgnp.exe, 20.000001 MB: larger than the 20 MB that can be fetched here]"
    )
    assert heard.text == "run it"
    assert await line.requests("getFile") == []
    await line.sim.says("kitchen", "ann", "this then", document={"name": "b.bin", "size": 20_000_000})
    (fits,) = (await line.hears_messages(2))[1].attachments
    assert isinstance(fits, FileBlock)
    kept = Path(fits.path).stat()  # noqa: ASYNC240
    assert (fits.size, kept.st_size, fits.name) == (20_000_000, 20_000_000, "b.bin")
    assert (line.folder / "attachments").stat().st_mode & 0o777 == 0o700
    assert Path(fits.path).name != "b.bin"


@pytest.mark.parametrize("how", ["cut_file", "bad_gateway", "drop"])
async def test_D10_a_download_that_fails_leaves_a_word_and_nothing_else(line: Line, how: str) -> None:
    await line.sim.misbehaves(how, method="file")
    await line.sim.says("kitchen", "ann", "see", document={"name": "c.pdf", "size": 500_000})
    (heard,) = await line.hears_messages(1)
    (block,) = heard.attachments
    assert isinstance(block, TextBlock)
    assert block.text.startswith("[file c.pdf, 500.0 kB: the file could not be fetched")
    assert TOKEN not in block.text
    assert list((line.folder / "attachments").iterdir()) == []


async def test_D10_a_file_of_ours_over_the_limit_is_not_tried(line: Line, tmp_path: Path) -> None:
    await line.sim.says("kitchen", "ann", "send it")
    (heard,) = await line.hears_messages(1)
    chat, large = heard.origin.chat or "", tmp_path / "large.bin"
    with large.open("wb") as file:
        file.truncate(50_000_001)
    block = FileBlock(name="large.bin", mime="a/b", path=str(large), size=50_000_001)
    problem = await problem_of(line.edge.say(post(chat, "here", file=block)))
    assert problem.kind is ProblemKind.REFUSED
    assert "large.bin has 50.000001 MB; Telegram takes at most 50 MB" in problem.detail
    assert await line.requests("sendDocument") == []


async def test_D10_all_of_a_long_caption_arrives(line: Line, tmp_path: Path) -> None:
    await line.sim.says("kitchen", "ann", "send it")
    (heard,) = await line.hears_messages(1)
    chat, small = heard.origin.chat or "", tmp_path / "small.txt"
    small.write_text("hi")
    block = FileBlock(name="../sma\u202ell.txt", mime="text/plain", path=str(small), size=2)
    text = "x" * 1025
    button = Button(label="Stop", command="/stop")
    await line.edge.say(post(chat, text, file=block, buttons=(button,)))
    first, second = await line.sim.posts("kitchen")
    assert (first.files, len(first.text), first.text + second.text) == (("small.txt",), 1024, text)
    assert (first.buttons, second.buttons) == ((), ("Stop",))


async def test_D10_a_long_caption_that_breaks_off_goes_on_where_it_was(line: Line, tmp_path: Path) -> None:
    await line.sim.says("kitchen", "ann", "send it")
    (heard,) = await line.hears_messages(1)
    chat, small = heard.origin.chat or "", tmp_path / "small.txt"
    small.write_text("hi")
    whole = post(chat, "y" * 1500, file=FileBlock(name="s.txt", mime="text/plain", path=str(small), size=2))
    await line.sim.misbehaves("flood", method="sendMessage", retry_after=0.2)
    assert (await problem_of(line.edge.say(whole))).kind is ProblemKind.RATE_LIMITED
    await asyncio.sleep(0.25)
    receipt = await line.edge.say(whole)
    posts = await line.sim.posts("kitchen")
    assert [len(p.files) for p in posts] == [1, 0]
    assert "".join(p.text for p in posts) == "y" * 1500
    assert receipt == posts[0].id


async def test_pictures_and_texts_go_out_as_files(line: Line, tmp_path: Path) -> None:
    await line.sim.says("kitchen", "ann", "draw")
    (heard,) = await line.hears_messages(1)
    chat, picture = heard.origin.chat or "", tmp_path / "p.png"
    picture.write_bytes(b"\x89PNG\r\n\x1a\n123")
    image = ImageBlock(mime="image/png", path=str(picture), size=11)
    await line.edge.say(post(chat, "**a cat**", file=image))
    await line.edge.say(post(chat, "# All\nof it", file_name="answer.md", key="f" * 24))
    await line.sim.misbehaves(
        "refuses", description="Bad Request: PHOTO_INVALID_DIMENSIONS", method="sendPhoto"
    )
    await line.edge.say(post(chat, "", file=image, key="i" * 24))
    posts = await line.sim.posts("kitchen")
    assert [(p.files, p.text) for p in posts] == [
        (("p.png",), "a cat"),
        (("answer.md",), ""),
        (("p.png",), ""),
    ]
    methods = [r["method"] for r in await line.sim.requests() if r["method"].startswith("send")]
    assert methods == ["sendPhoto", "sendDocument", "sendPhoto", "sendDocument"]


async def test_a_chat_full_of_slow_files_keeps_no_other_chats_file_waiting(line: Line) -> None:
    await line.sim.misbehaves("slow_file", times=8)
    for number in range(20):
        await line.sim.says("kitchen", "ann", "", document={"name": f"{number}.txt", "text": "hi"})
    await until(partial(files_asked_for, line, 8))
    await line.sim.says("garden", "bob", "mine", document={"name": "mine.txt", "text": "hi"})
    (heard,) = await line.hears_messages(1)
    assert (heard.text, type(heard.attachments[0])) == ("mine", FileBlock)
    await line.sim.tell("releases")
    await line.hears(21)
    await line.confirmed()
