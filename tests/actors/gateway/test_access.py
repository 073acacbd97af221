"""Who may talk to us, where, and in which role: read as tables."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from actors.gateway.access import (
    AccessBook,
    AccessLedger,
    Homes,
    Standing,
    place_parts,
    place_text,
)
from actors.gateway.access_facts import apply, fold
from actors.gateway.session_key import key_for, key_of, parse
from messages import access as a
from messages.gateway import ChatType, Origin, Role
from messages.settings import PlatformSettings, RouteSettings

AT = datetime(2026, 5, 1, 12, tzinfo=UTC)


def book(name: str = "discord", *, routes: tuple[RouteSettings, ...] = (), **access: Any) -> AccessBook:
    return AccessBook.of_settings({name: PlatformSettings.model_validate({"access": access})}, routes)


def dm(user: str = "500", **more: Any) -> Origin:
    return Origin(**{"platform": "discord", "chat_type": ChatType.DM, "chat": "500", "user": user, **more})


def group(user: str = "7", chat: str = "900", **more: Any) -> Origin:
    return Origin(**{"platform": "discord", "chat_type": ChatType.GROUP, "chat": chat, "user": user, **more})


def thread(user: str = "7", chat: str = "900", name: str = "1", **more: Any) -> Origin:
    origin = group(user, chat, **more)
    return origin.model_copy(update={"chat_type": ChatType.THREAD, "thread": name})


def standing(known: AccessBook, origin: Origin) -> Standing:
    account = known.account_of(origin)
    assert account is not None
    return account.standing(origin.user or "", origin)


def role(known: AccessBook, origin: Origin) -> Role | None:
    return standing(known, origin).role


# ------------------------------------------------------------------ settings


@pytest.mark.parametrize(
    ("access", "origin", "expected"),
    [
        ({}, dm(), None),
        ({}, group(), None),
        ({"users": ["7"]}, group("7"), Role.USER),
        ({"users": ["7"]}, dm("7"), Role.USER),
        ({"users": ["*"]}, dm("12345"), Role.USER),
        ({"admins": ["7"], "users": ["7"]}, dm("7"), Role.ADMIN),
        ({"owners": ["7"], "admins": ["7"]}, group("7"), Role.OWNER),
        ({"owners": ["7"], "blocked": ["7"]}, dm("7"), None),
        ({"users": ["*"], "blocked": ["7"]}, group("7"), None),
        ({"chats": ["900"], "blocked": ["7"]}, group("7"), None),
        ({"chats": ["900"]}, group("7", "900"), Role.USER),
        ({"chats": ["900"]}, group("7", "901"), None),
        ({"chats": ["*"]}, group("7", "901"), Role.USER),
        ({"chats": ["*"]}, dm("7"), None),
        ({"servers": ["s1"]}, group(server="s1"), Role.USER),
        ({"servers": ["s1"]}, group(server="s2"), None),
        ({"servers": ["s1"]}, group(), None),
        ({"chats": ["900"]}, thread(chat="900"), Role.USER),
        ({"chats": ["900:1"]}, thread(chat="900", name="1"), Role.USER),
        ({"chats": ["900:1"]}, thread(chat="900", name="2"), None),
        ({"chats": ["900:1"]}, group(chat="900"), None),
    ],
)
def test_the_settings_say_who_may_talk(access: dict[str, Any], origin: Origin, expected: Role | None) -> None:
    assert role(book(**access), origin) is expected


@pytest.mark.parametrize(
    ("access", "origin"),
    [
        ({"users": ["900"]}, group("7", "900")),  # a user's id that is a chat's
        ({"chats": ["7"]}, group("7", "900")),  # a chat's id that is a user's
        (
            {"chats": ["500"]},
            dm("500", chat="500"),
        ),  # a direct message's chat has its person's id on some platforms
        ({"servers": ["900"]}, group("7", "900")),
        ({"chats": ["s1"]}, group("7", "900", server="s1")),
        ({"users": ["s1"]}, group("7", "900", server="s1")),
        ({"users": ["1"]}, thread("7", "900", "1")),
        ({"chats": ["1"]}, thread("7", "900", "1")),
        ({"owners": ["*"], "admins": ["*"]}, dm("7")),  # not everybody is an owner
        ({"owners": ["*"]}, dm("*")),
        ({"users": ["07"]}, group("7")),
        ({"users": ["7 "]}, group("7")),
        ({"users": ["Ann"]}, group("ann")),
        ({"chats": ["a:b"]}, group("7", "a:b")),  # that is the thread b of the chat a
        ({"chats": ["a%3Ab"]}, thread("7", "a", "b")),
    ],
)
def test_an_id_in_one_list_never_matches_in_another(access: dict[str, Any], origin: Origin) -> None:
    assert role(book(**access), origin) is None


def test_mail_addresses_are_the_same_in_capitals() -> None:
    """Edges tell them in small letters; operators write them as they stand in signatures."""
    known = book("email", owners=["Ann@Example.org"], users=["*"], blocked=["Spam@X.org"])
    mails = {"platform": "email", "chat": "x"}
    assert role(known, dm("ann@example.org", **mails)) is Role.OWNER
    assert standing(known, dm("spam@x.org", **mails)) == Standing(None, "blocked")
    assert standing(known, dm("SPAM@x.org", **mails)) == Standing(None, "blocked")
    closed = book("email", users=["kim@x.org", "@Ann:hs.org"])
    assert role(closed, dm("\u212aim@x.org", **mails)) is None, "nobody's capital K"
    assert role(closed, dm("@ann:hs.org", **mails)) is None, "other ids are as they are"
    assert role(closed, dm("@Ann:hs.org", **mails)) is Role.USER


def test_a_colon_in_an_id_is_written_as_in_targets() -> None:
    for spelled in ("!room%3Aserver", "!room%3aserver"):
        assert role(book(chats=[spelled]), group("7", "!room:server")) is Role.USER
    assert role(book(chats=["!room%3Aserver:$t%3A1"]), thread("7", "!room:server", "$t:1")) is Role.USER


@given(st.text(min_size=1), st.none() | st.text(min_size=1))
def test_a_place_reads_back_as_it_was_written(chat: str, topic: str | None) -> None:
    text = place_text(chat, topic)
    if text == text.strip() and "%" not in chat + (topic or ""):
        assert place_parts(text) == (chat, topic)


def test_R04_access_holds_for_one_account_and_no_other() -> None:
    both = AccessBook.of_settings(
        {
            "telegram/work": PlatformSettings.model_validate({"access": {"users": ["500"]}}),
            "telegram/home": PlatformSettings(),
        }
    )
    work = dm(platform="telegram", account="work")
    home = work.model_copy(update={"account": "home"})
    assert (role(both, work), role(both, home)) == (Role.USER, None)
    given = fold(both, [a.RoleGiven(account="telegram/home", user="500", role=Role.ADMIN, at=AT)])
    assert (role(given, work), role(given, home)) == (Role.USER, Role.ADMIN)
    keys = {key_for(origin, both) for origin in (work, home)}
    assert len(keys) == 2
    assert {parse(key).account for key in keys} == {"work", "home"}


def test_an_account_that_the_settings_do_not_name_has_no_rules() -> None:
    known = fold(book(), [a.RoleGiven(account="slack", user="1", role=Role.USER, at=AT)])
    assert known.account_of(dm(platform="slack")) is None
    assert known.account_of(dm(platform="web")) is None


def test_where_only_who_knows_a_secret_is_heard_all_who_are_heard_may_speak() -> None:
    plain = PlatformSettings()
    named = PlatformSettings.model_validate({"access": {"users": ["1"]}})
    known = AccessBook.of_settings({"hook": plain, "hook/b": named}, (), {}, frozenset({"hook", "hook/b"}))
    assert role(known, group("x", platform="hook")) is Role.USER
    assert role(known, group("x", platform="hook", account="b")) is None


# ------------------------------------------------------------------ live changes


def live(kind: type[a.Fact], **given: Any) -> a.Fact:
    return kind.model_validate({"account": "discord", "at": AT, "by": "cli", **given})


@pytest.mark.parametrize(
    ("access", "fact", "origin", "expected"),
    [
        ({}, live(a.RoleGiven, user="7", role=Role.USER), dm("7"), Role.USER),
        ({"blocked": ["7"]}, live(a.RoleGiven, user="7", role=Role.USER), dm("7"), Role.USER),
        ({"owners": ["7"]}, live(a.RoleGiven, user="7", role=Role.USER), dm("7"), Role.USER),
        ({"owners": ["7"]}, live(a.UserRevoked, user="7"), dm("7"), None),
        ({"users": ["*"]}, live(a.UserRevoked, user="7"), dm("7"), None),
        ({"chats": ["900"]}, live(a.UserRevoked, user="7"), group("7"), Role.USER),
        ({"chats": ["900"]}, live(a.UserRevoked, user="7", blocked=True), group("7"), None),
        ({}, live(a.PairingAccepted, user="7"), dm("7"), Role.USER),
        ({}, live(a.ClaimTaken, user="7", salt="00"), dm("7"), Role.OWNER),
        ({}, live(a.PlaceAllowed, what="chat", place="900"), group("7"), Role.USER),
        ({}, live(a.PlaceAllowed, what="chat", place="900"), thread("7"), Role.USER),
        ({}, live(a.PlaceAllowed, what="chat", place="7"), dm("7"), None),
        ({"chats": ["900"]}, live(a.PlaceRevoked, what="chat", place="900"), group("7"), None),
        ({"chats": ["*"]}, live(a.PlaceRevoked, what="chat", place="900"), group("7"), None),
        ({"chats": ["900"]}, live(a.PlaceRevoked, what="chat", place="900:1"), thread("7"), None),
        ({"chats": ["900"]}, live(a.PlaceRevoked, what="chat", place="900:1"), group("7"), Role.USER),
        ({"servers": ["s"]}, live(a.PlaceRevoked, what="chat", place="900"), group("7", server="s"), None),
        ({"servers": ["s"]}, live(a.PlaceRevoked, what="server", place="s"), group("7", server="s"), None),
        ({}, live(a.PlaceAllowed, what="server", place="s"), group("7", server="s"), Role.USER),
    ],
)
def test_what_operators_change_goes_before_the_settings(
    access: dict[str, Any], fact: a.Fact, origin: Origin, expected: Role | None
) -> None:
    assert role(apply(book(**access), fact), origin) is expected


def test_an_older_book_is_not_changed_by_a_newer_fact() -> None:
    old = book()
    new = apply(old, live(a.RoleGiven, user="7", role=Role.ADMIN))
    assert (role(old, dm("7")), role(new, dm("7"))) == (None, Role.ADMIN)


def test_the_last_word_counts() -> None:
    facts = [
        live(a.RoleGiven, user="7", role=Role.ADMIN),
        live(a.UserRevoked, user="7", blocked=True),
        live(a.RoleGiven, user="7", role=Role.USER),
    ]
    assert role(fold(book(), facts), dm("7")) is Role.USER
    assert standing(fold(book(), facts[:2]), dm("7")) == Standing(None, "blocked")


# ------------------------------------------------------------------ whose conversation


@pytest.mark.parametrize(
    ("access", "facts", "origin", "shared"),
    [
        ({}, [], group(), False),
        ({}, [], thread(), True),
        ({"sessions": "shared"}, [], group(), True),
        ({"threads": "per_user"}, [], thread(), False),
        ({"shared_chats": ["900"]}, [], group(), True),
        ({"shared_chats": ["901"]}, [], group(), False),
        ({}, [live(a.ChatSettingChosen, place="900", setting="sharing", value="shared")], group(), True),
        (
            {"shared_chats": ["900"]},
            [live(a.ChatSettingChosen, place="900", setting="sharing", value="per_user")],
            group(),
            False,
        ),
        (
            {},
            [live(a.ChatSettingChosen, place="900:1", setting="sharing", value="per_user")],
            thread(),
            False,
        ),
        ({}, [live(a.ChatSettingChosen, place="900", setting="sharing", value="per_user")], thread(), True),
    ],
)
def test_a_group_has_a_conversation_for_each_or_one_for_all(
    access: dict[str, Any], facts: list[a.Fact], origin: Origin, shared: bool
) -> None:
    known = fold(book(**access), facts)
    ann, bob = (origin.model_copy(update={"user": user}) for user in ("ann", "bob"))
    assert (key_for(ann, known) == key_for(bob, known)) is shared


def test_surfaces_of_ours_keep_their_keys() -> None:
    for origin in (dm(platform="web"), group(platform="terminal"), thread(platform="api")):
        assert key_for(origin, book(sessions="shared", threads="per_user")) == key_of(origin)


ROUTES = (
    RouteSettings(profile="night", platform="discord", thread="9"),
    RouteSettings(profile="work", platform="discord", server="s1", user="7"),
    RouteSettings(profile="ops", chat="900"),
    RouteSettings(profile="home", platform="telegram/home"),
)


@pytest.mark.parametrize(
    ("origin", "profile"),
    [
        (group("7", "1", server="s1"), "work"),
        (group("8", "1", server="s1"), "main"),
        (group("8", "900", server="s1"), "ops"),
        (group("7", "900", server="s1"), "work"),
        (thread("7", "900", "9", server="s1"), "night"),
        (thread("8", "900", "1"), "ops"),
        (dm("7"), "main"),
    ],
)
def test_the_first_route_that_fits_names_the_profile(origin: Origin, profile: str) -> None:
    known = book(routes=ROUTES)
    assert known.profile_of(origin) == profile
    assert parse(key_for(origin, known)).profile == profile


# ------------------------------------------------------------------ chats that move

MOVED = live(a.ChatIdChanged, old="-100", new="-100200")


def test_R12_a_chat_that_moved_keeps_its_conversation_its_lists_and_its_choices() -> None:
    before = book(chats=["-100"], shared_chats=["-100"], free_chats=["-100"])
    after = apply(before, MOVED)
    old, new = group("7", "-100"), group("7", "-100200")
    assert role(before, new) is None
    assert role(after, new) is Role.USER
    assert key_for(new, after) == key_for(old, after) == key_for(old, before)
    account = after.account_of(new)
    assert account is not None
    assert account.answers_everything(new)
    assert after.posted_to(old).chat == "-100200"
    assert after.posted_to(new) == new


def test_R12_entries_that_name_the_new_id_count_too_and_so_do_live_ones() -> None:
    after = apply(book(chats=["-100200"], quiet_chats=["-100200"], answer="always"), MOVED)
    assert role(after, group("7", "-100200")) is Role.USER
    early = fold(
        book(),
        [
            live(a.PlaceAllowed, what="chat", place="-100200"),
            live(a.ChatSettingChosen, place="-100200:5", setting="answering", value="free"),
            MOVED,
        ],
    )
    assert role(early, group("7", "-100200")) is Role.USER
    account = early.account_of(group())
    assert account is not None
    assert account.answers_everything(thread("7", "-100200", "5"))
    revoked = apply(early, live(a.PlaceRevoked, what="chat", place="-100200"))
    assert role(revoked, group("7", "-100200")) is None


def test_R12_a_chat_may_move_again_and_even_back() -> None:
    twice = fold(book(chats=["-100"]), [MOVED, live(a.ChatIdChanged, old="-100200", new="-100300")])
    keys = {key_for(group("7", chat), twice) for chat in ("-100", "-100200", "-100300")}
    assert len(keys) == 1
    assert {twice.posted_to(group("7", chat)).chat for chat in ("-100", "-100200")} == {"-100300"}
    assert role(twice, group("7", "-100300")) is Role.USER
    back = apply(twice, live(a.ChatIdChanged, old="-100300", new="-100"))
    assert back.posted_to(group("7", "-100300")).chat == "-100"
    late = fold(book(), [live(a.ChatIdChanged, old="b", new="c"), live(a.ChatIdChanged, old="a", new="b")])
    assert len({key_for(group("7", chat), late) for chat in "abc"}) == 1
    assert late.posted_to(group("7", "a")).chat == "c"


def test_R12_a_move_on_one_account_moves_nothing_on_another() -> None:
    two = AccessBook.of_settings({"discord": PlatformSettings(), "discord/b": PlatformSettings()})
    after = apply(two, MOVED)
    assert after.posted_to(group("7", "-100", account="b")).chat == "-100"


def test_the_home_chat_is_chosen_live_and_follows_a_move() -> None:
    ledger = AccessLedger(AccessBook.of_settings({"discord": PlatformSettings(home="-100:4")}))
    homes = Homes(ledger, ["discord"])
    assert dict(homes) == {"discord": "-100:4"}
    ledger.book = apply(ledger.book, MOVED)
    assert homes["discord"] == "-100200:4"
    ledger.book = apply(ledger.book, live(a.HomeChosen, place="!r%3As"))
    assert homes["discord"] == "!r%3As"
    ledger.book = apply(ledger.book, live(a.HomeChosen, place=""))
    assert homes["discord"] == "-100200:4"
    assert "slack" not in homes
    with pytest.raises(KeyError):
        homes["slack"]


# ------------------------------------------------------------------ codes


def test_an_offer_is_gone_once_something_was_decided_about_the_person() -> None:
    offer = live(a.PairingOffered, user="7", salt="00", digest="11", expires_at=AT + timedelta(hours=1))
    waiting = apply(book(), offer)
    for fact in (
        live(a.PairingAccepted, user="7"),
        live(a.UserRevoked, user="7", blocked=True),
        live(a.RoleGiven, user="7", role=Role.USER),
    ):
        assert apply(waiting, fact).accounts["discord"].offers == ()
    assert len(apply(waiting, offer).accounts["discord"].offers) == 1


def test_a_claim_is_good_once() -> None:
    claim = a.ClaimMade(account="", salt="aa", digest="bb", expires_at=AT + timedelta(days=1), at=AT)
    made = apply(book(), claim)
    assert made.claims == (claim,)
    taken = apply(made, live(a.ClaimTaken, user="7", salt="aa"))
    assert taken.claims == ()
    assert role(taken, dm("7")) is Role.OWNER


def test_what_has_expired_is_forgotten() -> None:
    known = book()
    for n in range(100):
        at = AT + timedelta(hours=n)
        ends = at + timedelta(hours=2)
        offer = live(a.PairingOffered, user=f"u{n}", salt="00", digest="11", expires_at=ends, at=at)
        claim = a.ClaimMade(account="", salt=f"{n}", digest="bb", expires_at=ends, at=at)
        known = fold(known, (offer, claim))
    assert len(known.accounts["discord"].offers) == 2
    assert len(known.claims) == 2


@pytest.mark.parametrize(
    ("access", "facts", "somebody"),
    [
        ({}, [], False),
        ({"blocked": ["7"]}, [], False),
        ({"servers": ["s"]}, [], True),
        ({}, [live(a.RoleGiven, user="7", role=Role.USER)], True),
        ({}, [live(a.UserRevoked, user="7")], False),
        ({}, [live(a.PlaceAllowed, what="chat", place="900")], True),
        ({}, [live(a.PlaceRevoked, what="chat", place="900")], False),
    ],
)
def test_whether_there_is_anybody_who_may_talk(
    access: dict[str, Any], facts: list[a.Fact], somebody: bool
) -> None:
    assert fold(book(**access), facts).accounts["discord"].lets_anybody_in is somebody
