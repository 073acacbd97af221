"""`callboard chat` without a terminal: one message per line of the input, plain text out."""

import asyncio

from actors.console.cli.client import ControlClient, cancel
from actors.console.cli.conversation import Conversation
from actors.console.cli.invocation import ExitCode, Invocation
from actors.console.cli.printable import printable
from messages.ids import SessionKey


class LineView:
    """Answers on standard output, everything else on standard error."""

    def __init__(self, invocation: Invocation) -> None:
        self._invocation = invocation

    def markdown(self, text: str) -> None:
        self._invocation.out(printable(text.rstrip("\n")))

    def remark(self, text: str) -> None:
        self._invocation.note(f"· {printable(text)}")

    def trouble(self, text: str) -> None:
        self._invocation.note(f"! {printable(text)}")

    def said(self, author: str, text: str) -> None:
        self._invocation.note(printable(f"{author}: {text}"))

    def changed(self) -> None:
        pass


async def chat_by_lines(invocation: Invocation, client: ControlClient, key: SessionKey, chat: str) -> int:
    """Say each line and wait for its answer. Returns FAILED when one got none.

    A backslash at the end of a line joins the next line to it.
    """
    conversation = Conversation(client, key, chat, LineView(invocation), can_confirm=False)
    following = asyncio.ensure_future(conversation.run())
    try:
        while (text := await _next_message(invocation)) is not None:
            if not text.strip():
                continue
            if text.strip() in {"/quit", "/exit"}:
                break
            conversation.say(text)
            waiting = asyncio.ensure_future(conversation.settled())
            await asyncio.wait((waiting, following), return_when=asyncio.FIRST_COMPLETED)
            if following.done():
                await cancel(waiting)
                following.result()
    finally:
        await cancel(following)
    return ExitCode.FAILED if conversation.state.failures else ExitCode.OK


async def _next_message(invocation: Invocation) -> str | None:
    loop = asyncio.get_running_loop()
    lines: list[str] = []
    while line := await loop.run_in_executor(None, invocation.stdin.readline):
        bare = line.rstrip("\r\n")
        if not bare.endswith("\\"):
            lines.append(bare)
            return "\n".join(lines)
        lines.append(bare[:-1])
    return "\n".join(lines) if lines else None
