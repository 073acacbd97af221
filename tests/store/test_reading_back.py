"""The newest facts of a stream are looked for from the end backwards."""

from hypothesis import given
from hypothesis import strategies as st

from store.readers import windows_back


@given(st.integers(1, 10_000), st.integers(0, 10_000), st.integers(1, 3000))
def test_windows_cover_everything_once_from_the_end(first: int, length: int, width: int) -> None:
    last = first + length - 1
    windows = list(windows_back(first, last, width))
    ids = [number for low, high in reversed(windows) for number in range(low, high + 1)]
    assert ids == list(range(first, last + 1))
    assert all(high - low + 1 <= width * 4**n for n, (low, high) in enumerate(windows))


def test_a_short_stream_is_one_window() -> None:
    assert list(windows_back(5, 7, 500_000)) == [(5, 7)]
    assert list(windows_back(1, 100, 10)) == [(91, 100), (51, 90), (1, 50)]
