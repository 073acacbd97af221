"""The bridge over a real socket, against a program such as an operator would write."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from pydantic import ValidationError

from actors.clock import WallClock
from actors.gateway.edge import EdgeContext, EdgeError
from actors.gateway.platforms.bridge import PLATFORM, BridgeEdge, BridgeOptions
from messages.delivery import PartText, Place, Post, ProblemKind
from messages.gateway import Acceptance, ChatType, EdgeHeard, MessageReceived, Receipt
from messages.ids import DeliveryId
from tests.fakes.platform import SECRET, BridgeProgram


def post(text: str = "hi", key: str = "ab" * 12, **more: object) -> Post:
    fields: dict[str, object] = {
        "delivery_id": DeliveryId("d1"),
        "part": 1,
        "of": 1,
        "attempt": 1,
        "key": key,
        "place": Place(chat="lobby", thread=None),
        "body": PartText(text=text),
    }
    return Post.model_validate({**fields, **more})


class Door:
    """Stands for the front desk: takes what it hears when it is told to."""

    def __init__(self) -> None:
        self.heard: list[MessageReceived] = []
        self.open = asyncio.Event()
        self.open.set()
        self.acceptance = Acceptance.ACCEPTED

    async def hear(self, message: EdgeHeard) -> Receipt:
        assert isinstance(message, MessageReceived)
        self.heard.append(message)
        await self.open.wait()
        return Receipt(
            message_id=message.message_id, session_key=None, acceptance=self.acceptance, why="too busy"
        )


@asynccontextmanager
async def connected(program: BridgeProgram, door: Door, **more: object) -> AsyncIterator[BridgeEdge]:
    options = BridgeOptions.model_validate({"address": program.address, "secret": SECRET, **more})
    edge = BridgeEdge(options, EdgeContext("bridge", "main", WallClock()))
    up = asyncio.Event()
    running = asyncio.create_task(edge.run(door.hear, up.set))
    try:
        async with asyncio.timeout(30):
            await up.wait()
        yield edge
    finally:
        running.cancel()
        with contextlib.suppress(asyncio.CancelledError, EdgeError):
            await running


MESSAGE = {"chat": "lobby", "chat_type": "group", "user": "u7", "name": "Ann", "text": "hello"}


async def test_a_message_is_acknowledged_only_when_it_is_durable() -> None:
    door = Door()
    door.open.clear()
    async with BridgeProgram() as program, connected(program, door):
        await program.sends(type="message", id="m1", **MESSAGE)
        await program.sends(type="ping")
        await program.hears("pong")
        assert [m.message_id for m in door.heard] == ["m1"]
        assert program.of("ack") == []
        door.open.set()
        assert await program.hears("ack") == [{"type": "ack", "id": "m1"}]
    origin = door.heard[0].origin
    assert (origin.platform, origin.chat, origin.chat_type) == ("bridge", "lobby", ChatType.GROUP)


async def test_messages_are_handed_in_in_the_order_of_the_lines() -> None:
    door = Door()
    async with BridgeProgram() as program, connected(program, door):
        for n in range(300):
            await program.sends(type="message", id=n, **MESSAGE)
        await program.hears("ack", 300)
    assert [m.message_id for m in door.heard] == [str(n) for n in range(300)]


async def test_a_refusal_and_an_unreadable_message_are_answered() -> None:
    door = Door()
    door.acceptance = Acceptance.REFUSED
    async with BridgeProgram() as program, connected(program, door):
        await program.sends(type="message", id="m1", **MESSAGE)
        assert (await program.hears("refused"))[0] == {"type": "refused", "id": "m1", "why": "too busy"}
        await program.sends(type="message", id="m2", chat="lobby")
        assert "chat_type" in (await program.hears("refused", 2))[1]["why"]


async def test_a_post_gets_its_receipt() -> None:
    async with BridgeProgram() as program, connected(program, Door()) as edge:
        assert (
            await edge.say(post("Grüße \ud83d\ude00".encode("utf-16", "surrogatepass").decode("utf-16")))
            == "post-1"
        )
        assert program.of("say") == [
            {
                "type": "say",
                "key": "ab" * 12,
                "attempt": 1,
                "chat": "lobby",
                "text": "Grüße 😀",
                "part": 1,
                "of": 1,
            }
        ]


@pytest.mark.parametrize(
    ("line", "kind", "after", "whole"),
    [
        ({"kind": "transient"}, ProblemKind.TRANSIENT, None, False),
        ({"kind": "rate_limited", "retry_after": 3.5}, ProblemKind.RATE_LIMITED, 3.5, False),
        ({"kind": "rate_limited", "retry_after": 2, "scope": "account"}, ProblemKind.RATE_LIMITED, 2.0, True),
        ({"kind": "target_gone", "detail": "kicked"}, ProblemKind.TARGET_GONE, None, False),
        ({"kind": "refused"}, ProblemKind.REFUSED, None, False),
        ({"kind": "needs_human"}, ProblemKind.NEEDS_HUMAN, None, False),
        ({"kind": "of a later version"}, ProblemKind.UNKNOWN, None, False),
        ({"kind": "not_connected"}, ProblemKind.UNKNOWN, None, False),
    ],
)
async def test_errors_keep_their_meaning(
    line: dict[str, object], kind: ProblemKind, after: float | None, whole: bool
) -> None:
    async with BridgeProgram(answers=False) as program, connected(program, Door()) as edge:
        saying = asyncio.create_task(edge.say(post()))
        await program.hears("say")
        await program.sends(type="error", key="ab" * 12, **line)
        with pytest.raises(EdgeError) as error:
            await saying
    problem = error.value.problem
    assert (problem.kind, problem.retry_after_s, problem.whole_account) == (kind, after, whole)


async def test_D07_no_answer_in_time_is_an_unknown_outcome_and_the_late_receipt_is_welcome() -> None:
    async with (
        BridgeProgram(answers=False) as program,
        connected(program, Door(), answer_timeout_s=0.05) as edge,
    ):
        with pytest.raises(EdgeError) as error:
            await edge.say(post())
        assert error.value.problem.kind is ProblemKind.UNKNOWN
        await program.sends(type="receipt", key="ab" * 12, receipt="post-9")
        await program.sends(type="ping")
        await program.hears("pong")
        assert await edge.say(post()) == "post-9"
        assert len(program.of("say")) == 1


async def test_a_post_longer_than_a_line_is_refused_and_the_connection_lives() -> None:
    async with BridgeProgram() as program, connected(program, Door(), files=True) as edge:
        whole = PartText(text="x" * (1 << 20), file_name="answer.md")
        with pytest.raises(EdgeError) as error:
            await edge.say(post(body=whole))
        assert error.value.problem.kind is ProblemKind.REFUSED
        assert await edge.say(post()) == "post-1"


async def test_a_connection_lost_in_the_middle_is_an_unknown_outcome() -> None:
    async with BridgeProgram(answers=False) as program, connected(program, Door()) as edge:
        saying = asyncio.create_task(edge.say(post()))
        await program.hears("say")
        program.hangs_up()
        with pytest.raises(EdgeError) as error:
            await saying
        assert error.value.problem.kind is ProblemKind.UNKNOWN
        with pytest.raises(EdgeError) as error:
            await edge.say(post())
        assert error.value.problem.kind is ProblemKind.NOT_CONNECTED


async def test_find_asks_the_history() -> None:
    async with BridgeProgram() as program, connected(program, Door(), history=True) as edge:
        looking = asyncio.create_task(edge.find(post()))
        assert (await program.hears("find"))[0]["text"] == "hi"
        await program.sends(type="found", key="ab" * 12, receipt=None)
        assert await looking is None
        looking = asyncio.create_task(edge.find(post()))
        await program.hears("find", 2)
        await program.sends(type="found", key="ab" * 12, receipt="post-3")
        assert await looking == "post-3"


async def test_who_does_not_know_the_secret_is_not_spoken_to() -> None:
    async with BridgeProgram(secret="another secret than ours") as program:
        options = BridgeOptions.model_validate({"address": program.address, "secret": SECRET})
        edge = BridgeEdge(options, EdgeContext("bridge", "main", WallClock()))
        with pytest.raises(EdgeError, match="secret"):
            await edge.run(Door().hear, lambda: pytest.fail("it must not count as connected"))
        assert program.lines == []


async def test_nobody_listens() -> None:
    async with BridgeProgram() as program:
        address = program.address
    options = BridgeOptions.model_validate({"address": address, "secret": SECRET})
    edge = BridgeEdge(options, EdgeContext("bridge", "main", WallClock()))
    with pytest.raises(EdgeError) as error:
        await edge.run(Door().hear, lambda: None)
    assert error.value.problem.kind is ProblemKind.TRANSIENT


@pytest.mark.parametrize("raw", [b"not json\n", b"[1]\n", b'"text"\n', b"x" * (3 << 20)])
async def test_what_is_no_line_ends_the_connection_and_nothing_else(raw: bytes) -> None:
    async with BridgeProgram() as program:
        options = BridgeOptions.model_validate({"address": program.address, "secret": SECRET})
        edge = BridgeEdge(options, EdgeContext("bridge", "main", WallClock()))
        up = asyncio.Event()
        running = asyncio.create_task(edge.run(Door().hear, up.set))
        await up.wait()
        await program.until(lambda: program.connections == 1)
        with contextlib.suppress(ConnectionError):
            await program.sends_raw(raw)
        with pytest.raises(EdgeError) as error:
            await running
        assert error.value.problem.kind is ProblemKind.TRANSIENT


@pytest.mark.parametrize(
    "address", ["192.0.2.1:70", "0.0.0.0:70", "127.0.0.1", "127.0.0.1:x", "unix:relative", "example.org:1"]
)
def test_only_this_machine_can_be_a_bridge(address: str) -> None:
    with pytest.raises(ValidationError):
        BridgeOptions.model_validate({"address": address, "secret": SECRET})


def test_the_options_decide_what_the_platform_can_do() -> None:
    options = {"address": "unix:/tmp/x", "secret": SECRET, "history": True, "limit": 100, "unit": "bytes"}
    assert PLATFORM.shape is not None
    limits, capabilities = PLATFORM.shape(BridgeOptions.model_validate(options))
    assert (limits.length, limits.unit) == (100, "bytes")
    assert capabilities.history
    assert not capabilities.idempotency_key


async def test_a_unix_socket(tmp_path: Path) -> None:
    program = BridgeProgram()
    server = await asyncio.start_unix_server(program._serve, str(tmp_path / "bridge.sock"))
    options = BridgeOptions.model_validate({"address": f"unix:{tmp_path}/bridge.sock", "secret": SECRET})
    edge = BridgeEdge(options, EdgeContext("bridge", "main", WallClock()))
    up = asyncio.Event()
    running = asyncio.create_task(edge.run(Door().hear, up.set))
    async with asyncio.timeout(30):
        await up.wait()
        assert await edge.say(post()) == "post-1"
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
    server.close()
    await server.wait_closed()
