"""Replies that a platform refused, in the real program: seen, delivered after all, over a kill and a restart."""

import asyncio
import json
import re
from pathlib import Path
from typing import Any

import pytest

from tests.counterparts.model_server import ModelServer, Say
from tests.fakes.platform import SECRET, BridgeProgram
from tests.process.real import PATIENCE_S, Program, callboard, scripted

pytestmark = pytest.mark.slow

ENV = {"BRIDGE_SECRET": SECRET}


def program(home: Path, server: ModelServer, bridge: BridgeProgram, **more: str) -> Program:
    options = {"address": bridge.address, "secret": "${BRIDGE_SECRET}", "idempotency_key": True}
    account = {"options": options, "access": {"users": ["*"]}}
    return Program(home, {**scripted(server.base_url), "platforms": {"bridge": account}}, env=ENV | more)


async def asks(bridge: BridgeProgram, number: int) -> None:
    await bridge.sends(
        type="message", id=f"m{number}", chat="dm-ann", chat_type="dm", user="ann", text=f"question {number}"
    )


async def refuses(bridge: BridgeProgram, count: int) -> None:
    """Refuse for good what is said next, and the notice that it was."""
    for _ in range(2):
        count += 1
        said = (await bridge.hears("say", count))[-1]
        await bridge.sends(type="error", key=said["key"], kind="refused", detail="links are not allowed")


def texts(bridge: BridgeProgram) -> list[str]:
    """What was said: one for each key."""
    return list({said["key"]: said["text"] for said in bridge.of("say")}.values())


async def letters(running: Program, *more: str) -> list[dict[str, Any]]:
    code, out, err = await callboard(running.home, "dead-letters", "list", "--json", *more, env=ENV)
    assert code == 0, err
    found: list[dict[str, Any]] = json.loads(out)
    return found


async def one_letter(running: Program) -> dict[str, Any]:
    async with asyncio.timeout(PATIENCE_S):
        while not (found := await letters(running)):
            await asyncio.sleep(0.05)
    (letter,) = found
    return letter


async def counted(running: Program) -> tuple[float, int]:
    """Return the metric and the status's count of open letters."""
    async with running.http() as http:
        async with http.get("/metrics") as response:
            metric = re.search(r"^callboard_dead_letters_open (\S+)$", await response.text(), re.MULTILINE)
        async with http.get("/api/status") as response:
            status = await response.json()
    assert metric is not None
    return float(metric[1]), status["dead_letters"]


async def test_a_refused_reply_is_seen_and_delivered_after_all(tmp_path: Path) -> None:
    async with (
        ModelServer() as server,
        BridgeProgram(answers=False) as bridge,
        program(tmp_path / "home", server, bridge) as running,
    ):
        server.will(Say("see https://example.org"))
        await asks(bridge, 1)
        await refuses(bridge, 0)
        letter = await one_letter(running)
        number = str(letter["id"])
        assert (letter["kind"], letter["place"], letter["text"]) == (
            "reply",
            "bridge:dm-ann",
            "see https://example.org",
        )
        assert "links are not allowed" in letter["error"]
        assert await counted(running) == (1.0, 1)
        bridge.answers = True  # it is healed
        said = len(bridge.of("say"))
        code, out, err = await callboard(running.home, "dead-letters", "retry", number, env=ENV)
        assert code == 0, err
        assert "bridge:dm-ann" in out
        assert (await bridge.hears("say", said + 1))[-1]["text"] == "see https://example.org"
        assert await letters(running) == []
        assert await counted(running) == (0.0, 0)
        code, _, err = await callboard(running.home, "dead-letters", "drop", number, env=ENV)
        assert code == 1
        assert "retried already, by the command line" in err
        assert await running.terminate() == 0
        (closed,) = await letters(running, "--all")
        assert (closed["state"], closed["retried_as"]) == ("retried", f"{letter['delivery_id']}~{number}")


@pytest.mark.parametrize("when", ["before", "after"])
async def test_a_kill_between_the_decision_and_the_delivery_loses_and_doubles_nothing(
    tmp_path: Path, when: str
) -> None:
    fuse = {"CALLBOARD_CHAOS": f"{when}:delivery_letter_closed:1"}
    async with (
        ModelServer() as server,
        BridgeProgram(answers=False) as bridge,
        program(tmp_path / "home", server, bridge, **fuse) as running,
    ):
        server.will(Say("the answer"))
        await asks(bridge, 1)
        await refuses(bridge, 0)
        number = str((await one_letter(running))["id"])
        bridge.answers = True
        said = len(bridge.of("say"))
        code, _, _ = await callboard(running.home, "dead-letters", "retry", number, env=ENV)
        assert code != 0
        assert await running.ended() == -9
        running.env = ENV
        await running.start()
        if when == "before":
            assert str((await one_letter(running))["id"]) == number, "nothing was decided"
            code, _, err = await callboard(running.home, "dead-letters", "retry", number, env=ENV)
            assert code == 0, err
        assert (await bridge.hears("say", said + 1))[-1]["text"] == "the answer"
        assert await letters(running) == []
        server.will(Say("another"))
        await asks(bridge, 2)
        await bridge.until(lambda: "another" in texts(bridge))
        assert texts(bridge)[2:] == ["the answer", "another"], "once"


async def test_what_was_deleted_and_what_has_no_account_is_not_delivered_but_can_be_dropped(
    tmp_path: Path,
) -> None:
    async with ModelServer() as server, BridgeProgram(answers=False) as bridge:
        home = tmp_path / "home"
        async with program(home, server, bridge) as running:
            server.will(Say("one"), Say("two"))
            await asks(bridge, 1)
            await refuses(bridge, 0)
            letter = await one_letter(running)
            assert await running.terminate() == 0
        number = str(letter["id"])
        async with Program(home, scripted(server.base_url), env=ENV) as running:
            code, _, err = await callboard(home, "dead-letters", "retry", number, env=ENV)
            assert code == 1
            assert "no platform 'bridge'" in err
            code, _, err = await callboard(
                home, "sessions", "delete", letter["session_key"], "--yes", env=ENV
            )
            assert code == 0, err
            (left,) = await letters(running)
            assert left["text"] == ""
            code, _, err = await callboard(home, "dead-letters", "retry", number, env=ENV)
            assert code == 1
            assert "its text was deleted" in err
            code, _, err = await callboard(home, "dead-letters", "drop", number, env=ENV)
            assert code == 0, err
            assert await counted(running) == (0.0, 0)
