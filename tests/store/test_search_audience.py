"""Who may see what: the whole rule as a table."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from actors.gateway.session_key import key_of
from messages.gateway import ChatType, Origin
from messages.ids import SessionKey
from store.search_audience import heard_by, may_see


def dm(chat: str | None, user: str | None, platform: str = "discord", **more: str) -> Origin:
    return Origin(platform=platform, chat_type=ChatType.DM, chat=chat, user=user, **more)


def group(chat: str, user: str | None = None, platform: str = "discord", **more: str) -> Origin:
    return Origin(platform=platform, chat_type=ChatType.GROUP, chat=chat, user=user, **more)


def thread(chat: str, thread: str, user: str | None = None) -> Origin:
    return Origin(platform="discord", chat_type=ChatType.THREAD, chat=chat, thread=thread, user=user)


YES, NO = True, False

TABLE = [
    ("its own session", dm("c1", "ann"), dm("c1", "ann"), YES),
    ("its own group session", group("g1", "ann"), group("g1", "ann"), YES),
    ("its own thread", thread("g1", "t1", "ann"), thread("g1", "t1", "ben"), YES),
    ("one's other direct messages", dm("c1", "ann"), dm("c2", "ann"), YES),
    ("one's direct messages that are keyed by the person", dm("c1", "ann"), dm(None, "ann"), YES),
    ("another's direct messages", dm("c1", "ann"), dm("c3", "ben"), NO),
    ("one's namesake on another platform", dm("c1", "ann"), dm("c1", "ann", "slack"), NO),
    ("direct messages to another account", dm("c1", "ann"), dm("c2", "ann", account="two"), NO),
    ("direct messages to another profile", dm("c1", "ann"), dm("c2", "ann", profile="two"), NO),
    ("direct messages of nobody known, from nobody known", dm("c1", None), dm("c2", None), NO),
    ("direct messages of nobody known", dm("c1", "ann"), dm("c2", None), NO),
    ("a chat named like the person", dm("c1", "ann"), dm("ann", None), NO),
    ("one's group, from direct messages", dm("c1", "ann"), group("g1", "ann"), NO),
    ("one's direct messages, from a group", group("g1", "ann"), dm("c1", "ann"), NO),
    ("another's direct messages, from a group", group("g1", "ann"), dm("c3", "ben"), NO),
    ("another's session in the same group", group("g1", "ann"), group("g1", "ben"), YES),
    ("the shared session of the same group", group("g1", "ann"), group("g1"), YES),
    ("another group", group("g1", "ann"), group("g2", "ann"), NO),
    ("a group of that name elsewhere", group("g1", "ann"), group("g1", "ann", "slack"), NO),
    ("the same group through another account", group("g1", "ann"), group("g1", "ann", account="two"), NO),
    ("a thread, from its group", group("g1", "ann"), thread("g1", "t1", "ann"), NO),
    ("the group, from a thread", thread("g1", "t1", "ann"), group("g1", "ann"), NO),
    ("another thread", thread("g1", "t1", "ann"), thread("g1", "t2", "ann"), NO),
    ("one's direct messages, from a thread", thread("g1", "t1", "ann"), dm("c1", "ann"), NO),
    ("the operator's other web chat", dm("main", None, "web"), dm("work", None, "web"), YES),
    ("the operator's other terminal chat", dm("a", None, "terminal"), dm("b", None, "terminal"), YES),
    ("the operator's terminal chat, from the web", dm("a", None, "web"), dm("b", None, "terminal"), NO),
    ("a named person's web chat, from the operator's", dm("a", None, "web"), dm("b", "ann", "web"), NO),
    ("the operator's web chat, from a named person's", dm("a", "ann", "web"), dm("b", None, "web"), NO),
    ("another session of the API", dm("a", None, "api"), dm("b", None, "api"), NO),
    ("the same session of the API", dm("a", None, "api"), dm("a", None, "api"), YES),
]


@pytest.mark.parametrize(("what", "asker", "said", "allowed"), TABLE, ids=[row[0] for row in TABLE])
def test_who_may_see_what(what: str, asker: Origin, said: Origin, allowed: bool) -> None:
    assert may_see(key_of(asker), asker, key_of(said), said.user) is allowed


def test_a_key_that_cannot_be_read_is_seen_from_itself_alone() -> None:
    odd = SessionKey("not a key")
    assert may_see(odd, dm("c", "ann"), odd, "ann")
    assert not may_see(odd, dm("c", "ann"), SessionKey("another"), "ann")


IDS = st.text(st.sampled_from("ab:1 @%2"), min_size=1, max_size=4)
ORIGINS = st.builds(
    Origin,
    platform=IDS,
    account=IDS,
    profile=IDS,
    chat_type=st.sampled_from([ChatType.DM, ChatType.GROUP]),
    chat=IDS,
    user=IDS,
)


@given(ORIGINS, ORIGINS)
def test_nothing_crosses_a_place_or_a_person_whatever_their_ids_hold(asker: Origin, said: Origin) -> None:
    if not may_see(key_of(asker), asker, key_of(said), said.user):
        return
    same_place = (asker.profile, asker.platform, asker.account, asker.chat_type) == (
        said.profile,
        said.platform,
        said.account,
        said.chat_type,
    )
    shared = asker.user == said.user or asker.chat == said.chat
    assert same_place
    assert shared


@given(ORIGINS)
def test_everybody_sees_their_own(origin: Origin) -> None:
    assert may_see(key_of(origin), origin, key_of(origin), origin.user)


def test_a_session_is_said_to_two_audiences_at_most() -> None:
    origin = dm("c1", "ann")
    assert len(heard_by(key_of(origin), "ann")) == 2
