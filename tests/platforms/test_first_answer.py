"""From a token to a first answer: `callboard platform add NAME`, `callboard run`, and `/claim` in a direct message."""

import asyncio
import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.counterparts.model_server import ModelServer, Say
from tests.platforms.simulators.discord import DiscordSimulator
from tests.platforms.simulators.port import SimPost, Simulator
from tests.platforms.simulators.slack import SlackSimulator
from tests.platforms.simulators.telegram import TelegramSimulator
from tests.process.real import PATIENCE_S, Program, callboard, scripted

pytestmark = pytest.mark.slow

SIMULATORS: Mapping[str, type[Any]] = {
    "discord": DiscordSimulator,
    "slack": SlackSimulator,
    "telegram": TelegramSimulator,
}


def asked_for(options: Mapping[str, Any]) -> list[str]:
    """Return the command line's options: what a person would type for the questions, and the service's address."""
    words = []
    for name, value in options.items():
        words += ["-o", f"{name}={value if isinstance(value, str) else json.dumps(value)}"]
    return words


async def posted(sim: Simulator, words: str) -> SimPost:
    async with asyncio.timeout(PATIENCE_S):
        while True:
            for post in await sim.posts():
                if words in post.text:
                    return post
            await asyncio.sleep(0.05)


async def connected(program: Program, platform: str) -> None:
    async with asyncio.timeout(PATIENCE_S), program.http() as http:
        while True:
            async with http.get("/api/status") as response:
                if (await response.json())["platforms"].get(platform) == "connected":
                    return
            await asyncio.sleep(0.05)


async def direct_chat(home: Path, platform: str) -> str:
    """Return the id of the direct chat, as the session's key has it."""
    _, out, _ = await callboard(home, "sessions", "list", "--json")
    key = re.search(rf'agent:main:{platform}:main:dm:([^":]+)', out)
    assert key is not None, out
    return key[1]


@pytest.mark.parametrize("platform", SIMULATORS)
async def test_a_token_is_all_that_is_needed(platform: str, tmp_path: Path) -> None:
    home = tmp_path / "home"
    home.mkdir()
    async with ModelServer() as server, SIMULATORS[platform]() as sim:
        (home / "callboard.yaml").write_text(yaml.safe_dump(scripted(server.base_url)))
        options = sim.settings()["options"]
        code, out, err = await callboard(home, "platform", "add", platform, "--yes", *asked_for(options))
        assert code == 0, f"{out}\n{err}"
        claim = re.search(r"/claim \S+", out)
        assert claim is not None
        kept = (home / "callboard.yaml").read_text()
        for secret in (value for name, value in options.items() if "token" in name):
            assert secret not in kept
            assert secret not in out + err
        server.when("are you there", Say("Yes, I am here."))
        async with Program(home, yaml.safe_load(kept)) as program:
            await connected(program, platform)
            await sim.says("ann-dm", "ann", "are you there?", dm=True)
            await posted(sim, "callboard access")  # a stranger is told how they could be let in
            await sim.says("ann-dm", "ann", claim[0], dm=True)
            await posted(sim, "owner")
            await sim.says("ann-dm", "ann", "are you there?", dm=True)
            await posted(sim, "Yes, I am here.")
            code, out, err = await callboard(home, "doctor")
            assert f"ok    platform {platform}: can be connected." in out
            assert not re.search(rf"^fail  platform {platform}", out, re.MULTILINE), out
            target = f"{platform}:{await direct_chat(home, platform)}"
            code, _, err = await callboard(home, "send", target, "By hand")
            assert code == 0, err
            await posted(sim, "By hand")


@pytest.mark.parametrize("platform", SIMULATORS)
async def test_a_wrong_token_is_said_before_anything_is_written(platform: str, tmp_path: Path) -> None:
    home = tmp_path / "home"
    home.mkdir()
    async with SIMULATORS[platform]() as sim:
        options = dict(sim.settings()["options"])
        for name in options:
            if "token" in name:
                options[name] = options[name][:-6] + "abcdef"
        code, out, err = await callboard(home, "platform", "add", platform, "--yes", *asked_for(options))
    assert code == 1, f"{out}\n{err}"
    assert re.search(r"^wrong .*token", out, re.MULTILINE | re.IGNORECASE), out
    assert "nothing was written" in err
    assert not (home / "callboard.yaml").exists()
