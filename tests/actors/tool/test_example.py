"""The example in examples/tools works as it stands, offered as an installed package offers it."""

from importlib.metadata import EntryPoint
from pathlib import Path

import pytest

from actors.runtime import ActorSystem
from actors.tool.discovery import discover
from messages.blocks import ToolStatus
from tests.actors.tool.shop import Shop

EXAMPLES = Path(__file__).parents[3] / "examples" / "tools"


async def test_the_example_counts_words(
    workspace: Path, tmp_path: Path, system: ActorSystem, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(str(EXAMPLES))
    found = discover([EntryPoint("word_count", "word_count", "callboard.tools")])
    assert found.problems == ()
    mine = [spec for spec in found.specs if spec.name == "word_count"]
    shop = Shop(system, workspace, tmp_path / "results", mine)
    (workspace / "poem.txt").write_text("a rose is a rose is a rose\n")
    finished = await shop.call("word_count", path="poem.txt", most=2)
    assert (finished.status, finished.text) == (ToolStatus.OK, '{"a":3,"rose":3}')
    assert (await shop.call("word_count", path="none.txt")).text == "There is no file none.txt."
    assert "outside the workspace" in await shop.outcome("word_count", path="../x")
