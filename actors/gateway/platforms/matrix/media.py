"""Files: what people attach is fetched, what we attach is uploaded."""

import asyncio
import mimetypes
from collections.abc import AsyncIterator
from pathlib import Path

import aiohttp
import structlog

from actors.gateway.attachments import (
    TooLargeError,
    image_type,
    in_words,
    not_fetched,
    safe_name,
    saved,
    saved_at_once,
    too_large,
)
from actors.gateway.edge import EdgeError
from actors.gateway.platforms.matrix.render import Content
from actors.gateway.platforms.matrix.session import MEDIA, Session, decrypt_file, encrypt_file, path
from actors.gateway.platforms.matrix.translate import Media
from messages.blocks import FileBlock, ImageBlock, UserBlock
from messages.delivery import PartText, ProblemKind

log = structlog.get_logger(__name__)

FETCH_S = 60.0
UPLOAD_S = 120.0


class Files:
    """Fetches and uploads over one session."""

    def __init__(self, session: Session, folder: Path, fetch_bytes: int, file_bytes: int) -> None:
        self._session = session
        self._folder = folder
        self._fetch_bytes = fetch_bytes
        self._file_bytes = file_bytes
        """Ours; the server may allow less."""

    async def ask_limit(self) -> None:
        """Learn the server's own limit for uploads."""
        try:
            told = await self._session.call("GET", path("config", base=MEDIA))
        except EdgeError as error:
            log.debug("the server does not tell its limit for uploads", why=error.problem.detail)
            return
        limit = told.get("m.upload.size")
        if isinstance(limit, int) and not isinstance(limit, bool) and limit > 0:
            self._file_bytes = min(self._file_bytes, limit)

    # ------------------------------------------------------------------ in

    async def fetch(self, media: Media) -> UserBlock:
        """Fetch an attachment; what cannot be fetched becomes a text that says so."""
        if media.size is not None and media.size > self._fetch_bytes:
            return too_large(media.name, media.size, self._fetch_bytes)
        try:
            async with asyncio.timeout(FETCH_S):
                return await self._fetched(media)
        except TooLargeError as error:
            return too_large(media.name, error.size, self._fetch_bytes)
        except TimeoutError:
            why = "it did not come in time"
        except EdgeError as error:
            why = f"it could not be fetched ({error.problem.detail})"
        except (aiohttp.ClientError, OSError, ValueError) as error:
            why = f"it could not be fetched ({type(error).__name__}: {error})"
        log.warning("an attachment was not fetched", size=media.size, why=why)
        return not_fetched(media.name, media.size, why[:200])

    async def _fetched(self, media: Media) -> UserBlock:
        server, _, name = media.mxc.removeprefix("mxc://").partition("/")
        answer = await self._session.fetch(path("download", server, name, base=MEDIA))
        try:
            if answer.content_length is not None and answer.content_length > self._fetch_bytes:
                raise TooLargeError(answer.content_length)
            chunks = answer.content.iter_chunked(65_536)
            if media.secret is None:
                return await saved(self._folder, media.name, media.mime, chunks, limit=self._fetch_bytes)
            hidden = await _whole(chunks, self._fetch_bytes)
        finally:
            answer.close()
        plain = await asyncio.to_thread(decrypt_file, hidden, media.secret)
        return await asyncio.to_thread(saved_at_once, self._folder, media.name, media.mime, plain)

    # ------------------------------------------------------------------ out

    async def content(self, body: PartText, *, hidden: bool) -> Content:
        """Upload what a part carries; return the content of its event. Raises EdgeError."""
        name, mime, data = await self._read(body)
        if len(data) > self._file_bytes:
            raise EdgeError(
                ProblemKind.REFUSED,
                f"{name} has {in_words(len(data))}; the server takes files up to {in_words(self._file_bytes)}",
            )
        info = {"mimetype": mime, "size": len(data)}
        content: Content = {"msgtype": _kind(mime), "body": name, "filename": name, "info": info}
        try:
            async with asyncio.timeout(UPLOAD_S):
                return content | await self._uploaded(name, mime, data, hidden=hidden)
        except TimeoutError:
            # The message that would name it comes after it: nothing was posted.
            raise EdgeError(ProblemKind.TRANSIENT, "the file could not be uploaded in time") from None

    async def _uploaded(self, name: str, mime: str, data: bytes, *, hidden: bool) -> Content:
        if not hidden:
            return {"url": await self._session.upload(data, len(data), mime, name)}
        shut, secret = await asyncio.to_thread(encrypt_file, data)
        mxc = await self._session.upload(shut, len(shut), "application/octet-stream", "")
        return {"file": {**secret, "url": mxc}}

    async def _read(self, body: PartText) -> tuple[str, str, bytes]:
        match body.file:
            case FileBlock() as file:
                name, given = safe_name(file.name), file.mime
            case ImageBlock() as image:
                name, given = safe_name(Path(image.path).name), image.mime
            case None:
                name = safe_name(body.file_name or "answer.md")
                return name, mimetypes.guess_type(name)[0] or "text/plain", body.text.encode()
        if body.file.size > self._file_bytes:
            raise EdgeError(
                ProblemKind.REFUSED,
                f"{name} has {in_words(body.file.size)}; "
                f"the server takes files up to {in_words(self._file_bytes)}",
            )
        try:
            data = await asyncio.to_thread(Path(body.file.path).read_bytes)
        except OSError as error:
            raise EdgeError(ProblemKind.REFUSED, f"{name} cannot be read: {error.strerror}") from None
        return name, image_type(data[:16]) or given, data


async def _whole(chunks: AsyncIterator[bytes], limit: int) -> bytes:
    got = bytearray()
    async for chunk in chunks:
        got += chunk
        if len(got) > limit:
            raise TooLargeError(len(got))
    return bytes(got)


def _kind(mime: str) -> str:
    major = mime.partition("/")[0]
    return f"m.{major}" if major in {"image", "audio", "video"} else "m.file"
