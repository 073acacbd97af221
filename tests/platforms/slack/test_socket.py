"""The connection: replaced without a gap, noticed when it is deaf, told why it cannot be."""

import asyncio
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from typing import Any

import pytest

from actors.clock import WallClock
from actors.gateway.edge import EdgeError, LastHeard
from messages.delivery import ProblemKind
from messages.gateway import MessageReceived
from tests.fakes.clock import ManualClock
from tests.platforms.simulators.slack import SlackSimulator, channel_id, dm_id
from tests.platforms.slack.rig import Rig, eventually, post

pytestmark = pytest.mark.slow


@pytest.fixture
async def sim() -> AsyncIterator[SlackSimulator]:
    async with SlackSimulator() as simulator:
        yield simulator


def texts(rig: Rig) -> list[str]:
    return [m.text for m in rig.heard if isinstance(m, MessageReceived)]


async def test_a_socket_is_replaced_before_it_is_closed_and_nothing_is_missed(sim: SlackSimulator) -> None:
    async with Rig(sim) as rig:
        for number in range(30):
            if number == 15:  # a second warning to the same socket would change nothing
                await eventually(lambda: _accepted(sim, 2))
            if number in (5, 15):
                await sim.misbehaves("refresh", reason="warning", close_after_s=0.3)
            await sim.says("general", "Ann", f"n{number}", mention=False)
        await rig.heard_so_many(30)
        await eventually(lambda: _accepted(sim, 3))
        assert texts(rig) == [f"n{number}" for number in range(30)]
        assert not rig.run.done()
        assert (await sim.state())["undelivered"] == 0
        assert rig.troubles == [""] * len(rig.troubles), "our own two sockets are no stranger"


async def _accepted(sim: SlackSimulator, count: int) -> bool:
    state = await sim.state()
    return bool(state["accepted"] >= count and state["sockets"] == 1)


async def test_a_socket_is_replaced_before_its_time_is_over(sim: SlackSimulator) -> None:
    await sim.misbehaves("lives", seconds=30)
    clock = ManualClock()
    async with Rig(sim, clock=clock, heartbeat_s=20) as rig:
        await clock.advance(19)
        await eventually(lambda: _ponged(rig))
        await clock.advance(6)
        await eventually(lambda: _at_least(sim, 2))
        assert not rig.run.done()


async def _ponged(rig: Rig) -> bool:
    await rig.edge.probe()
    return True


async def _at_least(sim: SlackSimulator, count: int) -> bool:
    return bool((await sim.state())["accepted"] >= count)


async def test_a_cut_ends_the_run_as_transient(sim: SlackSimulator) -> None:
    async with Rig(sim) as rig:
        await sim.cuts()
        assert (await rig.ended()).problem.kind is ProblemKind.TRANSIENT


async def test_a_socket_that_is_deaf_is_noticed(sim: SlackSimulator) -> None:
    async with Rig(sim, heartbeat_s=0.2) as rig:
        await rig.edge.probe()
        await sim.misbehaves("deaf")
        error = await rig.ended()
    assert error.problem.kind is ProblemKind.TRANSIENT
    assert "silent" in error.problem.detail


async def test_a_socket_that_answers_pings_is_left_alone(sim: SlackSimulator) -> None:
    clock = ManualClock()
    async with Rig(sim, clock=clock, heartbeat_s=10) as rig:
        for _ in range(10):
            await clock.advance(10)
            await rig.edge.probe()
        assert (await sim.state())["accepted"] == 1
        assert not rig.run.done()


async def test_a_probe_on_a_dead_line_fails(sim: SlackSimulator) -> None:
    async with Rig(sim, heartbeat_s=1) as rig:
        await sim.misbehaves("deaf")
        with pytest.raises(EdgeError, match="deaf"):
            await rig.edge.probe()


@pytest.mark.parametrize(
    ("way", "more", "kind", "word"),
    [
        ("token", {"code": "invalid_auth"}, ProblemKind.NEEDS_HUMAN, "bot token"),
        ("token", {"code": "account_inactive"}, ProblemKind.NEEDS_HUMAN, "install"),
        ("app_token", {"code": "invalid_auth"}, ProblemKind.NEEDS_HUMAN, "invalid_auth"),
        ("app_token", {"code": "not_allowed_token_type"}, ProblemKind.NEEDS_HUMAN, "xapp-"),
        ("link_disabled", {}, ProblemKind.NEEDS_HUMAN, "Socket Mode"),
        ("refuses_socket", {}, ProblemKind.TRANSIENT, "500"),
        ("server_error", {"method": "auth.test"}, ProblemKind.TRANSIENT, "auth.test"),
        ("html", {"method": "apps.connections.open"}, ProblemKind.TRANSIENT, "apps.connections.open"),
        ("rate_limited", {"method": "apps.connections.open", "retry_after": 9}, ProblemKind.RATE_LIMITED, ""),
    ],
)
async def test_why_there_is_no_connection(
    sim: SlackSimulator, way: str, more: dict[str, Any], kind: ProblemKind, word: str
) -> None:
    await sim.misbehaves(way, **more)
    async with Rig(sim, waits=False) as rig:
        error = await rig.ended()
    assert error.problem.kind is kind
    assert word in error.problem.detail
    assert "xoxb-1" not in error.problem.detail


async def test_a_wrong_token_of_either_kind(sim: SlackSimulator) -> None:
    for options in ({"bot_token": "xoxb-wrong"}, {"app_token": "xapp-wrong"}):
        async with Rig(sim, waits=False, **options) as rig:  # type: ignore[arg-type]
            assert (await rig.ended()).problem.kind is ProblemKind.NEEDS_HUMAN


async def test_a_service_that_is_not_there_is_transient(sim: SlackSimulator) -> None:
    async with Rig(sim, waits=False, base_url="http://127.0.0.1:9/api/") as rig:
        assert (await rig.ended()).problem.kind is ProblemKind.TRANSIENT


async def test_an_app_that_was_removed_needs_somebody(sim: SlackSimulator) -> None:
    async with Rig(sim) as rig:
        await sim.tell("event", event={"type": "app_uninstalled"})
        assert (await rig.ended()).problem.kind is ProblemKind.NEEDS_HUMAN
    async with Rig(sim) as rig:
        await sim.tell("event", event={"type": "tokens_revoked", "tokens": {"bot": ["U1"], "oauth": []}})
        assert "revoked" in (await rig.ended()).problem.detail


async def test_M13_another_program_with_our_app_token_is_told_until_it_is_gone(sim: SlackSimulator) -> None:
    await sim.misbehaves("shared", sockets=1)
    clock = ManualClock()
    async with Rig(sim, clock=clock, heartbeat_s=60) as rig:
        assert "another program is connected with this app token" in rig.troubles[-1]
        await sim.misbehaves("shared", sockets=0)
        await clock.advance(60)
        await rig.edge.probe()
        await clock.advance(59)
        await rig.edge.probe()
        await clock.advance(2)
        await eventually(lambda: _at_least(sim, 2))
        await eventually(lambda: _all_well(rig))


async def _all_well(rig: Rig) -> bool:
    return rig.troubles[-1] == ""


async def test_a_cancel_ends_at_once_whatever_is_under_way(sim: SlackSimulator) -> None:
    before = len(asyncio.all_tasks())
    await sim.misbehaves("slow", method="users.info", seconds=60)
    async with Rig(sim) as rig:
        rig.on_hear = lambda _: asyncio.sleep(60)
        for number in range(5):
            await sim.says(f"c{number}", f"u{number}", "hello", mention=False)
        await rig.heard_so_many(4)
        rig.run.cancel()
        async with asyncio.timeout(3):
            await asyncio.wait([rig.run])
    await asyncio.sleep(0)
    assert len(asyncio.all_tasks()) <= before


# ------------------------------------------------------------------ what was missed


def last(ts: str) -> LastHeard:
    return LastHeard(message_id=ts, at=datetime.fromtimestamp(float(ts), UTC))


async def test_what_was_missed_is_heard_oldest_first_and_before_what_is_new(sim: SlackSimulator) -> None:
    heard = await sim.says("general", "Ann", "before")
    private = await sim.says("ann", "Ann", "before too", dm=True)
    for number in range(250):
        await sim.says("general", "Ann", f"missed {number}", mention=False)
    root = await sim.says("general", "Ann", "a new root", mention=False)
    await sim.says("general", "Bob", "a reply to it", thread=root)
    await sim.says("general", "Bob", "a reply to what was heard", thread=heard)
    await sim.says("ann", "Ann", "missed in private", dm=True)
    marks = {
        f"{channel_id('general')}:{heard}": last(heard),
        dm_id("ann"): last(private),
    }
    async with Rig(sim, last_heard=marks) as rig:
        await sim.says("general", "Ann", "new", mention=False)
        await rig.heard_so_many(255)
        general = [
            m.text for m in rig.heard if isinstance(m, MessageReceived) and m.origin.chat != dm_id("ann")
        ]
        assert general == [
            *(f"missed {number}" for number in range(250)),
            "a new root",
            "a reply to it",
            "a reply to what was heard",
            "new",
        ]
        assert "missed in private" in texts(rig)
        assert "before" not in texts(rig)


async def test_the_first_message_of_a_channel_may_be_what_was_missed(sim: SlackSimulator) -> None:
    heard = await sim.says("general", "Ann", "before")
    await sim.says("quiet", "Ann", "anybody there?")
    await sim.says("zoe", "Zoe", "hello", dm=True)
    async with Rig(sim, last_heard={channel_id("general"): last(heard)}) as rig:
        await rig.heard_so_many(2)
        assert sorted(texts(rig)) == ["anybody there?", "hello"]


async def test_a_rate_limit_while_looking_back_is_obeyed(sim: SlackSimulator) -> None:
    heard = await sim.says("general", "Ann", "before")
    await sim.says("general", "Ann", "missed")
    await sim.misbehaves("rate_limited", method="conversations.history", retry_after=0.2, times=2)
    async with Rig(sim, last_heard={channel_id("general"): last(heard)}) as rig:
        await rig.heard_so_many(1)
        assert texts(rig) == ["missed"]


async def test_a_channel_whose_history_cannot_be_read_hears_what_is_new(sim: SlackSimulator) -> None:
    heard = await sim.says("general", "Ann", "before")
    await sim.misbehaves("error", method="conversations.history", code="missing_scope")
    async with Rig(sim, last_heard={channel_id("general"): last(heard), "@U1:x": last(heard)}) as rig:
        await sim.says("general", "Ann", "new", mention=False)
        await rig.heard_so_many(1)
        assert texts(rig) == ["new"]


async def test_what_slack_sends_again_after_a_cut_is_heard_once(sim: SlackSimulator) -> None:
    """An envelope that was not acknowledged comes on the next connection, and out of the history too."""
    heard = await sim.says("general", "Ann", "before")
    clock = WallClock()
    async with Rig(sim, clock=clock) as rig:
        rig.hear_fails = 1
        await sim.says("general", "Ann", "not taken", mention=False)
        await eventually(lambda: _failed(rig))
        await sim.cuts()
        await rig.ended()
    async with Rig(sim, clock=clock, last_heard={channel_id("general"): last(heard)}) as rig:
        await sim.says("general", "Ann", "new", mention=False)
        await rig.heard_so_many(2)
        assert texts(rig) == ["not taken", "new"]


async def _failed(rig: Rig) -> bool:
    return rig.hear_fails == 0


async def test_many_channels_at_once(sim: SlackSimulator) -> None:
    async with Rig(sim) as rig:
        for number in range(600):
            await sim.says(f"c{number % 200}", f"u{number % 50}", f"n{number}", mention=False)
        heard = await rig.messages(600)
        by_chat: dict[str | None, list[int]] = {}
        for message in heard:
            by_chat.setdefault(message.origin.chat, []).append(int(message.text[1:]))
        assert all(numbers == sorted(numbers) for numbers in by_chat.values())
        await asyncio.gather(
            *(rig.edge.say(post("answer", channel_id(f"c{n}"), key=f"{n:024d}")) for n in range(200))
        )
    assert len(await sim.posts()) == 200
