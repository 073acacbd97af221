"""One place, one key, and back again."""

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from actors.gateway.session_key import KeyParts, SessionKeyError, build, key_of, parse, parts_of
from messages.gateway import ChatType, Origin

WORDS = st.text(alphabet="a:/%\\ @é", min_size=1, max_size=6)


@st.composite
def key_parts(draw: st.DrawFn) -> KeyParts:
    chat_type = draw(st.sampled_from(list(ChatType)))
    thread = draw(WORDS) if chat_type is ChatType.THREAD else None
    chat = draw(st.none() | WORDS)
    user: str | None = None
    if chat is None:
        user = draw(WORDS)
    elif chat_type is not ChatType.DM:
        user = draw(st.none() | WORDS)
    profile, platform, account = draw(WORDS), draw(WORDS), draw(WORDS)
    return KeyParts(profile, platform, account, chat_type, chat, thread, user)


@given(key_parts(), key_parts())
def test_R01_different_places_never_share_a_key_and_a_key_parses_back(a: KeyParts, b: KeyParts) -> None:
    assert parse(build(a)) == a
    assert (build(a) == build(b)) == (a == b)


def test_R01_the_separator_inside_an_id_is_not_a_separator() -> None:
    def group(chat: str, user: str) -> Origin:
        return Origin(platform="matrix", chat_type=ChatType.GROUP, chat=chat, user=user)

    assert key_of(group("a:b", "c")) != key_of(group("a", "b:c"))
    assert parse(key_of(group("a:b", "c"))) == parts_of(group("a:b", "c"))


@pytest.mark.parametrize("empty", [None, ""])
def test_R03_a_direct_message_without_a_chat_goes_by_its_user(empty: str | None) -> None:
    def dm(user: str | None, chat: str | None = empty) -> Origin:
        return Origin(platform="telegram", chat_type=ChatType.DM, chat=chat, user=user)

    keys = [key_of(dm("u1")), key_of(dm("u2")), key_of(dm("u3", "u1")), key_of(dm("u3", "@u1"))]
    assert len(set(keys)) == len(keys)
    with pytest.raises(SessionKeyError, match="neither a chat id nor a user id"):
        key_of(dm(empty))


@pytest.mark.parametrize(
    "origin",
    [
        Origin(platform="x", chat_type=ChatType.GROUP, user="u"),
        Origin(platform="x", chat_type=ChatType.THREAD, chat="c"),
        Origin(platform="x", chat_type=ChatType.THREAD, thread="t"),
        Origin(platform="", chat_type=ChatType.DM, chat="c"),
        Origin(platform="x", chat_type=ChatType.DM, chat="c" * 600),
    ],
)
def test_a_place_that_names_nobody_has_no_session(origin: Origin) -> None:
    with pytest.raises(SessionKeyError):
        key_of(origin)


def test_groups_are_per_participant_and_threads_are_shared() -> None:
    def origin(kind: ChatType, user: str) -> Origin:
        thread = "t" if kind is ChatType.THREAD else None
        return Origin(platform="x", chat_type=kind, chat="c", thread=thread, user=user)

    assert key_of(origin(ChatType.GROUP, "ann")) != key_of(origin(ChatType.GROUP, "bob"))
    assert key_of(origin(ChatType.GROUP, "ann"), shared=True) == key_of(
        origin(ChatType.GROUP, "bob"), shared=True
    )
    assert key_of(origin(ChatType.THREAD, "ann")) == key_of(origin(ChatType.THREAD, "bob"))


@pytest.mark.parametrize(
    "text",
    ["", "agent", "agent:a:b:c:dm", "agent:a:b:c:party:x", "agent:a:b:c:dm:x:y", "agent:a:b:c:thread:x",
     "agent:a:b:c:group:x:y:z", "agent:a:b:c:dm:a%2fb", "other:a:b:c:dm:x"],
)  # fmt: skip
def test_what_is_no_key_is_refused(text: str) -> None:
    with pytest.raises(SessionKeyError, match="not a session key"):
        parse(text)


def test_nothing_but_one_spelling_of_a_key_is_a_key() -> None:
    keys = [build(KeyParts("m", "p", "a", ChatType.DM, c)) for c in ("a/b", "a%2Fb", "a%2fb", "A/b")]
    assert len(set(keys)) == len(keys)
    assert all(a == b or parse(a) != parse(b) for a, b in itertools.product(keys, keys))
