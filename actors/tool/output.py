"""What a command writes, kept within bounds while it comes: cleaned, its head and its tail.

Output may be endless, one line, binary, or a progress bar repainted a hundred
thousand times. Nothing here holds more than the budget and one piece of input.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass

_ESCAPE = re.compile(
    rb"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[PX^_][^\x1b]*\x1b\\|[ -/]*[0-OQ-WYZ\\`-~])"
)
_HELD_ESCAPE = 256
_HELD_LINE = 8192
_SNIFFED = 8192
_CONTINUATION, _LEAD = 0x80, 0xC0

_MAGIC: tuple[tuple[bytes, str], ...] = (
    (b"\x89PNG\r\n\x1a\n", "image/png"),
    (b"\xff\xd8\xff", "image/jpeg"),
    (b"GIF87a", "image/gif"),
    (b"GIF89a", "image/gif"),
    (b"%PDF-", "application/pdf"),
    (b"PK\x03\x04", "application/zip"),
    (b"\x1f\x8b", "application/gzip"),
    (b"BZh", "application/x-bzip2"),
    (b"\xfd7zXZ\x00", "application/x-xz"),
    (b"\x28\xb5\x2f\xfd", "application/zstd"),
    (b"7z\xbc\xaf\x27\x1c", "application/x-7z-compressed"),
    (b"\x7fELF", "application/x-executable"),
    (b"SQLite format 3\x00", "application/vnd.sqlite3"),
    (b"OggS", "audio/ogg"),
    (b"ID3", "audio/mpeg"),
    (b"fLaC", "audio/flac"),
    (b"\x00asm", "application/wasm"),
)


def binary_type(start: bytes) -> str | None:
    """Say what kind of binary data begins like this; None for text in any encoding we read."""
    for magic, mime in _MAGIC:
        if start.startswith(magic):
            return mime
    if start.startswith(b"RIFF") and start[8:12] in {b"WEBP", b"WAVE", b"AVI "}:
        return {b"WEBP": "image/webp", b"WAVE": "audio/wav", b"AVI ": "video/x-msvideo"}[start[8:12]]
    if start[4:8] == b"ftyp":
        return "video/mp4"
    if start.startswith((b"\xff\xfe", b"\xfe\xff")):
        return None  # UTF-16 with its mark
    sniffed = start[:_SNIFFED]
    if b"\x00" in sniffed:
        return "application/octet-stream"
    controls = sum(sniffed.count(bytes([byte])) for byte in (*range(1, 7), *range(14, 27), *range(28, 32)))
    return "application/octet-stream" if controls > len(sniffed) * 0.1 else None


def decode(data: bytes) -> str:
    """Return text for bytes, whatever they are: UTF-16 by its mark, else UTF-8; U+FFFD for the rest."""
    if data.startswith((b"\xff\xfe", b"\xfe\xff")):
        return data.decode("utf-16", "replace")
    return data.removeprefix(b"\xef\xbb\xbf").decode("utf-8", "replace").replace("\x00", "\ufffd")


class Cleaner:
    """Takes out colours and cursor movements, and leaves of a repainted line its last state."""

    def __init__(self) -> None:
        self._held = b""

    def feed(self, data: bytes) -> bytes:
        """Return what is settled; the last, unfinished line may be held back."""
        data = self._held + data
        line = data.rfind(b"\n") + 1
        repainted = data.rfind(b"\r", line, len(data.rstrip(b"\r")))
        if repainted >= 0:
            data = data[:line] + data[repainted + 1 :]
        cut = self._settled(data, line)
        data, self._held = data[:cut], data[cut:]
        return _clean(data)

    def end(self) -> bytes:
        """Return what was held back."""
        held, self._held = self._held, b""
        return _clean(held)

    @staticmethod
    def _settled(data: bytes, line: int) -> int:
        """Say up to where more input cannot change what this means."""
        if len(data) - line <= _HELD_LINE:
            return line
        escape = data.rfind(b"\x1b", len(data) - _HELD_ESCAPE)
        if escape >= 0:
            return escape
        return len(data.rstrip(b"\r"))


def _clean(data: bytes) -> bytes:
    if b"\x1b" in data:
        data = _ESCAPE.sub(b"", data).replace(b"\x1b", b"")
    if b"\r" not in data:
        return data
    data = data.replace(b"\r\n", b"\n")
    if b"\r" not in data:
        return data
    return b"\n".join(_last_state(line) for line in data.split(b"\n"))


def _last_state(line: bytes) -> bytes:
    line = line.rstrip(b"\r")
    return line[line.rfind(b"\r") + 1 :]


@dataclass(frozen=True, slots=True)
class Cut:
    """Text cut to a budget."""

    text: str
    dropped: int
    """Bytes of UTF-8 that are not in `text`."""


class HeadAndTail:
    """Keeps the beginning and the end of any amount of bytes, and counts all of them."""

    def __init__(self, budget: int) -> None:
        self._head_size = budget // 3
        self._tail_size = budget - self._head_size
        self._head = bytearray()
        self._tail = bytearray()
        self.total = 0

    def feed(self, data: bytes) -> None:
        self.total += len(data)
        room = self._head_size - len(self._head)
        if room > 0:
            self._head += data[:room]
            data = data[room:]
        if len(data) >= self._tail_size:
            self._tail = bytearray(data[len(data) - self._tail_size :])
        elif data:
            self._tail += data
            if len(self._tail) > 2 * self._tail_size:
                del self._tail[: len(self._tail) - self._tail_size]

    def start(self) -> bytes:
        """Return the first bytes, as many as were kept."""
        return bytes(self._head) or bytes(self._tail)

    def last_line(self) -> str:
        """Return the last line that is not empty, for a progress report."""
        end = bytes(self._tail[-400:] or self._head[-400:]).rstrip()
        return decode(end[end.rfind(b"\n") + 1 :])[-200:].strip()

    def text(self, note: Callable[[int], str]) -> Cut:
        """Return the text; where something is left out, `note(dropped bytes)` stands for it."""
        tail = bytes(self._tail[-self._tail_size :])
        if self.total <= len(self._head) + len(tail):
            return Cut(decode(bytes(self._head) + tail), 0)
        head, tail = whole_end(bytes(self._head)), whole_start(tail)
        dropped = self.total - len(head) - len(tail)
        return Cut(decode(head) + note(dropped) + decode(tail), dropped)


def whole_end(data: bytes) -> bytes:
    """Return the bytes without a UTF-8 character that is cut at their end."""
    for back in range(1, min(4, len(data)) + 1):
        byte = data[-back]
        if byte < _CONTINUATION:
            return data
        if byte >= _LEAD:
            needed = 4 if byte >= 0xF0 else 3 if byte >= 0xE0 else 2
            return data[:-back] if needed > back else data
    return data


def whole_start(data: bytes) -> bytes:
    """Return the bytes without the rest of a UTF-8 character that is cut at their start."""
    for skip in range(min(4, len(data))):
        if not _CONTINUATION <= data[skip] < _LEAD:
            return data[skip:]
    return data


def cut_text(text: str, budget: int, note: Callable[[int], str]) -> Cut:
    """Cut a text to a budget of UTF-8 bytes, `note` included: its head, the note, its tail."""
    data = text.encode("utf-8", "replace")
    if len(data) <= budget:
        return Cut(text, 0)
    room = max(budget - len(note(len(data)).encode("utf-8", "replace")), 2)
    head = whole_end(data[: room // 3])
    tail = whole_start(data[len(data) - (room - room // 3) :])
    dropped = len(data) - len(head) - len(tail)
    return Cut(head.decode("utf-8", "replace") + note(dropped) + tail.decode("utf-8", "replace"), dropped)
