"""Two personas in one real program: each with its own prompt, key, tools and files, for the chats that are routed to it."""

from pathlib import Path

import pytest

from tests.counterparts.model_server import Call, ModelServer, Say
from tests.fakes.platform import SECRET, BridgeProgram
from tests.process.real import Program, scripted

pytestmark = pytest.mark.slow


async def says(bridge: BridgeProgram, chat: str, number: int, text: str) -> None:
    await bridge.sends(
        type="message", id=f"m{number}", chat=chat, chat_type="group", user="ann", name="Ann", text=text,
        mentions_us=True,
    )  # fmt: skip


async def test_each_chat_has_its_persona(tmp_path: Path) -> None:
    home = tmp_path / "home"
    async with ModelServer() as ours, ModelServer() as pirates, BridgeProgram() as bridge:
        settings = {
            **scripted(ours.base_url),
            "session": {"instructions": "You are a clerk."},
            "tools": {"allow": ["*"]},
            "profiles": {
                "pirate": {
                    "instructions": "You are a pirate.",
                    "model": "sea/pirate-1",
                    "tools_disable": ["terminal"],
                }
            },
            "routes": [{"profile": "pirate", "platform": "bridge", "chat": "deck"}],
            "platforms": {
                "bridge": {
                    "access": {"users": ["*"]},
                    "options": {"address": bridge.address, "secret": SECRET},
                }
            },
        }
        settings["providers"]["sea"] = {"base_url": pirates.base_url, "api_key": "the-pirates-own-key"}
        ours.will(Call(("write_file", {"path": "note.txt", "content": "clerk"})), Say("Noted."))
        pirates.will(Call(("write_file", {"path": "note.txt", "content": "pirate"})), Say("Arr."))
        async with Program(home, settings):
            await bridge.until(lambda: bridge.connections > 0)
            await says(bridge, "office", 1, "write it down")
            await says(bridge, "deck", 2, "write it down")
            await bridge.until(lambda: len(bridge.of("say")) == 2)
        assert {line["chat"]: line["text"] for line in bridge.of("say")} == {
            "office": "Noted.",
            "deck": "Arr.",
        }
        clerk, pirate = ours.requests[0], pirates.requests[0]
        assert "You are a clerk." in str(clerk.body["messages"][0])
        assert "You are a pirate." in str(pirate.body["messages"][0])
        headers = {name.lower(): value for name, value in pirate.headers.items()}
        assert headers["authorization"] == "Bearer the-pirates-own-key"
        assert "terminal" in [tool["function"]["name"] for tool in clerk.body["tools"]]
        assert "terminal" not in [tool["function"]["name"] for tool in pirate.body["tools"]]
    assert (home / "workspace" / "note.txt").read_text() == "clerk"
    assert (home / "profiles" / "pirate" / "workspace" / "note.txt").read_text() == "pirate"
