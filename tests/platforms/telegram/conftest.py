"""For all tests of Telegram: the service, and a connection to it."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from actors.clock import WallClock
from tests.fakes.clock import ManualClock
from tests.platforms.simulators.telegram import TelegramSimulator
from tests.platforms.telegram.stage import Line


@pytest.fixture
async def sim() -> AsyncIterator[TelegramSimulator]:
    async with TelegramSimulator() as sim:
        yield sim


@pytest.fixture
async def line(sim: TelegramSimulator, tmp_path: Path) -> AsyncIterator[Line]:
    async with Line(sim, tmp_path, WallClock()) as line:
        yield line


@pytest.fixture
async def still(sim: TelegramSimulator, tmp_path: Path, clock: ManualClock) -> AsyncIterator[Line]:
    """A line whose time is in the test's hand."""
    async with Line(sim, tmp_path, clock) as line:
        yield line
