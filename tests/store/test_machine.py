from pathlib import Path

import psutil
import pytest

from messages.settings import StoreSettings
from store import machine


def test_what_is_set_counts() -> None:
    settings = StoreSettings(memory_limit="3GB", threads=7)
    assert (machine.memory_limit(settings), machine.query_threads(settings)) == ("3GB", 7)


def test_else_a_part_of_the_machine_and_all_processors_but_one() -> None:
    limit = machine.memory_limit(StoreSettings())
    assert limit.endswith("MiB")
    assert 512 <= int(limit.removesuffix("MiB")) <= psutil.virtual_memory().total * 0.4 / 1024**2 + 1
    assert machine.query_threads(StoreSettings()) == max(1, len(psutil.Process().cpu_affinity()) - 1)


@pytest.mark.parametrize(
    ("said", "expected"),
    [("1073741824\n", 1073741824), ("max\n", None), ("9223372036854771712\n", None), ("", None)],
)
def test_a_container_has_less_than_its_machine(tmp_path: Path, said: str, expected: int | None) -> None:
    limit = tmp_path / "memory.max"
    limit.write_text(said)
    found = machine.machine_bytes((tmp_path / "absent", limit))
    assert found == (expected or psutil.virtual_memory().total)
