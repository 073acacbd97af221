"""Replies through a chat platform, by the real process over a real socket, killed at bad moments."""

from pathlib import Path
from typing import Any

import pytest

from tests.counterparts.model_server import ModelServer, Say
from tests.fakes.platform import SECRET, BridgeProgram
from tests.process.real import Program, scripted

pytestmark = pytest.mark.slow

ANN = {"type": "message", "chat": "ann", "chat_type": "dm", "user": "ann", "name": "Ann"}


ACCESS = {"users": ["*"], "answer": "always", "user_per_minute": 1000, "chat_per_minute": 1000}


def settings(server: ModelServer, bridge: BridgeProgram, **options: Any) -> dict[str, Any]:
    own = {"address": bridge.address, "secret": "${BRIDGE_SECRET}", "idempotency_key": True, **options}
    return {**scripted(server.base_url), "platforms": {"bridge": {"options": own, "access": ACCESS}}}


def program(home: Path, server: ModelServer, bridge: BridgeProgram, **options: Any) -> Program:
    return Program(home, settings(server, bridge, **options), env={"BRIDGE_SECRET": SECRET})


async def test_C07_a_message_sent_in_the_instant_a_reply_goes_out_is_answered_too(tmp_path: Path) -> None:
    async with (
        ModelServer() as server,
        BridgeProgram(answers=False) as bridge,
        program(tmp_path / "home", server, bridge),
    ):
        for n in range(10):
            server.will(Say(f"answer {n}"))
        await bridge.sends(**ANN, id="m0", text="question 0")
        for n in range(1, 10):
            line = (await bridge.hears("say", n))[-1]
            await bridge.sends(**ANN, id=f"m{n}", text=f"question {n}")  # before the receipt of the last
            await bridge.sends(type="receipt", key=line["key"], receipt=f"p{n}")
        await bridge.hears("say", 10)
        said = bridge.of("say")
        assert [line["text"] for line in said] == [f"answer {n}" for n in range(10)]
        assert [line["reply_to"] for line in said] == [f"m{n}" for n in range(10)]


async def test_D12_killed_after_the_platform_took_it_and_before_we_knew(tmp_path: Path) -> None:
    async with (
        ModelServer() as server,
        BridgeProgram(answers=False) as bridge,
        program(tmp_path / "home", server, bridge) as running,
    ):
        server.will(Say("the answer"), Say("another"))
        await bridge.sends(**ANN, id="m1", text="hi")
        await bridge.hears("say")
        await running.kill()
        bridge.answers = True
        await running.start()
        await bridge.hears("say", 2)
        await bridge.sends(**ANN, id="m1", text="hi")  # as a platform does that saw no end of it
        await bridge.sends(**ANN, id="m2", text="and now?")
        await bridge.hears("say", 3)
        first, again, next_ = bridge.of("say")
        assert again["key"] == first["key"]
        assert again["text"] == first["text"] == "the answer"
        assert next_["text"] == "another"
        assert len(server.requests) == 2
        assert await running.terminate() == 0


async def test_D12_without_a_key_the_history_is_asked_first(tmp_path: Path) -> None:
    async with (
        ModelServer() as server,
        BridgeProgram(answers=False) as bridge,
        program(tmp_path / "home", server, bridge, idempotency_key=False, history=True) as running,
    ):
        server.will(Say("the answer"))
        await bridge.sends(**ANN, id="m1", text="hi")
        await bridge.hears("say")
        await running.kill()
        await running.start()
        line = (await bridge.hears("find"))[0]
        assert line["text"] == "the answer"
        await bridge.sends(type="found", key=line["key"], receipt="p1")
        await bridge.sends(**ANN, id="m2", text="/status")
        await bridge.hears("say", 2)
        assert [line["text"] for line in bridge.of("say")].count("the answer") == 1
        bridge.answers = True
        assert await running.terminate() == 0


async def test_an_acknowledged_message_survives_a_kill_and_one_without_is_taken_again(tmp_path: Path) -> None:
    async with (
        ModelServer() as server,
        BridgeProgram() as bridge,
        program(tmp_path / "home", server, bridge) as running,
    ):
        for n in range(30):
            server.when(f"q{n}.", Say(f"a{n}"))
        for n in range(30):
            await bridge.sends(
                **{**ANN, "chat": f"c{n % 5}", "chat_type": "group"}, id=f"m{n}", text=f"q{n}."
            )
        await bridge.hears("ack", 10)
        await running.kill()
        acknowledged = {line["id"] for line in bridge.of("ack")}
        await running.start()
        await bridge.until(lambda: bridge.connections == 2)
        for n in range(30):
            if f"m{n}" not in acknowledged:
                await bridge.sends(
                    **{**ANN, "chat": f"c{n % 5}", "chat_type": "group"}, id=f"m{n}", text=f"q{n}."
                )
        await bridge.until(lambda: len({line["key"] for line in bridge.of("say")}) == 30)
        for chat in range(5):
            lines = {line["key"]: line["text"] for line in bridge.of("say") if line["chat"] == f"c{chat}"}
            assert list(lines.values()) == [f"a{n}" for n in range(chat, 30, 5)]
        assert await running.terminate() == 0


async def test_a_bridge_that_is_away_is_said_and_its_replies_wait(tmp_path: Path) -> None:
    async with ModelServer() as server:
        bridge = BridgeProgram()
        async with bridge:
            pass
        async with program(tmp_path / "home", server, bridge) as running:
            server.will(Say("hello"))
            assert (await running.says("hi"))["reply"] == "hello"  # the rest of the house does not mind
            bridge = BridgeProgram(port=bridge.port)
            async with bridge:
                await bridge.sends(**ANN, id="m1", text="/help")
                assert (await bridge.hears("say"))[0]["text"].startswith("Say anything")
                assert await running.terminate() == 0
