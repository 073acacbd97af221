"""Arguments are read, or refused: never repaired."""

from pathlib import Path

import pytest

from actors.tool.arguments import ArgumentsError, parse_arguments
from actors.tool.catalogue import Catalogue, tool
from actors.tool.discovery import builtin_tools
from actors.tool.spec import spec_of
from messages.settings import ToolSettings
from tests.actors.tool.shop import block


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ('{"path":"/tmp/a","content":"line1\\nli', "cut off"),
        ('{"path":"/tmp/a","content":"line1"', "cut off"),
        ('{"path":', "cut off"),
        ("{", "cut off"),
        ('{}{"a":1}', "more than one"),
        ('{"a":1} {"a":1}', "more than one"),
        ('{"a":1} trailing', "more than one"),
        ("[1]", "one JSON object"),
        ("null", "one JSON object"),
        ('"{}"', "one JSON object"),
        ("{'a': 1}", "not valid JSON"),
        ('{"a":1,}', "not valid JSON"),
        ('{"a":1,"a":2}', "more than once"),
        ('{"a":NaN}', "NaN"),
        ('{"a":' + "9" * 5000 + "}", "cannot be read"),
        ('{"a":' * 100_000, "nested"),
        ("```json\n{}\n```", "not valid JSON"),
    ],
)
def test_L08_what_is_not_one_object_is_refused_with_a_reason(text: str, why: str) -> None:
    with pytest.raises(ArgumentsError, match=why):
        parse_arguments(text)


@pytest.mark.parametrize("text", ["", " ", "\n"])
def test_L08_nothing_counts_as_no_arguments(text: str) -> None:
    assert parse_arguments(text) == {}


def test_L08_no_arguments_are_enough_only_for_tools_that_require_none(tmp_path: Path) -> None:
    catalogue = Catalogue(builtin_tools(), ToolSettings(), tmp_path)
    free, strict = catalogue.prepare([block("current_time", ""), block("read_file", "", "c2")])
    assert not free.problem
    assert free.arguments == "{}"
    assert "path: is required" in strict.problem


def test_L08_the_double_object_reaches_no_tool(tmp_path: Path) -> None:
    catalogue = Catalogue(builtin_tools(), ToolSettings(allow=("*",)), tmp_path)
    call = catalogue.prepare([block("write_file", '{}{"path":"a","content":"b"}')])[0]
    assert "more than one" in call.problem
    assert call.arguments == '{}{"path":"a","content":"b"}'  # as they came


def test_a_whole_number_written_with_a_point_is_one(tmp_path: Path) -> None:
    catalogue = Catalogue(builtin_tools(), ToolSettings(), tmp_path)
    call = catalogue.prepare([block("read_file", '{"path":"a","offset":5.0}')])[0]
    assert not call.problem
    assert call.arguments == '{"offset":5,"path":"a"}'


def test_every_mistake_is_told_with_its_field_what_came_and_what_is_expected() -> None:
    @tool()
    def resize(width: int, mode: str = "fit") -> str:
        """Resize."""
        return f"{width} {mode}"

    spec = spec_of(resize)
    assert spec is not None
    with pytest.raises(ArgumentsError) as refused:
        spec.validate({"width": "wide", "modus": 1})
    assert str(refused.value).splitlines()[1:] == [
        '- width: expected a valid integer, got the string "wide"',
        "- modus: is not a parameter of this tool",
    ]
