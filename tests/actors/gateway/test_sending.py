"""Saying something in nobody's conversation: refused at once, or said once, and its end is told."""

import asyncio
from pathlib import Path

import pytest

from actors.gateway.sending import PREFIX, Sender, SendRefusedError
from messages.blocks import FileBlock
from messages.gateway import Say, SayingFailed, SayingSucceeded
from messages.ids import DeliveryId
from messages.sending import SendAsked
from tests.fakes.clock import START

HOMES = {"owl": "loft", "pigeon": None}


class Office:
    """Stands for the delivery room."""

    def __init__(self, files: Path) -> None:
        self.says: list[Say] = []
        self.sender = Sender(self.says.append, lambda: HOMES, files)

    def posts(self, n: int = -1) -> None:
        assert self.sender.ended(
            SayingSucceeded(delivery_id=self.says[n].delivery_id, receipt="p1", at=START)
        )

    def fails(self) -> None:
        assert self.sender.ended(SayingFailed(delivery_id=self.says[-1].delivery_id, why="gone", at=START))


@pytest.fixture
def office(tmp_path: Path) -> Office:
    return Office(tmp_path / "sent")


async def told(office: Office) -> None:
    async with asyncio.timeout(20):
        while not office.says:
            await asyncio.sleep(0)


async def test_it_is_said_and_its_receipt_is_told(office: Office) -> None:
    task = asyncio.create_task(office.sender.send(SendAsked(target="owl:7", text="hi")))
    await told(office)
    (say,) = office.says
    assert (say.target, say.parts[0].text, say.notice) == ("owl:7", "hi", True)
    office.posts()
    ended = await task
    assert (ended.state, ended.receipt) == ("posted", "p1")


async def test_a_failure_and_no_end_in_time_are_told(office: Office) -> None:
    task = asyncio.create_task(office.sender.send(SendAsked(target="owl", text="hi")))
    await told(office)
    office.fails()
    assert ((await task).state, (await task).why) == ("failed", "gone")
    owed = await office.sender.send(SendAsked(target="owl", text="hi", wait_s=0.0))
    assert owed.state == "owed"
    office.posts()  # late, and nobody waits: it is remembered for who asks again
    again = await office.sender.send(SendAsked(target="owl", text="hi", delivery_id=owed.delivery_id))
    assert again.state == "posted"
    assert len(office.says) == 2


async def test_asking_twice_with_an_id_says_it_under_one_id(office: Office) -> None:
    asked = SendAsked(target="owl", text="hi", delivery_id=DeliveryId("mine"))
    both = [asyncio.create_task(office.sender.send(asked)) for _ in range(2)]
    await told(office)
    assert {say.delivery_id for say in office.says} == {f"{PREFIX}mine"}
    office.posts()
    assert [(await task).state for task in both] == ["posted", "posted"]


@pytest.mark.parametrize("target", ["", "origin", "local", "owl:", "crow:1", "pigeon", "owl:1:2:3"])
async def test_what_is_no_chat_is_refused_at_once(office: Office, target: str) -> None:
    with pytest.raises(SendRefusedError):
        await office.sender.send(SendAsked(target=target, text="hi"))
    assert office.says == []


async def test_nothing_to_say_and_no_file_are_refused(office: Office, tmp_path: Path) -> None:
    for asked in (
        SendAsked(target="owl", text=" "),
        SendAsked(target="owl", file=str(tmp_path / "none")),
        SendAsked(target="owl", file=str(tmp_path)),
        SendAsked(target="owl", file="relative.txt"),
    ):
        with pytest.raises(SendRefusedError):
            await office.sender.send(asked)
    assert office.says == []


def kept(copy: Path) -> tuple[bytes, int, int]:
    return copy.read_bytes(), copy.stat().st_mode & 0o777, copy.parent.stat().st_mode & 0o777


async def test_a_file_is_copied_so_that_it_is_there_when_it_is_sent(office: Office, tmp_path: Path) -> None:
    file = tmp_path / "../../plot; x.png".replace("/", "_")
    file.write_bytes(b"png")
    task = asyncio.create_task(office.sender.send(SendAsked(target="owl", file=str(file))))
    await told(office)
    file.unlink()
    block = office.says[0].parts[0].file
    assert isinstance(block, FileBlock)
    assert (block.name, block.mime, block.size) == (file.name, "image/png", 3)
    assert kept(Path(block.path)) == (b"png", 0o600, 0o700)
    assert block.path.startswith(str(tmp_path / "sent"))
    office.posts()
    await task


def test_the_ends_of_sessions_replies_are_theirs(office: Office) -> None:
    assert not office.sender.ended(SayingSucceeded(delivery_id=DeliveryId("d1"), receipt="p", at=START))
