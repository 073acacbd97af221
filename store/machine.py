"""What of the machine a store may use when its settings do not say: memory, and processors for queries.

Measured with ten million messages on two processors and 24 GB: an analyst's long query
that needs 8 GB made appends' 99th percentile 6 times as long with 2 GB, for what does not
fit is written to the disk that the appends wait for; 2.6 times with enough memory and two
threads, which share the one processor that is left to them; 1.6 times with one.
"""

import os
from pathlib import Path
from typing import Final

import psutil

from messages.settings import StoreSettings

_SHARE: Final = 0.4
_LEAST: Final = 512 * 1024 * 1024

_CGROUP_LIMITS: Final = (
    Path("/sys/fs/cgroup/memory.max"),
    Path("/sys/fs/cgroup/memory/memory.limit_in_bytes"),
)
"""Of a container, in cgroups of version 2 and 1; `max`, or a number beyond any machine, when there is none."""


def memory_limit(settings: StoreSettings) -> str:
    """Return DuckDB's `memory_limit`: as set, else 40 % of the machine's or the container's memory."""
    if settings.memory_limit is not None:
        return settings.memory_limit
    mega = max(_LEAST, int(machine_bytes() * _SHARE)) // 1024**2
    return f"{mega}MiB"


def query_threads(settings: StoreSettings) -> int:
    """Return DuckDB's `threads`: as set, else one for each processor but the one that appends have."""
    if settings.threads is not None:
        return settings.threads
    return max(1, _processors() - 1)


def machine_bytes(limits: tuple[Path, ...] = _CGROUP_LIMITS) -> int:
    """Return the memory that there is, in bytes: of the machine, or of the container that is smaller."""
    total = int(psutil.virtual_memory().total)
    for path in limits:
        try:
            said = path.read_text(encoding="ascii").strip()
        except OSError:
            continue
        if said.isdecimal():
            total = min(total, int(said))
    return total


def _processors() -> int:
    try:
        return len(os.sched_getaffinity(0))
    except AttributeError:  # not on macOS
        return os.cpu_count() or 1
