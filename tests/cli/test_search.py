"""`callboard search`: in the running process, in the files that nobody uses, and before the first start."""

# ruff: noqa: ASYNC240 a test may look at files at once

import io
import json
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from actors.clock import WallClock
from actors.console.cli.invocation import ExitCode, Invocation
from actors.console.cli.search import TimeTextError, moment, roles_of, search
from actors.console.cli.shelf import DATABASE
from messages.ids import SessionKey
from messages.search import Mark, SearchAsked, SearchFound, SearchHit
from messages.settings import StoreSettings
from store.store import Store
from tests.cli.house import noted, printed, running, typed
from tests.fakes.desk import START, FakeDesk
from tests.store.talk import ANN, Talk

HIT = SearchHit(
    id=1,
    session_key=SessionKey("agent:main:web:main:dm:main"),
    role="user",
    author_id="ann",
    author_name="Ann \x1b[31m",
    said_at=START,
    score=1.5,
    snippet="the deployment \x1b]0;failed\x07 again",
    marks=(Mark(start=4, end=14),),
)


class Screen(io.StringIO):
    """An output that is a terminal."""

    def isatty(self) -> bool:
        return True


async def test_a_running_process_is_asked_with_all_filters(tmp_path: Path) -> None:
    desk = FakeDesk()
    desk.finds = SearchFound(hits=(HIT,), total=3)
    asked = SearchAsked(
        words='部署 "a&b" é',
        platform="discord",
        chat="c/1",
        user="ann",
        session_key=HIT.session_key,
        roles=("user", "notice"),
        since=START,
        until=START + timedelta(days=1),
        limit=1,
        newest_first=True,
    )
    call = typed(tmp_path, desk)
    async with running(tmp_path, desk):
        assert await search(call, asked, as_json=False) == ExitCode.OK
    assert desk.searches == [asked]
    assert "deployment" in printed(call)
    assert "\x1b" not in printed(call)
    assert "2 more" in noted(call)


async def test_on_a_terminal_what_was_found_is_bold_and_nothing_else_obeyed(tmp_path: Path) -> None:
    desk = FakeDesk()
    desk.finds = SearchFound(hits=(HIT,), total=1)
    call = Invocation(home=tmp_path, env={}, version="9.9", stdout=Screen(), stderr=io.StringIO())
    async with running(tmp_path, desk):
        await search(call, SearchAsked(words="deployment"), as_json=False)
    assert "\x1b[1mdeployment\x1b[0m" in printed(call)
    assert printed(call).count("\x1b") == 2


async def test_json_is_one_object(tmp_path: Path) -> None:
    desk = FakeDesk()
    desk.finds = SearchFound(hits=(HIT,), total=1, any_word=True, not_indexed=9)
    call = typed(tmp_path, desk)
    async with running(tmp_path, desk):
        await search(call, SearchAsked(words="x"), as_json=True)
    assert SearchFound.model_validate_json(printed(call)) == desk.finds
    assert json.loads(printed(call))["hits"][0]["marks"] == [{"start": 4, "end": 14}]


async def test_nothing_found_and_nothing_asked_have_their_codes(tmp_path: Path) -> None:
    desk = FakeDesk()
    call = typed(tmp_path, desk)
    async with running(tmp_path, desk):
        assert await search(call, SearchAsked(words="nothing"), as_json=False) == ExitCode.FAILED
        assert await search(call, SearchAsked(words="-x"), as_json=False) == ExitCode.USAGE
    assert "Nothing was found" in noted(call)
    assert "no word to search for" in noted(call)


async def test_before_the_first_start_nothing_is_made(tmp_path: Path) -> None:
    call = typed(tmp_path, FakeDesk())
    assert await search(call, SearchAsked(words="x"), as_json=False) == ExitCode.FAILED
    assert await search(call, SearchAsked(words=""), as_json=False) == ExitCode.USAGE
    assert list(tmp_path.iterdir()) == []


async def test_the_files_are_searched_when_nothing_runs(tmp_path: Path) -> None:
    store = Store.open(tmp_path / DATABASE, StoreSettings(), WallClock())
    talk = Talk(store.journal)
    await talk.says("昨天的部署失败了", ANN, "Ann")
    await talk.answers("Which deployment?")
    await store.close()
    for _ in range(2):  # the second time over the index that the first one made
        call = typed(tmp_path, FakeDesk())
        assert await search(call, SearchAsked(words="部署失败"), as_json=False) == ExitCode.OK
        assert "昨天的部署失败了" in printed(call)
        assert "Ann" in printed(call)
    assert await search(call, SearchAsked(words="?"), as_json=False) == ExitCode.USAGE


NOW = datetime(2026, 3, 10, 12, tzinfo=UTC)


@pytest.mark.parametrize(
    ("text", "before_now"),
    [
        ("7d", timedelta(days=7)),
        ("90min", timedelta(minutes=90)),
        ("2 H", timedelta(hours=2)),
        ("1w", timedelta(7)),
    ],
)
def test_a_span_is_ago(text: str, before_now: timedelta) -> None:
    assert moment(text, NOW) == NOW - before_now


def test_a_date_is_here_and_its_end_is_the_next_day() -> None:
    day = datetime(2026, 3, 1).astimezone()
    assert moment("2026-03-01", NOW) == day
    assert moment("2026-03-01", NOW, end=True) - day == timedelta(days=1)
    assert moment("2026-03-01T15:00+09:00", NOW, end=True) == datetime(2026, 3, 1, 6, tzinfo=UTC)


@pytest.mark.parametrize("text", ["yesterday", "7", "2026-13-01", "9999999d", "999999w", "-1d", "9999-12-31"])
def test_what_is_no_time_is_refused(text: str) -> None:
    with pytest.raises(TimeTextError, match="write 2026-03-01"):
        moment(text, NOW, end=True)


def test_roles() -> None:
    assert roles_of("") == ("user", "assistant")
    assert roles_of("notice") == ("notice",)
    assert set(roles_of("any")) == {"user", "assistant", "command", "notice"}
