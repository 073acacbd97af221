"""When a conversation begins anew by itself, and when an interrupted turn is too old to go on."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from pydantic import ValidationError

from actors.session import facts as f
from actors.session.decision import Rules
from actors.session.effects import AskModel
from actors.session.rules import PlatformRules, is_over, rules_from
from messages import session as m
from messages.gateway import ChatType, Origin
from messages.ids import Turn
from messages.settings import BusyPolicy, ResetByChatSettings, ResetSettings, Settings
from tests.actors.session.sentences import DM, GROUP, START, Story, answer, at, call, command, ended, spoke

HOUR = 3600.0
IDLE = ResetSettings(policy="idle", idle_minutes=60)
DAILY = ResetSettings(policy="daily", at_hour=4)
BOTH = ResetSettings(policy="both", idle_minutes=60, at_hour=4)


def utc(text: str) -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


@pytest.mark.parametrize(
    ("policy", "last", "now", "over"),
    [
        (IDLE, "2026-01-05T12:00", "2026-01-05T12:59:59", False),
        (IDLE, "2026-01-05T12:00", "2026-01-05T13:00:00", True),
        (DAILY, "2026-01-05T03:59", "2026-01-05T04:00", True),
        (DAILY, "2026-01-05T04:00", "2026-01-06T03:59", False),
        (DAILY, "2026-01-05T23:00", "2026-01-06T03:59", False),
        (DAILY, "2026-01-05T23:00", "2026-01-06T04:00", True),
        (DAILY, "2026-01-01T12:00", "2026-01-05T03:00", True),
        (BOTH, "2026-01-05T12:00", "2026-01-05T12:30", False),
        (BOTH, "2026-01-05T12:00", "2026-01-05T13:30", True),
        (BOTH, "2026-01-05T03:50", "2026-01-05T04:01", True),
        (ResetSettings(), "2020-01-01T00:00", "2026-01-05T12:00", False),
    ],
)
def test_a_policy_says_when_a_conversation_is_over(
    policy: ResetSettings, last: str, now: str, *, over: bool
) -> None:
    assert is_over(policy, utc(last), utc(now)) is over


BERLIN_2 = ResetSettings(policy="daily", at_hour=2, timezone="Europe/Berlin")


@pytest.mark.parametrize(
    ("last", "now", "over"),
    [
        # Winter: two in the night in Berlin is 01:00 UTC. Summer: 00:00 UTC.
        ("2026-01-05T00:30", "2026-01-05T00:59", False),
        ("2026-01-05T00:30", "2026-01-05T01:00", True),
        ("2026-07-05T23:59", "2026-07-06T00:00", True),
        # 29 March 2026: the hour from two to three does not exist.
        ("2026-03-29T00:30", "2026-03-29T00:59", False),
        ("2026-03-29T00:30", "2026-03-29T01:00", True),
        ("2026-03-29T01:30", "2026-03-29T23:59", False),
        ("2026-03-29T01:30", "2026-03-30T00:00", True),
        # 25 October 2026: the hour from two to three comes twice; the first counts.
        ("2026-10-24T23:30", "2026-10-25T00:00", True),
        ("2026-10-25T00:30", "2026-10-25T01:30", False),
        ("2026-10-25T00:30", "2026-10-26T00:59", False),
        ("2026-10-25T00:30", "2026-10-26T01:00", True),
    ],
)
def test_a_day_begins_by_the_clock_on_the_wall(last: str, now: str, *, over: bool) -> None:
    assert is_over(BERLIN_2, utc(last), utc(now)) is over


def test_a_zone_that_is_none_is_refused_in_the_settings() -> None:
    for name in ("Europe/Nowhere", "", "../etc/passwd", "Berlin"):
        with pytest.raises(ValidationError):
            ResetSettings(timezone=name)


RESETTING = Rules(busy_dm=BusyPolicy.QUEUE, reset=IDLE)


def opened(story: Story) -> list[f.SessionOpened]:
    return [fact for fact in story.facts if isinstance(fact, f.SessionOpened)]


def test_a_message_after_the_time_begins_a_new_conversation_and_says_so_once() -> None:
    story = Story(RESETTING, spoke("1"), answer(1, 1, "one"))
    story.hears(f_delivered(story), spoke("2", t=2 * HOUR))
    first, second = opened(story)
    assert second.parent == first.session_id
    assert story.reads() == ["user: 2"]
    notices = [t for t in story.told() if t.startswith("A new conversation begins")]
    (notice,) = notices
    assert "2026-01-05" in notice
    assert f"/resume {first.session_id} takes it up again" in notice
    story.hears(answer(2, 1, "two"))
    story.hears(f_delivered(story), spoke("3", t=2 * HOUR + 60))
    assert len(opened(story)) == 2
    owed = [x for x in story.facts if isinstance(x, f.ReplyOwed) and x.status == "reset"]
    assert owed[0].answers == ()


def f_delivered(story: Story) -> m.Heard:
    """Hear the receipt of the last reply that is owed; others are heard before it."""
    from messages.gateway import SayingSucceeded  # noqa: PLC0415 only here

    *rest, last = [
        SayingSucceeded(delivery_id=o.delivery_id, receipt="r", at=at(2)) for o in story.state.owed
    ]
    story.hears(*rest)
    return last


def test_a_new_conversation_keeps_what_was_chosen_for_the_place() -> None:
    rules = replace(RESETTING, personalities={"pirate": "Arr."})
    story = Story(rules, spoke("1"), answer(1, 1, "one"), command("c", "personality", "pirate"))
    story.hears(f_delivered(story), spoke("2", t=2 * HOUR))
    assert story.state.personality == "pirate"


def test_it_never_begins_while_something_is_going_on() -> None:
    running = Story(RESETTING, spoke("1"), spoke("2", t=2 * HOUR))
    assert len(opened(running)) == 1
    owed = Story(RESETTING, spoke("1"), answer(1, 1, "one"), spoke("2", t=2 * HOUR))
    assert owed.state.owed
    assert len(opened(owed)) == 1


def test_commands_belong_to_the_conversation_that_was() -> None:
    story = Story(RESETTING, spoke("1"), answer(1, 1, "one"))
    story.hears(f_delivered(story), command("c", "status", t=5 * HOUR))
    assert len(opened(story)) == 1


def test_a_conversation_in_which_nobody_spoke_is_not_replaced() -> None:
    story = Story(RESETTING, command("c", "status"))
    story.hears(f_delivered(story), spoke("1", t=5 * HOUR))
    assert len(opened(story)) == 1


def test_policies_differ_by_platform_and_chat() -> None:
    by_chat = ResetByChatSettings(dm=ResetSettings(), group=DAILY)
    rules = Rules(reset=IDLE, platforms={"discord": PlatformRules(reset=by_chat)})
    thread = GROUP.model_copy(update={"chat_type": ChatType.THREAD, "thread": "t"})
    other = Origin(platform="discord", account="second", chat_type=ChatType.GROUP, chat="c")
    assert rules.reset_for(DM).policy == "none"
    assert rules.reset_for(GROUP) == DAILY
    assert rules.reset_for(thread) == IDLE
    assert rules.reset_for(other) == IDLE


def test_the_settings_make_the_rules() -> None:
    settings = Settings.model_validate(
        {
            "session": {
                "reset": {"policy": "daily"},
                "personalities": {"a": "b"},
                "resume_within_minutes": 5,
            },
            "platforms": {
                "discord": {"access": {"approvers": "anyone"}},
                "discord/two": {"access": {"approvers": "requester"}, "reset": {"dm": {"policy": "idle"}}},
            },
        }
    )
    rules = rules_from(settings, fallbacks=(), pulled=frozenset({"web"}))
    two = DM.model_copy(update={"account": "two"})
    assert rules.at(DM).approvers == "anyone"
    assert rules.at(two).approvers == "requester"
    assert rules.at(two.model_copy(update={"platform": "slack"})).approvers == "admins"
    assert rules.reset_for(two).policy == "idle"
    assert rules.reset_for(DM).policy == "daily"
    assert rules.resume_within == timedelta(minutes=5)
    assert rules.approval_timeout_s == 600.0


# ------------------------------------------------------------------ after a restart


def woke_after(hours: float) -> m.Woke:
    return m.Woke(life="l2", at=at(hours * HOUR))


def test_a_fresh_turn_goes_on_after_a_restart() -> None:
    story = Story(Rules(), spoke("1"), woke_after(0.9))
    assert story.does(AskModel)


def test_a_stale_turn_is_not_resumed_but_offered() -> None:
    story = Story(Rules(), spoke("1", "the weather?"), woke_after(8))
    assert not story.does(AskModel)
    assert story.state.running is None
    (notice,) = story.told()
    assert "8 hours ago" in notice
    assert "/retry" in notice
    owed = story.state.owed[0]
    assert owed.answers == ("1",)
    assert owed.status == "stale"
    story.hears(command("r", "retry", t=9 * HOUR))
    assert story.does(AskModel)
    story.hears(answer(2, 1, "sunny"))
    assert story.reads() == ["user: the weather?", "assistant: sunny"]


def test_what_waited_behind_a_stale_turn_is_offered_with_it() -> None:
    story = Story(Rules(busy_dm=BusyPolicy.QUEUE), spoke("1"), spoke("2"), spoke("3"), woke_after(8))
    assert story.state.running is None
    assert story.state.waiting == ()
    assert story.state.owed[0].answers == ("1", "2", "3")
    story.hears(command("r", "retry", t=9 * HOUR), answer(2, 1, "all"))
    assert story.reads() == ["user: 1", "user: 2", "user: 3", "assistant: all"]


def test_a_stale_turn_with_tools_says_that_their_outcome_is_unknown() -> None:
    story = Story(
        Rules(), spoke("1"), answer(1, 1, "", call("a"), call("b", repeatable=False)), woke_after(8)
    )
    assert [x.status.value for x in story.facts if isinstance(x, f.ToolCallEnded)] == ["unknown", "unknown"]
    story.hears(ended(1, "a"))
    assert story.state.running is None
    story.hears(spoke("2", t=9 * HOUR))
    assert story.state.running is not None
    assert story.state.running.turn == Turn(2)


def test_a_crash_of_the_actor_alone_is_never_stale() -> None:
    story = Story(Rules(), spoke("1"), m.Woke(life="l1", crashed=True, at=at(50 * HOUR)))
    assert story.does(AskModel)


def test_how_fresh_is_a_setting() -> None:
    rules = Rules(resume_within=timedelta(days=2))
    assert Story(rules, spoke("1"), woke_after(8)).does(AskModel)
    assert START.tzinfo is UTC
