"""Connecting, asking for updates, and ending."""

import asyncio
import warnings
from functools import partial
from pathlib import Path

import pytest

from actors.clock import WallClock
from actors.gateway.edge import EdgeError
from actors.gateway.platforms.telegram import polling
from messages.delivery import (
    ProblemKind,
)
from tests.fakes.clock import ManualClock
from tests.platforms.simulators.telegram import TelegramSimulator
from tests.platforms.telegram.stage import (
    Line,
    a_chat,
    counted,
    files_asked_for,
    post,
    problem_of,
    turned,
    until,
)

pytestmark = pytest.mark.slow


async def test_A09_M13_another_poller_is_named_at_once_and_outlasted(
    sim: TelegramSimulator, tmp_path: Path, clock: ManualClock
) -> None:
    await sim.misbehaves("conflict", times=6)
    async with Line(sim, tmp_path, clock, poll_s=1) as line:
        await until(lambda: line.troubles == [polling.ANOTHER])  # no time has passed
        await sim.says("kitchen", "ann", "hello")
        await line.edge.say(post(await line.chat_id("kitchen"), "posts go on"))
        await turned(clock, 900, lambda: line.heard)
        await turned(clock, 900, lambda: line.troubles[-1] == "")
        assert line.troubles == [polling.ANOTHER, ""]
        assert not line.running.done()


def test_A09_the_waits_of_a_conflict_grow_to_thirty_seconds() -> None:
    assert [polling.wait_of(polling.CONFLICT_WAITS, n) for n in range(1, 8)] == [1, 2, 4, 8, 16, 30, 30]


async def test_A09_a_long_conflict_calls_for_somebody_and_still_ends_by_itself(
    sim: TelegramSimulator, tmp_path: Path, clock: ManualClock
) -> None:
    await sim.misbehaves("conflict", times=400)
    async with Line(sim, tmp_path, clock, poll_s=1) as line:
        await turned(clock, 9000, lambda: line.troubles[-1:] and "10 minutes" in line.troubles[-1], step=10)
        assert line.troubles[0] == polling.ANOTHER
        assert len(await line.requests("getUpdates")) < 60  # no hot loop
        await sim.tell("behaves")
        await sim.says("kitchen", "ann", "hello")
        await turned(clock, 900, lambda: line.heard)
        await turned(clock, 900, lambda: line.troubles[-1] == "")


async def test_A09_two_that_poll_send_one_another_away_and_it_is_said_once(
    sim: TelegramSimulator, tmp_path: Path, clock: ManualClock
) -> None:
    async with Line(sim, tmp_path, clock, poll_s=2) as line:
        for _ in range(3):
            more = 1 + len(await line.requests("getUpdates"))
            await turned(clock, 900, partial(counted, line, "getUpdates", more))
            await sim.tell("another_polls")
        await until(lambda: line.troubles)
        await turned(clock, 900, lambda: line.troubles[-1] == "")
        assert line.troubles[:1] == [polling.ANOTHER]


async def test_a_webhook_that_was_left_is_taken_away_without_losing_what_waits(
    sim: TelegramSimulator, tmp_path: Path, clock: ManualClock
) -> None:
    await sim.tell("webhook", url="http://127.0.0.1:9/old")
    await sim.says("kitchen", "ann", "hello")
    async with Line(sim, tmp_path, clock) as line:
        assert [m.text for m in await line.hears_messages(1)] == ["hello"]
        await sim.misbehaves("webhook", times=2)
        await sim.says("kitchen", "ann", "again")
        await turned(clock, 60, lambda: line.troubles[-1:] == [polling.WEBHOOK])
        await turned(clock, 60, lambda: len(line.heard) == 2)


@pytest.mark.parametrize("how", ["bad_gateway", "drop", "garbage", "flood", "odd"])
async def test_asking_goes_on_after_a_failure(line: Line, how: str) -> None:
    await line.sim.misbehaves(how, times=3, method="getUpdates", retry_after=0.1)
    await line.sim.says("kitchen", "ann", "hello")
    await line.sim.says("kitchen", "ann", "again")
    await line.hears(2)
    await line.confirmed()
    assert len(line.heard) == 2


async def test_a_cut_connection_is_made_again_by_itself(line: Line) -> None:
    chat = await a_chat(line)
    for turn in range(3):
        await line.sim.cuts()
        await line.sim.says("kitchen", "ann", f"{turn}")
        await line.hears(turn + 2)
    await line.edge.say(post(chat, "answer"))
    await line.confirmed()
    assert len(line.heard) == 4


async def test_a_bad_token_needs_somebody(sim: TelegramSimulator, tmp_path: Path) -> None:
    line = Line(sim, tmp_path, WallClock(), token="7000000001:AAwrongwrongwrongwrongwrongwrongwrong")
    with pytest.raises(EdgeError) as caught:
        await line.start()
    assert caught.value.problem.kind is ProblemKind.NEEDS_HUMAN
    assert "@BotFather" in caught.value.problem.detail


async def test_a_token_that_is_taken_back_ends_the_connection(line: Line) -> None:
    await line.sim.misbehaves("unauthorized", method="getUpdates")
    await line.sim.says("kitchen", "ann", "hello")
    with pytest.raises(EdgeError) as caught:
        await line.running
    assert caught.value.problem.kind is ProblemKind.NEEDS_HUMAN


async def test_nobody_there_is_transient_and_a_post_then_not_connected(tmp_path: Path) -> None:
    async with TelegramSimulator() as sim:
        line = Line(sim, tmp_path, WallClock())
        await line.start()
        chat = await a_chat(line)
    problem = await problem_of(line.edge.say(post(chat, "x")))
    assert problem.kind is ProblemKind.NOT_CONNECTED
    with pytest.raises(EdgeError) as caught:
        await asyncio.wait_for(line.running, 20)
    assert caught.value.problem.kind is ProblemKind.TRANSIENT
    assert (await problem_of(line.edge.say(post(chat, "x")))).kind is ProblemKind.NOT_CONNECTED


async def test_the_probe_asks_both_ways(still: Line, clock: ManualClock) -> None:
    await still.edge.probe()
    await still.sim.misbehaves("unauthorized", method="getMe")
    assert (await problem_of(still.edge.probe())).kind is ProblemKind.NEEDS_HUMAN
    await still.sim.misbehaves("hang", method="getUpdates")
    await still.sim.says("kitchen", "ann", "hello")
    await still.hears(1)
    await clock.advance(200)
    assert "no answer to our asking" in (await problem_of(still.edge.probe())).detail


async def test_A15_the_edge_starts_again_on_another_loop_and_leaves_nothing(
    sim: TelegramSimulator, tmp_path: Path
) -> None:
    """As after a crash: an edge ends with its loop, and a new one lives on a new one, in another thread."""

    def life(number: int) -> None:
        async def lives() -> None:
            async with Line(sim, tmp_path, WallClock()) as line:
                # Its control connection belongs to the test's loop; here only the edge's own is used.
                await line.edge.probe()
                await line.edge.say(post(chat, f"life {number}"))

        asyncio.run(lives())

    await sim.says("kitchen", "ann", "hello")
    chat = (await sim.state())["ids"]["kitchen"]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for number in range(3):
            await asyncio.to_thread(life, number)
    assert [p.text for p in await sim.posts()] == ["life 0", "life 1", "life 2"]


async def test_A15_a_cancelled_connection_ends_at_once_with_everything_under_way(line: Line) -> None:
    chat = await a_chat(line)
    await line.sim.misbehaves("hang", times=1, method="sendMessage")
    await line.sim.misbehaves("slow_file")
    await line.sim.says("kitchen", "ann", "see", document={"name": "d.bin", "size": 9})
    await until(lambda: files_asked_for(line, 1))
    saying = asyncio.ensure_future(line.edge.say(post(chat, "x")))
    await until(lambda: line.requests("sendMessage"))
    line.running.cancel()
    async with asyncio.timeout(2):
        with pytest.raises(asyncio.CancelledError):
            await line.running
        problem = await problem_of(saying)
    assert problem.kind is ProblemKind.UNKNOWN
    assert list((line.folder / "attachments").iterdir()) == []
