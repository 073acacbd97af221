"""How a connection heals: when it is tried again, what is said of it, what is noted."""

import pytest

from actors.gateway.healing import (
    EARLY_S,
    HOPELESS_S,
    LONGEST_S,
    MOST_REPORTS,
    STEADY_S,
    Healing,
)
from messages.delivery import Problem, ProblemKind

CUT = Problem(kind=ProblemKind.TRANSIENT, detail="the line went dead")
TOKEN = Problem(kind=ProblemKind.NEEDS_HUMAN, detail="give me a new token")
ALMOST_ONE = 0.999


def steady(at: float = 0.0) -> Healing:
    healing = Healing()
    healing.rose(at)
    healing.steady(at + STEADY_S)
    return healing


def test_a_steady_connection_that_falls_is_made_anew_at_once() -> None:
    fall = steady().fell(CUT, 100.0, ALMOST_ONE)
    assert fall.wait_s <= 0.5
    assert fall.state == "waiting"
    assert fall.incidents == (("fell", "transient: the line went dead"),)


def test_whoever_is_back_within_a_minute_is_found_within_two_seconds() -> None:
    healing, now = steady(), 100.0
    while now < 160.0:
        wait = healing.fell(CUT, now, ALMOST_ONE).wait_s
        assert wait <= EARLY_S
        now += wait


def test_waits_grow_with_the_age_of_the_trouble_to_a_minute_and_no_further() -> None:
    healing = steady()
    healing.fell(CUT, 100.0, ALMOST_ONE)
    waits = [healing.fell(CUT, 100.0 + age, ALMOST_ONE).wait_s for age in (30, 120, 300, 900, 90_000)]
    assert waits == sorted(waits)
    assert waits[-1] == LONGEST_S * ALMOST_ONE


def test_waits_are_drawn_from_nothing_on() -> None:
    healing = steady()
    healing.fell(CUT, 100.0, 0.0)
    assert healing.fell(CUT, 500.0, 0.0).wait_s == 0.0


def test_who_needs_a_hand_is_asked_once_and_tried_slowly() -> None:
    healing = steady()
    falls = [healing.fell(TOKEN, 100.0 + n * HOPELESS_S, 0.0) for n in range(50)]
    assert {fall.wait_s for fall in falls} == {HOPELESS_S}
    assert {fall.state for fall in falls} == {"degraded: needs_human: give me a new token"}
    assert [i for fall in falls for i in fall.incidents] == [
        ("needs_human", "needs_human: give me a new token")
    ]


def test_another_need_is_said_again() -> None:
    healing = steady()
    healing.fell(TOKEN, 100.0, 0.0)
    other = Problem(kind=ProblemKind.NEEDS_HUMAN, detail="switch the intent on")
    assert healing.fell(other, 200.0, 0.0).incidents[0][0] == "needs_human"


def test_a_limit_is_waited_out() -> None:
    limited = Problem(kind=ProblemKind.RATE_LIMITED, detail="slow down", retry_after_s=117.0)
    assert steady().fell(limited, 100.0, 0.0).wait_s == 117.0


def test_a_fall_and_a_rise_are_noted_once_however_many_tries_lie_between() -> None:
    healing = steady()
    noted = list(healing.fell(CUT, 100.0, 0.5).incidents)
    for second in range(1, 30):
        noted += healing.fell(CUT, 100.0 + second, 0.5).incidents
    noted += healing.rose(130.0)
    assert [what for what, _ in noted] == ["fell", "rose"]
    assert "30.0 s" in noted[-1][1]


def test_trouble_of_a_minute_is_degraded_and_said_once() -> None:
    healing = steady()
    noted = [i for age in range(0, 3600, 10) for i in healing.fell(CUT, 100.0 + age, 0.5).incidents]
    assert [what for what, _ in noted] == ["fell", "degraded"]
    assert healing.fell(CUT, 4000.0, 0.5).state.startswith("degraded: ")


def test_the_first_connection_is_no_incident_and_a_first_failure_is() -> None:
    assert Healing().rose(0.0) == ()
    assert Healing().fell(CUT, 0.0, 0.5).incidents[0][0] == "fell"


def test_flapping_is_counted_and_told_when_it_is_over() -> None:
    healing, now = steady(), 100.0
    noted: list[tuple[str, str]] = []
    for _ in range(200):
        noted += healing.fell(CUT, now, 0.5).incidents
        noted += healing.rose(now + 1)
        now += 2
    assert len(noted) == MOST_REPORTS
    over = healing.steady(now + STEADY_S)
    assert over == (
        ("rose", f"steady again, after {200 - MOST_REPORTS // 2} more falls that are not listed"),
    )


@pytest.mark.parametrize("problem", [None, CUT, TOKEN])
def test_there_is_always_a_next_try(problem: Problem | None) -> None:
    healing = Healing()
    for n in range(1000):
        fall = healing.fell(problem, n * 60.0, 0.5)
        assert 0 <= fall.wait_s <= HOPELESS_S
