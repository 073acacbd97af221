"""For tests of commands: an invented history in a data folder of its own."""

from pathlib import Path

import pytest

from tests.cli.demo import demo_home


@pytest.fixture
def demo(tmp_path: Path) -> Path:
    return demo_home(tmp_path)
