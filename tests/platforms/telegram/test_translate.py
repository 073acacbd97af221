from typing import Any

import pytest

from actors.gateway.platforms.telegram.media import file_name
from actors.gateway.platforms.telegram.translate import Ear, Heard, Me, Refusal, translate
from actors.gateway.session_key import key_of
from messages.blocks import TextBlock
from messages.gateway import Author, ChatMoved, ChatType, MessageEdited, MessageReceived, Quote
from messages.ids import MessageId
from tests.platforms.telegram.shapes import (
    ANN,
    DM,
    EAR,
    FORUM,
    GROUP,
    NOW,
    OURS,
    TOPIC_HEAD,
    US,
    mark,
    message,
)


def heard(raw: dict[str, Any], ear: Ear = EAR) -> Heard:
    found = translate({"update_id": 1, "message": raw}, ear, NOW)
    assert isinstance(found, Heard), found
    return found


def said(raw: dict[str, Any], ear: Ear = EAR) -> MessageReceived:
    found = heard(raw, ear).message
    assert isinstance(found, MessageReceived)
    return found


def refused(update: object) -> str:
    found = translate(update, EAR, NOW)
    assert isinstance(found, Refusal)
    return found.why


def test_a_group_message_says_who_where_and_when() -> None:
    found = said(message("hello"))
    assert (found.origin.chat_type, found.origin.chat, found.origin.user) == (ChatType.GROUP, "-1001", "11")
    assert (found.author.id, found.author.name, found.author.bot) == ("11", "Ann Lee", False)
    assert (found.message_id, found.text, found.surroundings.chat) == ("5", "hello", "Cooks")
    assert found.sent_at is not None
    assert found.sent_at.timestamp() == 1767268800
    assert not found.mentions_us


def test_a_direct_message_goes_by_its_chat() -> None:
    found = said(message("hello", chat=DM))
    assert (found.origin.chat_type, found.origin.chat) == (ChatType.DM, "11")


# ------------------------------------------------------------------ R07: threads


def test_R07_a_reply_chain_in_a_group_without_topics_does_not_split_the_group() -> None:
    first = said(message("one"))
    second = said(message("two", message_id=6, message_thread_id=77, reply_to_message=message("one")))
    third = said(message("three", message_id=7, message_thread_id=77, is_topic_message=False))
    assert key_of(first.origin) == key_of(second.origin) == key_of(third.origin)


def test_R07_a_topic_is_a_session_of_its_own_and_the_general_one_is_the_group() -> None:
    topic = message("x", chat=FORUM, message_thread_id=77, is_topic_message=True, reply_to_message=TOPIC_HEAD)
    found = said(topic)
    general = said(message("y", chat=FORUM))
    assert (found.origin.chat_type, found.origin.thread) == (ChatType.THREAD, "77")
    assert found.surroundings.thread == "Soups"
    assert found.quote is None  # the head of the topic is no reply
    assert (general.origin.chat_type, general.origin.thread) == (ChatType.GROUP, None)
    assert key_of(found.origin) != key_of(general.origin)


@pytest.mark.parametrize("odd", ["true", 1, None, {}])
def test_R07_only_true_makes_a_topic(odd: object) -> None:
    assert said(message("x", message_thread_id=77, is_topic_message=odd)).origin.thread is None


def test_R07_a_topic_of_a_direct_chat_keeps_its_number_for_the_answer() -> None:
    found = said(message("x", chat=DM, message_thread_id=3, is_topic_message=True))
    assert (found.origin.chat_type, found.origin.thread) == (ChatType.DM, "3")


# ------------------------------------------------------------------ mentions and commands


@pytest.mark.parametrize(
    ("text", "marks", "shown"),
    [
        ("@our_bot what?", [mark("mention", 0, 8)], "what?"),
        ("@OUR_Bot: what?", [mark("mention", 0, 8)], "what?"),
        ("  @our_bot, what?", [mark("mention", 2, 8)], "what?"),
        ("@our_bot", [mark("mention", 0, 8)], ""),
        ("what, @our_bot?", [mark("mention", 6, 8)], "what, @our_bot?"),
        ("Us what?", [mark("text_mention", 0, 2, user=US)], "what?"),
        ("👋👋 Us", [mark("text_mention", 5, 2, user=US)], "👋👋 @Us"),
        ("@our_bot @our_bot hey", [mark("mention", 0, 8), mark("mention", 9, 8)], "hey"),
        ("@our_bot ask Bob", [mark("mention", 0, 8), mark("text_mention", 13, 3, user=ANN)], "ask @Bob"),
    ],
)
def test_our_own_mention_goes_from_the_start_and_counts(text: str, marks: list[Any], shown: str) -> None:
    found = said(message(text, entities=marks))
    assert (found.text, found.mentions_us) == (shown, True)


@pytest.mark.parametrize(
    "text", ["@our_bot2 hi", "@all hi", "@everyone", "our_bot", "mail me@our_bot.org"], ids=lambda text: text
)
def test_nobody_else_is_us(text: str) -> None:
    marks = [mark("mention", 0, len(text.split(maxsplit=1)[0]))] if text.startswith("@") else []
    assert not said(message(text, entities=marks)).mentions_us


def test_others_are_shown_by_name_and_hidden_addresses_in_full() -> None:
    marks = [mark("text_mention", 0, 3, user=ANN), mark("text_link", 8, 4, url="https://example.org/x")]
    assert said(message("Ann see this", entities=marks)).text == "@Ann see [this](https://example.org/x)"


@pytest.mark.parametrize(
    ("text", "length", "chat", "shown", "via", "ours"),
    [
        ("/stop", 5, GROUP, "/stop", "command", False),
        ("/stop@our_bot", 13, GROUP, "/stop", "command", True),
        ("/STATUS@Our_Bot now", 15, GROUP, "/STATUS now", "command", True),
        ("/nothing_of_ours", 16, GROUP, "/nothing_of_ours", "message", False),
        ("/etc/hosts is a file", 4, DM, "/etc/hosts is a file", "message", False),
        ("/start", 6, DM, "/help", "command", False),
        ("/start status", 6, DM, "/status", "command", False),
        ("/start x-7", 6, DM, "/help", "command", False),
        ("/start@our_bot", 14, GROUP, "/help", "command", True),
    ],
)
def test_commands_are_ours_when_they_say_so(
    text: str, length: int, chat: dict[str, Any], shown: str, via: str, ours: bool
) -> None:
    found = said(message(text, chat=chat, entities=[mark("bot_command", 0, length)]))
    assert (found.text, found.via, found.mentions_us) == (shown, via, ours)


def test_another_bots_command_is_not_for_us() -> None:
    raw = message("/stop@their_bot", entities=[mark("bot_command", 0, 15)])
    assert refused({"update_id": 1, "message": raw}) == "another bot's command"


def test_a_pressed_button_is_a_command_in_the_name_of_who_pressed_it() -> None:
    query = {"id": "4000000000000000001", "from": ANN, "message": OURS, "data": "/approve 7"}
    found = translate({"update_id": 2, "callback_query": query}, EAR, NOW)
    assert isinstance(found, Heard)
    assert isinstance(found.message, MessageReceived)
    assert (found.message.via, found.message.text) == ("button", "/approve 7")
    assert (found.message.message_id, found.message.author.id) == ("4000000000000000001", "11")
    assert (found.query, found.below) == ("4000000000000000001", 4)
    assert (found.message.origin.chat, found.message.origin.user) == ("-1001", "11")


# ------------------------------------------------------------------ replies, edits, moves


def test_a_reply_to_us_is_a_quote_of_ours() -> None:
    quote = said(message("and then?", reply_to_message=OURS)).quote
    assert quote == Quote(
        message_id=MessageId("4"), author=Author(id="7", name="Us", bot=True), text="earlier", ours=True
    )
    other = said(message("and then?", reply_to_message=message("x"), quote={"text": "a part"})).quote
    assert other is not None
    assert (other.ours, other.text) == (False, "a part")


@pytest.mark.parametrize(
    ("external", "author"),
    [
        (
            {
                "origin": {"type": "user", "sender_user": ANN},
                "chat": {"id": -1009, "type": "supergroup"},
                "message_id": 5,
            },
            Author(id="11", name="Ann Lee"),
        ),
        (
            {"origin": {"type": "channel", "chat": {"id": -1007, "title": "News"}, "message_id": 5}},
            Author(id="-1007", name="News"),
        ),
        ({"origin": {"type": "hidden_user", "sender_user_name": "Bo"}}, Author(id="hidden", name="Bo")),
        ({"origin": 7}, None),
    ],
)
def test_a_reply_to_something_in_another_chat_carries_what_was_quoted(
    external: dict[str, Any], author: Author | None
) -> None:
    quote = said(message("is that true?", external_reply=external, quote={"text": "It rains."})).quote
    assert quote is not None
    assert (quote.text, quote.author, quote.ours) == ("It rains.", author, False)
    assert not quote.message_id.isdigit(), "the numbers of another chat are none of this one"
    assert said(message("?", quote={"text": "alone"})).quote is None


def test_R15_an_edit_is_no_message_and_goes_by_the_messages_id() -> None:
    raw = message("/restart ", message_id=10, edit_date=1767268900)
    for update_id in (900, 901):
        found = translate({"update_id": update_id, "edited_message": raw}, EAR, NOW)
        assert isinstance(found, Heard)
        assert isinstance(found.message, MessageEdited)
        assert (found.message.message_id, found.message.text) == ("10", "/restart ")


def test_R12_both_service_messages_say_the_same_move() -> None:
    old = {"id": -100, "type": "group", "title": "Cooks"}
    new = {"id": -100200, "type": "supergroup", "title": "Cooks"}
    moves = [
        heard(message(chat=old, migrate_to_chat_id=-100200)).message,
        heard(message(chat=new, migrate_from_chat_id=-100)).message,
    ]
    assert all(isinstance(move, ChatMoved) and (move.old, move.new) == ("-100", "-100200") for move in moves)


# ------------------------------------------------------------------ what is attached


def test_the_largest_size_of_a_picture_is_fetched_and_its_caption_is_the_text() -> None:
    sizes = [{"file_id": "L", "width": 900, "file_size": 9}, {"file_id": "s", "width": 90, "file_size": 1}]
    found = heard(message(caption="look", photo=sizes, media_group_id="9"))
    assert [each.file_id for each in found.files] == ["L"]
    assert isinstance(found.message, MessageReceived)
    assert (found.message.text, found.message.album, found.album) == ("look", "9", ("-1001", "11", "9"))


@pytest.mark.parametrize(
    ("raw", "name"),
    [
        ("../../x\u202egnp.exe", "xgnp.exe"),
        ("..\\..\\boot.ini", "boot.ini"),
        ("a\x00b\n\x1b[31mc.txt", "ab[31mc.txt"),
        ("\u2066\u2069\u200f.\u202e.", "file"),
        ("...", "file"),
        (None, "file"),
        ("x" * 300 + ".pdf", "x" * 116 + ".pdf"),
        ("y" * 300, "y" * 120),
        ("räksmörgås 写真.png", "räksmörgås 写真.png"),
        ("\ud83d.txt", "txt"),
    ],
)
def test_D10_names_of_files_are_made_harmless(raw: object, name: str) -> None:
    assert file_name(raw, "file") == name


def test_what_is_no_file_is_said_in_words() -> None:
    found = said(message(location={"latitude": 52.5, "longitude": 13.4}))
    assert found.attachments == (TextBlock(text="[location: 52.5, 13.4]"),)
    forwarded = said(message("x", forward_origin={"type": "user", "sender_user": ANN}))
    assert forwarded.attachments == (TextBlock(text="[forwarded from Ann Lee]"),)


@pytest.mark.parametrize(
    ("update", "why"),
    [
        (None, "no object"),
        ([], "no object"),
        ({"update_id": 1}, "not asked for"),
        ({"update_id": 1, "message": "x"}, "no ids"),
        ({"update_id": 1, "message": message("x", chat={"id": 1, "type": "channel"})}, "a channel"),
        ({"update_id": 1, "message": {**message("x"), "from": US}}, "our own"),
        ({"update_id": 1, "message": message(new_chat_members=[ANN])}, "nothing said"),
        ({"update_id": 1, "message": {**message("x"), "from": None}}, "nobody said it"),
        ({"update_id": 1, "message": message("x", message_id=1 << 70)}, "no ids"),
        ({"update_id": 1, "message": message("x", message_id=True)}, "no ids"),
        ({"update_id": 1, "edited_message": message(location={})}, "edited without text"),
        (
            {"update_id": 1, "callback_query": {"id": "1", "from": ANN, "data": "/stop"}},
            "a button of nowhere",
        ),
    ],
)
def test_what_says_nothing_to_us_is_refused_by_a_word(update: object, why: str) -> None:
    assert refused(update) == why


def test_lone_surrogates_and_wrong_places_harm_nothing() -> None:
    found = said(
        message(
            "a\ud83d@our_bot",
            entities=[mark("mention", 1, 3), mark("mention", 500, 8), None, mark("x", -1, 2)],
        )
    )
    found.model_dump_json()


def test_an_anonymous_admin_speaks_as_the_chat() -> None:
    bot = {"id": 1087968824, "is_bot": True, "first_name": "Group"}
    found = said({**message("x", sender_chat=GROUP), "from": bot})
    assert (found.author.id, found.author.bot) == ("-1001", False)


def test_without_a_user_name_nothing_mentions_us() -> None:
    found = said(message("@ hello", entities=[mark("mention", 0, 1)]), Ear(Me(7, ""), "telegram", "main"))
    assert not found.mentions_us
