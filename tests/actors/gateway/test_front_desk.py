"""The front desk with everything behind it: real actors, a journal in memory, a scripted model."""

import asyncio
from collections.abc import AsyncIterator
from datetime import timedelta
from typing import Any

import pytest

from actors.gateway.edge import EdgeError
from actors.gateway.session_key import key_for, parse
from actors.session import facts as f
from messages.access import ACCESS, AllowPlace, AllowUser, ChatIdChanged, ChooseForChat, RevokeUser
from messages.gateway import (
    Acceptance,
    Author,
    ChatMoved,
    ChatType,
    MessageDeleted,
    MessageEdited,
    Origin,
    Part,
    Quote,
    Receipt,
    Role,
    Say,
)
from messages.ids import DeliveryId, MessageId, SessionKey, StreamId
from messages.settings import PlatformSettings, RouteSettings
from tests.actors.gateway.porch import Porch, dm, group
from tests.walks.stage import Stage

STAFF: dict[str, Any] = {"owners": ["o"], "admins": ["a"], "users": ["u"], "chats": ["900"]}


def settings(**access: Any) -> dict[str, PlatformSettings]:
    return {"discord": PlatformSettings.model_validate({"access": {**STAFF, **access}})}


@pytest.fixture
async def porch() -> AsyncIterator[Porch]:
    async with Porch(platforms=settings()) as porch:
        yield porch


def facts_of(stage: Stage, key: SessionKey) -> list[f.SessionFact]:
    return list(stage.journal.facts(StreamId(f"session:{key}")))  # type: ignore[arg-type]


def accepted(stage: Stage, key: SessionKey) -> list[f.MessageAccepted]:
    return [fact for fact in facts_of(stage, key) if isinstance(fact, f.MessageAccepted)]


# ------------------------------------------------------------------ groups


async def test_a_stranger_in_a_group_is_met_with_silence() -> None:
    async with Porch(platforms=settings(chats=[])) as porch:
        for more in ({}, {"mentions_us": True}, {"via": "command"}):
            receipt = await porch.writes("/whoami", group("x"), **more)
            assert receipt.acceptance is Acceptance.OVERHEARD
            assert receipt.why == ""
        assert porch.platform.said == []
        assert porch.models.requests == []
        assert list(porch.journal.streams) == [], "nothing is kept of them"


async def test_who_is_mentioned_answers_and_knows_what_was_said_before(porch: Porch) -> None:
    for n in range(3):
        receipt = await porch.writes(f"line {n}", group("x"))
        assert receipt.acceptance is Acceptance.OVERHEARD
    porch.models.will_say("the third")
    receipt = await porch.writes("which line?", group("y"), mentions_us=True)
    assert receipt.acceptance is Acceptance.ACCEPTED
    assert porch.platform.texts() == ["the third"]
    request = porch.requests()[0]
    assert all(f"line {n}" in request for n in range(3))
    porch.models.will_say("no more")
    await porch.writes("and now?", group("y"), quote=Quote(message_id=MessageId("p"), ours=True))
    heard = accepted(porch, key_for(group("y"), porch.ledger.book))
    assert len(heard) == 2


async def test_secrets_in_what_was_overheard_are_masked() -> None:
    async with Porch(platforms=settings(), secrets=["hunter2-hunter2"]) as porch:
        await porch.writes("it is hunter2-hunter2", group("x"))
        porch.models.will_say("ok")
        quote = Quote(message_id=MessageId("q"), author=Author(id="x"), text="hunter2-hunter2")
        await porch.writes("what is it?", group("y"), mentions_us=True, quote=quote)
        assert "hunter2-hunter2" not in porch.requests()[0]


async def test_the_role_comes_from_the_list_and_goes_to_the_session(porch: Porch) -> None:
    for user, role in (("o", Role.OWNER), ("a", Role.ADMIN), ("u", Role.USER), ("x", Role.USER)):
        porch.models.will_say("ok")
        await porch.writes("hello", group(user), mentions_us=True)
        (heard,) = accepted(porch, key_for(group(user), porch.ledger.book))
        assert heard.author.role is role


# ------------------------------------------------------------------ refusals are said


async def test_a_refusal_is_said_in_the_chat_as_a_reply_once_a_minute() -> None:
    async with Porch(platforms=settings(user_per_minute=1)) as porch:
        porch.models.will_say("one")
        await porch.writes("first", dm("u"))
        for _ in range(3):
            await porch.writes("more", dm("u"))
        assert len(porch.platform.said) == 2
        refusal = porch.platform.said[1]
        assert refusal.reply_to == "m2"
        assert "more than I can take" in refusal.parts[0].text
        assert refusal.notice
        await porch.clock.advance(5)
        await porch.writes("/stop", dm("u"))


async def test_a_platform_that_says_refusals_itself_gets_no_post(porch: Porch) -> None:
    porch.edge_says_refusals = True
    receipt = await porch.writes("   ", dm("u"))
    assert (receipt.acceptance, receipt.why) == (Acceptance.REFUSED, "The message is empty.")
    assert porch.platform.said == []
    porch.edge_says_refusals, porch.edge_says_natively = False, True
    await porch.writes("/access list", dm("u"), via="button")
    assert porch.platform.said == []
    await porch.writes("/access list", dm("u"))
    assert len(porch.platform.said) == 1


async def test_the_same_refusal_is_said_once_a_minute_in_a_place(porch: Porch) -> None:
    for _ in range(5):
        await porch.writes("   ", dm("u"))
    await porch.writes("   ", dm("a"))
    assert [said.origin.user for said in porch.platform.said] == ["u", "a"]
    await porch.clock.advance(61)
    await porch.writes("   ", dm("u"))
    assert len(porch.platform.said) == 3


async def test_what_the_front_desk_says_wakes_no_session(porch: Porch) -> None:
    await porch.writes("/access list", dm("u"))
    assert len(porch.platform.said) == 1
    assert porch.roster.awake == set()


async def test_A10_while_we_were_away(porch: Porch) -> None:
    for n in range(3):
        porch.models.will_say(f"answer {n}")
    ago = porch.clock.now() - timedelta(minutes=5)
    for n in range(3):
        await porch.writes(f"question {n}", dm("u"), sent_at=ago)
    receipt = await porch.writes("/new", dm("u"), sent_at=ago)
    assert receipt.acceptance is Acceptance.OVERHEARD
    assert porch.platform.texts() == ["answer 0", "answer 1", "answer 2"]


async def test_A10_with_an_age_limit_they_get_one_notice() -> None:
    strict = {"discord": PlatformSettings.model_validate({"access": STAFF, "max_age_minutes": 2})}
    async with Porch(platforms=strict) as porch:
        ago = porch.clock.now() - timedelta(minutes=5)
        for n in range(3):
            await porch.writes(f"question {n}", dm("u"), sent_at=ago)
        assert len(porch.platform.texts()) == 1
        assert "I was away" in porch.platform.texts()[0]
        assert porch.models.requests == []


# ------------------------------------------------------------------ commands of the desk


async def test_whoami_says_ids_and_never_a_raw_name(porch: Porch) -> None:
    await porch.writes("/whoami", group("a", server="s9"))
    (text,) = porch.platform.texts()
    assert "`a`" in text
    assert "admin" in text
    assert "`900`" in text
    assert "`s9`" in text
    assert "SYSTEM" not in text


async def test_access_is_changed_by_command_and_takes_effect_at_once(porch: Porch) -> None:
    await porch.writes("/access allow 42", dm("a"))
    assert "may talk to me now" in porch.platform.texts()[-1]
    assert porch.standing(dm("42")).role is Role.USER
    await porch.writes("/access block 42", dm("a"))
    assert porch.standing(dm("42")).why == "blocked"
    await porch.writes("/access role 42 admin", dm("a"))
    assert "Only the owner" in porch.platform.texts()[-1]
    await porch.writes("/access role 42 admin", dm("o"))
    assert porch.standing(dm("42")).role is Role.ADMIN
    await porch.writes("/access list", dm("a"))
    assert all(word in porch.platform.texts()[-1] for word in ("`42`: admin", "discord user o", "settings"))
    await porch.restart()
    assert porch.standing(dm("42")).role is Role.ADMIN


async def test_a_person_is_named_by_id_or_by_what_they_said(porch: Porch) -> None:
    quote = Quote(message_id=MessageId("q"), author=Author(id="77", name="Eve"), text="hi")
    await porch.writes("/access allow", group("a"), via="command", quote=quote)
    assert porch.standing(dm("77")).role is Role.USER
    for text in (
        "/access allow @eve and bob",
        "/access allow",
        "/access nonsense",
        "/access chat free a:b:c",
    ):
        before = len(porch.journal.facts(ACCESS))
        await porch.writes(text, group("a"), via="command")
        assert len(porch.journal.facts(ACCESS)) == before
    ours = Quote(message_id=MessageId("q"), author=Author(id="bot"), ours=True)
    await porch.writes("/access allow", group("a"), via="command", quote=ours)
    assert porch.standing(dm("bot")).role is None


async def test_a_chat_is_changed_where_one_stands(porch: Porch) -> None:
    here = group("a", "-500", server="s")
    assert (
        await porch.writes("hello", group("x", "-500"), mentions_us=True)
    ).acceptance is Acceptance.OVERHEARD
    await porch.writes("/access allow chat here", here, via="command")
    porch.models.will_say("yes")
    await porch.writes("hello", group("x", "-500"), mentions_us=True)
    assert porch.platform.texts()[-1] == "yes"
    await porch.writes("/access chat free", here, via="command")
    porch.models.will_say("always")
    await porch.writes("nobody asked", group("x", "-500"))
    assert porch.platform.texts()[-1] == "always"
    await porch.writes("/access chat shared", here, via="command")
    keys = {key_for(group(user, "-500"), porch.ledger.book) for user in "xyz"}
    assert len(keys) == 1
    await porch.writes("/access chat default", here, via="command")
    assert (await porch.writes("again", group("x", "-500"))).acceptance is Acceptance.OVERHEARD
    await porch.writes("/access allow server here", here, via="command")
    assert porch.standing(group("z", "1", server="s")).role is Role.USER


async def test_here_is_the_chat_also_from_one_of_its_threads(porch: Porch) -> None:
    place = group("a", "-500").model_copy(update={"chat_type": ChatType.THREAD, "thread": "t1"})
    await porch.writes("/access allow chat here", place, via="command")
    assert porch.standing(group("x", "-500")).role is Role.USER
    await porch.writes("/access revoke chat thread", place, via="command")
    assert porch.standing(place.model_copy(update={"user": "x"})).role is None
    assert porch.standing(group("x", "-500")).role is Role.USER
    await porch.writes("/sethome", place, via="command")
    assert porch.ledger.book.accounts["discord"].home_now == "-500"
    await porch.writes("/sethome thread", place, via="command")
    assert porch.ledger.book.accounts["discord"].home_now == "-500:t1"


async def test_sethome_moves_what_answers_nobody(porch: Porch) -> None:
    def say(number: int) -> Say:
        return Say(
            delivery_id=DeliveryId(f"d{number}"),
            session_key=SessionKey("desk:test"),
            origin=dm("u"),
            parts=(Part(text="report"),),
            target="discord",
        )

    porch.delivery.tell(say(1))
    await porch.settle()
    assert porch.platform.said == [], "there is no home yet"
    await porch.writes("/sethome", group("a", "!room:server"), via="command")
    porch.delivery.tell(say(2))
    await porch.settle()
    assert porch.platform.said[-1].origin.chat == "!room:server"
    await porch.restart()
    porch.delivery.tell(say(3))
    await porch.settle()
    assert porch.platform.said[-1].origin.chat == "!room:server"
    await porch.writes("/sethome none", group("a"), via="command")
    before = len(porch.platform.said)
    porch.delivery.tell(say(4))
    await porch.settle()
    assert len(porch.platform.said) == before


async def test_who_may_use_a_command_is_the_operators_choice() -> None:
    async with Porch(platforms=settings(command_roles={"sethome": "user", "access": "owner"})) as porch:
        await porch.writes("/sethome", group("u"), via="command")
        assert porch.ledger.book.accounts["discord"].home_now == "900"
        await porch.writes("/access allow 42", dm("a"))
        assert "for the owner" in porch.platform.texts()[-1]
        assert porch.standing(dm("42")).role is None


async def test_a_change_that_cannot_be_stored_does_not_happen(porch: Porch) -> None:
    porch.journal.will_fail_next_append()
    receipt = await porch.writes("/access allow 42", dm("a"))
    assert receipt.acceptance is Acceptance.REFUSED
    assert "could not be stored" in porch.platform.texts()[-1]
    assert porch.standing(dm("42")).role is None
    porch.journal.will_fail_next_append()
    assert not (await porch.wishes(AllowUser(account="discord", user="42"))).done
    assert (await porch.wishes(AllowUser(account="discord", user="42"))).done


async def test_a_stranger_who_is_shut_out_while_a_turn_runs_is_not_heard_again(porch: Porch) -> None:
    porch.models.will_say("first")
    await porch.writes("hello", dm("u"))
    await porch.wishes(RevokeUser(account="discord", user="u", block=True))
    assert (await porch.writes("more", dm("u"))).acceptance is Acceptance.OVERHEARD
    assert (await porch.writes("/stop", dm("u"))).acceptance is Acceptance.OVERHEARD


async def test_a_mail_address_is_let_in_and_shut_out_however_it_is_written(porch: Porch) -> None:
    await porch.wishes(AllowUser(account="discord", user="Ann@Example.org"))
    assert porch.standing(dm("ann@example.org")).role is Role.USER
    await porch.wishes(RevokeUser(account="discord", user="ANN@example.org", block=True))
    assert porch.standing(dm("ann@example.org")).why == "blocked"


# ------------------------------------------------------------------ keys


@pytest.mark.parametrize(
    "nobody",
    [
        Origin(platform="discord", chat_type=ChatType.DM, chat="", user=None),
        Origin(platform="discord", chat_type=ChatType.GROUP, user="u"),
        Origin(platform="discord", chat_type=ChatType.THREAD, chat="900", user="u"),
        Origin(platform="discord", chat_type=ChatType.DM, chat="x" * 600, user="u"),
    ],
)
async def test_R03_a_message_from_nowhere_is_turned_away_with_the_reason(
    porch: Porch, nobody: Origin
) -> None:
    receipt = await porch.writes("hello", nobody, mentions_us=True)
    assert receipt.acceptance is Acceptance.REFUSED
    assert receipt.why
    assert porch.journal.streams == ()
    assert porch.platform.said == []
    edited = await change(porch, "1", nobody, "hello")
    assert edited.acceptance is Acceptance.OVERHEARD


async def test_R04_two_accounts_two_conversations_and_each_answers_for_itself() -> None:
    both = {
        name: PlatformSettings.model_validate({"access": {"users": ["500"]}})
        for name in ("telegram/work", "telegram/home")
    }
    async with Porch(platforms=both) as porch:
        places = {
            account: Origin(
                platform="telegram", account=account, chat_type=ChatType.DM, chat="500", user="500"
            )
            for account in ("work", "home")
        }
        for account, text in (("work", "A"), ("home", "B")):
            porch.models.will_say(f"to {text}")
            await porch.writes(text, places[account])
        keys = {name: key_for(place, porch.ledger.book) for name, place in places.items()}
        assert len(set(keys.values())) == 2
        assert {name: parse(key).account for name, key in keys.items()} == {"work": "work", "home": "home"}
        for name, text in (("work", "A"), ("home", "B")):
            assert [heard.text for heard in accepted(porch, keys[name])] == [text]
        assert [(s.origin.account, s.parts[0].text) for s in porch.platform.said] == [
            ("work", "to A"),
            ("home", "to B"),
        ]


async def test_the_door_and_the_desk_mean_the_same_conversation_while_it_changes(porch: Porch) -> None:
    """The key is settled at the door: a change on the way keeps nobody waiting for ever."""
    porch.models.will_say("one")
    porch.models.will_say("two")
    await porch.writes("hello", group("x"), mentions_us=True)
    before = key_for(group("x"), porch.ledger.book)
    answer = await porch.wishes(ChooseForChat(account="discord", place="900", value="shared"))
    assert answer.done
    receipt = await porch.writes("hello", group("y"), mentions_us=True)
    assert receipt.session_key == key_for(group("x"), porch.ledger.book) != before


async def test_a_route_names_the_profile_that_answers() -> None:
    routes = (RouteSettings(profile="work", chat="900"),)
    async with Porch(platforms=settings(), routes=routes) as porch:
        porch.models.will_say("hello")
        receipt = await porch.writes("hello", group("x"), mentions_us=True)
        assert receipt.session_key is not None
        assert parse(receipt.session_key).profile == "work"
        (heard,) = accepted(porch, receipt.session_key)
        assert heard.origin.profile == "work"


async def test_threads_of_a_chat_may_be_a_conversation_for_each() -> None:
    async with Porch(platforms=settings(threads="per_user")) as porch:
        keys = set[SessionKey | None]()
        for user in "xy":
            place = group(user).model_copy(update={"chat_type": ChatType.THREAD, "thread": "1"})
            porch.models.will_say("ok")
            keys.add((await porch.writes("hello", place, mentions_us=True)).session_key)
        assert len(keys) == 2


# ------------------------------------------------------------------ chats that move


async def test_R12_everything_follows_a_chat_that_moved(porch: Porch) -> None:
    old, new = group("x", "-100"), group("x", "-100200")
    await porch.wishes(AllowPlace(account="discord", what="chat", place="-100"))
    await porch.wishes(ChooseForChat(account="discord", place="-100", value="free"))
    await porch.writes("/sethome", group("a", "-100"), via="command")
    porch.models.will_say("noted")
    await porch.writes("the code word is swordfish", old)
    moved = ChatMoved(platform="discord", old="-100", new="-100200", at=porch.clock.now())
    await porch.door.hear(moved)
    await porch.door.hear(moved)
    assert len([x for x in porch.journal.facts(ACCESS) if isinstance(x, ChatIdChanged)]) == 1, (
        "told twice, noted once"
    )
    porch.models.will_say("swordfish")
    await porch.writes("what is the code word?", new)
    assert porch.platform.said[-1].origin.chat == "-100200"
    assert "the code word is swordfish" in porch.requests()[-1], "a later message sees the earlier history"
    assert len(accepted(porch, key_for(new, porch.ledger.book))) == 2
    late = Say(
        delivery_id=DeliveryId("late"),
        session_key=SessionKey("desk:test"),
        origin=old,
        parts=(Part(text="late"),),
        reply_to=MessageId("m1"),
    )
    for target in ("origin", "discord", "discord:-100", "discord:-100200"):
        porch.delivery.tell(late.model_copy(update={"delivery_id": DeliveryId(target), "target": target}))
        await porch.settle()
        assert porch.platform.said[-1].origin.chat == "-100200", target
        assert porch.platform.said[-1].reply_to is None, "its messages have other ids there"
    await porch.restart()
    porch.models.will_say("still swordfish")
    await porch.writes("and now?", new)
    assert "the code word is swordfish" in porch.requests()[-1]


async def test_R12_an_answer_that_is_being_made_goes_to_the_new_id(porch: Porch) -> None:
    old, new = group("o", "-100"), group("o", "-100200")
    porch.models.will_hang("so far")
    await porch.writes("take your time", old, mentions_us=True)
    moved = ChatMoved(platform="discord", old="-100", new="-100200", at=porch.clock.now())
    await porch.door.hear(moved)
    receipt = await porch.writes("and this after it", new, mentions_us=True)
    assert receipt.acceptance is Acceptance.QUEUED, "it is the same conversation"
    porch.models.will_say("two")
    stopped = await porch.writes("/stop", new)
    assert stopped.session_key == key_for(old, porch.ledger.book)
    await porch.settle()
    assert porch.platform.said
    assert {said.origin.chat for said in porch.platform.said} == {"-100200"}


async def test_R12_a_move_that_cannot_be_stored_is_told_again(porch: Porch) -> None:
    moved = ChatMoved(platform="discord", old="-100", new="-100200", at=porch.clock.now())
    porch.journal.will_fail_next_append()
    with pytest.raises(EdgeError):
        await porch.door.hear(moved)
    await porch.settle()
    await porch.door.hear(moved)
    assert porch.ledger.book.posted_to(group("x", "-100")).chat == "-100200"


async def test_R12_a_move_on_an_account_that_nobody_knows_changes_nothing(porch: Porch) -> None:
    await porch.door.hear(ChatMoved(platform="slack", old="a", new="b", at=porch.clock.now()))
    assert porch.journal.facts(ACCESS) == ()


# ------------------------------------------------------------------ edits and deletions


async def change(porch: Porch, message_id: str, origin: Origin, text: str | None) -> Receipt:
    about: dict[str, Any] = {"message_id": message_id, "origin": origin, "at": porch.clock.now()}
    if text is None:
        return await porch.door.hear(MessageDeleted(**about))
    return await porch.door.hear(MessageEdited(author=Author(id=origin.user or ""), text=text, **about))


async def test_R15_an_edit_is_never_a_command_and_never_a_new_message(porch: Porch) -> None:
    porch.models.will_say("hello")
    await porch.writes("/new", dm("u"), "10")
    await porch.writes("hello", dm("u"), "11")
    said, asked = len(porch.platform.said), len(porch.models.requests)
    await change(porch, "10", dm("u"), "/new ")
    await change(porch, "11", dm("u"), "/new")
    await change(porch, "11", dm("u"), "hello, everybody")
    await change(porch, "11", dm("u"), None)
    await change(porch, "unknown", dm("u"), "/new")
    await change(porch, "unknown", group("x"), "@us hello")
    await porch.settle()
    assert len(porch.platform.said) == said
    assert len(porch.models.requests) == asked
    commands = [
        x for x in facts_of(porch, key_for(dm("u"), porch.ledger.book)) if isinstance(x, f.CommandAccepted)
    ]
    assert len(commands) == 1


@pytest.mark.parametrize("said", ["/queue half a sentence", "/steer half a sentence", "half a sentence"])
async def test_R15_what_waits_is_changed_without_the_word_of_its_command(porch: Porch, said: str) -> None:
    porch.models.will_hang()
    await porch.writes("a long question", dm("u"), "9")
    await porch.writes("/queue half a sen", dm("u"), "10")
    await change(porch, "10", dm("u"), said)
    (noted,) = (x for x in facts_of(porch, key_for(dm("u"), porch.ledger.book)) if isinstance(x, f.EditNoted))
    assert (noted.text, noted.in_time) == ("half a sentence", True)


async def test_R15_an_edit_comes_after_its_message_however_quick_it_is(porch: Porch) -> None:
    porch.models.will_say("ok")
    message = porch.message("half a sen", dm("u"), "5")
    first = asyncio.ensure_future(porch.door.hear(message.model_copy(update={"author": Author(id="u")})))
    await asyncio.sleep(0)
    receipt = await change(porch, "5", dm("u"), "half a sentence")
    assert (await first).acceptance is Acceptance.ACCEPTED
    assert receipt.acceptance is not Acceptance.OVERHEARD, "the session knew the message"


async def test_a_strangers_edit_reaches_nobody(porch: Porch) -> None:
    receipt = await change(porch, "1", dm("stranger"), "let me in")
    assert receipt.acceptance is Acceptance.OVERHEARD
    assert porch.roster.awake == set()
    nobody = Origin(platform="discord", chat_type=ChatType.GROUP)
    assert (await change(porch, "1", nobody, None)).acceptance is Acceptance.OVERHEARD
