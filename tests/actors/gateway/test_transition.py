"""The front desk's rules, read as sentences."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from actors.gateway.access import AccessBook, AccessLedger
from actors.gateway.commands import COMMANDS, Parsed, parse
from actors.gateway.gating import Gate
from actors.gateway.transition import (
    LONGEST_TEXT,
    Decision,
    Knowledge,
    ToAccess,
    ToSession,
    TurnedAway,
    decide,
)
from messages.access import (
    AllowPlace,
    AllowUser,
    AnyWish,
    ApprovePairing,
    ChooseForChat,
    ChooseHome,
    ClaimTried,
    RevokePlace,
    RevokeUser,
    ShowAccess,
    ShowPending,
    StrangerKnocked,
    WishSpoken,
)
from messages.gateway import Author, ChatType, MessageReceived, Origin, Role
from messages.ids import SessionKey
from messages.model import ModelRef
from messages.session import CommandGiven, StopAsked, UserSpoke
from messages.settings import BusyPolicy, PlatformSettings
from tests.actors.session.sentences import heard

ONE = ModelRef(provider="fake", name="one")


def resolve(text: str) -> ModelRef:
    if text == "fake/one":
        return ONE
    raise ValueError(f"no model {text!r}; known: fake/one")


DESK = Knowledge(
    resolve_model=resolve,
    models=lambda: (ONE,),
    process_info=lambda: "**Up**: 3 days",
    platforms_info=lambda: "- **discord**: connected",
)
OWNERS = {"discord": PlatformSettings.model_validate({"access": {"owners": ["ann"]}})}
KEY = SessionKey("agent:main:discord:main:dm:ann")


def decided(said: MessageReceived) -> Decision:
    gate = Gate(AccessLedger(AccessBook.of_settings(OWNERS)), frozenset({"web"}))
    return decide(said, KEY, gate, DESK)


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
    decision = decided(heard("m1", text))
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
    assert isinstance(decided(nothing), TurnedAway)


def test_what_is_longer_than_any_model_can_read_is_turned_away() -> None:
    assert isinstance(decided(heard("m1", "x" * (LONGEST_TEXT + 1))), TurnedAway)
    assert isinstance(decided(heard("m1", "x" * LONGEST_TEXT)), ToSession)


def test_help_on_one_command_tells_of_that_one() -> None:
    told = say("/help queue")
    assert isinstance(told, CommandGiven)
    assert "`/queue" in told.info
    assert "`/steer" not in told.info


def test_the_desk_answers_what_it_knows_itself() -> None:
    me, connections = say("/whoami"), say("/platforms")
    assert isinstance(me, CommandGiven)
    assert all(word in me.info for word in ("`ann`", "owner", KEY))
    assert isinstance(connections, CommandGiven)
    assert connections.info == "- **discord**: connected"


@pytest.mark.parametrize(
    ("text", "wish"),
    [
        ("/access", ShowAccess(account="discord")),
        ("/access list", ShowAccess(account="discord")),
        ("/access pending", ShowPending(account="discord")),
        ("/access approve abcd efgh", ApprovePairing(account="discord", code="abcd efgh")),
        ("/access allow 42", AllowUser(account="discord", user="42")),
        ("/access block 42", RevokeUser(account="discord", user="42", block=True)),
        ("/access revoke 42", RevokeUser(account="discord", user="42")),
        ("/access role 42 owner", AllowUser(account="discord", user="42", role=Role.OWNER)),
        ("/access allow chat 900", AllowPlace(account="discord", what="chat", place="900")),
        ("/access allow chat here", AllowPlace(account="discord", what="chat", place="ann")),
        ("/access revoke server s1", RevokePlace(account="discord", what="server", place="s1")),
        ("/access allow chat thread", None),
        ("/access chat free 900:1", ChooseForChat(account="discord", place="900:1", value="free")),
        ("/sethome", ChooseHome(account="discord", place="ann")),
        ("/sethome none", ChooseHome(account="discord", place="")),
        ("/access dance", None),
        ("/access allow", None),
        ("/access allow *", None),
        ("/access allow two people", None),
        ("/access role 42 king", None),
        ("/access chat loud", None),
        ("/access chat free a:b:c", None),
        ("/access allow server here", None),
    ],
)
def test_wishes_about_access_go_to_the_access_room(text: str, wish: AnyWish | None) -> None:
    decision = decided(heard("m1", text))
    assert isinstance(decision, ToAccess)
    spoken = decision.message
    assert isinstance(spoken, WishSpoken)
    assert spoken.wish == wish
    assert bool(spoken.problem) is (wish is None)
    assert spoken.heard.author.role is Role.OWNER


def test_a_surface_of_ours_has_no_access_rules_to_change() -> None:
    web = Origin(platform="web", chat_type=ChatType.DM, chat="main")
    for text in ("/access list", "/sethome"):
        decision = decided(heard("m1", text, origin=web))
        assert isinstance(decision, ToSession)
        assert isinstance(decision.message, CommandGiven)
        assert "callboard access" in decision.message.info


def test_strangers_and_claims_go_to_the_access_room() -> None:
    stranger = Origin(platform="discord", chat_type=ChatType.DM, chat="x", user="x")
    unknown = heard("m1", "hello", origin=stranger)
    unknown = unknown.model_copy(update={"author": Author(id="x")})
    knocked, claimed = decided(unknown), decided(unknown.model_copy(update={"text": "/claim ABCD-EFGH"}))
    assert isinstance(knocked, ToAccess)
    assert isinstance(knocked.message, StrangerKnocked)
    assert isinstance(claimed, ToAccess)
    assert isinstance(claimed.message, ClaimTried)
    assert (claimed.message.code, claimed.message.known) == ("ABCD-EFGH", False)


WORDS = st.sampled_from(
    ["allow", "revoke", "block", "role", "chat", "server", "here", "thread", "free", "default", "approve", "admin", "*",
     "900", "a:b:c", "%", ":", "\ud800", "\u202e", "list", "pending", "x" * 600]
)  # fmt: skip


@given(st.lists(WORDS, max_size=6).map(" ".join) | st.text(max_size=40), st.sampled_from(list(ChatType)))
def test_whatever_stands_after_access_is_a_wish_or_is_told_to_be_none(argument: str, kind: ChatType) -> None:
    place = Origin(platform="discord", chat_type=kind, chat="900", thread="1", user="ann")
    said = heard("m1", f"/access {argument}", origin=place).model_copy(update={"mentions_us": True})
    decision = decided(said)
    assert isinstance(decision, ToAccess)
    assert isinstance(decision.message, WishSpoken)
    assert (decision.message.wish is None) is bool(decision.message.problem)
