"""The table of errors, the options, the names of files, and how the registry sees it all."""

import json
import subprocess
import sys
from datetime import UTC, datetime
from typing import Any

import pytest
from pydantic import ValidationError

from actors.gateway.edge import LastHeard
from actors.gateway.platforms.slack import PLATFORM
from actors.gateway.platforms.slack.errors import (
    BAD_BLOCKS,
    DRAFT_GONE,
    NEEDS_HUMAN,
    TARGET_GONE,
    TOO_LONG,
    TRANSIENT,
    UNKNOWN,
    error_of,
    is_truncated,
    retry_after,
)
from actors.gateway.platforms.slack.gap import missed
from actors.gateway.platforms.slack.options import SlackOptions
from actors.gateway.registry import Registry
from messages.delivery import ProblemKind

TOKENS = {"bot_token": "xoxb-1", "app_token": "xapp-1", "signing_secret": "s"}


def kind(code: str, status: int = 200, *, writes: bool = True) -> ProblemKind:
    return error_of("chat.postMessage", status, {"ok": False, "error": code}, {}, writes=writes).problem.kind


def test_every_code_of_the_tables_has_its_kind() -> None:
    for table, expected in (
        (NEEDS_HUMAN, ProblemKind.NEEDS_HUMAN),
        (TARGET_GONE, ProblemKind.TARGET_GONE),
        (TRANSIENT, ProblemKind.TRANSIENT),
        (UNKNOWN, ProblemKind.UNKNOWN),
    ):
        assert {kind(code) for code in table} == {expected}
    assert not NEEDS_HUMAN.keys() & TARGET_GONE.keys() & TRANSIENT.keys() & UNKNOWN.keys()
    assert {kind(code) for code in TOO_LONG | BAD_BLOCKS | DRAFT_GONE} == {ProblemKind.REFUSED}


def test_what_the_tables_do_not_have() -> None:
    assert kind("a_code_of_next_year") is ProblemKind.REFUSED
    assert kind("", 502) is ProblemKind.UNKNOWN
    assert kind("", 502, writes=False) is ProblemKind.TRANSIENT
    assert kind("internal_error", writes=False) is ProblemKind.TRANSIENT
    assert kind("", 429) is ProblemKind.RATE_LIMITED
    odd: Any
    for odd in (None, [], "x", {"error": 5}, {"error": ["x"]}):
        assert error_of("m", 500, odd, {}, writes=True).problem.kind is ProblemKind.UNKNOWN


def test_a_detail_says_what_is_to_be_done() -> None:
    answer = {"ok": False, "error": "missing_scope", "needed": "files:write", "provided": "chat:write"}
    detail = error_of("files.getUploadURLExternal", 200, answer, {}, writes=True).problem.detail
    assert "files:write" in detail
    assert "OAuth & Permissions" in detail


@pytest.mark.parametrize(
    ("told", "seconds"),
    [("7", 7), ("0.5", 0.5), ("", 30), ("soon", 30), ("-1", 30), ("1e9", 30), ("99999999", 3600), ("٣", 30)],
)
def test_how_long_to_wait(told: str, seconds: float) -> None:
    assert retry_after({"Retry-After": told}) == seconds


def test_D09_warnings_of_truncation_in_every_place() -> None:
    assert is_truncated({"warning": "message_truncated"})
    assert is_truncated({"response_metadata": {"warnings": ["message_truncated"]}})
    assert is_truncated({"response_metadata": {"messages": ["[WARN] text was truncated"]}})
    for fine in (
        {},
        {"warning": "missing_charset"},
        {"response_metadata": None},
        {"response_metadata": {"warnings": 5}},
    ):
        assert not is_truncated(fine)


def test_options() -> None:
    options = SlackOptions.model_validate(TOKENS)
    assert options.mode == "socket"
    assert options.reply_in_thread
    assert "xoxb" not in repr(options)
    SlackOptions.model_validate({**TOKENS, "mode": "events", "app_token": None})


@pytest.mark.parametrize(
    ("more", "word"),
    [
        ({"bot_token": "xapp-1"}, "app-level"),
        ({"app_token": "xoxb-1"}, "xapp-"),
        ({"app_token": None}, "app_token"),
        ({"mode": "events", "signing_secret": None}, "signing_secret"),
        ({"listen": "8083"}, "HOST:PORT"),
        ({"listen": "0.0.0.0:99999"}, "HOST:PORT"),
        ({"base_url": "http://slack.com/api"}, "https"),
        ({"signing_secret": " "}, "empty"),
        ({"tokn": "x"}, "Extra"),
    ],
)
def test_options_that_cannot_be(more: dict[str, str | None], word: str) -> None:
    with pytest.raises(ValidationError, match=word):
        SlackOptions.model_validate({**TOKENS, **more})


def test_where_to_look_after_a_gap() -> None:
    def at(seconds: float, message_id: str | None = None) -> LastHeard:
        when = datetime.fromtimestamp(seconds, UTC)
        return LastHeard(message_id=message_id or f"{seconds:.6f}", at=when)

    now = 1_700_100_000.0
    found = missed(
        {
            "C1": at(now - 50),
            "C1:1.1": at(now - 10),
            "C2": at(now - 500_000),
            "@U1": at(now - 5),
            "D1": at(now - 20, "trigger.id"),
            **{f"C3:{n}.1": at(now - n) for n in range(40)},
        },
        now,
    )
    assert set(found) == {"C1", "C2", "C3", "D1"}
    assert found["C1"].oldest == now - 10
    assert found["C2"].oldest == now - 86_400
    assert found["D1"].oldest == now - 20
    assert len(found["C3"].threads) == 10
    assert len(missed({f"C{n}": at(now) for n in range(2000)}, now)) == 500


def test_the_registry_knows_it_without_the_sdk() -> None:
    code = (
        "import sys, json\n"
        "from actors.gateway.registry import Registry\n"
        "entry = Registry.discover(()).get('slack')\n"
        "entry.config.model_validate({'bot_token': 'xoxb-1', 'app_token': 'xapp-1'})\n"
        "print(json.dumps([name for name in ('slack_sdk', 'aiohttp', 'mistune') if name in sys.modules]))\n"
    )
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    assert json.loads(out.stdout) == []


def test_the_entry() -> None:
    entry = Registry.discover(()).get("slack")
    assert entry is PLATFORM
    assert entry.check() == ""
    assert entry.shape is not None
    limits, capabilities = entry.shape(SlackOptions.model_validate({**TOKENS, "fetch_mb": 5}))
    assert limits.fetch_bytes == 5_000_000
    assert capabilities.history
    assert {question.option for question in entry.questions} <= set(SlackOptions.model_fields)
