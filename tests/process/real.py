"""The real program in a process of its own, as an operator runs it; it can be asked, stopped and killed."""

import asyncio
import json
import os
import signal
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Self
from urllib.parse import quote

import aiohttp
import yaml

ROOT = Path(__file__).resolve().parent.parent.parent
PATIENCE_S = 60


class Program:
    """`callboard run` over one data folder. `async with`; it may be started again after an end."""

    def __init__(
        self, home: Path, settings: Mapping[str, Any], *, env: Mapping[str, str] | None = None
    ) -> None:
        self.home = home
        self.env = dict(env or {})
        self.script = ROOT / "run_system.py"
        """What is run; another one must take the same words, and do the same."""
        self.process: asyncio.subprocess.Process | None = None
        self.url = ""
        home.mkdir(parents=True, exist_ok=True)
        whole = {"server": {"port": 0}, **settings}
        (home / "callboard.yaml").write_text(yaml.safe_dump(whole))

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        if self.process is not None and self.process.returncode is None:
            self.process.kill()
            await self.process.wait()

    async def launch(self) -> asyncio.subprocess.Process:
        """Start it and return at once."""
        with (self.home / "out.txt").open("ab") as out, (self.home / "err.txt").open("ab") as err:
            self.process = await asyncio.create_subprocess_exec(
                sys.executable,
                str(self.script),
                "run",
                "--home",
                str(self.home),
                env=environment(self.env),
                stdout=out,
                stderr=err,
            )
        return self.process

    async def start(self) -> None:
        """Start it and wait until it is ready."""
        process = await self.launch()
        async with asyncio.timeout(PATIENCE_S), aiohttp.ClientSession() as http:
            while not await self.is_ready(http, process.pid):
                assert process.returncode is None, self.errors()
                await asyncio.sleep(0.02)

    async def is_ready(self, http: aiohttp.ClientSession, pid: int) -> bool:
        try:
            run = json.loads((self.home / "run.json").read_text())
            if run["pid"] != pid:
                return False  # left by a life that was killed
            self.url = run["url"]
            async with http.get(f"{self.url}/readyz") as response:
                return response.status == 200
        except (FileNotFoundError, json.JSONDecodeError, aiohttp.ClientError):
            return False

    async def ended(self) -> int:
        """Wait for its end; return the exit code."""
        assert self.process is not None
        async with asyncio.timeout(PATIENCE_S):
            return await self.process.wait()

    async def kill(self) -> None:
        """As the power goes: SIGKILL."""
        assert self.process is not None
        self.process.kill()
        await self.ended()

    async def terminate(self) -> int:
        """As an operator stops it: SIGTERM."""
        assert self.process is not None
        self.process.send_signal(signal.SIGTERM)
        return await self.ended()

    def errors(self) -> str:
        return (self.home / "err.txt").read_text()

    def http(self) -> aiohttp.ClientSession:
        """Open a client that knows the token."""
        token = (self.home / "token").read_text().strip()
        return aiohttp.ClientSession(
            self.url,
            headers={"Authorization": f"Bearer {token}"},
            timeout=aiohttp.ClientTimeout(total=PATIENCE_S),
        )

    async def says(self, text: str, chat: str = "main", *, sync: bool = True, **more: Any) -> dict[str, Any]:
        """Say something; return the answer's JSON with its `status`."""
        async with (
            self.http() as http,
            http.post(
                "/api/messages",
                params={"sync": "true"} if sync else {},
                json={"text": text, "chat": chat, **more},
            ) as response,
        ):
            return {"status": response.status, **(await response.json())}

    async def entries(self, chat: str = "main") -> list[dict[str, Any]]:
        """Return the transcript of a chat of the web page."""
        async with self.http() as http:
            async with http.get("/api/session-key", params={"platform": "web", "chat": chat}) as response:
                key = (await response.json())["session_key"]
            async with http.get(f"/api/sessions/{quote(key, safe='')}/messages") as response:
                found: list[dict[str, Any]] = (await response.json())["entries"]
                return found

    async def answered(self, times: int, chat: str = "main") -> list[str]:
        """Wait until there are so many answers; return them."""
        async with asyncio.timeout(PATIENCE_S):
            while True:
                texts = [
                    e["text"]
                    for e in await self.entries(chat)
                    if e["role"] == "assistant" and e.get("status") != "interim"
                ]
                if len(texts) >= times:
                    return texts
                await asyncio.sleep(0.05)


def environment(more: Mapping[str, str]) -> dict[str, str]:
    """Return our environment without the keys of model services, and with `more`."""
    ours = {k: v for k, v in os.environ.items() if not k.endswith("_API_KEY")}
    return {**ours, **more}


def scripted(base_url: str, **more: Any) -> dict[str, Any]:
    """Return settings under which a scripted model server answers."""
    return {
        "model": {"provider": "scripted", "name": "scripted-1", **more},
        "providers": {"scripted": {"base_url": base_url, "api_key": "test-key"}},
    }


async def callboard(home: Path, *words: str, env: Mapping[str, str] | None = None) -> tuple[int, str, str]:
    """Run one command of the command line to its end; return exit code, output, errors."""
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        str(ROOT / "run_system.py"),
        *words,
        "--home",
        str(home),
        env=environment(env or {}),
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    async with asyncio.timeout(PATIENCE_S):
        out, err = await process.communicate()
    return process.returncode or 0, out.decode(), err.decode()
