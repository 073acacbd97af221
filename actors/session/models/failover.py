"""What to do about a failed model call: one pure decision for all providers.

Only this layer tries again (the SDKs' own retries are off), so that each attempt is
recorded and none is multiplied.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from messages.model import Failure, FailureKind, ModelRef

BASE_S = 1.0
LONGEST_BACKOFF_S = 60.0
LONGEST_WAIT_S = 120.0
"""A provider that wants a longer wait than this is not waited for."""
LONGEST_WAIT_WITH_FALLBACK_S = 30.0
SPREAD_S = 15.0
"""Over so many seconds those come back who waited for a breaker: a provider that recovers is not run over."""

_PASSING = (
    FailureKind.RATE_LIMITED,
    FailureKind.OVERLOADED,
    FailureKind.CUT,
    FailureKind.STALE,
    FailureKind.NETWORK,
)
_OF_THE_PROVIDER = (FailureKind.AUTH, FailureKind.BILLING, FailureKind.NOT_FOUND, FailureKind.NO_MODEL)


@dataclass(frozen=True, slots=True)
class Retry:
    """Ask the same model again after so many seconds."""

    after_s: float


@dataclass(frozen=True, slots=True)
class Wait:
    """Nothing was sent, because the breaker is open: come again after so many seconds. No attempt is used up."""

    after_s: float


@dataclass(frozen=True, slots=True)
class FailOver:
    """Ask another model, now."""

    to: ModelRef


@dataclass(frozen=True, slots=True)
class GiveUp:
    """Tell the person this."""

    say: str


NextStep = Retry | Wait | FailOver | GiveUp


def next_step(
    failure: Failure, attempt: int, attempts: int, chain: Sequence[ModelRef], chance: float
) -> NextStep:
    """Decide. Pure.

    `attempt` is the number of the attempt that failed (from 1), `attempts` how many
    there may be in all, over all models. `chain` are the models that may answer
    instead, in order: when the failed one is among them, those up to it have had
    their chance. `chance` in [0, 1) is the jitter.
    """
    left = _left(failure.model, chain)
    if not failure.sent:
        if left:
            return FailOver(left[0])
        return Wait((failure.retry_after_s or BASE_S) + chance * SPREAD_S)
    if attempt >= attempts:
        return GiveUp(_words(failure, attempt))
    if failure.kind in _OF_THE_PROVIDER or (failure.kind in _PASSING and not failure.may_retry):
        return FailOver(left[0]) if left else GiveUp(_words(failure, attempt))
    if failure.kind not in _PASSING:
        return GiveUp(_words(failure, attempt))
    if left and attempts - attempt <= len(left):
        return FailOver(left[0])
    wanted = failure.retry_after_s
    if wanted is None:
        return Retry(chance * min(LONGEST_BACKOFF_S, BASE_S * 2 ** min(attempt - 1, 16)))
    if left and wanted > LONGEST_WAIT_WITH_FALLBACK_S:
        return FailOver(left[0])
    if wanted > LONGEST_WAIT_S:
        return GiveUp(_words(failure, attempt))
    # Never earlier than asked for, and not all at the same moment.
    return Retry(wanted + chance * min(max(BASE_S, wanted / 4), 5.0))


def _left(failed: ModelRef, chain: Sequence[ModelRef]) -> tuple[ModelRef, ...]:
    models = tuple(chain)
    return models[models.index(failed) + 1 :] if failed in models else models


def _words(failure: Failure, attempt: int) -> str:
    name = f"{failure.model.provider}/{failure.model.name}"
    tried = f" I tried {attempt} times." if attempt > 1 else ""
    match failure.kind:
        case FailureKind.NO_MODEL:
            said = ""
        case FailureKind.RATE_LIMITED:
            said = f"{name} takes no more requests for now{_for_how_long(failure.retry_after_s)}.{tried}"
        case FailureKind.OVERLOADED:
            said = f"{name} is overloaded or has a fault of its own ({failure.detail}).{tried}"
        case FailureKind.CUT:
            said = f"The answer of {name} broke off.{tried}"
        case FailureKind.STALE:
            said = f"{name} stopped answering.{tried}"
        case FailureKind.NETWORK:
            said = f"{name} cannot be reached ({failure.detail}).{tried}"
        case FailureKind.REFUSED | FailureKind.CONTEXT_OVERFLOW | FailureKind.TOO_LARGE:
            said = "" if failure.remedy else f"{name} did not take the request ({failure.detail})."
        case FailureKind.AUTH | FailureKind.BILLING | FailureKind.NOT_FOUND:
            said = "" if failure.remedy else f"{name} refused ({failure.detail})."
        case FailureKind.INVALID_REQUEST:
            said = f"{name} did not understand the request ({failure.detail})."
    return " ".join(part for part in (said, failure.remedy) if part)


def _for_how_long(seconds: float | None) -> str:
    if seconds is None:
        return ""
    if seconds < 90:
        return f" (for {seconds:.0f} s)"
    if seconds < 5400:
        return f" (for {seconds / 60:.0f} min)"
    return f" (for {seconds / 3600:.1f} h)"
