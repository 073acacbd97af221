"""Translation alone: every shape of event, and shapes that no server should send."""

import copy
import random
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from actors.gateway.platforms.matrix.translate import (
    Counted,
    Media,
    Moved,
    Refusal,
    Room,
    Translated,
    Unreadable,
    Us,
    translate,
)
from messages.gateway import ChatType, MessageDeleted, MessageEdited, MessageReceived

US = Us("@bot:x.org", commands=frozenset({"stop", "new"}))
NAMES = {"@ann:x.org": "Ann", "@bot:x.org": "Call Board", "@bob:x.org": "Bob"}
ROOM = Room("!r:x.org", members=5, name="Lobby", name_of=lambda user: NAMES.get(user, ""))
NOW = datetime(2026, 1, 1, tzinfo=UTC)


def event(body: Any = "hello", **content: Any) -> dict[str, Any]:
    """Make an event; `sender` and `kind` apart, what is given is content."""
    sender, kind = content.pop("sender", "@ann:x.org"), content.pop("kind", "m.room.message")
    whole = {"msgtype": "m.text", "body": body, **content}
    return {
        "event_id": "$e1",
        "sender": sender,
        "type": kind,
        "content": whole,
        "origin_server_ts": 1_767_225_600_000,
    }


def said(raw: object, room: Room = ROOM) -> MessageReceived:
    found = translate(raw, room, US, NOW)
    assert isinstance(found, Translated), found
    assert isinstance(found.heard, MessageReceived)
    return found.heard


def pill(user: str, label: str) -> str:
    return f'<a href="https://matrix.to/#/{user}">{label}</a>'


@pytest.mark.parametrize(
    ("body", "text"),
    [
        ("Call Board: hello", "hello"),
        ("Call Board, hello", "hello"),
        ("@bot:x.org hello", "hello"),
        ("@bot hello", "hello"),
        ("bot: /stop", "/stop"),
        ("bottle of wine", "bottle of wine"),
        ("hello Call Board", "hello Call Board"),
        ("Call Board", ""),
    ],
)
def test_our_own_mention_at_the_start_is_left_out(body: str, text: str) -> None:
    heard = said(event(body, **{"m.mentions": {"user_ids": ["@bot:x.org"]}}))
    assert (heard.text, heard.mentions_us) == (text, True)


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        ({"m.mentions": {"user_ids": ["@bot:x.org"]}}, True),
        ({"m.mentions": {"room": True}}, False),
        ({"m.mentions": {}, "formatted_body": pill("@bot:x.org", "Call Board")}, False),
        ({"formatted_body": pill("@bot:x.org", "Call Board")}, True),
        ({"formatted_body": f"<mx-reply>{pill('@bot:x.org', 'Call Board')} x</mx-reply>hi"}, False),
        ({"m.mentions": {"user_ids": "@bot:x.org"}}, False),
        ({}, False),
    ],
)
def test_only_our_own_id_is_a_mention(content: dict[str, Any], expected: bool) -> None:
    assert said(event("Call Board: @room hi", **content)).mentions_us is expected


def test_others_are_written_with_an_at() -> None:
    rich = f"{pill('@ann:x.org', 'Ann')} and {pill('@bob:x.org', 'Bob')} and @{pill('@bob:x.org', 'Bob')}"
    heard = said(event("Ann and Bob and @Bob", formatted_body=rich))
    assert heard.text == "@Ann and @Bob and @Bob"


def test_the_prefix_makes_commands_of_known_words_alone() -> None:
    assert said(event("!stop")).text == "/stop"
    assert said(event("!new please")).text == "/new please"
    assert said(event("!important")).text == "!important"
    assert said(event("!")).text == "!"


def test_places() -> None:
    assert said(event(), Room("!r:x.org", members=2)).origin.chat_type is ChatType.DM
    thread: dict[str, Any] = {
        "rel_type": "m.thread",
        "event_id": "$root",
        "is_falling_back": True,
        "m.in_reply_to": {"event_id": "$z"},
    }
    heard = said(event(**{"m.relates_to": thread}))
    assert (heard.origin.chat_type, heard.origin.thread, heard.quote) == (ChatType.THREAD, "$root", None)
    real = said(event(**{"m.relates_to": {**thread, "is_falling_back": False}}))
    assert real.quote is not None
    assert real.quote.message_id == "$z"


def test_a_fallback_is_cut_and_a_quotation_of_ones_own_is_not() -> None:
    reply = {"m.relates_to": {"m.in_reply_to": {"event_id": "$z"}}}
    assert said(event("> <@bob:x.org> old\n> older\n\nnew\n> kept", **reply)).text == "new\n> kept"
    assert said(event("> <@bob:x.org> old\n\nnew")).text == "> <@bob:x.org> old\n\nnew"
    assert said(event("> wise words\n\nindeed", **reply)).text == "> wise words\n\nindeed"


def test_bots_notices_emotes_and_places() -> None:
    assert said(event("done", msgtype="m.notice")).author.bot
    assert said(event("waves", msgtype="m.emote")).text == "* Ann waves"
    assert said(event("geo", msgtype="m.location", geo_uri="geo:1,2")).text == "geo"


def test_files_and_captions() -> None:
    found = translate(
        event(
            "look",
            msgtype="m.image",
            filename="a.png",
            url="mxc://x.org/abc",
            info={"size": 3, "mimetype": "image/png"},
        ),
        ROOM,
        US,
        NOW,
    )
    assert isinstance(found, Translated)
    assert found.media == Media("mxc://x.org/abc", "a.png", "image/png", 3)
    assert said(event("a.png", msgtype="m.image", url="mxc://x.org/abc")).text == ""
    for url in ("https://x.org/abc", "mxc://x.org/../abc", "mxc://x.org/a/b", 7, None):
        assert isinstance(translate(event(msgtype="m.file", url=url), ROOM, US, NOW), Refusal)


def test_edits_deletions_moves_and_secrets() -> None:
    edit = event(
        "* x",
        **{
            "m.new_content": {"msgtype": "m.text", "body": "!stop"},
            "m.relates_to": {"rel_type": "m.replace", "event_id": "$o"},
        },
    )
    found = translate(edit, ROOM, US, NOW)
    assert isinstance(found, Translated)
    assert isinstance(found.heard, MessageEdited)
    assert (found.heard.message_id, found.heard.text) == ("$o", "/stop")
    for redaction in ({"redacts": "$o"}, {"content": {"redacts": "$o"}}):
        raw = {**event(kind="m.room.redaction"), "content": {}, **redaction}
        gone = translate(raw, ROOM, US, NOW)
        assert isinstance(gone, Translated)
        assert isinstance(gone.heard, MessageDeleted)
    tomb = {**event(kind="m.room.tombstone", replacement_room="!n:x.org"), "state_key": ""}
    assert translate(tomb, ROOM, US, NOW) == Moved("!r:x.org", "!n:x.org")
    assert translate(event(kind="m.room.encrypted"), ROOM, US, NOW) == Unreadable("$e1", "@ann:x.org")


def test_what_is_nobodys_message_is_nothing() -> None:
    assert translate(event(sender="@bot:x.org"), ROOM, US, NOW) is None
    assert translate(event(kind="m.reaction"), ROOM, US, NOW) is None
    assert translate({**event(), "state_key": ""}, ROOM, US, NOW) is None
    assert translate({**event(), "content": {}}, ROOM, US, NOW) is None
    assert translate(event(msgtype="m.key.verification.request"), ROOM, US, NOW) is None


SHAPES = [
    event(
        "hello",
        **{"m.mentions": {"user_ids": ["@bot:x.org"]}, "formatted_body": pill("@ann:x.org", "A&amp;B")},
    ),
    event("> <@a:b> x\n\ny", **{"m.relates_to": {"m.in_reply_to": {"event_id": "$z"}}}),
    event(
        msgtype="m.file",
        url="mxc://x.org/a",
        info={"size": 1, "mimetype": "a/b"},
        file={"url": "mxc://x.org/a", "key": {"k": "x"}},
    ),
    event(
        "* x",
        **{
            "m.new_content": {"msgtype": "m.text", "body": "y"},
            "m.relates_to": {"rel_type": "m.replace", "event_id": "$o"},
        },
    ),
    {**event(kind="m.room.redaction"), "redacts": "$x"},
    {**event(kind="m.room.tombstone", replacement_room="!n:x.org"), "state_key": ""},
]
ODD: list[Any] = [
    None, True, -1, 2**70, 1.5, float("nan"), "", "\ud800", "x" * 100_000, "\u202e\0\n", [], [[]], {}, {"a": {}},
    "<a " * 3000, "<mx-reply>" * 3000, "https://matrix.to/#/@a:b" * 3000, "@a:" * 20_000, "mxc://" + "a" * 300,
]  # fmt: skip


def mutated(chance: random.Random) -> Any:
    raw = copy.deepcopy(chance.choice(SHAPES))
    for _ in range(chance.randint(1, 4)):
        at: Any = raw
        while isinstance(at, dict) and at:
            key = chance.choice(list(at))
            if not isinstance(at[key], dict) or chance.random() < 0.4:
                if chance.random() < 0.2:
                    del at[key]
                else:
                    at[key] = chance.choice(ODD)
                break
            at = at[key]
    return raw


def test_no_payload_raises_and_refusals_do_not_pile_up() -> None:
    chance, counted = random.Random(7), Counted()
    for _ in range(5000):
        found = translate(mutated(chance), ROOM, US, NOW)
        if isinstance(found, Refusal):
            counted.add(found)
    assert 0 < sum(counted.refused.values()) < 5000
    assert len(counted.refused) <= 50


@settings(max_examples=200, deadline=None)
@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
        lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    )
)
def test_anything_at_all_is_translated_or_refused(raw: object) -> None:
    translate(raw, ROOM, US, NOW)
    translate({**event(), "content": raw}, ROOM, US, NOW)
