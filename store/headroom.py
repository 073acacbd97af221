"""Gives back the memory in which DuckDB keeps pages of the file.

It keeps what it has read and written until `memory_limit` is reached. Queries may take much,
so after months, or after one query over everything, that would be the whole file. A limit
that is lower for a moment lets all go that nobody uses: 0.2 s for 2 GB, given back to the
system. There is no other way to say it, which is why the settings of the database are not
locked; a query cannot change them all the same, see `query_check`.
"""

import contextlib
import threading
from collections.abc import Iterator
from typing import Final

import duckdb
import structlog

from messages.settings import StoreSettings
from store.machine import memory_limit

log = structlog.get_logger(__name__)

TRIM_FROM: Final = 32 * 1024 * 1024
KEPT: Final = 16 * 1024 * 1024
"""Bytes of pages. Little is lost with the others: the system keeps the file in memory that it has to spare."""

_USED: Final = """
SELECT coalesce(sum(memory_usage_bytes) FILTER (tag = 'BASE_TABLE'), 0)::BIGINT, coalesce(sum(memory_usage_bytes), 0)::BIGINT
FROM duckdb_memory()
"""


class Headroom:
    """Lets queries and the giving back take turns: a query would fail under a limit that is low for a moment."""

    def __init__(self, settings: StoreSettings, *, trim_from: int = TRIM_FROM, kept: int = KEPT) -> None:
        """Make it for one open database. From `trim_from` bytes of pages on, all but about `kept` are given back."""
        self._settings = settings
        self._trim_from = trim_from
        self._kept = kept
        self._lock = threading.Lock()
        self._queries = 0

    @contextlib.contextmanager
    def taken(self) -> Iterator[None]:
        """Run a query inside of this, in its own thread: it may have to wait for a moment."""
        with self._lock:
            self._queries += 1
        try:
            yield
        finally:
            with self._lock:
                self._queries -= 1

    def trim(self, connection: duckdb.DuckDBPyConnection) -> int:
        """Let pages go when there are many and no query runs; return how many bytes were given back.

        Raises duckdb.Error.
        """
        with self._lock:
            if self._queries:
                return 0
            pages, used = _used(connection)
            if pages < self._trim_from:
                return 0
            try:
                # Somebody may need more at this moment: then less is given back.
                with contextlib.suppress(duckdb.OutOfMemoryException):
                    connection.execute(f"SET GLOBAL memory_limit = '{used - pages + self._kept}B'")
            finally:
                connection.execute(f"SET GLOBAL memory_limit = '{memory_limit(self._settings)}'")
            given = used - _used(connection)[1]
        log.debug("pages were given back", mb=given // 1_000_000)
        return given


def _used(connection: duckdb.DuckDBPyConnection) -> tuple[int, int]:
    ((pages, used),) = connection.execute(_USED).fetchall()
    return int(pages), int(used)
