"""The front desk's rules, read as sentences."""

import pytest

from actors.gateway.commands import COMMANDS, Parsed, parse
from actors.gateway.transition import Knowledge, ToSession, TurnedAway, decide
from messages.gateway import ChatType, Origin
from messages.model import ModelRef
from messages.session import CommandGiven, StopAsked, UserSpoke
from messages.settings import BusyPolicy
from tests.actors.session.sentences import heard

ONE = ModelRef(provider="fake", name="one")


def resolve(text: str) -> ModelRef:
    if text == "fake/one":
        return ONE
    raise ValueError(f"no model {text!r}; known: fake/one")


DESK = Knowledge(resolve_model=resolve, models=lambda: (ONE,), process_info=lambda: "**Up**: 3 days")


@pytest.mark.parametrize(
    ("text", "parsed"),
    [
        ("/stop", Parsed("stop", "")),
        ("/Stop", Parsed("stop", "")),
        ("/stop@callboard_bot now", Parsed("stop", "now")),
        ("/queue one\ntwo", Parsed("queue", "one\ntwo")),
        ("/queue\none two", Parsed("queue", "one two")),
        ("/etc/hosts is a file", None),
        ("//", None),
        ("/", None),
        (" /stop", None),
        ("/2 or 3", None),
        ("stop", None),
    ],
)
def test_a_command_is_a_slash_and_a_word(text: str, parsed: Parsed | None) -> None:
    assert parse(text) == parsed


def say(text: str) -> UserSpoke | CommandGiven | StopAsked:
    decision = decide(heard("m1", text), DESK)
    assert isinstance(decision, ToSession)
    return decision.message


def test_what_people_say_goes_to_their_session() -> None:
    assert isinstance(say("hello"), UserSpoke)
    assert isinstance(say("/usr/bin is a path"), UserSpoke)


def test_stop_goes_before_everything_else() -> None:
    stop = say("/stop")
    assert isinstance(stop, StopAsked)
    assert stop.lane == "control"


@pytest.mark.parametrize("policy", [BusyPolicy.STEER, BusyPolicy.QUEUE])
def test_one_message_can_be_steered_or_queued(policy: BusyPolicy) -> None:
    spoke = say(f"/{policy} use metric units")
    assert isinstance(spoke, UserSpoke)
    assert (spoke.policy, spoke.heard.text) == (policy, "use metric units")
    assert isinstance(say(f"/{policy}"), CommandGiven)


def test_the_model_is_looked_up_before_the_session_hears_of_it() -> None:
    chosen, wrong, asked = say("/model fake/one"), say("/model nope"), say("/model")
    assert isinstance(chosen, CommandGiven)
    assert chosen.model == ONE
    assert isinstance(wrong, CommandGiven)
    assert wrong.model is None
    assert "known: fake/one" in wrong.info
    assert isinstance(asked, CommandGiven)
    assert "`fake/one`" in asked.info


def test_help_names_every_command() -> None:
    told = say("/help")
    assert isinstance(told, CommandGiven)
    assert all(f"- `/{command.name}" in told.info for command in COMMANDS)


@pytest.mark.parametrize("text", ["", "  \n "])
def test_nothing_said_is_turned_away(text: str) -> None:
    nothing = heard("m1").model_copy(update={"text": text})
    assert isinstance(decide(nothing, DESK), TurnedAway)


def test_R03_a_message_from_nobody_is_turned_away_with_the_reason() -> None:
    nobody = heard("m1", origin=Origin(platform="telegram", chat_type=ChatType.DM, chat="", user=None))
    decision = decide(nobody, DESK)
    assert isinstance(decision, TurnedAway)
    assert "neither a chat id nor a user id" in decision.why


def test_a_text_beyond_all_windows_is_turned_away() -> None:
    assert isinstance(decide(heard("m1", "x" * 2_000_001), DESK), TurnedAway)
