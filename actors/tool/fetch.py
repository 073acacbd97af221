"""Fetches a web page without being led to where nobody outside may go.

What counts is the address that is connected to, not what a URL looks like: every
address that a name resolves to is checked before, and the connector refuses any
other at the moment it makes the socket, so that a name which resolves differently
a second time gains nothing. Redirects are followed by hand, each with all checks.
"""

import asyncio
import codecs
import re
import socket
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import aiohttp
from aiohttp.abc import AbstractResolver, ResolveResult
from aiohttp.resolver import ThreadedResolver
from yarl import URL

from actors.tool.addresses import Policy, odd_notation, public, read_address
from actors.tool.output import binary_type
from actors.tool.readable import readable
from actors.tool.run import ToolError

REDIRECTS = 5
MOST_BYTES = 5 * 1024 * 1024
_MOST_MARKUP = 2 * 1024 * 1024
_TIMEOUT_S = 30.0
_PIECE = 65536
_REDIRECTING = frozenset({301, 302, 303, 307, 308})
_TEXT = re.compile(r"text/|application/(json|xml|javascript|yaml|x-yaml|toml|[\w.+-]*\+(json|xml))")
_CHARSET = re.compile(rb"""<meta[^>]{0,200}charset\s*=\s*["']?([\w.:-]{1,40})""", re.IGNORECASE)
_CODEC = re.compile(
    r"ascii|utf-8|utf-16(-[lb]e)?|utf-8-sig|iso8859-\d+|cp\d+|mac-\w+|koi8-\w|euc_\w+|shift_jis\w*|gb\w+|big5\w*|hz|iso2022_\w+|johab|tis-620"
)
_OURS = frozenset(
    {"host", "connection", "content-length", "transfer-encoding", "upgrade", "te", "trailer", "accept-encoding",
     "proxy-authorization", "proxy-connection", "keep-alive", "expect"}
)  # fmt: skip
_HARMLESS = frozenset({"accept", "accept-language", "user-agent"})
_UNUSABLE = re.compile(r"[\x00-\x20\x7f\\]")

NOT_ALLOWED = "This address may not be reached: it is not on the public internet."


class AddressError(OSError):
    """An address that may not be reached."""


@dataclass(frozen=True, slots=True)
class Page:
    """What was fetched."""

    url: str
    """Where it came from in the end."""
    status: int
    content_type: str
    text: str


class CheckedResolver(AbstractResolver):
    """Resolves names, and refuses one if any of its addresses may not be reached."""

    def __init__(self, inner: AbstractResolver, allowed: Policy) -> None:
        self._inner = inner
        self._allowed = allowed

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_INET
    ) -> list[ResolveResult]:
        found = await self._inner.resolve(host, port, family)
        for result in found:
            _check(result["host"], self._allowed)
        return found

    async def close(self) -> None:
        await self._inner.close()


class Fetcher:
    """Fetches over HTTP. `allowed` says which addresses may be connected to."""

    def __init__(
        self,
        allowed: Policy = public,
        resolver: AbstractResolver | None = None,
        *,
        most_bytes: int = MOST_BYTES,
        timeout_s: float = _TIMEOUT_S,
    ) -> None:
        self._allowed = allowed
        self._resolver = resolver
        self._most_bytes = most_bytes
        self._timeout = aiohttp.ClientTimeout(total=timeout_s)

    async def fetch(self, url: str, headers: Mapping[str, str] | None = None) -> Page:
        """Fetch a page as text. Raises ToolError with what the model may know of a failure."""
        sent = _checked_headers(headers or {})
        connector = aiohttp.TCPConnector(
            resolver=CheckedResolver(self._resolver or ThreadedResolver(), self._allowed),
            socket_factory=self._socket,
            use_dns_cache=False,
            force_close=True,
            limit=4,
        )
        session = aiohttp.ClientSession(
            connector=connector,
            timeout=self._timeout,
            auto_decompress=False,
            trust_env=False,
            cookie_jar=aiohttp.DummyCookieJar(),
            headers={"User-Agent": "Mozilla/5.0 (compatible; Callboard)", "Accept-Encoding": "gzip, deflate"},
        )
        async with session:
            try:
                return await self._follow(session, checked_url(url), sent)
            except aiohttp.ClientError as error:
                raise ToolError(_explain(error)) from None
            except AddressError:
                raise ToolError(NOT_ALLOWED) from None
            except TimeoutError:
                raise ToolError(f"The server did not answer within {self._timeout.total:g} s.") from None
            except (OSError, ValueError) as error:
                raise ToolError(f"The page could not be fetched: {type(error).__name__}.") from None

    async def _follow(self, session: aiohttp.ClientSession, url: URL, headers: dict[str, str]) -> Page:
        for _ in range(REDIRECTS + 1):
            self._check_literal(url)
            async with session.get(url, headers=headers, allow_redirects=False) as response:
                self._check_peer(response)
                location = response.headers.get("Location", "")
                if response.status not in _REDIRECTING or not location:
                    return await self._page(response)
            target = checked_url(str(url.join(URL(location))))
            if target.origin() != url.origin():
                headers = {name: value for name, value in headers.items() if name.lower() in _HARMLESS}
            url = target
        raise ToolError(f"The page redirects more than {REDIRECTS} times.")

    def _check_literal(self, url: URL) -> None:
        address = read_address(url.host or "")
        if address is not None and not self._allowed(address):
            raise AddressError

    def _socket(self, info: Any) -> socket.socket:
        """Make the socket for an address that is about to be connected to, if it may be."""
        family, kind, protocol, _, address = info
        _check(address[0], self._allowed)
        return socket.socket(family, kind, protocol)

    def _check_peer(self, response: aiohttp.ClientResponse) -> None:
        transport = response.connection.transport if response.connection is not None else None
        peer = transport.get_extra_info("peername") if transport is not None else None
        if peer is not None:  # the whole answer may have come, and the connection be closed already
            _check(peer[0], self._allowed)

    async def _page(self, response: aiohttp.ClientResponse) -> Page:
        data, whole = await self._body(response)
        kind = response.content_type or "application/octet-stream"
        if binary_type(data[:8192]) is not None or not (_TEXT.match(kind) or _looks_like_text(data)):
            size = response.content_length or len(data)
            text = f"[not text: {binary_type(data[:8192]) or kind}, {size:,} bytes]"
        else:
            text = await asyncio.to_thread(_as_text, data, kind, response.charset, str(response.url))
            text += "" if whole else f"\n[cut: only the first {len(data):,} bytes were read]"
        return Page(str(response.url), response.status, kind, text)

    async def _body(self, response: aiohttp.ClientResponse) -> tuple[bytes, bool]:
        """Return the body, unpacked, and whether that is all of it."""
        unpack = _unpacker(response.headers.get("Content-Encoding", ""))
        body = bytearray()
        async for piece in response.content.iter_chunked(_PIECE):
            body += unpack(piece, self._most_bytes + 1 - len(body))
            if len(body) > self._most_bytes:
                return bytes(body[: self._most_bytes]), False
        return bytes(body), True


def checked_url(text: str) -> URL:
    """Return a URL that may be tried. Raises ToolError for any other."""
    if _UNUSABLE.search(text.strip()):
        raise ToolError("A URL holds no spaces, control characters or backslashes.")
    try:
        url = URL(text.strip())
        host = (url.raw_host or "").rstrip(".")
    except ValueError:
        raise ToolError("This is not a URL.") from None
    if url.scheme not in {"http", "https"}:
        raise ToolError("Only http:// and https:// can be fetched.")
    if "@" in re.split(r"[/?#]", text.strip().partition("//")[2])[0]:
        raise ToolError("A URL with a user name in it is not fetched.")
    if not host:
        raise ToolError("This URL names no host.")
    if odd_notation(host):
        raise ToolError(NOT_ALLOWED)
    return url.with_host(host) if host != url.raw_host else url


def _check(text: str, allowed: Policy) -> None:
    address = read_address(text)
    if address is None or not allowed(address):
        raise AddressError(NOT_ALLOWED)


def _checked_headers(headers: Mapping[str, str]) -> dict[str, str]:
    for name, value in headers.items():
        if name.lower() in _OURS or not re.fullmatch(r"[A-Za-z0-9-]{1,64}", name):
            raise ToolError(f"The header `{name[:64]}` cannot be set.")
        if not value.isprintable() or not value.isascii():
            raise ToolError(f"The header `{name}` holds characters that a header cannot.")
    return dict(headers)


class _unpacker:  # noqa: N801 used as the function it makes
    """Unpacks a body piece by piece, never more than asked for: a bomb stays small."""

    def __init__(self, encoding: str) -> None:
        self._encoding = encoding.strip().lower()
        if self._encoding not in {"", "identity", "gzip", "x-gzip", "deflate"}:
            raise ToolError(f"The page is packed as {encoding[:40]}, which was not asked for.")
        self._inflate: Any = None

    def __call__(self, piece: bytes, most: int) -> bytes:
        if self._encoding in {"", "identity"}:
            return piece[:most]
        if self._inflate is None:
            raw = self._encoding == "deflate" and piece[:1] != b"\x78"
            self._inflate = zlib.decompressobj(-zlib.MAX_WBITS if raw else zlib.MAX_WBITS | 32)
        try:
            return bytes(self._inflate.decompress(piece, most))
        except zlib.error:
            raise ToolError("The page is packed in a damaged way.") from None


def _looks_like_text(data: bytes) -> bool:
    try:
        data[:2048].decode("utf-8")
    except UnicodeDecodeError as error:
        return error.start >= min(len(data), 2048) - 4
    return True


def _as_text(data: bytes, kind: str, charset: str | None, url: str) -> str:
    meta = _CHARSET.search(data, 0, 4096) if "html" in kind else None
    named = charset or (meta[1].decode("ascii", "replace") if meta else "")
    text = data.decode(_codec(named, data), "replace")
    if "html" in kind:
        return readable(text[:_MOST_MARKUP], url)
    return text.removeprefix("\ufeff")


def _codec(name: str, data: bytes) -> str:
    """Return a codec for text by a name from outside: only those that are known to be one."""
    if data.startswith((b"\xff\xfe", b"\xfe\xff")):
        return "utf-16"
    try:
        found = codecs.lookup(name).name if name else "utf-8"
    except (LookupError, ValueError):
        return "utf-8"
    return found if _CODEC.fullmatch(found) else "utf-8"


def _explain(error: aiohttp.ClientError) -> str:
    """Say what went wrong, without anything that a server said."""
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, AddressError):
            return NOT_ALLOWED
        cause = getattr(cause, "os_error", None) or cause.__cause__
    match error:
        case aiohttp.ClientConnectorDNSError():
            return f"The host {error.host} cannot be found."
        case aiohttp.ClientSSLError():
            return "The server's certificate is not valid for its name."
        case aiohttp.ClientConnectorError():
            return f"The server {error.host} does not accept connections."
        case aiohttp.InvalidURL():
            return "This is not a URL that can be fetched."
        case aiohttp.ServerDisconnectedError() | aiohttp.ClientPayloadError():
            return "The server closed the connection before the page was whole."
        case _:
            return f"The page could not be fetched: {type(error).__name__}."
