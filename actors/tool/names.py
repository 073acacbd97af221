r"""File names as text that can be sent, stored, and given back.

A file name is bytes; some are not UTF-8, and some hold line breaks. Shown to a
model, such a byte becomes `\xNN`; given back, `\xNN` becomes the byte. A name that
holds the four characters `\xNN` itself is shown with its backslash as `\x5c`.
"""

import re

_ESCAPABLE = re.compile(r"[\x01-\x1f\x7f\udc80-\udcff]|\\(?=x[0-9a-fA-F]{2})")
_LONE_BYTE = re.compile(r"[\udc80-\udcff]")
_ESCAPE = re.compile(r"\\x([0-9a-fA-F]{2})")
_FIRST_HIGH = 0x80
_DELETE = 0x7F
_BACKSLASH = 0x5C
_FIRST_PRINTABLE = 0x20


def show_name(name: str) -> str:
    """Return a file name (as Python has it, with surrogate escapes) as plain, reversible text."""
    return _ESCAPABLE.sub(_escaped, name)


def read_name(text: str) -> str:
    """Return the file name that a text from `show_name` stands for."""
    if "\\x" not in text:
        return text
    raw = _ESCAPE.sub(_unescaped, text).encode("utf-8", "surrogateescape")
    return raw.decode("utf-8", "surrogateescape")


def show_bytes(text: str) -> str:
    r"""Write only surrogate escapes as `\xNN`: for names that reach us with them."""
    return _LONE_BYTE.sub(_escaped, text)


def _escaped(match: re.Match[str]) -> str:
    return f"\\x{ord(match[0]) & 0xFF:02x}"


def _unescaped(match: re.Match[str]) -> str:
    value = int(match[1], 16)
    if value >= _FIRST_HIGH:
        return chr(0xDC00 + value)
    if value in {_BACKSLASH, _DELETE} or 0 < value < _FIRST_PRINTABLE:
        return chr(value)
    return match[0]
