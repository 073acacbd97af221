"""Stale is who says nothing, not who takes long; and whoever waits is told how long."""

import asyncio

import pytest

from actors.session import facts as f
from actors.session.heartbeat import EVERY_S
from actors.session.models.watch import SilenceError, Watch
from actors.session.quarantine import PATIENCE_S
from messages.gateway import ModelStatusChanged
from tests.fakes.clock import ManualClock
from tests.walks.stage import ANN, Stage
from tests.walks.tools import Bench


async def test_a_stream_that_trickles_for_an_hour_is_fine_and_its_silence_is_found_in_time() -> None:
    clock = ManualClock()
    ended: list[str] = []

    async def reading(watch: Watch) -> None:
        try:
            async with watch:
                await asyncio.Event().wait()
        except SilenceError as error:
            ended.append(str(error))

    watch = Watch(clock, first_s=300, silence_s=120)
    task = asyncio.create_task(reading(watch))
    await clock.settle()
    for _ in range(36):
        watch.heard(piece=True)
        await clock.advance(100)
    assert clock.monotonic() >= 3600
    assert not task.done()
    await clock.advance(21)
    assert task.done()
    assert ended == ["the stream was silent for 120 s"]


async def test_whoever_waits_for_a_silent_model_is_told_for_how_long() -> None:
    async with Stage() as stage:
        stage.models.will_hang("a bit")
        with stage.hub.watch(stage.key()) as watch:
            await stage.says("go")
            await stage.clock.advance(EVERY_S * 3 + 1)
            told = [e.text for e in watch.heard() if isinstance(e, ModelStatusChanged)]
        assert told == [f"waiting for the model for {EVERY_S * n:.0f} s" for n in (1, 2, 3)]
        assert stage.hub.longest_silence_s(stage.clock.monotonic()) == pytest.approx(EVERY_S * 3 + 1)
        await stage.presses_stop()
        assert stage.hub.longest_silence_s(stage.clock.monotonic()) == 0.0


async def test_C07_turns_that_were_there_at_several_deaths_are_taken_up_one_at_a_time() -> None:
    async with Stage() as stage:
        places = [ANN.model_copy(update={"chat": name, "user": name}) for name in ("ann", "bob", "eve")]
        for _ in range(7):
            stage.models.will_hang()
        for place in places:
            await stage.says("go", place)
        await stage.restart()
        assert len(stage.models.requests) == 6, "one death makes nobody suspect"
        await stage.restart()
        assert len(stage.models.requests) == 7, "after the second they are taken up one at a time"
        stage.models.will_hang()
        await stage.presses_stop(places[1])
        assert len(stage.models.requests) == 7, "a waiting one can be stopped"
        assert stage.state(places[1]) == "idle"
        await stage.presses_stop(places[0])
        assert len(stage.models.requests) == 8, "the next goes on when the first is over"
        stage.models.will_say("fresh")
        await stage.says("new", places[1])
        assert stage.platform.texts()[-1] == "fresh", "new turns wait for nobody"
        lives = [len(await stage.of_kind(f.TurnResumed, place)) for place in places]
        assert lives == [2, 1, 2]


async def test_C07_a_suspect_that_does_no_harm_for_a_while_lets_the_next_one_in() -> None:
    async with Stage() as stage:
        places = [ANN.model_copy(update={"chat": name, "user": name}) for name in ("ann", "bob")]
        for _ in range(6):
            stage.models.will_hang()
        for place in places:
            await stage.says("go", place)
        await stage.restart()
        await stage.restart()
        assert len(stage.models.requests) == 5
        await stage.clock.advance(PATIENCE_S + 1)
        assert len(stage.models.requests) == 6


async def test_a_dead_letter_names_the_turn_that_was_running_at_three_starts() -> None:
    async with Stage() as stage:
        stage.models.will_hang()
        await stage.says("poison")
        for _ in range(3):
            stage.models.will_hang()
            await stage.restart()
        (letter,) = await stage.of_kind(f.MessageGivenUp)
        assert letter.message_id == "m1"
        assert "3 starts" in letter.error
        (told,) = stage.platform.texts()
        assert "3 times" in told


@pytest.mark.parametrize("restarts", [1, 2])
async def test_a_session_that_crashes_while_it_is_taken_up_runs_no_tool_twice(restarts: int) -> None:
    """What ran when the process died did not survive it, also when the session then crashes on its own."""
    bench = Bench()
    async with Stage(tools=bench.specs()) as stage:
        stage.models.will_call("mark", name="a")
        await stage.says("go")
        assert bench.began == ["a"]
        stage.models.otherwise(lambda request: "I do not know whether it worked")
        for _ in range(restarts - 1):
            stage.journal.fuse(0)  # it dies again before it can note anything
            await stage.restart()
            stage.journal.mend()
        stage.journal.will_fail_next_append()
        await stage.restart()
        await stage.clock.advance(60)
        await stage.settle()
        assert bench.began == ["a"]
        assert stage.platform.texts() == ["I do not know whether it worked"]
        assert "outcome is unknown" in stage.requests()[-1]
