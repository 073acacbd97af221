"""What ties a process of ours to whoever raised it: it ends when that one does, however that one ends."""

import contextlib
import ctypes
import faulthandler
import multiprocessing
import os
import signal
import socket
import sys
import threading
from pathlib import Path
from typing import Final

_PR_SET_PDEATHSIG: Final = 1

LINUX: Final = sys.platform.startswith("linux")


def end_with_parent() -> None:
    """Let the kernel kill this process when its parent ends."""
    maker = multiprocessing.parent_process()
    if LINUX and maker is not None:
        ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
        if os.getppid() != maker.pid:
            os._exit(1)  # it ended before this was asked for


def end_with_line(line: socket.socket) -> None:
    """End this process when the other end of a line is closed: for one that has no parent to end with."""

    def wait() -> None:
        try:
            while line.recv(64):
                pass
        except OSError:
            pass
        os._exit(0)

    threading.Thread(target=wait, name="tie", daemon=True).start()


def living_children(pid: int) -> int:
    """Count a process's children that have not ended; 0 for one that is gone, many where nobody can tell."""
    try:
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text()
    except FileNotFoundError:
        return 0 if not Path(f"/proc/{pid}").exists() else sys.maxsize
    living = 0
    for child in children.split():
        with contextlib.suppress(OSError):
            state = Path(f"/proc/{child}/stat").read_text().rpartition(")")[2].split()[0]
            living += state not in {"Z", "X"}
    return living


def plain_signals() -> None:
    """Give signals their usual meaning again.

    thespian handles every one of them in Python. A fault in C would then never end
    the process: the handler returns, and the instruction that failed is tried again,
    for ever, at full load.
    """
    for number in signal.valid_signals():
        if number not in {signal.SIGKILL, signal.SIGSTOP}:
            try:
                signal.signal(number, signal.SIG_DFL)
            except (OSError, ValueError):
                continue  # the C library keeps some for itself
    signal.signal(signal.SIGPIPE, signal.SIG_IGN)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    faulthandler.enable()
