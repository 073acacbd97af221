"""The example in examples/platforms works as it stands, offered as an installed package offers it."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import Any

import pytest

from actors.console.cli.invocation import ExitCode
from actors.console.cli.platform_add import Adding, add_platform
from actors.gateway.edge import EdgeContext, EdgeError
from actors.gateway.registry import GROUP, Ready, Registry
from messages.blocks import FileBlock
from messages.delivery import PartText, Place, ProblemKind
from messages.gateway import Acceptance
from messages.settings import PlatformSettings
from tests.cli.house import printed, typed
from tests.fakes.clock import ManualClock
from tests.fakes.desk import FakeDesk
from tests.platforms.webhook.service import Desk, post

EXAMPLES = Path(__file__).parents[2] / "examples" / "platforms"


@pytest.fixture
def registry(monkeypatch: pytest.MonkeyPatch) -> Registry:
    monkeypatch.syspath_prepend(str(EXAMPLES))
    return Registry.discover([EntryPoint("file_drop", "file_drop", GROUP)])


@pytest.fixture
def ready(registry: Registry, tmp_path: Path) -> Ready:
    settings = PlatformSettings.model_validate({"options": {"folder": str(tmp_path)}})
    return registry.prepare("file_drop", "main", settings, {})


@asynccontextmanager
async def running(ready: Ready, desk: Desk, clock: ManualClock) -> AsyncIterator[Any]:
    edge = ready.entry.factory(ready.options, EdgeContext("file_drop", "main", clock))
    up = asyncio.Event()
    task = asyncio.create_task(edge.run(desk.hear, up.set))
    await up.wait()
    try:
        yield edge
    finally:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task


def drops(folder: Path, chat: str, text: str, name: str = "m.txt") -> Path:
    file = folder / "in" / chat / name
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)
    return file


async def test_a_file_is_heard_and_taken_away_when_it_is_durable(ready: Ready, tmp_path: Path) -> None:
    desk, clock = Desk(), ManualClock()
    file = drops(tmp_path, "ann", "hello")
    drops(tmp_path, "ann", "half", ".hidden.txt")
    desk.open.clear()
    async with running(ready, desk, clock):
        (message,) = await desk.hears()
        assert (message.text, message.origin.chat, message.origin.platform) == ("hello", "ann", "file_drop")
        assert file.exists()
        desk.open.set()
        await clock.settle()
        assert not file.exists()
        drops(tmp_path, "bob", "later")
        await clock.advance(1)
        assert [m.text for m in desk.heard] == ["hello", "later"]


async def test_a_file_that_was_not_taken_is_there_again_with_the_same_id(
    ready: Ready, tmp_path: Path
) -> None:
    desk, clock = Desk(), ManualClock()
    drops(tmp_path, "ann", "hello")
    desk.open.clear()
    for count in (1, 2):
        async with running(ready, desk, clock):
            await desk.hears(count)
    assert len({m.message_id for m in desk.heard}) == 1


async def test_a_refusal_is_shown_to_the_writer(ready: Ready, tmp_path: Path) -> None:
    desk, clock = Desk(), ManualClock()
    desk.acceptance = Acceptance.REFUSED
    file = drops(tmp_path, "ann", "hello")
    async with running(ready, desk, clock):
        await desk.hears()
        await clock.settle()
    assert not file.exists()
    assert file.with_suffix(".refused").exists()


async def test_an_answer_is_a_file_and_twice_the_same_is_one(ready: Ready, tmp_path: Path) -> None:
    async with running(ready, Desk(), ManualClock()) as edge:
        for _ in range(2):
            assert await edge.say(post("Grüße", chat="ann")) == f"{'ab' * 12}.md"
        picture = tmp_path / "plot.png"
        picture.write_bytes(b"png")
        block = FileBlock(name="plot.png", mime="image/png", path=str(picture), size=3)
        body = PartText(text="see", file=block)
        await edge.say(post(chat="ann", key="cd" * 12, body=body, place=Place(chat="ann")))
        with pytest.raises(EdgeError) as refused:
            await edge.say(post(chat="../ann"))
    assert refused.value.problem.kind is ProblemKind.REFUSED
    found = {file.name: file.read_bytes() for file in (tmp_path / "out" / "ann").iterdir()}
    assert found == {
        f"{'ab' * 12}.md": "Grüße".encode(),
        f"{'cd' * 12}.md": b"see",
        f"{'cd' * 12}.png": b"png",
    }


async def test_it_can_be_added_like_any_other(registry: Registry, tmp_path: Path) -> None:
    call = typed(tmp_path / "home", FakeDesk(), stdin=f"{tmp_path}\n")
    assert await add_platform(call, Adding("file_drop"), registry) == ExitCode.OK
    assert "can be used; 0 message(s) wait" in printed(call)
    call = typed(tmp_path / "home2", FakeDesk(), stdin="/proc/none\nn\n")
    assert await add_platform(call, Adding("file_drop"), registry) == ExitCode.FAILED
