"""`callboard chat` on a terminal: the prompt stays at the bottom, answers grow above it."""

import asyncio
import shutil
from collections.abc import Coroutine, Iterable
from pathlib import Path
from typing import Final

from prompt_toolkit import PromptSession
from prompt_toolkit.completion import CompleteEvent, Completer, Completion
from prompt_toolkit.document import Document
from prompt_toolkit.filters import Condition
from prompt_toolkit.formatted_text import AnyFormattedText, StyleAndTextTuples
from prompt_toolkit.history import FileHistory, History, InMemoryHistory
from prompt_toolkit.input import Input
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent
from prompt_toolkit.output import Output
from prompt_toolkit.patch_stdout import patch_stdout
from rich.console import Console
from rich.markdown import Markdown
from rich.text import Text

from actors.clock import Clock
from actors.console.cli.attach import Attached
from actors.console.cli.client import ApiFailureError, ControlClient, NotRunningError, cancel
from actors.console.cli.conversation import Conversation
from actors.console.cli.invocation import ExitCode, Invocation
from actors.console.cli.printable import printable
from actors.console.cli.serve import model_lines
from messages.ids import SessionKey

TWICE_WITHIN_S: Final = 2.0
"""A second Ctrl-C within so many seconds quits."""

SHOW_LAST: Final = 6
LIVE_LINES: Final = 12

FIXED_COMMANDS: Final = (
    ("/new", "begin a new conversation here"),
    ("/stop", "end the running turn"),
    ("/busy", "what a message does while a turn runs"),
    ("/model", "show or choose the model"),
    ("/status", "how this conversation is doing"),
    ("/help", "all commands"),
)
_LEAVE = ("/quit", "/exit")


class TerminalView:
    """Prints above the prompt."""

    def __init__(self, console: Console, refresh: "asyncio.Event | None" = None) -> None:
        self._console = console
        self.refresh = refresh or asyncio.Event()

    def markdown(self, text: str) -> None:
        self._console.print(Markdown(printable(text), hyperlinks=False))
        self._console.print()

    def remark(self, text: str) -> None:
        self._console.print(Text(f"· {printable(text)}", style="dim"))

    def trouble(self, text: str) -> None:
        self._console.print(Text(f"! {printable(text)}", style="bold red"))

    def said(self, author: str, text: str) -> None:
        self._console.print(Text(f"{printable(author)}: ", style="bold cyan") + Text(printable(text)))

    def changed(self) -> None:
        self.refresh.set()


class SlashCompleter(Completer):
    """Completes commands at the beginning of a message."""

    def __init__(self, commands: Iterable[tuple[str, str]]) -> None:
        self._commands = (*commands, ("/quit", "leave"))

    def get_completions(self, document: Document, _event: CompleteEvent) -> Iterable[Completion]:
        typed = document.text_before_cursor
        if not typed.startswith("/") or " " in typed or "\n" in typed:
            return
        for name, help_text in self._commands:
            if name.startswith(typed):
                yield Completion(name, start_position=-len(typed), display_meta=help_text)


class TerminalChat:
    """The prompt, its keys, and what it shows live."""

    def __init__(
        self,
        conversation: Conversation,
        view: TerminalView,
        clock: Clock,
        *,
        history: History,
        commands: Iterable[tuple[str, str]] = FIXED_COMMANDS,
        terminal_input: Input | None = None,
        terminal_output: Output | None = None,
    ) -> None:
        self._conversation = conversation
        self._view = view
        self._clock = clock
        self._interrupted_at = float("-inf")
        self._tasks: set[asyncio.Task[None]] = set()
        self._prompt: PromptSession[str] = PromptSession(
            message=self._message,
            history=history,
            completer=SlashCompleter(commands),
            complete_while_typing=True,
            multiline=True,
            prompt_continuation="  ",
            bottom_toolbar=self._status_line,
            key_bindings=self._keys(),
            input=terminal_input,
            output=terminal_output,
        )

    async def run(self) -> None:
        """Prompt until the person leaves."""
        refreshing = asyncio.ensure_future(self._refresh())
        try:
            while True:
                try:
                    text = await self._prompt.prompt_async(handle_sigint=False)
                except (EOFError, KeyboardInterrupt):
                    return
                if text.strip() in _LEAVE:
                    return
                if text.strip():
                    self._conversation.say(text)
        finally:
            await cancel(refreshing)
            for task in tuple(self._tasks):
                await cancel(task)

    async def _refresh(self) -> None:
        while True:
            await self._view.refresh.wait()
            self._view.refresh.clear()
            self._prompt.app.invalidate()
            await self._clock.sleep(0.03)  # thirty pictures a second are enough

    # ----------------------------------------------------------------- showing

    def _message(self) -> AnyFormattedText:
        state = self._conversation.state
        parts: StyleAndTextTuples = []
        tail = printable(self._conversation.answer.tail.strip("\n"))
        if tail:
            width = max(20, shutil.get_terminal_size().columns - 1)
            parts.append(("", "\n".join(last_lines(tail, width, LIVE_LINES)) + "\n"))
        if state.question is not None:
            arguments = " ".join(printable(state.question.arguments).split())
            parts.append(("bold", f"Allow {state.question.name} {arguments[:500]} ? [y/N] "))
            return parts
        parts.append(("bold ansicyan", "> "))
        return parts

    def _status_line(self) -> AnyFormattedText:
        state = self._conversation.state
        if not state.connected:
            doing = "connecting …"
        elif state.running:
            doing = state.doing or ("answering …" if self._conversation.answer.draft else "thinking …")
            doing += " (Ctrl-C stops)"
        else:
            doing = "ready"
        waiting = f" · {state.queued} waiting" if state.queued else ""
        model = f" · {state.model.provider}/{state.model.name}" if state.model else ""
        return f" {doing}{waiting}{model} · chat {state.session}"

    # -------------------------------------------------------------------- keys

    def _keys(self) -> KeyBindings:
        keys = KeyBindings()
        asked = Condition(
            lambda: self._conversation.state.question is not None and not self._prompt.default_buffer.text
        )
        completing = Condition(lambda: self._prompt.default_buffer.complete_state is not None)

        @keys.add("enter", filter=~asked & ~completing)
        def _send(event: KeyPressEvent) -> None:
            event.current_buffer.validate_and_handle()

        @keys.add("enter", filter=~asked & completing)
        def _take_completion(event: KeyPressEvent) -> None:
            complete = event.current_buffer.complete_state
            if complete is not None and complete.current_completion is not None:
                event.current_buffer.apply_completion(complete.current_completion)
            else:
                event.current_buffer.validate_and_handle()

        @keys.add("escape", "enter")
        def _new_line(event: KeyPressEvent) -> None:
            event.current_buffer.insert_text("\n")

        @keys.add("y", filter=asked)
        @keys.add("Y", filter=asked)
        def _yes(_: KeyPressEvent) -> None:
            self._spawn_confirm(yes=True)

        @keys.add("n", filter=asked)
        @keys.add("N", filter=asked)
        @keys.add("enter", filter=asked)
        def _no(_: KeyPressEvent) -> None:
            self._spawn_confirm(yes=False)

        @keys.add("c-c")
        def _interrupt(event: KeyPressEvent) -> None:
            self._interrupt(event)

        @keys.add("c-d", filter=Condition(lambda: not self._prompt.default_buffer.text))
        def _leave(event: KeyPressEvent) -> None:
            event.app.exit(exception=EOFError())

        return keys

    def _interrupt(self, event: KeyPressEvent) -> None:
        """The first Ctrl-C clears the line or stops the turn, the second leaves; it says so."""
        now = self._clock.monotonic()
        again = now - self._interrupted_at < TWICE_WITHIN_S
        self._interrupted_at = now
        if again:
            event.app.exit(exception=EOFError())
            return
        event.current_buffer.reset()
        if self._conversation.state.running:
            self._say_soon("Stopping the turn. Ctrl-C again quits.")
            self._spawn(self._conversation.stop())
        else:
            self._say_soon("Ctrl-C again quits; so does Ctrl-D.")

    def _say_soon(self, text: str) -> None:
        self._view.remark(text)
        self._view.changed()

    def _spawn_confirm(self, *, yes: bool) -> None:
        self._spawn(self._conversation.confirm(yes=yes))

    def _spawn(self, work: Coroutine[None, None, None]) -> None:
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)


def last_lines(text: str, width: int, most: int) -> list[str]:
    """Return the last screen lines of a text."""
    lines: list[str] = []
    for line in text.splitlines():
        lines += [line[n : n + width] for n in range(0, max(1, len(line)), width)]
    return lines[-most:]


async def chat_in_terminal(
    invocation: Invocation, way: Attached, key: SessionKey, session: str, clock: Clock
) -> int:
    """Talk until the person leaves."""
    with patch_stdout(raw=True):
        console = Console(force_terminal=True, highlight=False)
        view = TerminalView(console)
        conversation = Conversation(way.client, key, session, view)
        await _greet(way, console, conversation)
        following = asyncio.ensure_future(conversation.run(SHOW_LAST))
        talking = TerminalChat(
            conversation,
            view,
            clock,
            history=_history(invocation.home),
            commands=await commands_of(way.client),
        )
        prompting = asyncio.ensure_future(talking.run())
        try:
            await asyncio.wait((following, prompting), return_when=asyncio.FIRST_COMPLETED)
            if following.done():
                following.result()
        finally:
            await cancel(prompting)
            await cancel(following)
    return ExitCode.OK


async def _greet(way: Attached, console: Console, conversation: Conversation) -> None:
    try:
        status = await way.client.status()
    except (NotRunningError, ApiFailureError):
        return
    conversation.state.model = status.model
    where = (
        f"joined the running process {way.running.pid}" if way.running else "no server, this terminal alone"
    )
    console.print(Text(f"Callboard {status.version} · {where}", style="bold"))
    for line in model_lines(status):
        console.print(Text(line, style="dim"))
    console.print(
        Text("Enter sends · Esc Enter: new line · / commands · Ctrl-C stops · Ctrl-D leaves\n", style="dim")
    )


def _history(home: Path) -> History:
    """Return the history of typed lines, readable by its owner alone; in memory when it cannot be kept."""
    file = home / "chat-history"
    try:
        file.touch(mode=0o600, exist_ok=True)
    except OSError:
        return InMemoryHistory()
    return FileHistory(str(file))


async def commands_of(client: ControlClient) -> tuple[tuple[str, str], ...]:
    """Return the slash commands that the process offers."""
    try:
        answer = await client.get("/api/commands")
        return tuple((str(item["name"]), str(item["help"])) for item in answer["commands"])
    except (NotRunningError, ApiFailureError, KeyError, TypeError):
        return FIXED_COMMANDS
