"""A circuit breaker for one provider: closed, open, half-open. A pure state machine; time is passed in.

closed     --three failures in a row-->       open
open       --its time is over, one asks-->    half-open (one probe runs; others are refused)
half-open  --the probe answers-->             closed
half-open  --the probe fails-->               open, for twice as long (at most a minute)
"""

from dataclasses import dataclass, replace

from messages.model import FailureKind

OPENS_AFTER = 3
SHORTEST_S = 5.0
LONGEST_S = 60.0
PROBE_S = 2.0
"""What those are told to wait who come while the probe runs."""

COUNTED = (FailureKind.OVERLOADED, FailureKind.NETWORK, FailureKind.STALE)
"""Failures that say that the provider itself is down. All else is about one request or one account."""


@dataclass(frozen=True, slots=True)
class Breaker:
    """The state. `open_until` None: closed."""

    failures: int = 0
    open_until: float | None = None
    open_for: float = SHORTEST_S
    probing: bool = False


def wait_of(breaker: Breaker, now: float) -> float:
    """Return how long a call has to wait; 0.0 when it may be made now."""
    if breaker.open_until is None:
        return 0.0
    if now < breaker.open_until:
        return breaker.open_until - now
    return PROBE_S if breaker.probing else 0.0


def began(breaker: Breaker, now: float) -> Breaker:
    """A call that may be made is being made: in the half-open state it is the probe."""
    if breaker.open_until is not None and now >= breaker.open_until:
        return replace(breaker, probing=True)
    return breaker


def succeeded(_breaker: Breaker) -> Breaker:
    """The provider answered: closed."""
    return Breaker()


def failed(breaker: Breaker, kind: FailureKind, now: float) -> Breaker:
    """A call failed. A failure that is not the provider's fault proves that it is there."""
    if kind not in COUNTED:
        return Breaker()
    if breaker.open_until is not None:
        if not breaker.probing:
            return breaker  # a call from before it opened
        longer = min(LONGEST_S, breaker.open_for * 2)
        return Breaker(breaker.failures + 1, now + longer, longer)
    failures = breaker.failures + 1
    if failures < OPENS_AFTER:
        return replace(breaker, failures=failures)
    return Breaker(failures, now + SHORTEST_S, SHORTEST_S)


def withdrawn(breaker: Breaker) -> Breaker:
    """A call was cancelled and says nothing; if it was the probe, another may be."""
    return replace(breaker, probing=False)
