"""How the writer is doing, for health, metrics and the console. Threads may share it."""

from collections import deque
from threading import Lock

_LAST = 1000
"""Commits that the percentiles look back on."""


class Meter:
    """Counts commits and keeps the durations of the last thousand."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._seconds: deque[float] = deque(maxlen=_LAST)
        self._appends: deque[int] = deque(maxlen=_LAST)
        self._commits = 0
        self._checkpoints = 0
        self._facts = 0
        self._wal_bytes = 0
        self.falls = 0

    def opened(self, facts: int, wal_bytes: int) -> None:
        """Note what was there at the start."""
        with self._lock:
            self._facts, self._wal_bytes = facts, wal_bytes

    def committed(self, appends: int, seconds: float, facts: int, wal_bytes: int) -> None:
        """Note a commit: how many appends it held, how long it took, what is there now."""
        with self._lock:
            self._commits += 1
            self._seconds.append(seconds)
            self._appends.append(appends)
            self._facts, self._wal_bytes = facts, wal_bytes

    def checkpointed(self, wal_bytes: int) -> None:
        """Note a checkpoint made in a quiet moment."""
        with self._lock:
            self._checkpoints += 1
            self._wal_bytes = wal_bytes

    def fell(self) -> None:
        """Note that a thread of the store ended by itself."""
        with self._lock:
            self.falls += 1

    @property
    def commits(self) -> int:
        """Commits since the store was opened."""
        return self._commits

    @property
    def wal_bytes(self) -> int:
        """The size of the write-ahead log after the last commit."""
        return self._wal_bytes

    def figures(self) -> dict[str, int | float]:
        """Return all figures; durations in milliseconds, of the last thousand commits."""
        with self._lock:
            seconds = sorted(self._seconds)
            batch = sum(self._appends) / len(self._appends) if self._appends else 0.0
            figures: dict[str, int | float] = {
                "facts": self._facts,
                "wal_bytes": self._wal_bytes,
                "commits": self._commits,
                "checkpoints": self._checkpoints,
                "appends_per_commit": round(batch, 2),
            }
        for name, share in (("commit_p50_ms", 0.5), ("commit_p99_ms", 0.99)):
            figures[name] = round(seconds[int(share * (len(seconds) - 1))] * 1000, 3) if seconds else 0.0
        return figures
