"""The search of the real program: through the control socket, after a kill, and over the files."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from tests.process.real import PATIENCE_S, Program, callboard, scripted

pytestmark = pytest.mark.slow

NOBODY = scripted("http://127.0.0.1:9/v1", attempts=1)
"""No model answers: what people said is to be found all the same."""


async def hits(home: Path, *words: str) -> list[dict[str, Any]]:
    code, out, err = await callboard(home, "search", "--json", *words)
    assert code in {0, 1}, err
    found: list[dict[str, Any]] = json.loads(out)["hits"]
    return found


async def until_found(home: Path, words: str, count: int) -> list[dict[str, Any]]:
    async with asyncio.timeout(PATIENCE_S):
        while len(found := await hits(home, words)) < count:
            pass
        return found


async def test_what_was_said_is_found_while_it_runs_after_a_kill_and_when_nothing_runs(
    tmp_path: Path,
) -> None:
    program = Program(tmp_path / "home", NOBODY)
    async with program:
        await program.says("昨天的部署失败了", chat="one", sync=False)
        (hit,) = await until_found(program.home, "部署失败", 1)
        assert hit["chat"] == "one"
        await program.says("部署失败 again", chat="two", sync=False)
        await program.kill()
        assert len(await hits(program.home, "部署失败")) == 2
        await program.start()
        assert len(await until_found(program.home, "部署失败", 2)) == 2
        assert len(await hits(program.home, "部署失败", "--chat", "two")) == 1
        assert await program.terminate() == 0
    assert len(await hits(program.home, "部署失败")) == 2
    assert (program.home / "index").stat().st_mode & 0o077 == 0


@pytest.mark.parametrize("words", [("--since", "someday", "x"), ("-x",), ("--role", "robot", "x")])
async def test_a_wrong_command_line_ends_with_2(tmp_path: Path, words: tuple[str, ...]) -> None:
    code, _, err = await callboard(tmp_path, "search", *words)
    assert code == 2
    assert err
    assert "Traceback" not in err
