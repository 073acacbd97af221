"""What a model is shown, and what becomes of what it asks for."""

import json
from enum import StrEnum
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import Annotated, Any, Literal

import pytest
from pydantic import BaseModel, Field

from actors.tool.catalogue import Catalogue, ToolDefinitionError, WorkspacePath, spec_of, tool
from actors.tool.discovery import builtin_tools, discover
from actors.tool.run import ToolRun
from messages.ids import CallId
from messages.settings import ToolSettings
from messages.tool import Effect, Permission
from tests.actors.tool.shop import block


class Size(BaseModel):
    width: int
    height: int = 1


class Colour(StrEnum):
    RED = "red"


@tool(effect=Effect.WRITE, requires=())
def paint(
    run: ToolRun,
    target: WorkspacePath,
    colour: Colour,
    size: Size,
    layers: tuple[int, ...] = (),
    mode: Annotated[Literal["fill", "line"], Field(description="How.")] = "fill",
) -> str:
    """Paint a picture.

    It dries slowly.

    Args:
        target: Where the picture is,
            in a file.
        colour: Of the paint.

    Returns:
        Nothing of use.
    """
    return f"{target} {colour!r} {size!r} {layers!r} {mode}"


@pytest.fixture
def catalogue(tmp_path: Path) -> Catalogue:
    spec = spec_of(paint)
    assert spec is not None
    return Catalogue((*builtin_tools(), spec), ToolSettings(), tmp_path)


def test_the_schema_says_all_that_the_function_says(catalogue: Catalogue) -> None:
    schema = next(schema for schema in catalogue.schemas() if schema.name == "paint")
    assert schema.description == "Paint a picture.\n\nIt dries slowly."
    parameters = json.loads(schema.parameters)
    assert parameters["required"] == ["target", "colour", "size"]
    assert parameters["additionalProperties"] is False
    assert list(parameters["properties"]) == ["target", "colour", "size", "layers", "mode"]
    assert parameters["properties"]["target"]["description"] == "Where the picture is, in a file."
    assert parameters["properties"]["mode"] == {
        "default": "fill", "description": "How.", "enum": ["fill", "line"], "type": "string"
    }  # fmt: skip
    assert '"title"' not in schema.parameters


def test_the_schemas_are_sorted_and_the_same_bytes_every_time(catalogue: Catalogue, tmp_path: Path) -> None:
    names = [schema.name for schema in catalogue.schemas()]
    assert names == sorted(names)
    again = Catalogue(reversed(catalogue.specs()), ToolSettings(), tmp_path)
    assert again.schemas() == catalogue.schemas()


def test_a_function_gets_its_arguments_in_the_types_it_declares(catalogue: Catalogue) -> None:
    arguments = {"target": "a", "colour": "red", "size": {"width": 2}, "layers": [1, 2]}
    call = catalogue.prepare([block("paint", json.dumps(arguments))])[0]
    assert (call.problem, call.effect, call.permission) == ("", Effect.WRITE, Permission.ASK)
    assert call.paths == (f"{catalogue.workspace.root}/a",)
    spec = catalogue.get("paint")
    assert spec is not None
    run: Any = None
    text = spec.call(json.loads(call.arguments), run)
    assert text == "a <Colour.RED: 'red'> Size(width=2, height=1) (1, 2) fill"


@pytest.mark.parametrize(
    "name", ["read_file", "functions.read_file", "Read_File", "read-file", "readFile", " read_file"]
)
def test_a_name_that_can_only_mean_one_tool_means_it(catalogue: Catalogue, name: str) -> None:
    assert catalogue.prepare([block(name, '{"path":"a"}')])[0].name == "read_file"


def test_an_unknown_tool_is_answered_with_the_closest_names(catalogue: Catalogue) -> None:
    assert "Closest: `read_file`" in catalogue.prepare([block("read_files")])[0].problem
    assert "There are: " in catalogue.prepare([block("zzzz")])[0].problem


def test_a_name_that_could_mean_two_tools_means_neither(tmp_path: Path) -> None:
    @tool(name="read-file")
    def other() -> str:
        """Another."""
        return ""

    spec = spec_of(other)
    assert spec is not None
    catalogue = Catalogue((*builtin_tools(), spec), ToolSettings(), tmp_path)
    assert "no tool" in catalogue.prepare([block("readFile", '{"path":"a"}')])[0].problem
    assert not catalogue.prepare([block("read-file")])[0].problem


def test_call_ids_are_made_unique_in_the_order_of_the_calls(catalogue: Catalogue) -> None:
    blocks = [block("current_time", call_id=call_id) for call_id in ("a", "a", "", "", "a-2", "used")]
    ids = [call.call_id for call in catalogue.prepare(blocks, taken=(CallId("used"),))]
    assert ids == ["a", "a-2", "call", "call-2", "a-2-2", "used-2"]


@pytest.mark.parametrize(
    ("allow", "write", "shell"),
    [((), "ask", "ask"), (("write_file",), "yes", "ask"), (("*",), "yes", "yes"), (("write",), "ask", "ask")],
)
def test_writing_and_commands_need_to_be_allowed(
    tmp_path: Path, allow: tuple[str, ...], write: str, shell: str
) -> None:
    catalogue = Catalogue(builtin_tools(), ToolSettings(allow=allow), tmp_path)
    calls = catalogue.prepare(
        [
            block("write_file", '{"path":"a","content":""}'),
            block("terminal", '{"command":"true"}'),
            block("read_file", '{"path":"a"}'),
            block("fetch_url", '{"url":"https://example.com"}'),
        ]
    )
    assert [call.permission for call in calls] == [write, shell, "yes", "yes"]


def test_a_disabled_tool_is_not_there(tmp_path: Path) -> None:
    catalogue = Catalogue(builtin_tools(), ToolSettings(disable=("terminal",)), tmp_path)
    assert "terminal" not in [schema.name for schema in catalogue.schemas()]
    assert "no tool" in catalogue.prepare([block("terminal", '{"command":"true"}')])[0].problem


def test_a_tool_whose_program_is_missing_is_not_shown(tmp_path: Path) -> None:
    @tool(requires=["no-such-program-here"])
    def convert() -> str:
        """Convert."""
        return ""

    spec = spec_of(convert)
    assert spec is not None
    catalogue = Catalogue([spec], ToolSettings(), tmp_path)
    assert catalogue.schemas() == ()
    assert "no-such-program-here" in catalogue.prepare([block("convert")])[0].problem


def test_a_function_that_cannot_be_a_tool_says_why() -> None:
    def silent(a: int) -> str:
        return ""

    def untyped(a) -> str:  # type: ignore[no-untyped-def]  # noqa: ANN001
        """Doc."""
        return ""

    def starred(*a: int) -> str:
        """Doc."""
        return ""

    def strange(a: object) -> str:
        """Doc."""
        return ""

    for function, why in ((silent, "docstring"), (untyped, "no type"), (starred, "no name of its own")):
        with pytest.raises(ToolDefinitionError, match=why):
            tool()(function)
    with pytest.raises(ToolDefinitionError, match="1 to 64"):
        tool(name="a b")(strange)
    with pytest.raises(ToolDefinitionError, match="top of a module"):
        tool(isolation="process")(strange)


def test_broken_packages_are_reported_and_never_stop_the_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "offered_tools.py").write_text(
        "from actors.tool.catalogue import tool\n"
        "@tool()\ndef greet(name: str) -> str:\n    'Greet.'\n    return name\n"
        "@tool()\ndef read_file() -> str:\n    'Taken.'\n    return ''\n"
        "nothing = 1\n"
    )
    (tmp_path / "offered_broken.py").write_text("raise SystemExit('no')\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    found = discover(
        EntryPoint(name, value, "callboard.tools")
        for name, value in (
            ("a", "offered_tools"),
            ("b", "offered_broken"),
            ("c", "not_installed.at_all"),
            ("d", "offered_tools:nothing"),
        )
    )
    names = {spec.name for spec in found.specs}
    assert {"greet", "read_file", "terminal"} <= names
    assert [problem.partition(")")[2] for problem in found.problems] == [
        ": there is a tool `read_file` already",
        ": SystemExit: no",
        ": ModuleNotFoundError: No module named 'not_installed'",
        ": there is no function with @tool",
    ]
