"""The HTTP server: one application behind two doors, TCP on loopback and a socket file of the user's own."""

import asyncio
import contextlib
import errno
import json
import os
import socket
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import structlog
import uvicorn
from pydantic import SecretStr
from starlette.types import ASGIApp
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from actors.clock import Clock
from actors.console.access import Access, Door
from actors.console.api import COMMAND_HELP, Surroundings
from actors.console.app import build_app
from actors.console.control_socket import ServerStartError, bind_control_socket, is_same_user
from actors.console.guard import Guard
from actors.console.port import Desk
from actors.console.wire import OpenRequests
from messages.settings import ServerSettings

__all__ = ["ConsoleServer", "ServerStartError"]

log = structlog.get_logger(__name__)

BACKLOG = 4096
GOODBYE_S = 5
"""How long answers that are being sent may take when the server stops."""


class ConsoleServer:
    """The console on its two doors.

    `start` returns when both take requests, and has written `run.json` beside
    the socket: how other programs of this user find it. `stop` ends what waits
    and streams, lets finished answers out, and removes both files.
    """

    def __init__(
        self,
        desk: Desk,
        settings: ServerSettings,
        *,
        home: Path,
        token: SecretStr,
        clock: Clock,
        version: str = "",
        serve_tcp: bool = True,
        commands: Sequence[tuple[str, str]] = COMMAND_HELP,
    ) -> None:
        self.url = ""
        """Where a browser finds the page (no slash at the end); empty without TCP."""
        self.socket = home / "control.sock"
        """The control socket; elsewhere than in the data folder when that path is too long for one."""
        self._desk = desk
        self._settings = settings
        self._home = home
        self._token = token
        self._clock = clock
        self._version = version
        self._serve_tcp = serve_tcp
        self._commands = commands
        self._open_requests = OpenRequests()
        self._access: Access | None = None
        self._doors: list[tuple[_Door, asyncio.Task[None]]] = []

    async def start(self) -> None:
        """Open both doors. Raises ServerStartError."""
        self.socket, control = bind_control_socket(self._home)
        sockets: list[tuple[Door, socket.socket]] = [("control", control)]
        try:
            if self._serve_tcp:
                sockets.append(("tcp", self._bind()))
        except ServerStartError:
            control.close()
            self.socket.unlink()
            raise
        settings = self._settings
        self._access = Access(
            self._token,
            host=settings.host,
            allowed_hosts=settings.allowed_hosts,
            allowed_origins=settings.allowed_origins,
            clock=self._clock,
        )
        around = Surroundings(
            self._desk, self._access, self._clock, self._open_requests, self.url, self._commands
        )
        app = build_app(around)
        for door, listener in sockets:
            await self._open(Guard(app, self._access, door), door, listener)
        self._write_run_file()
        log.info("the console takes requests", url=self.url or None, socket=str(self.socket))

    async def stop(self) -> None:
        """Close both doors. A second call does nothing."""
        self._open_requests.close()
        doors, self._doors = self._doors, []
        for door, _ in doors:
            door.should_exit = True
        for _, serving in doors:
            await serving
        if doors:
            self.socket.unlink(missing_ok=True)
            self._run_file().unlink(missing_ok=True)

    def login_url(self) -> str:
        """Return a link that logs a browser in: once, within ten minutes. Empty without TCP."""
        if self._access is None or not self.url:
            return ""
        return f"{self.url}/?login={self._access.codes.make()}"

    # ---------------------------------------------------------------- private

    def _bind(self) -> socket.socket:
        host = self._settings.host
        listener = _listen(host, self._settings.port)
        shown = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host)  # noqa: S104 only compared
        self.url = f"http://{f'[{shown}]' if ':' in shown else shown}:{listener.getsockname()[1]}"
        return listener

    async def _open(self, app: ASGIApp, door: Door, listener: socket.socket) -> None:
        config = uvicorn.Config(
            app,
            http=HttpToolsProtocol if door == "tcp" else _SameUserProtocol,
            ws="none",
            lifespan="off",
            log_config=None,
            access_log=False,
            server_header=False,
            proxy_headers=False,
            backlog=BACKLOG,
            timeout_keep_alive=30,
            timeout_graceful_shutdown=GOODBYE_S,
        )
        server = _Door(config)
        serving = asyncio.create_task(server.serve(sockets=[listener]), name=f"console:{door}")
        self._doors.append((server, serving))
        await server.up.wait()

    def _run_file(self) -> Path:
        return self._home / "run.json"

    def _write_run_file(self) -> None:
        facts = {
            "pid": os.getpid(),
            "url": self.url or None,
            "socket": str(self.socket),
            "started_at": self._clock.now().isoformat(),
            "version": self._version,
        }
        new = self._home / "run.json.new"
        new.unlink(missing_ok=True)
        with os.fdopen(os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
            json.dump(facts, file, indent=1)
        new.replace(self._run_file())


def _listen(host: str, port: int) -> socket.socket:
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    except OSError as error:
        raise _no_such_host(host, error) from None
    family, kind, protocol, _, address = found[0]
    listener = socket.socket(family, kind, protocol)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(address)
        listener.listen(BACKLOG)
    except OSError as error:
        listener.close()
        if error.errno == errno.EADDRNOTAVAIL:
            raise _no_such_host(host, error) from None
        raise _no_port(host, port, error) from None
    listener.setblocking(False)
    return listener


def _no_such_host(host: str, error: OSError) -> ServerStartError:
    return ServerStartError(
        f"the server's host {host!r} is no address of this machine ({error.strerror}).",
        "Set server.host in callboard.yaml; 127.0.0.1 is the default.",
    )


def _no_port(host: str, port: int, error: OSError) -> ServerStartError:
    what = f"the server cannot listen on {host}, port {port} ({(error.strerror or str(error)).lower()})."
    if error.errno == errno.EADDRINUSE:
        what += " Another program, or another Callboard, has it."
    return ServerStartError(
        what, "Set server.port in callboard.yaml to another port, or to 0 for any that is free."
    )


class _Door(uvicorn.Server):
    """A server that says when it is up, and leaves signals to whoever runs the process."""

    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self.up = asyncio.Event()

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self.up.set()

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


class _SameUserProtocol(HttpToolsProtocol):
    """Hangs up on everybody but processes of our own user and of root."""

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        if not is_same_user(transport.get_extra_info("socket")):
            log.warning("somebody else's process was turned away from the control socket")
            transport.abort()
