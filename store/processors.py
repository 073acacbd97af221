"""Queries keep off one processor, so that a commit beside them need not wait for one.

A thread inherits the processors of its maker. DuckDB's workers, which help with large
queries, are made when the file is opened; the writer commits in its own thread. A low
priority was tried instead: on a busy machine such a thread keeps locks for too long.
"""

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager


def keep_one_free() -> None:
    """Keep this thread, and those that it makes, off the first processor, where there is another one."""
    if sys.platform == "linux":
        _, *others = sorted(os.sched_getaffinity(0))
        if others:
            os.sched_setaffinity(0, others)


@contextmanager
def workers_keep_one_free() -> Iterator[None]:
    """Keep the threads that are made meanwhile off the first processor; this one only meanwhile."""
    if sys.platform != "linux":
        yield
        return
    before = os.sched_getaffinity(0)
    keep_one_free()
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)
