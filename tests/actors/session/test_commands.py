"""What the commands of a conversation do to what the model reads, and what people are told."""

from pathlib import Path

import pytest

from actors.gateway.commands import COMMANDS, MORE, help_on, help_text
from actors.session import facts as f
from actors.session import past, words
from actors.session.decision import Rules
from actors.session.effects import AskModel, StartSide, StopSide, TellMain
from actors.session.sides import MOST_SIDES, main_key, side_key
from actors.session.state import Session, fold
from actors.session.transition import decide
from messages import session as m
from messages.gateway import MessageReceived
from messages.ids import MessageId, SessionId
from messages.model import FailureKind, StopReason
from messages.settings import BusyPolicy
from tests.actors.session.sentences import (
    DM,
    GROUP,
    INTERRUPT,
    KEY,
    QUEUE,
    Story,
    answer,
    at,
    call,
    command,
    ended,
    failure,
    heard,
    spoke,
    stop_button,
    woke,
)


def talked(*texts: str, rules: Rules = QUEUE) -> Story:
    story = Story(rules)
    for number, text in enumerate(texts, 1):
        story.hears(spoke(f"m{number}", text), answer(number, 1, f"re {text}"))
    return story


# ------------------------------------------------------------------ retry


def test_retry_answers_the_last_message_again_without_the_old_answer() -> None:
    story = talked("a", "b").hears(command("r", "retry"))
    assert story.reads() == ["user: a", "assistant: re a", "user: b"]
    assert story.does(AskModel)
    story.hears(answer(3, 1, "better"))
    assert story.reads()[-1] == "assistant: better"
    assert story.told() == ["re a", "re b", "better"]
    owed = story.state.owed[-1]
    assert (owed.answers, owed.reply_to) == (("r",), "r")


def test_retry_again_and_again_answers_the_same() -> None:
    story = talked("a")
    for number in range(2, 6):
        story.hears(command(f"r{number}", "retry"), answer(number, 1, f"try {number}"))
    assert story.reads() == ["user: a", "assistant: try 5"]


def test_retry_keeps_what_was_added_while_it_ran_and_drops_tools_and_nudges() -> None:
    story = Story(QUEUE, spoke("m1", "a"), answer(1, 1, "", call("x")))
    story.hears(
        spoke("m2", "and b", policy=BusyPolicy.STEER), ended(1, "x"), answer(1, 2), answer(1, 3, "ok")
    )
    story.hears(command("r", "retry"))
    assert story.reads() == ["user: a", "user: and b"]


def test_retry_after_a_failure_answers_what_was_asked() -> None:
    story = Story(QUEUE, spoke("m1", "a"), failure(1, 1, FailureKind.AUTH)).hears(command("r", "retry"))
    assert story.reads() == ["user: a"]
    assert story.does(AskModel)


def test_retry_is_interrupted_like_any_turn_and_loses_nothing() -> None:
    story = talked("a", rules=INTERRUPT).hears(command("r", "retry"), spoke("m2", "b"), answer(3, 1, "both"))
    assert story.reads() == ["user: a", "user: b", "assistant: both"]
    assert story.state.owed[-1].answers == ("r", "m2")


def test_retry_goes_on_after_a_restart() -> None:
    story = talked("a").hears(command("r", "retry"), woke("l2"))
    assert story.does(AskModel)
    assert story.reads() == ["user: a"]


@pytest.mark.parametrize("name", ["retry", "undo", "compress"])
def test_what_changes_the_history_waits_for_the_running_turn(name: str) -> None:
    story = talked("a", "b", "c").hears(spoke("m4"), command("c", name))
    assert story.told()[-1] == words.BUSY_NOW_FIRST.format(name=name)
    assert story.state.running is not None
    assert story.state.running.turn == 4


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("retry", words.NOTHING_TO_RETRY),
        ("undo", words.NOTHING_TO_UNDO),
        ("compress", words.TOO_SHORT_TO_COMPRESS),
        ("title", words.NO_TITLE),
        ("sessions", words.NO_SESSIONS),
        ("resume", words.RESUME_WHAT),
        ("approve", words.NOTHING_TO_APPROVE),
        ("deny", words.NOTHING_TO_APPROVE),
        ("personality", words.NO_PERSONALITIES),
    ],
)
def test_in_an_empty_conversation_there_is_nothing_to_do(name: str, told: str) -> None:
    assert Story(QUEUE, command("c", name)).told() == [told]


# ------------------------------------------------------------------ undo


@pytest.mark.parametrize(
    ("argument", "left"),
    [
        ("", ["user: a", "assistant: re a", "user: b", "assistant: re b"]),
        ("1", ["user: a", "assistant: re a", "user: b", "assistant: re b"]),
        ("2", ["user: a", "assistant: re a"]),
        ("3", []),
        ("50", []),
    ],
)
def test_undo_takes_back_exchanges_from_the_end(argument: str, left: list[str]) -> None:
    story = talked("a", "b", "c").hears(command("u", "undo", argument))
    assert story.reads() == left
    assert len([x for x in story.facts if isinstance(x, f.ReplyOwed)]) == 4  # all stays in the history


@pytest.mark.parametrize("argument", ["0", "-1", "x", "1.5", "999999999", "²", "1 2", "10 ** 9"])
def test_undo_takes_a_number_only(argument: str) -> None:
    story = talked("a").hears(command("u", "undo", argument))
    assert story.reads() == ["user: a", "assistant: re a"]
    assert "/undo takes a number" in story.told()[-1]


def test_undo_is_one_exchange_for_an_interrupted_turn_and_its_answer() -> None:
    story = Story(INTERRUPT, spoke("m1", "a"), spoke("m2", "b"), answer(2, 1, "both"), command("u", "undo"))
    assert story.reads() == []


def test_after_undo_the_conversation_goes_on() -> None:
    story = talked("a", "b").hears(command("u", "undo"), spoke("m3", "c"), answer(3, 1, "re c"))
    assert story.reads() == ["user: a", "assistant: re a", "user: c", "assistant: re c"]
    story.hears(command("u2", "undo", "2"))
    assert story.reads() == []


# ------------------------------------------------------------------ title, personality


def test_a_title_is_the_first_words_until_somebody_chooses_one() -> None:
    story = talked("what is the\nweather today").hears(command("t", "title"))
    assert story.told()[-1] == words.TITLE_NOW.format(title='"what is the weather today"')
    story.hears(command("t2", "title", "Sun\u202e and\u2028 rain " + "x" * 500))
    assert story.state.title.startswith("Sun and rain x")
    assert len(story.state.title) == words.LONGEST_TITLE
    story.hears(command("n", "new"))
    assert story.state.shown_title == ""


def test_a_personality_speaks_from_the_next_turn_on() -> None:
    rules = Rules(busy_dm=BusyPolicy.QUEUE, personalities={"Pirate": "Arr.", "plain": "Be plain."})
    story = Story(rules, spoke("m1"), command("p", "personality", "pirate"))
    assert story.state.running is not None
    assert story.state.running.personality is None
    story.hears(answer(1, 1, "x"), spoke("m2"))
    (asked,) = story.does(AskModel)
    assert isinstance(asked, AskModel)
    assert asked.personality == "Pirate"
    story.hears(command("p2", "personality"), command("p3", "personality", "nobody"))
    assert "`Pirate`, `plain`" in story.told()[-1]
    story.hears(command("p4", "personality", "none"))
    assert story.state.personality is None


# ------------------------------------------------------------------ compress


def compressed(story: Story) -> Story:
    return story.hears(command("c", "compress"))


def test_a_summary_takes_the_place_of_the_older_part() -> None:
    story = compressed(talked("a", "b", "c", "d"))
    (asked,) = story.does(AskModel)
    assert isinstance(asked, AskModel)
    assert (asked.compress, asked.tools) == (4, False)
    story.hears(answer(5, 1, "a and b were said"))
    assert story.reads() == [
        "user: [system] The earlier part of this conversation, summed up:\n\na and b were said",
        "user: c",
        "assistant: re c",
        "user: d",
        "assistant: re d",
    ]
    assert story.state.running is None
    assert "summary" in story.told()[-1]
    story.hears(command("u", "undo", "9"))
    assert story.reads() == [
        "user: [system] The earlier part of this conversation, summed up:\n\na and b were said"
    ]


@pytest.mark.parametrize(
    "ending",
    [
        answer(5, 1, ""),
        answer(5, 1, "half a summ", stop=StopReason.LENGTH),
        answer(5, 1, "no", stop=StopReason.REFUSED),
        answer(5, 1, "so", call("x")),
        answer(5, 1, "(empty)"),
        failure(5, 1, FailureKind.AUTH),
        failure(5, 1, FailureKind.INVALID_REQUEST),
    ],
)
def test_a_summary_that_fails_leaves_all_as_it_was(ending: m.Heard) -> None:
    story = talked("a", "b", "c", "d")
    before = story.state.entries
    compressed(story).hears(ending)
    assert story.state.entries == before
    assert story.state.running is None
    assert story.state.owed[-1].answers == ("c",)
    assert not any(isinstance(x, f.ContextCompacted) for x in story.facts)


def test_what_is_said_meanwhile_waits_and_is_answered_after_it() -> None:
    story = compressed(talked("a", "b", "c", "d", rules=INTERRUPT)).hears(spoke("m9", "z"))
    assert len(story.state.waiting) == 1
    story.hears(answer(5, 1, "summary"), answer(6, 1, "re z"))
    assert story.reads()[-2:] == ["user: z", "assistant: re z"]


def test_a_summary_can_be_stopped_and_is_asked_for_again_after_a_restart() -> None:
    story = compressed(talked("a", "b", "c", "d"))
    before = story.state.entries
    story.hears(woke("l2"))
    (asked,) = story.does(AskModel)
    assert isinstance(asked, AskModel)
    assert asked.compress == 4
    story.hears(stop_button())
    assert story.state.running is None
    assert story.state.entries == before


def test_compressing_twice_sums_up_the_summary_too() -> None:
    story = compressed(talked("a", "b", "c", "d")).hears(answer(5, 1, "one"))
    story.hears(spoke("m5", "e"), answer(6, 1, "re e"), spoke("m6", "f"), answer(7, 1, "re f"))
    story.hears(command("c2", "compress"), answer(8, 1, "two"))
    assert [line for line in story.reads() if "summed up" in line] == [
        "user: [system] The earlier part of this conversation, summed up:\n\ntwo"
    ]
    assert story.reads()[1:] == ["user: e", "assistant: re e", "user: f", "assistant: re f"]


# ------------------------------------------------------------------ earlier conversations


def earlier(story: Story) -> tuple[m.EarlierConversation, ...]:
    return past.conversations(KEY, story.facts)  # type: ignore[arg-type]


def resume(story: Story, argument: str, message_id: str = "res") -> Story:
    given = command(message_id, "resume", argument).model_copy(update={"earlier": earlier(story)})
    found = past.find(given.earlier, argument)
    if not isinstance(found, str):
        entries = past.entries_of(KEY, story.facts, found.session_id)  # type: ignore[arg-type]
        given = given.model_copy(update={"entries": entries})
    return story.hears(given)


def test_earlier_conversations_are_listed_latest_first_and_without_the_open_one() -> None:
    story = talked("about cats", "more").hears(command("t", "title", "Cats"), command("n", "new"))
    story.hears(spoke("m8", "about dogs"), answer(3, 1, "woof"), command("n2", "new"), spoke("m9", "birds"))
    found = earlier(story)
    assert [(c.title, c.messages) for c in found] == [("birds", 1), ("about dogs", 1), ("Cats", 2)]
    story.hears(command("s", "sessions").model_copy(update={"earlier": found}))
    lines = story.told()[-1].split("\n")
    assert [line for line in lines if line.startswith("- ")] == [
        f'- `{found[1].session_id}` "about dogs", 1 message(s), last on 2026-01-05 12:00 UTC',
        f'- `{found[2].session_id}` "Cats", 2 message(s), last on 2026-01-05 12:00 UTC',
    ]


def test_resume_goes_on_with_what_the_model_knew_then() -> None:
    story = talked("about cats").hears(command("n", "new"), spoke("m8", "dogs"), answer(2, 1, "woof"))
    cats = earlier(story)[-1]
    resume(story, cats.session_id)
    assert story.reads() == ["user: about cats", "assistant: re about cats"]
    assert story.state.shown_title == "about cats"
    opened = [x for x in story.facts if isinstance(x, f.SessionOpened)]
    assert opened[-1].parent == opened[-2].session_id
    story.hears(spoke("m9", "and?"), answer(3, 1, "purr"))
    assert story.reads()[-2:] == ["user: and?", "assistant: purr"]
    assert fold(Session(key=KEY), story.facts).entries == story.state.entries  # type: ignore[arg-type]
    again = earlier(story)[0]
    assert (again.title, again.messages) == ("about cats", 1)
    resume(story, cats.session_id[-6:], "r2")
    assert story.reads() == ["user: about cats", "assistant: re about cats"]


def test_resume_knows_what_was_undone_and_summed_up_in_it() -> None:
    story = talked("a", "b").hears(command("u", "undo"), command("n", "new"), spoke("m8", "x"))
    story.hears(answer(3, 1, "y"))
    resume(story, earlier(story)[-1].session_id)
    assert story.reads() == ["user: a", "assistant: re a"]


@pytest.mark.parametrize("argument", ["nothing", "..", "%", "/etc/passwd", "20260105"])
def test_resume_of_what_is_not_here_changes_nothing(argument: str) -> None:
    story = talked("a").hears(command("n", "new"), spoke("m8", "b"), answer(2, 1, "re b"))
    before = story.state.session_id
    resume(story, argument)
    assert story.state.session_id == before
    assert story.reads() == ["user: b", "assistant: re b"]


def test_resume_waits_for_the_running_turn_and_leaves_the_open_conversation_open() -> None:
    story = talked("a").hears(command("n", "new"), spoke("m8", "b"))
    resume(story, earlier(story)[-1].session_id)
    assert story.told()[-1] == words.BUSY_NOW_FIRST.format(name="resume")
    story.hears(answer(2, 1, "re b"))
    assert story.state.session_id is not None
    resume(story, story.state.session_id, "r2")
    assert story.told()[-1] == words.RESUMED_THIS


def test_what_was_erased_cannot_be_resumed() -> None:
    story = talked("a").hears(m.ErasureAsked(at=at(5)))
    assert earlier(story) == ()
    gone = SessionId(str(next(x for x in story.facts if isinstance(x, f.SessionOpened)).session_id))
    assert past.entries_of(KEY, story.facts, gone) is None  # type: ignore[arg-type]


# ------------------------------------------------------------------ beside the conversation


def started(story: Story) -> list[MessageReceived]:
    return [x.heard for x in story.effects if isinstance(x, StartSide)]


def test_a_background_task_is_a_conversation_beside_this_one() -> None:
    story = Story(INTERRUPT, spoke("m1", "hi"), command("b", "background", "count\nall files", origin=DM))
    assert story.state.running is not None
    (said,) = started(story)
    assert (said.text, said.message_id) == ("count\nall files", "b")
    assert said.origin.side is not None
    assert said.origin.model_copy(update={"side": None}) == DM
    assert story.told()[-1] == words.SIDE_BEGAN.format(title='"count all files"')
    assert main_key(side_key(KEY, said.origin.side)) == KEY
    assert story.state.owing


def side_of(story: Story) -> tuple[MessageReceived, Story]:
    (said,) = started(story)
    assert said.origin.side is not None
    side = Story(INTERRUPT)
    side.state = Session(key=side_key(KEY, said.origin.side))
    return said, side.hears(m.UserSpoke(heard=said))


def test_its_result_comes_to_the_place_under_its_title_and_ends_it() -> None:
    story = Story(INTERRUPT, command("b", "background", "count files"))
    said, side = side_of(story)
    assert side.reads() == ["user: count files"]
    side.hears(answer(1, 1, "42"))
    assert side.told() == ['**Background "count files"**\n\n42']
    assert side.state.owed[0].origin.chat == DM.chat
    (done,) = side.does(TellMain)
    assert isinstance(done, TellMain)
    story.hears(m.SideEnded(side=done.side, at=done.at))
    assert story.state.sides == ()
    assert not story.state.owing or story.state.owed
    side.hears(m.UserSpoke(heard=said))  # after a restart the main conversation says it again
    assert side.does(TellMain)
    assert side.told() == ['**Background "count files"**\n\n42']


def test_stop_stops_what_is_beside_too() -> None:
    story = Story(INTERRUPT, command("b", "background", "count"))
    said, side = side_of(story)
    story.hears(m.StopAsked(heard=heard("s", "/stop"), at=at(3)))
    (stop,) = story.does(StopSide)
    assert isinstance(stop, StopSide)
    assert stop.side == said.origin.side
    assert "1 background task" in story.told()[-1]
    side.hears(m.StopAsked(at=stop.at))
    assert side.state.running is None
    assert side.does(TellMain)


def test_after_a_restart_a_side_is_begun_again_under_the_same_id() -> None:
    story = Story(INTERRUPT, command("b", "background", "count"))
    (said,) = started(story)
    story.hears(woke("l2"))
    assert started(story) == [said]


def test_a_side_that_is_deleted_or_was_done_already_is_told_of() -> None:
    story = Story(INTERRUPT, command("b", "background", "count"))
    _, side = side_of(story)
    side.hears(m.ErasureAsked(at=at(5)))
    assert side.does(TellMain)
    side.hears(m.StopAsked(at=at(6)))
    assert side.does(TellMain)
    assert not Story(INTERRUPT, m.StopAsked(at=at(6))).effects


def test_a_stale_side_says_how_it_is_begun_again() -> None:
    _, side = side_of(Story(INTERRUPT, command("b", "background", "count")))
    side.hears(m.Woke(life="l2", at=at(9 * 3600)))
    assert side.told()[0].startswith('**Background "count"**')
    assert "/background" in side.told()[0]
    assert side.does(TellMain)


def test_there_are_not_too_many_and_none_within_another() -> None:
    story = Story(INTERRUPT)
    for number in range(MOST_SIDES + 1):
        story.hears(command(f"b{number}", "background", f"task {number}"))
    assert len(story.state.sides) == MOST_SIDES
    assert "/stop" in story.told()[-1]
    _, side = side_of(Story(INTERRUPT, command("b", "background", "count")))
    assert side.state.origin is not None
    side.hears(command("x", "background", "more", origin=side.state.origin))
    assert side.state.sides == ()


def test_a_group_side_keeps_the_speakers_name() -> None:
    story = Story(INTERRUPT, command("b", "background", "count", origin=GROUP))
    _, side = side_of(story)
    assert side.reads() == ['user: [from "Ann" id ann]\ncount']


def test_a_late_end_of_a_side_is_nothing() -> None:
    assert decide(Session(key=KEY), m.SideEnded(side="x", at=at(1)), QUEUE).facts == ()


# ------------------------------------------------------------------ reports and help


def test_status_tells_of_all_that_goes_on() -> None:
    story = talked("a").hears(command("b", "background", "count"), command("s", "status"))
    text = story.told()[-1]
    assert "1 background task" in text
    assert '"a"' in text


def test_every_command_has_help() -> None:
    for known in COMMANDS:
        assert f"/{known.name}" in help_text()
        assert help_on(f"/{known.name.upper()}").startswith(f"`/{known.name}")
    assert set(MORE) <= {known.name for known in COMMANDS}
    assert help_on("dance") == help_text()
    assert help_on("undo").startswith("`/undo [N]`: Take back")


@pytest.mark.parametrize("name", [c.name for c in COMMANDS if c.name not in ("stop", "steer", "queue")])
def test_every_command_is_answered_exactly_once_and_never_twice(name: str) -> None:
    given = command("c", name, "x", info="as the desk says")
    story = Story(QUEUE, given, given)
    owed = [x for x in story.facts if isinstance(x, f.ReplyOwed)]
    assert [x.answers for x in owed] == [(MessageId("c"),)]


def test_the_page_of_commands_is_in_step_with_the_registry() -> None:
    page = (Path(__file__).parents[3] / "docs" / "commands.md").read_text("utf-8")
    for known in COMMANDS:
        usage = f"/{known.name}{' ' + known.argument if known.argument else ''}".replace("|", "\\|")
        assert f"| `{usage}` | {known.summary} | {known.role.value} |" in page
