"""Waiting for one message's answer without losing or doubling anything of it."""

from collections.abc import AsyncGenerator
from contextlib import aclosing

from actors.console.port import Desk, Watch, WatchLostError
from actors.console.wire import ApiError
from actors.gateway.commands import parse
from actors.gateway.ends import http_status_of
from messages.gateway import (
    Acceptance,
    DraftChanged,
    LiveEvent,
    MessageReceived,
    Receipt,
    SessionStateChanged,
    TranscriptEntry,
)
from messages.ids import MessageId, SessionKey

_OF_COMMANDS = {"stop": "stopped", "compress": "compressed"}
"""The end that a command is there for."""

Step = Receipt | DraftChanged | TranscriptEntry


async def converse(
    desk: Desk, message: MessageReceived, *, drafts: bool = False
) -> AsyncGenerator[Step, None]:
    """Hand in a message and follow it: first its Receipt, at last the entry that settles it.

    In between come the drafts of the turns that answer it, if they are wanted.
    After a refusal comes nothing more. Raises ValueError when the origin names nobody.
    """
    key = desk.key_of(message.origin)
    receipt: Receipt | None = None
    while True:
        with desk.watch(key, live=drafts) as watch:
            before = watch.now()
            settled: TranscriptEntry | None = None
            first = receipt is None
            if receipt is None:
                receipt = await desk.speak(message)
                yield receipt
                if receipt.acceptance is Acceptance.REFUSED:
                    return
            if not first or receipt.acceptance is Acceptance.DUPLICATE:
                settled = await _settling(desk, key, message.message_id)
            if settled is not None:
                yield settled
                return
            try:
                async with aclosing(_steps(watch, before, message.message_id)) as steps:
                    async for step in steps:
                        yield step
            except WatchLostError:
                continue
            return


async def _settling(desk: Desk, key: SessionKey, message_id: MessageId) -> TranscriptEntry | None:
    for entry in reversed(await desk.transcript(key)):
        if message_id in entry.answers:
            return entry
    return None


async def _steps(
    watch: Watch, before: tuple[SessionStateChanged, tuple[LiveEvent, ...]], message_id: MessageId
) -> AsyncGenerator[DraftChanged | TranscriptEntry, None]:
    state, live = before
    turn = state.turn if message_id in state.message_ids else None
    for event in live:
        if isinstance(event, DraftChanged) and event.turn == turn:
            yield event
    async for news in watch:
        match news:
            case TranscriptEntry():
                if message_id in news.answers:
                    yield news
                    return
            case SessionStateChanged():
                if message_id in news.message_ids:
                    turn = news.turn
            case DraftChanged():
                if news.turn == turn:
                    yield news
            case _:
                pass


def failure_of(message: MessageReceived, entry: TranscriptEntry) -> ApiError | None:
    """Return the error that an entry is to the message it settles; None for an answer.

    What the house itself says is the answer to a command, unless that one was to
    begin a turn (`/retry`), and to anything else the reason why there is none. The
    house has tried again already where that was of use, so a client should not.
    """
    command = parse(message.text)
    if entry.role != "notice" or (
        command is not None and entry.status in {"", _OF_COMMANDS.get(command.name, "")}
    ):
        return None
    return ApiError(
        http_status_of(entry.status), entry.text, code=entry.status or "turn_failed", try_again=False
    )


class DraftWriter:
    """Makes text that only grows out of drafts that may be dropped, begin anew, or be given up.

    A client of a stream cannot take back what it was sent. So what was sent of
    the running draft is compared with what the draft should be: its missing end
    is sent; while a repeated draft says what was said before, nothing is; and
    where the two part, the new text follows whole, after an empty line.
    """

    def __init__(self) -> None:
        self._place = (0, 0)
        self._draft = ""
        self._sent = ""
        """Of the running draft; the same object as `_draft` while nothing is missing."""
        self._all: list[str] = []

    def heard(self, change: DraftChanged) -> str:
        """Return what to send now; empty for nothing."""
        place = (change.turn, change.call)
        if place != self._place:
            self._place = place
            self._draft = self._sent = ""
        if not change.whole and self._sent is self._draft:
            return self._send(self._draft + change.text)
        self._draft = change.text if change.whole else self._draft + change.text
        return self._catch_up(self._draft)

    def finish(self, final: str) -> str:
        """Return what is missing of the final text."""
        everything = "".join(self._all)
        if everything.endswith(final):
            return ""
        if everything and final.startswith(everything):
            return final[len(everything) :]
        return self._catch_up(final)

    def _catch_up(self, target: str) -> str:
        if self._sent.startswith(target):
            return ""
        if not target.startswith(self._sent):
            self._sent = ""
        return self._send(target)

    def _send(self, target: str) -> str:
        piece = target[len(self._sent) :]
        if not self._sent and self._all and piece:
            piece = "\n\n" + piece
        self._draft = self._sent = target
        if piece:
            self._all.append(piece)
        return piece
