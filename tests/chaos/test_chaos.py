"""A short chaos run, the same each time as far as its plan goes, and the plan itself."""

from pathlib import Path

import pytest

from tests.chaos.__main__ import ALL, chaos
from tests.chaos.plan import POLICIES, STORE_DEATHS, make_plan, policy_of

SEED = 20


@pytest.mark.slow
async def test_nothing_is_lost_or_doubled_while_the_process_is_killed_again_and_again(tmp_path: Path) -> None:
    # The sockets of the platform lie in this folder, and their paths must be short.
    counts = await chaos(tmp_path, kills=20, seed=SEED, minutes=1.5, sessions=16)
    assert counts.clean, counts.line()
    assert counts.kills >= 5
    assert set(counts.store_deaths) == set(STORE_DEATHS)
    assert counts.store_came_back + counts.store_killed_down == counts.store_died >= 3
    assert counts.store_came_back >= 1
    assert counts.accepted + counts.refused >= counts.messages, "people do not give up"
    told = counts.set_aside + counts.too_old + counts.commands + counts.refused
    assert counts.answered + told >= counts.accepted


def test_a_seed_makes_one_plan() -> None:
    assert make_plan(SEED, 50, accounts=ALL) == make_plan(SEED, 50, accounts=ALL)
    assert make_plan(SEED, 50, accounts=ALL) != make_plan(SEED + 1, 50, accounts=ALL)
    plan = make_plan(SEED, 200, accounts=ALL)
    assert {message.account for message in plan.messages} == set(ALL)
    assert len({message.id for message in plan.messages}) == 1200
    assert {policy_of(message.chat) for message in plan.messages} == set(POLICIES)
    ends = {life.end.kind for life in plan.lives}
    assert ends == {"start", "random", "named", "seen", "rest", "full", "store"}
    assert any(life.jump_s is not None for life in plan.lives)


def test_the_store_dies_early_in_every_way_and_sometimes_again_before_a_kill() -> None:
    for seed in range(20):
        lives = make_plan(seed, 80, accounts=ALL).lives
        falling = [(n, life.end) for n, life in enumerate(lives) if life.end.kind == "store"]
        assert len(falling) == 10
        first, end = falling[0]
        assert first == 2
        assert {death.partition(":")[0] for death in end.deaths} == set(STORE_DEATHS)
        assert not end.wait_s, "it comes back in this one"
    assert any(life.end.wait_s for life in lives if life.end.kind == "store")
    for few in range(4):
        assert len(make_plan(1, few, accounts=ALL).lives) == few
