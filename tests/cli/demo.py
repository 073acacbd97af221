"""A data folder with an invented history, for tests of commands that read it."""

import asyncio
import shutil
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

from examples.history.demo_history import make

_FOLDER = TemporaryDirectory(prefix="callboard-demo-")


@cache
def _made() -> Path:
    return asyncio.run(make(Path(_FOLDER.name), days=4, per_day=12))


def demo_home(folder: Path) -> Path:
    """Return a new data folder with a copy of the history."""
    home = folder / "home"
    home.mkdir()
    shutil.copy(_made(), home / "callboard.duckdb")
    return home
