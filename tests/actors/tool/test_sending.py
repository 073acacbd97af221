"""Files that go with an answer: kept as they were when the tool ran."""

from pathlib import Path

import pytest

from actors.session import facts as f
from actors.tool.builtin.sending import send_file
from actors.tool.catalogue import spec_of
from messages.blocks import FileBlock, ToolStatus
from tests.actors.tool.shop import Shop
from tests.walks.stage import Stage


def content_of(block: FileBlock) -> str:
    assert Path(block.path).stat().st_mode & 0o077 == 0, "nobody else may read it"
    return Path(block.path).read_text()


async def test_a_file_is_kept_as_it_is_now(shop: Shop, workspace: Path) -> None:
    (workspace / "plan.txt").write_text("first")
    answer = await shop.answer(shop.start("send_file", path="plan.txt"))
    (workspace / "plan.txt").write_text("second")
    assert answer.status is ToolStatus.OK
    (block,) = answer.files
    assert (block.name, block.mime, block.size) == ("plan.txt", "text/plain", 5)
    assert content_of(block) == "first"


@pytest.mark.parametrize(
    ("path", "word"),
    [("nothing.txt", "nothing.txt"), (".", "no file"), ("empty", "empty")],
)
async def test_what_cannot_be_sent_is_said(shop: Shop, workspace: Path, path: str, word: str) -> None:
    (workspace / "empty").touch()
    answer = await shop.answer(shop.start("send_file", path=path))
    assert answer.status is ToolStatus.ERROR
    assert word in answer.text
    assert answer.files == ()


async def test_a_name_is_a_base_name_that_can_be_seen(shop: Shop, workspace: Path) -> None:
    (workspace / "a.png").write_bytes(b"\x89PNG\r\n\x1a\n....")
    answer = await shop.answer(shop.start("send_file", path="a.png", shown_as="../../x\u202egnp.exe"))
    (block,) = answer.files
    assert "/" not in block.name
    assert "\u202e" not in block.name
    assert block.mime == "image/png"


async def test_the_answer_brings_the_file_to_the_chat_also_after_a_restart() -> None:
    spec = spec_of(send_file)
    assert spec is not None
    async with Stage(tools=[spec]) as stage:
        (stage.workspace / "plan.txt").write_text("the plan")
        stage.models.will_call("send_file", path="plan.txt")
        stage.models.will_say("Here it is.")
        stage.platform.receives = False
        await stage.says("send me the plan")
        await stage.until(lambda: bool(stage.platform.said))
        await stage.restart()
        say = stage.platform.said[-1]
        text, file = say.parts
        assert (text.text, text.file) == ("Here it is.", None)
        assert isinstance(file.file, FileBlock)
        assert file.file.name == "plan.txt"
        owed = await stage.of_kind(f.ReplyOwed)
        assert len(owed) == 1
