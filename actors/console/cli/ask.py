"""`callboard ask`: one question, one answer, and an exit code a script can use."""

import asyncio
import io
import json
import secrets
from contextlib import suppress
from dataclasses import dataclass, replace

from actors.clock import Clock, WallClock
from actors.console.cli.attach import attached
from actors.console.cli.client import (
    ApiFailureError,
    Connected,
    ControlClient,
    Disconnected,
    News,
    NotRunningError,
    cancel,
)
from actors.console.cli.invocation import ExitCode, Invocation
from actors.console.cli.printable import printable
from actors.console.follow import DraftWriter
from messages.gateway import (
    Acceptance,
    DraftChanged,
    ModelStatusChanged,
    Receipt,
    SessionStateChanged,
    ToolProgressed,
    TranscriptEntry,
)
from messages.ids import MessageId, SessionKey


@dataclass(frozen=True, slots=True)
class Question:
    """What is asked, and how the answer is wanted."""

    text: str
    session: str | None = None
    """Names a conversation that goes on; None is a new one."""
    as_json: bool = False
    streaming: bool = True


@dataclass(slots=True)
class Asked:
    """How it ended."""

    entry: TranscriptEntry | None
    refused: str = ""

    @property
    def ok(self) -> bool:
        return self.entry is not None and not failed(self.entry)

    @property
    def text(self) -> str:
        return self.entry.text if self.entry is not None else self.refused


async def ask(invocation: Invocation, question: Question, clock: Clock | None = None) -> int:
    """Ask once, print the answer, return the exit code. Tools that need a yes are refused here."""
    key, asked = await _asked(invocation, question, clock or WallClock())
    return _report(invocation, question, key, asked)


async def ask_quietly(invocation: Invocation, question: Question, clock: Clock) -> Asked:
    """Ask once and print nothing."""
    nowhere = replace(invocation, stdout=io.StringIO(), stderr=io.StringIO())
    _, asked = await _asked(nowhere, question, clock)
    return asked


async def _asked(invocation: Invocation, question: Question, clock: Clock) -> tuple[SessionKey, Asked]:
    chat = question.session or f"ask-{secrets.token_hex(6)}"
    async with attached(invocation, clock) as way:
        key = await way.client.key_of(chat)
        try:
            return key, await _Asking(invocation, way.client, question, key, chat).run()
        except asyncio.CancelledError:
            with suppress(NotRunningError, ApiFailureError):
                await way.client.stop(key)
            raise


class _Asking:
    """One message on its way: handed in surely, followed until its entry comes."""

    def __init__(
        self, invocation: Invocation, client: ControlClient, question: Question, key: SessionKey, chat: str
    ) -> None:
        self._invocation = invocation
        self._client = client
        self._question = question
        self._key = key
        self._chat = chat
        self._message_id = MessageId(f"ask-{secrets.token_hex(12)}")
        self._writer = DraftWriter()
        self._turn: int | None = None
        self._streams = question.streaming and not question.as_json

    async def run(self) -> Asked:
        before = await self._client.transcript(self._key)
        last = before[-1].seq if before else 0
        heard: asyncio.Queue[News | Receipt | None] = asyncio.Queue()
        following = asyncio.ensure_future(self._follow(heard, last))
        sending: asyncio.Task[None] | None = None
        try:
            while (news := await heard.get()) is not None:
                match news:
                    case Connected():
                        self._state(news.state)
                        sending = sending or asyncio.ensure_future(self._send(heard))
                    case Receipt(acceptance=Acceptance.REFUSED):
                        return Asked(None, news.why or "The message was refused.")
                    case TranscriptEntry() if self._message_id in news.answers:
                        self._finish(news)
                        return Asked(news)
                    case _:
                        self._live(news)
        finally:
            for task in (following, sending):
                if task is not None:
                    await cancel(task)
        for task in (following, sending):
            if task is not None and task.done() and not task.cancelled():
                task.result()
        raise AssertionError("nobody follows the session, and nobody said why")

    async def _follow(self, heard: "asyncio.Queue[News | Receipt | None]", last: int) -> None:
        try:
            async for news in self._client.news(self._key, last):
                heard.put_nowait(news)
        finally:
            heard.put_nowait(None)

    async def _send(self, heard: "asyncio.Queue[News | Receipt | None]") -> None:
        try:
            receipt = await self._client.speak_surely(
                self._question.text, chat=self._chat, message_id=self._message_id, can_confirm=False
            )
        except ApiFailureError:
            heard.put_nowait(None)
            raise
        heard.put_nowait(receipt)

    # ----------------------------------------------------------------- showing

    def _state(self, state: SessionStateChanged) -> None:
        if self._message_id in state.message_ids:
            self._turn = state.turn

    def _live(self, news: News | Receipt) -> None:
        match news:
            case SessionStateChanged():
                self._state(news)
            case DraftChanged() if news.turn == self._turn:
                piece = self._writer.heard(news)
                if self._streams:
                    self._write(piece)
            case ToolProgressed() if news.turn == self._turn:
                self._progress(tool_line(news))
            case ModelStatusChanged() if news.turn == self._turn:
                self._progress(news.text)
            case Disconnected():
                self._progress("connection lost; connecting again")
            case _:
                pass

    def _finish(self, entry: TranscriptEntry) -> None:
        if self._question.as_json or failed(entry):
            return
        if self._streams:
            self._write(self._writer.finish(entry.text))
            self._write("\n")
        else:
            self._invocation.out(entry.text)

    def _write(self, piece: str) -> None:
        self._invocation.stdout.write(printable(piece) if self._invocation.stdout.isatty() else piece)
        self._invocation.stdout.flush()

    def _progress(self, line: str) -> None:
        self._invocation.note(f"· {printable(line)}")


def tool_line(news: ToolProgressed) -> str:
    """Return one line about a tool."""
    text = f" {news.text}" if news.text else ""
    return {
        "began": f"{news.name}{text}",
        "progress": f"{news.name}:{text}",
        "ended": f"{news.name} →{text}",
    }[news.phase]


def failed(entry: TranscriptEntry) -> bool:
    """Return whether an entry settles its messages without an answer; a notice of no turn is a command's answer."""
    return entry.role == "notice" and entry.turn is not None


def _report(invocation: Invocation, question: Question, key: SessionKey, asked: Asked) -> int:
    entry = asked.entry
    if question.as_json:
        answer = {
            "text": asked.text,
            "status": "ok" if asked.ok else "refused" if entry is None else entry.status or "failed",
            "session_key": key,
            "turn": entry.turn if entry is not None else None,
            "model": entry.model.model_dump() if entry is not None and entry.model else None,
        }
        invocation.out(json.dumps(answer, ensure_ascii=False))
        return ExitCode.OK if asked.ok else ExitCode.FAILED
    if entry is None:
        invocation.note(asked.refused)
        return ExitCode.FAILED
    if failed(entry):
        invocation.note(printable(entry.text))
        return ExitCode.FAILED
    return ExitCode.OK
