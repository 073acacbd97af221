"""Codes: how strangers are let in, and how the owner shows that they are the owner."""

import json
import stat
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from actors.gateway import access_rules as rules
from actors.gateway import pairing
from actors.gateway.access import AccessBook
from actors.gateway.pairing import ALPHABET, ClaimFile, new_claim, new_code, normal
from messages.access import (
    ACCESS,
    AllowUser,
    AnyWish,
    ApprovePairing,
    MakeClaim,
    PairingOffered,
    RevokeUser,
    ShowAccess,
    ShowPending,
)
from messages.gateway import Acceptance, Author, MessageReceived, Role
from messages.ids import MessageId
from messages.settings import PlatformSettings
from tests.actors.gateway.porch import Porch, dm
from tests.fakes.clock import ManualClock

CLOSED = {"discord": PlatformSettings(), "discord/b": PlatformSettings()}


@pytest.fixture
async def porch() -> AsyncIterator[Porch]:
    async with Porch(platforms=CLOSED) as porch:
        yield porch


# ------------------------------------------------------------------ codes


def test_a_code_is_short_unambiguous_and_never_the_same() -> None:
    codes = {new_code() for _ in range(1000)}
    assert len(codes) == 1000
    assert all(len(normal(code)) == 8 and set(normal(code)) <= set(ALPHABET) for code in codes)
    assert not set("ILOU01") & set(ALPHABET)


@pytest.mark.parametrize(
    ("typed", "read"),
    [
        ("abcd-efgh", "ABCDEFGH"),
        (" ABCD EFGH ", "ABCDEFGH"),
        ("`ABCD\u2013EFGH`.", "ABCDEFGH"),
        ("ABCD-EFG", ""),
        ("ABCD-EFGHJ", ""),
        ("", ""),
        ("ABCD-EFG0", ""),
        ("\uff21\uff22\uff23\uff24\uff25\uff26\uff27\uff28", ""),
        ("ß" * 4, ""),
        ("\ud800" * 8, ""),
    ],
)
def test_a_code_may_be_typed_in_any_way_and_what_is_none_is_none(typed: str, read: str) -> None:
    assert normal(typed) == read


def test_only_the_code_itself_fits_its_digest() -> None:
    salt = pairing.new_salt()
    kept = pairing.digest("ABCD-EFGH", salt)
    assert "ABCD" not in kept
    assert pairing.matches("abcdefgh", salt, kept)
    assert not pairing.matches("ABCD-EFGJ", salt, kept)
    assert not pairing.matches("", salt, kept)
    assert not pairing.matches("ABCD-EFGH", pairing.new_salt(), kept)


# ------------------------------------------------------------------ pairing


async def test_a_stranger_is_told_a_code_and_let_in_by_it(porch: Porch) -> None:
    receipt = await porch.writes("hello", dm("7"))
    assert receipt.acceptance is Acceptance.REFUSED
    assert len(porch.platform.said) == 1
    said = porch.platform.said[0]
    assert (said.origin, said.reply_to) == (dm("7"), "m1")
    code = porch.code_told()
    assert porch.standing(dm("7")).role is None
    pending = (await porch.wishes(ShowPending())).pending
    assert [(each.account, each.user) for each in pending] == [("discord", "7")]
    answer = await porch.wishes(ApprovePairing(code=code.lower()))
    assert answer.done, answer
    assert "\n" not in answer.text, "a name is one harmless line"
    assert porch.standing(dm("7")).role is Role.USER
    assert porch.standing(dm("7", "b")).role is None, "on that account and no other"
    assert not (await porch.wishes(ApprovePairing(code=code))).done, "a code is good once"
    porch.models.will_say("welcome")
    assert (await porch.writes("hello again", dm("7"))).acceptance is Acceptance.ACCEPTED


async def test_the_code_is_kept_nowhere(porch: Porch) -> None:
    await porch.writes("hello", dm("7"))
    code = porch.code_told()
    kept = json.dumps([fact.model_dump(mode="json") for fact in porch.journal.facts(ACCESS)])
    assert code not in kept
    assert normal(code) not in kept


async def test_a_stranger_is_told_once_an_hour_and_three_at_a_time(porch: Porch) -> None:
    await porch.writes("hello", dm("1"))
    again = await porch.writes("hello?", dm("1"))
    assert again.acceptance is Acceptance.OVERHEARD
    for user in ("2", "3", "4", "5"):
        await porch.writes("hello", dm(user))
    assert [said.origin.user for said in porch.platform.said] == ["1", "2", "3"]
    await porch.writes("hello", dm("6", "b"))
    assert len(porch.platform.said) == 4, "each account counts for itself"
    await porch.clock.advance(3601)
    await porch.writes("hello", dm("4"))
    assert [said.origin.user for said in porch.platform.said][-1] == "4"
    code = porch.code_told()
    await porch.clock.advance(3601)
    assert not (await porch.wishes(ApprovePairing(code=code))).done, "an hour has gone by"


async def test_an_offer_that_cannot_be_stored_is_not_made(porch: Porch) -> None:
    porch.journal.will_fail_next_append()
    receipt = await porch.writes("hello", dm("7"))
    assert receipt.acceptance is Acceptance.REFUSED
    assert "could not be stored" in porch.platform.texts()[0]
    await porch.writes("hello", dm("7"))
    assert "code" in porch.platform.texts()[1]


async def test_who_was_let_in_stays_in_over_a_restart(porch: Porch) -> None:
    await porch.writes("hello", dm("7"))
    await porch.wishes(ApprovePairing(code=porch.code_told()))
    await porch.writes("hello", dm("8"))
    code = porch.code_told()
    await porch.restart()
    assert porch.standing(dm("7")).role is Role.USER
    assert (await porch.wishes(ApprovePairing(code=code))).done, "an offer outlives the process"


async def test_an_admin_lets_in_from_a_chat_and_a_user_cannot(porch: Porch) -> None:
    await porch.wishes(AllowUser(account="discord", user="a", role=Role.ADMIN))
    await porch.wishes(AllowUser(account="discord", user="u"))
    await porch.writes("hello", dm("7"))
    code = porch.code_told()
    await porch.writes(f"/access approve {code}", dm("u"))
    assert porch.standing(dm("7")).role is None
    assert "for an admin" in porch.platform.texts()[-1]
    await porch.writes("/access approve AAAA-AAAA", dm("a"))
    assert "Nobody waits with this code" in porch.platform.texts()[-1]
    await porch.writes(f"/access approve {code}", dm("a"))
    assert porch.standing(dm("7")).role is Role.USER


async def test_an_admin_of_one_account_lets_in_nobody_on_another(porch: Porch) -> None:
    await porch.wishes(AllowUser(account="discord", user="a", role=Role.ADMIN))
    await porch.writes("hello", dm("7", "b"))
    await porch.writes(f"/access approve {porch.code_told()}", dm("a"))
    assert porch.standing(dm("7", "b")).role is None


async def test_who_is_blocked_gets_no_code(porch: Porch) -> None:
    await porch.wishes(RevokeUser(account="discord", user="7", block=True))
    assert (await porch.writes("hello", dm("7"))).acceptance is Acceptance.OVERHEARD
    assert porch.platform.said == []


# ------------------------------------------------------------------ claims


async def test_the_owner_is_whoever_says_the_code_once(porch: Porch) -> None:
    made = await porch.wishes(MakeClaim(account="discord"))
    assert made.code in made.text
    await porch.writes("/claim AAAA-AAAA", dm("9"))
    assert porch.standing(dm("9")).role is None
    assert "not good" in porch.platform.texts()[-1]
    await porch.writes(f"/claim {made.code}", dm("7"))
    assert porch.standing(dm("7")).role is Role.OWNER
    assert "owner" in porch.platform.texts()[-1]
    await porch.writes(f"/claim {made.code}", dm("9"))
    assert porch.standing(dm("9")).role is None, "once"
    everything = json.dumps(
        [f.model_dump(mode="json") for s in porch.journal.streams for f in porch.journal.facts(s)]
    )
    assert made.code not in everything
    await porch.restart()
    assert porch.standing(dm("7")).role is Role.OWNER


async def test_a_claim_for_one_account_is_good_on_no_other(porch: Porch) -> None:
    made = await porch.wishes(MakeClaim(account="discord"))
    await porch.writes(f"/claim {made.code}", dm("7", "b"))
    assert porch.standing(dm("7", "b")).role is None
    anywhere = await porch.wishes(MakeClaim())
    await porch.writes(f"/claim {anywhere.code}", dm("7", "b"))
    assert porch.standing(dm("7", "b")).role is Role.OWNER
    assert not (await porch.wishes(MakeClaim(account="nowhere"))).done


async def test_a_code_that_was_made_in_the_data_folder_is_good(porch: Porch) -> None:
    code = new_claim(porch.home, "discord", clock=porch.clock)
    second = new_claim(porch.home, clock=porch.clock)
    assert stat.S_IMODE((porch.home / pairing.FILE).stat().st_mode) == 0o600
    assert code not in (porch.home / pairing.FILE).read_text()
    await porch.writes(f"/claim {code}", dm("7"))
    assert porch.standing(dm("7")).role is Role.OWNER
    assert not (porch.home / pairing.FILE).exists()
    await porch.restart()
    await porch.writes(f"/claim {second}", dm("8"))
    assert porch.standing(dm("8")).role is Role.OWNER


async def test_a_code_for_the_owner_expires(porch: Porch) -> None:
    code = new_claim(porch.home, clock=porch.clock)
    await porch.clock.advance(24 * 3600 + 1)
    await porch.writes(f"/claim {code}", dm("7"))
    assert porch.standing(dm("7")).role is None


async def test_nobody_may_guess_for_long(porch: Porch) -> None:
    made = await porch.wishes(MakeClaim())
    for n in range(5):
        await porch.writes(f"/claim AAAA-AAA{'ABCDEFGHJ'[n]}", dm("7"))
    await porch.writes(f"/claim {made.code}", dm("7"))
    assert porch.standing(dm("7")).role is None, "five guesses an hour"
    await porch.clock.advance(3601)
    await porch.writes(f"/claim {made.code}", dm("7"))
    assert porch.standing(dm("7")).role is Role.OWNER


async def test_a_wrong_code_is_met_with_silence_where_strangers_are() -> None:
    ignoring = {"discord": PlatformSettings.model_validate({"access": {"unknown_dm": "ignore"}})}
    async with Porch(platforms=ignoring) as porch:
        receipt = await porch.writes("/claim AAAA-AAAA", dm("7"))
        assert receipt.acceptance is Acceptance.OVERHEARD
        assert porch.platform.said == []
        made = await porch.wishes(MakeClaim())
        await porch.writes(f"/claim {made.code}", dm("7"))
        assert porch.standing(dm("7")).role is Role.OWNER


# ------------------------------------------------------------------ the file of claims


def test_a_file_that_others_can_read_or_that_makes_no_sense_is_not_used(tmp_path: Path) -> None:
    clock = ManualClock()
    new_claim(tmp_path, clock=clock)
    (tmp_path / pairing.FILE).chmod(0o644)
    assert ClaimFile(tmp_path).take() == ()
    for text in (
        "",
        "{",
        "[1]",
        '[{"kind": "claim_made"}]',
        "null",
        '"x"',
        "\ud800".encode("utf-8", "ignore").decode(),
    ):
        (tmp_path / pairing.FILE).write_text(text)
        (tmp_path / pairing.FILE).chmod(0o600)
        assert ClaimFile(tmp_path).take() == ()
    (tmp_path / pairing.FILE).write_bytes(b"\xff\xfe")
    (tmp_path / pairing.FILE).chmod(0o600)
    assert ClaimFile(tmp_path).take() == ()
    assert new_claim(tmp_path, clock=clock)
    assert len(ClaimFile(tmp_path).take()) == 1


def test_a_claim_survives_a_death_between_reading_and_writing_it_down(tmp_path: Path) -> None:
    clock = ManualClock()
    new_claim(tmp_path, clock=clock)
    first = ClaimFile(tmp_path)
    assert len(first.take()) == 1
    new_claim(tmp_path, clock=clock)
    after = ClaimFile(tmp_path)
    assert len(after.take()) == 2
    after.taken()
    assert after.take() == ()


def test_only_so_many_claims_wait(tmp_path: Path) -> None:
    clock = ManualClock()
    for _ in range(15):
        new_claim(tmp_path, clock=clock)
    assert len(ClaimFile(tmp_path).take()) == pairing.MOST_CLAIMS


# ------------------------------------------------------------------ who may do what


class Court:
    """Wishes, decided without an actor."""

    def __init__(self, **access: Any) -> None:
        settings = PlatformSettings.model_validate({"access": access})
        self.book = AccessBook.of_settings({"discord": settings})
        self.clock = ManualClock()

    def grants(self, wish: AnyWish, role: Role | None) -> rules.Outcome:
        return rules.grant(self.book, wish, rules.Asker("test", role), self.clock.now())


PEOPLE = {"owners": ["o"], "admins": ["a"], "users": ["u"]}


@pytest.mark.parametrize(
    ("wish", "asker", "done"),
    [
        (AllowUser(account="discord", user="x"), Role.USER, False),
        (AllowUser(account="discord", user="x"), Role.ADMIN, True),
        (AllowUser(account="discord", user="x", role=Role.ADMIN), Role.ADMIN, False),
        (AllowUser(account="discord", user="x", role=Role.OWNER), Role.ADMIN, False),
        (AllowUser(account="discord", user="x", role=Role.OWNER), Role.OWNER, True),
        (AllowUser(account="discord", user="o"), Role.ADMIN, False),
        (AllowUser(account="discord", user="a"), Role.ADMIN, False),
        (RevokeUser(account="discord", user="u"), Role.ADMIN, True),
        (RevokeUser(account="discord", user="u", block=True), Role.USER, False),
        (RevokeUser(account="discord", user="o", block=True), Role.ADMIN, False),
        (RevokeUser(account="discord", user="a"), Role.ADMIN, False),
        (RevokeUser(account="discord", user="a"), Role.OWNER, True),
        (ShowAccess(account="discord"), Role.USER, False),
        (ShowPending(account="discord"), Role.USER, False),
        (MakeClaim(account="discord"), Role.OWNER, False),
        (AllowUser(account="discord", user="*"), None, False),
        (AllowUser(account="discord", user=" "), None, False),
        (AllowUser(account="discord", user="x" * 600), None, False),
        (AllowUser(account="slack", user="x"), None, False),
        (AllowUser(account="discord", user="x", role=Role.OWNER), None, True),
    ],
)
def test_an_admin_lets_people_in_and_only_an_owner_makes_admins(
    wish: AnyWish, asker: Role | None, done: bool
) -> None:
    outcome = Court(**PEOPLE).grants(wish, asker)
    assert outcome.answer.done is done, outcome
    assert done or not outcome.facts


def test_what_holds_already_makes_no_new_fact() -> None:
    court = Court(**PEOPLE)
    assert court.grants(AllowUser(account="discord", user="u"), None).facts == ()
    assert court.grants(AllowUser(account="discord", user="o", role=Role.OWNER), None).facts == ()


def test_a_pairing_offer_keeps_little_of_what_a_stranger_says() -> None:
    court = Court()
    origin = dm("7")
    heard = MessageReceived(
        message_id=MessageId("m"),
        origin=origin,
        author=Author(id="7", name="x" * 5000),
        text="y",
        at=court.clock.now(),
    )
    fact = rules.offer(court.book.accounts["discord"], heard, "00", "11", court.clock.now())
    assert isinstance(fact, PairingOffered)
    assert len(fact.name) == 80
