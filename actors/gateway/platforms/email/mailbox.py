"""The mailbox at the IMAP server. The library blocks, so that each connection has a thread of its own.

`Worker.stop` shuts the socket: whatever the thread waits for fails at once, and it ends.
"""

import asyncio
import logging
import queue
import socket
import ssl
import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, ParamSpec, TypeVar

import imapclient  # type: ignore[import-untyped]  # ships no types
import structlog

from actors.gateway.edge import EdgeError
from actors.gateway.platforms.email.errors import imap_login_error
from actors.gateway.platforms.email.options import EmailOptions
from messages.delivery import ProblemKind

log = structlog.get_logger(__name__)

# At DEBUG it logs what goes over the line: whole mails.
logging.getLogger("imapclient").setLevel(logging.WARNING)

CONNECT_S = 20.0
READ_S = 60.0
BEGINNING = 256_000
"""Bytes of a mail that is too large which are fetched all the same: its text is in there."""

_CLOSED = suppress(OSError, AttributeError, ValueError)
"""What a socket says that is closed already."""

P = ParamSpec("P")
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Opened:
    """How a folder stands."""

    uidvalidity: int
    uidnext: int


@dataclass(frozen=True, slots=True)
class Fetched:
    """A mail, or its beginning."""

    raw: bytes
    at: datetime
    whole_size: int | None = None


class Mailbox:
    """One connection. Everything here blocks: only a `Worker` calls it."""

    def __init__(self, options: EmailOptions) -> None:
        self._options = options
        self._client: Any = None
        self._stopped = threading.Event()
        self._idles = False

    def open(self, folder: str, *, readonly: bool = False) -> Opened:
        """Connect, log in, and open a folder. Raises EdgeError."""
        options = self._options
        with _Lines():
            self._client = imapclient.IMAPClient(
                options.imap_host,
                port=options.imap_port,
                ssl=options.imap_security == "tls",
                ssl_context=ssl.create_default_context() if options.imap_security == "tls" else None,
                timeout=imapclient.SocketTimeout(CONNECT_S, READ_S),
            )
            if self._stopped.is_set():
                raise EdgeError(ProblemKind.NOT_CONNECTED, "stopped")
            if options.imap_security == "starttls":
                self._client.starttls(ssl.create_default_context())
            self._log_in()
            self._idles = self._client.has_capability("IDLE")
            return self._select(folder, readonly=readonly)

    def _log_in(self) -> None:
        try:
            self._client.login(self._options.login, self._options.password.get_secret_value())
        except imapclient.exceptions.LoginError as error:
            raise imap_login_error(str(error)) from None

    def _select(self, folder: str, *, readonly: bool) -> Opened:
        try:
            told = self._client.select_folder(folder, readonly=readonly)
        except imapclient.exceptions.IMAPClientError as error:
            if not self._client.folder_exists(folder):
                raise EdgeError(ProblemKind.NEEDS_HUMAN, f"there is no folder {folder!r}: {error}") from None
            raise
        return Opened(int(told[b"UIDVALIDITY"]), int(told.get(b"UIDNEXT") or self._next_uid()))

    def _next_uid(self) -> int:
        return max(self._client.search(["ALL"]), default=0) + 1

    def stop(self) -> None:
        """From another thread: let whatever waits fail."""
        self._stopped.set()
        client = self._client
        if client is None:
            return
        with _CLOSED:
            client.socket().shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        if self._client is not None:
            with _CLOSED:
                self._client.shutdown()

    # ------------------------------------------------------------------ reading

    def after(self, uid: int) -> list[int]:
        """Return the ids of the mails after one, oldest first."""
        with _Lines():
            # `n:*` also names the last one, where all are older than n.
            return sorted(each for each in self._client.search(["UID", f"{uid + 1}:*"]) if each > uid)

    def since(self, at: datetime) -> list[int]:
        """Return the ids of the mails that arrived in this second or later (mails have no finer dates)."""
        with _Lines():
            found = self._client.search(["SINCE", at.date()])
            dates = self._client.fetch(found, ["INTERNALDATE"]) if found else {}
            return sorted(uid for uid, told in dates.items() if _instant(told[b"INTERNALDATE"]) >= at)

    def fetch(self, uid: int, most: int) -> Fetched | None:
        """Fetch a mail without marking it as seen; None when it is gone."""
        with _Lines():
            told = self._client.fetch([uid], ["RFC822.SIZE", "INTERNALDATE"]).get(uid)
            if told is None:
                return None
            size, at = int(told[b"RFC822.SIZE"]), _instant(told[b"INTERNALDATE"])
            wanted = "BODY.PEEK[]" if size <= most else f"BODY.PEEK[]<0.{BEGINNING}>"
            found = self._client.fetch([uid], [wanted]).get(uid) or {}
            raw = next((value for key, value in found.items() if key.startswith(b"BODY[]")), None)
            return None if raw is None else Fetched(raw, at, None if size <= most else size)

    def mark_seen(self, uid: int) -> None:
        with _Lines():
            self._client.add_flags([uid], [imapclient.SEEN], silent=True)

    def wait(self, idle_s: float, poll_s: float) -> None:
        """Wait until something may be new, or for so long."""
        with _Lines():
            if not self._idles:
                self._stopped.wait(poll_s)
                self._client.noop()
                return
            try:
                self._client.idle()
            except imapclient.exceptions.IMAPClientError as error:
                if "Unexpected IDLE response" not in str(error):
                    raise
                # News came between asking and listening. The library has lost its place in the conversation.
                self._again()
                return
            self._client.idle_check(timeout=idle_s)
            self._client.idle_done()

    def _again(self) -> None:
        self.close()
        self.open(self._options.folder)

    # ------------------------------------------------------------------ looking up, keeping

    def holds(self, folder: str, message_id: str) -> bool:
        """Say whether a folder has a mail of this id."""
        with _Lines():
            self._client.select_folder(folder, readonly=True)
            return bool(self._client.search(["HEADER", "Message-ID", f"<{message_id}>"]))

    def headers_of(self, folders: tuple[str, ...], message_id: str) -> bytes | None:
        """Return subject and references of a mail of this id, if one of the folders has it."""
        wanted = "BODY.PEEK[HEADER.FIELDS (SUBJECT REFERENCES IN-REPLY-TO MESSAGE-ID)]"
        with _Lines():
            for folder in folders:
                self._client.select_folder(folder, readonly=True)
                found = self._client.search(["HEADER", "Message-ID", f"<{message_id}>"])
                told = self._client.fetch(found[:1], [wanted]) if found else {}
                for each in told.values():
                    return next(
                        (bytes(value) for key, value in each.items() if key.startswith(b"BODY[")), None
                    )
        return None

    def sent_folder(self) -> str | None:
        """Return the folder for what was sent: the configured one, or what the server calls so."""
        with _Lines():
            if self._options.sent_folder is not None:
                return self._options.sent_folder
            special: str | None = self._client.find_special_folder(b"\\Sent")
            if special is None and self._client.folder_exists("Sent"):
                return "Sent"
            return special

    def keep(self, folder: str, raw: bytes) -> None:
        """Put a mail of ours into a folder."""
        with _Lines():
            self._client.append(folder, raw, flags=[imapclient.SEEN])

    def next_uid(self, folder: str) -> int:
        """Ask for the id that the next mail will get."""
        with _Lines():
            return int(self._client.folder_status(folder, ["UIDNEXT"])[b"UIDNEXT"])


class Worker:
    """A mailbox's thread."""

    def __init__(self, mailbox: Mailbox, name: str) -> None:
        self.mailbox = mailbox
        self._loop = asyncio.get_running_loop()
        self._jobs: queue.SimpleQueue[tuple[Callable[[], Any], asyncio.Future[Any]] | None] = (
            queue.SimpleQueue()
        )
        # A daemon: while it connects it cannot be stopped, and the process must not wait for it.
        self._thread = threading.Thread(target=self._work, name=name, daemon=True)
        self._thread.start()

    async def do(self, job: Callable[P, T], *args: P.args, **more: P.kwargs) -> T:
        """Let the thread do something; raises what it raises."""
        done: asyncio.Future[T] = self._loop.create_future()
        self._jobs.put((lambda: job(*args, **more), done))
        return await done

    def stop(self) -> None:
        self.mailbox.stop()
        self._jobs.put(None)

    def _work(self) -> None:
        while (job := self._jobs.get()) is not None:
            work, done = job
            try:
                result = work()
            except BaseException as error:  # noqa: BLE001 it is raised where it was asked for
                self._tell(_settle, done, None, error)
            else:
                self._tell(_settle, done, result, None)
        self.mailbox.close()

    def _tell(self, what: Callable[..., None], *args: Any) -> None:
        with suppress(RuntimeError):  # the loop is closed: nobody waits
            self._loop.call_soon_threadsafe(what, *args)


def _settle(done: "asyncio.Future[Any]", result: Any, error: BaseException | None) -> None:
    if done.done():
        return
    if error is None:
        done.set_result(result)
    else:
        done.set_exception(error)


class _Lines:
    """Turns what the network and the library raise into EdgeErrors."""

    def __enter__(self) -> None:
        return

    def __exit__(self, _: object, error: BaseException | None, __: object) -> None:
        match error:
            case None | EdgeError():
                return
            case ssl.SSLCertVerificationError():
                why = f"the mail server's certificate is not good: {error.verify_message}"
                raise EdgeError(ProblemKind.NEEDS_HUMAN, why) from None
            case OSError() | imapclient.exceptions.IMAPClientError() | imapclient.IMAPClient.AbortError():
                raise EdgeError(ProblemKind.TRANSIENT, f"mailbox: {type(error).__name__}: {error}") from None
            case imapclient.exceptions.ProtocolError() | ValueError() | KeyError():
                why = f"the mail server's answer cannot be read: {type(error).__name__}: {error}"
                raise EdgeError(ProblemKind.TRANSIENT, why) from None


def _instant(found: datetime) -> datetime:
    """The library gives local times without a zone."""
    return found.astimezone(UTC)
