"""The real `callboard run` in a process of its own, as an operator would start it, and what it costs."""

import asyncio
import json
import os
import signal
import sys
import tempfile
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aiohttp
import psutil
import yaml

ROOT = Path(__file__).resolve().parent.parent


@dataclass(frozen=True)
class Callboard:
    """A running Callboard."""

    process: psutil.Process
    url: str
    token: str
    home: Path
    start_s: float
    """From exec to the first 200 of /readyz."""

    @property
    def headers(self) -> dict[str, str]:
        return {"Authorization": f"Bearer {self.token}"}

    def cpu_s(self) -> float:
        """CPU seconds of the process and its children so far, user and system."""
        times = self.process.cpu_times()
        return times.user + times.system

    def rss_mb(self) -> float:
        return self.process.memory_info().rss / 1e6


@asynccontextmanager
async def callboard(
    settings: dict[str, Any], home: Path | None = None, env: dict[str, str] | None = None
) -> AsyncIterator[Callboard]:
    """Start Callboard with these settings, wait until it is ready, and stop it at the end."""
    with tempfile.TemporaryDirectory(prefix="callboard-bench-", dir=_disk()) as folder:
        home = home or Path(folder)
        settings = {"server": {"port": 0}, "log": {"level": "warning"}, **settings}
        (home / "callboard.yaml").write_text(yaml.safe_dump(settings))
        began = time.monotonic()
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            str(ROOT / "run_system.py"),
            "run",
            "--home",
            str(home),
            stdout=asyncio.subprocess.DEVNULL,
            stderr=(home / "stderr.txt").open("wb"),
            env={**clean_env(), **(env or {})},
        )
        try:
            yield await _ready(process, home, began)
        finally:
            if process.returncode is None:
                process.send_signal(signal.SIGTERM)
                await asyncio.wait_for(process.wait(), 60)


def clean_env() -> dict[str, str]:
    """Return our environment without keys of model services: a benchmark never calls one."""
    return {k: v for k, v in os.environ.items() if not k.endswith("_API_KEY")} | {"PYTHONPATH": str(ROOT)}


def _disk() -> str | None:
    """A folder on a real disk: durable commits on a memory file system would flatter us."""
    return os.environ.get("CALLBOARD_BENCH_DIR")


async def _ready(process: asyncio.subprocess.Process, home: Path, began: float) -> Callboard:
    run_file = home / "run.json"
    async with aiohttp.ClientSession() as http:
        while True:
            if process.returncode is not None:
                raise RuntimeError(f"callboard ended: {(home / 'stderr.txt').read_text()[-2000:]}")
            if run_file.exists():
                try:
                    run = json.loads(run_file.read_text())
                    async with http.get(f"{run['url']}/readyz") as response:
                        if response.status == 200:
                            break
                except (aiohttp.ClientError, json.JSONDecodeError):
                    pass
            await asyncio.sleep(0.005)
    start_s = time.monotonic() - began
    token = (home / "token").read_text().strip()
    return Callboard(psutil.Process(process.pid), run["url"], token, home, start_s)


@asynccontextmanager
async def model_server(*arguments: str) -> AsyncIterator[str]:
    """Start the fast model server in a process of its own; yield its base URL (without /v1)."""
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "benchmarks.model_server",
        "--port",
        "0",
        *arguments,
        stdout=asyncio.subprocess.PIPE,
        cwd=ROOT,
    )
    assert process.stdout is not None
    try:
        line = (await asyncio.wait_for(process.stdout.readline(), 30)).decode()
        yield line.split()[-1].removesuffix("/v1")
    finally:
        if process.returncode is None:
            process.terminate()
            await process.wait()


def fake_provider(base_url: str) -> dict[str, Any]:
    """Return settings under which the fast model server answers."""
    return {
        "model": {"provider": "bench", "name": "bench"},
        "providers": {"bench": {"base_url": f"{base_url}/v1", "api_key": "bench-key"}},
    }


def percentile(values: list[float], share: float) -> float:
    """Return the value below which that share of the values lies."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]
