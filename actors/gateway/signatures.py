"""Comparing secrets and signatures that came over a wire: on bytes, in constant time, and never raising.

A header can hold any bytes, and a secret any characters; `hmac.compare_digest` takes
neither as text. What came is turned back into the bytes that were on the wire.
"""

import base64
import hmac
from typing import Literal

Algorithm = Literal["sha1", "sha256", "sha512"]


def wire_bytes(text: str | bytes) -> bytes:
    """Return what stood on the wire, where a server made text of it (UTF-8; bytes that are none, escaped)."""
    if isinstance(text, bytes):
        return text
    try:
        return text.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        return text.encode("utf-8", "surrogatepass")


def same(given: str | bytes, wanted: str | bytes) -> bool:
    """Say whether a secret is the right one. An empty one never is.

    A secret of ours beyond ASCII is accepted in UTF-8, and in Latin-1, in which many
    HTTP clients write headers.
    """
    came, forms = wire_bytes(given), [wire_bytes(wanted)]
    if isinstance(wanted, str) and not wanted.isascii():
        forms.append(wanted.encode("latin-1", "ignore") if _is_latin(wanted) else forms[0])
    found = [hmac.compare_digest(came, form) for form in forms]
    return bool(forms[0]) and any(found)


def _is_latin(text: str) -> bool:
    return all(ord(character) < 256 for character in text)


def hmac_matches(
    given: str | bytes,
    secret: str | bytes,
    signed: bytes,
    *,
    algorithm: Algorithm = "sha256",
    prefix: str = "",
    form: Literal["hex", "base64"] = "hex",
) -> bool:
    """Say whether a signature is the HMAC of `signed`, written in `form` after `prefix` (`sha256=`).

    Hexadecimal digits may be of either case. Without a secret nothing matches.
    """
    key = wire_bytes(secret)
    digest = hmac.digest(key, signed, algorithm)
    written = digest.hex().encode() if form == "hex" else base64.b64encode(digest)
    came = wire_bytes(given)
    if form == "hex":
        head = len(prefix)
        came = came[:head] + came[head:].lower()
    return hmac.compare_digest(came, prefix.encode() + written) and bool(key)
