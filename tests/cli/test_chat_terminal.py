import asyncio
import io
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from prompt_toolkit.completion import CompleteEvent
from prompt_toolkit.document import Document
from prompt_toolkit.history import InMemoryHistory
from prompt_toolkit.input import PipeInput, create_pipe_input
from prompt_toolkit.output import DummyOutput
from rich.console import Console

from actors.clock import WallClock
from actors.console.cli.chat_terminal import (
    SlashCompleter,
    TerminalChat,
    TerminalView,
    commands_of,
    last_lines,
)
from actors.console.cli.client import ControlClient
from actors.console.cli.conversation import Conversation
from messages.ids import SessionKey
from tests.cli.house import running, until
from tests.fakes.desk import FakeDesk

KEY = SessionKey("agent:main:terminal:main:dm:main")
CTRL_C, CTRL_D, ESC_ENTER, ENTER, TAB = "\x03", "\x04", "\x1b\r", "\r", "\t"


class Sitting:
    """A person at a terminal: what they type goes into `keys`, what they see is in `screen`."""

    def __init__(
        self, chat: TerminalChat, conversation: Conversation, keys: PipeInput, screen: io.StringIO
    ) -> None:
        self.chat = chat
        self.conversation = conversation
        self.leaving: asyncio.Task[None] | None = None
        self._keys = keys
        self._screen = screen

    def types(self, text: str) -> None:
        self._keys.send_text(text)

    async def sees(self, text: str) -> None:
        await until(lambda: text in self._screen.getvalue())

    async def left(self) -> None:
        assert self.leaving is not None
        async with asyncio.timeout(20):
            await self.leaving

    def typed(self) -> str:
        return self.chat._prompt.default_buffer.text

    def completions(self) -> list[str]:
        state = self.chat._prompt.default_buffer.complete_state
        return [completion.text for completion in state.completions] if state else []

    def still_sits(self) -> bool:
        assert self.leaving is not None
        return not self.leaving.done()


@pytest.fixture
async def desk() -> FakeDesk:
    return FakeDesk()


@asynccontextmanager
async def sitting(tmp_path: Path, desk: FakeDesk) -> AsyncIterator[Sitting]:
    screen = io.StringIO()
    clock = WallClock()
    async with running(tmp_path, desk) as house, ControlClient(lambda: house.socket, clock) as client:
        view = TerminalView(Console(file=screen, width=80, color_system=None))
        conversation = Conversation(client, KEY, "main", view)
        with create_pipe_input() as keys:
            chat = TerminalChat(
                conversation,
                view,
                clock,
                history=InMemoryHistory(),
                commands=await commands_of(client),
                terminal_input=keys,
                terminal_output=DummyOutput(),
            )
            following = asyncio.create_task(conversation.run())
            seat = Sitting(chat, conversation, keys, screen)
            seat.leaving = asyncio.create_task(chat.run())
            await until(lambda: conversation.state.connected)
            try:
                yield seat
            finally:
                for task in (seat.leaving, following):
                    task.cancel()
                await asyncio.gather(seat.leaving, following, return_exceptions=True)


async def test_enter_sends_and_the_answer_is_shown_as_markdown(tmp_path: Path, desk: FakeDesk) -> None:
    desk.will_answer("# Title\n\n- a **bold** point\n")
    async with sitting(tmp_path, desk) as seat:
        seat.types("hello" + ENTER)
        await seat.sees("• a bold point")
        seat.types(CTRL_D)
        await seat.left()


async def test_escape_enter_makes_a_new_line(tmp_path: Path, desk: FakeDesk) -> None:
    async with sitting(tmp_path, desk) as seat:
        seat.types("one" + ESC_ENTER + "two" + ENTER)
        await desk.heard(1)
    assert desk.spoken[0].text == "one\ntwo"


async def test_ctrl_c_stops_the_turn_and_says_that_another_quits(tmp_path: Path, desk: FakeDesk) -> None:
    desk.streams("Once upon")
    async with sitting(tmp_path, desk) as seat:
        seat.types("a tale" + ENTER)
        await until(lambda: seat.conversation.answer.tail == "Once upon")
        seat.types(CTRL_C)
        await seat.sees("Ctrl-C again quits")
        await seat.sees("Stopped.")
        await until(lambda: not seat.conversation.state.running)
        assert seat.still_sits()


async def test_ctrl_c_twice_quits(tmp_path: Path, desk: FakeDesk) -> None:
    async with sitting(tmp_path, desk) as seat:
        seat.types(CTRL_C)
        await seat.sees("Ctrl-C again quits")
        assert seat.still_sits()
        seat.types(CTRL_C)
        await seat.left()


async def test_a_confirmation_is_no_by_default(tmp_path: Path, desk: FakeDesk) -> None:
    desk.will_ask("c1", "terminal", '{"command":"rm -r x"}')
    desk.will_ask("c2", "terminal", '{"command":"ls"}')
    async with sitting(tmp_path, desk) as seat:
        for keys in (ENTER, "y"):
            seat.types("do it" + ENTER)
            await until(lambda: seat.conversation.state.question is not None)
            seat.types(keys)
            await until(lambda: seat.conversation.state.question is None)
            await seat.conversation.settled()
    assert [(call, yes) for _, call, yes, _ in desk.confirmed] == [("c1", False), ("c2", True)]


async def test_a_chosen_completion_is_taken_by_enter_and_sent_by_the_next(
    tmp_path: Path, desk: FakeDesk
) -> None:
    async with sitting(tmp_path, desk) as seat:
        seat.types("/sta")
        await until(lambda: seat.completions() == ["/status"])
        seat.types(TAB)
        await until(lambda: seat.typed() == "/status")
        seat.types(ENTER)
        await until(lambda: seat.completions() == [])
        seat.types(ENTER)
        await desk.heard(1)
    assert desk.spoken[0].text == "/status"


@pytest.mark.parametrize(
    ("typed", "offered"),
    [
        ("/s", ["/stop", "/status"]),
        ("/", ["/new", "/stop", "/status", "/quit"]),
        ("a /s", []),
        ("/status x", []),
    ],
)
def test_commands_complete_at_the_beginning_only(typed: str, offered: list[str]) -> None:
    completer = SlashCompleter([("/new", ""), ("/stop", ""), ("/status", "")])
    found = completer.get_completions(Document(typed), CompleteEvent())
    assert [completion.text for completion in found] == offered


async def test_escape_sequences_of_a_model_are_shown_not_obeyed(tmp_path: Path, desk: FakeDesk) -> None:
    desk.will_answer("before\x1b]52;c;aGk=\x07after")
    async with sitting(tmp_path, desk) as seat:
        seat.types("hello" + ENTER)
        await seat.sees("after")
        assert "\x1b]52" not in seat._screen.getvalue()


def test_last_lines_fold_long_lines() -> None:
    assert last_lines("abcdef\n\ngh", 4, 3) == ["ef", "", "gh"]
