"""What is done about a failure: again, another model, or honest words."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from actors.session.models.breaker import (
    LONGEST_S,
    SHORTEST_S,
    Breaker,
    began,
    failed,
    succeeded,
    wait_of,
    withdrawn,
)
from actors.session.models.failover import LONGEST_BACKOFF_S, FailOver, GiveUp, Retry, next_step
from messages.model import Failure, FailureKind, ModelRef

FIRST = ModelRef(provider="acme", name="acme-1")
SECOND = ModelRef(provider="beta", name="beta-1")
THIRD = ModelRef(provider="gamma", name="gamma-1")
K = FailureKind
PASSING = (K.RATE_LIMITED, K.OVERLOADED, K.CUT, K.STALE, K.NETWORK)
OF_THE_PROVIDER = (K.AUTH, K.BILLING, K.NOT_FOUND)
OF_THE_REQUEST = (K.CONTEXT_OVERFLOW, K.TOO_LARGE, K.REFUSED, K.INVALID_REQUEST)


def failure(kind: FailureKind, **fields: Any) -> Failure:
    return Failure(kind=kind, detail="why", model=FIRST, **fields)


@pytest.mark.parametrize("kind", PASSING)
def test_what_passes_is_tried_again_with_full_jitter(kind: FailureKind) -> None:
    assert [next_step(failure(kind), n, 9, (), 0.5) for n in (1, 2, 3)] == [
        Retry(0.5),
        Retry(1.0),
        Retry(2.0),
    ]
    assert next_step(failure(kind), 1, 9, (), 0.0) == Retry(0.0)
    assert next_step(failure(kind), 19, 20, (), 0.5) == Retry(LONGEST_BACKOFF_S / 2)


@pytest.mark.parametrize("kind", PASSING)
def test_when_the_attempts_are_spent_it_is_said(kind: FailureKind) -> None:
    step = next_step(failure(kind), 5, 5, (), 0.5)
    assert isinstance(step, GiveUp)
    assert "acme/acme-1" in step.say
    assert "5 times" in step.say


@pytest.mark.parametrize("kind", OF_THE_PROVIDER)
def test_L16_what_only_the_operator_can_mend_is_never_tried_again(kind: FailureKind) -> None:
    assert next_step(failure(kind), 1, 5, (SECOND,), 0.5) == FailOver(SECOND)
    assert next_step(failure(kind, remedy="Set the key."), 1, 5, (), 0.5) == GiveUp("Set the key.")


@pytest.mark.parametrize("kind", OF_THE_REQUEST)
def test_what_is_the_requests_fault_is_told_at_once(kind: FailureKind) -> None:
    step = next_step(failure(kind, remedy="Do this."), 1, 5, (SECOND,), 0.5)
    assert isinstance(step, GiveUp)
    assert step.say.endswith("Do this.")


def test_no_model_says_how_to_connect_one() -> None:
    assert next_step(failure(K.NO_MODEL, remedy="Connect one."), 1, 5, (), 0.5) == GiveUp("Connect one.")


def test_every_fallback_gets_a_try_before_the_attempts_are_spent() -> None:
    chain = (SECOND, THIRD)
    assert isinstance(next_step(failure(K.OVERLOADED), 2, 5, chain, 0.5), Retry)
    assert next_step(failure(K.OVERLOADED), 3, 5, chain, 0.5) == FailOver(SECOND)


def test_the_chain_may_be_given_whole_or_as_what_is_left() -> None:
    assert next_step(failure(K.AUTH), 1, 5, (FIRST, SECOND, THIRD), 0.5) == FailOver(SECOND)
    assert next_step(failure(K.AUTH), 1, 5, (FIRST,), 0.5) == GiveUp("acme/acme-1 refused (why).")


@pytest.mark.parametrize("chance", [0.0, 0.5, 0.999])
def test_L16_a_wait_that_was_asked_for_is_never_shortened(chance: float) -> None:
    step = next_step(failure(K.RATE_LIMITED, retry_after_s=20.0), 1, 5, (), chance)
    assert isinstance(step, Retry)
    assert 20.0 <= step.after_s <= 25.0


def test_L16_a_wait_that_is_too_long_is_said_honestly_or_another_model_answers() -> None:
    long = failure(K.RATE_LIMITED, retry_after_s=7200.0)
    step = next_step(long, 1, 5, (), 0.5)
    assert isinstance(step, GiveUp)
    assert "2.0 h" in step.say
    assert next_step(long, 1, 5, (SECOND,), 0.5) == FailOver(SECOND)


def test_L16_what_must_not_be_sent_again_is_not() -> None:
    forbidden = failure(K.RATE_LIMITED, may_retry=False)
    assert isinstance(next_step(forbidden, 1, 5, (), 0.5), GiveUp)
    assert next_step(forbidden, 1, 5, (SECOND,), 0.5) == FailOver(SECOND)


@given(
    st.sampled_from(FailureKind),
    st.integers(1, 30),
    st.integers(1, 20),
    st.lists(st.sampled_from([FIRST, SECOND, THIRD]), unique=True),
    st.floats(0, 1, exclude_max=True),
    st.none() | st.floats(0, 1e6),
)
def test_it_always_ends(
    kind: FailureKind, attempt: int, attempts: int, chain: list[ModelRef], chance: float, wait: float | None
) -> None:
    step = next_step(failure(kind, retry_after_s=wait, remedy="Do."), attempt, attempts, chain, chance)
    match step:
        case Retry(after_s=seconds):
            assert attempt < attempts
            assert 0 <= seconds <= 130
        case FailOver(to=to):
            assert attempt < attempts
            assert to != FIRST or FIRST not in chain
        case GiveUp(say=say):
            assert say


# ------------------------------------------------------------------- breaker


def broken(times: int = 3, now: float = 100.0) -> Breaker:
    breaker = Breaker()
    for _ in range(times):
        breaker = failed(breaker, K.OVERLOADED, now)
    return breaker


def test_three_failures_in_a_row_open_it() -> None:
    assert wait_of(broken(2), 100.0) == 0.0
    assert wait_of(broken(3), 100.0) == SHORTEST_S


def test_a_success_between_starts_the_count_anew() -> None:
    assert wait_of(failed(succeeded(broken(2)), K.NETWORK, 100.0), 100.0) == 0.0


@pytest.mark.parametrize("kind", [K.AUTH, K.RATE_LIMITED, K.INVALID_REQUEST, K.CUT, K.CONTEXT_OVERFLOW])
def test_what_is_not_the_providers_fault_does_not_count(kind: FailureKind) -> None:
    breaker = Breaker()
    for _ in range(9):
        breaker = failed(breaker, kind, 1.0)
    assert wait_of(breaker, 1.0) == 0.0


def test_half_open_lets_one_through() -> None:
    later = 100.0 + SHORTEST_S
    breaker = broken()
    assert wait_of(breaker, later) == 0.0
    probing = began(breaker, later)
    assert wait_of(probing, later) > 0
    assert wait_of(succeeded(probing), later) == 0.0
    assert wait_of(withdrawn(probing), later) == 0.0


def test_a_failed_probe_opens_it_for_twice_as_long_but_not_for_ever() -> None:
    breaker, now = broken(), 100.0
    waits = []
    for _ in range(8):
        now += wait_of(breaker, now)
        breaker = failed(began(breaker, now), K.STALE, now)
        waits.append(wait_of(breaker, now))
    assert waits[:3] == [10.0, 20.0, 40.0]
    assert waits[-1] == LONGEST_S


def test_calls_from_before_it_opened_change_nothing() -> None:
    breaker = broken()
    assert failed(breaker, K.NETWORK, 104.0) == breaker
