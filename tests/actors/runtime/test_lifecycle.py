import asyncio
import threading
from collections.abc import AsyncIterator
from typing import Any

import pytest

from actors.lifecycle import QUEUE_LIMIT, Lifecycle
from actors.runtime import ActorSystem
from messages.ids import SessionKey, Turn
from messages.lifecycle import LifecycleEvent, ProcessingCompleted, ProcessingStarted, Started
from tests.fakes.clock import START, ManualClock


def started(session: str, turn: int) -> ProcessingStarted:
    return ProcessingStarted(session_key=SessionKey(session), turn=Turn(turn), message_ids=(), at=START)


def completed(session: str, turn: int) -> ProcessingCompleted:
    return ProcessingCompleted(
        session_key=SessionKey(session), turn=Turn(turn), reason="answered", began_at=START, at=START
    )


@pytest.fixture
async def bus(system: ActorSystem) -> AsyncIterator[Lifecycle]:
    bus = Lifecycle(system)
    yield bus
    await bus.close()


async def heard(count: int, events: list[Any]) -> list[Any]:
    """Wait until so many have come."""
    async with asyncio.timeout(10):
        while len(events) < count:
            await asyncio.sleep(0)
    return events


async def test_subscribers_hear_the_kinds_they_want(bus: Lifecycle) -> None:
    all_events: list[LifecycleEvent] = []
    ends: list[LifecycleEvent] = []

    async def hear_all(event: LifecycleEvent) -> None:
        all_events.append(event)

    async def hear_ends(event: LifecycleEvent) -> None:
        ends.append(event)

    subscription = bus.subscribe("all", hear_all)
    bus.subscribe("ends", hear_ends, kinds=[ProcessingCompleted])
    events = [Started(life="l", version="1", at=START), started("s", 1), completed("s", 1)]
    for event in events:
        bus.publish(event)
    assert await heard(3, all_events) == events
    assert ends == [completed("s", 1)]
    await bus.close()
    assert (subscription.stats.handled, subscription.stats.failed) == (3, 0)


async def test_events_of_a_session_come_in_order_and_sessions_do_not_wait_for_each_other(
    bus: Lifecycle,
) -> None:
    seen: list[tuple[str, int]] = []
    gate = asyncio.Event()

    async def hear(event: ProcessingStarted) -> None:
        if event.session_key == "slow":
            await gate.wait()
        seen.append((event.session_key, event.turn))

    bus.subscribe("h", hear)
    for turn in range(3):
        bus.publish(started("slow", turn))
        bus.publish(started("quick", turn))
    await heard(3, seen)
    assert seen == [("quick", 0), ("quick", 1), ("quick", 2)]
    gate.set()
    await heard(6, seen)
    assert seen[3:] == [("slow", 0), ("slow", 1), ("slow", 2)]


@pytest.mark.parametrize("isolated", [False, True])
async def test_a_handler_that_raises_is_counted_and_hears_the_next(bus: Lifecycle, isolated: bool) -> None:
    seen: list[int] = []

    async def hear(event: ProcessingStarted) -> None:
        seen.append(event.turn)
        raise ValueError("hook")

    def hear_plainly(event: ProcessingStarted) -> None:
        seen.append(event.turn)
        raise SystemExit

    stats = [bus.subscribe("h", hear, isolated=isolated).stats, bus.subscribe("p", hear_plainly).stats]
    bus.publish(started("s", 1))
    bus.publish(started("s", 2))
    await heard(4, seen)
    await bus.close()
    assert [s.failed for s in stats] == [2, 2]


@pytest.mark.parametrize("isolated", [False, True])
async def test_a_handler_that_takes_too_long_is_cancelled(
    bus: Lifecycle, clock: ManualClock, isolated: bool
) -> None:
    begun: list[int] = []
    cancelled: list[int] = []

    async def hang(event: ProcessingStarted) -> None:
        begun.append(event.turn)
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            cancelled.append(event.turn)
            raise

    stats = bus.subscribe("h", hang, timeout_s=10, isolated=isolated).stats
    bus.publish(started("s", 1))
    bus.publish(started("s", 2))
    for turn in (1, 2):
        await heard(turn, begun)
        await clock.advance(10)
    await heard(2, cancelled)
    assert stats.timed_out == 2


async def test_a_plain_handler_that_hangs_is_left_to_its_thread(bus: Lifecycle, clock: ManualClock) -> None:
    release = threading.Event()
    begun: list[int] = []

    def hang(event: ProcessingStarted) -> None:
        begun.append(event.turn)
        release.wait(10)

    subscription = bus.subscribe("h", hang, timeout_s=10)
    for turn in range(20):
        bus.publish(started("s", turn))
    for turn in range(8):
        await heard(turn + 1, begun)
        await clock.advance(10)
    assert subscription.stats.timed_out == 8
    bus.publish(started("t", 1))  # eight of its calls hang: it gets no more
    assert subscription.stats.dropped == 1
    release.set()


async def test_an_isolated_coroutine_that_blocks_holds_up_hooks_only(
    bus: Lifecycle, clock: ManualClock
) -> None:
    release = threading.Event()
    begun: list[int] = []

    async def block(event: ProcessingStarted) -> None:
        begun.append(event.turn)
        release.wait(10)

    stats = bus.subscribe("h", block, timeout_s=10, isolated=True).stats
    bus.publish(started("s", 1))
    await heard(1, begun)
    await clock.advance(10)  # our loop turns, though the hook blocks its own
    assert stats.timed_out == 1
    release.set()


async def test_a_slow_subscriber_loses_events_and_nobody_waits(bus: Lifecycle) -> None:
    gate = asyncio.Event()
    quick: list[LifecycleEvent] = []

    async def slow(_: LifecycleEvent) -> None:
        await gate.wait()

    async def hear(event: LifecycleEvent) -> None:
        quick.append(event)

    slow_stats = bus.subscribe("slow", slow).stats
    bus.subscribe("quick", hear)
    for turn in range(QUEUE_LIMIT + 5):
        bus.publish(started("s", turn))
        if turn % 100 == 0:
            await heard(turn + 1, quick)
    await heard(QUEUE_LIMIT + 5, quick)
    assert slow_stats.dropped == 5
    gate.set()


async def test_events_may_come_from_any_thread(bus: Lifecycle) -> None:
    seen: list[LifecycleEvent] = []
    bus.subscribe("h", seen.append)
    await asyncio.to_thread(bus.publish, started("s", 1))
    assert await heard(1, seen) == [started("s", 1)]


async def test_who_unsubscribed_hears_no_more(bus: Lifecycle) -> None:
    seen: list[LifecycleEvent] = []

    async def hear(event: LifecycleEvent) -> None:
        seen.append(event)

    subscription = bus.subscribe("h", hear)
    bus.publish(started("s", 1))
    await heard(1, seen)
    bus.unsubscribe(subscription)
    bus.publish(started("s", 2))
    assert seen == [started("s", 1)]
