import asyncio
from dataclasses import dataclass, field, replace
from typing import Any

import pykka
import pytest
from hypothesis import given
from hypothesis import strategies as st

from actors.runtime import (
    ActorDeadError,
    ActorSystem,
    AskCycleError,
    DeadLetter,
    HandlingFailedError,
    LoopActor,
)
from actors.supervision import (
    Backoff,
    Child,
    Degraded,
    Escalate,
    EscalatedError,
    Incident,
    LetGo,
    Reports,
    Restart,
    Supervisor,
    verdict,
)
from tests.actors.runtime.actors_for_tests import Note, Recorder, ThreadRecorder
from tests.fakes.clock import ManualClock

# ------------------------------------------------------------------------- rules

CHILD = Child("c", start=lambda: None, backoff=Backoff(1, 60), most=3, within_seconds=60, beyond="degrade")  # type: ignore[arg-type,return-value]
NEVER = replace(CHILD, restart="never")
ROOT = replace(CHILD, beyond="escalate")


@pytest.mark.parametrize(
    ("child", "crashes", "now", "chance", "expected"),
    [
        # the first crashes: backoff doubles, full jitter
        (CHILD, (100.0,), 100.0, 0.999, Restart(0.999)),
        (CHILD, (100.0,), 100.0, 0.0, Restart(0.0)),
        (CHILD, (100.0, 110.0), 110.0, 0.5, Restart(1.0)),
        (CHILD, (100.0, 110.0, 120.0), 120.0, 0.5, Restart(2.0)),
        # one more than is borne
        (CHILD, (100.0, 110.0, 120.0, 130.0), 130.0, 0.5, Degraded(60)),
        (ROOT, (100.0, 110.0, 120.0, 130.0), 130.0, 0.5, Escalate()),
        # it keeps crashing at once: degraded for ever
        (CHILD, (130.0,) * 9, 130.0, 0.5, Degraded(60)),
        # a healthy period resets both counts
        (CHILD, (100.0, 110.0, 120.0, 130.0), 190.0, 0.5, Restart(0.5)),
        (CHILD, (10.0, 11.0, 12.0, 100.0), 100.0, 0.5, Restart(0.5)),
        (ROOT, (10.0, 11.0, 12.0, 13.0, 100.0), 100.0, 0.5, Restart(0.5)),
        # not to be restarted
        (NEVER, (100.0,), 100.0, 0.5, LetGo()),
        (replace(CHILD, restart="always"), (100.0,), 100.0, 0.5, Restart(0.5)),
        # no patience at all
        (replace(CHILD, most=0), (100.0,), 100.0, 0.5, Degraded(60)),
    ],
)
def test_verdict(
    child: Child, crashes: tuple[float, ...], now: float, chance: float, expected: object
) -> None:
    assert verdict(child, crashes, now, chance) == expected


@given(st.integers(1, 10_000), st.floats(0, 1, exclude_max=True))
def test_a_backoff_is_never_longer_than_its_most(attempt: int, chance: float) -> None:
    assert 0 <= Backoff(0.5, 30).wait(attempt, chance) <= 30


# ------------------------------------------------------------------------- actor


@dataclass
class House:
    """A supervisor with its children, and what it reported."""

    system: ActorSystem
    clock: ManualClock
    incidents: list[Incident] = field(default_factory=list)
    letters: list[DeadLetter] = field(default_factory=list)
    started: list[LoopActor] = field(default_factory=list)
    log: list[str] = field(default_factory=list)
    broken: set[str] = field(default_factory=set)
    supervisor: Supervisor | None = None

    def child(self, name: str, **spec: Any) -> Child:
        def start() -> "pykka.ActorRef[Any]":
            if name in self.broken:
                raise OSError(f"{name} cannot start")
            self.log.append(f"+{name}")
            actor = Telling.launch(self.system, self.log, name=name)
            self.started.append(actor)
            return actor.actor_ref

        return Child(name, start, **spec)

    def open(self, *children: Child, **options: Any) -> Supervisor:
        reports = Reports(self.incidents.append, self.letters.append)
        self.supervisor = Supervisor.launch(
            self.system, children, reports=reports, chance=lambda: 0.5, **options
        )
        return self.supervisor

    def said(self) -> list[tuple[str, str]]:
        return [(incident.child, incident.what) for incident in self.incidents]


class Telling(Recorder):
    """Says when it stops."""

    def __init__(self, system: ActorSystem, log: list[str], **options: Any) -> None:
        super().__init__(system, **options)
        self._log = log

    async def on_actor_stop(self) -> None:
        self._log.append(f"-{self.name}")


@pytest.fixture
def house(system: ActorSystem, clock: ManualClock) -> House:
    return House(system, clock)


async def test_children_start_in_order_and_stop_in_reverse(house: House) -> None:
    supervisor = house.open(house.child("a"), house.child("b"), house.child("c"))
    await house.clock.settle()
    await supervisor.actor_ref.stop(block=False)
    assert house.log == ["+a", "+b", "+c", "-c", "-b", "-a"]


async def test_a_crashed_child_is_restarted_after_its_backoff(house: House) -> None:
    supervisor = house.open(house.child("a", backoff=Backoff(10, 60)), house.child("b"))
    a = supervisor.handle("a")
    a.tell("bad")
    await house.clock.settle()
    assert supervisor.status()[0].state == "waiting"
    await house.clock.advance(4.9)
    assert house.log == ["+a", "+b"]
    await house.clock.advance(0.1)
    assert house.log == ["+a", "+b", "+a"]
    assert await a.ask("ping", block=False) == "pong"
    assert house.said() == [("a", "crashed"), ("a", "dead_letter"), ("a", "restarted")]


async def test_rest_for_one_restarts_those_that_came_later(house: House) -> None:
    children = [house.child(name, backoff=Backoff(2, 60)) for name in "abc"]
    supervisor = house.open(*children, strategy="rest_for_one")
    await house.clock.settle()
    supervisor.handle("b").tell("bad")
    await house.clock.settle()
    supervisor.handle("c").tell("meanwhile")
    assert house.log == ["+a", "+b", "+c", "-c"]
    await house.clock.advance(1)
    assert house.log == ["+a", "+b", "+c", "-c", "+b", "+c"]
    assert await supervisor.handle("c").ask("ping", block=False) == "pong"
    assert house.started[-1].heard == ["meanwhile", "ping"]  # type: ignore[attr-defined]


async def test_in_rest_for_one_a_later_childs_own_wait_is_overtaken(house: House) -> None:
    children = [house.child("a", backoff=Backoff(2, 60)), house.child("b", backoff=Backoff(40, 60))]
    supervisor = house.open(*children, strategy="rest_for_one")
    supervisor.handle("b").tell("bad")
    await house.clock.advance(1)
    supervisor.handle("a").tell("bad")
    await house.clock.advance(1)
    assert house.log == ["+a", "+b", "+a", "+b"]
    await house.clock.advance(60)
    assert house.log == ["+a", "+b", "+a", "+b"]


async def test_a_start_that_raises_is_a_crash_and_never_gives_up_when_degrading(house: House) -> None:
    house.broken.add("platform")
    child = house.child("platform", beyond="degrade", most=2, backoff=Backoff(1, 30), within_seconds=60)
    supervisor = house.open(child)
    await house.clock.advance(5)
    assert supervisor.status()[0].state == "degraded"
    await house.clock.advance(3600)
    assert supervisor.status()[0].starts > 100
    assert house.said().count(("platform", "degraded")) == 1
    house.broken.clear()
    await house.clock.advance(30)
    assert supervisor.status()[0].state == "up"
    assert ("platform", "recovered") not in house.said()
    await house.clock.advance(60)
    assert house.said()[-1] == ("platform", "recovered")


async def test_a_child_that_escalates_takes_the_supervisor_with_it(house: House) -> None:
    incidents: list[Incident] = []

    def inner() -> "pykka.ActorRef[Any]":
        return house.open(house.child("a"), house.child("store", most=0)).actor_ref

    outer = Supervisor.launch(
        house.system,
        (Child("inner", inner, backoff=Backoff(2, 60)),),
        name="outer",
        reports=Reports(incidents.append),
        chance=lambda: 0.5,
    )
    await house.clock.settle()
    assert house.supervisor is not None
    first = house.supervisor
    first.handle("store").tell("bad")
    await house.clock.settle()
    assert "EscalatedError" in incidents[0].detail
    assert house.log == ["+a", "+store", "-a"]
    await house.clock.advance(1)
    assert house.supervisor is not first
    assert house.log == ["+a", "+store", "-a", "+a", "+store"]
    with pytest.raises(ActorDeadError):
        first.handle("a").tell("too late")
    await outer.actor_ref.stop(block=False)
    assert issubclass(EscalatedError, Exception)


@pytest.mark.parametrize(("restart", "log"), [("always", ["+a", "-a", "+a"]), ("on_crash", ["+a", "-a"])])
async def test_a_child_that_stops_in_order(house: House, restart: Any, log: list[str]) -> None:
    supervisor = house.open(house.child("a", restart=restart))
    handle = supervisor.handle("a")
    await handle.ask("ping", block=False)
    house.started[0].stop()
    await house.clock.advance(5)
    assert house.log == log
    assert handle.is_alive() is (restart == "always")


async def test_stopping_the_system_restarts_nobody(house: House) -> None:
    house.open(house.child("a", restart="always"), house.child("b", restart="always"))
    await house.clock.settle()
    await house.system.stop_all()
    assert house.log == ["+a", "+b", "-b", "-a"]


async def test_a_plain_pykka_actor_is_watched_by_looking(house: House) -> None:
    class Plain(pykka.ThreadingActor):
        def on_receive(self, message: Any) -> Any:
            if message == "bad":
                raise ValueError("bad")
            return "pong"

    supervisor = house.open(Child("plain", Plain.start, backoff=Backoff(1, 1)))
    handle = supervisor.handle("plain")
    assert await handle.ask("ping", block=False) == "pong"
    handle.tell("bad")
    ref = supervisor._slots["plain"].ref
    assert ref is not None
    await asyncio.to_thread(ref.actor_stopped.wait, 10)
    await house.clock.advance(2)
    assert await handle.ask("ping", block=False) == "pong"
    assert house.said() == [("plain", "crashed"), ("plain", "restarted")]


# ----------------------------------------------------------- mail over a restart


async def test_W07_a_message_that_crashes_is_handled_once_and_its_asker_told_why(house: House) -> None:
    supervisor = house.open(house.child("a", backoff=Backoff(0.5, 60)))
    handle = supervisor.handle("a")
    failing = handle.ask("bad", block=False)
    ping = handle.ask("ping", block=False)
    await house.clock.advance(1)
    with pytest.raises(HandlingFailedError, match="a failed once while handling str") as caught:
        await failing
    assert isinstance(caught.value.__cause__, ValueError)
    assert await ping == "pong"
    assert [actor.counter for actor in house.started] == [1, 0]  # type: ignore[attr-defined]
    [letter] = house.letters
    assert (letter.name, letter.message) == ("a", "bad")
    assert "ValueError: bad" in letter.traceback


async def test_W07_with_two_attempts_it_is_tried_once_more_on_a_fresh_actor(house: House) -> None:
    supervisor = house.open(house.child("a", attempts=2))
    handle = supervisor.handle("a")
    handle.tell("bad")
    handle.tell("next")
    ping = handle.ask("ping", block=False)
    await house.clock.advance(10)
    assert await ping == "pong"
    assert [actor.heard for actor in house.started] == [["bad"], ["bad"], ["next", "ping"]]  # type: ignore[attr-defined]
    assert [letter.message for letter in house.letters] == ["bad"]


async def test_W07_a_thread_actor_is_supervised_alike(house: House) -> None:
    supervisor = house.open(Child("t", lambda: ThreadRecorder.start(house.system, name="t")))
    handle = supervisor.handle("t")
    failing, ping = handle.ask("bad", block=False), handle.ask("ping", block=False)

    async def turn_the_clock() -> None:
        while not ping.done():
            await house.clock.advance(1)
            await asyncio.to_thread(lambda: None)

    with pytest.raises(HandlingFailedError):
        async with asyncio.timeout(10):
            await asyncio.gather(turn_the_clock(), failing.result())
    await turn_the_clock()
    assert await ping == "pong"
    assert house.said() == [("t", "crashed"), ("t", "dead_letter"), ("t", "restarted")]


async def test_W08_five_asks_and_a_crash_on_the_first_are_all_answered(house: House) -> None:
    supervisor = house.open(house.child("a"))
    handle = supervisor.handle("a")
    asks = [handle.ask(what, block=False) for what in ("bad", "ping", "ping", "ping", "ping")]
    await house.clock.advance(1)
    assert await asyncio.gather(*(ask.result() for ask in asks[1:])) == ["pong"] * 4
    with pytest.raises(HandlingFailedError):
        await asks[0]


async def test_W08_mail_told_to_the_ref_and_to_the_handle_is_redelivered_in_order(house: House) -> None:
    supervisor = house.open(house.child("a"))
    handle = supervisor.handle("a")
    await handle.ask("ping", block=False)
    ref = house.started[0].actor_ref
    ref.tell("bad")
    ref.tell(Note(n=1))
    handle.tell(Note(n=2))
    await house.clock.settle()
    handle.tell(Note(n=3))
    await house.clock.advance(1)
    await handle.ask("ping", block=False)
    assert house.started[1].heard == [Note(n=1), Note(n=2), Note(n=3), "ping"]  # type: ignore[attr-defined]


async def test_W08_mail_for_a_child_that_is_let_go_is_accounted_for(house: House) -> None:
    supervisor = house.open(house.child("a", restart="never"))
    handle = supervisor.handle("a")
    handle.tell("bad")
    handle.tell(Note(n=1))
    question = handle.ask("ping", block=False)
    await house.clock.settle()
    with pytest.raises(ActorDeadError):
        await question
    with pytest.raises(ActorDeadError):
        handle.tell("more")
    with pytest.raises(ActorDeadError):
        await handle.ask("more", block=False)
    assert [letter.message for letter in house.letters] == ["bad", Note(n=1)]


async def test_W08_when_the_supervisor_stops_held_mail_is_accounted_for(house: House) -> None:
    house.broken.add("a")
    supervisor = house.open(house.child("a"))
    handle = supervisor.handle("a")
    await house.clock.settle()
    handle.tell(Note(n=1))
    question = handle.ask("ping", block=False)
    await supervisor.actor_ref.stop(block=False)
    with pytest.raises(ActorDeadError):
        await question
    assert [letter.message for letter in house.letters] == [Note(n=1)]


@pytest.mark.parametrize("crash_at", range(6))
async def test_W08_wherever_the_crash_comes_each_message_is_accounted_for(
    house: House, crash_at: int
) -> None:
    supervisor = house.open(house.child("a"))
    handle = supervisor.handle("a")
    futures = []
    for n in range(5):
        if n == crash_at:
            handle.tell("bad")
        handle.tell(Note(n=n))
        futures.append(handle.ask(n, block=False))
        if n % 2:
            await asyncio.sleep(0)
    await house.clock.advance(1)
    assert [await future for future in futures] == list(range(5))
    heard = [m for actor in house.started for m in actor.heard if isinstance(m, Note)]  # type: ignore[attr-defined]
    assert heard == [Note(n=n) for n in range(5)]


async def test_C16_asking_ones_own_handle_raises_at_once(house: House) -> None:
    handle = house.open(house.child("a")).handle("a")

    async def asks_itself(_: Any) -> Any:
        return await handle.ask("ping", block=False)

    future = handle.ask(asks_itself, block=False)
    await house.clock.advance(1)
    with pytest.raises(HandlingFailedError, match="a → a") as caught:
        await future
    assert isinstance(caught.value.__cause__, AskCycleError)


async def test_W08_two_crashes_at_once_under_rest_for_one_lose_nothing(house: House) -> None:
    supervisor = house.open(house.child("a"), house.child("b"), strategy="rest_for_one")
    a, b = supervisor.handle("a"), supervisor.handle("b")
    questions = [handle.ask(what, block=False) for handle in (a, b) for what in ("bad", "ping")]
    await house.clock.advance(2)
    assert await questions[1] == await questions[3] == "pong"
    for failed in (questions[0], questions[2]):
        with pytest.raises(HandlingFailedError):
            await failed
    assert [letter.name for letter in house.letters] == ["a", "b"]


async def test_a_plain_pykka_child_is_stopped_without_blocking_the_loop(house: House) -> None:
    class Plain(pykka.ThreadingActor):
        pass

    supervisor = house.open(Child("plain", Plain.start))
    await house.clock.settle()
    ref = supervisor._slots["plain"].ref
    await supervisor.actor_ref.stop(block=False)
    assert ref is not None
    assert not ref.is_alive()
