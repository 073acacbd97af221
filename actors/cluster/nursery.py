"""Where processes are raised, under thespian; see docs/adr/0007-processes-under-thespian.md.

thespian makes a process and tells it one thing: where its line goes. The line is a
unix socket in a folder that is ours alone; whoever connects must know the token that
it was given, and belong to our user. Everything else crosses there.

A bridge thread owns the thespian system, because its calls block. A process that ends
is known by its pidfd within milliseconds. A system that does not raise what it is
asked for is retired: its processes go on, and a new one raises the next.
"""

import asyncio
import contextlib
import hmac
import json
import os
import queue
import secrets
import signal
import tempfile
import threading
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import structlog

from actors.cluster.port import ProcessGoneError
from actors.cluster.ties import LINUX, living_children
from actors.cluster.wire import StreamChannel
from actors.console.control_socket import is_same_user, peer

log = structlog.get_logger(__name__)

START_S: Final = 10.0
"""How long a process may take to come up, and a system to be made."""

LOOK_S: Final = 0.25
LOOKS_SEEN: Final = 2
LOOKS_UNSEEN: Final = 12
"""So many looks in a row found no process that starts, although one is asked for: it has ended.
The first is for one that was seen, the other for one that may not have begun."""

LOGGERS: Final = 1
"""thespian's logger is a child of its administrator, as our processes are."""

HELLO_S: Final = 5.0
LAST_WORDS_S: Final = 0.2
"""After a process has ended, how long what it had said may take to be read."""

MOST_RAISED: Final = 500
"""thespian remembers every process that it ever made: after so many a new system takes over."""

SHUTDOWN_S: Final = 3.0


class _StartFailedError(ProcessGoneError):
    """A process ended before it was up."""


class RaisedProcess(StreamChannel):
    """Implements `actors.cluster.port.ProcessActor`."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, pid: int) -> None:
        super().__init__(reader, writer)
        self._pid = pid
        self._pidfd = os.pidfd_open(pid)
        self._over = asyncio.Event()
        asyncio.get_running_loop().add_reader(self._pidfd, self._ended)

    def _ended(self) -> None:
        """Called by the loop: the process is gone."""
        if self._over.is_set():
            return
        loop = asyncio.get_running_loop()
        loop.remove_reader(self._pidfd)
        os.close(self._pidfd)
        self._over.set()
        # A process that it had started may hold the line open: do not wait for its end.
        loop.call_later(LAST_WORDS_S, self.abort)

    @property
    def pid(self) -> int:
        return self._pid

    @property
    def alive(self) -> bool:
        return not self._over.is_set()

    async def end(self, patience_s: float) -> None:
        self.close()
        try:
            async with asyncio.timeout(patience_s):
                await self._over.wait()
        except TimeoutError:
            self.kill()
            await self._over.wait()
        finally:
            self.kill()

    def kill(self) -> None:
        """End it at once, if it has not ended."""
        if not self._over.is_set():
            with contextlib.suppress(ProcessLookupError):
                signal.pidfd_send_signal(self._pidfd, signal.SIGKILL)


@dataclass
class _System:
    """One thespian system, and the thread that owns it."""

    token: str
    orders: "queue.SimpleQueue[bytes | None]" = field(default_factory=queue.SimpleQueue)
    raised: int = 0
    line: asyncio.StreamWriter | None = None
    """To its administrator, who ends when it is closed."""
    holding: "asyncio.Task[None] | None" = None
    """Waits for the end of that line."""
    thread: threading.Thread | None = None
    living: set[RaisedProcess] = field(default_factory=set)
    pending: set[str] = field(default_factory=set)
    """Tokens of what it was asked for and has not raised."""
    making: bool = False
    """Whether the bridge waits for thespian to make a process. Written by the bridge."""
    administrator: int = 0
    """Its process; 0 before it is known."""
    retired: bool = False
    broken: bool = False
    """Its administrator is gone."""


class ThespianNursery:
    """Implements `actors.cluster.port.Nursery`. Nothing is started before the first process is asked for."""

    def __init__(self, *, start_s: float = START_S) -> None:
        self._start_s = start_s
        self._folder: tempfile.TemporaryDirectory[str] | None = None
        self._server: asyncio.Server | None = None
        self._system: _System | None = None
        self._systems: dict[str, _System] = {}
        """By their tokens, retired ones too."""
        self._expected: dict[str, asyncio.Future[RaisedProcess]] = {}
        """Processes that are to come, by their tokens."""
        self._given_up: set[str] = set()
        """Tokens of those that came too late, or may still come."""
        self._opening = asyncio.Lock()
        self._closed = False

    @staticmethod
    def missing() -> str:
        """Say what this machine lacks; empty when nothing."""
        if LINUX and hasattr(os, "pidfd_open") and hasattr(signal, "pidfd_send_signal"):
            return ""
        return "processes of their own for platforms need Linux 5.3 or later"

    # ------------------------------------------------------------------ raising

    async def raise_process(self, program: str) -> RaisedProcess:
        try:
            return await self._raised(await self._ready_system(), program)
        except _StartFailedError:
            # thespian waits for it for ever, and makes nothing else meanwhile; the next system does.
            return await self._raised(await self._ready_system(), program)

    async def _raised(self, system: _System, program: str) -> RaisedProcess:
        token = secrets.token_hex(16)
        coming: asyncio.Future[RaisedProcess] = asyncio.get_running_loop().create_future()
        self._expected[token] = coming
        system.pending.add(token)
        system.raised += 1
        order = {"socket": self._socket_path(), "token": token, "program": program}
        system.orders.put(json.dumps(order).encode())
        try:
            async with asyncio.timeout(self._start_s):
                process = await self._awaited(system, coming)
        except BaseException as error:
            self._given_up.add(token)
            if coming.done() and not coming.cancelled() and coming.exception() is None:
                coming.result().kill()  # it came in the very moment in which nobody waited any more
            if isinstance(error, TimeoutError):
                self._retire(system, "it raised no process in time")
                raise ProcessGoneError("it did not come up in time") from None
            raise
        finally:
            self._expected.pop(token, None)
            system.pending.discard(token)
        system.living.add(process)
        self._forget_dead(system)
        return process

    async def _awaited(self, system: _System, coming: "asyncio.Future[RaisedProcess]") -> RaisedProcess:
        """Wait for a process, as long as one is starting: thespian would wait for ever for one that has ended."""
        looks, patience = 0, LOOKS_UNSEEN
        while not (await asyncio.wait((coming,), timeout=LOOK_S))[0]:
            if system.broken:
                raise _StartFailedError("its system is gone")
            if not system.making or not system.administrator:
                continue
            up = sum(each.alive for each in system.living)
            if living_children(system.administrator) > up + LOGGERS:
                looks, patience = 0, LOOKS_SEEN
            else:
                looks += 1
            if looks >= patience:
                self._retire(system, "a process ended while it was raised")
                raise _StartFailedError("it ended while it was raised")
        return coming.result()

    async def _ready_system(self) -> _System:
        if self._closed:
            raise ProcessGoneError("no process is raised any more")
        async with self._opening:
            if self._server is None:
                self._folder = tempfile.TemporaryDirectory(prefix="callboard-", ignore_cleanup_errors=True)
                # The folder is ours alone (0700), and so is whatever lies in it.
                self._server = await asyncio.start_unix_server(self._arrived, self._socket_path())
            if self._system is not None and self._system.raised >= MOST_RAISED:
                self._retire(self._system, "it has raised enough")
            if self._system is None:
                system = self._system = _System(secrets.token_hex(16))
                self._systems[system.token] = system
                system.thread = threading.Thread(
                    target=self._bridge,
                    args=(system, asyncio.get_running_loop()),
                    name="thespian",
                    daemon=True,
                )
                system.thread.start()
            return self._system

    def _socket_path(self) -> str:
        assert self._folder is not None
        return str(Path(self._folder.name) / "line.sock")

    def _retire(self, system: _System, why: str) -> None:
        """Raise nothing more with it; it ends with its last process."""
        if not system.retired and not self._closed:
            log.warning("a system of processes is retired", why=why, living=len(system.living))
            system.retired = True
            if self._system is system:
                self._system = None
            self._forget_dead(system)

    def _forget_dead(self, system: _System) -> None:
        system.living = {each for each in system.living if each.alive}
        for each in tuple(self._systems.values()):
            if each.retired and not each.living and not each.pending:
                self._systems.pop(each.token, None)
                each.orders.put(None)
                if each.line is not None:
                    each.line.close()

    # ------------------------------------------------------------------ the bridge

    def _bridge(self, system: _System, loop: asyncio.AbstractEventLoop) -> None:
        """Own a thespian system: the body of the bridge thread. What goes wrong retires the system."""
        from actors.cluster import thespian_bridge  # noqa: PLC0415 only who isolates needs thespian

        try:
            with thespian_bridge.opened(self._socket_path(), system.token, lambda: system.broken) as bridge:
                while (order := system.orders.get()) is not None:
                    if not system.retired:
                        self._make(bridge, order, system, loop)
        except Exception as error:
            log.exception("thespian cannot be started, or stopped")
            self._bridge_failed(system, loop, error)

    def _make(self, bridge: Any, order: bytes, system: _System, loop: asyncio.AbstractEventLoop) -> None:
        system.making = True
        try:
            bridge.make(order)
        except Exception as error:  # noqa: BLE001 thespian's own, of any kind
            if not system.retired:
                log.warning("thespian made no process", error=repr(error))
            self._bridge_failed(system, loop, error)
        system.making = False

    def _bridge_failed(self, system: _System, loop: asyncio.AbstractEventLoop, error: Exception) -> None:
        with contextlib.suppress(RuntimeError):  # the loop is closed
            loop.call_soon_threadsafe(self._retire, system, f"thespian failed: {error!r}")

    # ------------------------------------------------------------------ who comes

    async def _arrived(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Somebody has connected: an administrator or a process of ours, or nobody that we know."""
        try:
            async with asyncio.timeout(HELLO_S):
                token = str(json.loads(await StreamChannel(reader, writer).hear())["token"])
        except (ProcessGoneError, TimeoutError, ValueError, KeyError, TypeError):
            token = ""
        connection = writer.get_extra_info("socket")
        system = self._systems.get(_known(token, self._systems))
        coming = self._expected.get(_known(token, self._expected))
        pid = peer(connection)[0]
        if not is_same_user(connection) or (system is None and coming is None):
            late = _known(token, self._given_up)
            self._given_up.discard(late)
            if not late:
                log.warning("somebody who is not known has connected", pid=pid)
            writer.close()
        elif system is not None:
            system.line, system.administrator = writer, pid
            system.holding = asyncio.ensure_future(self._hold(system, reader, writer, os.pidfd_open(pid)))
        elif coming is not None and not coming.done():
            try:
                coming.set_result(RaisedProcess(reader, writer, pid))
            except ProcessLookupError:
                writer.close()  # it has ended already

    async def _hold(
        self,
        system: _System,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        pidfd: int,
    ) -> None:
        """Hold the line to an administrator. When it is closed, he is gone, or has to go; his children too."""
        with contextlib.suppress(OSError):
            while await reader.read(64):
                pass
        system.broken = True
        writer.close()
        with contextlib.suppress(ProcessLookupError):
            signal.pidfd_send_signal(pidfd, signal.SIGKILL)
        os.close(pidfd)
        self._retire(system, "its administrator is gone")

    # ------------------------------------------------------------------ the end

    async def close(self) -> None:
        self._closed = True
        for system in tuple(self._systems.values()):
            await asyncio.gather(*(each.end(0.5) for each in system.living))
            system.orders.put(None)
        for system in tuple(self._systems.values()):
            await self._close_system(system)
        if self._server is not None:
            self._server.close()
        if self._folder is not None:
            self._folder.cleanup()

    async def _close_system(self, system: _System) -> None:
        loop = asyncio.get_running_loop()
        if system.thread is not None:
            await loop.run_in_executor(None, system.thread.join, SHUTDOWN_S)
        if system.line is not None:
            system.line.close()
        if system.holding is not None:
            await asyncio.wait((system.holding,))


def _known(token: str, tokens: Any) -> str:
    """Return the token that is equal, found in a time that tells nothing; empty when there is none."""
    return next((each for each in tokens if hmac.compare_digest(each, token)), "")
