"""Threads that we take part in: who goes on there need not mention us, and nobody else is answered by it."""

from datetime import timedelta
from typing import Any

import pytest

from actors.gateway.gating import Gate, LeftAlone, LetIn
from actors.gateway.session_key import key_of
from messages import access as a
from messages.gateway import Author, Origin, Part, Quote, Say
from messages.ids import DeliveryId, MessageId
from tests.actors.gateway.test_gating import GROUP, NOW, OPEN, THREAD, Street, by, let_in

DAY_S = 24 * 3600.0
ROOT = THREAD.model_copy(update={"thread": "r1"})
NOT_FOR_US = LeftAlone("not_addressed")
OF_THE_ROOT = Quote(message_id=MessageId("r1"), author=Author(id="7"))


def begun(**access: Any) -> Street:
    """A thread whose root mentions us."""
    street = Street(**{**OPEN, **access})
    let_in(street.says("what is the time?", ROOT, id="r1", mentions_us=True))
    return street


def say(*texts: str, origin: Origin = ROOT, notice: bool = False) -> Say:
    parts = tuple(Part(text=text) for text in texts)
    key = key_of(origin)
    return Say(delivery_id=DeliveryId("d"), session_key=key, origin=origin, parts=parts, notice=notice)


@pytest.mark.parametrize(
    ("access", "origin", "more", "answered"),
    [
        ({}, ROOT, {}, True),
        ({}, by("8", ROOT), {}, True),
        ({}, ROOT, {"quote": OF_THE_ROOT}, True),
        ({}, ROOT, {"t": DAY_S - 1}, True),
        ({}, ROOT, {"t": DAY_S + 1}, False),
        ({}, by("8", ROOT), {"bot": True}, False),
        ({"bots": "addressed"}, by("8", ROOT), {"bot": True}, False),
        ({}, THREAD, {}, False),
        ({}, ROOT.model_copy(update={"chat": "901"}), {}, False),
        ({}, GROUP, {}, False),
        ({"follow_threads": False}, ROOT, {}, False),
        ({"quiet_chats": ["900"]}, ROOT, {}, False),
        ({"quiet_chats": ["900:r1"]}, ROOT, {}, False),
        ({}, ROOT, {"quote": Quote(message_id=MessageId("m5"), author=Author(id="8"))}, False),
    ],
)
def test_who_goes_on_in_a_thread_that_we_are_in(
    access: dict[str, Any], origin: Origin, more: dict[str, Any], answered: bool
) -> None:
    found = begun(**access).says("and in Rome?", origin, **more)
    assert isinstance(found, LetIn) is answered, found


@pytest.mark.parametrize(
    "text", ["@bob what do you think?", "  @here lunch", "/weather@other_bot", "/weather"]
)
def test_what_is_plainly_for_somebody_else_is_left_alone_there_too(text: str) -> None:
    assert isinstance(begun().says(text, ROOT), LeftAlone)


def test_under_a_message_of_ours_what_begins_with_a_name_is_for_that_person() -> None:
    street, under = Street(**OPEN), Quote(message_id=MessageId("r1"), ours=True)
    assert street.says("@bob look at this", ROOT, quote=under) == NOT_FOR_US
    assert isinstance(street.says("look at this", ROOT, quote=under), LetIn)
    assert isinstance(street.says("@bob and you", ROOT, quote=under, mentions_us=True), LetIn)
    assert isinstance(street.says("@bob asks", GROUP, quote=under), LetIn), (
        "a reply that somebody chose to make"
    )


def test_only_people_who_may_talk_go_on() -> None:
    street = begun(users=["7", "8"], chats=[])
    assert street.says("and in Rome?", by("9", ROOT)) == LeftAlone("stranger")
    assert isinstance(street.says("and in Rome?", by("8", ROOT)), LetIn)


def test_a_chat_that_is_made_quiet_stays_so() -> None:
    street = begun()
    street.change(
        a.ChatSettingChosen(
            account="discord", place="900", setting="answering", value="quiet", by="x", at=NOW
        )
    )
    assert street.says("and in Rome?", ROOT) == NOT_FOR_US


def test_an_answer_makes_a_thread_ours_and_silence_or_a_notice_does_not() -> None:
    street = Street(**OPEN)
    taken: list[Say] = []
    outbox = street.gate.following.watching(taken.append, lambda: NOW)
    silent = (say("NO_REPLY"), say("`/new` is for an admin.", notice=True), say("hi", origin=GROUP))
    for each in silent:
        outbox(each)
    assert street.says("and?", ROOT) == NOT_FOR_US
    outbox(say("It is five."))
    assert isinstance(street.says("and?", ROOT), LetIn)
    assert len(taken) == 4, "each goes to the outbox all the same"


def test_where_threads_are_rooms_that_stay_nobody_is_followed() -> None:
    street = Street(**OPEN)
    street.gate = Gate(street.ledger, frozenset(), rooms=frozenset({"discord"}))
    let_in(street.says("what is the time?", ROOT, id="r1", mentions_us=True))
    assert street.says("and in Rome?", ROOT) == NOT_FOR_US


def test_what_is_remembered_is_bounded_and_a_chat_that_moved_is_the_same() -> None:
    street = Street(**OPEN)
    following = street.gate.following
    following.remember(
        (ROOT.model_copy(update={"thread": f"t{n}"}), NOW + timedelta(seconds=n)) for n in range(10_050)
    )
    assert street.says("x", ROOT.model_copy(update={"thread": "t0"})) == NOT_FOR_US
    assert isinstance(street.says("x", ROOT.model_copy(update={"thread": "t10049"})), LetIn)
    street.change(a.ChatIdChanged(account="discord", old="900", new="-900", by="x", at=NOW))
    moved = ROOT.model_copy(update={"thread": "t10048", "chat": "-900"})
    assert isinstance(street.says("x", moved), LetIn)
