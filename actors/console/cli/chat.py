"""`callboard chat`: talk in the terminal, or from a file or a pipe."""

from actors.clock import Clock, WallClock
from actors.console.cli.attach import attached
from actors.console.cli.chat_lines import chat_by_lines
from actors.console.cli.invocation import Invocation


async def chat(invocation: Invocation, session: str, clock: Clock | None = None) -> int:
    """Join or start a house and talk, in the way that input and output allow."""
    clock = clock or WallClock()
    async with attached(invocation, clock) as way:
        key = await way.client.key_of(session)
        if invocation.stdin.isatty() and invocation.stdout.isatty():
            # It brings prompt_toolkit and rich, which a pipe does not need.
            from actors.console.cli.chat_terminal import chat_in_terminal  # noqa: PLC0415

            return await chat_in_terminal(invocation, way, key, session, clock)
        return await chat_by_lines(invocation, way.client, key, session)
