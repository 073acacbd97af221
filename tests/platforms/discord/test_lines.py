"""The order in which things are handed in, without a connection."""

import asyncio
from functools import partial

import pytest

from actors.gateway.edge import EdgeError
from actors.gateway.platforms.discord.hearing import MOST_REMEMBERED, MOST_WAITING, Hearing, Turn
from messages.delivery import ProblemKind
from messages.gateway import EdgeHeard, MessageReceived
from tests.fakes.clock import ManualClock
from tests.platforms.discord.line import Listening
from tests.platforms.discord.shapes import message
from tests.platforms.discord.test_translate import heard


def said(identity: str) -> MessageReceived:
    return heard(message(f"m{identity}", id=identity))


def texts(desk: Listening) -> list[str]:
    return [each.text for each in desk.of(MessageReceived)]


async def hand_in(hearing: Hearing, identity: str, ready: asyncio.Event, turn: Turn) -> None:
    await ready.wait()
    await turn.come()
    call = hearing.begin(identity, "c", said(identity))
    turn.over()
    await call


async def test_a_channel_keeps_its_order_whatever_is_ready_first() -> None:
    clock, desk = ManualClock(), Listening()
    hearing = Hearing(desk.hear, clock, {})
    gates = [asyncio.Event() for _ in range(3)]
    for number, gate in enumerate(gates, 1):
        hearing.enter("c", partial(hand_in, hearing, str(number), gate))
    hearing.enter("d", partial(hand_in, hearing, "9", gates[2]))
    for gate in reversed(gates):
        gate.set()
        await clock.settle()
    assert texts(desk) == ["m9", "m1", "m2", "m3"]
    assert hearing.marks == {"c": "9"}
    assert len(hearing) == 0
    assert hearing._lines == {}


async def test_a_slow_desk_does_not_hold_what_comes_after() -> None:
    clock, desk = ManualClock(), Listening()
    desk.held = asyncio.Event()
    hearing = Hearing(desk.hear, clock, {})
    ready = asyncio.Event()
    ready.set()
    for number in range(1, 4):
        hearing.enter("c", partial(hand_in, hearing, str(number), ready))
    await clock.settle()
    assert texts(desk) == ["m1", "m2", "m3"]
    assert len(hearing) == 3
    await hearing.close()
    assert len(hearing) == 0


async def test_what_is_never_taken_ends_it() -> None:
    clock, desk = ManualClock(), Listening()
    desk.fails = [EdgeError(ProblemKind.TRANSIENT, "busy") for _ in range(5)]
    hearing = Hearing(desk.hear, clock, {})
    ready = asyncio.Event()
    ready.set()
    hearing.enter("c", partial(hand_in, hearing, "1", ready))
    await clock.advance(60)
    with pytest.raises(EdgeError, match="busy"):
        await hearing.failed
    assert hearing.is_new("1")
    await hearing.close()


async def test_a_flood_ends_it_instead_of_growing() -> None:
    clock, desk = ManualClock(), Listening()
    hearing = Hearing(desk.hear, clock, {})
    never = asyncio.Event()
    for number in range(MOST_WAITING + 5):
        hearing.enter(str(number % 7), partial(hand_in, hearing, str(number), never))
    assert len(hearing) == MOST_WAITING
    with pytest.raises(EdgeError, match="faster"):
        await hearing.failed
    await hearing.close()


async def test_what_is_remembered_is_bounded() -> None:
    async def hear(_: EdgeHeard) -> None:
        return None

    hearing = Hearing(hear, ManualClock(), {})  # type: ignore[arg-type]
    one = said("1")
    for number in range(1, MOST_REMEMBERED + 100):
        await hearing.begin(str(number), str(number), one)
    assert len(hearing._begun) == len(hearing.marks) == MOST_REMEMBERED
    assert hearing.is_new("1")
    await hearing.close()
