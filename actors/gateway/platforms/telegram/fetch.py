"""Fetching what people attach: checked before, streamed into a folder of ours, and never in anybody's way.

A file that is too large, or does not come in time, becomes a line of text that says so.
"""

import asyncio
import re
import secrets
import shutil
from collections.abc import Sequence
from pathlib import Path

import structlog

from actors.clock import Clock
from actors.gateway.edge import EdgeError
from actors.gateway.platforms.telegram.api import Api
from actors.gateway.platforms.telegram.media import Attached, text
from messages.blocks import FileBlock, ImageBlock, TextBlock, UserBlock
from messages.delivery import ProblemKind

log = structlog.get_logger(__name__)

AT_ONCE = 64
AT_ONCE_IN_A_CHAT = 8
"""One chat's slow files never keep another's from being fetched."""
_IMAGES = (
    (re.compile(rb"\x89PNG\r\n\x1a\n"), "image/png", ".png"),
    (re.compile(rb"\xff\xd8\xff"), "image/jpeg", ".jpg"),
    (re.compile(rb"GIF8[79]a"), "image/gif", ".gif"),
    (re.compile(rb"RIFF....WEBP", re.DOTALL), "image/webp", ".webp"),
)
_SUFFIX = re.compile(r"\.[A-Za-z0-9]{1,8}")


class Fetcher:
    """Fetches for one account; a few at once."""

    def __init__(
        self, api: Api, clock: Clock, folder: Path, *, most: int, patience_s: float, local: bool
    ) -> None:
        self._api = api
        self._clock = clock
        self._folder = folder
        self._most = most
        self._patience_s = patience_s
        self._local = local
        self._room = asyncio.Semaphore(AT_ONCE)
        self._rooms: dict[str, tuple[asyncio.Semaphore, int]] = {}
        """By chat, with for how many messages files are being fetched."""

    async def fetch(self, chat: str, files: Sequence[Attached]) -> tuple[UserBlock, ...]:
        """Fetch all of them at the same time; those that fail are said in words. Raises nothing."""
        room, users = self._rooms.get(chat, (asyncio.Semaphore(AT_ONCE_IN_A_CHAT), 0))
        self._rooms[chat] = (room, users + 1)
        try:
            return tuple(await asyncio.gather(*(self._one(each, room) for each in files)))
        finally:
            room, users = self._rooms[chat]
            if users > 1:
                self._rooms[chat] = (room, users - 1)
            else:
                del self._rooms[chat]

    async def _one(self, attached: Attached, room: asyncio.Semaphore) -> UserBlock:
        most = amount(self._most)
        if attached.size is not None and attached.size > self._most:
            return _missing(attached, f"larger than the {most} that can be fetched here")
        work, bell = asyncio.ensure_future(self._fetched(attached, room)), asyncio.Event()
        alarm = self._clock.call_later(self._patience_s, bell.set)
        late = asyncio.ensure_future(bell.wait())
        try:
            await asyncio.wait({work, late}, return_when=asyncio.FIRST_COMPLETED)
            if not work.done():
                return _missing(attached, f"it did not arrive within {self._patience_s:g} seconds")
            return work.result()
        except EdgeError as error:
            too_large = error.problem.kind is ProblemKind.REFUSED and "large" in error.problem.detail
            why = f"larger than the {most} that can be fetched here" if too_large else error.problem.detail
            return _missing(attached, why)
        except OSError as error:
            log.warning("what was attached cannot be kept", error=error.strerror or type(error).__name__)
            return _missing(attached, "it could not be kept")
        finally:
            alarm.cancel()
            work.cancel()
            late.cancel()
            await asyncio.gather(work, late, return_exceptions=True)

    async def _fetched(self, attached: Attached, room: asyncio.Semaphore) -> UserBlock:
        async with room, self._room:
            try:
                told = await self._api.call("getFile", file_id=attached.file_id)
            except EdgeError as error:
                if "file is too big" in error.problem.detail:
                    raise EdgeError(ProblemKind.REFUSED, "too large") from None
                raise
            path = text(told.get("file_path")) if isinstance(told, dict) else ""
            if not path or len(path) > 1000:
                raise EdgeError(ProblemKind.TRANSIENT, "the service does not say where it is")
            suffix = _SUFFIX.fullmatch(Path(attached.name).suffix)
            self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            to = self._folder / f"{secrets.token_hex(16)}{suffix[0].lower() if suffix else ''}"
            if self._local and path.startswith("/"):
                size = await asyncio.to_thread(_copied, Path(path), to, self._most)
            else:
                size = await self._api.download(path, to, self._most)
        return await asyncio.to_thread(_block, attached, to, size)


def _copied(source: Path, to: Path, most: int) -> int:
    size = source.stat().st_size
    if size > most:
        raise EdgeError(ProblemKind.REFUSED, "too large")
    shutil.copyfile(source, to)
    return size


def _block(attached: Attached, path: Path, size: int) -> ImageBlock | FileBlock:
    """What it is by its content, not by what its sender says."""
    path.chmod(0o600)
    with path.open("rb") as file:
        head = file.read(16)
    for pattern, mime, _ in _IMAGES:
        if pattern.match(head):
            return ImageBlock(mime=mime, path=str(path), size=size)
    return FileBlock(name=attached.name, mime=attached.mime, path=str(path), size=size)


def _missing(attached: Attached, why: str) -> TextBlock:
    if attached.kind == "image":
        return TextBlock(text=f"[image missing: {why}]")
    size = "" if attached.size is None else f", {amount(attached.size)}"
    return TextBlock(text=f"[{attached.kind} {attached.name}{size}: {why}]")


def amount(size: int) -> str:
    """A size for people. One byte over a limit must not look like the limit."""
    if size >= 1_000_000:
        return (
            f"{size // 1_000_000} MB"
            if size % 1_000_000 == 0
            else f"{size / 1_000_000:.6f}".rstrip("0") + " MB"
        )
    return f"{size / 1000:.1f} kB" if size >= 1000 else f"{size} bytes"
