"""The workshop: every call is answered once, whatever happens."""

# ruff: noqa: ASYNC240 small files, in a test

import asyncio
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from actors.runtime import ActorSystem
from actors.tool.actor import ToolActor
from actors.tool.catalogue import ToolSpec, spec_of, tool
from actors.tool.run import ToolError, ToolOutput, ToolRun
from messages.blocks import ToolStatus
from messages.ids import SessionKey, Turn
from messages.tool import CancelTools
from tests.actors.tool.shop import SESSION, Shop
from tests.fakes.clock import ManualClock


class Bench:
    """Tools that do what the test wants, and tell when they have begun."""

    def __init__(self) -> None:
        self.begun = asyncio.Event()
        self.release = threading.Event()
        self.runs = 0

    def specs(self) -> list[ToolSpec]:
        loop = asyncio.get_running_loop()

        @tool()
        async def wait(run: ToolRun) -> str:
            """Wait for ever."""
            run.add("so far\n")
            self.runs += 1
            self.begun.set()
            await asyncio.Event().wait()
            return "never"

        @tool()
        async def stubborn(run: ToolRun) -> str:
            """Does not end when it is told to."""
            self.begun.set()
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                await asyncio.to_thread(self.release.wait)
            return "late"

        @tool(timeout_s=5.0)
        def block(run: ToolRun) -> str:
            """Blocks a thread."""
            run.add("began\n")
            loop.call_soon_threadsafe(self.begun.set)
            self.release.wait()
            return "released"

        @tool()
        def fail(how: str) -> str:
            """Fails."""
            if how == "told":
                raise ToolError("It cannot be done.")
            if how == "exit":
                raise SystemExit(3)
            raise ZeroDivisionError("by zero")

        @tool()
        async def give(what: str, times: int = 1) -> str:
            """Give text."""
            return what * times

        @tool()
        def table() -> dict[str, int]:
            """Give a table."""
            return {"a": 1}

        @tool()
        def halves() -> str:
            """Give what UTF-8 cannot hold."""
            return "bad \udc9d name"

        @tool()
        def dig(run: ToolRun) -> ToolOutput:
            """Say how far it is."""
            run.say("half\nway")
            return ToolOutput("dug", ToolStatus.OK)

        return [
            found for f in (wait, stubborn, block, fail, give, table, halves, dig) if (found := spec_of(f))
        ]


@pytest.fixture
async def bench() -> Bench:
    return Bench()


@pytest.fixture
async def room(bench: Bench, workspace: Path, tmp_path: Path, system: ActorSystem) -> Shop:
    return Shop(system, workspace, tmp_path / "results", bench.specs())


async def test_a_call_tells_that_it_began_and_how_it_ended(room: Shop, clock: ManualClock) -> None:
    finished = await room.call("give", what="hello")
    assert (finished.status, finished.text, finished.kept_in) == (ToolStatus.OK, "hello", None)
    assert finished.began_at == finished.at == clock.now()
    assert [(p.phase, p.text) for p in room.progress] == [
        ("began", '{"what":"hello"}'),
        ("ended", "ok: hello"),
    ]
    assert not room.system.stats.crashes


@pytest.mark.parametrize(
    ("how", "text"),
    [("told", "It cannot be done."), ("exit", "3"), ("bug", "ZeroDivisionError: by zero")],
)
async def test_a_failure_is_a_result(room: Shop, how: str, text: str) -> None:
    finished = await room.call("fail", how=how)
    assert finished.status is ToolStatus.ERROR
    assert text in finished.text


async def test_values_become_json_and_text_that_cannot_be_sent_is_mended(room: Shop) -> None:
    assert (await room.call("table")).text == '{"a":1}'
    assert (await room.call("halves")).text == "bad \ufffd name"  # case L06: free text


async def test_progress_is_one_line(room: Shop) -> None:
    await room.call("dig")
    assert [p.text for p in room.progress if p.phase == "progress"] == ["half way"]


async def test_a_call_that_takes_too_long_gives_what_it_has(
    room: Shop, bench: Bench, clock: ManualClock
) -> None:
    call = room.start("wait")
    await bench.begun.wait()
    await clock.advance(119.9)
    assert room.answers == []
    await clock.advance(0.1)
    finished = await room.answer(call)
    assert finished.status is ToolStatus.TIMED_OUT
    assert finished.text == "so far\n\n[stopped: it took longer than 120 s]"
    assert (finished.at - finished.began_at).total_seconds() == 120


async def test_a_blocked_thread_is_left_and_counted_and_the_answer_given_at_once(
    room: Shop, bench: Bench, clock: ManualClock
) -> None:
    call = room.start("block")
    await bench.begun.wait()
    await clock.advance(5)
    finished = await room.answer(call)
    assert (finished.status, finished.text) == (
        ToolStatus.TIMED_OUT,
        "began\n\n[stopped: it took longer than 5 s]",
    )
    bench.release.set()


async def test_a_tool_that_left_too_many_threads_behind_is_not_started_again(
    room: Shop, bench: Bench, clock: ManualClock
) -> None:
    for _ in range(8):
        bench.begun.clear()
        call = room.start("block")
        await bench.begun.wait()
        await clock.advance(5)
        await room.answer(call)
    refused = await room.call("block")
    assert "8 calls that were given up but still run" in refused.text
    assert (await room.call("give", what="others work")).status is ToolStatus.OK
    bench.release.set()


async def test_C08_a_tool_that_blocks_holds_nobody_up(room: Shop, bench: Bench) -> None:
    blocked = room.start("block")
    await bench.begun.wait()
    before = time.perf_counter()
    other = room.start("give", session=SessionKey("agent:main:test:main:dm:2"), what="pong")
    assert (await room.answer(other)).text == "pong"
    assert time.perf_counter() - before < 1
    bench.release.set()
    assert (await room.answer(blocked)).text == "released"


class Sentry:
    """Watches who works, as the loop's watch does."""

    def __init__(self) -> None:
        self.seen: list[str] = []

    @contextmanager
    def working(self, name: str) -> Iterator[None]:
        self.seen.append(name)
        yield


async def test_C08_whoever_works_in_a_thread_is_known_by_tool_and_session(
    bench: Bench, workspace: Path, tmp_path: Path, system: ActorSystem
) -> None:
    sentry = Sentry()
    room = Shop(system, workspace, tmp_path / "results", bench.specs(), watch=sentry)
    await room.call("table")
    assert sentry.seen == [f"tool:table:{SESSION}"]


async def test_stopping_interrupts_only_the_calls_of_that_turn(room: Shop, bench: Bench) -> None:
    one = room.start("wait", turn=1)
    await bench.begun.wait()
    two = room.start("wait", turn=2)
    room.stop(turn=1)
    finished = await room.answer(one)
    assert (finished.status, finished.text) == (ToolStatus.INTERRUPTED, "so far\n\n[stopped before it ended]")
    assert [f.call_id for _, f in room.answers] == [one]
    room.stop(turn=2, call_ids=(one,))
    room.stop(turn=2, call_ids=(two,))
    assert (await room.answer(two)).status is ToolStatus.INTERRUPTED


async def test_a_stop_that_overtakes_its_call_still_counts(room: Shop, bench: Bench) -> None:
    room.ref.tell(CancelTools(session_key=SESSION, turn=Turn(3)))
    finished = await room.answer(room.start("wait", turn=3))
    assert finished.status is ToolStatus.SKIPPED
    assert bench.runs == 0
    assert (await room.answer(room.start("give", turn=4, what="on"))).status is ToolStatus.OK


async def test_a_tool_that_does_not_end_is_answered_for_within_two_seconds(
    room: Shop, bench: Bench, clock: ManualClock
) -> None:
    call = room.start("stubborn")
    await bench.begun.wait()
    room.stop()
    await clock.advance(2)
    finished = await room.answer(call)
    assert finished.status is ToolStatus.INTERRUPTED
    bench.release.set()


async def test_the_same_call_asked_for_twice_runs_once(room: Shop, bench: Bench, clock: ManualClock) -> None:
    call = room.prepare("wait")
    room.run(call)
    await bench.begun.wait()
    room.run(call)
    await clock.settle()
    room.stop()
    await room.answer(call.call_id)
    await clock.settle()
    assert (bench.runs, len(room.answers)) == (1, 1)


async def test_a_call_that_cannot_be_run_is_answered_all_the_same(room: Shop) -> None:
    refused = await room.answer(room.run(room.prepare("nothing")))
    assert refused.status is ToolStatus.REFUSED
    gone = room.prepare("give", what="x").model_copy(update={"name": "removed"})
    assert "no tool `removed` any more" in (await room.answer(room.run(gone))).text


async def test_a_crashed_actor_is_answered_for(room: Shop, bench: Bench, clock: ManualClock) -> None:
    call = room.start("wait")
    await bench.begun.wait()
    victim = next(ref for ref in room.system.live() if ref.actor_class is ToolActor)
    victim.tell("a message that it does not know")
    finished = await room.answer(call)
    assert finished.status is ToolStatus.ERROR
    assert "AssertionError" in finished.text


async def test_stopping_the_room_answers_for_what_runs(room: Shop, bench: Bench) -> None:
    call = room.start("wait")
    await bench.begun.wait()
    await room.ref.stop(block=False)
    assert (await room.answer(call)).status is ToolStatus.UNKNOWN
    assert len(room.answers) == 1


async def test_T08_a_result_over_its_budget_is_cut_and_kept_whole(room: Shop) -> None:
    finished = await room.call("give", what="ünïcödé\n", times=20_000)
    whole = "ünïcödé\n" * 20_000
    assert len(finished.text.encode()) <= 50_000
    assert finished.kept_in is not None
    kept = Path(finished.kept_in)
    assert kept.read_text() == whole
    assert kept.stat().st_mode & 0o777 == 0o600
    assert kept.is_relative_to(room.results)
    head, _, rest = finished.text.partition("\n\n[… ")
    note, _, tail = rest.partition("…]\n\n")
    assert whole.startswith(head)
    assert whole.endswith(tail)
    assert int(note.split(" bytes")[0].replace(",", "")) == len(whole.encode()) - len((head + tail).encode())
    assert (await room.call("read_file", path=str(kept), limit=1)).text.startswith("ünïcödé\n")


async def test_what_one_session_keeps_no_other_can_read(room: Shop) -> None:
    finished = await room.call("give", what="secret\n", times=20_000)
    other = SessionKey("agent:main:test:main:dm:2")
    answer = await room.answer(room.start("read_file", session=other, path=finished.kept_in))
    assert "outside the workspace" in answer.text


async def test_a_strange_call_id_names_no_strange_file(room: Shop) -> None:
    call = room.prepare("give", what="x", times=60_000).model_copy(
        update={"call_id": "../../../etc/\x00evil"}
    )
    finished = await room.answer(room.run(call))
    assert finished.kept_in is not None
    assert Path(finished.kept_in).resolve().is_relative_to(room.results)


@tool(isolation="process")
def compute(run: ToolRun, n: int) -> str:
    """Compute in a process of its own."""
    print("stray output is not the result")  # noqa: T201 tools of others print
    run.say("on my way")
    if n < 0:
        raise ValueError("negative")
    if n == 0:
        raise SystemExit
    return "x" * n


@tool(isolation="process")
def hog(run: ToolRun) -> str:
    """Hold the interpreter for ever, in C."""
    run.add("began\n")
    run.say("began")
    return str(sum(range(10**18)))


@pytest.mark.slow
async def test_C08_a_tool_in_its_own_process_can_be_killed_at_any_time(
    workspace: Path, tmp_path: Path, system: ActorSystem
) -> None:
    specs = [spec for f in (compute, hog) if (spec := spec_of(f))]
    room = Shop(system, workspace, tmp_path / "results", specs)
    assert (await room.call("compute", n=3)).text == "xxx"
    assert [p.text for p in room.progress if p.phase == "progress"] == ["on my way"]
    assert (await room.call("compute", n=-1)).text == "ValueError: negative"
    assert "without a result" in (await room.call("compute", n=0)).text
    large = await room.call("compute", n=60_000)
    assert large.kept_in is not None
    assert Path(large.kept_in).stat().st_size == 60_000
    call = room.start("hog")
    await room.said(call)
    room.stop()
    finished = await room.answer(call)
    assert (finished.status, finished.text) == (ToolStatus.INTERRUPTED, "began\n\n[stopped before it ended]")
