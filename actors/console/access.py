"""Who may talk to the server: hosts, origins, the token, the cookie, one-time login codes.

A server on loopback is reached by every page in the person's browser and by
every program of every user of the machine. So, over TCP, each request must

- be addressed to this server (`Host`), or a foreign name that was made to point here could read the answers;
- come from no page (`Origin`, `Sec-Fetch-Site`) but our own;
- carry the token, or the cookie that was given for it. The cookie is derived
  from the token, survives a restart, and is never enough without a proper
  `Origin` when something is to be changed.

The control socket needs none of this: only processes of the same user can open it.
"""

import hashlib
import hmac
import re
import secrets
from collections.abc import Iterable
from typing import Literal

from pydantic import SecretStr

from actors.clock import Clock
from actors.console.wire import ApiError

CODE_LIFE_S = 600.0
MOST_CODES = 100

_COOKIE_LIFE_S = 365 * 24 * 3600
_HOST = re.compile(r"^(?P<name>\[[0-9A-Fa-f:.%]+\]|[^:\[\]/@\s]+)(?::(?P<port>\d{1,5}))?$")
_CORS_HEADERS = b"Authorization, Content-Type, Idempotency-Key, Last-Event-ID, X-Session-Key"
_LOOPBACK = frozenset({"localhost", "127.0.0.1", "::1"})

Headers = dict[bytes, bytes]


def _split_host(host: str) -> tuple[str, str | None] | None:
    found = _HOST.match(host.strip().lower())
    if found is None:
        return None
    return found["name"].strip("[]").removesuffix("."), found["port"]


class LoginCodes:
    """One-time codes that a link may carry in the token's place. They live ten minutes and work once."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._ends: dict[str, float] = {}

    def make(self) -> str:
        now = self._clock.monotonic()
        self._ends = {code: end for code, end in self._ends.items() if end > now}
        while len(self._ends) >= MOST_CODES:
            self._ends.pop(next(iter(self._ends)))
        code = secrets.token_urlsafe(24)
        self._ends[code] = now + CODE_LIFE_S
        return code

    def use(self, code: str) -> bool:
        """Return whether the code was good; it is not any more."""
        end = self._ends.pop(code, None)
        return end is not None and end > self._clock.monotonic()


class Access:
    """The rules above, for one server with one token."""

    def __init__(
        self,
        token: SecretStr,
        *,
        host: str,
        allowed_hosts: Iterable[str] = (),
        allowed_origins: Iterable[str] = (),
        clock: Clock,
    ) -> None:
        self.codes = LoginCodes(clock)
        self._token = token.get_secret_value().encode()
        key = hashlib.sha256(self._token).digest()
        self._cookie = hmac.new(key, b"callboard cookie", hashlib.sha256).hexdigest()
        # Browsers do not keep the cookies of two ports apart, so two servers need two names.
        self._cookie_name = "callboard_" + hmac.new(key, b"name", hashlib.sha256).hexdigest()[:8]
        self._names = _LOOPBACK | {host.lower().strip("[]")}
        self._hosts = frozenset(filter(None, map(_split_host, allowed_hosts)))
        self._origins = frozenset(origin.lower().rstrip("/") for origin in allowed_origins)

    # ------------------------------------------------------------ from where

    def check_address(self, headers: Headers, *, reached_at: str | None) -> None:
        """Refuse a request that was meant for somebody else. Raises ApiError 403 that says how to allow it.

        `reached_at` is our own address on this connection: a number that leads
        here is no foreign name.
        """
        host = headers.get(b"host", b"").decode("latin-1")
        parts = _split_host(host)
        if parts is None:
            raise ApiError(403, f"the Host header {host!r} names no server", code="host_not_allowed")
        name, port = parts
        known = name in self._names or name == reached_at
        if known or (name, port) in self._hosts or (name, None) in self._hosts:
            return
        raise ApiError(
            403,
            f"this server does not answer to the name {host!r}; to allow it, add {name!r} to server.allowed_hosts"
            " in callboard.yaml",
            code="host_not_allowed",
        )

    def check_origin(self, headers: Headers, *, navigation: bool) -> None:
        """Refuse what another web page sends. Raises ApiError 403 that says how to allow it.

        A link from elsewhere to our page (a `navigation`) is no harm: the page holds nothing.
        """
        origin = headers.get(b"origin")
        if origin is not None:
            if not self._own_origin(origin.decode("latin-1").lower(), headers):
                raise self._foreign(origin.decode("latin-1"))
        elif headers.get(b"sec-fetch-site", b"none") not in {b"none", b"same-origin"} and not navigation:
            raise self._foreign("another site")

    def _own_origin(self, origin: str, headers: Headers) -> bool:
        host = headers.get(b"host", b"").decode("latin-1").lower()
        return origin in {f"http://{host}", f"https://{host}"} or origin in self._origins

    def cors(self, headers: Headers) -> list[tuple[bytes, bytes]]:
        """Return the headers that let an allowed page (never any other) read the answer."""
        origin = headers.get(b"origin")
        if origin is None or origin.decode("latin-1").lower() not in self._origins:
            return []
        return [
            (b"access-control-allow-origin", origin),
            (b"access-control-allow-methods", b"GET, POST"),
            (b"access-control-allow-headers", _CORS_HEADERS),
            (b"access-control-max-age", b"600"),
            (b"vary", b"Origin"),
        ]

    @staticmethod
    def _foreign(origin: str) -> ApiError:
        return ApiError(
            403,
            f"requests from web pages of {origin} are not allowed; to allow them, add the origin to"
            " server.allowed_origins in callboard.yaml",
            code="origin_not_allowed",
        )

    # ------------------------------------------------------------------- who

    def check_token(self, headers: Headers, *, changes: bool) -> None:
        """Refuse who has neither the token nor the cookie. Raises ApiError 401 or 403.

        `changes`: whether the request would do something. With the cookie alone,
        it must then come from our own page, and say so.
        """
        given = headers.get(b"authorization")
        if given is not None:
            scheme, _, token = given.partition(b" ")
            if scheme.lower() != b"bearer" or not hmac.compare_digest(token.strip(), self._token):
                raise ApiError(401, "the token in the Authorization header is wrong", code="invalid_api_key")
            return
        if not self._has_cookie(headers):
            raise ApiError(
                401,
                "a token is needed: send it as 'Authorization: Bearer <token>'; `callboard run` says where it is",
                code="invalid_api_key",
            )
        if changes and b"origin" not in headers:
            raise ApiError(
                403,
                "a request with the cookie alone must carry the page's Origin; programs send the token instead",
                code="origin_not_allowed",
            )

    def is_known(self, headers: Headers) -> bool:
        """Whether a request that only reads comes from somebody with the token or the cookie."""
        try:
            self.check_token(headers, changes=False)
        except ApiError:
            return False
        return True

    def _has_cookie(self, headers: Headers) -> bool:
        wanted = self._cookie_name.encode() + b"="
        return any(
            hmac.compare_digest(cookie.strip()[len(wanted) :], self._cookie.encode())
            for cookie in headers.get(b"cookie", b"").split(b";")
            if cookie.strip().startswith(wanted)
        )

    def is_token(self, token: str) -> bool:
        return hmac.compare_digest(token.strip().encode("utf-8", "replace"), self._token)

    def cookie(self, *, secure: bool) -> str:
        """Return the Set-Cookie header for somebody who has shown the token or a code."""
        more = "; Secure" if secure else ""
        return f"{self._cookie_name}={self._cookie}; Path=/; Max-Age={_COOKIE_LIFE_S}; HttpOnly; SameSite=Strict{more}"

    def no_cookie(self) -> str:
        """Return the Set-Cookie header that takes it back."""
        return f"{self._cookie_name}=; Path=/; Max-Age=0; HttpOnly; SameSite=Strict"


Door = Literal["tcp", "control"]
"""Where a request came in."""
