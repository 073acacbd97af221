"""Prompts with fields: `{payload.issue.title}` is the payload's value, as data. Pure, and total but for `check`.

What comes from outside stands in the prompt as JSON: in quotes, on one line, without
characters that nobody sees, and never longer than is allowed. So no value can pretend
to be a line of the prompt, and none begins a slash command.
"""

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from messages.base import clean_text

FIELDS: Final = ("payload", "route", "event", "event_words")
NOTHING: Final = "(nothing)"
_FIELD = re.compile(r"\{\{|\}\}|\{([a-z_]+)((?:\.[^{}.\n]{1,100}){0,20})\}")
_UNSEEN: Final[dict[int, str]] = {
    code: f"\\u{code:04x}"
    for code in (
        *range(0x7F, 0xA0),
        0x61C,
        0xAD,
        *range(0x200B, 0x2010),
        *range(0x2028, 0x202F),
        *range(0x2060, 0x2070),
        0xFEFF,
    )
} | dict.fromkeys(range(0xE0000, 0xE0080), "")
_LINES: Final = dict.fromkeys((11, 12, 133, 8232, 8233), "\n")
_PLAIN: Final = (
    dict.fromkeys(_UNSEEN, "") | dict.fromkeys((*range(9), *range(14, 32)), "") | {0x0D: ""} | _LINES
)


class TemplateError(ValueError):
    """A template that cannot be filled; the text says why."""


@dataclass(frozen=True, slots=True)
class Values:
    """What a template is filled with."""

    payload: Any
    route: str
    event: str = ""


def check(template: str) -> None:
    """Raise TemplateError for a field that nobody knows."""
    for found in _FIELD.finditer(template):
        name, path = found.group(1), found.group(2)
        if name is None:
            continue
        if name not in FIELDS:
            raise TemplateError(
                f"{found[0]} is no field; there are {{payload}}, {{payload.path.to.it}}, {{route}} and {{event}}"
            )
        if path and name != "payload":
            raise TemplateError(f"{found[0]}: only {{payload}} has parts")


def fill(template: str, values: Values, *, quoted: bool = True, most: int = 4000) -> str:
    """Return the template with its fields filled in, each value `most` characters long at most."""

    def field(name: str, path: str) -> str:
        match name:
            case "route":
                return values.route
            case "event":
                return capped(as_data(values.event), most) if values.event else NOTHING
            case "event_words":
                return f" ({capped(as_data(values.event), 100)})" if values.event else ""
            case _:
                value = look_up(values.payload, path)
                if value is None and path:
                    return NOTHING
                return capped(as_data(value) if quoted else as_words(value), most)

    return _filled(template, field)


def fill_name(template: str, values: Values, *, most: int = 200) -> str:
    """Return a template's value as a name: one line of plain text; empty when nothing but gaps came of it."""
    some = False

    def field(name: str, path: str) -> str:
        nonlocal some
        found: Any = (
            look_up(values.payload, path)
            if name == "payload"
            else values.route
            if name == "route"
            else values.event
        )
        if isinstance(found, bool | int | float | str) and found != "":
            some = True
            return " ".join(as_words(found).split())
        return ""

    name = _filled(template, field).strip()
    has_fields = any(found.group(1) for found in _FIELD.finditer(template))
    return str(clean_text(name[:most])) if some or not has_fields else ""


def _filled(template: str, field: Callable[[str, str], str]) -> str:
    def replace(found: re.Match[str]) -> str:
        if found[0] in {"{{", "}}"}:
            return found[0][0]
        return field(found.group(1), found.group(2) or "")

    return _FIELD.sub(replace, template)


def look_up(payload: Any, path: str) -> Any:
    """Return what is at `.a.b.0`; None when there is nothing."""
    value = payload
    for step in path.split(".")[1:]:
        if isinstance(value, Mapping):
            value = value.get(step)
        elif isinstance(value, list | tuple) and step.isascii() and step.isdigit() and len(step) < 7:
            value = value[int(step)] if int(step) < len(value) else None
        else:
            return None
    return value


def as_data(value: Any) -> str:
    """Return a value as JSON on one line, without unseen characters."""
    try:
        text = json.dumps(value, ensure_ascii=False, separators=(", ", ": "), default=lambda _: None)
    except (ValueError, TypeError, RecursionError, OverflowError):
        return '"(this cannot be shown)"'
    return text.translate(_UNSEEN)


def as_words(value: Any) -> str:
    """Return a value as text; lines stay, unseen characters go."""
    text = value if isinstance(value, str) else as_data(value)
    return text.translate(_PLAIN)


def capped(text: str, most: int) -> str:
    """Return the text, cut with a remark when it is too long."""
    return text if len(text) <= most else f"{text[:most]}… ({len(text) - most} more characters)"
