"""How a connection heals: when to try again, what to say of it, and what to note. Pure; told the times.

    the connection                        next try                           state
    ------------------------------------  ---------------------------------  ------------
    fell after it had been steady         within half a second               waiting
    failed again, trouble younger than    within 1.5 s: whoever is back      waiting
    a minute                              is found at once
    older                                 within a tenth of the trouble's    degraded
                                          age, a minute at most; for ever
    needs somebody's hand                 each five minutes; said once       degraded
    was told how long to wait             not before                         as above

A connection is steady when it has held for ten seconds. Each wait is drawn anew from
nothing to the time given here, so that many accounts do not come back in step.

Every fall and every rise is an incident, until they come so often that nobody would
read them: then they are counted, and the count is told when the connection is steady.
"""

from collections import deque
from dataclasses import dataclass, field
from typing import Final

from messages.delivery import Problem, ProblemKind

STEADY_S: Final = 10.0
"""A connection that has held for so long is a good one: earlier trouble is over."""

AT_ONCE_S: Final = 0.5
EARLY_S: Final = 1.5
EARLY_FOR_S: Final = 60.0
LONGEST_S: Final = 60.0

HOPELESS_S: Final = 300.0
"""Between two tries when a person must do something first: services count failed log-ins."""

MOST_REPORTS: Final = 6
REPORTS_WITHIN_S: Final = 600.0
"""So many falls and rises within so long are incidents of their own."""

CLOSED: Final = "closed by the other side"

Incident = tuple[str, str]
"""(what, detail)"""


@dataclass(frozen=True, slots=True)
class Fall:
    """What follows from the end of a connection, or of a try."""

    wait_s: float
    state: str
    """For the status: `waiting`, or `degraded: why`."""
    why: str
    incidents: tuple[Incident, ...]


@dataclass(slots=True)
class Healing:
    """How one account's connection has been doing. Times are seconds on a monotonic clock."""

    trouble_since: float | None = None
    """When it fell, if it has not been steady since."""
    up: bool = False
    degraded: bool = False
    tries: int = 0
    """That failed since it was connected last."""
    unlisted: int = 0
    """Falls that were not reported by themselves."""
    needs: str = ""
    """What a person was asked to do last."""
    _reports: deque[float] = field(default_factory=deque)
    _told_down: bool = False

    def rose(self, now: float) -> tuple[Incident, ...]:
        """Note that it is connected; return what is to be reported."""
        tries, self.tries = self.tries, 0
        self.up, self.degraded, self.needs = True, False, ""
        if not self._told_down:
            return ()
        self._told_down = False
        down_s = now - (self.trouble_since if self.trouble_since is not None else now)
        return self._report("rose", f"connected, {down_s:.1f} s after it fell, at try {tries + 1}", now)

    def steady(self, now: float) -> tuple[Incident, ...]:
        """Note that it has held for STEADY_S; return what is to be reported."""
        self.trouble_since = None
        unlisted, self.unlisted = self.unlisted, 0
        if not unlisted:
            return ()
        self._reports.append(now)
        return (("rose", f"steady again, after {unlisted} more falls that are not listed"),)

    def fell(self, problem: Problem | None, now: float, chance: float) -> Fall:
        """Note that it ended, or could not be made; `chance` is in [0, 1)."""
        why = f"{problem.kind.value}: {problem.detail}" if problem else CLOSED
        was_steady = self.up and self.trouble_since is None
        if self.trouble_since is None:
            self.trouble_since = now
        was_up, self.up = self.up, False
        self.tries += not was_up
        hopeless = problem is not None and problem.kind is ProblemKind.NEEDS_HUMAN
        incidents = self._fall_reported(why, now, hopeless=hopeless, was_up=was_up)
        age = now - self.trouble_since
        if hopeless:
            wait = HOPELESS_S
        elif was_steady:
            wait = chance * AT_ONCE_S
        else:
            wait = chance * (EARLY_S if age < EARLY_FOR_S else min(age / 10, LONGEST_S))
        if not hopeless and age >= EARLY_FOR_S and not was_up and not self.degraded:
            self.degraded = True
            incidents += self._report("degraded", why, now)
        told = problem.retry_after_s if problem is not None else None
        state = f"degraded: {why}" if self.degraded else "waiting"
        return Fall(max(wait, told or 0.0), state, why, incidents)

    def _fall_reported(self, why: str, now: float, *, hopeless: bool, was_up: bool) -> tuple[Incident, ...]:
        if hopeless:
            self.degraded, self._told_down = True, True
            if why == self.needs:
                return ()
            self.needs = why
            return (("needs_human", why),)
        if self._told_down and not was_up:
            return ()  # still down
        self._told_down = True
        reported = self._report("fell", why, now)
        self.unlisted += not reported
        return reported

    def _report(self, what: str, detail: str, now: float) -> tuple[Incident, ...]:
        while self._reports and now - self._reports[0] > REPORTS_WITHIN_S:
            self._reports.popleft()
        if len(self._reports) >= MOST_REPORTS:
            return ()
        self._reports.append(now)
        if len(self._reports) == MOST_REPORTS:
            detail += "; it falls and rises so often that more of it is only counted"
        return ((what, detail),)
