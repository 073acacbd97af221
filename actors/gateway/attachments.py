"""What people attach: into files of ours, under names of ours, within a limit. For edges.

    blocks.append(await saved(folder, "photo.png", chunks, limit=20_000_000))

An image is told by its bytes, never by its name or by what the sender calls it.
"""

import asyncio
import os
import re
import secrets
import unicodedata
from collections.abc import AsyncIterator
from pathlib import Path
from typing import BinaryIO

from messages.blocks import FileBlock, ImageBlock, TextBlock, UserBlock

LONGEST_NAME = 120
_HEAD = 16
_SUFFIX = re.compile(r"\.([A-Za-z0-9]{1,8})$")
_MIME = re.compile(r"^[\w.+-]{1,60}/[\w.+-]{1,100}$")


class TooLargeError(Exception):
    """A file is larger than may be fetched; `size` is what is known of it."""

    def __init__(self, size: int) -> None:
        super().__init__(f"{size} bytes")
        self.size = size


def safe_name(name: str, otherwise: str = "file") -> str:
    """Return the last part of a name, without what is not seen or turns the writing around."""
    base = re.split(r"[/\\]", name)[-1]
    kept = "".join(
        c for c in base if unicodedata.category(c) not in {"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"}
    )
    kept = kept.strip(" .")
    if len(kept) > LONGEST_NAME:
        suffix = _SUFFIX.search(kept)
        end = suffix[0] if suffix else ""
        kept = kept[: LONGEST_NAME - len(end)] + end
    return kept or otherwise


def image_type(head: bytes) -> str | None:
    """Tell an image that models can see by its first bytes."""
    if head.startswith(b"\x89PNG\r\n\x1a\n"):
        return "image/png"
    if head.startswith(b"\xff\xd8\xff"):
        return "image/jpeg"
    if head.startswith((b"GIF87a", b"GIF89a")):
        return "image/gif"
    return "image/webp" if head[:4] == b"RIFF" and head[8:12] == b"WEBP" else None


def in_words(size: int) -> str:
    """Return a size for people: `40 MB`."""
    for unit, of in (("GB", 1_000_000_000), ("MB", 1_000_000), ("kB", 1000)):
        if size >= of:
            return f"{size / of:.3g} {unit}"
    return f"{size} bytes"


def too_large(name: str, size: int | None, limit: int) -> TextBlock:
    """Return what the model sees in the place of a file that is too large."""
    known = in_words(size) if size is not None else "size unknown"
    why = f"larger than the {in_words(limit)} that can be fetched here"
    return TextBlock(text=f"[file {safe_name(name)}, {known}: {why}]")


def not_fetched(name: str, size: int | None, why: str) -> TextBlock:
    """Return what the model sees in the place of a file that could not be fetched."""
    known = f", {in_words(size)}" if size is not None else ""
    return TextBlock(text=f"[file {safe_name(name)}{known}: {why}]")


async def saved(folder: Path, name: str, mime: str, chunks: AsyncIterator[bytes], *, limit: int) -> UserBlock:
    """Write a file as it comes. Raises TooLargeError at the limit, and keeps nothing then."""
    path, file = await asyncio.to_thread(_opened, folder, name)
    head, size = b"", 0
    try:
        with file:
            async for chunk in chunks:
                size += len(chunk)
                _within(size, limit)
                head = (head + chunk)[:_HEAD] if len(head) < _HEAD else head
                await asyncio.to_thread(file.write, chunk)
    except BaseException:
        path.unlink(missing_ok=True)
        raise
    return block(path, name, mime, head, size)


def _within(size: int, limit: int) -> None:
    if size > limit:
        raise TooLargeError(size)


def saved_at_once(folder: Path, name: str, mime: str, data: bytes) -> UserBlock:
    """Write a file that is in memory already."""
    path, file = _opened(folder, name)
    with file:
        file.write(data)
    return block(path, name, mime, data[:_HEAD], len(data))


def block(path: Path, name: str, mime: str, head: bytes, size: int) -> UserBlock:
    """Describe a file of ours: an image by its bytes, any other by what the sender calls it."""
    image = image_type(head)
    if image is not None:
        return ImageBlock(mime=image, path=str(path), size=size)
    mime = mime if _MIME.match(mime) and not mime.startswith("image/") else "application/octet-stream"
    return FileBlock(name=safe_name(name), mime=mime, path=str(path), size=size)


def _opened(folder: Path, name: str) -> tuple[Path, BinaryIO]:
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    suffix = _SUFFIX.search(safe_name(name))
    path = folder / (secrets.token_hex(16) + (suffix[0].lower() if suffix else ""))
    return path, os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb")
