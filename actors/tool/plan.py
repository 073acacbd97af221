"""In which order the calls of one answer run. Pure.

Calls run together where no order could be noticed:

    two calls                                         together
    read, read                                        yes, up to `parallel`
    write, write of paths that have nothing in common yes
    write, and a read or write of the same path,      no: in the order of the calls
      of a directory above it or of something below
    a write that names no path, anything              no
    interactive or dangerous, anything                no
"""

from collections.abc import Sequence
from itertools import product

from messages.ids import CallId
from messages.tool import Effect, PreparedCall


def plan(calls: Sequence[PreparedCall], parallel: int = 8) -> tuple[tuple[CallId, ...], ...]:
    """Return the batches in which to run the calls: each ends before the next begins.

    Every call is in exactly one batch, and in a batch the calls keep their order.
    Raises ValueError when `parallel` is below 1.
    """
    if parallel < 1:
        raise ValueError(f"parallel must be at least 1, not {parallel}")
    batches: list[list[PreparedCall]] = []
    for call in calls:
        place = _first_place(call, batches)
        while place < len(batches) and not _fits(call, batches[place], parallel):
            place += 1
        if place == len(batches):
            batches.append([])
        batches[place].append(call)
    return tuple(tuple(call.call_id for call in batch) for batch in batches)


def conflict(one: PreparedCall, other: PreparedCall) -> bool:
    """Say whether the order of two calls could matter."""
    if _alone(one) or _alone(other):
        return True
    if Effect.WRITE not in {one.effect, other.effect}:
        return False
    return any(_overlap(a, b) for a, b in product(one.paths, other.paths))


def _first_place(call: PreparedCall, batches: list[list[PreparedCall]]) -> int:
    for place in range(len(batches) - 1, -1, -1):
        if any(conflict(call, earlier) for earlier in batches[place]):
            return place + 1
    return 0


def _fits(call: PreparedCall, batch: list[PreparedCall], parallel: int) -> bool:
    return len(batch) < parallel and not any(conflict(call, other) for other in batch)


def _alone(call: PreparedCall) -> bool:
    unnamed = call.effect is Effect.WRITE and not call.paths
    return call.interactive or call.effect is Effect.DANGEROUS or unnamed


def _overlap(one: str, other: str) -> bool:
    return one == other or _below(one, other) or _below(other, one)


def _below(path: str, directory: str) -> bool:
    return path.startswith(directory.rstrip("/") + "/")
