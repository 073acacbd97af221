"""Handing a mail to the server for sending. One connection for each mail: mails are few, and what failed is certain."""

import asyncio
import ssl
from email.message import EmailMessage

import aiosmtplib
import structlog
from aiosmtplib.errors import (
    SMTPAuthenticationError,
    SMTPConnectError,
    SMTPConnectResponseError,
    SMTPException,
    SMTPNotSupported,
    SMTPResponseException,
    SMTPServerDisconnected,
    SMTPTimeoutError,
)

from actors.gateway.edge import EdgeError
from actors.gateway.platforms.email.errors import smtp_error
from actors.gateway.platforms.email.options import EmailOptions
from messages.delivery import ProblemKind as K

log = structlog.get_logger(__name__)

STEP_S = 30.0
DATA_S = 120.0
AT_ONCE = 4
"""Connections; many servers allow no more from one client."""


class Sender:
    """Sends for one account."""

    def __init__(self, options: EmailOptions) -> None:
        self._options = options
        self._room = asyncio.Semaphore(AT_ONCE)

    async def check(self) -> None:
        """Connect and log in, and send nothing. Raises EdgeError."""
        async with self._room:
            client = await self._opened()
            await _leave(client)

    async def send(self, mail: EmailMessage, recipients: tuple[str, ...]) -> None:
        """Send a mail to one or more addresses, or to none of them. Raises EdgeError."""
        raw = mail.as_bytes()
        async with self._room:
            client = await self._opened()
            try:
                await self._envelope(client, recipients, len(raw))
                await self._data(client, raw)
            finally:
                await _leave(client)

    async def _opened(self) -> aiosmtplib.SMTP:
        options = self._options
        client = aiosmtplib.SMTP(
            hostname=options.smtp_host,
            port=options.smtp_port,
            use_tls=options.smtp_security == "tls",
            start_tls=options.smtp_security == "starttls",
            tls_context=ssl.create_default_context() if options.smtp_security != "none" else None,
            timeout=STEP_S,
            local_hostname=options.domain if options.domain.isascii() else "localhost",
        )
        stage = "connect"
        try:
            await client.connect()
            if client.is_ehlo_or_helo_needed:
                await client.ehlo()
            if options.smtp_login:
                stage = "login"
                password = options.smtp_password or options.password
                await client.login(options.login, password.get_secret_value())
        except BaseException as error:
            client.close()
            if isinstance(error, SMTPException | OSError):
                raise _before(error, stage) from None
            raise
        return client

    async def _envelope(self, client: aiosmtplib.SMTP, recipients: tuple[str, ...], size: int) -> None:
        stage = "sender"
        try:
            options = [f"SIZE={size}"] if client.supports_extension("size") else []
            utf8 = not all(each.isascii() for each in (self._options.address, *recipients))
            if utf8 and not client.supports_extension("smtputf8"):
                raise EdgeError(K.REFUSED, "the mail server takes no addresses with letters beyond ASCII")
            more = [*options, "SMTPUTF8"] if utf8 else options
            encoding = "utf-8" if utf8 else "ascii"
            await client.mail(self._options.address, options=more, encoding=encoding)
            stage = "recipient"
            for each in recipients:
                await client.rcpt(each, encoding=encoding)
        except (SMTPException, OSError) as error:
            raise _before(error, stage) from None

    async def _data(self, client: aiosmtplib.SMTP, raw: bytes) -> None:
        try:
            await client.data(raw, timeout=DATA_S)
        except SMTPResponseException as error:
            raise smtp_error(error.code, error.message, stage="data") from None
        except (SMTPException, OSError) as error:
            # The text may have gone over whole; only the server's word for it is missing.
            raise EdgeError(K.UNKNOWN, f"the server did not say whether it took the mail: {error}") from None


def _before(error: Exception, stage: str) -> EdgeError:
    """Classify what failed before the mail itself was sent: it is certain that nothing was posted."""
    if isinstance(error, ssl.SSLCertVerificationError) or isinstance(
        error.__cause__, ssl.SSLCertVerificationError
    ):
        return EdgeError(K.NEEDS_HUMAN, f"the certificate of the server for sending is not good: {error}")
    match error:
        case SMTPAuthenticationError():
            return smtp_error(error.code, error.message, stage="login")
        case SMTPConnectResponseError():
            return smtp_error(error.code, error.message, stage="connect")
        case SMTPResponseException() if error.code > 0:
            return smtp_error(error.code, error.message, stage=stage)
        case SMTPException() if isinstance(error, SMTPNotSupported) or "not supported" in str(error):
            return EdgeError(K.NEEDS_HUMAN, f"the server for sending cannot do what is configured: {error}")
        case SMTPConnectError() | SMTPTimeoutError() | SMTPServerDisconnected() | OSError():
            return EdgeError(K.TRANSIENT, f"no connection for sending: {type(error).__name__}: {error}")
        case _:
            return EdgeError(K.TRANSIENT, f"sending: {type(error).__name__}: {error}")


async def _leave(client: aiosmtplib.SMTP) -> None:
    """Say goodbye, and do not wait for the answer for long."""
    try:
        if client.is_connected:
            await client.quit(timeout=2.0)
    except (SMTPException, OSError) as error:
        log.debug("the server for sending said no goodbye", error=str(error))
    finally:
        client.close()
