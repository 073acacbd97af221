"""A simulated Discord for each test: its process takes a fifth of a second to start."""

from collections.abc import AsyncIterator

import pytest

from tests.platforms.simulators.discord import DiscordSimulator


@pytest.fixture
async def sim() -> AsyncIterator[DiscordSimulator]:
    async with DiscordSimulator() as simulator:
        yield simulator
