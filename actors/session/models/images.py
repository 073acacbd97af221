"""Images for a request: read, recognised by their first bytes, kept within what providers take.

An image that no provider would take is replaced by words about it, so that it cannot
spoil every later request of its conversation. Nothing is scaled.
"""

import base64
import struct
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

from messages.blocks import Entry, ImageBlock, UserEntry

MOST_EDGE = 8000
MOST_EDGE_OF_MANY = 2000
MANY = 20
MOST_BYTES = 5_000_000
"""Of one image, as base64."""
MOST_BYTES_IN_ALL = 20_000_000
MOST_IMAGES = 100
GONE = "its file is gone"


@dataclass(frozen=True, slots=True)
class Picture:
    """An image as it goes out."""

    mime: str
    data: str
    """In base64."""


@dataclass(frozen=True, slots=True)
class Pictures:
    """The images of a request by path: those that are shown, and why others are not."""

    shown: dict[str, Picture] = field(default_factory=dict)
    hidden: dict[str, str] = field(default_factory=dict)


NO_PICTURES = Pictures()


def paths_of(entries: Iterable[Entry]) -> tuple[str, ...]:
    """Return where the images of a history are, in their order, each once."""
    found: dict[str, None] = {}
    for entry in entries:
        if isinstance(entry, UserEntry):
            found.update((block.path, None) for block in entry.blocks if isinstance(block, ImageBlock))
    return tuple(found)


def read_pictures(paths: tuple[str, ...]) -> Pictures:
    """Read images from their files; the newest first have room. Blocks: call it in a thread."""
    pictures = Pictures()
    edge = MOST_EDGE_OF_MANY if len(paths) > MANY else MOST_EDGE
    left = MOST_BYTES_IN_ALL
    for path in reversed(paths):
        if len(pictures.shown) >= MOST_IMAGES:
            pictures.hidden[path] = "too many images came after it"
            continue
        read = _read(path, edge)
        if isinstance(read, str):
            pictures.hidden[path] = read
        elif len(read.data) > left:
            pictures.hidden[path] = "newer images took the room"
        else:
            pictures.shown[path] = read
            left -= len(read.data)
    return pictures


def _read(path: str, edge: int) -> Picture | str:
    try:
        size = Path(path).stat().st_size
        if size * 4 // 3 > MOST_BYTES:
            return f"its {size:,} bytes are too many"
        content = Path(path).read_bytes()
    except FileNotFoundError:
        return GONE
    except (OSError, ValueError) as error:
        return f"its file cannot be read ({type(error).__name__})"
    mime = recognise(content)
    if mime is None:
        return "it is no PNG, JPEG, GIF or WebP"
    width, height = measure(content, mime)
    if max(width, height) > edge:
        return f"{width} by {height} pixels are more than {edge} on a side"
    return Picture(mime, base64.b64encode(content).decode("ascii"))


def recognise(content: bytes) -> str | None:
    """Return the media type by the first bytes, whatever the file is called."""
    if content.startswith(b"\x89PNG\r\n\x1a\n"):
        return "image/png"
    if content.startswith(b"\xff\xd8\xff"):
        return "image/jpeg"
    if content[:6] in (b"GIF87a", b"GIF89a"):
        return "image/gif"
    if content[:4] == b"RIFF" and content[8:12] == b"WEBP":
        return "image/webp"
    return None


def measure(content: bytes, mime: str) -> tuple[int, int]:
    """Return width and height in pixels; (0, 0) when the header does not tell."""
    try:
        match mime:
            case "image/png":
                width, height = struct.unpack(">II", content[16:24])
            case "image/gif":
                width, height = struct.unpack("<HH", content[6:10])
            case "image/webp":
                width, height = _measure_webp(content)
            case _:
                width, height = _measure_jpeg(content)
    except (struct.error, IndexError):
        return 0, 0
    return int(width), int(height)


def _measure_webp(content: bytes) -> tuple[int, int]:
    form = content[12:16]
    if form == b"VP8X":
        return (
            1 + int.from_bytes(content[24:27], "little"),
            1 + int.from_bytes(content[27:30], "little"),
        )
    if form == b"VP8L":
        bits = int.from_bytes(content[21:25], "little")
        return 1 + (bits & 0x3FFF), 1 + (bits >> 14 & 0x3FFF)
    width, height = struct.unpack("<HH", content[26:30])
    return width & 0x3FFF, height & 0x3FFF


def _measure_jpeg(content: bytes) -> tuple[int, int]:
    at = 2
    while at + 9 < len(content) and content[at] == 0xFF:
        marker = content[at + 1]
        if marker == 0xFF:
            at += 1
            continue
        if 0xC0 <= marker <= 0xCF and marker not in (0xC4, 0xC8, 0xCC):
            height, width = struct.unpack(">HH", content[at + 5 : at + 9])
            return width, height
        at += 2 + int.from_bytes(content[at + 2 : at + 4], "big")
    return 0, 0
