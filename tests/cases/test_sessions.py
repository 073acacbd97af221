"""What went wrong for people with sessions and turns, and must not here. Named after the reports."""

import json
import random
from dataclasses import replace

import pytest

from actors.session import facts as f
from actors.session import words
from actors.session.context import estimate, size
from actors.session.decision import Rules
from messages.blocks import ToolStatus
from messages.gateway import Acceptance, ChatType, Origin, Said
from messages.ids import StreamId
from messages.model import FailureKind, StopReason
from messages.settings import BusyPolicy, ToolSettings
from store.journal import JournalError, StaleWriterError
from tests.walks.stage import ANN, QUEUE, Stage
from tests.walks.tools import Bench

INTERRUPT = Rules(busy_dm=BusyPolicy.INTERRUPT)


async def test_R03_what_one_person_said_never_reaches_another_ones_model() -> None:
    async with Stage() as stage:
        stage.models.otherwise(lambda request: "noted")
        one = Origin(platform="discord", chat_type=ChatType.DM, chat=None, user="u1")
        two = Origin(platform="discord", chat_type=ChatType.DM, chat="", user="u2")
        await stage.says("my pin is 11", one)
        await stage.says("what is my pin?", two)
        assert "my pin is 11" not in stage.requests()[1]


async def test_R06_a_thread_under_a_huge_channel_starts_small() -> None:
    async with Stage() as stage:
        stage.models.has_window(200_000)
        stage.models.otherwise(lambda request: "hello")
        channel = Origin(platform="discord", chat_type=ChatType.GROUP, chat="c", user="ann")
        thread = Origin(platform="discord", chat_type=ChatType.THREAD, chat="c", thread="t", user="ann")
        for _ in range(4):
            await stage.says("x" * 1_000_000, channel)
        before = await stage.facts(channel)
        await stage.says("hi", thread)
        request = stage.models.requests[-1]
        assert len(request.entries) == 1
        assert await stage.facts(channel) == before
        for request in stage.models.requests:  # the channel's own requests fit as well
            assert sum(map(size, request.entries)) + estimate(request.system) <= 199_000
        assert stage.platform.texts().count("hello") == 5


async def test_R06_a_client_that_brings_a_huge_history_gets_an_answer() -> None:
    async with Stage() as stage:
        stage.models.has_window(8_000)
        stage.models.will_say("hello")
        said = tuple(Said(role="user" if n % 2 else "assistant", text=f"{n} " * 500) for n in range(200))
        message = stage.message("hi").model_copy(update={"context": said})
        stage.hands_in(message)
        await stage.settle()
        (request,) = stage.models.requests
        assert sum(map(size, request.entries)) <= 7_000
        assert stage.platform.texts() == ["hello"]


async def test_R13_a_restart_and_two_simultaneous_messages_find_the_one_stored_session() -> None:
    async with Stage() as stage:
        stage.models.otherwise(lambda request: "yes")
        await stage.says("one")
        await stage.says("two")
        await stage.restart()
        stage.hands_in(stage.message("three"))
        stage.hands_in(stage.message("four"))
        await stage.settle()
        assert len(await stage.of_kind(f.SessionOpened)) == 1
        assert stage.roster.awake == {stage.key()}
        assert [m.text for m in await stage.of_kind(f.MessageAccepted)] == ["one", "two", "three", "four"]
        assert stage.requests()[-1].count('"role":"user"') == 4


@pytest.mark.slow
async def test_C01_a_waiting_message_survives_a_crash_at_any_point() -> None:
    """1,000 random crash points: every accepted message is answered exactly once in the end."""
    async with Stage() as stage:
        stage.models.otherwise(lambda request: "done")
        chance = random.Random(1)
        for n in range(1000):
            origin = _person(n // 20)
            stage.journal.fuse(chance.randrange(5))
            stage.hands_in(stage.message(f"say {n}", origin))
            if chance.random() < 0.5:
                stage.hands_in(stage.message(f"and {n}", origin))
            await stage.clock.settle()
            if chance.random() < 0.1:
                await stage.restart()
            stage.journal.mend()
            await stage.clock.advance(60)
        await stage.settle()
        total = 0
        for n in range(50):
            facts = await stage.facts(_person(n))
            accepted = {x.message_id for x in facts if isinstance(x, f.MessageAccepted)}
            answered = [i for x in facts if isinstance(x, f.ReplyOwed) for i in x.answers if i in accepted]
            assert sorted(answered) == sorted(accepted), "each exactly once"
            assert stage.state(_person(n)) == "idle"
            total += len(accepted)
        assert total > 500


def _person(n: int) -> Origin:
    return Origin(platform="discord", chat_type=ChatType.DM, chat=f"p{n}", user=f"p{n}")


async def test_C03_new_during_a_turn_ends_it_and_its_late_answer_goes_nowhere() -> None:
    async with Stage() as stage:
        stage.models.will_hang()
        await stage.says("long question")
        await stage.says("/new")
        stage.models.will_say("hello yourself")
        await stage.says("hello")
        assert stage.models.cancelled == 1, "the connection was closed"
        assert stage.platform.texts() == [words.NEW, "hello yourself"]
        assert "long question" not in stage.requests()[-1]
        assert stage.state() == "idle"


async def test_C04_the_end_of_a_stopped_turn_never_frees_the_next_one() -> None:
    bench = Bench()
    async with Stage(tools=bench.specs()) as stage:
        stage.models.will_call("look", name="g1")
        await stage.says("first")
        await stage.presses_stop()
        stage.models.will_call("look", name="g2")
        await stage.says("second")
        await stage.until(lambda: "g2" in bench.began)
        bench.let("g1")  # the first turn's clean-up, late
        await stage.settle()
        receipt = await stage.says("third")
        assert receipt.acceptance is Acceptance.QUEUED
        assert stage.state() == "running"
        stage.models.will_say("second is done")
        stage.models.will_say("third is done")
        bench.let("g2")
        await stage.until(lambda: stage.state() == "idle")
        await stage.settle()
        assert stage.platform.texts() == [words.STOPPED, "second is done", "third is done"]


async def test_C06_a_turn_that_a_crash_interrupted_is_marked_and_goes_on() -> None:
    async with Stage() as stage:
        stage.models.will_hang()
        await stage.says("first")
        stage.models.will_say("first answer")
        stage.models.will_say("I am")
        await stage.restart()
        await stage.says("are you there?")
        assert stage.platform.texts() == ["first answer", "I am"]
        assert len(await stage.of_kind(f.TurnResumed)) == 1


async def test_C10_a_holder_that_was_overtaken_cannot_commit() -> None:
    async with Stage() as stage:
        stage.models.otherwise(lambda request: "yes")
        await stage.says("one")
        stream = StreamId(f"session:{stage.key()}")
        length = len(await stage.facts())
        foreign = f.PolicyChosen(policy=BusyPolicy.QUEUE, at=stage.clock.now())
        await stage.journal.append(stream, length, (foreign,))
        with pytest.raises(StaleWriterError):
            await stage.journal.append(stream, length, (foreign,))
        stage.hands_in(stage.message("two"))
        await stage.clock.advance(1)
        await stage.settle()
        roles = [
            type(x).__name__ for x in await stage.facts() if isinstance(x, f.MessageAccepted | f.ReplyOwed)
        ]
        assert roles == ["MessageAccepted", "ReplyOwed"] * 2, "strictly one after the other"
        assert any("another writer" in what for _, _, what in stage.incidents)


@pytest.mark.parametrize("tools_follow", [False, True])
async def test_C11_a_steer_in_the_last_model_call_becomes_the_next_turn_once(tools_follow: bool) -> None:
    bench = Bench()
    async with Stage(tools=bench.specs()) as stage:
        stage.models.will_hang()
        if tools_follow:
            stage.models.will_call("say", text="42")
        stage.models.will_say("about 3 miles")
        stage.models.will_say("5 km")
        await stage.says("how far?")
        receipt = await stage.says("/steer use metric units")
        assert receipt.acceptance is Acceptance.QUEUED
        stage.models.release()
        await stage.until(lambda: stage.state() == "idle")
        last = stage.requests()[-1 if not tools_follow else 1]
        assert last.count("use metric units") == 1
        settled = [i for fact in await stage.of_kind(f.ReplyOwed) for i in fact.answers]
        assert sorted(settled) == ["m1", "m2"]


async def test_C14_a_steer_skips_the_calls_that_have_not_started() -> None:
    bench = Bench()
    async with Stage(tools=bench.specs()) as stage:
        wanted: list[tuple[str, dict[str, object] | str]] = [("mark", {"name": n}) for n in "abcd"]
        calls = stage.models.will_call_all(*wanted)
        await stage.says("write four")
        await stage.until(lambda: bench.began == ["a"])
        await stage.says("/steer do not write anything else")
        stage.models.will_say("only a")
        bench.let("a")
        await stage.until(lambda: stage.state() == "idle")
        assert bench.marks == ["a"]
        entries = stage.models.requests[-1].entries
        results, steer = entries[-2], entries[-1]
        assert results.role == "results"
        assert [(r.call_id, r.status) for r in results.results] == [
            (calls[0], ToolStatus.OK),
            *((c, ToolStatus.SKIPPED) for c in calls[1:]),
        ]
        assert "do not write anything else" in steer.model_dump_json()


async def test_C15_a_queued_message_lets_the_tool_run_to_its_end() -> None:
    bench = Bench()
    async with Stage(tools=bench.specs()) as stage:
        stage.models.will_call("look", name="a")
        stage.models.will_say("one")
        stage.models.will_say("two")
        await stage.says("go")
        await stage.until(lambda: bench.began == ["a"])
        await stage.says("and then?")
        assert bench.cancelled == []
        bench.let("a")
        await stage.until(lambda: stage.state() == "idle")
        (ended,) = await stage.of_kind(f.ToolCallEnded)
        assert (ended.status, ended.text) == (ToolStatus.OK, "a is done")
        assert stage.platform.texts() == ["one", "two"]


async def test_C15_an_interrupting_message_ends_the_tool_and_the_result_says_so() -> None:
    bench = Bench()
    async with Stage(INTERRUPT, tools=bench.specs()) as stage:
        stage.models.will_call("look", name="a")
        stage.models.will_say("both")
        await stage.says("go")
        await stage.until(lambda: bench.began == ["a"])
        await stage.says("no, wait")
        await stage.until(lambda: stage.state() == "idle")
        (ended,) = await stage.of_kind(f.ToolCallEnded)
        assert ended.status is ToolStatus.INTERRUPTED
        assert bench.cancelled == ["a"]
        assert stage.platform.texts() == ["both"]


@pytest.mark.slow
async def test_C19_idle_sessions_leave_memory_and_the_running_one_stays() -> None:
    bench = Bench()
    async with Stage(tools=bench.specs(), sleep_after_s=1.0, most_awake=128) as stage:
        stage.models.will_call("look", name="long")
        await stage.says("work long")
        await stage.until(lambda: bench.began == ["long"])
        stage.models.otherwise(lambda request: "hi")

        for n in range(10_000):
            stage.hands_in(stage.message("hello", _person(n)))
            if n % 500 == 499:
                await stage.settle()
                await stage.clock.advance(0.3)
        await stage.settle()
        await stage.clock.advance(3)
        await stage.settle()
        assert len(stage.roster.awake) <= 129
        assert stage.key() in stage.roster.awake
        actors = [ref for ref in stage.system.live() if ref.actor_class.__name__ == "SessionActor"]
        assert len(actors) <= 129
        await stage.says("again", _person(0))
        assert stage.requests()[-1].count('"role":"user"') == 2, "it remembers"
        stage.models.will_say("long is done")
        bench.let("long")
        await stage.until(lambda: stage.state() == "idle")
        assert "long is done" in stage.platform.texts()


async def test_L01_after_an_interrupt_the_session_goes_on_by_itself() -> None:
    bench = Bench()
    async with Stage(tools=bench.specs()) as stage:
        stage.models.will_call_all(("say", {"text": "A"}), ("look", {"name": "B"}))
        await stage.says("go")
        await stage.until(lambda: bench.began == ["B"])
        await stage.presses_stop()
        await stage.until(lambda: stage.state() == "idle")
        stage.models.will_say("going on")
        await stage.says("go on")
        results = stage.models.requests[-1].entries[-2]
        assert results.role == "results"
        assert [r.status for r in results.results] == [ToolStatus.OK, ToolStatus.INTERRUPTED]
        assert stage.platform.texts()[-1] == "going on"


async def test_L06_a_lone_surrogate_in_a_tool_result_costs_nothing() -> None:
    bench = Bench()
    async with Stage(tools=bench.specs()) as stage:
        stage.models.will_call_all(("say", json.dumps({"text": "bad \udc9d name"})))
        for text in ("one", "two", "three"):
            stage.models.will_say(text)
        for text in ("go", "and \ud83d then", "again"):
            stage.hands_in(stage.message(text))
            await stage.until(lambda: stage.state() == "idle" and not stage.models.in_flight)
            await stage.settle()
        assert stage.platform.texts() == ["one", "two", "three"]
        for request in stage.requests():
            request.encode("utf-8")
        for fact in await stage.facts():
            fact.model_dump_json().encode("utf-8")


@pytest.mark.parametrize("arguments", ['{"name":"a","content":"line1\\nli', '{"name":"a"}'])
async def test_L08_calls_of_an_answer_that_was_cut_are_not_run(arguments: str) -> None:
    bench = Bench()
    async with Stage(tools=bench.specs()) as stage:
        for _ in range(2):
            stage.models.will_call_all(("mark", arguments), stop=StopReason.LENGTH)
        stage.models.will_say("too long for me")
        await stage.says("write")
        assert bench.began == []
        assert words.CALL_CUT.split(":", maxsplit=1)[0] in stage.requests()[1]
        assert stage.platform.texts() == ["too long for me"]


async def test_L08_a_model_that_is_cut_again_and_again_is_stopped() -> None:
    async with Stage(tools=Bench().specs()) as stage:
        for _ in range(3):
            stage.models.will_call_all(("mark", '{"name": "a"}'), stop=StopReason.LENGTH)
        await stage.says("write")
        assert stage.platform.texts() == [words.TOO_MANY_CUTS]
        assert len(stage.models.requests) == 3


@pytest.mark.parametrize("arguments", ['{}{"a":1}', "", '{"name":', "[1]", '{"name": NaN}'])
async def test_L08_arguments_that_are_not_one_object_go_back_as_an_error(arguments: str) -> None:
    bench = Bench()
    async with Stage(tools=bench.specs()) as stage:
        stage.models.will_call_all(("mark", arguments))
        stage.models.will_say("sorry")
        await stage.says("write")
        (ended,) = await stage.of_kind(f.ToolCallEnded)
        assert ended.status is ToolStatus.REFUSED
        assert bench.began == []


async def test_L08_no_arguments_are_enough_for_a_tool_that_needs_none() -> None:
    async with Stage(tools=Bench().specs()) as stage:
        stage.models.will_call_all(("say", ""))
        stage.models.will_say("ok")
        await stage.says("go")
        await stage.until(lambda: stage.state() == "idle")
        (ended,) = await stage.of_kind(f.ToolCallEnded)
        assert (ended.status, ended.text) == (ToolStatus.OK, "nothing")


@pytest.mark.parametrize("silence", ["", "   \n", "(empty)", "[no content]"])
async def test_L15_silence_is_nudged_once_and_never_shown(silence: str) -> None:
    async with Stage() as stage:
        stage.models.will_say(silence, thinking="hm")
        stage.models.will_say(silence)
        stage.models.will_say("fine")
        await stage.says("hello?")
        assert stage.platform.texts() == [words.EMPTY]
        assert len(stage.models.requests) == 2
        await stage.says("and now?")
        assert stage.platform.texts() == [words.EMPTY, "fine"]
        if silence.strip():
            assert all(silence not in request for request in stage.requests())
        assert words.EMPTY not in stage.requests()[-1], "a notice of ours is no answer of the model"


@pytest.mark.parametrize(
    ("stop", "text", "told", "reason"),
    [
        (StopReason.REFUSED, "", [words.DECLINED], "refused"),
        (StopReason.REFUSED, "I can't", ["I can't", words.DECLINED], "refused"),
        (StopReason.LENGTH, "half", ["half" + words.CUT_MARK], "truncated"),
        (StopReason.CONTEXT_FULL, "half", ["half" + words.CUT_MARK], "truncated"),
        (StopReason.OTHER, "fine", ["fine"], "answered"),
    ],
)
async def test_L17_every_stop_reason_ends_the_turn_as_what_it_is(
    stop: StopReason, text: str, told: list[str], reason: str
) -> None:
    async with Stage() as stage:
        stage.models.will_say(text, stop=stop, raw_stop="foo_bar")
        await stage.says("go")
        assert stage.platform.texts() == told
        (ended,) = await stage.of_kind(f.TurnEnded)
        assert ended.reason == reason
        (call,) = await stage.of_kind(f.ModelCallAnswered)
        assert call.raw_stop == "foo_bar"
        stage.models.will_say("still here")
        await stage.says("go on")
        assert stage.platform.texts()[-1] == "still here"


async def test_L17_a_paused_answer_is_asked_to_go_on_and_a_malformed_one_once_more() -> None:
    async with Stage() as stage:
        stage.models.will_say("part one", stop=StopReason.PAUSED)
        stage.models.will_say("part two")
        await stage.says("go")
        assert stage.requests()[1].endswith(
            'assistant: {"role":"assistant","blocks":[{"kind":"text","text":"part one"}]}'
        )
        stage.models.will_say("", stop=StopReason.MALFORMED)
        stage.models.will_say("", stop=StopReason.MALFORMED)
        await stage.says("go")
        assert stage.platform.texts() == ["part two", words.UNREADABLE]


async def test_L17_calls_are_run_whatever_the_reason_says() -> None:
    async with Stage(tools=Bench().specs()) as stage:
        stage.models.will_call_all(("say", {"text": "ran"}), stop=StopReason.OTHER)
        stage.models.will_say("ok")
        await stage.says("go")
        await stage.until(lambda: stage.state() == "idle")
        (ended,) = await stage.of_kind(f.ToolCallEnded)
        assert ended.text == "ran"


async def test_L18_a_cut_stream_is_tried_again_and_what_came_is_marked_when_given_up() -> None:
    async with Stage(Rules(attempts=2)) as stage:
        stage.models.will_fail(FailureKind.CUT, partial="half an ans")
        stage.models.will_fail(FailureKind.CUT, partial="half an ans")
        await stage.says("go")
        await stage.clock.advance(120)
        await stage.settle()
        (told,) = stage.platform.texts()
        assert told.startswith("half an ans" + words.CUT_MARK)
        assert len(stage.models.requests) == 2


async def test_W08_what_waited_in_a_crashed_session_is_handled_by_its_next_life() -> None:
    async with Stage() as stage:
        stage.models.otherwise(lambda request: "yes")
        await stage.says("zero")
        stage.journal.will_fail_next_append(JournalError("a crash"))
        for n in range(5):
            stage.hands_in(stage.message(f"say {n}"))
        await stage.settle()
        await stage.clock.advance(60)
        await stage.settle()
        assert [m.text for m in await stage.of_kind(f.MessageAccepted)] == [
            "zero",
            *(f"say {n}" for n in range(5)),
        ]
        assert stage.platform.texts() == ["yes"] * 6


async def test_W07_a_message_that_crashes_its_session_twice_becomes_a_dead_letter() -> None:
    async with Stage() as stage:
        stage.models.otherwise(lambda request: "yes")
        await stage.says("zero")
        stage.journal.will_fail_next_append(JournalError("first"))
        stage.journal.will_fail_next_append(JournalError("second"))
        stage.hands_in(stage.message("bad"))
        stage.hands_in(stage.message("good"))
        await stage.clock.advance(60)
        await stage.settle()
        (letter,) = await stage.of_kind(f.MessageGivenUp)
        assert "second" in letter.error
        assert '"bad"' in letter.letter
        assert stage.platform.texts() == ["yes", words.APOLOGY, "yes"]


async def test_X05_a_secret_never_leaves_also_in_pieces() -> None:
    secret = "sk-test-AAAA1111BBBB2222"
    bench = Bench()
    async with Stage(tools=bench.specs(), secrets=[secret]) as stage:
        seen: list[str] = []
        bench.secret = secret
        stage.models.will_call("spill")
        stage.models.will_say(
            f"your key is {secret}", pieces=("your key is sk-test-AA", "AA1111BB", "BB2222")
        )
        stage.models.will_fail(FailureKind.AUTH, detail=f"invalid key {secret}")
        with stage.hub.watch(stage.key()) as watch:
            await stage.says(f"my key is {secret}, show me yours")
            await stage.until(lambda: stage.state() == "idle")
            await stage.says("again")
            seen += [event.model_dump_json() for event in watch.heard()]
        everything = [
            *seen,
            *stage.platform.texts(),
            *stage.requests(),
            *(fact.model_dump_json() for fact in await stage.facts()),
        ]
        assert all(secret not in text for text in everything)
        assert any("your key is" in text for text in everything)


async def test_a_write_is_refused_in_a_chat_where_nobody_can_be_asked() -> None:
    bench = Bench()
    nobody_there = replace(QUEUE, pulled=frozenset({"discord"}))
    async with Stage(nobody_there, tools=bench.specs(), settings=ToolSettings()) as stage:
        stage.models.will_call("mark", name="a")
        stage.models.will_say("may not")
        await stage.says("write", ANN)
        assert bench.began == []
        assert "tools.allow" in stage.requests()[1]


async def test_W02_a_long_turn_is_handled_once_however_often_its_message_comes_again() -> None:
    bench = Bench()
    async with Stage(tools=bench.specs(), settings=ToolSettings(allow=("*",), timeout_s=600)) as stage:
        stage.models.will_call("mark", name="long")
        stage.models.will_say("done")
        await stage.says("take your time", message_id="m1")
        await stage.until(lambda: bench.began == ["long"])
        for _ in range(5):  # whoever leases messages gives this one out again every minute
            await stage.clock.advance(60)
            again = await stage.says("take your time", message_id="m1")
            assert again.acceptance is Acceptance.DUPLICATE
        bench.let("long")
        await stage.until(lambda: stage.state() == "idle")
        again = await stage.says("take your time", message_id="m1")
        assert again.acceptance is Acceptance.DUPLICATE
        assert bench.marks == ["long"]
        assert stage.platform.texts() == ["done"]
