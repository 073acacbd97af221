import asyncio
import threading
from collections.abc import Coroutine
from typing import Any

import pykka
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from actors.runtime import (
    ActorDeadError,
    ActorSystem,
    AskCycleError,
    Crashed,
    DeadLetter,
    LoopActor,
    LoopFuture,
    MailboxFullError,
    redeliver,
)
from tests.actors.runtime.actors_for_tests import Bounded, Note, Recorder, ThreadRecorder, Urgent
from tests.fakes.clock import ManualClock


async def test_tell_and_ask_keep_their_order(system: ActorSystem) -> None:
    heard: list[Any] = []
    ref = Recorder.start(system, heard)
    ref.tell("one")
    ref.tell("two")
    assert await ref.ask("ping", block=False) == "pong"
    assert heard == ["one", "two", "ping"]


async def test_an_actor_can_be_driven_without_being_started(system: ActorSystem) -> None:
    actor = Recorder(system)
    actor.after(1, Note())
    assert await actor.on_receive("ping") == "pong"


async def test_control_goes_before_work_that_waits(system: ActorSystem) -> None:
    heard: list[Any] = []
    ref = Recorder.start(system, heard)
    ref.tell(Note(n=1))
    ref.tell(Note(n=2))
    ref.tell(Urgent(n=3))
    await ref.ask("ping", block=False)
    assert heard[:3] == [Urgent(n=3), Note(n=1), Note(n=2)]


async def test_a_full_mailbox_refuses_bounded_work_only_and_counts_it(system: ActorSystem) -> None:
    ref = Recorder.start(system, name="desk", work_limit=2)
    ref.tell(Bounded(n=1))
    ref.tell(Bounded(n=2))
    with pytest.raises(MailboxFullError, match="desk is busy: 2 messages wait"):
        ref.tell(Bounded(n=3))
    refused = ref.ask(Bounded(n=4), block=False)
    ref.tell(Note())
    ref.tell(Urgent())
    with pytest.raises(MailboxFullError):
        await refused
    assert system.mailbox_refusals == 2
    await ref.ask("ping", block=False)
    ref.tell(Bounded(n=5))  # there is room again
    assert await ref.ask("ping", block=False) == "pong"


async def test_tells_from_many_threads_all_arrive_each_threads_in_order(system: ActorSystem) -> None:
    heard: list[Any] = []
    ref = Recorder.start(system, heard)

    def tell_all(thread: int) -> None:
        for n in range(500):
            ref.tell((thread, n))

    threads = [threading.Thread(target=tell_all, args=(i,)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        await asyncio.to_thread(thread.join)
    assert await ref.ask("ping", block=False) == "pong"
    for i in range(4):
        assert [m[1] for m in heard if m[0] == i] == list(range(500))


async def test_ask_from_a_thread_blocks_that_thread_only(system: ActorSystem) -> None:
    ref = Recorder.start(system)
    assert await asyncio.to_thread(lambda: ref.ask("ping", timeout=10)) == "pong"


async def test_a_future_can_be_awaited_with_a_timeout(system: ActorSystem) -> None:
    ref = Recorder.start(system)
    future: LoopFuture[Any] = ref.ask("wait", block=False)  # type: ignore[assignment]
    with pytest.raises(pykka.Timeout):
        await future.result(timeout=0.01)
    actor: Any = ref._actor_weakref()
    actor.gate.set()
    assert await future == "wait"


async def test_derived_futures_can_be_awaited(system: ActorSystem) -> None:
    ref = Recorder.start(system)
    first, second = ref.ask("a", block=False), ref.ask("b", block=False)
    assert await first.join(second).map("".join) == "ab"


async def test_a_raise_under_ask_leaves_the_actor_alive(system: ActorSystem) -> None:
    ref = Recorder.start(system)
    with pytest.raises(ValueError, match="bad"):
        await ref.ask("bad", block=False)
    assert await ref.ask("count", block=False) == 1


async def test_a_raise_under_tell_is_a_crash_with_the_leftover_mail_in_order(system: ActorSystem) -> None:
    crashes: list[Crashed] = []
    ref = Recorder.start(system, name="victim", on_crash=crashes.append)
    ref.tell("bad")
    ref.tell("left")
    question = ref.ask("ping", block=False)
    heard: list[Any] = []
    successor = Recorder.start(system, heard)
    await asyncio.sleep(0)
    await successor.ask("ping", block=False)
    [crashed] = crashes
    assert (crashed.name, crashed.message, str(crashed.cause)) == ("victim", "bad", "bad")
    assert redeliver(crashed, successor) == ()
    assert await question == "pong"
    assert heard[1:] == ["left", "ping"]
    assert not ref.is_alive()
    with pytest.raises(ActorDeadError):
        ref.tell("more")


async def test_a_raise_in_the_start_is_a_crash_without_a_message(system: ActorSystem) -> None:
    class Stillborn(LoopActor):
        async def on_actor_start(self) -> None:
            raise RuntimeError("no")

    crashes: list[Crashed] = []
    ref = Stillborn.start(system, on_crash=crashes.append)
    await ref.stop(block=False)
    assert not ref.is_alive()
    assert [(c.message, str(c.cause)) for c in crashes] == [(None, "no")]


async def test_hooks_run_in_their_places(system: ActorSystem) -> None:
    seen: list[str] = []

    class Hooked(LoopActor):
        async def on_actor_start(self) -> None:
            await asyncio.sleep(0)
            seen.append("start")

        async def on_receive(self, message: Any) -> None:
            seen.append(message)

        async def on_actor_stop(self) -> None:
            seen.append("stop")

        async def on_actor_failure(self, cause: BaseException) -> None:
            seen.append("failure")

    ref = Hooked.start(system)
    ref.tell("work")
    assert await ref.stop(block=False) is True
    assert await ref.stop(block=False) is False
    assert seen == ["start", "work", "stop"]


async def test_a_handler_that_awaits_what_was_cancelled_is_not_taken_for_cancelled(
    system: ActorSystem,
) -> None:
    async def awaits_cancelled(_: Any) -> None:
        future = asyncio.get_running_loop().create_future()
        future.cancel()
        await future

    ref = Recorder.start(system)
    with pytest.raises(RuntimeError, match="cancelled"):
        await ref.ask(awaits_cancelled, block=False)
    assert await ref.ask("ping", block=False) == "pong"


async def test_a_keyboard_interrupt_like_error_stops_everybody(system: ActorSystem) -> None:
    class Unplugged(BaseException):
        pass

    def unplug(_: Any) -> None:
        raise Unplugged

    other = Recorder.start(system)
    ref = Recorder.start(system)
    with pytest.raises(Unplugged):
        await ref.ask(unplug, block=False)
    await other.stop(block=False)
    assert system.live() == ()


# ------------------------------------------------------------------- background


async def test_background_tasks_die_with_the_actor(system: ActorSystem) -> None:
    ended = asyncio.Event()

    async def forever() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()

    ref = Recorder.start(system)
    await ref.ask(lambda me: me.background(forever(), name="forever") and None, block=False)
    await asyncio.sleep(0)
    await ref.stop(block=False)
    assert ended.is_set()


async def test_an_exception_in_the_background_is_a_crash(system: ActorSystem) -> None:
    async def fails() -> None:
        raise ValueError("in the background")

    crashed: asyncio.Future[Crashed] = asyncio.get_running_loop().create_future()
    ref = Recorder.start(system, on_crash=crashed.set_result)
    ref.tell(lambda me: me.background(fails(), name="fails") and None)
    assert str((await crashed).cause) == "in the background"
    assert (await crashed).message is None


# ----------------------------------------------------------------------- timers


async def test_timers_are_messages_and_die_with_the_actor(system: ActorSystem, clock: ManualClock) -> None:
    heard: list[Any] = []
    ref = Recorder.start(system, heard)
    await ref.ask(lambda me: [me.after(5, Note(n=5)), me.after(2, Note(n=2)), None][2], block=False)
    await clock.advance(4.9)
    assert heard[1:] == [Note(n=2)]
    await ref.stop(block=False)
    assert clock.waiting == 0


async def test_a_cancelled_timer_is_not_heard_even_when_it_waits_in_the_mailbox(
    system: ActorSystem, clock: ManualClock
) -> None:
    heard: list[Any] = []
    actor = Recorder.launch(system, heard)
    actor.actor_ref.tell("wait")
    await clock.settle()
    alarm = actor.after(1, Note(n=1))
    await clock.advance(2)  # it waits behind the message that is being handled
    alarm.cancel()
    actor.gate.set()
    await actor.actor_ref.ask("ping", block=False)
    assert heard == ["wait", "ping"]


async def test_W11_of_one_name_the_last_timer_counts(system: ActorSystem, clock: ManualClock) -> None:
    heard: list[Any] = []
    actor = Recorder.launch(system, heard)
    actor.actor_ref.tell("wait")
    await clock.settle()
    for n in range(100):
        actor.after(1, Note(n=n), name="idle")
        await clock.advance(2)
    actor.gate.set()
    await actor.actor_ref.ask("ping", block=False)
    assert heard == ["wait", Note(n=99), "ping"]


class Ticker(LoopActor):
    """Sets its next wake-up in each wake-up."""

    def __init__(self, system: ActorSystem, seconds: float) -> None:
        super().__init__(system)
        self.seconds = seconds
        self.wakes = 0

    async def on_actor_start(self) -> None:
        self.after(self.seconds, Note(), name="tick")

    async def on_receive(self, message: Any) -> Any:
        if message == "wakes":
            return self.wakes
        self.wakes += 1
        self.after(self.seconds, Note(), name="tick")
        return None


async def test_W11_a_flood_of_wakeups_does_not_keep_a_stop_from_acting(system: ActorSystem) -> None:
    actor = Ticker.launch(system, 0.0)
    while actor.wakes < 1000:
        await asyncio.sleep(0)
    stopped = actor.actor_ref.stop(block=False)
    wakes = actor.wakes
    assert await stopped
    assert actor.wakes <= wakes + 1


async def test_W11_after_a_suspend_a_periodic_timer_fires_once(
    system: ActorSystem, clock: ManualClock
) -> None:
    ref = Ticker.start(system, 1.0)
    await clock.advance(3)
    assert await ref.ask("wakes", block=False) == 3
    await clock.suspend(3600)
    assert await ref.ask("wakes", block=False) == 4
    await clock.advance(1)
    assert await ref.ask("wakes", block=False) == 5


async def test_W11_ten_thousand_expired_timers_do_not_delay_control_or_others(
    system: ActorSystem, clock: ManualClock
) -> None:
    heard: list[Any] = []
    ref = Recorder.start(system, heard)
    other = Recorder.start(system)

    def set_all(me: LoopActor) -> None:
        for n in range(10_000):
            me.after(1 + n / 10_000, Note(n=n))

    await ref.ask(set_all, block=False)
    heard.clear()
    suspended = asyncio.ensure_future(clock.suspend(3600))
    async with asyncio.timeout(10):
        await asyncio.sleep(0)
        ref.tell(Urgent())
        assert await other.ask("ping", block=False) == "pong"
        await suspended
        assert await ref.stop(block=False)
    assert heard.count(Urgent()) == 1
    assert heard.index(Urgent()) < 9_999
    assert len(heard) == 10_001


# ------------------------------------------------------------------ ask cycles


async def test_C16_asking_oneself_raises_at_once_and_names_the_cycle(system: ActorSystem) -> None:
    async def awaits_itself(me: LoopActor) -> Any:
        return await me.actor_ref.ask("ping", block=False)

    def blocks_on_itself(me: LoopActor) -> Any:
        return me.actor_ref.ask("ping", timeout=60)

    heard: list[Any] = []
    ref = Recorder.start(system, heard, name="a")
    for question in (awaits_itself, blocks_on_itself):
        with pytest.raises(AskCycleError, match="a → a"):
            await ref.ask(question, block=False)
    assert await ref.ask("ping", block=False) == "pong"
    assert heard.count("ping") == 1  # the messages of the asks that failed are not handled later


def asks(refs: list[Any], how: Any = None) -> Any:
    """Return a message whose handler asks the next of the refs, which asks the next …"""

    async def ask(_: Any) -> Any:
        question = asks(refs[1:], how) if len(refs) > 1 else "ping"
        return await (how or (lambda future: future))(refs[0].ask(question, block=False))

    return ask


@pytest.mark.parametrize("length", [2, 3, 5])
async def test_C16_a_cycle_of_actors_raises_at_once_and_all_live_on(system: ActorSystem, length: int) -> None:
    refs = [Recorder.start(system, name=f"n{i}") for i in range(length)]
    with pytest.raises(AskCycleError) as caught:
        await refs[0].ask(asks([*refs[1:], refs[0]]), block=False)
    assert set(caught.value.cycle) == {f"n{i}" for i in range(length)}
    assert [await ref.ask("ping", block=False) for ref in refs] == ["pong"] * length


@pytest.mark.parametrize(
    "how",
    [
        lambda future: asyncio.wait_for(future, 60),
        asyncio.gather,
        lambda future: future.result(timeout=60),
    ],
    ids=["wait_for", "gather", "result"],
)
async def test_C16_cycles_are_found_behind_timeouts_and_gathers(system: ActorSystem, how: Any) -> None:
    a, b = Recorder.start(system, name="a"), Recorder.start(system, name="b")
    with pytest.raises(AskCycleError):
        await a.ask(asks([b, a], how), block=False)
    assert await a.ask("ping", block=False) == await b.ask("ping", block=False) == "pong"


async def test_C16_a_cycle_through_a_thread_is_found_too(system: ActorSystem) -> None:
    a, thread = Recorder.start(system, name="a"), ThreadRecorder.start(system, name="t")

    async def asks_thread(_: Any) -> Any:
        return await thread.ask(lambda _: a.ask("ping", timeout=60), block=False)

    with pytest.raises(AskCycleError, match="t → a → t"):
        await a.ask(asks_thread, block=False)
    with pytest.raises(AskCycleError, match="t → t"):
        await thread.ask(lambda me: me.actor_ref.ask("ping", timeout=60), block=False)
    assert await a.ask("ping", block=False) == await thread.ask("ping", block=False) == "pong"


async def test_C16_a_plain_pykka_actor_in_the_cycle_ends_by_the_timeout(system: ActorSystem) -> None:
    class Plain(pykka.ThreadingActor):
        def on_receive(self, message: Any) -> Any:
            return message(self) if callable(message) else "pong"

    a, plain = Recorder.start(system, name="a"), Plain.start()

    async def asks_plain(_: Any) -> Any:
        return await asyncio.to_thread(lambda: plain.ask(lambda _: a.ask("ping", timeout=0.05)))

    with pytest.raises(pykka.Timeout):
        await a.ask(asks_plain, block=False)
    assert await a.ask("ping", block=False) == "pong"
    assert await asyncio.to_thread(lambda: plain.ask("ping", timeout=5)) == "pong"
    await asyncio.to_thread(plain.stop)


async def test_C16_no_late_reply_reaches_a_later_ask(system: ActorSystem) -> None:
    actor = Recorder.launch(system)
    first: LoopFuture[Any] = actor.actor_ref.ask("wait", block=False)  # type: ignore[assignment]
    with pytest.raises(pykka.Timeout):
        await first.result(timeout=0.01)
    second = actor.actor_ref.ask("ping", block=False)
    actor.gate.set()
    assert await second == "pong"
    assert await first == "wait"


async def test_C16_asking_without_waiting_is_no_cycle(system: ActorSystem) -> None:
    a, b = Recorder.start(system, name="a"), Recorder.start(system, name="b")

    async def asks_and_goes(_: Any) -> Any:
        return [b.ask(asks([a]), block=False)]

    [later] = await a.ask(asks_and_goes, block=False)
    assert await later == "pong"


async def test_C16_a_task_that_the_handler_left_behind_counts_for_nobody(system: ActorSystem) -> None:
    a, b = Recorder.start(system, name="a"), Recorder.start(system, name="b")

    async def leaves_a_task(me: LoopActor) -> Any:
        async def later() -> Any:
            return await b.ask(asks([a]), block=False)

        return [me.background(later(), name="later")]

    [task] = await a.ask(leaves_a_task, block=False)
    assert await task == "pong"


async def test_a_blocking_ask_on_the_loop_raises_instead_of_blocking_it(system: ActorSystem) -> None:
    ref = Recorder.start(system, name="a")
    with pytest.raises(AskCycleError, match="await it instead"):
        ref.ask("ping", timeout=60)


# --------------------------------------------------------------------- fairness


async def test_a_busy_actor_gives_way_after_its_slot(system: ActorSystem) -> None:
    hog, other = Recorder.start(system), Recorder.start(system)
    spins = 0

    def spin(_: Any) -> None:
        nonlocal spins
        spins += 1
        if not answered.done():  # type: ignore[attr-defined]
            hog.tell(spin)

    hog.tell(spin)
    answered = other.ask("ping", block=False)
    assert await answered == "pong"
    assert spins < 1_000_000


async def test_a_handler_that_blocks_is_logged_by_name_and_kind(clock: ManualClock) -> None:
    system = ActorSystem(clock, slow_handler_s=-1.0)  # every step is too long
    slow: list[tuple[str, str]] = []
    system.on_slow = lambda name, what, seconds: slow.append((name, what))

    async def in_two_steps(_: Any) -> None:
        await asyncio.sleep(0)

    ref = Recorder.start(system, name="session:x")
    await ref.ask(Note(), block=False)
    assert slow == [("session:x", "Note")]
    slow.clear()
    await ref.ask(in_two_steps, block=False)
    assert slow == [("session:x", "function")] * 2
    assert system.stats.slow_handlers == 3
    await system.stop_all()


# --------------------------------------------------------------------- endings


async def test_stop_all_stops_the_last_started_first(system: ActorSystem) -> None:
    stopped: list[str] = []

    class Noting(LoopActor):
        async def on_actor_stop(self) -> None:
            stopped.append(self.name)

    for name in "abc":
        Noting.start(system, name=name)
    thread = ThreadRecorder.start(system)
    await system.stop_all()
    assert stopped == ["c", "b", "a"]
    assert not thread.is_alive()


async def test_stop_all_ends_a_handler_that_hangs_and_answers_its_askers(system: ActorSystem) -> None:
    ref = Recorder.start(system)
    hanging, waiting = ref.ask("wait", block=False), ref.ask("ping", block=False)
    await asyncio.sleep(0)
    await system.stop_all(timeout_s=0.01)
    assert not ref.is_alive()
    for future in (hanging, waiting):
        with pytest.raises(ActorDeadError):
            await future


async def test_W08_tells_left_by_a_forced_end_become_dead_letters(clock: ManualClock) -> None:
    letters: list[DeadLetter] = []
    system = ActorSystem(clock, on_dead_letter=letters.append)
    ref = Recorder.start(system, name="s")
    ref.tell("wait")
    await asyncio.sleep(0)
    for n in range(3):
        ref.tell(Note(n=n))
    await system.stop_all(timeout_s=0.01)
    assert [(letter.name, letter.message) for letter in letters] == [("s", Note(n=n)) for n in range(3)]
    assert system.stats.dead_letters == 3


async def test_W08_asks_left_by_a_crash_get_actor_dead(system: ActorSystem) -> None:
    ref = Recorder.start(system)
    ref.tell("bad")
    questions = [ref.ask("ping", block=False) for _ in range(5)]
    for question in questions:
        with pytest.raises(ActorDeadError):
            await question


async def test_a_message_that_arrives_while_the_loop_is_gone_is_refused() -> None:
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, name="other-loop")
    thread.start()
    system = ActorSystem(ManualClock(), loop=loop)
    ref = Recorder.start(system)
    assert await asyncio.to_thread(lambda: ref.ask("ping", timeout=10)) == "pong"
    stopped = asyncio.run_coroutine_threadsafe(system.stop_all(), loop)
    await asyncio.wrap_future(stopped)
    loop.call_soon_threadsafe(loop.stop)
    await asyncio.to_thread(thread.join)
    loop.close()
    with pytest.raises(ActorDeadError):
        ref.tell("x")


# ------------------------------------------------------------------- properties

sent = st.lists(st.sampled_from(["work", "control", "bounded", "plain", "turn"]), max_size=60)


def run(coro: Coroutine[Any, Any, None]) -> None:
    with asyncio.Runner() as runner:
        runner.run(coro)


@given(sent)
@settings(deadline=None, max_examples=60)
def test_each_lane_keeps_its_order_and_nothing_is_lost(kinds: list[str]) -> None:
    async def walk() -> None:
        system = ActorSystem(ManualClock())
        heard: list[Any] = []
        ref = Recorder.start(system, heard)
        told: list[Any] = []
        for n, kind in enumerate(kinds):
            if kind == "turn":
                await asyncio.sleep(0)
                continue
            made = {"work": Note(n=n), "control": Urgent(n=n), "bounded": Bounded(n=n), "plain": ("plain", n)}
            told.append(made[kind])
            ref.tell(made[kind])
        await ref.stop(block=False)
        for control in (True, False):
            mine = [m for m in told if isinstance(m, Urgent) is control]
            assert [m for m in heard if isinstance(m, Urgent) is control] == mine

    run(walk())


async def test_a_start_that_hangs_can_be_ended(system: ActorSystem) -> None:
    class Hanging(LoopActor):
        async def on_actor_start(self) -> None:
            await asyncio.Event().wait()

    begun, not_begun = Hanging.launch(system), Recorder.launch(system)
    await asyncio.sleep(0)
    not_begun.actor_ref.tell("never handled")
    await asyncio.gather(begun.end_now().result(), not_begun.end_now().result())
    assert system.live() == ()
    assert not_begun.heard == []


async def test_a_thread_actor_ends_without_handling_what_waits(system: ActorSystem) -> None:
    actor = ThreadRecorder(system)
    pykka.ActorRegistry.register(actor.actor_ref)
    actor._start_actor_loop()
    actor.actor_ref.tell("wait")
    waiting = actor.actor_ref.ask("ping", block=False)
    ended = actor.end_now()
    actor.gate.set()
    await ended
    with pytest.raises(ActorDeadError):
        await waiting
    assert "ping" not in actor.heard


async def test_failing_asks_do_not_keep_others_from_their_turn(system: ActorSystem) -> None:
    ref, other = Recorder.start(system), Recorder.start(system)
    failing = [ref.ask("bad", block=False) for _ in range(2_000)]
    assert await other.ask("ping", block=False) == "pong"
    assert not failing[-1].done()  # type: ignore[attr-defined]
    for future in failing:
        with pytest.raises(ValueError, match="bad"):
            await future


async def test_W08_asks_are_answered_even_if_whoever_owns_the_mail_forgets_it(system: ActorSystem) -> None:
    names: list[str] = []
    ref = Recorder.start(system, name="a", on_crash=lambda crashed: names.append(crashed.name))
    ref.tell("bad")
    question = ref.ask("ping", block=False)
    with pytest.raises(ActorDeadError):
        await question
    assert names == ["a"]
