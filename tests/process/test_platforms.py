"""Connections of the real program: in processes of their own, killed, listed, paused, and told of."""

import asyncio
import json
import os
import signal
from pathlib import Path
from typing import Any

import aiohttp
import psutil
import pytest

from tests.counterparts.model_server import ModelServer, Say
from tests.fakes.platform import SECRET, BridgeProgram
from tests.process.real import PATIENCE_S, Program, callboard, scripted

pytestmark = pytest.mark.slow

ENV = {"BRIDGE_SECRET": SECRET}


def program(
    home: Path, server: ModelServer, bridge: BridgeProgram, isolation: str = "process", **more: Any
) -> Program:
    options = {"address": bridge.address, "secret": "${BRIDGE_SECRET}", "idempotency_key": True}
    account = {"options": options, "isolation": isolation, "access": {"users": ["*"]}, **more}
    platforms = {"bridge": account, "bridge/spare": {**account, "enabled": False}}
    return Program(home, {**scripted(server.base_url), "platforms": platforms}, env=ENV)


def line(number: int, text: str) -> dict[str, Any]:
    return {
        "type": "message",
        "id": f"m{number}",
        "chat": "dm-ann",
        "chat_type": "dm",
        "user": "ann",
        "text": text,
    }


def posts(bridge: BridgeProgram) -> list[str]:
    """What stands in the chat: one post for each key."""
    return list({said["key"]: said["text"] for said in bridge.of("say")}.values())


async def status(running: Program) -> dict[str, Any]:
    async with running.http() as http, http.get("/api/status") as response:
        found: dict[str, Any] = await response.json()
        return found


async def metrics(running: Program) -> str:
    async with running.http() as http, http.get("/metrics") as response:
        return await response.text()


async def child_of(running: Program) -> int:
    """Wait for the process of the bridge's connection."""
    async with asyncio.timeout(PATIENCE_S):
        while not (text := (await status(running))["platform_processes"].get("bridge", "")):
            await asyncio.sleep(0.02)
    assert text.endswith(" MB")
    return int(text.split()[1].rstrip(","))


async def incidents(home: Path) -> list[str]:
    sql = "SELECT what FROM incidents WHERE child = 'platform:bridge' ORDER BY id"
    code, out, err = await callboard(home, "query", sql, "--json", env=ENV)
    assert code == 0, err
    return [row["what"] for row in json.loads(out)]


async def until_gone(*pids: int) -> None:
    async with asyncio.timeout(PATIENCE_S):
        for pid in pids:
            while psutil.pid_exists(pid) and psutil.Process(pid).status() != psutil.STATUS_ZOMBIE:
                await asyncio.sleep(0.01)


@pytest.mark.parametrize("isolation", ["none", "process"])
async def test_A15_a_lost_connection_is_replaced_and_everything_is_answered_once(
    tmp_path: Path, isolation: str
) -> None:
    home = tmp_path / "home"
    async with (
        ModelServer() as server,
        BridgeProgram() as bridge,
        program(home, server, bridge, isolation) as running,
    ):
        for number in range(1, 4):
            server.will(Say(f"answer {number}"))
            await bridge.sends(**line(number, f"question {number}"))
            # A post whose receipt was lost with the process is sent again under its key: the bridge knows it.
            await bridge.until(lambda least=number: len(posts(bridge)) >= least)  # type: ignore[misc]
            assert posts(bridge) == [f"answer {each}" for each in range(1, number + 1)]
            connections = bridge.connections
            if isolation == "process":
                os.kill(await child_of(running), signal.SIGKILL)
            else:
                bridge.hangs_up()
            began = asyncio.get_running_loop().time()
            await bridge.until(lambda before=connections: bridge.connections > before)  # type: ignore[misc]
            assert asyncio.get_running_loop().time() - began < 10  # two seconds where nothing else runs
        async with asyncio.timeout(PATIENCE_S):
            while 'callboard_platform_up{platform="bridge"} 1.0' not in (figures := await metrics(running)):
                await asyncio.sleep(0.02)
        assert 'callboard_platform_reconnects_total{platform="bridge"} 3.0' in figures
        assert (await incidents(home))[:4] == ["fell", "rose", "fell", "rose"]
        assert await running.terminate() == 0
        for sign in ("Traceback", "Event loop is closed", "different loop", "never awaited"):
            assert sign not in running.errors()


async def test_nothing_is_left_after_any_end(tmp_path: Path) -> None:
    home = tmp_path / "home"
    async with ModelServer() as server, BridgeProgram() as bridge, program(home, server, bridge) as running:
        await child_of(running)
        assert running.process is not None
        family = [each.pid for each in psutil.Process(running.process.pid).children(recursive=True)]
        family += [each.pid for each in psutil.Process(await child_of(running)).parents()[0].children()]
        family.append(await child_of(running))
        assert await running.terminate() == 0
        await until_gone(*family)
        await running.start()
        child = await child_of(running)
        family = [child, *(each.pid for each in psutil.Process(child).parents() if each.pid > 1)]
        family = [pid for pid in family if "spawn_main" in " ".join(psutil.Process(pid).cmdline())]
        await running.kill()
        await until_gone(*family)


async def test_a_secret_is_in_no_processs_environment_or_arguments(tmp_path: Path) -> None:
    async with (
        ModelServer() as server,
        BridgeProgram() as bridge,
        program(tmp_path / "home", server, bridge) as running,
    ):
        child = psutil.Process(await child_of(running))
        for each in (child, *child.parents()[:1]):
            assert SECRET not in " ".join(each.cmdline())
            assert SECRET not in str(each.environ())


@pytest.mark.parametrize("isolation", ["none", "process"])
async def test_connections_are_listed_restarted_paused_and_resumed(tmp_path: Path, isolation: str) -> None:
    home = tmp_path / "home"

    async def platform(*words: str, expect: int = 0) -> str:
        code, out, err = await callboard(home, "platform", *words, env=ENV)
        assert code == expect, (out, err)
        return out or err

    async with (
        ModelServer() as server,
        BridgeProgram() as bridge,
        program(home, server, bridge, isolation) as running,
    ):
        await bridge.until(lambda: bridge.connections == 1)
        states = {each["name"]: each for each in json.loads(await platform("list", "--json"))}
        assert states["bridge"]["state"] == "connected"
        assert states["bridge/spare"]["state"] == "off"
        assert ("MB" in states["bridge"]["process"]) == (isolation == "process")
        assert "bridge: waiting" in await platform("restart", "bridge")
        await bridge.until(lambda: bridge.connections == 2)
        assert "is off in the settings" in await platform("pause", "bridge/spare", expect=1)
        assert "There are: bridge" in await platform("pause", "nothing", expect=1)
        assert "bridge: paused" in await platform("pause", "bridge")
        assert "is paused" in await platform("restart", "bridge", expect=1)
        async with aiohttp.ClientSession() as stranger, stranger.get(f"{running.url}/readyz") as ready:
            assert (ready.status, await ready.json()) == (
                200,
                {"ready": True, "problem": "", "platforms": {"bridge": "paused", "bridge/spare": "off"}},
            )
        await running.terminate()
        await running.start()
        assert "paused" in await platform("list")
        assert bridge.connections == 2
        await platform("resume", "bridge")
        await bridge.until(lambda: bridge.connections == 3)
        server.will(Say("here I am"))
        await bridge.sends(**line(1, "hello"))
        assert (await bridge.hears("say"))[0]["text"] == "here I am"
        assert await incidents(home) == []
    assert "Not running" in await platform("list", expect=3)
