"""How much is taken: read with a watch in hand."""

from datetime import UTC, datetime, timedelta

from hypothesis import given
from hypothesis import strategies as st

from actors.gateway.limits import Buckets, Counts, Latest, OnceInAWhile

START = datetime(2026, 5, 1, tzinfo=UTC)


def at(seconds: float) -> datetime:
    return START + timedelta(seconds=seconds)


def test_so_many_at_once_and_then_as_many_as_come_back() -> None:
    buckets = Buckets[str]()
    assert [buckets.take("ann", 3, at(0)) for _ in range(5)] == [True, True, True, False, False]
    assert not buckets.take("ann", 3, at(19))
    assert buckets.take("ann", 3, at(20))
    assert [buckets.take("ann", 3, at(3600)) for _ in range(4)] == [True, True, True, False]
    assert buckets.take("bob", 3, at(0))


def test_time_that_goes_backwards_gives_nothing_and_breaks_nothing() -> None:
    buckets = Buckets[str]()
    assert buckets.take("ann", 1, at(100))
    assert not buckets.take("ann", 1, at(0))
    assert not buckets.take("ann", 1, at(110))
    assert buckets.take("ann", 1, at(160))


def test_a_token_that_was_taken_in_vain_comes_back() -> None:
    buckets = Buckets[str]()
    assert buckets.take("ann", 1, at(0))
    buckets.give_back("ann")
    buckets.give_back("nobody")
    assert buckets.take("ann", 1, at(0))


@given(st.lists(st.floats(0, 600), min_size=1, max_size=200), st.integers(1, 20))
def test_never_more_than_a_bucket_and_what_came_back(moments: list[float], tokens: int) -> None:
    buckets, moments = Buckets[str](), sorted(moments)
    taken = sum(buckets.take("ann", tokens, at(moment)) for moment in moments)
    assert taken <= tokens + (moments[-1] - moments[0]) * tokens / 60 + 1


def test_what_is_remembered_is_bounded() -> None:
    buckets, often, counts, latest = (
        Buckets[int](3),
        OnceInAWhile[int](3),
        Counts[int](3),
        Latest[int, str](3),
    )
    for number in range(1000):
        buckets.take(number, 1, at(number))
        often.due(number, 60, at(number))
        counts.up(number)
        latest.put(number, "x")
    for kept in (buckets._left, often._last, counts._counts, latest._kept):
        assert list(kept) == [997, 998, 999]


def test_once_in_a_while_for_each() -> None:
    often = OnceInAWhile[str]()
    assert [often.due("a", 60, at(t)) for t in (0, 1, 59, 60, 61)] == [True, False, False, True, False]
    assert often.due("b", 60, at(61))
    assert often.due("a", 60, at(0)), "a clock that was set back silences nobody for long"


def test_a_count_begins_anew_when_it_is_reset() -> None:
    counts = Counts[str]()
    assert [counts.up("a"), counts.up("a"), counts.up("b")] == [1, 2, 1]
    counts.reset("a")
    counts.reset("nobody")
    assert counts.up("a") == 1
