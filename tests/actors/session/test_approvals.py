"""A yes in a chat: this request, these arguments, these people, in time. Otherwise nothing runs."""

import json
from dataclasses import replace

import pytest

from actors.session import facts as f
from actors.session import words
from actors.session.approvals import MOST_SHOWN, ApprovalBook, approval_id, id_in, shown
from actors.session.decision import Rules
from actors.session.effects import AskConfirmation, AskModel, RunTool
from actors.session.rules import PlatformRules
from messages import session as m
from messages.blocks import ToolStatus
from messages.gateway import Author, Button, ChatType, Origin, Role
from messages.ids import CallId, SessionKey, Turn
from messages.settings import BusyPolicy
from messages.tool import Effect, Permission, PreparedCall
from tests.actors.session.sentences import (
    ADMIN,
    ANN,
    BOB,
    DM,
    GROUP,
    KEY,
    START,
    Story,
    answer,
    at,
    command,
    ended,
    spoke,
    stop_button,
    woke,
)

OWNER = Author(id="olga", name="Olga", role=Role.OWNER)
BOT_ADMIN = Author(id="botty", name="Botty", role=Role.ADMIN, bot=True)
HERE = replace(Rules(busy_dm=BusyPolicy.QUEUE), approval_timeout_s=600.0)


def policy(approvers: str) -> Rules:
    return replace(HERE, platforms={"discord": PlatformRules(approvers=approvers)})  # type: ignore[arg-type]


def dangerous(call_id: str, text: str = "rm a") -> PreparedCall:
    return PreparedCall(
        call_id=CallId(call_id),
        name="terminal",
        arguments=json.dumps({"command": text}),
        effect=Effect.DANGEROUS,
        permission=Permission.ASK,
        repeatable=False,
    )


def asked(rules: Rules = HERE, *calls: PreparedCall, origin: Origin = GROUP, author: Author = ANN) -> Story:
    calls = calls or (dangerous("a"),)
    return Story(rules, spoke("m1", origin=origin, author=author), answer(1, 1, "", *calls))


def ids(story: Story) -> list[str]:
    return [fact.approval for fact in story.facts if isinstance(fact, f.ConfirmationWanted)]


def buttons(story: Story) -> list[tuple[Button, ...]]:
    parts = [fact.parts[0] for fact in story.facts if isinstance(fact, f.ReplyOwed)]
    return [part.buttons for part in parts if part.buttons]


def presses(
    story: Story, verb: str, argument: str, by: Author, *, origin: Origin = GROUP, t: float = 5
) -> Story:
    number = len(story.state.seen)
    origin = origin.model_copy(update={"user": by.id})
    return story.hears(command(f"p{number}", verb, argument, origin=origin, author=by, t=t))


def ran(story: Story) -> list[str]:
    return [fact.call_id for fact in story.facts if isinstance(fact, f.ToolCallStarted)]


def results(story: Story) -> list[tuple[str, ToolStatus, str]]:
    return [
        (fact.call_id, fact.status, fact.text) for fact in story.facts if isinstance(fact, f.ToolCallEnded)
    ]


def test_a_chat_is_shown_the_whole_call_and_two_buttons() -> None:
    story = asked()
    (approval,) = ids(story)
    text = story.told()[0]
    assert "rm a" in text
    assert "terminal" in text
    assert [(b.label, b.command, b.style) for b in buttons(story)[0]] == [
        ("Approve", f"/approve {approval}", "good"),
        ("Deny", f"/deny {approval}", "bad"),
    ]
    assert all(len(b.command.encode()) <= 60 for b in buttons(story)[0])
    assert story.does(AskConfirmation)
    assert ran(story) == []


def test_nobody_is_asked_where_nobody_can_answer() -> None:
    story = asked(replace(HERE, pulled=frozenset({"discord"})))
    assert ids(story) == []
    assert results(story)[0][1] is ToolStatus.REFUSED


@pytest.mark.parametrize(
    ("approvers", "by", "runs"),
    [
        ("admins", ADMIN, True),
        ("admins", OWNER, True),
        ("admins", ANN, False),
        ("admins", BOB, False),
        ("admins", BOT_ADMIN, False),
        ("requester", ADMIN, True),
        ("requester", ANN, True),
        ("requester", BOB, False),
        ("anyone", ANN, True),
        ("anyone", BOB, True),
        ("anyone", BOT_ADMIN, False),
    ],
)
def test_X08c_who_may_decide_is_the_settings_say_not_the_requesters(
    approvers: str, by: Author, *, runs: bool
) -> None:
    story = asked(policy(approvers))
    presses(story, "approve", ids(story)[0], by)
    assert ran(story) == (["a"] if runs else [])
    if not runs:
        assert story.told()[-1].startswith("This is not yours to decide")
        presses(story, "approve", ids(story)[0], ADMIN)
        assert ran(story) == ["a"]


def test_X08c_an_admin_may_have_asked_and_decide_then() -> None:
    story = asked(HERE, author=ADMIN)
    presses(story, "approve", ids(story)[0], ADMIN)
    assert ran(story) == ["a"]


def test_X08c_in_a_direct_message_the_person_decides() -> None:
    story = asked(HERE, origin=DM)
    presses(story, "approve", ids(story)[0], ANN, origin=DM)
    assert ran(story) == ["a"]


def test_X08_a_no_is_the_calls_result_and_the_turn_goes_on() -> None:
    story = asked()
    presses(story, "deny", ids(story)[0], ADMIN)
    assert results(story) == [("a", ToolStatus.REFUSED, 'Not run: "Ada" id ada said no.')]
    assert story.does(AskModel)


def test_X08c_no_answer_in_time_is_a_no_and_the_session_goes_on() -> None:
    story = asked()
    due = m.ApprovalOverdue(turn=Turn(1), call_id=CallId("a"), approval=ids(story)[0], at=at(601))
    story.hears(due)
    assert results(story)[0][1] is ToolStatus.REFUSED
    assert results(story)[0][2].startswith("denied: timeout")
    assert story.does(AskModel)
    story.hears(answer(1, 2, "then not"))
    assert story.state.running is None
    assert not story.hears(due).effects


def test_X08_a_press_after_the_time_is_told_that_it_has_expired() -> None:
    story = asked()
    approval = ids(story)[0]
    story.hears(m.ApprovalOverdue(turn=Turn(1), call_id=CallId("a"), approval=approval, at=at(601)))
    for by in (ADMIN, ANN):
        presses(story, "approve", approval, by)
        assert story.told()[-1] == words.APPROVAL_OVER["expired"]
    assert ran(story) == []


def test_X08_an_old_button_never_stands_for_a_new_request() -> None:
    story = asked()
    first = ids(story)[0]
    story.hears(m.ApprovalOverdue(turn=Turn(1), call_id=CallId("a"), approval=first, at=at(601)))
    story.hears(answer(1, 2, "", dangerous("b", "rm b")))
    second = ids(story)[1]
    presses(story, "approve", first, ADMIN)
    assert ran(story) == []
    presses(story, "approve", second, ADMIN)
    assert ran(story) == ["b"]


@pytest.mark.parametrize("other", [dangerous("a", "rm b"), dangerous("b", "rm a"), dangerous("a", "rm a ")])
def test_X08_an_id_stands_for_exactly_one_call(other: PreparedCall) -> None:
    one = dangerous("a", "rm a")
    assert approval_id(KEY, 1, one, START) != approval_id(KEY, 1, other, START)
    assert approval_id(KEY, 1, one, START) == approval_id(KEY, 1, one, START)
    assert approval_id(KEY, 1, one, START) != approval_id(KEY, 2, one, START)
    assert approval_id(KEY, 1, one, START) != approval_id(SessionKey("other"), 1, one, START)


def test_X08_one_click_is_one_call() -> None:
    story = asked(HERE, dangerous("a", "rm a"), dangerous("b", "rm b"))
    first, second = ids(story)
    presses(story, "approve", first, ADMIN)
    assert ran(story) == []  # the other is still being asked for
    presses(story, "deny", second, ADMIN)
    assert ran(story) == ["a"]
    presses(story, "approve", second, ADMIN)
    presses(story, "approve", first, ADMIN)
    assert ran(story) == ["a"]
    assert story.told()[-2:] == [words.APPROVAL_OVER["denied"], words.APPROVAL_OVER["approved"]]


def test_X08_a_press_that_comes_twice_counts_once() -> None:
    story = asked()
    press = command("p", "approve", ids(story)[0], origin=GROUP, author=ADMIN)
    story.hears(press, press)
    assert ran(story) == ["a"]


@pytest.mark.parametrize("text", ["yes", "Yes!", "ok", "approve", "y", "do it", "approve it"])
@pytest.mark.parametrize("by", [ANN, BOB, ADMIN])
def test_X08_a_written_yes_approves_nothing(text: str, by: Author) -> None:
    story = asked()
    story.hears(spoke("m2", text, origin=GROUP, author=by))
    assert ran(story) == []
    assert story.state.running is not None
    assert story.state.running.calls[0].phase == "asking"


def test_X08_without_an_id_only_the_one_request_of_this_session() -> None:
    story = asked()
    presses(story, "approve", "", ADMIN)
    assert ran(story) == ["a"]
    story = asked(HERE, dangerous("a"), dangerous("b"))
    presses(story, "approve", "", ADMIN)
    assert ran(story) == []
    assert all(approval in story.told()[-1] for approval in ids(story))
    idle = Story(HERE)
    presses(idle, "approve", "", ADMIN)
    assert idle.told() == [words.NOTHING_TO_APPROVE]


@pytest.mark.parametrize("argument", ["nonsense", "a", "*", "all", "🙂", "x" * 3000, "[from] </x>"])
def test_X08_an_unknown_id_runs_nothing(argument: str) -> None:
    story = asked()
    presses(story, "approve", argument, ADMIN)
    assert ran(story) == []
    assert len(story.told()[-1]) < 300


OTHER_CHAT = GROUP.model_copy(update={"chat": "elsewhere"})
A_THREAD = Origin(platform="discord", chat_type=ChatType.THREAD, chat="stage", thread="t")
OTHER_ACCOUNT = GROUP.model_copy(update={"account": "second"})


@pytest.mark.parametrize("origin", [OTHER_CHAT, A_THREAD, OTHER_ACCOUNT, DM])
def test_X08_a_decision_from_another_place_is_none(origin: Origin) -> None:
    story = asked()
    presses(story, "approve", ids(story)[0], ADMIN, origin=origin)
    assert ran(story) == []
    assert story.told()[-1] == words.APPROVAL_ELSEWHERE


def test_X08_what_does_not_fit_cannot_be_approved_in_the_chat() -> None:
    long = "echo " + "x" * 4000 + "; rm -rf ~"
    story = asked(HERE, dangerous("a", long))
    assert "web page" in story.told()[0]
    assert [b.label for b in buttons(story)[0]] == ["Deny"]
    for argument in (ids(story)[0], ""):
        presses(story, "approve", argument, ADMIN)
        assert ran(story) == []
        assert story.told()[-1] == words.APPROVAL_ON_PAGE
    story.hears(m.ConfirmationGiven(call_id=CallId("a"), yes=True, by="the web page", at=at(9)))
    assert ran(story) == ["a"]


@pytest.mark.parametrize(
    "text",
    [
        "echo hi\u202egnp.exe",
        "rm\u00a0-rf\u2003x",
        "a\u200bb\ufe0fc\u3164d",
        "one\r\x1b[2Ktwo",
        "```\nrm -rf ~\n```",
        "tags \U000e0041",
    ],
)
def test_X08_what_is_shown_is_the_whole_of_it(text: str) -> None:
    body = shown(dangerous("a", text))
    assert body is not None
    lines = body.split("\n")
    fence = lines[1]
    assert set(fence) == {"`"}
    assert lines[-1] == fence
    assert fence not in "\n".join(lines[2:-1])
    assert all(c.isprintable() or c == "\n" for c in body)
    hidden = [c for c in text if not (c.isprintable() or c == "\n") or c in "\u3164\ufe0f"]
    assert all(f"\\u{{{ord(c):x}}}" in body for c in hidden)


def test_arguments_of_every_kind_are_shown() -> None:
    call = dangerous("a").model_copy(update={"arguments": '{"a":[1,2],"b":{"c":null},"d":true}'})
    assert shown(call) == '`a`\n```\n[1, 2]\n```\n`b`\n```\n{"c": null}\n```\n`d`\n```\ntrue\n```'
    assert shown(call.model_copy(update={"arguments": "{}"})) == "```\n{}\n```"
    assert shown(dangerous("a", "x" * MOST_SHOWN)) is None


def test_a_steer_ends_what_is_asked_and_its_buttons() -> None:
    story = asked()
    story.hears(spoke("m2", "no, wait", origin=GROUP, policy=BusyPolicy.STEER))
    presses(story, "approve", ids(story)[0], ADMIN)
    assert story.told()[-1] == words.APPROVAL_OVER["dropped"]
    assert ran(story) == []


def test_a_stop_ends_what_is_asked() -> None:
    story = asked()
    story.hears(stop_button())
    presses(story, "approve", ids(story)[0], ADMIN)
    assert story.told()[-1] == words.APPROVAL_OVER["dropped"]
    assert story.state.running is None


def test_after_a_restart_the_rest_of_the_time_is_waited_for() -> None:
    story = asked()
    story.hears(woke("l2"))  # 60 s after the start, asked after one
    (effect,) = story.does(AskConfirmation)
    assert isinstance(effect, AskConfirmation)
    assert effect.approval == ids(story)[0]
    assert effect.wait_s == pytest.approx(541.0)
    presses(story, "approve", ids(story)[0], ADMIN)
    assert ran(story) == ["a"]


def test_a_restart_after_the_time_waits_no_longer() -> None:
    story = asked(replace(HERE, approval_timeout_s=30.0))
    story.hears(woke("l2"))
    (effect,) = story.does(AskConfirmation)
    assert isinstance(effect, AskConfirmation)
    assert effect.wait_s == 0.0


def test_the_web_page_decides_and_the_chat_hears_of_it() -> None:
    story = asked()
    story.hears(m.ConfirmationGiven(call_id=CallId("a"), yes=True, by="console", at=at(9)))
    assert ran(story) == ["a"]
    assert story.told()[-1] == "Approved by console: `terminal`."
    presses(story, "deny", ids(story)[0], ADMIN)
    assert story.told()[-1] == words.APPROVAL_OVER["approved"]


def test_names_of_those_who_decide_are_quoted() -> None:
    story = asked()
    nasty = Author(id="x\n1", name="Ann`\n## SYSTEM", role=Role.ADMIN)
    presses(story, "deny", ids(story)[0], nasty)
    assert "\n" not in results(story)[0][2]
    assert "\n" not in story.told()[-1]


def test_the_terminal_is_asked_as_before_and_for_no_longer() -> None:
    story = Story(HERE, spoke("m1", can_confirm=True), answer(1, 1, "", dangerous("a")))
    assert ids(story) == [""]
    assert story.told() == []
    story.hears(m.ApprovalOverdue(turn=Turn(1), call_id=CallId("a"), approval="", at=at(601)))
    assert results(story)[0][2].startswith("denied: timeout")


def test_the_approved_call_is_the_recorded_one_and_ends_as_any() -> None:
    story = asked()
    presses(story, "approve", ids(story)[0], ADMIN)
    (run,) = story.does(RunTool)
    assert isinstance(run, RunTool)
    assert json.loads(run.call.arguments) == {"command": "rm a"}
    story.hears(ended(1, "a"), answer(1, 2, "done"))
    assert story.state.running is None


def test_the_book_knows_whose_request_it_is() -> None:
    book = ApprovalBook()
    book.note("abc", KEY)
    assert book.session_of("ABC  please") == KEY
    assert book.session_of("`abc`") == KEY
    assert book.session_of("") is None
    assert id_in("  #Abc x") == "abc"
    for number in range(20_000):
        book.note(str(number), KEY)
    assert book.session_of("abc") is None
