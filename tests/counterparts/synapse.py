"""A real Matrix homeserver (Synapse, SQLite) on loopback, with a folder of its own; and people who use it.

with Synapse(folder) as server:
    ann = await server.person("ann")
    room = await ann.makes_room(invite=["@bot:localhost"])
    await ann.says(room, "hello")

`Between` stands between us and the server, and can be told to misbehave.
"""

import asyncio
import hmac
import itertools
import json
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any, Self
from urllib.parse import quote

import aiohttp
import pytest
import yaml
from aiohttp import web

ROOT = Path(__file__).resolve().parent.parent.parent
PYTHON = ROOT / ".counterparts" / "venv-synapse" / "bin" / "python"
INSTALL = "tests/counterparts/install_synapse.sh"
SECRET = "the tests' registration secret"
PATIENCE_S = 60
_FAST = {"per_second": 10_000, "burst_count": 10_000}

Json = dict[str, Any]


def installed_or_skipped() -> None:
    """Skip the test where Synapse is not installed; under CI, fail it."""
    if PYTHON.exists():
        return
    if os.environ.get("CI") == "true":
        pytest.fail(f"Synapse is not installed: run {INSTALL}")
    pytest.skip(f"needs Synapse: run {INSTALL}")


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


class Synapse:
    """The server's process; `with` starts and ends it. Stopped and started again it is the same server."""

    name = "localhost"

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.port = free_port()
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def __enter__(self) -> Self:
        self._configure()
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def start(self) -> None:
        """Start it, and wait until it answers."""
        with (self.folder / "out.log").open("ab") as out:
            self._process = subprocess.Popen(
                [str(PYTHON), "-m", "synapse.app.homeserver", "--config-path", "homeserver.yaml"],
                cwd=self.folder,
                stdout=out,
                stderr=out,
                stdin=subprocess.DEVNULL,
            )
        deadline = time.monotonic() + PATIENCE_S
        while not self._answers():
            if self._process.poll() is not None or time.monotonic() > deadline:
                self.stop()
                raise RuntimeError(f"Synapse does not start: {(self.folder / 'out.log').read_text()[-2000:]}")
            time.sleep(0.05)

    def stop(self) -> None:
        """End it, as a crash would."""
        if self._process is not None and self._process.poll() is None:
            self._process.send_signal(signal.SIGKILL)
            self._process.wait()
        self._process = None

    def _answers(self) -> bool:
        try:
            with urllib.request.urlopen(f"{self.url}/_matrix/client/versions", timeout=2) as answer:
                return bool(answer.status == 200)
        except OSError:
            return False

    def _configure(self) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        made = [str(PYTHON), "-m", "synapse.app.homeserver", "--server-name", self.name]
        made += ["--config-path", "homeserver.yaml", "--generate-config", "--report-stats=no"]
        subprocess.run(made, cwd=self.folder, check=True, capture_output=True)
        config = yaml.safe_load((self.folder / "homeserver.yaml").read_text())
        log = yaml.safe_load(Path(config["log_config"]).read_text())
        log["root"]["level"] = "WARNING"
        log["loggers"]["synapse.storage.SQL"]["level"] = "WARNING"
        Path(config["log_config"]).write_text(yaml.safe_dump(log))
        listener = config["listeners"][0]
        listener |= {"port": self.port, "bind_addresses": ["127.0.0.1"]}
        listener["resources"] = [{"names": ["client", "media"], "compress": False}]
        (self.folder / "homeserver.yaml").write_text(yaml.safe_dump(config | self._loose()))

    @staticmethod
    def _loose() -> Json:
        """Registration without questions, cheap passwords, no limits, nobody else in the world."""
        return {
            "registration_shared_secret": SECRET,
            "bcrypt_rounds": 4,
            "max_upload_size": "2M",
            "rc_message": _FAST,
            "rc_registration": _FAST,
            "rc_admin_redaction": _FAST,
            "rc_login": {"address": _FAST, "account": _FAST, "failed_attempts": _FAST},
            "rc_joins": {"local": _FAST, "remote": _FAST},
            "rc_invites": {"per_room": _FAST, "per_user": _FAST, "per_issuer": _FAST},
            "rc_room_creation": _FAST,
            "rc_media_create": _FAST,
            "rc_presence": {"per_user": _FAST},
            "trusted_key_servers": [],
            "suppress_key_server_warning": True,
            "federation_domain_whitelist": [],
            "presence": {"enabled": False},
        }

    async def person(self, name: str, *, admin: bool = False) -> "Person":
        """Register somebody."""
        async with aiohttp.ClientSession(self.url) as http:
            async with http.get("/_synapse/admin/v1/register") as answer:
                nonce = (await answer.json())["nonce"]
            said = "\0".join((nonce, name, "pw", "admin" if admin else "notadmin"))
            mac = hmac.digest(SECRET.encode(), said.encode(), "sha1").hex()
            body = {"nonce": nonce, "username": name, "password": "pw", "admin": admin, "mac": mac}
            async with http.post("/_synapse/admin/v1/register", json=body) as answer:
                made = await answer.json()
                assert answer.status == 200, made
        return Person(self.url, made["user_id"], made["access_token"], made["device_id"])


class MatrixError(Exception):
    """The server said no."""

    def __init__(self, status: int, answer: Json) -> None:
        super().__init__(f"{status}: {answer}")
        self.status, self.answer = status, answer


@dataclass
class Person:
    """Somebody with a client of their own, which speaks plain HTTP."""

    url: str
    id: str
    token: str
    device: str
    _numbers: "itertools.count[int]" = field(default_factory=itertools.count)

    async def asks(self, method: str, path: str, body: Any = None, **query: str) -> Json:
        """Call `/_matrix/client/v3` + path, or another absolute path."""
        whole = path if path.startswith("/_") else f"/_matrix/client/v3{path}"
        headers = {"Authorization": f"Bearer {self.token}"}
        async with (
            aiohttp.ClientSession(self.url, headers=headers) as http,
            http.request(method, whole, json=body, params=query) as answer,
        ):
            told = await answer.json()
            if answer.status != 200:
                raise MatrixError(answer.status, told)
            return dict(told)

    async def makes_room(self, *, invite: list[str] | None = None, **more: Any) -> str:
        body = {"preset": "private_chat", "invite": invite or [], **more}
        return str((await self.asks("POST", "/createRoom", body))["room_id"])

    async def joins(self, room: str) -> None:
        await self.asks("POST", f"/join/{quote(room)}", {})

    async def invites(self, room: str, who: str) -> None:
        await self.asks("POST", f"/rooms/{quote(room)}/invite", {"user_id": who})

    async def sends(self, room: str, kind: str, content: Json) -> str:
        path = f"/rooms/{quote(room)}/send/{kind}/t{next(self._numbers)}"
        return str((await self.asks("PUT", path, content))["event_id"])

    async def says(self, room: str, text: str, **more: Any) -> str:
        """Write a message; `more` is added to its content."""
        return await self.sends(room, "m.room.message", {"msgtype": "m.text", "body": text, **more})

    async def edits(self, room: str, event: str, text: str) -> str:
        new = {"msgtype": "m.text", "body": text}
        relation = {"rel_type": "m.replace", "event_id": event}
        return await self.says(room, f"* {text}", **{"m.new_content": new, "m.relates_to": relation})

    async def takes_back(self, room: str, event: str) -> None:
        await self.asks("PUT", f"/rooms/{quote(room)}/redact/{quote(event)}/t{next(self._numbers)}", {})

    async def sets(self, room: str, kind: str, content: Json, key: str = "") -> None:
        await self.asks("PUT", f"/rooms/{quote(room)}/state/{kind}/{quote(key)}", content)

    async def uploads(self, data: bytes, mime: str) -> str:
        headers = {"Authorization": f"Bearer {self.token}", "Content-Type": mime}
        async with (
            aiohttp.ClientSession(self.url, headers=headers) as http,
            http.post("/_matrix/media/v3/upload", data=data) as answer,
        ):
            return str((await answer.json())["content_uri"])

    async def downloads(self, mxc: str) -> bytes:
        headers = {"Authorization": f"Bearer {self.token}"}
        path = f"/_matrix/client/v1/media/download/{mxc.removeprefix('mxc://')}"
        async with aiohttp.ClientSession(self.url, headers=headers) as http, http.get(path) as answer:
            assert answer.status == 200
            return await answer.read()

    async def events(self, room: str) -> list[Json]:
        """Return the room's timeline, oldest first."""
        told = await self.asks("GET", f"/rooms/{quote(room)}/messages", dir="b", limit="500")
        return list(reversed(told["chunk"]))

    async def messages(self, room: str, by: str) -> list[Json]:
        """Return what somebody wrote in the room and what still stands there, edits apart, oldest first."""
        return [
            event
            for event in await self.events(room)
            if event["type"] in {"m.room.message", "m.room.encrypted"}
            and event["sender"] == by
            and event["content"]
            and event["content"].get("m.relates_to", {}).get("rel_type") != "m.replace"
        ]

    async def until(self, what: Callable[[], Any]) -> Any:
        """Ask again and again until the answer is true; return it."""
        async with asyncio.timeout(PATIENCE_S):
            while not (found := await what()):
                await asyncio.sleep(0.05)
            return found


# ------------------------------------------------------------------ a misbehaving network


@dataclass
class _Rule:
    method: str
    part: str
    how: str
    """`answer`, `swallow` (forwarded, but nobody hears the answer), `cut` (not forwarded), `hang`."""
    times: int
    status: int = 0
    body: Any = None


class Between:
    """A proxy in front of the server: `async with`; hand out its `url` instead of the server's."""

    def __init__(self, target: str) -> None:
        self.target = target
        self.requests: list[tuple[str, str]] = []
        self.bodies: list[tuple[str, Any]] = []
        self._rules: list[_Rule] = []
        self._runner: web.AppRunner | None = None
        self._port = 0
        self.held = asyncio.Event()
        """Set when a request hangs."""
        self._over = asyncio.Event()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._port}"

    async def __aenter__(self) -> Self:
        app = web.Application(client_max_size=1 << 26)
        app.router.add_route("*", "/{path:.*}", self._serve)
        self._runner = web.AppRunner(app, shutdown_timeout=0.1, access_log=None)
        await self._runner.setup()
        site = web.TCPSite(self._runner, "127.0.0.1", self._port)
        await site.start()
        self._port = self._runner.addresses[0][1]
        self._http = aiohttp.ClientSession(auto_decompress=False)
        return self

    async def __aexit__(self, *_: object) -> None:
        assert self._runner is not None
        self._over.set()
        await self._http.close()
        await self._runner.cleanup()

    def will(self, how: str, part: str, *, method: str = "", times: int = 1, **more: Any) -> None:
        """Treat the next `times` requests whose path has this part in this way."""
        self._rules.append(_Rule(method, part, how, times, **more))

    def answers(self, part: str, status: int, body: Any, *, method: str = "", times: int = 1) -> None:
        self.will("answer", part, method=method, times=times, status=status, body=body)

    def count(self, part: str, method: str = "") -> int:
        return sum(part in path and method in {"", verb} for verb, path in self.requests)

    async def _serve(self, request: web.Request) -> web.StreamResponse:
        self.requests.append((request.method, request.path))
        data = await request.read()
        if data[:1] == b"{":
            self.bodies.append((request.path, json.loads(data)))
        rule = self._rule(request)
        how = rule.how if rule is not None else "forward"
        if rule is not None and how == "answer":
            return web.json_response(rule.body, status=rule.status)
        if how == "hang":
            self.held.set()
            await self._over.wait()
        answer = None if how == "cut" else await self._forward(request, data)
        if answer is None or how == "swallow":
            assert request.transport is not None
            request.transport.close()
            return web.Response()
        return answer

    def _rule(self, request: web.Request) -> _Rule | None:
        for rule in self._rules:
            if rule.times > 0 and rule.part in request.path and rule.method in {"", request.method}:
                rule.times -= 1
                return rule
        return None

    async def _forward(self, request: web.Request, data: bytes) -> web.Response | None:
        headers = {k: v for k, v in request.headers.items() if k.lower() not in {"host", "content-length"}}
        try:
            async with self._http.request(
                request.method, self.target + request.raw_path, data=data, headers=headers
            ) as answer:
                kept = {
                    k: v for k, v in answer.headers.items() if k in {"Content-Type", "Content-Disposition"}
                }
                return web.Response(status=answer.status, body=await answer.read(), headers=kept)
        except aiohttp.ClientError:
            return None


if __name__ == "__main__":
    sys.exit("a library: see tests/platforms/matrix")
