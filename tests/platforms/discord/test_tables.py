"""What is pure beside the translation: error codes, waits, commands, options, the entry itself."""

import subprocess
import sys
from datetime import UTC, datetime

import pytest
from pydantic import ValidationError

from actors.gateway.commands import COMMANDS
from actors.gateway.edge import LastHeard, OfferedCommand
from actors.gateway.platforms.discord import PLATFORM
from actors.gateway.platforms.discord.commands import differ, wanted
from actors.gateway.platforms.discord.directory import Channel
from actors.gateway.platforms.discord.errors import CLOSES, CODES, of_answer, of_close
from actors.gateway.platforms.discord.gateway import pause
from actors.gateway.platforms.discord.missed import Gaps, channel_marks
from actors.gateway.platforms.discord.options import DiscordOptions
from messages.delivery import ProblemKind
from messages.settings import PlatformSettings

K = ProblemKind


def test_every_code_says_what_it_means() -> None:
    for code, (kind, words) in CODES.items():
        error = of_answer(400, {"code": code, "message": "said"}, {})
        assert (error.problem.kind, error.code) == (kind, code)
        assert words in error.problem.detail


@pytest.mark.parametrize(
    ("status", "body", "kind"),
    [
        (400, {"code": 99999, "message": "new"}, K.REFUSED),
        (401, None, K.NEEDS_HUMAN),
        (403, {"code": 0}, K.TARGET_GONE),
        (404, "<html>", K.TRANSIENT),
        (418, {}, K.REFUSED),
        (500, "oops", K.UNKNOWN),
        (502, "<html>", K.UNKNOWN),
        (301, None, K.REFUSED),
        (429, {"retry_after": "soon"}, K.RATE_LIMITED),
        (400, {"code": True, "message": 5, "errors": [1]}, K.REFUSED),
    ],
)
def test_answers_without_a_known_code(status: int, body: object, kind: K) -> None:
    assert of_answer(status, body, {}).problem.kind is kind


def test_the_field_that_was_wrong_is_named() -> None:
    errors = {"content": {"_errors": [{"code": "X", "message": "Must be 2000 or fewer in length."}]}}
    detail = of_answer(
        400, {"code": 50035, "message": "Invalid Form Body", "errors": errors}, {}
    ).problem.detail
    assert "content: Must be 2000 or fewer" in detail


def test_rate_limits_say_how_long_and_for_whom() -> None:
    one = of_answer(429, {"retry_after": 1.5, "global": False}, {})
    assert (one.problem.retry_after_s, one.problem.whole_account) == (1.5, False)
    every = of_answer(429, {"retry_after": 1e12, "global": True}, {})
    assert (every.problem.retry_after_s, every.problem.whole_account) == (3600.0, True)
    banned = of_answer(429, "<html>error code: 1015</html>", {})
    assert (banned.problem.retry_after_s, banned.problem.whole_account) == (60.0, True)
    assert of_answer(429, "<html>", {"Retry-After": "7"}).problem.retry_after_s == 7.0


def test_A01_which_codes_end_it() -> None:
    assert {code for code, close in CLOSES.items() if close.fatal} == {4004, 4010, 4011, 4012, 4013, 4014}
    assert not of_close(4009).resume
    for code in (None, 1006, 4000, 4008, 4999):
        assert of_close(code).resume
        assert not of_close(code).fatal


def test_A01_waits_grow_and_stay_short_where_nobody_answers() -> None:
    assert pause(1, 1.0, refused=False) <= 0.5
    assert [pause(n, 1.0, refused=True) for n in (2, 3, 4, 20)] == [0.5, 1.0, 1.5, 1.5]
    assert [pause(n, 1.0, refused=False) for n in (2, 4, 6, 20)] == [0.5, 2.0, 8.0, 15.0]
    assert pause(10_000, 0.0, refused=False) == 7.5


def test_A24_where_gaps_begin() -> None:
    now = datetime(2026, 1, 1, tzinfo=UTC)
    marks = channel_marks(
        {
            "1:2": LastHeard(message_id="50", at=now),
            "3": LastHeard(message_id="60", at=now),
            "@7": LastHeard(message_id="70", at=now),
            "4": LastHeard(message_id="odd", at=now),
        }
    )
    assert marks == {"2": "50", "3": "60"}
    base = 1_400_000_000_000_000_000
    gaps = Gaps.since({"2": str(base)}, now.timestamp())
    channels = [
        Channel("2", "g", 0, last=str(base + 1)),
        Channel("5", "g", 0, last=str(base)),
        Channel("6", "g", 0, last="1"),
        Channel("7", "g", 0),
    ]
    assert [channel for channel, _ in gaps.close(channels)] == ["2"]
    young = str((int(now.timestamp() * 1000) - 1_420_070_400_000) << 22)
    gaps = Gaps.since({"2": young}, now.timestamp())
    stranger = Channel("8", "g", 0, last=str(int(young) + 1))
    assert [channel for channel, _ in gaps.close([stranger])] == ["8"]
    assert gaps.take("2") == young
    assert gaps.take("2") is None
    assert Gaps.since({}, now.timestamp()).close([stranger]) == []


def test_our_commands_fit_discord() -> None:
    offered = [OfferedCommand(name=c.name, argument=c.argument, summary=c.summary) for c in COMMANDS]
    forms = wanted(offered)
    assert len(forms) == len(COMMANDS)
    for form in forms:
        assert 1 <= len(form["description"]) <= 100
    there = [
        {**form, "id": "1", "version": "2", "nsfw": False, "options": form.get("options")} for form in forms
    ]
    assert not differ(there, forms)
    assert differ(there[1:], forms)
    assert differ([{**there[0], "description": "other"}, *there[1:]], forms)
    assert differ("odd", forms)
    assert differ([None], forms)
    assert wanted([OfferedCommand(name="No Good", argument="", summary="")]) == []


@pytest.mark.parametrize("token", ["", "two words", "line\nbreak", "ünicode"])
def test_a_token_that_cannot_be_one(token: str) -> None:
    with pytest.raises(ValidationError):
        DiscordOptions.model_validate({"token": token})


def test_options_are_forgiving_where_they_can_be() -> None:
    options = DiscordOptions.model_validate({"token": " Bot abc.def \n", "api": "http://127.0.0.1:1/api/"})
    assert options.token.get_secret_value() == "abc.def"
    assert options.api == "http://127.0.0.1:1/api"
    with pytest.raises(ValidationError):
        DiscordOptions.model_validate({"token": "abc", "api": "ftp://x"})
    assert "abc" not in repr(options)


def test_the_settings_hide_the_token() -> None:
    assert "abc.def" not in repr(PlatformSettings.model_validate({"options": {"token": "abc.def"}}))


def test_the_entry_loads_without_the_sdk() -> None:
    assert PLATFORM.name == "discord"
    code = (
        "import sys; from actors.gateway.registry import Registry; "
        "entry = Registry.discover().get('discord'); "
        "assert not {'discord', 'aiohttp'} & set(sys.modules), 'loaded'; print(entry.title)"
    )
    told = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert told.stdout.strip() == "Discord", told.stderr
