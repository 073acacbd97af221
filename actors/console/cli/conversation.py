"""One chat in a terminal, without the terminal: what was said, what is owed, what to show.

A view shows it: `TerminalView` (chat_terminal.py) for people, `LineView`
(chat_lines.py) when the input is a file or a pipe.
"""

import asyncio
import secrets
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol

from actors.console.cli.answer_text import AnswerText
from actors.console.cli.ask import failed, tool_line
from actors.console.cli.client import (
    ApiFailureError,
    Connected,
    ControlClient,
    Disconnected,
    News,
    NotRunningError,
    cancel,
)
from actors.console.cli.export import OWN_SURFACES
from messages.gateway import (
    Acceptance,
    ConfirmationAsked,
    DraftChanged,
    ModelStatusChanged,
    SessionStateChanged,
    ToolProgressed,
    TranscriptEntry,
)
from messages.ids import MessageId, SessionKey
from messages.model import ModelRef


class View(Protocol):
    """What shows a conversation."""

    def markdown(self, text: str) -> None:
        """Show a finished piece of an answer."""
        ...

    def remark(self, text: str) -> None:
        """Show a line beside the conversation: a tool, a status."""
        ...

    def trouble(self, text: str) -> None:
        """Show that something went wrong."""
        ...

    def said(self, author: str, text: str) -> None:
        """Show what somebody said elsewhere in this conversation, or before."""
        ...

    def changed(self) -> None:
        """The state, the live text or the question is another now."""
        ...


@dataclass(slots=True)
class ChatState:
    """What a view may want to show beside the text."""

    session: str
    connected: bool = False
    running: bool = False
    queued: int = 0
    doing: str = ""
    """What the model or a tool is at."""
    model: ModelRef | None = None
    question: ConfirmationAsked | None = None
    failures: int = 0
    """How many messages ended without an answer."""
    pending: set[MessageId] = field(default_factory=set)
    """Messages of ours that are not settled yet."""


class Conversation:
    """Sends what the person types, follows the session, tells the view. Reconnects by itself."""

    def __init__(
        self, client: ControlClient, key: SessionKey, chat: str, view: View, *, can_confirm: bool = True
    ) -> None:
        self.state = ChatState(session=chat)
        self.answer = AnswerText()
        self._client = client
        self._key = key
        self._view = view
        self._can_confirm = can_confirm
        self._ours: set[MessageId] = set()
        self._outgoing: asyncio.Queue[tuple[MessageId, str]] = asyncio.Queue()
        self._settled = asyncio.Event()

    async def run(self, show_last: int = 0) -> None:
        """Follow the session until cancelled; first show so many of its last entries."""
        before = await self._client.transcript(self._key)
        for entry in before[len(before) - show_last if show_last else len(before) :]:
            self._show_past(entry)
        sending = asyncio.ensure_future(self._send_all())
        sending.add_done_callback(lambda _: self._settled.set())
        try:
            async for news in self._client.news(self._key, before[-1].seq if before else 0):
                self.hear(news)
        finally:
            await cancel(sending)

    # ----------------------------------------------------------------- talking

    def say(self, text: str) -> MessageId:
        """Take a line of the person; it is handed in, in order, as soon as somebody takes it."""
        message_id = MessageId(f"terminal-{secrets.token_hex(12)}")
        self._ours.add(message_id)
        self.state.pending.add(message_id)
        self._settled.clear()
        self._outgoing.put_nowait((message_id, text))
        return message_id

    async def settled(self) -> None:
        """Wait until everything that was said is answered, or refused."""
        while self.state.pending:
            self._settled.clear()
            await self._settled.wait()

    async def stop(self) -> None:
        """End the running turn."""
        try:
            await self._client.stop(self._key)
        except (NotRunningError, ApiFailureError) as error:
            self._view.trouble(f"The turn could not be stopped: {error}")

    async def confirm(self, *, yes: bool) -> None:
        """Answer the question that is open. The default everywhere is no."""
        question, self.state.question = self.state.question, None
        self._view.changed()
        if question is None:
            return
        self._view.remark(f"{question.name}: {'allowed once' if yes else 'not allowed'}")
        try:
            if not await self._client.confirm(self._key, question.call_id, yes=yes):
                self._view.remark("Nobody waits for this answer any more.")
        except (NotRunningError, ApiFailureError) as error:
            self._view.trouble(f"The answer was not taken: {error}")

    async def _send_all(self) -> None:
        while True:
            message_id, text = await self._outgoing.get()
            try:
                receipt = await self._client.speak_surely(
                    text, chat=self.state.session, message_id=message_id, can_confirm=self._can_confirm
                )
            except ApiFailureError as failure:
                self._refused(message_id, str(failure))
                continue
            if receipt.acceptance is Acceptance.REFUSED:
                self._refused(message_id, receipt.why)

    def _refused(self, message_id: MessageId, why: str) -> None:
        self.state.failures += 1
        self._view.trouble(f"Not taken: {why}")
        self._settle((message_id,))

    def _settle(self, message_ids: Sequence[MessageId]) -> None:
        self.state.pending.difference_update(message_ids)
        self._settled.set()

    # ----------------------------------------------------------------- hearing

    def hear(self, news: News) -> None:
        """Take what the session says."""
        match news:
            case TranscriptEntry():
                self._entry(news)
            case Connected():
                self.state.connected = True
                self._state(news.state)
            case Disconnected():
                if self.state.connected:
                    self._view.remark(
                        "Connection lost; connecting again. What you type is kept and sent then."
                    )
                self.state.connected = False
                self.state.question = None
            case SessionStateChanged():
                self._state(news)
            case DraftChanged():
                self.state.doing = ""
                for block in self.answer.heard(news):
                    self._view.markdown(block)
            case ToolProgressed():
                self._tool(news)
            case ModelStatusChanged():
                self.state.doing = news.text
            case ConfirmationAsked():
                self.state.question = news
        self._view.changed()

    def _state(self, state: SessionStateChanged) -> None:
        self.state.running = state.state != "idle"
        self.state.queued = state.queued
        if not self.state.running:
            self.state.doing = ""
            self.state.question = None

    def _tool(self, news: ToolProgressed) -> None:
        if news.phase == "progress":
            self.state.doing = tool_line(news)
            return
        for block in self.answer.pause() if news.phase == "began" else ():
            self._view.markdown(block)
        self._view.remark(tool_line(news))
        self.state.doing = f"{news.name} …" if news.phase == "began" else ""
        if self.state.question is not None and self.state.question.call_id == news.call_id:
            self.state.question = None

    def _entry(self, entry: TranscriptEntry) -> None:
        match entry.role:
            case "user":
                if entry.message_id not in self._ours:
                    self._view.said("elsewhere" if entry.author in OWN_SURFACES else entry.author, entry.text)
            case "assistant":
                for block in self.answer.finish(entry.text):
                    self._view.markdown(block)
                self.state.model = entry.model or self.state.model
            case "notice":
                for block in self.answer.give_up():
                    self._view.markdown(block)
                self._notice(entry)
            case "tool":
                pass  # its progress was shown while it ran
        if entry.answers:
            self._settle(entry.answers)

    def _notice(self, entry: TranscriptEntry) -> None:
        if not failed(entry):
            self._view.markdown(entry.text)
            return
        self.state.failures += bool(self._ours.intersection(entry.answers))
        self._view.trouble(entry.text)

    def _show_past(self, entry: TranscriptEntry) -> None:
        match entry.role:
            case "user":
                self._view.said("you" if entry.author in OWN_SURFACES else entry.author, entry.text)
            case "assistant":
                self._view.markdown(entry.text)
                self.state.model = entry.model or self.state.model
            case "notice":
                self._view.remark(entry.text)
            case "tool":
                self._view.remark(f"{entry.name} ({entry.status})")
