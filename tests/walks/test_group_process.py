"""A group in the real program: a bridge, a model server, a database file; and the power goes in between."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.counterparts.model_server import Call, Hang, ModelServer, Say
from tests.fakes.platform import SECRET, BridgeProgram
from tests.process.real import Program, callboard, scripted

pytestmark = pytest.mark.slow


class Group:
    """The people of one group, behind a bridge."""

    def __init__(self, bridge: BridgeProgram) -> None:
        self.bridge = bridge
        self.said = 0

    async def says(self, text: str, user: str = "ann") -> str:
        """Somebody says this to us; return the message's id once it is durable."""
        self.said += 1
        message_id = f"m{self.said}"
        await self.bridge.sends(
            type="message",
            id=message_id,
            chat="lobby",
            chat_type="group",
            user=user,
            name=user.title(),
            text=text,
            mentions_us=True,
        )
        await self.bridge.until(lambda: any(line["id"] == message_id for line in self.bridge.of("ack")))
        return message_id

    async def again(self, program: Program) -> None:
        """The power goes and comes, and the bridge is connected again."""
        before = self.bridge.connections
        await program.kill()
        self.bridge.hangs_up()
        await program.start()
        await self.bridge.until(lambda: self.bridge.connections > before)

    async def told(self, part: str) -> str:
        """Wait until something with this text is posted; return the post."""
        await self.bridge.until(lambda: any(part in line["text"] for line in self.bridge.of("say")))
        texts = [str(line["text"]) for line in self.bridge.of("say")]
        return next(text for text in reversed(texts) if part in text)


def settings(server: ModelServer, bridge: BridgeProgram) -> dict[str, Any]:
    access = {"admins": ["ada"], "users": ["*"], "user_per_minute": 1000}
    options = {"address": bridge.address, "secret": SECRET}
    return {**scripted(server.base_url), "platforms": {"bridge": {"access": access, "options": options}}}


@asynccontextmanager
async def house(home: Path) -> AsyncIterator[tuple[ModelServer, Program, Group]]:
    async with (
        ModelServer() as server,
        BridgeProgram() as bridge,
        Program(home, settings(server, bridge)) as program,
    ):
        yield server, program, Group(bridge)


async def test_X08_a_command_waits_for_an_admin_through_a_kill_and_runs_once(tmp_path: Path) -> None:
    async with house(tmp_path / "home") as (server, program, group):
        server.will(Call(("terminal", {"command": "echo done >> made.txt"})))
        await group.says("make it")
        question = await group.told("Approval needed")
        assert "echo done >> made.txt" in question
        approval = question.split("(", 1)[1].split(")", 1)[0]
        await group.says(f"/approve {approval}", "ann")
        await group.told("This is not yours to decide")
        await group.again(program)
        made = program.home / "workspace" / "made.txt"
        assert not made.exists()
        server.will(Say("it is made"))
        await group.says(f"/approve {approval}", "ada")
        await group.told("it is made")
        await group.says(f"/approve {approval}", "ada")
        await group.told("approved already")
        assert made.read_text() == "done\n"


async def test_a_background_task_is_taken_up_after_a_kill_and_reports_once(tmp_path: Path) -> None:
    async with house(tmp_path / "home") as (server, program, group):
        server.will(Hang("half"))
        await group.says("/background count everything")
        await group.told("I work on it beside this conversation")
        await server.asked(1)
        server.will(Say("it is 42"))
        await group.again(program)
        report = await group.told("it is 42")
        assert report.startswith('**Background "count everything"**')
        server.will(Say("hello"))
        await group.says("hi")
        await group.told("hello")
        await group.says("/status")
        assert "background" not in await group.told("**State**")
        assert len([line for line in group.bridge.of("say") if "it is 42" in line["text"]]) == 1


async def test_figures_titles_and_earlier_conversations_are_had_in_the_chat(tmp_path: Path) -> None:
    async with house(tmp_path / "home") as (server, program, group):
        server.will(Say("meow"), Say("woof"), Say("purr"))
        await group.says("about cats")
        await group.told("meow")
        await group.says("/usage 7")
        usage = await group.told("In the last 7 days here")
        assert "**Model calls**: 1" in usage
        await group.says("/title Cats")
        await group.says("/new")
        await group.told("A new conversation begins")
        await group.says("about dogs")
        await group.told("woof")
        await group.says("/sessions")
        session_id = (await group.told('"Cats", 1 message(s)')).split("`")[1]
        await group.says(f"/resume {session_id}")
        await group.told('We go on with "Cats"')
        await group.says("and?")
        await group.told("purr")
        asked = str(server.requests[-1].body)
        assert "about cats" in asked
        assert "about dogs" not in asked
        assert '[from "Ann" id u-' in str(server.requests[-1].body["messages"][-1]["content"]).replace(
            "\\", ""
        )
        code, out, err = await callboard(program.home, "sessions", "list", "--json")
        assert code == 0, err
        assert "bridge" in out
