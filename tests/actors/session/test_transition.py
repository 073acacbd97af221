"""The session's transition table, read as sentences."""

from dataclasses import replace

import pytest

from actors.session import facts as f
from actors.session import words
from actors.session.decision import Rules
from actors.session.effects import (
    Acknowledge,
    AskConfirmation,
    AskModel,
    AskModelLater,
    CancelModel,
    CancelTools,
    Deliver,
    Effect,
    RunTool,
)
from actors.session.state import fold
from actors.session.transition import decide
from messages import session as m
from messages.blocks import ToolStatus
from messages.gateway import Acceptance, SayingFailed, SayingSucceeded
from messages.ids import CallId
from messages.model import FailureKind, StopReason
from messages.settings import BusyPolicy
from messages.tool import Permission
from tests.actors.session.sentences import (
    COLLECT,
    GROUP,
    INTERRUPT,
    OTHER,
    QUEUE,
    STEER,
    Story,
    answer,
    at,
    call,
    command,
    ended,
    failure,
    spoke,
    stop_button,
    woke,
    write,
)


def kinds(effects: tuple[Effect, ...]) -> list[str]:
    return [type(e).__name__ for e in effects]


# state            hears                          is then (running turn, waiting)   does
TABLE = [
    ("idle", [], spoke("m1"), (1, 0), ["Acknowledge", "AskModel"]),
    ("running, queue", [spoke("m1")], spoke("m2", policy=BusyPolicy.QUEUE), (1, 1), ["Acknowledge"]),
    ("running, collect", [spoke("m1")], spoke("m2", policy=BusyPolicy.COLLECT), (1, 1), ["Acknowledge"]),
    ("running, steer", [spoke("m1")], spoke("m2", policy=BusyPolicy.STEER), (1, 1), ["Acknowledge"]),
    (
        "running, interrupt",
        [spoke("m1")],
        spoke("m2"),
        (2, 0),
        ["Acknowledge", "CancelModel", "AskModel"],
    ),
    (
        "tools, interrupt",
        [spoke("m1"), answer(1, 1, "", call("a"))],
        spoke("m2"),
        (1, 1),
        ["Acknowledge", "CancelModel", "CancelTools"],
    ),
    ("heard before", [spoke("m1")], spoke("m1"), (1, 0), ["Acknowledge"]),
    ("model answers", [spoke("m1")], answer(1, 1, "hello"), (None, 0), ["Deliver"]),
    ("model calls a tool", [spoke("m1")], answer(1, 1, "", call("a")), (1, 0), ["RunTool"]),
    ("late answer", [spoke("m1"), answer(1, 1, "hello")], answer(1, 1, "again"), (None, 0), []),
    ("answer to no turn", [], answer(7, 1, "hello"), (None, 0), []),
    (
        "tool ends",
        [spoke("m1"), answer(1, 1, "", call("a"))],
        ended(1, "a"),
        (1, 0),
        ["AskModel"],
    ),
    ("tool of no turn ends", [spoke("m1")], ended(1, "a"), (1, 0), []),
    (
        "stop while the model is asked",
        [spoke("m1")],
        stop_button(),
        (None, 0),
        ["Deliver", "CancelModel"],
    ),
    (
        "stop while a tool runs",
        [spoke("m1"), answer(1, 1, "", call("a"))],
        stop_button(),
        (1, 0),
        ["Deliver", "CancelModel", "CancelTools"],
    ),
    ("stop when idle", [], stop_button(), (None, 0), []),
    (
        "rate limited",
        [spoke("m1")],
        failure(1, 1, FailureKind.RATE_LIMITED),
        (1, 0),
        ["TellStatus", "AskModelLater"],
    ),
    (
        "too long",
        [spoke("m1")],
        failure(1, 1, FailureKind.CONTEXT_OVERFLOW),
        (1, 0),
        ["TellStatus", "AskModel"],
    ),
    ("wrong key", [spoke("m1")], failure(1, 1, FailureKind.AUTH), (None, 0), ["Deliver"]),
    ("wakes with nothing to do", [], woke("l2"), (None, 0), []),
    ("wakes in a turn", [spoke("m1")], woke("l2"), (1, 0), ["AskModel"]),
]


@pytest.mark.parametrize(
    ("before", "heard", "then", "does"), [row[1:] for row in TABLE], ids=[row[0] for row in TABLE]
)
def test_the_table(
    before: list[m.Heard], heard: m.Heard, then: tuple[int | None, int], does: list[str]
) -> None:
    story = Story(INTERRUPT, *before).hears(heard)
    run = story.state.running
    assert (run.turn if run else None, len(story.state.waiting)) == then
    assert kinds(story.effects) == does


# ------------------------------------------------------------------ while busy


def test_queued_messages_are_turns_of_their_own_in_order() -> None:
    story = Story(QUEUE, spoke("m1"), spoke("m2"), spoke("m3"), answer(1, 1, "one"))
    assert story.does(AskModel) == [AskModel(2, 1, 1, None, tools=True, shrinks=0)]  # type: ignore[arg-type]
    story.hears(answer(2, 1, "two"), answer(3, 1, "three"))
    assert story.told() == ["one", "two", "three"]
    assert story.reads() == [
        "user: m1",
        "assistant: one",
        "user: m2",
        "assistant: two",
        "user: m3",
        "assistant: three",
    ]


def test_collected_messages_become_one_turn() -> None:
    story = Story(COLLECT, spoke("m1"), spoke("m2"), spoke("m3"), answer(1, 1, "one"))
    assert story.state.running is not None
    assert story.state.running.message_ids == ("m2", "m3")


def test_an_interrupt_starts_again_with_both_messages() -> None:
    story = Story(INTERRUPT, spoke("m1"), spoke("m2"))
    assert story.reads() == ["user: m1", "user: m2"]
    assert story.state.running is not None
    assert story.state.running.message_ids == ("m1", "m2"), "the first is answered with the second"
    story.hears(answer(1, 1, "late"), answer(2, 1, "both"))
    assert story.told() == ["both"]


def test_an_interrupt_waits_for_the_tools_to_be_gone() -> None:
    story = Story(INTERRUPT, spoke("m1"), answer(1, 1, "", write("a", "/w"), write("b", "/w")), spoke("m2"))
    assert story.state.running is not None
    assert story.state.running.stopping == "interrupted"
    story.hears(spoke("m3"))
    assert story.effects == (Acknowledge("m3", Acceptance.QUEUED),)  # type: ignore[arg-type]
    story.hears(ended(1, "a", "partial", ToolStatus.INTERRUPTED))
    assert story.state.running.turn == 2
    assert story.reads() == [
        "user: m1",
        "assistant: <tool_call> <tool_call>",
        "results: a=interrupted, b=skipped",
        "user: m2",
        "user: m3",
    ]


def test_a_message_for_the_queue_is_a_turn_of_its_own_even_where_messages_interrupt() -> None:
    story = Story(
        INTERRUPT, spoke("m1"), spoke("m2", policy=BusyPolicy.QUEUE), spoke("m3", policy=BusyPolicy.QUEUE)
    )
    story.hears(answer(1, 1, "one"))
    assert story.state.running is not None
    assert story.state.running.message_ids == ("m2",)


def test_steers_are_joined_after_the_tools() -> None:
    story = Story(STEER, spoke("m1"), answer(1, 1, "", call("a")), spoke("m2"), spoke("m3"), ended(1, "a"))
    assert story.reads()[-2:] == ["user: m2", "user: m3"]
    assert story.state.running is not None
    assert story.state.running.message_ids == ("m1", "m2", "m3")
    story.hears(answer(1, 2, "all"))
    assert story.told() == ["all"]


def test_a_full_queue_refuses_aloud() -> None:
    rules = Rules(busy_dm=BusyPolicy.QUEUE, queue_limit=2)
    story = Story(rules, spoke("m1"), spoke("m2"), spoke("m3"), spoke("m4"))
    assert story.effects == (Acknowledge("m4", Acceptance.REFUSED, words.QUEUE_FULL.format(waiting=2)),)  # type: ignore[arg-type]
    story.hears(answer(1, 1, "one"), spoke("m4"))
    assert story.effects[-1] == Acknowledge("m4", Acceptance.QUEUED)  # type: ignore[arg-type]


def test_groups_queue_by_default_and_names_are_quoted() -> None:
    story = Story(INTERRUPT, spoke("m1", "hi", origin=GROUP), spoke("m2", "ho", origin=GROUP))
    assert len(story.state.waiting) == 1
    assert story.reads() == ['user: [from "Ann" id ann]\nhi']


# ------------------------------------------------------------------ tools


def test_readers_run_together_and_writers_of_one_path_one_after_the_other() -> None:
    story = Story(
        QUEUE, spoke("m1"), answer(1, 1, "", call("a"), call("b"), write("c", "/w/x"), write("d", "/w/x"))
    )
    assert [e.call.call_id for e in story.does(RunTool)] == ["a", "b", "c"]  # type: ignore[attr-defined]
    story.hears(ended(1, "c"), ended(1, "a"), ended(1, "b"))
    assert [e.call.call_id for e in story.does(RunTool)] == ["d"]  # type: ignore[attr-defined]
    story.hears(ended(1, "d"))
    assert story.reads()[-1] == "results: a=ok, b=ok, c=ok, d=ok", "in call order, whatever came first"


def test_a_started_call_is_recorded_before_it_runs() -> None:
    story = Story(QUEUE, spoke("m1"), answer(1, 1, "", write("a", "/w")))
    assert isinstance(story.facts[-1], f.ToolCallStarted)
    assert story.does(RunTool)


def test_a_call_with_a_problem_goes_back_to_the_model() -> None:
    story = Story(QUEUE, spoke("m1"), answer(1, 1, "", call("a", problem="no such tool")))
    assert story.reads()[-1] == "results: a=refused"
    assert story.does(AskModel)


def test_a_write_nobody_can_confirm_is_refused_with_the_remedy() -> None:
    rules = replace(QUEUE, pulled=frozenset({"discord"}))
    story = Story(rules, spoke("m1"), answer(1, 1, "", write("a", "/w", permission=Permission.ASK)))
    assert not story.does(RunTool)
    results = story.state.entries[-1]
    assert results.role == "results"
    assert "tools.allow" in results.results[0].text


@pytest.mark.parametrize(("yes", "status"), [(True, "ok"), (False, "refused")])
def test_a_write_runs_after_a_yes_only(yes: bool, status: str) -> None:
    story = Story(
        QUEUE, spoke("m1", can_confirm=True), answer(1, 1, "", write("a", "/w", permission=Permission.ASK))
    )
    assert kinds(story.effects) == ["AskConfirmation"]
    given = m.ConfirmationGiven(call_id=CallId("a"), yes=yes, by="ann", at=at(5))
    story.hears(given)
    assert bool(story.does(RunTool)) is yes
    if yes:
        story.hears(ended(1, "a"))
    assert story.reads()[-1] == f"results: a={status}"
    assert decide(story.state, given, QUEUE).facts == (), "one click, one call"


def test_the_budget_ends_in_a_summary_not_in_silence() -> None:
    rules = Rules(model_calls=2)
    story = Story(rules, spoke("m1"), answer(1, 1, "", call("a")), ended(1, "a"), answer(1, 2, "", call("b")))
    story.hears(ended(1, "b"))
    assert story.does(AskModel) == [AskModel(1, 3, 1, None, tools=False, shrinks=0)]  # type: ignore[arg-type]
    assert "You have used all 2 model calls" in story.reads()[-1]
    story.hears(answer(1, 3, "what I found"))
    assert story.told() == ["what I found"]
    assert story.facts[-1].reason == "budget_spent"  # type: ignore[attr-defined]


# ------------------------------------------------------------------ the model's endings


def test_a_failed_call_is_tried_again_then_given_up_with_plain_words() -> None:
    rules = Rules(attempts=2)
    story = Story(rules, spoke("m1"), failure(1, 1, FailureKind.OVERLOADED))
    assert story.does(AskModelLater)
    story.hears(m.RetryDue(turn=1, call=1, attempt=2, at=at(9)))  # type: ignore[arg-type]
    assert story.does(AskModel) == [AskModel(1, 1, 2, None, tools=True, shrinks=0)]  # type: ignore[arg-type]
    story.hears(failure(1, 1, FailureKind.OVERLOADED, attempt=2))
    assert story.state.running is None
    assert len(story.told()) == 1


def test_a_late_retry_is_ignored_by_number() -> None:
    story = Story(
        Rules(attempts=3), spoke("m1"), failure(1, 1, FailureKind.OVERLOADED), stop_button(), spoke("m2")
    )
    story.hears(m.RetryDue(turn=1, call=1, attempt=2, at=at(9)))  # type: ignore[arg-type]
    assert story.effects == ()


def test_another_model_is_asked_when_the_first_cannot() -> None:
    rules = Rules(fallbacks=(OTHER,))
    story = Story(rules, spoke("m1"), failure(1, 1, FailureKind.BILLING))
    assert story.does(AskModel) == [AskModel(1, 1, 2, OTHER, tools=True, shrinks=0)]  # type: ignore[arg-type]
    story.hears(answer(1, 1, "hi"), spoke("m2"))
    assert story.does(AskModel) == [AskModel(2, 1, 1, None, tools=True, shrinks=0)]  # type: ignore[arg-type]


def test_a_cut_off_answer_is_said_to_be_one() -> None:
    story = Story(INTERRUPT, spoke("m1"), answer(1, 1, "half an ans", stop=StopReason.LENGTH))
    assert story.told() == ["half an ans" + words.CUT_MARK]


# ------------------------------------------------------------------ commands


def test_a_new_conversation_keeps_the_place_and_forgets_the_talk() -> None:
    story = Story(INTERRUPT, spoke("m1"), answer(1, 1, "one"))
    first = story.state.session_id
    story.hears(command("c1", "new"), spoke("m2"))
    assert story.state.session_id != first
    assert story.reads() == ["user: m2"]
    assert story.state.running is not None
    assert story.state.running.turn == 2


def test_new_says_which_waiting_messages_it_drops() -> None:
    story = Story(QUEUE, spoke("m1"), spoke("m2", "and the weather?"), command("c1", "new"))
    assert "and the weather?" in story.told()[-1]
    owed = [fact for fact in story.facts if isinstance(fact, f.ReplyOwed)][-1]
    assert set(owed.answers) == {"m1", "m2", "c1"}
    assert story.state.running is None


@pytest.mark.parametrize("policy", list(BusyPolicy))
def test_busy_is_chosen_by_command(policy: BusyPolicy) -> None:
    story = Story(QUEUE, command("c1", "busy", policy.value))
    assert story.state.policy is policy
    assert words.POLICY_DOES[policy] in story.told()[0]


def test_a_policy_that_does_not_exist_is_refused_with_the_choices() -> None:
    story = Story(QUEUE, command("c1", "busy", "louder"))
    assert story.state.policy is None
    assert "interrupt, queue, collect, steer" in story.told()[0]


def test_an_unknown_command_is_answered() -> None:
    assert "/help" in Story(QUEUE, command("c1", "dance")).told()[0]


def test_status_says_what_is_going_on() -> None:
    story = Story(QUEUE, spoke("m1"), answer(1, 1, "", call("a")), spoke("m2"), command("c1", "status"))
    assert "turn 1, running read_file" in story.told()[-1]
    assert "1 message(s)" in story.told()[-1]


# ------------------------------------------------------------------ waking and receipts


def test_a_receipt_settles_the_debt_once() -> None:
    story = Story(INTERRUPT, spoke("m1"), answer(1, 1, "hello"))
    owed = story.state.owed[0]
    receipt = SayingSucceeded(delivery_id=owed.delivery_id, receipt="p9", at=at(4))
    story.hears(receipt)
    assert story.state.owed == ()
    assert decide(story.state, receipt, INTERRUPT).facts == ()


def test_a_reply_that_the_platform_will_not_take_is_owed_no_more() -> None:
    story = Story(INTERRUPT, spoke("m1"), answer(1, 1, "hello"))
    failed = SayingFailed(delivery_id=story.state.owed[0].delivery_id, why="the chat is gone", at=at(4))
    story.hears(failed)
    assert not story.state.owing
    assert decide(story.state, failed, INTERRUPT).facts == ()


def test_a_reply_that_is_owed_is_delivered_again_after_waking() -> None:
    story = Story(INTERRUPT, spoke("m1"), answer(1, 1, "hello"))
    delivery = story.does(Deliver)
    assert story.hears(woke("l2")).effects == tuple(delivery)


def test_where_surfaces_read_the_journal_durable_is_delivered() -> None:
    rules = Rules(pulled=frozenset({"discord"}))
    story = Story(rules, spoke("m1"), answer(1, 1, "hello"))
    assert story.state.owed == ()
    assert not story.does(Deliver)


def test_a_tool_that_died_with_the_process_is_run_again_if_harmless_else_unknown() -> None:
    story = Story(QUEUE, spoke("m1"), answer(1, 1, "", call("a"), write("b", "/w")), woke("l2"))
    assert [e.call.call_id for e in story.does(RunTool)] == ["a"]  # type: ignore[attr-defined]
    story.hears(ended(1, "a"))
    assert story.reads()[-1] == "results: a=ok, b=unknown"


def test_a_tool_still_runs_when_only_the_actor_died() -> None:
    story = Story(QUEUE, spoke("m1"), answer(1, 1, "", write("b", "/w")), woke("l1", crashed=True))
    assert story.hears(ended(1, "b")).reads()[-1] == "results: b=ok"


def test_a_question_is_asked_again_after_waking() -> None:
    story = Story(
        QUEUE, spoke("m1", can_confirm=True), answer(1, 1, "", write("a", "/w", permission=Permission.ASK))
    )
    assert story.hears(woke("l2")).does(AskConfirmation)


def test_a_turn_that_outlives_three_lives_is_set_aside_and_said_so() -> None:
    story = Story(QUEUE, spoke("m1"), spoke("m2"), woke("l2"), woke("l3"), woke("l4"))
    assert "3 times" in story.told()[0]
    assert story.state.running is not None
    assert story.state.running.message_ids == ("m2",), "what waits goes on"


def test_a_stop_that_was_under_way_is_finished_after_waking() -> None:
    story = Story(QUEUE, spoke("m1"), answer(1, 1, "", write("a", "/w")), stop_button(), woke("l2"))
    assert story.state.running is None
    assert story.reads()[-1] == "results: a=unknown"


def test_a_message_that_crashed_us_twice_is_given_up_with_an_apology() -> None:
    bad = spoke("m9").heard
    story = Story(QUEUE, m.HandlingFailed(heard=bad, error="KeyError('x')", at=at(1)))
    assert story.told() == [words.APOLOGY]
    assert story.does(Acknowledge)
    assert story.hears(spoke("m9")).effects == (Acknowledge("m9", Acceptance.DUPLICATE),)  # type: ignore[arg-type]


def test_every_step_replays_to_the_same_state() -> None:
    story = Story(
        INTERRUPT,
        spoke("m1"),
        answer(1, 1, "", call("a"), write("b", "/w")),
        ended(1, "a"),
        spoke("m2"),
        ended(1, "b", status=ToolStatus.INTERRUPTED),
        command("c1", "busy", "queue"),
        answer(2, 1, "done"),
    )
    from actors.session.state import Session  # noqa: PLC0415

    assert fold(Session(key=story.state.key), story.facts) == story.state  # type: ignore[arg-type]


def test_stopping_tools_that_do_not_go_are_left_behind() -> None:
    story = Story(QUEUE, spoke("m1"), answer(1, 1, "", write("a", "/w")), stop_button(), spoke("m2"))
    assert story.hears(m.StopOverdue(turn=1, at=at(8))).does(AskModel)  # type: ignore[arg-type]
    assert kinds(Story(QUEUE, m.StopOverdue(turn=1, at=at(8))).effects) == []  # type: ignore[arg-type]
    assert CancelModel(1) not in story.effects  # type: ignore[arg-type]
    assert CancelTools(1) not in story.effects  # type: ignore[arg-type]
