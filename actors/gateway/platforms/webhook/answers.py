"""Answers as calls of ours: JSON to a route's `answer_url`, signed as Standard Webhooks are."""

import asyncio
import base64
import hmac
import json
from datetime import datetime
from typing import Any
from urllib.parse import urlsplit

import aiohttp

from actors.clock import Clock
from actors.gateway.edge import EdgeError
from actors.gateway.platforms.webhook.options import RouteOptions
from actors.gateway.platforms.webhook.verify import standard_key
from actors.gateway.retry_after import retry_after
from messages.delivery import Post, ProblemKind

MOST_READ = 10_000
"""Bytes of the other side's response that are looked at."""

_BY_STATUS: dict[int, tuple[ProblemKind, str]] = {
    301: (ProblemKind.NEEDS_HUMAN, "it has moved: write the new address into answer_url"),
    302: (ProblemKind.NEEDS_HUMAN, "it redirects: write the final address into answer_url"),
    303: (ProblemKind.NEEDS_HUMAN, "it redirects: write the final address into answer_url"),
    307: (ProblemKind.NEEDS_HUMAN, "it redirects: write the final address into answer_url"),
    308: (ProblemKind.NEEDS_HUMAN, "it has moved: write the new address into answer_url"),
    401: (ProblemKind.NEEDS_HUMAN, "it does not accept our signature: compare answer_secret"),
    403: (ProblemKind.NEEDS_HUMAN, "it does not accept our signature: compare answer_secret"),
    404: (ProblemKind.NEEDS_HUMAN, "there is nothing: check answer_url"),
    405: (ProblemKind.NEEDS_HUMAN, "it takes no POST: check answer_url"),
    407: (ProblemKind.NEEDS_HUMAN, "a proxy wants a login"),
    408: (ProblemKind.TRANSIENT, "it was too slow to read the request"),
    409: (ProblemKind.TRANSIENT, "it is busy with the same call"),
    410: (ProblemKind.TARGET_GONE, "it is gone for good"),
    425: (ProblemKind.TRANSIENT, "too early"),
    429: (ProblemKind.RATE_LIMITED, "too many calls"),
    503: (ProblemKind.TRANSIENT, "it is not available"),
}


def problem_of(status: int, retry_after_s: float | None = None) -> EdgeError | None:
    """Say what a status means for an answer; None when it was taken."""
    if 200 <= status < 300:
        return None
    if status in _BY_STATUS:
        kind, words = _BY_STATUS[status]
    elif status >= 500:
        kind, words = ProblemKind.UNKNOWN, "it failed, and may have taken the answer"
    else:
        kind, words = ProblemKind.REFUSED, "it refused the answer"
    return EdgeError(kind, f"HTTP {status} from the answer_url: {words}", retry_after_s=retry_after_s)


def body_of(route: str, account: str, post: Post) -> bytes:
    """Return what is posted."""
    said: dict[str, Any] = {
        "route": route,
        "account": account,
        "session": post.place.thread,
        "delivery": post.delivery_id,
        "part": post.part,
        "of": post.of,
        "text": post.body.text,
        "code": post.instead or None,
        "reply_to": post.reply_to,
        "maybe_duplicate": post.maybe_duplicate,
    }
    return json.dumps(said, ensure_ascii=False).encode("utf-8", "replace")


def headers_of(key: str, body: bytes, secret: bytes, now: datetime) -> dict[str, str]:
    """Return the headers that say who we are and which post this is."""
    stamp = str(int(now.timestamp()))
    signed = b"%b.%b.%b" % (key.encode(), stamp.encode(), body)
    signature = base64.b64encode(hmac.digest(standard_key(secret), signed, "sha256")).decode()
    return {
        "Content-Type": "application/json",
        "Idempotency-Key": key,
        "webhook-id": key,
        "webhook-timestamp": stamp,
        "webhook-signature": f"v1,{signature}",
    }


async def post_answer(
    http: aiohttp.ClientSession, name: str, route: RouteOptions, post: Post, *, account: str, clock: Clock
) -> str:
    """Post once; return the other side's id of it, or our key. Raises EdgeError."""
    assert route.answer_url is not None, "only a route with an address is posted to"
    body = body_of(name, account, post)
    headers = headers_of(post.key, body, route.answers_signed_with, clock.now())
    try:
        async with http.post(route.answer_url, data=body, headers=headers, allow_redirects=False) as response:
            text = await _beginning(response)
            problem = problem_of(response.status, retry_after(response.headers))
    except (aiohttp.ClientConnectorError, aiohttp.InvalidURL) as error:
        raise EdgeError(ProblemKind.TRANSIENT, f"the answer_url cannot be reached: {_plain(error)}") from None
    except aiohttp.ConnectionTimeoutError:
        raise EdgeError(ProblemKind.TRANSIENT, "the answer_url did not take the connection in time") from None
    except (aiohttp.ClientError, TimeoutError, OSError) as error:
        raise EdgeError(
            ProblemKind.UNKNOWN, f"the connection to the answer_url broke: {_plain(error)}"
        ) from None
    if problem is not None:
        raise problem
    return _receipt(text) or post.key


async def _beginning(response: aiohttp.ClientResponse) -> bytes:
    """Read the response's beginning. Once the status is known, the rest decides nothing."""
    try:
        return await response.content.read(MOST_READ)
    except (aiohttp.ClientError, TimeoutError, OSError):
        return b""


def _receipt(text: bytes) -> str:
    try:
        said = json.loads(text)
    except (ValueError, RecursionError):
        return ""
    found = said.get("id") if isinstance(said, dict) else None
    return str(found)[:200] if isinstance(found, str | int) and not isinstance(found, bool) else ""


def _plain(error: BaseException) -> str:
    """Name an error without its address: it may hold a secret."""
    words = getattr(error, "strerror", None) or ""
    return f"{type(error).__name__} {words}".strip()


def new_http(timeout_s: float) -> aiohttp.ClientSession:
    """Make a client for answers, on the running loop. It is closed by whoever made it."""
    return aiohttp.ClientSession(
        timeout=aiohttp.ClientTimeout(total=timeout_s, sock_connect=min(10.0, timeout_s)),
        cookie_jar=aiohttp.DummyCookieJar(),
        trust_env=False,
    )


async def can_connect(url: str, timeout_s: float = 5.0) -> str:
    """Say why nobody takes connections at an address; empty when somebody does. Posts nothing."""
    parts = urlsplit(url)
    port = parts.port or (443 if parts.scheme == "https" else 80)
    try:
        async with asyncio.timeout(timeout_s):
            _, writer = await asyncio.open_connection(parts.hostname, port)
    except TimeoutError:
        return "nobody answers"
    except OSError as error:
        return error.strerror or str(error)
    writer.close()
    return ""
