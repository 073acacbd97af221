"""One message through every room, without a network and without a sleep."""

import pytest

from actors.session import facts as f
from actors.session import words
from actors.session.decision import Rules
from messages import lifecycle as ev
from messages.gateway import Acceptance, ConfirmationAsked, DraftChanged, SessionStateChanged, TranscriptEntry
from messages.ids import CallId
from messages.model import FailureKind
from messages.settings import BusyPolicy, ToolSettings
from tests.walks.stage import QUEUE, Stage
from tests.walks.tools import Bench


async def test_a_message_walks_from_the_door_to_the_platform_and_back() -> None:
    async with Stage(tools=Bench().specs()) as stage:
        heard: list[str] = []

        async def listen(event: ev.LifecycleEvent) -> None:
            heard.append(getattr(event, "kind", ""))

        stage.lifecycle.subscribe("test", listen)
        stage.models.will_call("say", text="42")
        stage.models.will_say("It is 42.")
        receipt = await stage.says("What is it?")
        await stage.until(lambda: "processing_completed" in heard)
        assert receipt.acceptance is Acceptance.ACCEPTED
        assert stage.platform.texts() == ["It is 42."]
        assert stage.platform.said[0].reply_to == "m1"
        assert heard == [
            "message_heard",
            "processing_started",
            "agent_ran",
            "tool_began",
            "tool_ended",
            "agent_ran",
            "processing_completed",
            "response_sent",
        ]
        assert [type(x).__name__ for x in await stage.facts()] == [
            "SessionOpened",
            "MessageAccepted",
            "TurnBegan",
            "ModelCallAnswered",
            "ToolCallStarted",
            "ToolCallEnded",
            "ModelCallAnswered",
            "ReplyOwed",
            "TurnEnded",
            "ReplyDelivered",
        ]


async def test_a_watcher_sees_the_draft_grow_and_the_line_become_durable() -> None:
    async with Stage() as stage:
        stage.models.will_say("Hello there!", pieces=("Hello", " there!"))
        with stage.hub.watch(stage.key()) as watch:
            await stage.says("hi")
            seen = watch.heard()
        drafts = "".join(e.text for e in seen if isinstance(e, DraftChanged))
        lines = [(e.role, e.text) for e in seen if isinstance(e, TranscriptEntry)]
        states = [e.state for e in seen if isinstance(e, SessionStateChanged)]
        assert drafts == "Hello there!"
        assert lines == [("user", "hi"), ("assistant", "Hello there!")]
        assert (states[0], states[-1]) == ("running", "idle")


async def test_a_newcomer_is_told_the_whole_draft_and_what_is_asked() -> None:
    bench = Bench()
    async with Stage(tools=bench.specs(), settings=ToolSettings()) as stage:
        stage.models.will_hang("half an ans")
        stage.models.will_call("mark", name="x")
        message = stage.message("go").model_copy(update={"can_confirm": True})
        stage.hands_in(message)
        await stage.settle()
        state, events = stage.hub.now(stage.key())
        assert (state.state, state.message_ids) == ("running", ("m1",))
        assert [e.text for e in events if isinstance(e, DraftChanged)] == ["half an ans"]
        stage.models.release()
        await stage.settle()
        (asked,) = [e for e in stage.hub.now(stage.key())[1] if isinstance(e, ConfirmationAsked)]
        assert asked.name == "mark"
        stage.models.will_say("marked")
        bench.let("x")
        await stage.confirms(asked.call_id, yes=True)
        await stage.until(lambda: stage.state() == "idle")
        assert bench.marks == ["x"]
        assert stage.platform.texts() == ["marked"]


async def test_a_no_is_the_tools_result() -> None:
    bench = Bench()
    async with Stage(tools=bench.specs(), settings=ToolSettings()) as stage:
        call_id: CallId = stage.models.will_call("mark", name="x")
        stage.models.will_say("as you wish")
        stage.hands_in(stage.message("go").model_copy(update={"can_confirm": True}))
        await stage.settle()
        await stage.confirms(call_id, yes=False)
        assert bench.began == []
        assert stage.platform.texts() == ["as you wish"]


async def test_a_platform_that_gives_no_receipt_is_told_again_after_the_restart() -> None:
    async with Stage() as stage:
        stage.platform.receives = False
        stage.models.will_say("hello")
        await stage.says("hi")
        stage.platform.receives = True
        await stage.restart()
        assert [s.delivery_id for s in stage.platform.said] == [stage.platform.said[0].delivery_id] * 2
        assert len(await stage.of_kind(f.ReplyDelivered)) == 1
        await stage.restart()
        assert len(stage.platform.said) == 2, "what has a receipt is settled"


async def test_a_model_that_comes_back_is_waited_for() -> None:
    async with Stage(Rules(busy_dm=BusyPolicy.QUEUE, attempts=3)) as stage:
        stage.models.will_fail(FailureKind.OVERLOADED)
        stage.models.will_fail(FailureKind.RATE_LIMITED, retry_after_s=20)
        stage.models.will_say("here")
        await stage.says("hi")
        await stage.clock.advance(10)
        assert len(stage.models.requests) == 2
        await stage.clock.advance(60)
        assert stage.platform.texts() == ["here"]
        assert [x.failure.kind for x in await stage.of_kind(f.ModelCallFailed)] == [
            FailureKind.OVERLOADED,
            FailureKind.RATE_LIMITED,
        ]


async def test_no_model_is_said_with_how_to_connect_one() -> None:
    async with Stage() as stage:
        stage.models.has_model(None)
        await stage.says("hi")
        (told,) = stage.platform.texts()
        assert told
        assert (await stage.of_kind(f.TurnEnded))[0].reason == "failed"


async def test_too_long_a_conversation_is_sent_in_smaller_copies() -> None:
    async with Stage() as stage:
        stage.models.otherwise(lambda request: "ok")
        for n in range(6):
            await stage.says(f"{n} " + "word " * 4000)
        stage.models.will_fail(FailureKind.CONTEXT_OVERFLOW)
        stage.models.has_window(40_000)
        await stage.says("and now?")
        sizes = [len(r.model_dump_json()) for r in stage.models.requests[-2:]]
        assert sizes[1] < sizes[0]
        assert stage.platform.texts()[-1] == "ok"


async def test_a_sleeping_session_wakes_with_all_it_knew() -> None:
    async with Stage(QUEUE, sleep_after_s=60) as stage:
        stage.models.otherwise(lambda request: "yes")
        await stage.says("/busy collect")
        await stage.says("one")
        await stage.clock.advance(200)
        await stage.settle()
        assert stage.roster.awake == set()
        await stage.says("two")
        assert stage.requests()[-1].count('"role":"user"') == 2
        await stage.says("/busy")
        assert words.POLICY_DOES["collect"] in stage.platform.texts()[-1]


@pytest.mark.parametrize("text", ["/help", "/status", "/model", "/busy", "/dance", "/steer", "/stop"])
async def test_every_command_is_answered_once_also_when_it_comes_twice(text: str) -> None:
    async with Stage() as stage:
        first = await stage.says(text, message_id="c1")
        again = await stage.says(text, message_id="c1")
        assert (first.acceptance, again.acceptance) == (Acceptance.ACCEPTED, Acceptance.DUPLICATE)
        assert len(stage.platform.said) == 1
        assert stage.models.requests == []
