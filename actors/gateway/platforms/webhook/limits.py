"""How often a route may be called, and how often somebody may guess its secret. Bounded."""

from collections import OrderedDict
from dataclasses import dataclass
from typing import Final

MOST_KEYS: Final = 5000
FAILURES_A_MINUTE: Final = 30
"""Calls of one address that are not believed; the next are told to wait."""


@dataclass(slots=True)
class _Bucket:
    tokens: float
    at: float


class Buckets:
    """Token buckets by name: `most` at once, refilled within a minute. The least used are forgotten."""

    def __init__(self, most_keys: int = MOST_KEYS) -> None:
        self._most_keys = most_keys
        self._buckets: OrderedDict[str, _Bucket] = OrderedDict()

    def wait_s(self, key: str, most: int, now: float) -> float:
        """Return for how many seconds nothing is left; 0 when something is. Takes nothing."""
        tokens = self._refilled(key, most, now).tokens
        return 0.0 if tokens >= 1 else (1 - tokens) * 60 / most

    def take(self, key: str, most: int, now: float) -> float:
        """Take one; return how many seconds to wait for it, 0 when it was there."""
        wait = self.wait_s(key, most, now)
        if not wait:
            self._buckets[key].tokens -= 1
        return wait

    def _refilled(self, key: str, most: int, now: float) -> _Bucket:
        bucket = self._buckets.get(key)
        if bucket is None:
            bucket = self._buckets[key] = _Bucket(most, now)
            if len(self._buckets) > self._most_keys:
                self._buckets.popitem(last=False)
        else:
            self._buckets.move_to_end(key)
        bucket.tokens = min(most, bucket.tokens + (now - bucket.at) * most / 60)
        bucket.at = now
        return bucket
