"""pykka's own tests pass over our actors: whoever knows pykka knows them."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.pykka_suite.run import UNAVAILABLE


@pytest.mark.slow
def test_pykkas_own_suite_passes_over_our_actors() -> None:
    script = Path(__file__).with_name("run.py")
    done = subprocess.run(
        [sys.executable, str(script)], capture_output=True, text=True, check=False, timeout=600
    )
    if done.returncode == UNAVAILABLE:
        pytest.skip(f"pykka's source distribution cannot be downloaded here: {done.stderr[-300:]}")
    assert done.returncode == 0, done.stdout[-3000:]
