"""Places at a provider: nobody takes more than their share while others wait, and no place is ever lost."""

import asyncio
import contextlib

from hypothesis import given
from hypothesis import strategies as st

from actors.session.models.fair import FairPlaces


class Caller:
    """Calls that hold a place until they are told to let go."""

    def __init__(self, places: FairPlaces) -> None:
        self.places = places
        self.order: list[str] = []
        self.open: list[tuple[str, asyncio.Event]] = []
        self.tasks: list[asyncio.Task[None]] = []

    async def calls(self, share: str, times: int = 1) -> None:
        for _ in range(times):
            self.tasks.append(asyncio.create_task(self._call(share)))
        await self.settle()

    async def _call(self, share: str) -> None:
        async with self.places.taken(share):
            self.order.append(share)
            done = asyncio.Event()
            self.open.append((share, done))
            await done.wait()

    async def one_ends(self) -> None:
        _, done = self.open.pop(0)
        done.set()
        await self.settle()

    async def settle(self) -> None:
        for _ in range(5):
            await asyncio.sleep(0)

    async def all_end(self) -> None:
        while self.open:
            await self.one_ends()
        await asyncio.gather(*self.tasks, return_exceptions=True)


async def test_free_places_go_to_whoever_comes() -> None:
    caller = Caller(FairPlaces(3))
    await caller.calls("busy", 3)
    assert caller.order == ["busy"] * 3
    await caller.all_end()


async def test_a_chat_with_one_question_does_not_wait_behind_a_hundred() -> None:
    caller = Caller(FairPlaces(4))
    await caller.calls("busy", 100)
    await caller.calls("quiet")
    await caller.one_ends()
    assert caller.order[-1] == "quiet"
    await caller.all_end()
    assert len(caller.order) == 101


async def test_those_who_wait_share_the_places_evenly() -> None:
    caller = Caller(FairPlaces(6))
    await caller.calls("a", 50)
    await caller.calls("b", 50)
    await caller.calls("c", 50)
    for _ in range(60):
        await caller.one_ends()
    assert {share: caller.places.held_by(share) for share in "abc"} == {"a": 2, "b": 2, "c": 2}
    await caller.all_end()


async def test_who_is_cancelled_while_waiting_gives_the_turn_away() -> None:
    caller = Caller(FairPlaces(1))
    await caller.calls("a", 3)
    caller.tasks[1].cancel()
    await caller.settle()
    assert caller.places.waiting == 1
    await caller.all_end()
    assert caller.order == ["a", "a"]


async def test_a_place_that_comes_in_the_moment_of_the_cancelling_is_handed_on() -> None:
    caller = Caller(FairPlaces(1))
    await caller.calls("a", 2)
    await caller.calls("b", 1)
    caller.open[0][1].set()
    caller.open.pop(0)
    await asyncio.sleep(0)  # the place is handed on within this turn of the loop
    caller.tasks[2].cancel()
    await caller.settle()
    await caller.all_end()
    assert caller.places.waiting == 0
    async with asyncio.timeout(5), caller.places.taken("anybody"):
        pass


async def _never_more_than_the_limit(limit: int, steps: list[tuple[str, str]]) -> None:
    caller = Caller(FairPlaces(limit))
    for step, share in steps:
        if step == "call":
            await caller.calls(share)
        elif step == "end" and caller.open:
            await caller.one_ends()
        elif step == "cancel" and caller.tasks:
            task = caller.tasks.pop()
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await task
            await caller.settle()
        held = sum(caller.places.held_by(each) for each in "abc")
        assert held <= limit
        assert not caller.places.waiting or held == limit
    await caller.all_end()
    assert all(caller.places.held_by(each) == 0 for each in "abc")


@given(
    limit=st.integers(1, 4),
    steps=st.lists(
        st.tuples(st.sampled_from(["call", "end", "cancel"]), st.sampled_from("abc")), max_size=60
    ),
)
def test_no_place_is_lost_and_none_stays_empty_while_somebody_waits(
    limit: int, steps: list[tuple[str, str]]
) -> None:
    asyncio.run(_never_more_than_the_limit(limit, steps))
