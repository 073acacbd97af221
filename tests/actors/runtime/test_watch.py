import asyncio
import re
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from actors.runtime import ActorSystem
from actors.watch import Blocked, LoopWatch
from tests.actors.runtime.actors_for_tests import Note, Recorder


class Alarm:
    """Hears the watch's alarms, in whatever thread."""

    def __init__(self) -> None:
        self.raised = threading.Event()
        self.heard: list[Blocked] = []

    def __call__(self, blocked: Blocked) -> None:
        self.heard.append(blocked)
        self.raised.set()


@asynccontextmanager
async def watching(system: ActorSystem, alarm: Alarm) -> AsyncIterator[LoopWatch]:
    watch = LoopWatch(system, tick_s=0.01, blocked_s=0.05, on_blocked=alarm)
    watch.start()
    try:
        yield watch
    finally:
        watch.close()


async def test_C08_a_handler_that_blocks_the_loop_is_named_while_it_lasts(system: ActorSystem) -> None:
    alarm = Alarm()

    def block(_: Any) -> None:
        alarm.raised.wait(30)  # the alarm itself ends it

    async with watching(system, alarm) as watch:
        ref = Recorder.start(system, name="session:agent:main:web:main:dm:a")
        await ref.ask(block, block=False)
        await asyncio.wait_for(ref.ask("ping", block=False), 10)
    assert watch.alarms == 1
    assert alarm.heard[0].actor == "session:agent:main:web:main:dm:a"
    assert "test_watch.py" in alarm.heard[0].where or "threading.py" in alarm.heard[0].where
    assert watch.lag_s >= 0.05


async def test_C08_a_step_after_an_await_is_named_too(system: ActorSystem) -> None:
    alarm = Alarm()

    async def block_later(_: Any) -> None:
        await asyncio.sleep(0)
        alarm.raised.wait(30)

    async def block_in_background(me: Any) -> None:
        me.background(block_later(me), name="reader")

    for message in (block_later, block_in_background):
        alarm.raised.clear()
        async with watching(system, alarm):
            ref = Recorder.start(system, name="session:b")
            await ref.ask(message, block=False)
            while not alarm.raised.is_set():
                await asyncio.sleep(0)
    assert [blocked.actor for blocked in alarm.heard] == ["session:b", "session:b"]


async def test_C08_work_in_threads_is_named_with_its_session(system: ActorSystem) -> None:
    alarm = Alarm()
    async with watching(system, alarm) as watch:
        with watch.working("tool web_x of session s"):
            alarm.raised.wait(30)  # the test itself blocks the loop, as a held interpreter would
        await asyncio.sleep(0)
    assert alarm.heard[0].working == ("tool web_x of session s",)
    assert "at work: tool web_x of session s" in str(alarm.heard[0])


async def test_C08_a_tool_that_holds_the_interpreter_is_named_though_nothing_else_could_run(
    system: ActorSystem,
) -> None:
    alarm = Alarm()
    async with watching(system, alarm) as watch:

        def tool() -> None:
            with watch.working("tool regex of session s"):
                re.match("(a+)+$", "a" * 23 + "b")  # a large part of a second, all within one C call

        await asyncio.to_thread(tool)
        while not alarm.heard:
            await asyncio.sleep(0)
    assert "tool regex of session s" in alarm.heard[0].working


async def test_C08_other_actors_answer_while_a_tool_blocks_its_thread(system: ActorSystem) -> None:
    alarm, release = Alarm(), threading.Event()
    async with watching(system, alarm) as watch:

        def tool() -> None:
            with watch.working("tool slow of session a"):
                release.wait(30)

        async def run_tool(me: Any) -> None:
            me.background(asyncio.to_thread(tool), name="tool")

        a, b = Recorder.start(system, name="session:a"), Recorder.start(system, name="session:b")
        await a.ask(run_tool, block=False)
        async with asyncio.timeout(10):
            assert await b.ask("ping", block=False) == "pong"
            assert await a.ask(Note(), block=False) == Note()
        release.set()


async def test_a_loop_that_turns_raises_no_alarm(system: ActorSystem) -> None:
    alarm = Alarm()
    watch = LoopWatch(system, tick_s=0.001, blocked_s=600, on_blocked=alarm)
    watch.start()
    while not watch._lags:
        await asyncio.sleep(0)
    watch.close()
    assert alarm.heard == []
    assert watch.lag_s < 600
