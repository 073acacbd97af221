"""From bytes to text, whatever a mail says of them. Pure and total.

Many mails name a character set and use a larger one of the same family: `gb2312` for
GBK, `iso-8859-1` for Windows' own, `shift_jis` and `iso-2022-jp` with the circled digits
that only makers of computers had. Programs that show mails read them as the larger set,
and so do we.
"""

import codecs
import re
from collections.abc import Mapping

_LARGER: Mapping[str, tuple[str, ...]] = {
    "ascii": ("utf-8", "cp1252"),
    "iso8859-1": ("cp1252", "latin-1"),
    "iso8859-9": ("cp1254", "iso8859-9"),
    "iso8859-11": ("cp874",),
    "tis-620": ("cp874",),
    "gb2312": ("gb18030",),
    "gbk": ("gb18030",),
    "big5": ("cp950", "big5hkscs"),
    "shift_jis": ("cp932", "shift_jis_2004"),
    "euc_jp": ("euc_jp", "euc_jis_2004"),
    "euc_kr": ("cp949",),
}
"""By the name that Python gives the set: what it is read as, the first that fits."""

_ALIASES: Mapping[str, str] = {
    "x-gbk": "gbk",
    "windows-936": "gbk",
    "x-sjis": "shift_jis",
    "windows-31j": "shift_jis",
    "x-euc-jp": "euc_jp",
    "ks_c_5601-1989": "euc_kr",
    "windows-949": "euc_kr",
    "x-windows-949": "euc_kr",
    "iso-8859-8-i": "iso8859-8",
    "iso-8859-8-e": "iso8859-8",
    "iso-8859-6-i": "iso8859-6",
    "iso-8859-6-e": "iso8859-6",
    "windows-874": "cp874",
    "x-mac-roman": "mac_roman",
    "unicode-1-1-utf-7": "utf-7",
    "utf8mb4": "utf-8",
}
"""Names that Python does not know."""

_NO_TEXT = frozenset({"punycode", "idna", "unicode_escape", "raw_unicode_escape", "undefined"})
"""Python's own ways of writing text, which are nobody's character set; some take minutes for a long mail."""

_MANY_BYTES = re.compile(rb"[\xc2-\xdf][\x80-\xbf]|[\xe0-\xef][\x80-\xbf]{2}|[\xf0-\xf4][\x80-\xbf]{3}")


def decoded(raw: bytes, charset: str | None) -> str:
    """Return the text. What cannot be read becomes U+FFFD, and costs nothing else of it."""
    name = _python_name(charset)
    if name is not None and name.startswith("iso2022_jp"):
        return _japanese(raw, name)
    candidates = () if name is None else _LARGER.get(name, (name,))
    for candidate in candidates:
        try:
            return raw.decode(candidate)
        except UnicodeError:
            continue
    try:
        return raw.decode("utf-8")
    except UnicodeError:
        pass
    if candidates and candidates[0] != "utf-8":
        return raw.decode(candidates[0], "replace")
    # It was to be UTF-8, or nobody knows: with nothing of UTF-8 in it, it is what the West had before.
    return raw.decode("utf-8" if _MANY_BYTES.search(raw) else "cp1252", "replace")


def _python_name(charset: str | None) -> str | None:
    """Return Python's name of a set; None for what is none."""
    said = (charset or "").strip().strip("\"'").lower()
    try:
        name = codecs.lookup(_ALIASES.get(said, said)).name
    except (LookupError, ValueError):
        return None
    if name.replace("-", "_") in _NO_TEXT:
        return None
    try:
        b"a".decode(name)
    except LookupError:
        return None  # a way of packing bytes, such as `zlib`
    except UnicodeError:
        pass  # it has more than one byte to a letter
    return name


def _japanese(raw: bytes, name: str) -> str:
    """Read seven-bit Japanese; the larger set has the same places, and another mark to begin it."""
    for candidate, text in (
        (name, raw),
        ("iso2022_jp_ext", raw),
        ("iso2022_jp_2004", raw.replace(b"\x1b$B", b"\x1b$(Q")),
    ):
        try:
            return text.decode(candidate)
        except UnicodeError:
            continue
    return raw.decode(name, "replace")
