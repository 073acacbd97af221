"""Arguments of tool calls: strictly read, never repaired."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from actors.session.models.calls import parse_arguments


def test_L08_whole_arguments_are_read() -> None:
    assert parse_arguments('{"path": "/tmp/a", "n": 1}', has_required=True) == {"path": "/tmp/a", "n": 1}


@pytest.mark.parametrize("blank", ["", "  ", "\n"])
def test_L08_nothing_counts_as_no_arguments_only_where_none_is_required(blank: str) -> None:
    assert parse_arguments(blank, has_required=False) == {}
    assert isinstance(parse_arguments(blank, has_required=True), str)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('{"path":"/tmp/a","content":"line1\\nli', "cut off"),
        ('{"path":"/tmp/a"', "cut off"),
        ('{"path":', "cut off"),
        ("{", "cut off"),
        ('{}{"a":1}', "exactly one"),
        ('{"a":1} {"a":2}', "exactly one"),
        ('{"a":1}]', "exactly one"),
        ("[1]", "a list"),
        ("null", "null"),
        ('"text"', "a string"),
        ("true", "a boolean"),
        ("7", "a number"),
        ('{"a": NaN}', "NaN"),
        ('{"a": -Infinity}', "-Infinity"),
        ('{"a":1,"a":2}', "twice"),
        ('{"b":{"a":1,"a":2}}', "twice"),
        ("{'a':1}", "not valid JSON"),
        ('{"a":1,}', "not valid JSON"),
        ("path=/tmp/a", "not valid JSON"),
        ('```json\n{"a":1}\n```', "not valid JSON"),
        ('{"a":' * 100_000, "nested"),
        ('{"a":' + "9" * 5000 + "}", "not valid JSON"),
    ],
)
def test_L08_what_is_not_one_whole_object_becomes_words_for_the_model(text: str, said: str) -> None:
    problem = parse_arguments(text, has_required=False)
    assert isinstance(problem, str)
    assert said in problem


@given(st.dictionaries(st.text(), st.integers() | st.text() | st.none() | st.lists(st.booleans())))
def test_what_json_writes_is_read_back(value: dict[str, object]) -> None:
    assert parse_arguments(json.dumps(value), has_required=True) == value


@given(st.dictionaries(st.text(min_size=1), st.text(), min_size=1), st.data())
def test_L08_no_beginning_of_an_object_is_taken_for_the_whole(
    value: dict[str, str], data: st.DataObject
) -> None:
    text = json.dumps(value)
    cut = data.draw(st.integers(1, len(text) - 1))
    assert isinstance(parse_arguments(text[:cut], has_required=False), str)


@given(st.text())
def test_no_text_makes_it_raise(text: str) -> None:
    assert isinstance(parse_arguments(text, has_required=False), dict | str)
