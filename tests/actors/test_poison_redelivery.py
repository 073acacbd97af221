"""What comes again, by a retry or a new connection, is the same message; what hears it may go away."""

import asyncio
import json
from pathlib import Path
from typing import Any
from urllib.parse import quote

import aiohttp
import pytest

from actors.session import facts as f
from messages.gateway import Acceptance
from tests.counterparts.model_server import ModelServer, Say
from tests.process.real import Program, scripted
from tests.walks.stage import Stage


async def test_A06_the_same_message_at_0_5_65_and_365_seconds_and_after_a_restart_is_one_turn() -> None:
    async with Stage() as stage:
        stage.models.otherwise(lambda request: "done")
        receipts = [await stage.says("book it", message_id="Ev1")]
        for wait in (5, 60):
            await stage.clock.advance(wait)
            receipts.append(await stage.says("book it", message_id="Ev1"))
        await stage.restart()
        await stage.clock.advance(300)
        receipts.append(await stage.says("book it", message_id="Ev1"))
        assert [r.acceptance for r in receipts] == [Acceptance.ACCEPTED, *[Acceptance.DUPLICATE] * 3]
        assert len(await stage.of_kind(f.TurnBegan)) == 1
        assert stage.platform.texts() == ["done"]


async def test_A06_an_hour_of_a_busy_chat_does_not_make_an_old_id_new() -> None:
    async with Stage() as stage:
        stage.models.otherwise(lambda request: "done")
        await stage.says("first", message_id="Ev1")
        for n in range(300):
            await stage.says("/busy queue", message_id=f"c{n}")
        assert (await stage.says("first", message_id="Ev1")).acceptance is Acceptance.DUPLICATE


async def test_A07_the_same_words_under_another_id_are_a_new_message() -> None:
    async with Stage() as stage:
        stage.models.otherwise(lambda request: "done")
        for _ in range(11):
            await stage.says("hello", message_id="C:300.7")
        await stage.says("hello", message_id="C:300.9")
        assert len(await stage.of_kind(f.TurnBegan)) == 2


@pytest.mark.slow
async def test_A05_a_message_whose_first_delivery_met_a_crash_is_handled_once_on_the_retry(
    tmp_path: Path,
) -> None:
    fuse = {"CALLBOARD_CHAOS": "before:message_accepted:1"}
    async with (
        ModelServer() as server,
        Program(tmp_path / "home", scripted(server.base_url), env=fuse) as program,
    ):
        server.will(Say("handled"), Say("second"))
        with pytest.raises(aiohttp.ClientError):
            await program.says("Ev1", message_id="Ev1", sync=False)
        assert await program.ended() == -9
        program.env = {"CALLBOARD_CHAOS": "after:message_accepted:2"}
        await program.start()
        assert (await program.says("Ev1", message_id="Ev1"))["reply"] == "handled"
        with pytest.raises(aiohttp.ClientError):  # stored, and the acknowledgement never came
            await program.says("Ev2", message_id="Ev2", sync=False)
        assert await program.ended() == -9
        program.env = {}
        await program.start()
        again = await program.says("Ev2", message_id="Ev2", sync=False)
        assert (again["status"], again["acceptance"]) == (200, "duplicate")
        assert await program.answered(2) == ["handled", "second"]
        assert len(server.requests) == 2


async def _events(program: Program, key: str, after: str, count: int) -> list[tuple[str, str, Any]]:
    """Follow a session until so many entries have come; then hang up. Returns (event, id, data)."""
    found: list[tuple[str, str, Any]] = []
    path = f"/api/sessions/{quote(key, safe='')}/events"
    async with (
        program.http() as http,
        http.get(path, headers={"Last-Event-ID": after} if after else {}) as news,
    ):
        name = number = ""
        async for raw in news.content:
            line = raw.decode().rstrip("\n")
            if line.startswith("event:"):
                name = line[6:].strip()
            elif line.startswith("id:"):
                number = line[3:].strip()
            elif line.startswith("data:"):
                found.append((name, number, json.loads(line[5:])))
                number = ""
            if sum(event == "entry" for event, _, _ in found) >= count:
                return found
    return found


@pytest.mark.slow
async def test_A20_a_web_client_that_goes_away_in_mid_answer_misses_and_repeats_nothing(
    tmp_path: Path,
) -> None:
    async with ModelServer() as server, Program(tmp_path / "home", scripted(server.base_url)) as program:
        answer = " ".join(f"word{n}" for n in range(30))
        server.will(Say(answer, delay_s=0.05))
        accepted = await program.says("tell me", sync=False)
        key = accepted["session_key"]
        async with asyncio.timeout(60):
            first = await _events(program, key, "", 1)  # the question; the answer is being written
            last = [number for event, number, _ in first if event == "entry"][-1]
            rest = await _events(program, key, last, 1)
        entries = [data for event, _, data in (*first, *rest) if event == "entry"]
        assert [entry["role"] for entry in entries] == ["user", "assistant"]
        assert entries[-1]["text"] == answer
        assert await program.answered(1) == [answer]
        assert len(server.requests) == 1
