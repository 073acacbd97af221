"""docs/analytics.md: every query on the page runs, and gives what the page shows."""

import asyncio
import re
from pathlib import Path

import pytest

from actors.console.cli.invocation import ExitCode
from actors.console.cli.query import QueryAsked, query
from actors.gateway.erasure import WHAT_REMAINS
from examples.history.demo_history import make
from tests.cli.house import noted, printed, typed
from tests.fakes.desk import FakeDesk

pytestmark = pytest.mark.slow

PAGE = (Path(__file__).parent.parent.parent / "docs" / "analytics.md").read_text("utf-8")
SHOWN = re.findall(r"### (\d+\. [^\n]+)\n\n```sql\n(.*?)\n```\n\n```text\n(.*?)\n```", PAGE, re.DOTALL)
ALL = re.findall(r"```sql\n(.*?)\n```", PAGE, re.DOTALL)


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("demo")
    asyncio.run(make(folder))
    return folder


def test_there_are_ten_at_least() -> None:
    assert len(SHOWN) >= 10


@pytest.mark.parametrize(("title", "sql", "shown"), SHOWN, ids=[title for title, *_ in SHOWN])
async def test_a_query_gives_what_the_page_shows(home: Path, title: str, sql: str, shown: str) -> None:
    call = typed(home, FakeDesk())
    assert await query(call, QueryAsked(sql)) == ExitCode.OK, noted(call)
    lines = [line.rstrip() for line in printed(call).splitlines() if line.strip()]
    assert "\n".join(lines) == shown


@pytest.mark.parametrize("sql", ALL)
async def test_every_query_on_the_page_runs(home: Path, sql: str) -> None:
    call = typed(home, FakeDesk())
    assert await query(call, QueryAsked(sql)) == ExitCode.OK, noted(call)


def test_the_page_says_what_remains_after_a_deletion() -> None:
    for line in WHAT_REMAINS:
        assert f"- {line}" in PAGE
