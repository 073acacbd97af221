"""Discord's REST API, one attempt a call.

discord.py's own HTTP client repeats calls and sleeps on rate limits by itself. Here
both are the outbox's business: a call that may not be made now raises at once, with
the time to wait, so that no chat ever holds another.
"""

import asyncio
import json
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Self
from urllib.parse import quote

import aiohttp
import structlog

from actors.clock import Clock
from actors.gateway.platforms.discord.errors import DiscordError, of_answer, of_connection
from actors.gateway.platforms.discord.options import DiscordOptions
from messages.delivery import ProblemKind

log = structlog.get_logger(__name__)

TIMEOUT_S = 20.0
UPLOAD_TIMEOUT_S = 120.0
CONNECT_S = 5.0
MOST_BUCKETS = 4096
USER_AGENT = "DiscordBot (https://github.com/callboard/callboard, 1)"

MAJOR = ("channel", "guild", "webhook")
"""Rate limits hold for each of these apart."""


@dataclass(slots=True)
class Bucket:
    """What Discord told of one rate limit."""

    remaining: int
    resets_at: float
    """On the monotonic clock."""


class Rest:
    """Calls. `async with` opens it on the running loop, and closes it."""

    def __init__(self, options: DiscordOptions, clock: Clock) -> None:
        self._options = options
        self._clock = clock
        self._session: aiohttp.ClientSession | None = None
        self._hashes: dict[str, str] = {}
        """Discord's names of the buckets, by route: there are few routes."""
        self._buckets: OrderedDict[str, Bucket] = OrderedDict()
        self._all_wait_until = 0.0
        self.calls = 0

    async def __aenter__(self) -> Self:
        # Nothing is kept of cookies; connections are as many as the outbox wants at once.
        self._session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=0, keepalive_timeout=30),
            cookie_jar=aiohttp.DummyCookieJar(),
            headers={"User-Agent": USER_AGENT},
        )
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        session, self._session = self._session, None
        if session is not None:
            await session.close()

    @property
    def session(self) -> aiohttp.ClientSession:
        """The HTTP session, for what is not the API: the gateway, and files. Raises DiscordError."""
        if self._session is None:
            raise DiscordError(ProblemKind.NOT_CONNECTED, "not connected")
        return self._session

    @property
    def proxy(self) -> str | None:
        return self._options.proxy

    async def call(
        self,
        method: str,
        route: str,
        *,
        json: Any = None,
        form: aiohttp.FormData | None = None,
        query: Mapping[str, str] | None = None,
        patience_s: float = 0.0,
        **ids: str,
    ) -> Any:
        """Call once and return what came back. `ids` fill the route. Raises DiscordError.

        `patience_s`: so long a known rate limit is waited out; else it is raised at once.
        """
        # An interaction's calls carry a token of their own, and count for no limit of the bot.
        own = not route.startswith(("/interactions/", "/webhooks/"))
        major = next((f"{name}:{ids[name]}" for name in MAJOR if name in ids), "")
        # Discord counts setting and removing reactions together.
        limit = route if "/reactions/" in route else f"{method} {route}"
        await self._admit(limit, major, patience_s, everywhere=own)
        url = self._options.api + route.format_map(
            {name: quote(value, safe="@") for name, value in ids.items()}
        )
        headers = {"Authorization": f"Bot {self._options.token.get_secret_value()}"} if own else {}
        if json is not None:
            headers["Content-Type"] = "application/json"
        status, told, body = await self._send(method, url, headers, json, form, query)
        self._learn(limit, major, status, told)
        if 200 <= status < 300:
            return body
        error = of_answer(status, body, told)
        if error.problem.kind is ProblemKind.RATE_LIMITED:
            self._hold(limit, major, error, everywhere=own)
        log.debug("discord refuses a call", method=method, route=route, status=status, code=error.code)
        raise error

    async def _send(
        self,
        method: str,
        url: str,
        headers: Mapping[str, str],
        data: Any,
        form: aiohttp.FormData | None,
        query: Mapping[str, str] | None,
    ) -> tuple[int, Mapping[str, str], Any]:
        self.calls += 1
        timeout = aiohttp.ClientTimeout(
            total=TIMEOUT_S if form is None else UPLOAD_TIMEOUT_S, sock_connect=CONNECT_S, connect=CONNECT_S
        )
        try:
            async with self.session.request(
                method,
                url,
                headers=headers,
                data=form if form is not None else _encoded(data),
                params=query,
                timeout=timeout,
                proxy=self._options.proxy,
                allow_redirects=False,
            ) as response:
                return response.status, response.headers, _decoded(await response.read())
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            raise of_connection(error) from None

    # ------------------------------------------------------------------ rate limits

    async def _admit(self, route: str, major: str, patience_s: float, *, everywhere: bool) -> None:
        wait, whole = self._wait(route, major), False
        if everywhere and self._all_wait_until > self._clock.monotonic():
            wait, whole = max(wait, self._all_wait_until - self._clock.monotonic()), True
        if wait <= 0:
            return
        if wait > patience_s:
            raise DiscordError(
                ProblemKind.RATE_LIMITED,
                f"Discord allows {route} again in {wait:.1f} s",
                retry_after_s=wait,
                whole_account=whole,
            )
        await self._clock.sleep(wait)

    def _hold(self, route: str, major: str, error: DiscordError, *, everywhere: bool) -> None:
        """Make no call that Discord has just said it would refuse: refused ones count against the bot."""
        until = self._clock.monotonic() + (error.problem.retry_after_s or 1.0)
        if error.problem.whole_account:
            if everywhere:
                self._all_wait_until = max(self._all_wait_until, until)
        else:
            self._remember(route, major, Bucket(0, until))

    def _wait(self, route: str, major: str) -> float:
        bucket = self._buckets.get(self._key(route, major))
        if bucket is None or bucket.remaining > 0:
            return 0.0
        wait = bucket.resets_at - self._clock.monotonic()
        if wait <= 0:
            bucket.remaining = 1
            return 0.0
        return wait

    def _key(self, route: str, major: str) -> str:
        return f"{self._hashes.get(route, route)} {major}"

    def _learn(self, route: str, major: str, status: int, headers: Mapping[str, str]) -> None:
        """Remember what Discord tells of the route's limit, bounded."""
        if (name := headers.get("X-RateLimit-Bucket")) is not None:
            self._hashes[route] = name
        try:
            remaining = int(headers["X-RateLimit-Remaining"])
            after = float(headers["X-RateLimit-Reset-After"])
        except (KeyError, ValueError):
            return
        if status != 429:
            resets_at = self._clock.monotonic() + min(max(after, 0.0), 3600.0)
            self._remember(route, major, Bucket(remaining, resets_at))

    def _remember(self, route: str, major: str, bucket: Bucket) -> None:
        key = self._key(route, major)
        self._buckets[key] = bucket
        self._buckets.move_to_end(key)
        if len(self._buckets) > MOST_BUCKETS:
            self._buckets.popitem(last=False)


def _encoded(data: Any) -> bytes | None:
    if data is None:
        return None
    return json.dumps(data, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "replace")


def _decoded(raw: bytes) -> Any:
    """Read JSON by content: some who stand in between lose the header."""
    if not raw:
        return None
    try:
        return json.loads(raw)
    except (ValueError, RecursionError):
        return raw[:500].decode("utf-8", "replace")


async def settled(task: "asyncio.Task[Any]") -> None:
    """Cancel a task of ours and wait until it has ended."""
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
