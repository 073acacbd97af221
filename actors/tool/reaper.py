"""Runs one command and outlives all that it started. Its own small process.

Started by `process.py` as a plain script, so that it costs milliseconds: it
imports the standard library only. It is the subreaper of its command (prctl(2)):
a descendant that forks twice, or makes a session of its own, becomes its child
when its parent ends, so having no children means that nothing is left.

    arguments   control fd, status fd, grace in seconds, then the command
    control     a byte, or the end of the pipe (our parent died): stop now
    status      one line of JSON at the end: {"code"|"signal"|"error", "left"}

When the command ends or is to stop, what runs is asked to end (SIGTERM), and
killed (SIGKILL) after the grace.
"""

# ruff: noqa: TID251, SIM105, PTH123, PTH208 its clock is its own, and each import costs a part of its start

import ctypes
import json
import os
import resource
import select
import signal
import sys
import time

PR_SET_CHILD_SUBREAPER = 36
KILLING_S = 2.0
STEP_MS = 10
OOM_SCORE = b"500"
NOT_FOUND = 127


def main() -> None:
    control, status = int(sys.argv[1]), int(sys.argv[2])
    for fd in (control, status):
        os.set_inheritable(fd, False)
    reaper = Reaper(control, float(sys.argv[3]))
    report = reaper.run(sys.argv[4:])
    os.write(status, json.dumps(report).encode() + b"\n")


class Reaper:
    """One command and its descendants."""

    def __init__(self, control: int, grace_s: float) -> None:
        self._control = control
        self._grace_s = grace_s
        self._status: int | None = None
        self._stop = False
        self._alive = True

    def run(self, command: list[str]) -> dict[str, object]:
        become_subreaper()
        wake, self._wake_end = os.pipe()
        for fd in (wake, self._wake_end):
            os.set_blocking(fd, False)
        signal.set_wakeup_fd(self._wake_end, warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            signal.signal(number, self._asked_to_stop)
        try:
            self._main = start(command)
        except OSError as error:
            return {"error": error.strerror or str(error), "left": 0}
        silence()
        self._wait(wake)
        self._end()
        left = len(descendants()) if self._alive else 0
        return {**outcome(self._status), "left": left}

    def _asked_to_stop(self, *_: object) -> None:
        self._stop = True

    def _wait(self, wake: int) -> None:
        """Wait until the command ends or is to stop."""
        poll = select.poll()
        poll.register(wake, select.POLLIN)
        poll.register(self._control, select.POLLIN | select.POLLHUP)
        while self._status is None and not self._stop:
            for fd, _ in poll.poll():
                if fd == wake:
                    os.read(wake, 4096)
                else:
                    self._stop = True
            self._reap()

    def _end(self) -> None:
        """Leave nothing behind."""
        self._reap()
        if not self._alive:
            return
        for pid in descendants():
            send(pid, signal.SIGTERM)
            send(pid, signal.SIGCONT)
        self._until_gone(self._grace_s)
        deadline = time.monotonic() + KILLING_S
        while self._alive and time.monotonic() < deadline:
            found = descendants()
            for pid in found:  # stopped first, so that none forks while the others are killed
                send(pid, signal.SIGSTOP)
            for pid in {*found, *descendants()}:
                send(pid, signal.SIGKILL)
            self._until_gone(STEP_MS / 1000)

    def _until_gone(self, seconds: float) -> None:
        deadline = time.monotonic() + seconds
        while self._alive and time.monotonic() < deadline:
            self._reap()
            if self._alive:
                select.select([], [], [], STEP_MS / 1000)
        self._reap()

    def _reap(self) -> None:
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                self._alive = False
                return
            if pid == 0:
                return
            if pid == self._main:
                self._status = status


def become_subreaper() -> None:
    try:
        ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    except (AttributeError, OSError):
        pass  # not Linux: what leaves the session is then found by its parents only


def start(command: list[str]) -> int:
    """Start the command in a session of its own; raise OSError when it cannot be executed."""
    failed, report = os.pipe()
    pid = os.fork()
    if pid == 0:
        become(command, report)
    os.close(report)
    with os.fdopen(failed, "rb") as reading:
        number = reading.read()
    if number:
        os.waitpid(pid, 0)
        raise OSError(int(number), os.strerror(int(number)))
    return pid


def become(command: list[str], report: int) -> None:
    try:
        os.setsid()
        signal.set_wakeup_fd(-1)
        for number in (signal.SIGPIPE, signal.SIGXFSZ, signal.SIGCHLD, *ASKING):
            signal.signal(number, signal.SIG_DFL)
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        volunteer_for_oom()
        os.execvp(command[0], command)  # noqa: S606 the command is the purpose
    except OSError as error:
        os.write(report, str(error.errno or 0).encode())
    os._exit(NOT_FOUND)


ASKING = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)


def volunteer_for_oom() -> None:
    """When memory runs out, let it be the command that goes, not the one that serves everybody."""
    try:
        with open("/proc/self/oom_score_adj", "wb", buffering=0) as file:
            file.write(OOM_SCORE)
    except OSError:
        pass


def silence() -> None:
    """Let go of the output, so that its end is seen when the command's last process ends."""
    null = os.open(os.devnull, os.O_RDWR)
    for fd in (0, 1, 2):
        os.dup2(null, fd)
    os.close(null)


def descendants() -> list[int]:
    """Return the living below this process, nearest first."""
    children: dict[int, list[int]] = {}
    try:
        entries = os.listdir("/proc")
    except OSError:
        return []
    for entry in entries:
        if entry.isdigit() and (parent := parent_of(entry)) is not None:
            children.setdefault(parent, []).append(int(entry))
    found: list[int] = []
    waiting = [os.getpid()]
    while waiting:
        below = children.get(waiting.pop(0), [])
        found += below
        waiting += below
    return found


def parent_of(pid: str) -> int | None:
    """Return the parent of a process; None when it is gone or only waits to be reaped."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            state, parent = file.read().rpartition(b")")[2].split()[:2]
    except (OSError, ValueError):
        return None
    return None if state == b"Z" else int(parent)


def send(pid: int, number: int) -> None:
    try:
        os.kill(pid, number)
    except OSError:
        pass  # gone, or not ours any more


def outcome(status: int | None) -> dict[str, object]:
    if status is None:
        return {"signal": int(signal.SIGKILL)}
    if os.WIFSIGNALED(status):
        return {"signal": os.WTERMSIG(status)}
    return {"code": os.waitstatus_to_exitcode(status)}


if __name__ == "__main__":
    main()
