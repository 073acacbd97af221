"""Calls of Slack's Web API, each made once: how it ended is an answer or a SlackError, never a wait."""

import asyncio
import io
import logging
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urljoin, urlsplit

import aiohttp
import structlog
from slack_sdk.errors import SlackApiError, SlackClientError
from slack_sdk.web.async_client import AsyncWebClient

from actors.clock import Clock
from actors.gateway.platforms.slack.errors import SlackError, error_of
from actors.gateway.platforms.slack.options import SlackOptions, is_loopback
from messages.delivery import ProblemKind

log = structlog.get_logger(__name__)

MOST_REDIRECTS = 4
PER_CHANNEL = frozenset({"chat.postMessage", "chat.postEphemeral"})
"""Methods that are limited channel by channel; all others have one limit for the account."""

HOSTS = ("slack.com", "slack-gov.com")


class Web:
    """One account's client. Made on the running loop, over a session that its maker closes."""

    def __init__(self, options: SlackOptions, http: aiohttp.ClientSession, clock: Clock) -> None:
        quiet = logging.getLogger("slack_sdk.callboard")
        quiet.setLevel(logging.WARNING)
        self._client = AsyncWebClient(
            options.bot_token.get_secret_value(),
            base_url=options.base_url,
            timeout=int(options.timeout_s) or 1,
            session=http,
            retry_handlers=[],  # whether to try again is the outbox's business
            logger=quiet,
        )
        self._http = http
        self._options = options
        self._clock = clock
        self._closed_until: dict[str, float] = {}
        """Methods whose limit for the whole account is used up, and until when."""
        self._host = urlsplit(options.base_url).hostname or ""
        self._client.proxy = None  # the session knows it, for sockets and files as well
        self.failures = 0
        """Of a kind that nobody foresaw."""

    async def read(self, method: str, **params: Any) -> dict[str, Any]:
        """Ask for something. Raises SlackError; never UNKNOWN, for nothing is changed."""
        present = {name: value for name, value in params.items() if value is not None}
        return await self._called(method, writes=False, http_verb="GET", params=present)

    async def write(self, method: str, **body: Any) -> dict[str, Any]:
        """Change something. Raises SlackError; UNKNOWN when it may have been done."""
        present = {name: value for name, value in body.items() if value is not None}
        return await self._called(method, writes=True, json=present)

    async def scopes(self) -> frozenset[str]:
        """Return the permissions that the bot token has."""
        response = await self._raw("auth.test", writes=False, http_verb="GET", params={})
        told = {str(name).lower(): value for name, value in response.headers.items()}.get("x-oauth-scopes")
        return frozenset(scope.strip() for scope in str(told or "").split(",") if scope.strip())

    async def socket_url(self) -> str:
        """Ask where Socket Mode is to be spoken. Raises SlackError."""
        assert self._options.app_token is not None
        token = self._options.app_token.get_secret_value()
        answer = await self._called("apps.connections.open", writes=False, params={"token": token})
        url = answer.get("url")
        scheme, host = _place(url)
        if not isinstance(url, str) or scheme not in ("wss", "ws") or not host:
            raise SlackError(ProblemKind.TRANSIENT, "apps.connections.open: no address came")
        if scheme == "ws" and not is_loopback(host):
            raise SlackError(ProblemKind.TRANSIENT, "apps.connections.open: an address without encryption")
        return url

    async def _called(self, method: str, *, writes: bool, **how: Any) -> dict[str, Any]:
        left = self._closed_until.get(method, 0.0) - self._clock.monotonic()
        if left > 0:
            raise SlackError(ProblemKind.RATE_LIMITED, f"{method}: rate limit", retry_after_s=left)
        try:
            response = await self._raw(method, writes=writes, **how)
        except SlackError as error:
            if error.problem.kind is ProblemKind.RATE_LIMITED and method not in PER_CHANNEL:
                wait = error.problem.retry_after_s or 0.0
                self._closed_until[method] = self._clock.monotonic() + wait
            raise
        data = response.data
        return data if isinstance(data, dict) else {}

    async def _raw(self, method: str, *, writes: bool, **how: Any) -> Any:
        unclear = ProblemKind.UNKNOWN if writes else ProblemKind.TRANSIENT
        try:
            async with asyncio.timeout(self._options.timeout_s):
                return await self._client.api_call(method, **how)
        except SlackApiError as error:
            raise _answered(method, error, writes=writes) from None
        except (aiohttp.ClientConnectorError, aiohttp.InvalidURL) as error:
            raise SlackError(ProblemKind.TRANSIENT, f"{method}: {error}") from None
        except TimeoutError:
            raise SlackError(unclear, f"{method}: no answer in time") from None
        except (aiohttp.ClientError, OSError, SlackClientError) as error:
            raise SlackError(unclear, f"{method}: {type(error).__name__}: {error}") from None
        except Exception as error:  # noqa: BLE001 the SDK's border
            # The SDK trips over answers that are not what Slack sends: a proxy's page, say.
            self.failures += 1
            log.warning("Slack's answer could not be read", method=method, error=repr(error))
            raise SlackError(unclear, f"{method}: an answer that cannot be read: {error!r}") from None

    # ------------------------------------------------------------------ what is not the Web API

    async def respond(self, url: str, body: Mapping[str, Any]) -> None:
        """Answer an interaction at its own address. Raises SlackError; REFUSED when it is not valid any more."""
        if not self.is_slacks(url):
            raise SlackError(ProblemKind.REFUSED, "an address that is not Slack's")
        try:
            async with (
                asyncio.timeout(self._options.timeout_s),
                self._http.post(url, json=dict(body), allow_redirects=False) as response,
            ):
                if response.status == 200:
                    return
                raise _not_taken("response_url", response.status, response.headers)
        except aiohttp.ClientConnectorError as error:
            raise SlackError(ProblemKind.TRANSIENT, f"response_url: {error}") from None
        except (aiohttp.ClientError, TimeoutError) as error:
            raise SlackError(ProblemKind.UNKNOWN, f"response_url: {error!r}") from None

    async def upload(self, url: str, what: Path | bytes) -> None:
        """Send a file's content to the address that Slack gave for it. Nothing is posted by that."""
        if not self.is_slacks(url):
            raise SlackError(ProblemKind.REFUSED, "an address that is not Slack's")
        # Of a file, aiohttp says the length and reads it piece by piece in a thread.
        file = io.BytesIO(what) if isinstance(what, bytes) else await asyncio.to_thread(what.open, "rb")
        try:
            timeout = aiohttp.ClientTimeout(total=600, sock_read=60, sock_connect=10)
            async with self._http.post(url, data=file, timeout=timeout, allow_redirects=False) as response:
                if response.status != 200:
                    error = _not_taken("upload", response.status, response.headers)
                    kind = error.problem.kind
                    kind = ProblemKind.TRANSIENT if kind is ProblemKind.UNKNOWN else kind
                    raise SlackError(kind, error.problem.detail, retry_after_s=error.problem.retry_after_s)
        except (aiohttp.ClientError, TimeoutError) as error:
            raise SlackError(ProblemKind.TRANSIENT, f"upload: {error!r}") from None
        finally:
            file.close()

    @asynccontextmanager
    async def opened(self, url: str) -> AsyncIterator[aiohttp.ClientResponse]:
        """Open what people attached. The token goes to Slack alone, never where a link leads.

        Raises SlackError and aiohttp's errors.
        """
        headers = {"Authorization": f"Bearer {self._options.bot_token.get_secret_value()}"}
        for _ in range(MOST_REDIRECTS):
            if not self.is_slacks(url):
                raise SlackError(ProblemKind.REFUSED, "it is not kept at Slack")
            async with self._http.get(url, headers=headers, allow_redirects=False) as response:
                if response.status in (301, 302, 303, 307, 308):
                    url = urljoin(str(response.url), response.headers.get("Location", ""))
                    continue
                if response.status != 200:
                    raise SlackError(ProblemKind.REFUSED, f"Slack answers {response.status}")
                yield response
                return
        raise SlackError(ProblemKind.REFUSED, "it is redirected too often")

    def is_slacks(self, url: str) -> bool:
        """Say whether an address is one of Slack's (or the host that stands in for it)."""
        scheme, host = _place(url)
        if host == self._host and scheme in ("http", "https"):
            return True
        known = any(host == name or host.endswith(f".{name}") for name in HOSTS)
        return scheme == "https" and known


def _place(url: object) -> tuple[str, str]:
    """Return an address's scheme and host; empty ones for what is no address."""
    try:
        parts = urlsplit(url if isinstance(url, str) else "")
    except ValueError:
        return "", ""
    return parts.scheme, parts.hostname or ""


def _answered(method: str, error: SlackApiError, *, writes: bool) -> SlackError:
    response: Any = error.response
    status = getattr(response, "status_code", None) or getattr(response, "status", 0)
    headers = getattr(response, "headers", None) or {}
    data = getattr(response, "data", None)
    named = {str(name).title(): str(value) for name, value in headers.items()}
    return error_of(method, int(status or 0), data, named, writes=writes)


def _not_taken(what: str, status: int, headers: Mapping[str, str]) -> SlackError:
    if status == 429 or status >= 500:
        return error_of(what, status, {}, headers, writes=True)
    return SlackError(ProblemKind.REFUSED, f"{what}: HTTP {status}")
