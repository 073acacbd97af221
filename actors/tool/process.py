"""A command in its own session: bounded output, nothing left running afterwards.

The command is started by `reaper.py`, one small process for each, which becomes
the parent of whatever loses its own, and ends all of it when the command ends, is
stopped, or when this process dies. Should the reaper itself be killed, a mark in
the environment finds what it left.
"""

import asyncio
import codecs
import contextlib
import fcntl
import json
import os
import secrets
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import structlog

from actors.tool.output import Cleaner, HeadAndTail, binary_type
from actors.tool.results import left_out, lost, open_private

log = structlog.get_logger(__name__)

REAPER = Path(__file__).with_name("reaper.py")
MARK = "CALLBOARD_CALL"
GRACE_S = 0.75
KEPT_AT_MOST = 64 * 1024 * 1024
_PIECE = 65536
_SNIFFED = 4096
_SAY_EVERY_S = 1.0
_SWEEPS = 20


@dataclass(frozen=True, slots=True)
class Command:
    """What to run, where, and how much of its output to show."""

    argv: Sequence[str]
    cwd: Path
    env: Mapping[str, str]
    budget: int
    """Bytes of output to show; more is kept at `keep_at`, up to 64 MiB."""
    keep_at: Path
    stdin: bytes = b""
    """What it may read; nothing else is connected to its standard input."""
    grace_s: float = GRACE_S
    """Between asking it to end and killing it."""


@dataclass(frozen=True, slots=True)
class Ended:
    """How a command ended."""

    text: str
    """Its output, standard error included, cut to the budget."""
    kept_in: Path | None
    code: int | None
    """Its exit code; None when it was killed by a signal or could not be started."""
    signal: int | None = None
    error: str = ""
    """Why it could not be started."""


class Output:
    """The output of one command: what is shown, what is kept."""

    def __init__(self, budget: int, keep_at: Path) -> None:
        note = _first_only(left_out(10**12, keep_at))
        self._budget = max(budget - len(note.encode("utf-8", "replace")), 200)
        self._keep_at = keep_at
        self._shown = HeadAndTail(self._budget)
        self._cleaner: Cleaner | None = Cleaner()
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._undecided: bytearray | None = bytearray()
        self._binary: str | None = None
        self._early = bytearray()
        self._file: IO[bytes] | None = None
        self._written = 0
        self._keeping = True

    def feed(self, data: bytes) -> None:
        """Take what the command wrote."""
        if self._undecided is None:
            self._take(data)
            return
        self._undecided += data
        if len(self._undecided) >= _SNIFFED:
            self._decide()

    def last_line(self) -> str:
        return "" if self._binary else self._shown.last_line()

    def text(self) -> str:
        """Return what is shown, so far."""
        self._settle()
        if self._binary:
            where = f", kept in {self._keep_at}" if self._file else ""
            return f"[binary output: {self._binary}, {self._shown.total:,} bytes{where}]"
        return self._shown.text(self._note).text

    def close(self) -> None:
        """Write out what is kept."""
        self._settle()
        if self._binary and self._file is None:
            self._keep(b"", whole=True)
        if self._file is not None:
            self._file.close()

    @property
    def kept_in(self) -> Path | None:
        return self._keep_at if self._file is not None else None

    def _settle(self) -> None:
        if self._undecided is not None:
            self._decide()
        if self._cleaner is not None:
            self._show(self._cleaner.end(), last=True)

    def _decide(self) -> None:
        data, self._undecided = bytes(self._undecided or b""), None
        self._binary = binary_type(data)
        if self._binary:
            self._cleaner = None
        self._take(data)

    def _take(self, data: bytes) -> None:
        self._show(self._cleaner.feed(data) if self._cleaner is not None else data)

    def _show(self, data: bytes, *, last: bool = False) -> None:
        if self._binary is None and (last or not data.isascii() or self._decoder.getstate()[0]):
            data = self._decoder.decode(data, last).encode()
        if self._binary is None and b"\x00" in data:
            data = data.replace(b"\x00", b"\xef\xbf\xbd")
        if data:
            self._shown.feed(data)
            self._keep(data, whole=False)

    def _keep(self, data: bytes, *, whole: bool) -> None:
        if not self._keeping:
            return
        try:
            if self._file is None:
                self._early += data
                if len(self._early) <= self._budget and not whole:
                    return
                self._file = os.fdopen(open_private(self._keep_at), "wb")
                data, self._early = bytes(self._early), bytearray()
            self._written += self._file.write(data[: KEPT_AT_MOST - self._written])
        except OSError as error:
            log.warning("output cannot be kept", place=str(self._keep_at), error=str(error))
            self._keeping = False

    def _note(self, dropped: int) -> str:
        if self._file is None or not self._keeping:
            return lost(dropped)
        note = left_out(dropped, self._keep_at)
        if self._shown.total <= KEPT_AT_MOST:
            return note
        return _first_only(note)


def _first_only(note: str) -> str:
    return note.replace("the whole result is", f"the first {KEPT_AT_MOST:,} bytes are")


class Running:
    """A command that runs. Made by `run_command` on the loop."""

    def __init__(
        self, command: Command, on_line: Callable[[str], None], read: Callable[[bytes], bytes]
    ) -> None:
        self._on_line = on_line
        self._filter = read
        self.output = Output(command.budget, command.keep_at)
        self._loop = asyncio.get_running_loop()
        self._ended: asyncio.Future[None] = self._loop.create_future()
        self._mark = secrets.token_hex(12)
        self._said_at = self._loop.time()
        self._start(command)

    def _start(self, command: Command) -> None:
        self._reading, output = os.pipe()
        control, self._control = os.pipe()
        self._status, status = os.pipe()
        argv = [sys.executable, "-I", "-S", str(REAPER), str(control), str(status), str(command.grace_s)]
        stdin = _as_file(command.stdin)
        try:
            self._popen = subprocess.Popen(
                [*argv, *command.argv],
                stdin=stdin,
                stdout=output,
                stderr=output,
                cwd=command.cwd,
                env={**command.env, MARK: self._mark},
                pass_fds=(control, status),
                start_new_session=True,
            )
        except BaseException:
            for fd in (self._reading, self._control, self._status):
                os.close(fd)
            raise
        finally:
            for fd in (output, control, status, stdin):
                os.close(fd)
        os.set_blocking(self._reading, False)
        os.set_blocking(self._status, False)
        self._enlarge_pipe()
        self._loop.add_reader(self._reading, self._on_output)
        self._watch_end()

    def _enlarge_pipe(self) -> None:
        with contextlib.suppress(OSError):  # a smaller pipe is only slower
            fcntl.fcntl(self._reading, getattr(fcntl, "F_SETPIPE_SZ", 1031), 4 * _PIECE)

    def _watch_end(self) -> None:
        if hasattr(os, "pidfd_open"):
            self._pidfd = os.pidfd_open(self._popen.pid)
            self._loop.add_reader(self._pidfd, self._on_end)
            return
        self._pidfd = -1
        waiting = self._loop.run_in_executor(None, self._popen.wait)
        waiting.add_done_callback(lambda _: self._on_end())

    def stop(self) -> None:
        """Ask it and all it started to end, and kill what does not within the grace."""
        if self._control >= 0:
            os.close(self._control)
            self._control = -1

    async def end(self) -> Ended:
        """Wait for its end. Cancelling stops it first, and waits until nothing of it runs."""
        try:
            await asyncio.shield(self._ended)
        except asyncio.CancelledError:
            self.stop()
            while not self._ended.done():
                try:
                    await asyncio.shield(self._ended)
                except asyncio.CancelledError:
                    continue
            await self._finish()
            raise
        return await self._finish()

    async def _finish(self) -> Ended:
        self.stop()
        report = self._report()
        if not report:
            report = {"signal": int(signal.SIGKILL)}
            await asyncio.to_thread(sweep, self._mark)
        if report.get("left"):
            log.error("processes of a command could not be killed", left=report["left"])
        self.output.close()
        return Ended(
            text=self.output.text(),
            kept_in=self.output.kept_in,
            code=report.get("code"),
            signal=report.get("signal"),
            error=report.get("error", ""),
        )

    def _report(self) -> dict[str, Any]:
        """Return what the reaper wrote before it ended; nothing when it was killed."""
        try:
            line = os.read(self._status, _PIECE)
            return dict(json.loads(line)) if line else {}
        except (BlockingIOError, ValueError):
            return {}
        finally:
            os.close(self._status)

    def _on_output(self) -> None:
        if not self._read():
            return
        now = self._loop.time()
        if now - self._said_at >= _SAY_EVERY_S:
            self._said_at = now
            self._on_line(self.output.last_line())

    def _read(self) -> bool:
        try:
            data = os.read(self._reading, _PIECE)
        except BlockingIOError:
            return False
        if data:
            self.output.feed(self._filter(data))
            return True
        self._loop.remove_reader(self._reading)
        return False

    def _on_end(self) -> None:
        """The reaper is gone, and with it all it had: what is in the pipe is all there will be."""
        if self._pidfd >= 0:
            self._loop.remove_reader(self._pidfd)
            os.close(self._pidfd)
        self._popen.wait()
        while self._read():
            pass
        self._loop.remove_reader(self._reading)
        os.close(self._reading)
        if not self._ended.done():
            self._ended.set_result(None)


async def run_command(
    command: Command,
    on_line: Callable[[str], None] = lambda _line: None,
    on_start: Callable[[Running], None] = lambda _running: None,
    read: Callable[[bytes], bytes] = lambda data: data,
) -> Ended:
    """Run a command to its end. Raises OSError when the folder to run it in cannot be entered.

    `on_line` hears its last line about once a second; `on_start` gets the command while
    it runs, for its output so far; `read` sees what it writes first, and returns what of it
    is output. When this is cancelled, the command and everything it
    started is ended first: SIGTERM, then SIGKILL after the grace.
    """
    running = Running(command, on_line, read)
    on_start(running)
    return await running.end()


def _as_file(data: bytes) -> int:
    """Return a descriptor that reads the bytes, without a pipe that somebody must feed."""
    if not data:
        return os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)
    with tempfile.TemporaryFile() as file:
        file.write(data)
        file.flush()
        file.seek(0)
        return os.dup(file.fileno())


def sweep(mark: str) -> None:
    """Kill every process whose environment carries the mark, until there is none."""
    wanted = f"{MARK}={mark}".encode()
    for _ in range(_SWEEPS):
        found = [pid for pid in _processes() if wanted in _environment_of(pid)]
        if not found:
            return
        for pid in found:
            try:
                os.kill(pid, signal.SIGKILL)
            except OSError:
                continue
    log.error("processes of a command could not be killed", left=len(found))


def _processes() -> list[int]:
    try:
        return [int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdigit()]
    except OSError:
        return []


def _environment_of(pid: int) -> bytes:
    try:
        return Path(f"/proc/{pid}/environ").read_bytes()
    except OSError:
        return b""
