"""An edge behaves the same here and in a process of its own; only what happens to the process stays there."""

import asyncio
import os
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

import psutil
import pytest

from actors.clock import WallClock
from actors.cluster.isolated_edge import EdgeCrashedError, IsolatedEdge
from actors.cluster.spares import Spares
from actors.gateway.edge import Edge, EdgeContext, EdgeError, LastHeard, OfferedCommand
from actors.gateway.registry import Ready, Registry
from messages.delivery import DraftRemoved, DraftShown, PartText, Place, Post, ProblemKind
from messages.gateway import Acceptance, EdgeHeard, MessageReceived, Receipt
from messages.ids import DeliveryId
from messages.settings import PlatformSettings
from tests.actors.cluster import trial_platform
from tests.fakes.clock import START
from tests.fakes.platform import SECRET, BridgeProgram

pytestmark = pytest.mark.slow

PATIENCE_S = 30.0
LOBBY = Place(chat="lobby")

Where = Literal["here", "process"]
EVERYWHERE = pytest.mark.parametrize("where", ["here", "process"])


def ready(platform: str = "trial", **options: Any) -> Ready:
    registry = Registry.discover(())
    registry.register(trial_platform.PLATFORM)
    return registry.prepare(platform, "main", PlatformSettings(options=options), {})


def post(text: str, key: str = "ab" * 12) -> Post:
    return Post(
        delivery_id=DeliveryId("d1"), part=1, of=1, attempt=1, key=key, place=LOBBY, body=PartText(text=text)
    )


@dataclass
class Running:
    """A running edge, and what came of it."""

    edge: Edge = field(init=False)
    task: "asyncio.Task[None]" = field(init=False)
    heard: list[EdgeHeard] = field(default_factory=list)
    troubles: list[str] = field(default_factory=list)
    open: asyncio.Event = field(default_factory=asyncio.Event)

    async def hear(self, heard: EdgeHeard) -> Receipt:
        self.heard.append(heard)
        await self.open.wait()
        assert isinstance(heard, MessageReceived)
        taken = Acceptance.ACCEPTED if "3" not in heard.message_id else Acceptance.REFUSED
        return Receipt(message_id=heard.message_id, session_key=None, acceptance=taken)

    async def says(self, text: str) -> str:
        async with asyncio.timeout(PATIENCE_S):
            return await self.edge.say(post(text))

    async def ends(self) -> BaseException | None:
        """Wait until the connection is over; return what it ended with."""
        await asyncio.wait((self.task,), timeout=PATIENCE_S)
        return self.task.exception()


@asynccontextmanager
async def running(
    where: Where, spares: Spares, of: Ready | None = None, *, connects: bool = True, **more: Any
) -> AsyncIterator[Running]:
    what = of or ready()
    context = EdgeContext(
        what.entry.name,
        "main",
        WallClock(),
        files=Path("/nowhere"),
        last_heard={"lobby": LastHeard(message_id="m41", at=START)},
        commands=(OfferedCommand(name="help", argument="", summary="Say what I can do"),),
    )
    it = Running()
    context = replace(context, trouble=it.troubles.append)
    it.edge = (
        IsolatedEdge(what, context, spares, **more)
        if where == "process"
        else what.entry.factory(what.options, context)
    )
    up = asyncio.Event()
    it.task = asyncio.ensure_future(it.edge.run(it.hear, up.set))
    it.open.set()
    try:
        if connects:
            async with asyncio.timeout(PATIENCE_S):
                await up.wait()
        yield it
    finally:
        it.task.cancel()
        async with asyncio.timeout(PATIENCE_S):
            await asyncio.wait((it.task,))


def problem(error: BaseException | None) -> Any:
    assert isinstance(error, EdgeError), error
    return error.problem


# ------------------------------------------------------------------ the contract, here and there


@EVERYWHERE
async def test_it_says_finds_shows_and_proves_itself(where: Where, spares: Spares) -> None:
    async with running(where, spares) as it:
        assert await it.says("hello \x00 \U0001f600") == "post-abab"
        assert await it.edge.find(post("x")) == "post-1"
        assert await it.edge.find(post("x", key="cd" * 12)) is None
        assert await it.edge.show(DraftShown(place=LOBBY, text="so far")) == "draft-1"
        assert await it.edge.show(DraftRemoved(place=LOBBY, receipt="draft-1")) is None
        await it.edge.probe()


@EVERYWHERE
async def test_what_it_is_given_reaches_it(where: Where, spares: Spares) -> None:
    async with running(where, spares, ready(token="another token")) as it:
        assert await it.says("token") == "another token"
        assert await it.says("knows lobby") == "m41"
        assert await it.says("commands") == "help"


@EVERYWHERE
async def test_what_it_hears_keeps_its_order_and_each_has_its_receipt(where: Where, spares: Spares) -> None:
    async with running(where, spares) as it:
        taken = (await it.says("hears 1000")).split(",")
        ids = [f"m{number}" for number in range(1000)]
        assert [heard.message_id for heard in it.heard] == ids  # type: ignore[union-attr]
        assert taken == [each for each in ids if "3" not in each]
        assert it.heard[7].text == "text 7 \x00 \U0001f600"  # type: ignore[union-attr]


@EVERYWHERE
@pytest.mark.parametrize("kind", ["rate_limited", "target_gone", "refused", "unknown", "needs_human"])
async def test_a_failure_keeps_its_kind(where: Where, spares: Spares, kind: str) -> None:
    async with running(where, spares) as it:
        with pytest.raises(EdgeError) as caught:
            await it.says(f"fails {kind}")
        assert caught.value.problem.kind == kind
        assert (caught.value.problem.retry_after_s, caught.value.problem.whole_account) == (7.0, True)
        assert caught.value.problem.moved_to == "hall"
        assert await it.says("hello") == "post-abab"


@EVERYWHERE
async def test_a_probe_that_fails_says_so(where: Where, spares: Spares) -> None:
    async with running(where, spares) as it:
        await it.says("deaf")
        with pytest.raises(EdgeError, match="no answer to the probe"):
            await it.edge.probe()


@EVERYWHERE
async def test_trouble_is_told(where: Where, spares: Spares) -> None:
    async with running(where, spares) as it:
        await it.says("troubles somebody else polls")
        await it.says("hello")
        assert it.troubles == ["somebody else polls"]


@EVERYWHERE
async def test_an_end_in_good_order_is_one(where: Where, spares: Spares) -> None:
    async with running(where, spares) as it:
        asked = asyncio.ensure_future(it.says("ends"))
        assert await it.ends() is None
        await asyncio.gather(asked, return_exceptions=True)


@EVERYWHERE
async def test_a_lost_connection_is_told_as_such(where: Where, spares: Spares) -> None:
    async with running(where, spares) as it:
        asked = asyncio.ensure_future(it.says("falls"))
        found = problem(await it.ends())
        assert (found.kind, found.detail) == (ProblemKind.TRANSIENT, "the line went dead")
        await asyncio.gather(asked, return_exceptions=True)


@EVERYWHERE
async def test_who_needs_a_hand_says_so(where: Where, spares: Spares) -> None:
    async with running(where, spares, ready(refuses=True), connects=False) as it:
        assert problem(await it.ends()).kind is ProblemKind.NEEDS_HUMAN


@EVERYWHERE
async def test_a_crash_of_the_edge_is_no_lost_connection(where: Where, spares: Spares) -> None:
    async with running(where, spares) as it:
        asked = asyncio.ensure_future(it.says("crashes"))
        error = await it.ends()
        assert isinstance(error, KeyError if where == "here" else EdgeCrashedError)
        assert "a mistake of the edge's own" in str(error)
        await asyncio.gather(asked, return_exceptions=True)


@EVERYWHERE
async def test_it_can_be_cut(where: Where, spares: Spares) -> None:
    async with running(where, spares) as it:
        hanging = asyncio.ensure_future(it.says("hangs"))
        await asyncio.sleep(0)
        it.task.cancel()
        async with asyncio.timeout(PATIENCE_S):
            await asyncio.wait((it.task,))
        assert it.task.cancelled()
        hanging.cancel()
        await asyncio.gather(hanging, return_exceptions=True)


@EVERYWHERE
async def test_the_bridge_works_over_a_real_socket(where: Where, spares: Spares) -> None:
    async with BridgeProgram() as program:
        what = ready("bridge", address=program.address, secret=SECRET)
        async with running(where, spares, what) as it:
            await program.sends(
                type="message", id="m1", chat="lobby", chat_type="group", user="ann", text="hi"
            )
            assert (await program.hears("ack"))[0]["id"] == "m1"
            assert await it.says("hello") == "post-1"
            assert program.of("say")[0]["text"] == "hello"
            program.hangs_up()
            assert problem(await it.ends()).kind is ProblemKind.TRANSIENT


# ------------------------------------------------------------------ what a process of its own is for


@pytest.mark.parametrize("how", ["dies", "faults"])
async def test_an_end_in_mid_say_is_an_unknown_outcome(spares: Spares, how: str) -> None:
    async with running("process", spares) as victim, running("process", spares) as other:
        with pytest.raises(EdgeError) as caught:
            await victim.says(how)
        assert caught.value.problem.kind is ProblemKind.UNKNOWN
        assert problem(await victim.ends()).kind is ProblemKind.TRANSIENT
        assert await other.says("hello") == "post-abab"
        with pytest.raises(EdgeError) as caught:
            await victim.edge.say(post("too late"))
        assert caught.value.problem.kind is ProblemKind.NOT_CONNECTED


async def test_A02_a_blocked_loop_there_blocks_nobody_here_and_is_ended(spares: Spares) -> None:
    async with (
        running("process", spares, pulse_within_s=0.5) as victim,
        running("process", spares) as other,
    ):
        pid = int(await victim.says("pid"))
        asked = asyncio.ensure_future(victim.says("blocks 600"))
        assert await other.says("hello") == "post-abab"
        found = problem(await victim.ends())
        assert found.kind is ProblemKind.TRANSIENT
        assert "did not answer and was killed" in found.detail
        assert not psutil.pid_exists(pid) or psutil.Process(pid).status() == psutil.STATUS_ZOMBIE
        result = (await asyncio.gather(asked, return_exceptions=True))[0]
        assert isinstance(result, EdgeError)
        assert result.problem.kind is ProblemKind.UNKNOWN


async def test_a_blocked_process_can_be_cut(spares: Spares) -> None:
    async with running("process", spares) as it:
        asked = asyncio.ensure_future(it.says("blocks 600"))
        await asyncio.sleep(0)
        it.task.cancel()
        async with asyncio.timeout(5):
            await asyncio.wait((it.task,))
        assert it.task.done()
        await asyncio.gather(asked, return_exceptions=True)


async def test_what_was_heard_and_not_taken_waits_there(spares: Spares) -> None:
    async with running("process", spares) as it:
        it.open.clear()
        asked = asyncio.ensure_future(it.says("hears 2000"))
        async with asyncio.timeout(PATIENCE_S):
            while len(it.heard) < 256:
                await asyncio.sleep(0.005)
            assert await it.says("hello") == "post-abab"
        assert len(it.heard) == 256
        it.open.set()
        assert (await asked).count(",") > 1000


async def test_a_mistake_in_a_call_is_an_unknown_outcome_and_the_connection_goes_on(
    spares: Spares,
) -> None:
    async with running("process", spares) as it:
        with pytest.raises(EdgeError, match="KeyError"):
            await it.says("mistakes")
        assert await it.says("hello") == "post-abab"


async def test_an_edge_that_cannot_be_made_is_a_crash_with_its_cause(spares: Spares) -> None:
    async with running("process", spares, ready(imports_badly=True), connects=False) as it:
        error = await it.ends()
        assert isinstance(error, EdgeCrashedError)
        assert "the SDK is not there" in str(error)


async def test_it_cannot_speak_for_another_account(spares: Spares) -> None:
    async with running("process", spares) as it:
        asked = asyncio.ensure_future(it.says("forges"))
        error = await it.ends()
        assert isinstance(error, EdgeCrashedError)
        assert "it speaks for discord/main" in str(error)
        assert it.heard == []
        await asyncio.gather(asked, return_exceptions=True)


async def test_its_memory_is_told(spares: Spares) -> None:
    async with running("process", spares) as it:
        assert isinstance(it.edge, IsolatedEdge)
        pid = await it.says("pid")
        assert it.edge.process().startswith(f"process {pid}, ")
        assert pid != str(os.getpid())
    assert it.edge.process() == ""


async def test_A15_an_edge_that_was_killed_works_again_in_its_next_process(spares: Spares) -> None:
    async with BridgeProgram() as program:
        what = ready("bridge", address=program.address, secret=SECRET)
        for life in range(3):
            async with running("process", spares, what) as it:
                assert await it.says("hello") == f"post-{life + 1}"
                os.kill(int(it.edge.process().split()[1].rstrip(",")), signal.SIGKILL)  # type: ignore[attr-defined]
                assert problem(await it.ends()).kind is ProblemKind.TRANSIENT
