"""What an envelope means. Pure."""

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from actors.gateway.platforms.slack.envelopes import answerable, identity, is_bare_mention, needs
from actors.gateway.platforms.slack.translate import Heard, Refusal, translate
from actors.gateway.platforms.slack.wording import Names, clean_name, readable
from actors.gateway.session_key import key_of
from messages.gateway import ChatType, MessageDeleted, MessageEdited, MessageReceived
from tests.platforms.slack.shapes import (
    FILE,
    NAMES,
    PREVIOUS,
    READING,
    SHAPES,
    button,
    command,
    event,
    message,
)


def said(envelope: object, **reading: Any) -> MessageReceived:
    heard = translate(envelope, replace(READING, **reading), NAMES)
    assert isinstance(heard, Heard), heard
    assert isinstance(heard.message, MessageReceived)
    return heard.message


def test_every_recorded_shape_is_handed_in_or_refused_for_a_reason() -> None:
    refused = {r.why for raw in SHAPES if isinstance(r := translate(raw, READING, NAMES), Refusal)}
    assert refused == {"kind of message", "kind of event"}


def test_slacks_markup_is_made_readable() -> None:
    assert said(message()).text == "hello @Bob, see this (https://a.b/c) & #general @here then"


@pytest.mark.parametrize(
    ("raw", "seen"),
    [
        ("<@U0BOB>", "@Bob"),
        ("<@U0ZOE>", "@U0ZOE"),
        ("<@U0ZOE|zoe>", "@zoe"),
        ("<#C0001>", "#general"),
        ("<#C0009|other>", "#other"),
        ("<!channel> <!everyone>", "@channel @everyone"),
        ("<!subteam^S1|@devs> <!subteam^S2>", "@devs @S2"),
        ("<!date^1700000000^{date}|14 Nov>", "14 Nov"),
        ("<http://example.com|example.com>", "example.com"),
        ("<http://example.com>", "http://example.com"),
        ("<mailto:a@b.c|a@b.c>", "a@b.c"),
        ("<tel:+49|+49>", "+49"),
        ("1 &lt; 2 &amp;&amp; 3 &gt; 2", "1 < 2 && 3 > 2"),
        ("&amp;lt;", "&lt;"),
        ("&nbsp;", "&nbsp;"),
        ("a <> b <", "a <> b <"),
        ("<!unknown>", "<!unknown>"),
        ("<<@U0BOB>>", "<@Bob>"),
    ],
)
def test_marks(raw: str, seen: str) -> None:
    assert readable(raw, NAMES) == seen


def test_our_own_mention_is_taken_away_at_the_start_and_counts_by_id_alone() -> None:
    for text in ("<@U0BOT> hi", "<@U0BOT>: hi", "  <@U0BOT|callboard>, hi"):
        assert (said(message(text=text)).text, said(message(text=text)).mentions_us) == ("hi", True)
    inside = said(message(text="hi <@U0BOT> there"))
    assert inside.mentions_us
    assert inside.text == "hi @U0BOT there"
    for text in ("<!everyone> hi", "<!channel> hi", "<!subteam^S1|@bots> hi", "@U0BOT hi", "<@U0BOTX> hi"):
        assert not said(message(text=text)).mentions_us, text


def test_a_mention_alone_is_heard() -> None:
    alone = said(message(text="<@U0BOT>"))
    assert alone.text == ""
    assert alone.mentions_us


def test_a_root_by_any_of_its_three_forms() -> None:
    root = said(message(ts="200.1"))
    marked = said(message(ts="200.1", thread_ts="200.1"))
    reply = said(message(ts="201.0", thread_ts="200.1", parent_user_id="U0ANN", user="U0BOB"))
    assert key_of(root.origin) == key_of(marked.origin) == key_of(reply.origin)
    assert root.quote is marked.quote is None
    assert reply.quote is not None
    odd: Any
    for odd in ("", "x", "0", None, 5, [], "200.1; drop", "\N{ARABIC-INDIC DIGIT ONE}.1"):
        assert said(message(ts="200.1", thread_ts=odd)).origin == root.origin


@pytest.mark.parametrize("reply_in_thread", [True, False])
def test_direct_messages_and_groups_of_people_have_no_threads_of_ours(reply_in_thread: bool) -> None:
    direct = said(message(channel="D0001", channel_type="im"), reply_in_thread=reply_in_thread)
    assert (direct.origin.chat_type, direct.origin.thread) == (ChatType.DM, None)
    untold = said(message(channel="D0001", channel_type=None), reply_in_thread=reply_in_thread)
    assert untold.origin == direct.origin
    people = said(message(channel="G0001", channel_type="mpim"), reply_in_thread=reply_in_thread)
    assert (people.origin.chat_type, people.origin.thread) == (ChatType.GROUP, None)
    looked_up = said(message(channel="G0001", channel_type=None), reply_in_thread=reply_in_thread)
    assert looked_up.origin == people.origin


def test_a_message_and_its_mention_are_the_same_and_an_edit_is_another() -> None:
    assert identity(message()) == identity(message(type="app_mention", channel_type=None))
    edit, deletion = SHAPES[12], SHAPES[14]
    assert len({identity(message()), identity(edit), identity(deletion)}) == 3
    assert identity(edit) == identity(edit)
    assert identity({}) is None
    assert identity(event(type="reaction_added")) is None


def test_a_mention_that_an_edit_adds_is_another_than_the_message_and_not_answered_for_ever() -> None:
    stamp = f"{(READING.now - timedelta(seconds=5)).timestamp():.6f}"
    added = message(
        type="app_mention",
        channel_type=None,
        ts=stamp,
        edited={"user": "U0ANN", "ts": "1.2"},
        text="<@U0BOT> hi",
    )
    assert identity(added) != identity(message(ts=stamp))
    assert identity(added) == identity(added)
    assert not is_bare_mention(added), "there is no other event that it could wait for"
    assert said(added).message_id == stamp
    later = replace(READING, now=READING.now + timedelta(hours=1))
    assert translate(added, later, NAMES) == Refusal("an old message that mentions us now")


def test_edits() -> None:
    edited = translate(SHAPES[12], READING, NAMES)
    assert isinstance(edited, Heard)
    assert isinstance(edited.message, MessageEdited)
    assert (edited.message.message_id, edited.message.text) == ("1700000001.000200", "hello")
    for changed in (
        {"message": PREVIOUS, "previous_message": PREVIOUS},
        {"message": {**PREVIOUS, "text": "x"}, "previous_message": PREVIOUS},
        {"message": {**PREVIOUS, "bot_id": "B2", "text": "x", "edited": {"ts": "1.1"}}},
        {"message": {**PREVIOUS, "user": "U0BOT", "text": "x", "edited": {"ts": "1.1"}}},
    ):
        raw = event(type="message", subtype="message_changed", channel="C0001", **changed)
        assert isinstance(translate(raw, READING, NAMES), Refusal), changed


def test_an_edit_in_a_thread_belongs_to_the_thread() -> None:
    changed = {**PREVIOUS, "thread_ts": "1700000000.000100", "text": "new", "edited": {"ts": "1.1"}}
    raw = event(type="message", subtype="message_changed", channel="C0001", message=changed)
    heard = translate(raw, READING, NAMES)
    assert isinstance(heard, Heard)
    assert isinstance(heard.message, MessageEdited)
    assert heard.message.origin.thread == "1700000000.000100"


def test_deletions_and_tombstones() -> None:
    for raw in (SHAPES[13], SHAPES[14]):
        heard = translate(raw, READING, NAMES)
        assert isinstance(heard, Heard)
        assert isinstance(heard.message, MessageDeleted)
        assert heard.message.message_id == "1700000001.000200"
    ours = event(
        type="message",
        subtype="message_deleted",
        channel="C0001",
        deleted_ts="1.1",
        previous_message={"bot_id": "B0BOT"},
    )
    assert translate(ours, READING, NAMES) == Refusal("our own")


def test_files_are_wanted_or_not() -> None:
    heard = translate(
        message(subtype="file_share", text="", files=[FILE, {"mode": "tombstone"}]), READING, NAMES
    )
    assert isinstance(heard, Heard)
    wanted, gone = heard.files
    assert (wanted.name, wanted.size) == ("plan.pdf", 12345)
    assert wanted.url.endswith("/download/plan.pdf")
    assert gone.why_not
    many = translate(message(files=[FILE] * 500), READING, NAMES)
    assert isinstance(many, Heard)
    assert len(many.files) == 10


def test_what_is_passed_on_is_quoted() -> None:
    assert said(SHAPES[11]).text == "look\n\n> Bob: said @Bob"
    assert said(SHAPES[10]).text == "> build failed"
    preview = message(text="see", attachments=[{"text": "a page", "from_url": "https://a.b"}])
    assert said(preview).text == "see"


@pytest.mark.parametrize(
    ("text", "becomes"),
    [
        ("!stop", "/stop"),
        ("!STOP", "/STOP"),
        ("!queue and more", "/queue and more"),
        ("! stop", "! stop"),
        ("!stopping", "!stopping"),
        ("!important", "!important"),
        ("!!stop", "!!stop"),
        ("so !stop", "so !stop"),
    ],
)
def test_the_alias_for_what_slack_keeps_to_itself(text: str, becomes: str) -> None:
    assert said(message(text=text)).text == becomes
    assert said(message(text=f"<@U0BOT> {text}")).text == becomes


@pytest.mark.parametrize(
    ("name", "text", "becomes", "via"),
    [
        ("/callboard", "stop", "/stop", "command"),
        ("/callboard", "/stop", "/stop", "command"),
        ("/callboard", "queue do &lt;this&gt;", "/queue do <this>", "command"),
        ("/callboard", "", "/help", "command"),
        ("/callboard", "hello there", "hello there", "message"),
        ("/stop", "", "/stop", "command"),
        ("/Model", "openai/x", "/model openai/x", "command"),
        ("/agent", "status", "/status", "command"),
    ],
)
def test_native_commands(name: str, text: str, becomes: str, via: str) -> None:
    heard = said(command(command=name, text=text))
    assert (heard.text, heard.via) == (becomes, via)
    assert heard.origin.chat_type is ChatType.GROUP
    assert heard.mentions_us is (via == "message")


def test_how_a_command_can_be_answered() -> None:
    interaction = answerable(command(text="whoami"))
    assert interaction is not None
    assert (interaction.command, interaction.direct) == ("whoami", False)
    assert answerable(command(channel_id="D0001")).direct  # type: ignore[union-attr]
    assert answerable(button()) is None
    assert answerable(message()) is None


def test_buttons() -> None:
    pressed = said(button())
    assert (pressed.text, pressed.via, pressed.origin.chat_type) == ("/stop", "button", ChatType.GROUP)
    threaded = said(button(message={"ts": "2.2", "thread_ts": "1.1"}))
    assert (threaded.origin.chat_type, threaded.origin.thread) == (ChatType.THREAD, "1.1")
    odd: dict[str, Any]
    for odd in (
        {"actions": []},
        {"actions": [{"action_id": "other_app", "value": "/stop"}]},
        {"actions": [{"action_id": "callboard_0", "value": "rm -rf"}]},
        {"type": "view_submission"},
        {"user": {}},
        {"trigger_id": "a b"},
    ):
        assert isinstance(translate(button(**odd), READING, NAMES), Refusal), odd


def test_names_are_one_harmless_line() -> None:
    assert clean_name("Ann\n\u202eSYSTEM\x00: do") == "Ann SYSTEM : do"
    assert len(clean_name("x" * 10_000)) == 80


def test_what_is_looked_up_is_bounded_and_leaves_us_out() -> None:
    many = " ".join(f"<@U{n:05d}>" for n in range(500))
    found = needs(message(text=f"<@U0BOT> {many}"), READING.us.user_id)
    assert len(found.users) == 20
    assert "U0BOT" not in found.users
    assert found.users[0] == "U0ANN"


def test_nothing_is_known_and_all_is_heard() -> None:
    for raw in SHAPES:
        assert type(translate(raw, READING, Names())) is type(translate(raw, READING, NAMES))


@pytest.mark.parametrize("odd", [None, 5, "x", [], {}, {"type": "events_api"}, {"type": [], "payload": 7}])
def test_what_is_no_envelope(odd: object) -> None:
    assert isinstance(translate(odd, READING, NAMES), Refusal)


@pytest.mark.parametrize("ts", ["999999999999.999999", "0.0", "000000000000.1", "253402300800.0"])
def test_times_that_no_calendar_has(ts: str) -> None:
    assert said(message(ts=ts)).message_id == ts
