"""The history of the real program: asked live, deleted live, and gone after the next start too."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.process.real import Program, callboard, scripted

pytestmark = pytest.mark.slow

KEY = "agent:main:web:main:dm:main"


@asynccontextmanager
async def silent_model() -> AsyncIterator[str]:
    """A model that takes every request and never answers."""

    async def listen(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while await reader.read(65536):
            pass
        writer.close()

    server = await asyncio.start_server(listen, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    try:
        yield f"http://127.0.0.1:{port}/v1"
    finally:
        server.close()


async def ask(home: Path, sql: str) -> list[dict[str, Any]]:
    code, out, err = await callboard(home, "query", "--json", sql)
    assert code == 0, err
    found: list[dict[str, Any]] = json.loads(out)
    return found


async def test_a_running_session_is_deleted_and_goes_on_from_nothing(tmp_path: Path) -> None:
    async with silent_model() as url, Program(tmp_path / "home", scripted(url)) as program:
        await program.says("an apple", sync=False)
        assert await ask(program.home, "SELECT text FROM messages") == [{"text": "an apple"}]
        code, out, err = await callboard(program.home, "sessions", "delete", "main", "--yes")
        assert code == 0, err
        assert KEY in out
        assert "1 message(s) in it were not answered" in err
        assert await ask(program.home, "SELECT kind FROM facts WHERE stream LIKE 'session:%'") == [
            {"kind": "history_erased"}
        ]
        receipt = await program.says("a banana", sync=False)
        assert receipt["acceptance"] == "accepted"
        assert await ask(program.home, "SELECT text FROM messages") == [{"text": "a banana"}]
        await program.kill()
        await program.start()
        assert await ask(program.home, "SELECT text FROM messages") == [{"text": "a banana"}]
        (turn,) = await ask(
            program.home, "SELECT max((fact->>'turn')::INT) AS turn FROM facts WHERE kind = 'turn_began'"
        )
        assert turn == {"turn": 2}
        code, _, err = await callboard(program.home, "query", "SELECT * FROM read_text('/etc/passwd')")
        assert code == 2
        assert "read_text" in err
    assert await ask(program.home, "SELECT count(*) AS n FROM messages") == [{"n": 1}]
    code, out, err = await callboard(program.home, "replay", "main")
    assert code == 0, err
    assert "history_erased" in out


async def test_a_client_that_waits_for_an_answer_is_told_of_the_deletion(tmp_path: Path) -> None:
    async with silent_model() as url, Program(tmp_path / "home", scripted(url)) as program:
        waiting = asyncio.create_task(program.says("an apple"))
        while not await ask(program.home, "SELECT 1 FROM messages"):
            pass
        code, _, err = await callboard(program.home, "sessions", "delete", KEY, "--yes")
        assert code == 0, err
        answer = await waiting
        assert "deleted" in json.dumps(answer)
