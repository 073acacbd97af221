"""Writes the reference part of docs/configuration.md from the settings themselves: `make docs`.

A test fails when the committed file says something else than the code.
"""

import inspect
import sys
import typing
from enum import Enum
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, Final, Literal, Union, get_args, get_origin

from pydantic import BaseModel, SecretStr
from pydantic.fields import FieldInfo

from messages.settings import Settings

BEGIN: Final = "<!-- settings: made by `make docs` -->"
END: Final = "<!-- settings: end -->"


def tables() -> str:
    """Return Markdown: one table for each part of the settings."""
    parts = []
    for name, field in Settings.model_fields.items():
        parts += _tables(*_part(name, field))
    return "\n".join(parts).rstrip() + "\n"


def _tables(model: type[BaseModel], heading: str) -> list[str]:
    """A table for one part, followed by those of the parts within it."""
    lines = [f"### `{heading}`", "", inspect.cleandoc(model.__doc__ or ""), ""]
    lines += ["| setting | type | default | meaning |", "|---|---|---|---|"]
    inner = {key: found for key, each in model.model_fields.items() if (found := _within(each.annotation))}
    lines += [_row(key, each) for key, each in model.model_fields.items() if key not in inner]
    lines.append("")
    for key, found in inner.items():
        lines += _tables(found, f"{heading}.{key}")
    return lines


def with_tables(document: str) -> str:
    """Return a document with the part between the markers written anew. Raises ValueError without markers."""
    head, begin, rest = document.partition(BEGIN)
    _, end, tail = rest.partition(END)
    if not (begin and end):
        raise ValueError(f"the document needs the lines {BEGIN!r} and {END!r}")
    return f"{head}{BEGIN}\n\n{tables()}\n{END}{tail}"


def _within(kind: Any) -> type[BaseModel] | None:
    """Return the part that a setting is, if it is one (or may be left out)."""
    if isinstance(kind, type) and issubclass(kind, BaseModel):
        return kind
    if get_origin(kind) in {Union, UnionType}:
        return next((found for each in get_args(kind) if (found := _within(each))), None)
    return None


def _part(name: str, field: FieldInfo) -> tuple[type[BaseModel], str]:
    kind = field.annotation
    if get_origin(kind) is dict:
        return get_args(kind)[1], f"{name}.<name>"
    if get_origin(kind) is tuple:
        return get_args(kind)[0], f"{name}[]"
    assert isinstance(kind, type)
    assert issubclass(kind, BaseModel)
    return kind, name


def _row(name: str, field: FieldInfo) -> str:
    cells = [f"`{name}`", _type(field), _default(field.default), field.description or _meaning(name)]
    return "| " + " | ".join(cell.replace("|", "\\|").replace("\n", " ") for cell in cells) + " |"


_MEANINGS: Final = {
    "protocol": "How the service is spoken to.",
    "max_output_tokens": "The longest answer, in tokens.",
    "busy_dm": "What a message does that comes while a turn runs, in a direct chat.",
    "busy_group": "The same in a group.",
    "busy_api": "The same over the HTTP API.",
    "policy": "By itself never, after a pause, each day, or both.",
    "typing": "Show that an answer is coming.",
    "server": "The platform's id of a server.",
    "chat": "The platform's id of a chat.",
    "thread": "The platform's id of a thread.",
    "user": "The platform's id of a person.",
    "profile": "The profile's name.",
    "host": "The address to listen on. Other machines reach the server only when this is changed.",
    "checkpoint_wal": "The size of the log at which it is moved into the file.",
    "level": "What is logged: this level and what is more serious.",
    "timeout_s": "How long a hook may take, in seconds.",
}
"""For settings whose name says it to a programmer; a reader of the table wants a sentence."""


def _meaning(name: str) -> str:
    return _MEANINGS[name]


def _type(field: FieldInfo) -> str:
    limits = [
        f"{word} {getattr(limit, name):g}"
        for limit in field.metadata
        for name, word in _LIMITS
        if hasattr(limit, name)
    ]
    return ", ".join([_type_name(field.annotation), *limits])


_LIMITS: Final = (("ge", "at least"), ("gt", "more than"), ("le", "at most"), ("lt", "less than"))
_NAMES: Final[dict[object, str]] = {
    str: "text",
    int: "whole number",
    float: "number",
    bool: "true or false",
    SecretStr: "secret",
}


def _type_name(kind: Any) -> str:
    origin, inside = get_origin(kind), get_args(kind)
    if origin in {Union, UnionType}:
        return " or ".join(_type_name(each) for each in inside if each is not NoneType)
    if origin is typing.Annotated:
        return _type_name(inside[0])
    if origin is Literal:
        return ", ".join(f"`{each}`" for each in inside)
    if origin is dict:
        return "table"
    if origin is tuple:
        return f"list of {_type_name(inside[0])}"
    if isinstance(kind, type) and issubclass(kind, Enum):
        return ", ".join(f"`{each.value}`" for each in kind)
    return _NAMES[kind]


def _default(value: object) -> str:
    match value:
        case None | ():
            return "none"
        case dict() if not value:
            return "none"
        case bool():
            return f"`{str(value).lower()}`"
        case Enum():
            return f"`{value.value}`"
        case float():
            return f"`{value:g}`"
        case str() if len(value) > 40:
            return f"“{value}”"
        case _:
            return f"`{value}`"


def main(path: Path) -> None:
    """Write the document anew."""
    path.write_text(with_tables(path.read_text("utf-8")), "utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
