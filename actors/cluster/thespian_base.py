"""thespian's queue base, with each of its processes tied to ours.

The base starts an administrator, a logger and a process for each actor. The first
detaches itself from us on purpose, so that it would outlive us; here it holds a line
to us and ends with it, and the others end with it.

This module is imported in those processes too: it brings nothing that they do not need.
"""

import json
import logging
import multiprocessing
import socket
import threading
from typing import Any, Final

from thespian.system.multiprocQueueBase import ActorSystemBase
from thespian.system.transport import MultiprocessQueueTransport as queue_transport  # noqa: N813 a module
from thespian.system.transport.MultiprocessQueueTransport import MpQTEndpoint, MultiprocessQueueTransport
from thespian.system.utilis import thesplog_control

from actors.cluster.ties import end_with_line, end_with_parent

LOOKS_EVERY_S: Final = 0.5
"""How often thespian's processes look whether a child has died or a stop is wanted; by itself it is two seconds."""

METHOD: Final = "spawn"

START: Final = {"Process Startup Method": METHOD}

ADDRESS: Final = "Admin Address"
"""thespian's name for what the administrator is called. We call it by the line that it is to hold."""


def admin_name(socket_path: str, token: str) -> str:
    """Return the administrator's name: where its line goes, and what it says there first."""
    return json.dumps([socket_path, token])


class TiedTransport(MultiprocessQueueTransport):  # type: ignore[misc] # thespian has no types
    """Made once in every process of a system."""

    def __init__(self, init_type: Any, *args: Any) -> None:
        thesplog_control(logging.CRITICAL, False, 0)  # it would write to a file in the temporary folder
        queue_transport.QUEUE_CHECK_PERIOD = LOOKS_EVERY_S
        super().__init__(init_type, *args)
        if isinstance(init_type, MpQTEndpoint):
            self._tie(init_type)

    @staticmethod
    def _tie(endpoint: Any) -> None:
        _, mine, _, _, _, admin, _ = endpoint.args
        if mine != admin:
            end_with_parent()
            return
        path, token = json.loads(admin.addressDetails._qaddr)  # noqa: SLF001 it has no other name
        line = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        line.connect(path)
        hello = json.dumps({"token": token}).encode()
        line.sendall(len(hello).to_bytes(4, "big") + hello)
        end_with_line(line)


class _NotingContext:
    """Starts processes as its context does, and remembers them. In another process it is that context."""

    def __init__(self, context: Any) -> None:
        self._context = context
        self.started: list[Any] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(self._context, name)

    def __reduce__(self) -> Any:
        return multiprocessing.get_context, (METHOD,)

    def Process(self, *args: Any, **kwargs: Any) -> Any:  # noqa: N802 as multiprocessing has it
        process = self._context.Process(*args, **kwargs)
        self.started.append(process)
        return process


def _reap(process: Any) -> None:
    """Wait for a process that has made the administrator and ends then; thespian forgets it.

    Its `join` would wait for the administrator, who holds its end of the pipe.
    """
    pause = threading.Event()
    for _ in range(100):
        if process.exitcode is not None:
            return
        pause.wait(0.01)


class TiedBase(ActorSystemBase):  # type: ignore[misc] # thespian has no types
    """The queue base over that transport. Its processes are started afresh, not forked: they inherit nothing."""

    transportType = TiedTransport  # noqa: N815 thespian's name

    def _startAdmin(self, *args: Any) -> None:  # noqa: N802 thespian's name
        noting = _NotingContext(multiprocessing.get_context(METHOD))
        self.mpcontext: Any = noting
        try:
            super()._startAdmin(*args)
        finally:
            self.mpcontext = noting._context  # noqa: SLF001 ours
        for process in noting.started:
            _reap(process)
