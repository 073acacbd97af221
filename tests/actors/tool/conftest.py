"""A tool room to ask: the real workshop over a workspace in a temporary folder."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from actors.clock import WallClock
from actors.runtime import ActorSystem
from tests.actors.tool.shop import Shop


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    root = tmp_path / "srv" / "proj"
    root.mkdir(parents=True)
    return root


@pytest.fixture
async def shop(workspace: Path, tmp_path: Path) -> AsyncIterator[Shop]:
    """The built-in tools, on the real time."""
    system = ActorSystem(WallClock(), slow_handler_s=1.0)
    yield Shop(system, workspace, tmp_path / "results")
    await system.stop_all()


@pytest.fixture
async def still_shop(workspace: Path, tmp_path: Path, system: ActorSystem) -> Shop:
    """The same, on a clock in the hand: only what the test turns passes."""
    return Shop(system, workspace, tmp_path / "results")
