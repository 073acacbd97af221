"""Who may talk, in the real program: strangers, codes, and changes from the command line while it runs."""

import json
import re
from pathlib import Path
from typing import Any

import pytest

from actors.gateway.pairing import new_claim
from tests.counterparts.model_server import ModelServer, Say
from tests.fakes.platform import SECRET, BridgeProgram
from tests.process.real import Program, callboard, scripted

pytestmark = pytest.mark.slow

CODE = re.compile(r"[A-Z2-9]{4}-[A-Z2-9]{4}")


def program(home: Path, server: ModelServer, bridge: BridgeProgram) -> Program:
    options = {"address": bridge.address, "secret": "${BRIDGE_SECRET}", "idempotency_key": True}
    settings = {**scripted(server.base_url), "platforms": {"bridge": {"options": options}}}
    return Program(home, settings, env={"BRIDGE_SECRET": SECRET})


def line(number: int, user: str, text: str, chat: str = "", **more: Any) -> dict[str, Any]:
    return {
        "type": "message",
        "id": f"m{number}",
        "chat": chat or f"dm-{user}",
        "chat_type": "group" if chat else "dm",
        "user": user,
        "name": "Somebody",
        "text": text,
        **more,
    }


async def access(home: Path, *words: str) -> str:
    code, out, err = await callboard(home, "access", *words, env={"BRIDGE_SECRET": SECRET})
    assert code == 0, (out, err)
    return out


async def test_a_stranger_is_let_in_and_an_owner_found_while_it_runs(tmp_path: Path) -> None:
    home = tmp_path / "home"
    async with ModelServer() as server, BridgeProgram() as bridge, program(home, server, bridge) as running:
        await bridge.sends(**line(1, "eve", "hello"))
        refused = (await bridge.hears("refused"))[0]
        code = CODE.search(refused["why"])
        assert code is not None
        assert "eve" in await access(home, "pending")
        assert "may talk to me now" in await access(home, "approve", code.group())
        server.will(Say("welcome"))
        await bridge.sends(**line(2, "eve", "hello again"))
        assert (await bridge.hears("say", 1))[0]["text"] == "welcome"

        claim = CODE.search(await access(home, "claim", "bridge"))
        assert claim is not None
        await bridge.sends(**line(3, "ann", f"/claim {claim.group()}"))
        assert "my owner" in (await bridge.hears("say", 2))[1]["text"]
        await bridge.sends(**line(4, "bob", f"/claim {new_claim(home)}"))
        assert "my owner" in (await bridge.hears("say", 3))[2]["text"]

        await bridge.sends(**line(5, "x", "hello", "lobby", mentions_us=True))
        await bridge.hears("ack", 4)
        await bridge.sends(**line(6, "ann", "/access allow chat here", "lobby"))
        assert "may talk to me there now" in (await bridge.hears("say", 4))[3]["text"]
        server.will(Say("hello, x"))
        await bridge.sends(**line(7, "x", "nobody asked", "lobby"))
        await bridge.sends(**line(8, "x", "hello", "lobby", mentions_us=True))
        assert (await bridge.hears("say", 5))[4]["text"] == "hello, x"

        await access(home, "revoke", "bridge", "eve", "--block")
        await bridge.sends(**line(9, "eve", "are you there?"))
        await bridge.hears("ack", 8)
        assert len(bridge.of("say")) == 5
        async with running.http() as http, http.get("/metrics") as response:
            text = await response.text()
        for why in ("stranger", "not_addressed", "blocked"):
            assert f'callboard_messages_not_taken_total{{platform="bridge",why="{why}"}}' in text
        await running.kill()
        await running.start()
        listed = json.loads(await access(home, "list", "--json"))
        holds = {(entry["what"], entry["id"]): entry["holds"] for entry in listed}
        assert holds == {
            ("user", "eve"): "blocked",
            ("user", "ann"): "owner",
            ("user", "bob"): "owner",
            ("chat", "lobby"): "allowed",
        }
        assert await running.terminate() == 0
