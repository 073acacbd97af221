"""One text stands for one set of arguments, whatever way they came."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from actors.tool.arguments import ArgumentsError, canonical, parse_arguments

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)
OBJECTS = st.dictionaries(st.text(), VALUES, max_size=5)


def text_of(value: dict[str, Any]) -> str:
    return canonical(parse_arguments(json.dumps(value)))


@given(OBJECTS)
def test_W05_the_text_survives_a_round_trip_and_any_order_of_keys(value: dict[str, Any]) -> None:
    once = text_of(value)
    assert canonical(parse_arguments(once)) == once
    assert text_of(dict(reversed(value.items()))) == once


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ('{"a": 1, "b": 2}', '{"b": 2, "a": 1}', True),
        ('{"a": 1}', '{"a": 1.0}', True),
        ('{"a": 0.0}', '{"a": -0.0}', True),
        ('{"a": 1}', '{"a": "1"}', False),
        ('{"a": "é"}', '{"a": "e\\u0301"}', False),  # other code points are other text: a file name, say
    ],
)
def test_W05_what_is_equal_has_one_text(one: str, other: str, same: bool) -> None:
    assert (canonical(parse_arguments(one)) == canonical(parse_arguments(other))) is same


@pytest.mark.parametrize("text", ['{"a": NaN}', '{"a": Infinity}', "{1: 2}", '{"a": 1, "a": 2}'])
def test_W05_what_json_does_not_have_is_refused(text: str) -> None:
    with pytest.raises(ArgumentsError):
        parse_arguments(text)
