"""Updates that Telegram sends to us."""

import asyncio
import io
import json
import socket
from pathlib import Path
from typing import Any

import pytest

from actors.clock import WallClock
from actors.gateway.edge import EdgeError
from actors.gateway.platforms.telegram.options import TelegramOptions
from actors.logs import set_up_logs
from actors.redaction import Redactor
from messages.blocks import ImageBlock
from messages.delivery import ProblemKind
from messages.settings import LogSettings
from tests.platforms.simulators.telegram import TelegramSimulator
from tests.platforms.telegram.shapes import message
from tests.platforms.telegram.stage import Line, until

pytestmark = pytest.mark.slow

SECRET = "a-secret-of-32-characters_______"
PNG = "hex:89504e470d0a1a0a" + "00" * 20


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def hooked(sim: TelegramSimulator, folder: Path, port: int) -> Line:
    webhook = {"url": f"http://127.0.0.1:{port}/hook/7", "listen": f"127.0.0.1:{port}", "secret": SECRET}
    return Line(sim, folder, WallClock(), webhook=webhook)


async def asked(port: int, body: bytes, *headers: bytes, path: str = "/hook/7") -> int:
    """Send a request byte for byte, as no client would; return the status."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    head = b"POST %s HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: %d\r\n" % (
        path.encode(),
        len(body),
    )
    writer.write(head + b"".join(header + b"\r\n" for header in headers) + b"\r\n" + body)
    await writer.drain()
    line = await reader.readline()
    writer.close()
    await writer.wait_closed()
    return int(line.split()[1])


async def test_updates_are_taken_when_they_are_durable(sim: TelegramSimulator, tmp_path: Path) -> None:
    port = free_port()
    async with hooked(sim, tmp_path, port) as line:
        line.hold = asyncio.Event()
        await sim.says("kitchen", "ann", "hello")
        await line.hears(1)
        assert (await sim.state())["pushes"] == []
        line.hold.set()
        await line.confirmed()
        assert [push["status"] for push in (await sim.state())["pushes"]] == [200]
        assert (await sim.state())["webhook"]["secret"] == SECRET
        await line.edge.probe()
    await sim.says("kitchen", "ann", "while we were away")
    async with hooked(sim, tmp_path, port) as line:
        assert [m.text for m in await line.hears_messages(1)] == ["while we were away"]


async def test_C21_an_album_comes_piece_by_piece(sim: TelegramSimulator, tmp_path: Path) -> None:
    async with hooked(sim, tmp_path, free_port()) as line:
        for _ in range(3):
            await sim.says("kitchen", "ann", "", photo=PNG, album="9")
        (heard,) = await line.hears_messages(1)
        assert len([b for b in heard.attachments if isinstance(b, ImageBlock)]) == 3
        await line.confirmed()


@pytest.mark.parametrize(
    "header",
    [
        b"",
        b"X-Telegram-Bot-Api-Secret-Token: wrong",
        b"X-Telegram-Bot-Api-Secret-Token: \xff",
        b"X-Telegram-Bot-Api-Secret-Token: \xc3\xa4\xe2\x80\x99",
        b"X-Telegram-Bot-Api-Secret-Token:",
        b"X-Telegram-Bot-Api-Secret-Token: " + SECRET.encode() + b"\xe9",
        b"X-Telegram-Bot-Api-Secret-Token: " + SECRET.encode()[:-1],
        b"Authorization: Bearer " + SECRET.encode(),
    ],
)
async def test_X13_whatever_stands_in_the_header_is_refused_without_a_word(
    sim: TelegramSimulator, tmp_path: Path, header: bytes
) -> None:
    out, port = io.StringIO(), free_port()
    logs = set_up_logs(LogSettings(format="json", level="debug"), Redactor([SECRET]), stream=out)
    try:
        async with hooked(sim, tmp_path, port) as line:
            body = json.dumps({"update_id": 9, "message": message("hi")}).encode()
            assert await asked(port, body, *([header] if header else [])) == 403
            right = b"x-telegram-bot-api-secret-token: " + SECRET.encode()
            assert await asked(port, body, right) == 200
            assert [m.text for m in await line.hears_messages(1)] == ["hi"]
    finally:
        logs.close()
    assert "Traceback" not in out.getvalue()
    assert SECRET not in out.getvalue()


@pytest.mark.parametrize(
    "body", [b"", b"{", b"\xff\xfe", b"[" * 100_000, b'{"update_id": 1e999}', b"5", b"[1]", b"null"]
)
async def test_X13_an_odd_body_is_answered_and_harms_nothing(
    sim: TelegramSimulator, tmp_path: Path, body: bytes
) -> None:
    port = free_port()
    async with hooked(sim, tmp_path, port) as line:
        right = b"X-Telegram-Bot-Api-Secret-Token: " + SECRET.encode()
        assert await asked(port, body, right) in (200, 400)
        assert await asked(port, body, right, path="/other") == 404
        await sim.says("kitchen", "ann", "hello")
        await line.hears(1)


async def test_a_message_that_is_not_taken_is_sent_again(sim: TelegramSimulator, tmp_path: Path) -> None:
    port = free_port()
    line = hooked(sim, tmp_path, port)
    await line.start()
    line.failing = [EdgeError(ProblemKind.TRANSIENT, "not taken in time")]
    await sim.says("kitchen", "ann", "hello")
    with pytest.raises(EdgeError):
        await line.running
    assert (await sim.state())["pending"] == 1
    async with hooked(sim, tmp_path, port) as second:
        assert [m.text for m in await second.hears_messages(1)] == ["hello"]


async def test_a_port_that_is_taken_needs_somebody(sim: TelegramSimulator, tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        with pytest.raises(EdgeError) as caught:
            await hooked(sim, tmp_path, int(taken.getsockname()[1])).start()
    assert caught.value.problem.kind is ProblemKind.NEEDS_HUMAN
    assert "options.webhook.listen" in caught.value.problem.detail


async def test_the_probe_sees_that_another_took_the_webhook(sim: TelegramSimulator, tmp_path: Path) -> None:
    async with hooked(sim, tmp_path, free_port()) as line:
        await sim.tell("webhook", url="http://127.0.0.1:9/theirs")
        with pytest.raises(EdgeError, match="another program"):
            await line.edge.probe()
        await until(lambda: True)


@pytest.mark.parametrize(
    "wrong",
    [
        {"token": "no token"},
        {"token": ""},
        {"token": "7:AAxxxxxxxxxxxx", "api_url": "http://example.org"},
        {"token": "7000:AAxxxxxxxxxxxx", "api_url": "ftp://127.0.0.1"},
        {"token": "7000:AAxxxxxxxxxxxx", "webhook": {"url": "hook", "secret": SECRET}},
        {"token": "7000:AAxxxxxxxxxxxx", "webhook": {"url": "https://x/", "secret": "ein-Geheimnis-mit-ä"}},
        {
            "token": "7000:AAxxxxxxxxxxxx",
            "webhook": {"url": "https://x/", "secret": SECRET, "listen": "8443"},
        },
        {"token": "7000:AAxxxxxxxxxxxx", "poll_s": 0},
        {"token": "7000:AAxxxxxxxxxxxx", "unheard_of": 1},
    ],
)
def test_wrong_options_are_refused_before_the_start(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValueError):
        TelegramOptions.model_validate(wrong)
