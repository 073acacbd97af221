"""Calls of the Bot API: python-telegram-bot makes the requests, what comes back is classified here.

An `Api` belongs to the loop that it was made on, and is closed there. The token stands
in every address, so no error of a library is handed on with its text or its cause.
"""

import json
from pathlib import Path
from typing import Any, BinaryIO, Final
from urllib.parse import urlsplit

import httpx
import structlog
from telegram import Bot, InputFile
from telegram.error import TelegramError
from telegram.request import HTTPXRequest, RequestData

from actors.gateway.edge import EdgeError
from actors.gateway.platforms.telegram.errors import Answer, answer_of, error_of
from actors.gateway.platforms.telegram.options import TelegramOptions, is_loopback
from messages.delivery import ProblemKind

log = structlog.get_logger(__name__)

CONNECT_S: Final = 10.0
UPLOAD_S: Final = 120.0
POOL_S: Final = 5.0
PIECE: Final = 1 << 16

NEVER_SENT = (
    httpx.ConnectError,
    httpx.ConnectTimeout,
    httpx.PoolTimeout,
    httpx.ProxyError,
    httpx.UnsupportedProtocol,
)
"""After these the request has not left."""


class ApiError(EdgeError):
    """A call failed. `answer` is None when none came."""

    def __init__(self, kind: ProblemKind, detail: str, answer: Answer | None = None) -> None:
        super().__init__(
            kind,
            detail,
            retry_after_s=answer.retry_after_s if answer else None,
            moved_to=answer.moved_to if answer else None,
        )
        self.answer = answer


class _RefusedError(TelegramError):
    """Any answer but a success, as it came: the library's own errors keep its sentence alone."""

    def __init__(self, answer: Answer) -> None:
        super().__init__(answer.description)
        self.answer = answer


class _Request(HTTPXRequest):
    async def do_request(
        self,
        url: str,
        method: str,
        request_data: RequestData | None = None,
        read_timeout: Any = HTTPXRequest.DEFAULT_NONE,
        write_timeout: Any = HTTPXRequest.DEFAULT_NONE,
        connect_timeout: Any = HTTPXRequest.DEFAULT_NONE,
        pool_timeout: Any = HTTPXRequest.DEFAULT_NONE,
    ) -> tuple[int, bytes]:
        status, payload = await super().do_request(
            url, method, request_data, read_timeout, write_timeout, connect_timeout, pool_timeout
        )
        if not 200 <= status < 300:
            raise _RefusedError(answer_of(status, payload))
        return status, payload

    @staticmethod
    def parse_json_payload(payload: bytes) -> dict[str, Any]:
        """Read an answer; the library's own way writes the whole of a broken one into the log."""
        try:
            found = json.loads(payload.decode("utf-8", "replace"))
        except (ValueError, RecursionError):
            found = None
        if not isinstance(found, dict) or "result" not in found:
            raise TelegramError("the answer is none of the Bot API")
        return found


class _Bot(Bot):
    """The library's bot, for raw answers: an odd one must not fail a call that has been carried out."""

    async def raw(self, method: str, parameters: dict[str, Any], *, read_s: float) -> Any:
        return await self._post(method, parameters, read_timeout=read_s)


class Api:
    """One account's calls. Make it inside the loop that uses it, and `close` it there."""

    def __init__(self, options: TelegramOptions) -> None:
        local = is_loopback(urlsplit(options.api_url).hostname)
        proxy = options.proxy.get_secret_value() if options.proxy else None
        more = {"trust_env": not local and proxy is None}
        self._requests = tuple(
            _Request(
                connection_pool_size=size,
                read_timeout=options.answer_timeout_s,
                write_timeout=options.answer_timeout_s,
                connect_timeout=CONNECT_S,
                pool_timeout=POOL_S,
                media_write_timeout=UPLOAD_S,
                proxy=proxy,
                httpx_kwargs=more,
            )
            for size in (2, 64)
        )
        self._answer_s = options.answer_timeout_s
        polling, calling = self._requests
        token = options.token.get_secret_value()
        self._bot = _Bot(
            token,
            base_url=f"{options.api_url}/bot",
            base_file_url=f"{options.api_url}/file/bot",
            request=calling,
            get_updates_request=polling,
            local_mode=options.local_server,
        )
        self._files = f"{options.api_url}/file/bot{token}"
        self._downloads = httpx.AsyncClient(timeout=httpx.Timeout(CONNECT_S), proxy=proxy, **more)  # type: ignore[arg-type]

    async def close(self) -> None:
        """Close every connection."""
        for request in self._requests:
            await request.shutdown()
        await self._downloads.aclose()

    async def call(self, method: str, *, wait_s: float | None = None, **parameters: Any) -> Any:
        """Call once, and return the `result`. Raises ApiError."""
        read_s = self._answer_s if wait_s is None else wait_s
        if any(isinstance(value, InputFile) for value in parameters.values()):
            read_s = max(read_s, UPLOAD_S)
        try:
            return await self._bot.raw(method, parameters, read_s=read_s)
        except _RefusedError as error:
            problem = error_of(error.answer).problem
            raise ApiError(problem.kind, problem.detail, error.answer) from None
        except TelegramError as error:
            raise _unanswered(method, error) from None
        except RuntimeError as error:
            # The client was closed under the call: the connection ended.
            raise ApiError(
                ProblemKind.UNKNOWN, f"{method}: the connection ended ({type(error).__name__})"
            ) from None

    async def download(self, path: str, to: Path, most: int) -> int:
        """Fetch a file of the service into a new file of ours; return its size. Raises ApiError, OSError.

        Stops at `most` bytes with ProblemKind.REFUSED, and leaves nothing behind when it fails.
        """
        try:
            with to.open("xb") as file:
                return await self._stream(path, file, most)
        except BaseException as error:
            to.unlink(missing_ok=True)  # noqa: ASYNC240 one name, no waiting
            if isinstance(error, httpx.HTTPError | httpx.InvalidURL):
                why = f"the file could not be fetched ({type(error).__name__})"
                raise ApiError(ProblemKind.TRANSIENT, why) from None
            raise

    async def _stream(self, path: str, file: BinaryIO, most: int) -> int:
        size = 0
        async with self._downloads.stream("GET", f"{self._files}/{path}") as response:
            if response.status_code != 200:
                why = f"the file could not be fetched ({response.status_code})"
                raise ApiError(ProblemKind.TRANSIENT, why)
            async for piece in response.aiter_bytes(PIECE):
                size += len(piece)
                if size > most:
                    raise ApiError(ProblemKind.REFUSED, f"larger than {most} bytes")
                file.write(piece)
        return size


def _unanswered(method: str, error: TelegramError) -> ApiError:
    cause = error.__cause__
    why = type(cause).__name__ if cause is not None else error.message
    if isinstance(cause, NEVER_SENT):
        return ApiError(ProblemKind.NOT_CONNECTED, f"{method}: no connection ({why})")
    return ApiError(ProblemKind.UNKNOWN, f"{method}: no answer that counts ({why})")
