"""The Events API: what is signed is heard, and nothing else is believed."""

import asyncio
import hashlib
import hmac
import socket
import time
from collections.abc import AsyncIterator
from typing import Any

import aiohttp
import pytest

from messages.delivery import ProblemKind
from tests.platforms.simulators.slack import SlackSimulator, channel_id
from tests.platforms.simulators.slack_service import SECRET
from tests.platforms.simulators.slack_wire import signed
from tests.platforms.slack.rig import Rig, eventually, post

pytestmark = pytest.mark.slow


def event(text: str = "hello", ts: str = "100.000001") -> dict[str, Any]:
    said = {"type": "message", "channel": "C0001", "channel_type": "channel", "user": "U0001"}
    return {"type": "event_callback", "team_id": "T0001", "event": {**said, "ts": ts, "text": text}}


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@pytest.fixture
async def sim() -> AsyncIterator[SlackSimulator]:
    async with SlackSimulator() as simulator:
        yield simulator


@pytest.fixture
async def rig(sim: SlackSimulator) -> AsyncIterator[Rig]:
    port = free_port()
    async with Rig(sim, mode="events", app_token=None, listen=f"127.0.0.1:{port}") as running:
        await sim.tell("listens", url=url(running))
        yield running


def url(rig: Rig) -> str:
    options = rig.edge.options
    return f"http://{options.listen}{options.path}"


async def sends(rig: Rig, headers: dict[str, Any], body: bytes) -> tuple[int, str]:
    async with aiohttp.ClientSession() as http, http.post(url(rig), data=body, headers=headers) as response:
        return response.status, await response.text()


async def raw(rig: Rig, headers: list[tuple[bytes, bytes]], body: bytes) -> bytes:
    """Send bytes as they are, as no HTTP library would."""
    host, _, port = rig.edge.options.listen.rpartition(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    lines = [b"POST /slack/events HTTP/1.1", b"Host: x", b"Connection: close"]
    lines += [name + b": " + value for name, value in headers]
    lines += [b"Content-Length: " + str(len(body)).encode(), b"", body]
    writer.write(b"\r\n".join(lines))
    await writer.drain()
    answer = await reader.read()
    writer.close()
    return answer.split(b"\r\n")[0]


async def test_an_event_is_heard_once_and_answered_when_it_is_durable(rig: Rig, sim: SlackSimulator) -> None:
    await sim.says("general", "Ann", "hello")
    (said,) = await rig.messages(1)
    assert said.text == "hello"
    assert said.mentions_us
    await eventually(lambda: _pushed(sim, 2))
    assert [push["status"] for push in (await sim.state())["pushes"]] == [200, 200]
    assert len(rig.heard) == 1


async def _pushed(sim: SlackSimulator, count: int) -> bool:
    return len((await sim.state())["pushes"]) >= count


async def test_what_was_not_taken_comes_again(rig: Rig, sim: SlackSimulator) -> None:
    rig.hear_fails = 1
    await sim.says("general", "Ann", "hello", mention=False)
    await rig.messages(1)
    statuses = [push["status"] for push in (await sim.state())["pushes"]]
    assert statuses[0] == 503


async def test_what_was_answered_and_then_not_taken_is_handed_in_again(rig: Rig, sim: SlackSimulator) -> None:
    """A command is answered at once; Slack does not send it again."""
    rig.hear_fails = 1
    await sim.commands("general", "Ann", "/callboard", "new")
    (said,) = await rig.messages(1)
    assert said.text == "/new"


async def test_commands_and_buttons_come_as_forms(rig: Rig, sim: SlackSimulator) -> None:
    await sim.tell("channel", chat="general")
    trigger = await sim.commands("general", "Ann", "/callboard", "whoami")
    (said,) = await rig.messages(1)
    assert (said.message_id, said.text, said.via) == (trigger, "/whoami", "command")
    await rig.edge.say(post("You are Ann.", channel_id("general"), reply_to=trigger))
    assert len((await sim.state())["ephemerals"]) == 1


async def test_the_address_is_verified(rig: Rig) -> None:
    headers, body = signed("events_api", {"type": "url_verification", "challenge": "3eZbrw1a"})
    assert await sends(rig, headers, body) == (200, "3eZbrw1a")
    headers["X-Slack-Signature"] = "v0=" + "0" * 64
    assert (await sends(rig, headers, body))[0] == 401


@pytest.mark.parametrize(
    ("name", "value"),
    [
        (b"X-Slack-Signature", b"v0=\xe9"),
        (b"X-Slack-Signature", "v0=é".encode()),
        (b"X-Slack-Signature", b"\xff\xfe"),
        (b"X-Slack-Signature", "v0=\u2019".encode()),
        (b"X-Slack-Signature", b""),
        (b"X-Slack-Signature", b"v1=" + b"0" * 64),
        (b"X-Slack-Signature", b"v0=" + b"0" * 5000),
        (b"X-Slack-Request-Timestamp", b"\xe9"),
        (b"X-Slack-Request-Timestamp", ("\N{ARABIC-INDIC DIGIT ONE}" * 10).encode()),
        (b"X-Slack-Request-Timestamp", b"-1"),
        (b"X-Slack-Request-Timestamp", b"1e9"),
        (b"X-Slack-Request-Timestamp", b"9" * 400),
        (b"X-Slack-Request-Timestamp", b""),
        (b"X-Slack-Request-Timestamp", b"nan"),
    ],
)
async def test_X13_a_signature_of_any_bytes_is_refused_and_never_an_error(
    rig: Rig, capsys: pytest.CaptureFixture[str], name: bytes, value: bytes
) -> None:
    headers, body = signed("events_api", event())
    given = [(k.encode(), v.encode()) for k, v in headers.items() if k.encode() != name]
    answer = await raw(rig, [*given, (name, value)], body)
    assert answer.startswith(b"HTTP/1.1 401"), answer
    assert rig.heard == []
    assert "Traceback" not in capsys.readouterr().err


async def test_X13_a_secret_with_an_umlaut_is_the_right_one(rig: Rig) -> None:
    assert "ü" in rig.sim.options()["signing_secret"]
    headers, body = signed("events_api", event())
    assert (await sends(rig, headers, body))[0] == 200
    await rig.messages(1)


async def test_X13_a_wrong_secret_or_changed_body_is_refused(rig: Rig) -> None:
    headers, body = signed("events_api", event(), secret="another")
    assert (await sends(rig, headers, body))[0] == 401
    headers, body = signed("events_api", event())
    assert (await sends(rig, headers, body.replace(b"hello", b"jello")))[0] == 401
    assert (await sends(rig, {"Content-Type": "application/json"}, body))[0] == 401
    assert rig.heard == []


async def test_X13_an_old_request_and_a_replay_are_refused(rig: Rig) -> None:
    for age in (-301, 302):
        headers, body = signed("events_api", event(), at=time.time() + age)
        assert (await sends(rig, headers, body))[0] == 401
    headers, body = signed("events_api", event(), at=time.time() - 200)
    assert (await sends(rig, headers, body))[0] == 200
    for signature in (headers["X-Slack-Signature"], headers["X-Slack-Signature"].upper().replace("V0", "v0")):
        replayed = {**headers, "X-Slack-Signature": signature, "X-Slack-Retry-Num": "1"}
        assert (await sends(rig, replayed, body))[0] == 401
    await rig.messages(1)
    assert len(rig.heard) == 1


@pytest.mark.parametrize("body", [b"", b"null", b"[1]", b"\xff\xfe", b'{"a":' * 4000, b'"x"', b"{"])
async def test_a_signed_body_that_is_no_event_is_a_bad_request(rig: Rig, body: bytes) -> None:
    for mime in ("application/json", "text/plain"):
        stamp = str(int(time.time()))
        digest = hmac.new(SECRET.encode(), f"v0:{stamp}:".encode() + body, hashlib.sha256).hexdigest()
        headers = {
            "X-Slack-Request-Timestamp": stamp,
            "X-Slack-Signature": f"v0={digest}",
            "Content-Type": mime,
        }
        status, _ = await sends(rig, headers, body)
        assert status in (400, 401)  # the second of the two is a replay
    assert rig.heard == []


async def test_a_huge_body_is_refused_without_a_look(rig: Rig) -> None:
    headers, _ = signed("events_api", event())
    answer = await raw(rig, [(k.encode(), v.encode()) for k, v in headers.items()], b"x" * (3 << 20))
    assert answer.startswith(b"HTTP/1.1 413")


async def test_an_address_that_is_taken_is_told(sim: SlackSimulator, rig: Rig) -> None:
    async with Rig(sim, mode="events", app_token=None, listen=rig.edge.options.listen, waits=False) as second:
        error = await second.ended()
    assert error.problem.kind is ProblemKind.TRANSIENT
    assert "cannot listen" in error.problem.detail


async def test_the_probe_asks_slack(rig: Rig, sim: SlackSimulator) -> None:
    await rig.edge.probe()
    await sim.misbehaves("token", code="token_revoked")
    with pytest.raises(Exception, match="needs_human"):
        await rig.edge.probe()
