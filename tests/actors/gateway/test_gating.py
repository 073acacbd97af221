"""The door, read as tables: what is for us, and who may say it to us."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from actors.gateway.access import AccessBook, AccessLedger
from actors.gateway.access_facts import apply
from actors.gateway.gating import Claims, Gate, LeftAlone, LetIn, Refused, Stranger, Verdict
from actors.gateway.overheard import LONGEST_LINE, Ears
from actors.gateway.session_key import key_for
from messages import access as a
from messages.gateway import (
    Author,
    ChatType,
    MessageDeleted,
    MessageEdited,
    MessageReceived,
    Origin,
    Quote,
    Role,
)
from messages.ids import MessageId
from messages.settings import PlatformSettings

NOW = datetime(2026, 5, 1, 12, tzinfo=UTC)
DM = Origin(platform="discord", chat_type=ChatType.DM, chat="d7", user="7")
GROUP = Origin(platform="discord", chat_type=ChatType.GROUP, server="s", chat="900", user="7")
THREAD = GROUP.model_copy(update={"chat_type": ChatType.THREAD, "thread": "1"})
OPEN: dict[str, Any] = {"users": ["*"], "user_per_minute": 1000, "chat_per_minute": 1000}


class Street:
    """A gate, and people before it."""

    def __init__(self, *, max_age_minutes: float | None = None, **access: Any) -> None:
        account = PlatformSettings.model_validate({"access": access, "max_age_minutes": max_age_minutes})
        self.ledger = AccessLedger(AccessBook.of_settings({"discord": account}))
        self.counted: list[str] = []
        self.gate = Gate(self.ledger, frozenset({"web"}), lambda _, why: self.counted.append(why))
        self.numbers = 0

    def said(self, text: str, origin: Origin = DM, *, t: float = 0, **more: Any) -> MessageReceived:
        self.numbers += 1
        author = Author(id=origin.user or "", name="Ann", bot=more.pop("bot", False))
        age = timedelta(seconds=more.pop("age_s", 0))
        at = NOW + timedelta(seconds=t)
        return MessageReceived(
            message_id=MessageId(more.pop("id", f"m{self.numbers}")),
            origin=origin,
            author=author,
            text=text,
            sent_at=at - age if age else None,
            at=at,
            **more,
        )

    def says(self, text: str, origin: Origin = DM, **more: Any) -> Verdict:
        heard = self.said(text, origin, **more)
        return self.gate.consider(heard, key_for(origin, self.ledger.book))

    def change(self, fact: a.Fact) -> None:
        self.ledger.book = apply(self.ledger.book, fact)


def by(user: str, origin: Origin = GROUP) -> Origin:
    return origin.model_copy(update={"user": user})


def let_in(verdict: Verdict) -> MessageReceived:
    assert isinstance(verdict, LetIn), verdict
    return verdict.heard


REPLY = Quote(message_id=MessageId("q"), ours=True)
REPLY_TO_BOB = Quote(message_id=MessageId("q"), author=Author(id="bob"), ours=False)


# ------------------------------------------------------------------ strangers


@pytest.mark.parametrize(
    ("access", "origin", "more", "verdict"),
    [
        ({}, DM, {}, Stranger()),
        ({"unknown_dm": "ignore"}, DM, {}, LeftAlone("stranger")),
        ({"blocked": ["7"]}, DM, {}, LeftAlone("blocked")),
        ({}, DM, {"bot": True}, LeftAlone("stranger")),
        ({}, GROUP, {"mentions_us": True}, LeftAlone("stranger")),
        ({}, GROUP, {"via": "command"}, LeftAlone("stranger")),
        ({"answer": "always"}, GROUP, {}, LeftAlone("stranger")),
        ({}, THREAD, {"quote": REPLY}, LeftAlone("stranger")),
        ({"users": ["8"]}, THREAD, {"mentions_us": True}, LeftAlone("stranger")),
    ],
)
def test_strangers_get_a_pairing_in_direct_messages_and_silence_elsewhere(
    access: dict[str, Any], origin: Origin, more: dict[str, Any], verdict: Verdict
) -> None:
    street = Street(**access)
    assert street.says("hello", origin, **more) == verdict
    assert len(street.gate.ears) == 0, "what strangers say is not kept"


def test_X01_a_name_opens_nothing() -> None:
    street = Street(owners=["Ann"], users=["ann", "Ann"], chats=["Ann"])
    assert street.says("hello", DM) == Stranger()
    assert street.says("hello", GROUP, mentions_us=True) == LeftAlone("stranger")


def test_whoever_uses_a_surface_of_ours_is_the_owner_and_never_kept_waiting() -> None:
    street = Street()
    web = Origin(platform="web", chat_type=ChatType.DM, chat="main")
    for _ in range(200):
        assert let_in(street.says("/access list", web)).author.role is Role.OWNER
    assert let_in(street.says("/new", web, age_s=900)).text == "/new"


def test_a_platform_that_takes_the_name_of_a_surface_gains_nothing_by_it() -> None:
    ledger = AccessLedger(AccessBook.of_settings({"web": PlatformSettings()}))
    gate = Gate(ledger, frozenset({"web"}))
    stranger = Street().said("/access allow me", DM.model_copy(update={"platform": "web"}))
    assert gate.consider(stranger, key_for(stranger.origin, ledger.book)) == Stranger()


def test_an_account_without_settings_is_never_listened_to() -> None:
    street = Street(users=["*"])
    assert street.says("hello", DM.model_copy(update={"platform": "slack"})) == LeftAlone("unknown_account")
    assert street.says("hello", DM.model_copy(update={"account": "b"})) == LeftAlone("unknown_account")


def test_the_edge_cannot_give_a_role() -> None:
    street = Street(users=["7"], admins=["8"])
    heard = street.said("hello", DM)
    forged = heard.model_copy(update={"author": heard.author.model_copy(update={"role": Role.OWNER})})
    verdict = street.gate.consider(forged, key_for(DM, street.ledger.book))
    assert let_in(verdict).author.role is Role.USER
    assert let_in(street.says("hello", by("8", DM))).author.role is Role.ADMIN


# ------------------------------------------------------------------ addressed


@pytest.mark.parametrize(
    ("access", "text", "more", "for_us"),
    [
        ({}, "hello", {}, False),
        ({}, "hello", {"mentions_us": True}, True),
        ({}, "hello", {"quote": REPLY}, True),
        ({}, "hello", {"quote": REPLY_TO_BOB}, False),
        ({}, "@everyone hello", {}, False),
        ({}, "/status", {"via": "command"}, True),
        ({}, "/approve 1", {"via": "button"}, True),
        ({}, "/status", {}, True),
        ({}, "/nonsense", {}, False),
        ({}, "/status@other_bot", {}, False),
        ({"answer": "always"}, "/status@other_bot", {}, False),
        ({}, "/status@our_bot", {"mentions_us": True}, True),
        ({}, "/status@our_bot", {"via": "command"}, True),
        ({"answer": "always"}, "hello", {}, True),
        ({"free_chats": ["900"]}, "hello", {}, True),
        ({"free_chats": ["901"]}, "hello", {}, False),
        ({"answer": "always", "quiet_chats": ["900"]}, "hello", {}, False),
        ({"answer": "always", "quiet_chats": ["900"]}, "/status", {}, False),
        ({"quiet_chats": ["900"]}, "/status", {"mentions_us": True}, True),
        ({"quiet_chats": ["900"], "free_chats": ["900"]}, "hello", {}, False),
    ],
)
def test_in_groups_only_what_is_said_to_us_is_answered(
    access: dict[str, Any], text: str, more: dict[str, Any], for_us: bool
) -> None:
    verdict = Street(**OPEN, **access).says(text, GROUP, **more)
    assert isinstance(verdict, LetIn) is for_us, verdict


@pytest.mark.parametrize(
    ("access", "for_us"),
    [
        ({"free_chats": ["900"]}, True),
        ({"free_chats": ["900:1"]}, True),
        ({"free_chats": ["900:2"]}, False),
        ({"free_chats": ["900"], "quiet_chats": ["900:1"]}, False),
        ({"quiet_chats": ["900"], "free_chats": ["900:1"]}, True),
    ],
)
def test_a_thread_is_as_its_chat_unless_it_is_listed_itself(access: dict[str, Any], for_us: bool) -> None:
    assert isinstance(Street(**OPEN, **access).says("hello", THREAD), LetIn) is for_us


def test_what_is_chosen_live_goes_before_the_settings() -> None:
    street = Street(**OPEN, quiet_chats=["900"])
    for value, for_us in (("free", True), ("quiet", False), ("default", False)):
        street.change(
            a.ChatSettingChosen.model_validate(
                {"account": "discord", "place": "900", "setting": "answering", "value": value, "at": NOW}
            )
        )
        assert isinstance(street.says("hello", GROUP), LetIn) is for_us


def test_in_direct_messages_everything_is_said_to_us() -> None:
    for text in ("hello", "/status", "/nonsense", "/status@any_bot"):
        let_in(Street(**OPEN).says(text, DM))


# ------------------------------------------------------------------ context


def test_what_was_not_said_to_us_is_context_for_what_is() -> None:
    street = Street(**OPEN)
    for n, user in enumerate(("7", "8", "9")):
        assert street.says(f"line {n}", by(user)) == LeftAlone("not_addressed")
    street.says("line 2 again", by("9"), id="m3")
    heard = let_in(street.says("and you?", GROUP, mentions_us=True))
    assert [(o.text, o.author.id) for o in heard.overheard] == [
        ("line 0", "7"),
        ("line 1", "8"),
        ("line 2", "9"),
    ]
    assert let_in(street.says("and now?", GROUP, mentions_us=True)).overheard == ()
    street.says("line 3", by("8"))
    assert [o.text for o in let_in(street.says("well?", GROUP, quote=REPLY)).overheard] == ["line 3"]


def test_where_people_have_conversations_of_their_own_each_is_given_the_context_once() -> None:
    street = Street(**OPEN)
    street.says("the plan is off", by("9"))
    for user in ("7", "8"):
        said = let_in(street.says("what now?", by(user), mentions_us=True))
        assert [o.text for o in said.overheard] == ["the plan is off"]
        assert let_in(street.says("sure?", by(user), mentions_us=True)).overheard == ()
    shared = Street(**OPEN, sessions="shared")
    shared.says("the plan is off", by("9"))
    assert len(let_in(shared.says("what now?", by("7"), mentions_us=True)).overheard) == 1
    assert let_in(shared.says("what now?", by("8"), mentions_us=True)).overheard == ()


def test_context_stays_in_its_place() -> None:
    street = Street(**OPEN)
    street.says("in the group", GROUP)
    street.says("in the thread", THREAD)
    other = GROUP.model_copy(update={"chat": "901"})
    assert let_in(street.says("?", other, mentions_us=True)).overheard == ()
    assert let_in(street.says("?", DM)).overheard == ()
    assert [o.text for o in let_in(street.says("?", THREAD, mentions_us=True)).overheard] == ["in the thread"]


def test_context_is_kept_for_messages_and_not_spent_on_orders() -> None:
    street = Street(**OPEN)
    street.says("the plan is off", by("9"))
    assert let_in(street.says("/status", GROUP, via="command")).overheard == ()
    assert len(let_in(street.says("/queue what now?", GROUP, via="command")).overheard) == 1


def test_context_is_bounded_and_can_be_switched_off() -> None:
    street = Street(**OPEN, overheard=3)
    for n in range(10):
        street.says(f"line {n}", GROUP)
    street.says("x" * 100_000, GROUP)
    lines = let_in(street.says("?", GROUP, mentions_us=True)).overheard
    assert [line.text[:6] for line in lines] == ["line 8", "line 9", "xxxxxx"]
    assert len(lines[-1].text) == LONGEST_LINE
    nothing = Street(**OPEN, overheard=0)
    nothing.says("line", GROUP)
    assert let_in(nothing.says("?", GROUP, mentions_us=True)).overheard == ()
    ears = Ears(most_places=5, most_lines=20)
    for n in range(200):
        ears.hear(n % 50, street.said(f"{n}", GROUP), 500)
    assert len(ears) <= 20
    assert len(ears._rings) <= 5
    assert len(ears) == sum(len(ring.lines) for ring in ears._rings.values())


def test_where_each_message_begins_a_thread_the_chats_lines_are_its_context() -> None:
    """A platform that answers in threads: a message of the channel is the beginning of its own."""

    def root(number: str, user: str = "7") -> Origin:
        return THREAD.model_copy(update={"thread": number, "user": user})

    street = Street(**OPEN)
    for number in ("r1", "r2"):
        assert street.says(f"line {number}", root(number, "8"), id=number) == LeftAlone("not_addressed")
    first = let_in(street.says("what happened?", root("r3"), id="r3", mentions_us=True))
    assert [o.text for o in first.overheard] == ["line r1", "line r2"]
    under = let_in(street.says("why?", root("r1"), id="m9", mentions_us=True))
    assert [o.text for o in under.overheard] == ["line r1"], "how the thread began"
    assert let_in(street.says("why?", root("r1"), id="m10", mentions_us=True)).overheard == ()
    quoting = Quote(message_id=MessageId("r2"), author=Author(id="8"), text="line r2")
    assert let_in(street.says("why?", root("r2"), id="m11", mentions_us=True, quote=quoting)).overheard == ()
    edit = MessageEdited(
        message_id=MessageId("r2"), origin=root("r2", "8"), author=Author(id="8"), text="x", at=NOW
    )
    assert street.gate.whose(edit) is None
    again = let_in(street.says("and?", root("r4"), id="r4", mentions_us=True))
    assert [o.text for o in again.overheard] == ["line r1", "x"]


def test_what_a_thread_began_under_is_told_to_its_conversation_once() -> None:
    street = Street(**OPEN)
    ours = Quote(message_id=MessageId(str(THREAD.thread)), text="It will rain.", ours=True)
    first = let_in(street.says("and tomorrow?", THREAD, id="m1", quote=ours))
    assert first.quote == ours
    second = let_in(street.says("and then?", THREAD, id="m2", quote=ours))
    assert second.quote == ours.model_copy(update={"text": ""}), "still a reply to us"
    other = Quote(message_id=MessageId("m1"), text="and tomorrow?")
    assert let_in(street.says("?", THREAD, id="m3", quote=other, mentions_us=True)).quote == other


def test_an_edit_or_a_deletion_of_what_was_overheard_changes_the_context() -> None:
    street = Street(**OPEN)
    street.says("meet at five", GROUP, id="a")
    street.says("my password is hunter2", GROUP, id="b")
    edit = MessageEdited(
        message_id=MessageId("a"), origin=GROUP, author=Author(id="7"), text="meet at six", at=NOW
    )
    gone = MessageDeleted(message_id=MessageId("b"), origin=by(""), at=NOW)
    assert street.gate.whose(edit) is None
    assert street.gate.whose(gone) is None
    assert [o.text for o in let_in(street.says("?", GROUP, mentions_us=True)).overheard] == ["meet at six"]


def test_R15_a_change_goes_to_the_conversation_of_the_message_itself() -> None:
    street = Street(**OPEN)
    let_in(street.says("hello", GROUP, id="a", mentions_us=True))
    gone = MessageDeleted(message_id=MessageId("a"), origin=GROUP.model_copy(update={"user": None}), at=NOW)
    assert street.gate.whose(gone) == key_for(GROUP, street.ledger.book)
    unknown = gone.model_copy(update={"message_id": MessageId("zz")})
    assert street.gate.whose(unknown) is None, "nobody knows whose it was"
    edit = MessageEdited(message_id=MessageId("zz"), origin=GROUP, author=Author(id="7"), text="x", at=NOW)
    assert street.gate.whose(edit) == key_for(GROUP, street.ledger.book), "it may be from an earlier life"
    closed = Street(users=["8"])
    assert closed.gate.whose(edit) is None


def test_R15_what_was_said_before_the_start_can_still_be_taken_back() -> None:
    """Platforms tell of a deletion without its author, and mostly without its thread."""
    street = Street(**OPEN)
    theirs = key_for(GROUP, street.ledger.book)
    street.gate.remember([(GROUP.model_copy(update={"user": None}), MessageId("old"), theirs)])
    gone = MessageDeleted(message_id=MessageId("old"), origin=GROUP.model_copy(update={"user": None}), at=NOW)
    assert street.gate.whose(gone) == theirs


# ------------------------------------------------------------------ programs


def test_programs_are_left_alone_but_their_lines_are_context() -> None:
    street = Street(**OPEN)
    assert street.says("build 7 failed", by("ci"), bot=True, mentions_us=True) == LeftAlone("program")
    assert street.says("build 7 failed", by("ci", DM), bot=True) == LeftAlone("program")
    assert [o.text for o in let_in(street.says("why?", GROUP, mentions_us=True)).overheard] == [
        "build 7 failed"
    ]


def test_two_programs_do_not_talk_for_ever() -> None:
    street = Street(**OPEN, bots="addressed", bot_turns=3, answer="always")
    bot = by("bot")
    said = [street.says("and you?", bot, bot=True, mentions_us=True) for _ in range(5)]
    assert [isinstance(each, LetIn) for each in said] == [True, True, True, False, False]
    assert said[-1] == LeftAlone("bot_loop")
    assert street.says("hm", bot, bot=True) == LeftAlone("not_addressed"), "also where everything is answered"
    let_in(street.says("stop it, you two", by("8"), mentions_us=True))
    let_in(street.says("sorry", bot, bot=True, mentions_us=True))


def test_programs_give_no_orders() -> None:
    street = Street(**OPEN, bots="addressed", owners=["bot"])
    for text in ("/new", "/approve 1", "/access allow 9", "/claim ABCD-EFGH"):
        for origin in (by("bot"), by("bot", DM)):
            assert street.says(text, origin, bot=True, mentions_us=True) == LeftAlone("program")


# ------------------------------------------------------------------ too late


@pytest.mark.parametrize(
    ("text", "age_s", "more", "carried_out"),
    [
        ("/new", 59, {}, True),
        ("/new", 61, {}, False),
        ("/stop", 300, {}, False),
        ("/restart", 300, {}, False),
        ("/stop", 300, {"via": "button"}, True),
        ("/stop", 901, {"via": "button"}, False),
        ("/status", 300, {"via": "command"}, True),
        ("/queue look at this", 300, {}, True),
        ("/queue", 300, {}, False),
        ("hello", 86_400, {}, True),
    ],
)
def test_A10_an_order_that_waited_too_long_is_not_carried_out(
    text: str, age_s: float, more: dict[str, Any], carried_out: bool
) -> None:
    verdict = Street(**OPEN).says(text, DM, age_s=age_s, **more)
    assert isinstance(verdict, LetIn) if carried_out else verdict == LeftAlone("stale_command")


def test_A10_messages_that_came_while_we_were_away_are_answered_or_told_of_once() -> None:
    street = Street(**OPEN)
    for n in range(3):
        let_in(street.says(f"message {n}", DM, age_s=300))
    strict = Street(**OPEN, max_age_minutes=2)
    verdicts = [strict.says(f"message {n}", DM, age_s=300, t=n) for n in range(3)]
    assert isinstance(verdicts[0], Refused)
    assert "I was away" in verdicts[0].text
    assert verdicts[1:] == [LeftAlone("away")] * 2
    assert strict.says("/restart", DM, age_s=300) == LeftAlone("stale_command")
    elsewhere = strict.says("and here", by("7", GROUP), age_s=300, mentions_us=True)
    assert isinstance(elsewhere, Refused), "one notice a chat"
    let_in(strict.says("fresh", DM, age_s=119))
    assert strict.says("not to us", GROUP, age_s=300) == LeftAlone("not_addressed")
    assert strict.counted.count("away") == 4


def test_A06_what_was_taken_before_the_start_and_comes_again_is_not_told_that_it_is_too_late() -> None:
    """Its session knows it, and says nothing; a notice would be the second answer."""
    street = Street(**OPEN, max_age_minutes=2)
    theirs = key_for(DM, street.ledger.book)
    street.gate.remember([(DM, MessageId("old"), theirs)])
    let_in(street.says("hello", DM, id="old", age_s=365))
    let_in(street.says("/new", DM, id="old", age_s=365))
    assert isinstance(street.says("hello", DM, id="other", age_s=365), Refused)


def test_a_clock_behind_the_platforms_makes_nothing_old() -> None:
    let_in(Street(**OPEN, max_age_minutes=1).says("/new", DM, age_s=-3600))


# ------------------------------------------------------------------ roles


@pytest.mark.parametrize(
    ("access", "text", "origin", "allowed"),
    [
        ({}, "/model x/y", GROUP, False),
        ({"admins": ["7"]}, "/model x/y", GROUP, True),
        ({"owners": ["7"]}, "/model x/y", GROUP, True),
        ({}, "/model x/y", DM, True),
        ({}, "/busy steer", DM, True),
        ({}, "/access allow 7", DM, False),
        ({}, "/sethome", DM, False),
        ({}, "/platforms", DM, False),
        ({"admins": ["7"]}, "/access list", DM, True),
        ({}, "/new", GROUP, True),
        ({}, "/whoami", GROUP, True),
        ({"command_roles": {"new": "admin"}}, "/new", GROUP, False),
        ({"command_roles": {"new": "admin"}}, "/new", DM, True),
        ({"command_roles": {"new": "owner"}}, "/new", DM, False),
        ({"command_roles": {"model": "user"}}, "/model x/y", GROUP, True),
        ({"command_roles": {"access": "user"}}, "/access list", DM, True),
        ({"admins": ["7"], "command_roles": {"access": "owner"}}, "/access list", GROUP, False),
    ],
)
def test_X08c_a_command_needs_its_role(
    access: dict[str, Any], text: str, origin: Origin, allowed: bool
) -> None:
    verdict = Street(**OPEN, **access).says(text, origin, via="command")
    assert isinstance(verdict, LetIn if allowed else Refused), verdict
    if isinstance(verdict, Refused):
        assert "`/" in verdict.text


# ------------------------------------------------------------------ too much


def test_one_person_cannot_say_more_than_is_taken() -> None:
    street = Street(users=["*"], user_per_minute=3, chat_per_minute=1000)
    verdicts = [street.says(f"{n}", GROUP, mentions_us=True, t=n) for n in range(6)]
    assert [type(v) for v in verdicts] == [LetIn, LetIn, LetIn, Refused, LeftAlone, LeftAlone]
    let_in(street.says("me?", by("8"), mentions_us=True, t=6))
    let_in(street.says("/stop", GROUP, t=6))
    let_in(street.says("again", GROUP, mentions_us=True, t=40))
    assert street.counted == ["limited"] * 3


def test_one_chat_cannot_say_more_than_is_taken() -> None:
    street = Street(users=["*"], user_per_minute=1000, chat_per_minute=4)
    verdicts = [street.says(f"{n}", by(f"u{n}"), mentions_us=True) for n in range(7)]
    assert [type(v) for v in verdicts] == [LetIn] * 4 + [Refused, LeftAlone, LeftAlone]
    threads = (
        street.says("x", THREAD, mentions_us=True),
        street.says("x", by("u9", THREAD), mentions_us=True),
    )
    assert set(threads) == {LeftAlone("limited")}, "its threads are part of the chat"
    let_in(street.says("elsewhere", GROUP.model_copy(update={"chat": "901"}), mentions_us=True))
    for n in range(100):
        assert street.says(f"{n}", GROUP) == LeftAlone("not_addressed"), (
            "what is not said to us costs nothing"
        )
    let_in(street.says("later", GROUP, mentions_us=True, t=60))


def test_what_was_said_while_we_were_away_counts_for_when_it_was_said() -> None:
    street = Street(users=["*"], user_per_minute=2, chat_per_minute=1000)
    for n in range(20):
        let_in(street.says(f"{n}", DM, age_s=3600 - 30 * n))
    burst = [street.says(f"{n}", DM, age_s=1) for n in range(4)]
    assert [isinstance(each, LetIn) for each in burst] == [True, True, False, False]


def test_a_message_that_comes_twice_counts_once() -> None:
    street = Street(users=["*"], user_per_minute=1, chat_per_minute=1000)
    street.says("before", GROUP)
    first = let_in(street.says("hello", GROUP, id="a", mentions_us=True))
    again = let_in(street.says("hello", GROUP, id="a", mentions_us=True))
    assert (len(first.overheard), len(again.overheard)) == (1, 0)


# ------------------------------------------------------------------ claims


def test_anybody_may_say_a_code_in_a_direct_message_and_nowhere_else() -> None:
    street = Street()
    claim = street.says("/claim ABCD-EFGH", DM)
    assert isinstance(claim, Claims)
    assert (claim.code, claim.known, claim.heard.author.role) == ("ABCD-EFGH", False, Role.USER)
    assert street.says("/claim ABCD-EFGH", GROUP) == LeftAlone("stranger")
    assert Street(blocked=["7"]).says("/claim ABCD-EFGH", DM) == LeftAlone("blocked")
    known = Street(users=["7"]).says("/claim abcd", DM)
    assert isinstance(known, Claims)
    assert known.known
    shouted = Street(**OPEN).says("/claim ABCD-EFGH", GROUP)
    assert isinstance(shouted, Refused)
    assert "direct message" in shouted.text


# ------------------------------------------------------------------ whatever comes

IDS = st.sampled_from(["1", "2", "3", "*", "1:2", "Ann", "", " 1", "\ud800"])
LISTS = (
    "owners",
    "admins",
    "users",
    "servers",
    "chats",
    "blocked",
    "free_chats",
    "quiet_chats",
    "shared_chats",
)


@st.composite
def anything(draw: st.DrawFn) -> tuple[dict[str, Any], dict[str, Any]]:
    access: dict[str, Any] = {name: draw(st.lists(IDS, max_size=3)) for name in LISTS}
    access |= {
        "answer": draw(st.sampled_from(["addressed", "always"])),
        "unknown_dm": draw(st.sampled_from(["pair", "ignore"])),
        "bots": draw(st.sampled_from(["ignore", "addressed"])),
        "overheard": draw(st.integers(0, 5)),
    }
    said = {
        "origin": Origin(
            platform="discord",
            server=draw(st.none() | IDS),
            chat_type=draw(st.sampled_from(list(ChatType))),
            chat=draw(IDS.filter(bool)),
            thread=draw(IDS.filter(bool)),
            user=draw(IDS),
        ),
        "text": draw(
            st.sampled_from(
                ["hi", "", "/stop", "/access allow 3", "/claim X", "/new@x", "@everyone", "/", "/\ud800"]
            )
            | st.text(max_size=20)
        ),
        "bot": draw(st.booleans()),
        "via": draw(st.sampled_from(["message", "command", "button"])),
        "mentions_us": draw(st.booleans()),
        "quote": draw(st.sampled_from([None, REPLY, REPLY_TO_BOB])),
        "age_s": draw(st.sampled_from([0, 30, 90, 1e6, -1e6])),
    }
    return access, said


def may_speak(access: dict[str, Any], origin: Origin) -> bool:
    """The rule once more, in other words."""
    user = origin.user or ""
    if user and user in access["blocked"]:
        return False
    if user and (user in access["users"] or "*" in access["users"]):
        return True
    if user and user != "*" and user in access["owners"] + access["admins"]:
        return True
    if origin.chat_type is ChatType.DM:
        return False
    chats = {entry.strip() for entry in access["chats"]}
    chat, topic = (part.replace(":", "%3A") for part in (origin.chat or "", origin.thread or ""))
    here = {chat, f"{chat}:{topic}"} if origin.chat_type is ChatType.THREAD else {chat}
    return bool(here & chats) or "*" in chats or bool(origin.server and origin.server in access["servers"])


@settings(max_examples=600, deadline=None)
@given(anything())
def test_whatever_comes_nobody_gets_in_who_may_not(made: tuple[dict[str, Any], dict[str, Any]]) -> None:
    access, said = made
    street = Street(**access)
    origin = said.pop("origin")
    verdict = street.says(said.pop("text"), origin, **said)
    if isinstance(verdict, LetIn):
        assert may_speak(access, origin)
        role = verdict.heard.author.role
        listed = {"owner": access["owners"], "admin": access["admins"]}.get(role.value)
        assert listed is None or origin.user in listed
        assert said["bot"] is False or access["bots"] == "addressed"
    if not may_speak(access, origin):
        assert isinstance(verdict, LeftAlone | Stranger | Claims)
        assert len(street.gate.ears) == 0
        if origin.chat_type is not ChatType.DM:
            assert isinstance(verdict, LeftAlone), "a stranger in a group is told nothing"
