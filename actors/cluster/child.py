"""The thespian actor that becomes a process of ours: told where its line goes, it opens it and runs its program.

It says nothing over thespian's queues. They share one lock for all writers: a process
that is killed while it writes would silence every other for ever.
"""

import asyncio
import importlib
import json
import os
from typing import Any, Final

from thespian.actors import Actor

CLASS: Final = "actors.cluster.child.Child"
"""As thespian wants it named."""


class Child(Actor):  # type: ignore[misc] # thespian has no types
    """One process."""

    def receiveMessage(self, message: Any, sender: Any) -> None:  # noqa: ARG002, N802 thespian's
        """Begin, and never return."""
        if not isinstance(message, bytes):
            return  # thespian's own
        code = 1
        try:
            from actors.cluster.ties import plain_signals  # noqa: PLC0415 the administrator imports this module

            plain_signals()
            order = json.loads(message)
            asyncio.run(_live(order["socket"], order["token"], order["program"]))
            code = 0
        finally:
            os._exit(code)  # nothing of thespian's is to run any more: it would speak


async def _live(socket_path: str, token: str, program: str) -> None:
    from actors.cluster.wire import StreamChannel  # noqa: PLC0415 the same

    reader, writer = await asyncio.open_unix_connection(socket_path)
    channel = StreamChannel(reader, writer)
    await channel.tell(json.dumps({"token": token}).encode())
    module, _, function = program.partition(":")
    try:
        await getattr(importlib.import_module(module), function)(channel)
        await writer.drain()
    finally:
        writer.close()
