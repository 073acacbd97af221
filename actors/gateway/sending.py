"""Saying something in a chat in nobody's conversation: `callboard send`, through the outboxes.

What is said goes the way of every reply: into the outbox's journal, cut to the
platform's limits, once. Who asked waits for the end for a while; what has not ended by
then stays owed and goes out later.
"""

import asyncio
import mimetypes
import os
import secrets
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

from actors.gateway.targets import Local, resolve
from messages.blocks import FileBlock
from messages.gateway import ChatType, Origin, Part, Say, SayingFailed, SayingSucceeded
from messages.ids import DeliveryId, SessionKey
from messages.sending import SendAsked, SendEnded

PREFIX: Final = "send-"
"""Of the ids of such deliveries: no session waits for their ends."""

NOWHERE: Final = Origin(platform="send", chat_type=ChatType.GROUP, chat="send")
KEY: Final = SessionKey("send")
MOST_REMEMBERED: Final = 1000

_Ending = SayingSucceeded | SayingFailed


class SendRefusedError(Exception):
    """Nothing was said; the text says why."""


class Sender:
    """Hands orders to the delivery room, and knows who waits for them."""

    def __init__(
        self,
        deliver: Callable[[Say], None],
        homes: Callable[[], Mapping[str, str | None]],
        files: Path,
    ) -> None:
        """Keep copies of files below `files` until they are sent."""
        self._deliver = deliver
        self._homes = homes
        self._files = files
        self._waiting: dict[DeliveryId, list[asyncio.Future[_Ending]]] = {}
        self._ended: dict[DeliveryId, _Ending] = {}

    async def send(self, asked: SendAsked) -> SendEnded:
        """Say it, and wait for the end as long as was asked. Raises SendRefusedError and OSError."""
        if not asked.text.strip() and asked.file is None:
            raise SendRefusedError("there is nothing to say")
        where = resolve(asked.target, NOWHERE, self._homes())
        if isinstance(where, Local) or where == NOWHERE:
            why = where.why if isinstance(where, Local) else ""
            raise SendRefusedError(why or f"{asked.target!r} is no chat: write platform:chat")
        delivery_id = _id_of(asked)
        ended = self._ended.get(delivery_id)
        if ended is None:
            ended = await self._say(asked, delivery_id)
        return _end(delivery_id, ended)

    async def _say(self, asked: SendAsked, delivery_id: DeliveryId) -> _Ending | None:
        file = None if asked.file is None else await asyncio.to_thread(self._kept, Path(asked.file))
        say = Say(
            delivery_id=delivery_id,
            session_key=KEY,
            origin=NOWHERE,
            parts=(Part(text=asked.text, file=file),),
            notice=True,
            target=asked.target,
        )
        ending: asyncio.Future[_Ending] = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(delivery_id, []).append(ending)
        try:
            self._deliver(say)
            async with asyncio.timeout(asked.wait_s):
                return await ending
        except TimeoutError:
            return None
        finally:
            waiting = self._waiting.get(delivery_id, [])
            if ending in waiting:
                waiting.remove(ending)
            if not waiting:
                self._waiting.pop(delivery_id, None)

    def ended(self, ending: _Ending) -> bool:
        """Take the end of a delivery; False when it is not one of these, and a session's instead."""
        if not ending.delivery_id.startswith(PREFIX):
            return False
        self._ended[ending.delivery_id] = ending
        while len(self._ended) > MOST_REMEMBERED:
            del self._ended[next(iter(self._ended))]
        for waiting in self._waiting.pop(ending.delivery_id, []):
            if not waiting.done():
                waiting.set_result(ending)
        return True

    def _kept(self, path: Path) -> FileBlock:
        """Copy a file to where it stays until it is sent. Raises OSError."""
        if not path.is_absolute() or not path.is_file():
            raise SendRefusedError(f"there is no file {path}")
        self._files.mkdir(mode=0o700, parents=True, exist_ok=True)
        suffix = path.suffix if path.suffix[1:].isalnum() and path.suffix.isascii() else ""
        copy = self._files / f"sent-{secrets.token_hex(12)}{suffix[:16]}"
        with path.open("rb") as source:
            handle = os.open(copy, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
            with os.fdopen(handle, "wb") as target:
                shutil.copyfileobj(source, target)
        return block_of(copy, path.name)


def block_of(path: Path, name: str) -> FileBlock:
    """Describe a file that is to be posted."""
    mime = mimetypes.guess_type(name)[0] or "application/octet-stream"
    return FileBlock(name=name, mime=mime, path=str(path), size=path.stat().st_size)


def _id_of(asked: SendAsked) -> DeliveryId:
    given = asked.delivery_id
    if given is None:
        return DeliveryId(PREFIX + secrets.token_hex(12))
    return given if given.startswith(PREFIX) else DeliveryId(PREFIX + given)


def _end(delivery_id: DeliveryId, ending: _Ending | None) -> SendEnded:
    match ending:
        case None:
            return SendEnded(delivery_id=delivery_id, state="owed")
        case SayingSucceeded():
            return SendEnded(delivery_id=delivery_id, state="posted", receipt=ending.receipt)
        case SayingFailed():
            return SendEnded(delivery_id=delivery_id, state="failed", why=ending.why)
