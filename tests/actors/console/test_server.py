"""The server's doors: what it binds, what it leaves, what is in its way."""

import asyncio
import json
import os
import socket
import stat
import tempfile
from pathlib import Path

import aiohttp
import pytest
from pydantic import SecretStr

from actors.console.control_socket import is_same_user, peer
from actors.console.server import ConsoleServer, ServerStartError
from messages.settings import ServerSettings
from tests.actors.console.serving import BEARER, console, events_of, serving
from tests.fakes.clock import ManualClock
from tests.fakes.desk import FakeDesk

pytestmark = pytest.mark.slow


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def files(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


async def test_it_says_where_it_is_and_takes_the_files_away() -> None:
    async with serving() as house:
        run_file = house.home / "run.json"
        facts = json.loads(run_file.read_text())
        assert facts == {
            "pid": os.getpid(),
            "url": house.url,
            "socket": str(house.home / "control.sock"),
            "started_at": house.clock.now().isoformat(),
            "version": "1.2.3",
        }
        assert mode(run_file) == mode(house.server.socket) == 0o600
        await house.server.stop()
        await house.server.stop()
        assert files(house.home) == []
        with pytest.raises(aiohttp.ClientConnectorError):
            await house.web.get("/healthz")


async def test_without_tcp_only_the_control_socket_is_there() -> None:
    with tempfile.TemporaryDirectory(prefix="cb") as folder:
        server = ConsoleServer(
            FakeDesk(),
            ServerSettings(),
            home=Path(folder),
            token=SecretStr("t"),
            clock=ManualClock(),
            serve_tcp=False,
        )
        await server.start()
        try:
            assert (server.url, server.login_url()) == ("", "")
            connector = aiohttp.UnixConnector(str(server.socket))
            async with aiohttp.ClientSession("http://control", connector=connector) as control:
                async with control.get("/api/status") as response:
                    assert response.status == 200
                async with control.post("/api/login-codes") as response:
                    assert response.status == 409
        finally:
            await server.stop()


async def test_a_port_in_use_is_said_with_the_remedy(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        server = console(FakeDesk(), tmp_path, ManualClock(), port=port)
        with pytest.raises(ServerStartError) as refusal:
            await server.start()
    assert f"port {port}" in refusal.value.what
    assert "server.port" in refusal.value.remedy
    assert files(tmp_path) == []


async def test_a_host_that_is_not_ours_is_said_with_the_remedy(tmp_path: Path) -> None:
    for host in ("192.0.2.1", "no such host"):
        server = console(FakeDesk(), tmp_path, ManualClock(), host=host)
        with pytest.raises(ServerStartError, match="host"):
            await server.start()


async def test_a_live_control_socket_is_refused_with_its_holder() -> None:
    async with serving() as house:
        second = console(FakeDesk(), house.home, ManualClock())
        with pytest.raises(ServerStartError) as refusal:
            await second.start()
        assert f"process {os.getpid()}" in refusal.value.what
        assert "CALLBOARD_HOME" in refusal.value.remedy
        await second.stop()
        async with house.control.get("/api/status") as response:  # the first is unharmed
            assert response.status == 200
        assert (house.home / "run.json").exists()


async def test_a_socket_that_a_dead_process_left_is_replaced() -> None:
    with tempfile.TemporaryDirectory(prefix="cb") as folder:
        home = Path(folder)
        with socket.socket(socket.AF_UNIX) as dead:
            dead.bind(str(home / "control.sock"))
        server = console(FakeDesk(), home, ManualClock())
        await server.start()
        assert mode(home / "control.sock") == 0o600
        await server.stop()


async def test_a_file_in_the_sockets_place_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "control.sock").write_text("precious")
    with pytest.raises(ServerStartError, match="in the way"):
        await console(FakeDesk(), tmp_path, ManualClock()).start()
    assert (tmp_path / "control.sock").read_text() == "precious"


async def test_a_path_that_is_too_long_for_a_socket_is_replaced_by_a_private_one(tmp_path: Path) -> None:
    home = tmp_path / ("long" * 30)
    home.mkdir()
    server = console(FakeDesk(), home, ManualClock())
    await server.start()
    try:
        assert len(str(server.socket)) < 100
        assert json.loads((home / "run.json").read_text())["socket"] == str(server.socket)
        assert mode(server.socket) == 0o600
        assert mode(server.socket.parent) == 0o700
    finally:
        await server.stop()
    assert not server.socket.exists()


def test_the_other_end_of_a_socket_is_known() -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        assert peer(ours) == (os.getpid(), os.geteuid())
        assert is_same_user(theirs)


async def test_stopping_ends_streams_and_waits_in_good_order() -> None:
    async with serving() as house:
        house.desk.streams("Hel")
        waiting = asyncio.create_task(house.web.post("/api/messages?sync=true", json={"text": "hi"}))
        await house.desk.heard(1)
        async with house.web.get("/api/sessions/agent:main:web:main:dm:main/events") as response:
            events = events_of(response)
            await events.until("live", "draft_changed")
            await house.desk.watched_by(2)
            await house.server.stop()
            await events.until("closing")
            assert [event async for event in events] == []
        async with await waiting as response:
            assert response.status == 503
            assert "kept" in (await response.json())["error"]["message"]
        assert house.desk.watchers() == 0


async def test_the_server_comes_back_at_the_same_address() -> None:
    async with serving() as house:
        port = int(house.url.rpartition(":")[2])
        await house.server.stop()
        again = console(house.desk, house.home, house.clock, port=port)
        await again.start()
        try:
            async with house.web.get("/api/status", headers=BEARER) as response:
                assert response.status == 200
        finally:
            await again.stop()


async def test_a_thousand_at_once_are_all_answered() -> None:
    async with serving() as house:
        limit = aiohttp.TCPConnector(limit=0)
        async with aiohttp.ClientSession(house.url, headers=BEARER, connector=limit) as client:

            async def ask(number: int) -> str:
                message = {"text": f"hello {number}", "chat": f"c{number}"}
                async with client.post("/api/messages?sync=true", json=message) as response:
                    return str((await response.json())["reply"])

            replies = await asyncio.gather(*map(ask, range(1000)))
    assert replies == [f"you said: hello {number}" for number in range(1000)]
