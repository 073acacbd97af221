"""Being sent updates by Telegram: a listener of our own, behind the operator's proxy."""

import asyncio
import json
from collections.abc import Callable
from typing import Any, Final
from urllib.parse import urlsplit

import structlog
from aiohttp import web

from actors.gateway.edge import EdgeError
from actors.gateway.platforms.telegram.api import Api, ApiError
from actors.gateway.platforms.telegram.intake import Intake
from actors.gateway.platforms.telegram.options import WebhookOptions
from actors.gateway.platforms.telegram.translate import UPDATES
from actors.gateway.signatures import same
from messages.delivery import ProblemKind

log = structlog.get_logger(__name__)

SECRET_HEADER: Final = "X-Telegram-Bot-Api-Secret-Token"  # noqa: S105 the header's name
LARGEST: Final = 2 << 20
STOP_S: Final = 1.0


class Webhook:
    """Listens until it is cancelled. An update is acknowledged when it is durable.

    The pieces of an album are acknowledged when they arrive: the service sends the next
    one of a chat only after that.
    """

    def __init__(self, api: Api, options: WebhookOptions, intake: Intake) -> None:
        self._api = api
        self._options = options
        self._intake = intake
        self.refused = 0
        """Requests with a wrong secret, or without one."""

    async def run(self, listening: Callable[[], None]) -> None:
        """Listen, and tell Telegram where. Raises EdgeError."""
        app = web.Application(client_max_size=LARGEST)
        app.router.add_post(urlsplit(self._options.url).path or "/", self._receive)
        runner = web.AppRunner(app, access_log=None, handler_cancellation=True, shutdown_timeout=STOP_S)
        await runner.setup()
        try:
            host, port = self._options.address
            try:
                await web.TCPSite(runner, host, port).start()
            except OSError as error:
                why = (
                    f"nothing can listen at {self._options.listen}: {error.strerror or type(error).__name__}"
                )
                raise EdgeError(ProblemKind.NEEDS_HUMAN, f"{why} (options.webhook.listen)") from None
            await self._announce()
            listening()
            await self._intake.failure
        finally:
            await runner.cleanup()

    async def _announce(self) -> None:
        try:
            await self._api.call(
                "setWebhook",
                url=self._options.url,
                secret_token=self._options.secret.get_secret_value(),
                allowed_updates=list(UPDATES),
            )
        except ApiError as error:
            refused = error.problem.kind is ProblemKind.REFUSED
            kind = ProblemKind.NEEDS_HUMAN if refused else ProblemKind.TRANSIENT
            raise EdgeError(kind, f"setWebhook: {error.problem.detail}") from None

    async def _receive(self, request: web.Request) -> web.Response:
        given = next(
            (value for name, value in request.raw_headers if name.decode("latin-1").lower() == _HEADER), b""
        )
        if not same(given, self._options.secret.get_secret_value()):
            self.refused += 1
            log.debug("a webhook request without our secret was refused")
            return web.Response(status=403)
        try:
            update: Any = json.loads(await request.read())
        except (ValueError, RecursionError):
            return web.Response(status=400)
        settled = self._intake.take(update)
        self._intake.next_offset()  # forgets what is settled
        if not _is_piece(update):
            wanted: set[asyncio.Future[None]] = {settled, self._intake.failure}
            await asyncio.wait(wanted, return_when=asyncio.FIRST_COMPLETED)
            if not settled.done() or settled.cancelled():
                return web.Response(status=503)
        return web.Response(status=200)


_HEADER = SECRET_HEADER.lower()


def _is_piece(update: Any) -> bool:
    message = update.get("message") if isinstance(update, dict) else None
    return isinstance(message, dict) and "media_group_id" in message
