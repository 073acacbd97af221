import asyncio
from pathlib import Path

from actors.clock import WallClock
from actors.console.cli.chat import chat
from actors.console.cli.client import ControlClient
from actors.console.cli.conversation import Conversation
from actors.console.cli.invocation import ExitCode
from messages.ids import SessionKey
from tests.cli.house import noted, printed, running, typed, until
from tests.fakes.desk import FakeDesk

KEY = SessionKey("agent:main:terminal:main:dm:main")


class RecordingView:
    """Keeps what it is shown, in order."""

    def __init__(self) -> None:
        self.shown: list[tuple[str, str]] = []

    def markdown(self, text: str) -> None:
        self.shown.append(("answer", text.strip("\n")))

    def remark(self, text: str) -> None:
        self.shown.append(("remark", text))

    def trouble(self, text: str) -> None:
        self.shown.append(("trouble", text))

    def said(self, author: str, text: str) -> None:
        self.shown.append((author, text))

    def changed(self) -> None:
        pass

    def answers(self) -> list[str]:
        return [text for kind, text in self.shown if kind == "answer"]


async def test_each_line_is_a_message_and_waits_for_its_answer(tmp_path: Path) -> None:
    desk = FakeDesk()
    call = typed(tmp_path, desk, stdin="one\n\ntwo \\\nlines\n")
    assert await chat(call, "main") == ExitCode.OK
    assert printed(call) == "you said: one\nyou said: two \nlines\n"
    assert [heard.text for heard in desk.spoken] == ["one", "two \nlines"]


async def test_a_line_without_an_answer_makes_the_chat_end_with_1(tmp_path: Path) -> None:
    desk = FakeDesk()
    desk.refuse("Busy, try again.")
    desk.will_fail("No model can answer.")
    call = typed(tmp_path, desk, stdin="one\ntwo\nthree")
    assert await chat(call, "main") == ExitCode.FAILED
    assert "Busy, try again." in noted(call)
    assert "No model can answer." in noted(call)
    assert printed(call) == "you said: three\n"


async def test_quit_leaves(tmp_path: Path) -> None:
    desk = FakeDesk()
    call = typed(tmp_path, desk, stdin="one\n/quit\ntwo\n")
    assert await chat(call, "work") == ExitCode.OK
    assert [heard.origin.chat for heard in desk.spoken] == ["work"]


async def test_a_restart_in_mid_answer_loses_and_doubles_nothing(tmp_path: Path) -> None:
    desk = FakeDesk()
    desk.streams("First paragraph.\n\nSecond ")
    view = RecordingView()
    find = tmp_path / "run.json"

    def socket() -> Path | None:
        return tmp_path / "control.sock" if find.exists() else None

    async with ControlClient(socket, WallClock()) as client:
        conversation = Conversation(client, KEY, "main", view)
        async with running(tmp_path, desk):
            following = asyncio.create_task(conversation.run())
            conversation.say("a tale")
            await until(lambda: view.answers() == ["First paragraph."])
        conversation.say("said while nobody listened")
        await until(lambda: not conversation.state.connected)
        desk.adds("paragraph.")
        async with running(tmp_path, desk):
            await until(lambda: conversation.state.connected)
            desk.finish()
            await conversation.settled()
        following.cancel()
        await asyncio.gather(following, return_exceptions=True)
    assert view.answers() == ["First paragraph.", "Second paragraph.", "you said: said while nobody listened"]
    assert [heard.text for heard in desk.spoken] == ["a tale", "said while nobody listened"]


async def test_what_was_said_elsewhere_and_before_is_shown(tmp_path: Path) -> None:
    desk = FakeDesk()
    view = RecordingView()
    async with running(tmp_path, desk) as house, ControlClient(lambda: house.socket, WallClock()) as client:
        other = Conversation(client, KEY, "main", RecordingView())
        follow_other = asyncio.create_task(other.run())
        other.say("before")
        await other.settled()
        conversation = Conversation(client, KEY, "main", view)
        following = asyncio.create_task(conversation.run(show_last=2))
        await until(lambda: conversation.state.connected)
        other.say("meanwhile")
        await until(lambda: "you said: meanwhile" in view.answers())
        for task in (follow_other, following):
            task.cancel()
        await asyncio.gather(follow_other, following, return_exceptions=True)
    assert view.shown == [
        ("you", "before"),
        ("answer", "you said: before"),
        ("elsewhere", "meanwhile"),
        ("answer", "you said: meanwhile"),
    ]


async def test_a_tool_asks_and_is_answered(tmp_path: Path) -> None:
    desk = FakeDesk()
    desk.will_ask("c1", "terminal", '{"command":"ls"}')
    view = RecordingView()
    async with running(tmp_path, desk) as house, ControlClient(lambda: house.socket, WallClock()) as client:
        conversation = Conversation(client, KEY, "main", view)
        following = asyncio.create_task(conversation.run())
        conversation.say("list it")
        await until(lambda: conversation.state.question is not None)
        await conversation.confirm(yes=True)
        await conversation.settled()
        following.cancel()
        await asyncio.gather(following, return_exceptions=True)
    assert [(call, yes, by) for _, call, yes, by in desk.confirmed] == [("c1", True, "terminal")]
    assert desk.spoken[0].can_confirm
    assert view.answers() == ["You said yes."]
