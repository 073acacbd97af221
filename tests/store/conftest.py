"""For the store's tests: a folder's store, opened and closed."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from actors.clock import WallClock
from messages.settings import StoreSettings
from store.store import Store


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "callboard.duckdb"


@pytest.fixture
async def store(path: Path) -> AsyncIterator[Store]:
    store = Store.open(path, StoreSettings(memory_limit="2GB"), WallClock())
    yield store
    await store.close()
