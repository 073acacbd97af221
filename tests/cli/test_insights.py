"""`callboard insights`: figures of an invented history."""

import json
from datetime import timedelta
from pathlib import Path
from typing import get_args

import pytest

from actors.console.cli.insights import insights
from actors.console.cli.invocation import ExitCode
from examples.history.demo_history import END
from store.analytics import By
from tests.cli.house import printed, typed
from tests.fakes.clock import ManualClock
from tests.fakes.desk import FakeDesk

NOW = ManualClock(END + timedelta(hours=1))


@pytest.mark.parametrize("by", get_args(By))
async def test_every_breakdown_is_shown(demo: Path, by: By) -> None:
    call = typed(demo, FakeDesk())
    assert await insights(call, days=30, by=by, as_json=False, clock=NOW) == ExitCode.OK
    text = printed(call)
    assert f"By {by}" in text
    assert "█" in text
    assert "USD" in text


async def test_the_same_as_json(demo: Path) -> None:
    call = typed(demo, FakeDesk())
    await insights(call, days=30, by="platform", as_json=True, clock=NOW)
    found = json.loads(printed(call))
    assert found["totals"]["messages"] == sum(row["messages"] for row in found["platform"])
    assert found["totals"]["messages"] == sum(row["messages"] for row in found["per_day"])
    assert found["totals"]["cost_usd"] == pytest.approx(
        sum(row["cost_usd"] or 0 for row in found["platform"])
    )


async def test_only_the_wanted_days_are_counted(demo: Path) -> None:
    async def messages(days: int) -> int:
        call = typed(demo, FakeDesk())
        await insights(call, days=days, by="user", as_json=True, clock=NOW)
        return int(json.loads(printed(call))["totals"]["messages"])

    assert 0 < await messages(1) < await messages(30)
