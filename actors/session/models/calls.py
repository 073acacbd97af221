"""The arguments of a tool call: read strictly, never repaired.

A model whose output was cut, or who wrote two objects, is told so and may try again.
Guessing what it meant would run a tool with arguments that nobody wrote.
"""

import json
from typing import Any, NoReturn

MOST_CHARACTERS = 8_000_000
"""Longer arguments are refused unread."""


def parse_arguments(text: str, has_required: bool) -> dict[str, Any] | str:
    """Read a call's arguments; return them, or in words for the model what is wrong with them.

    Blank text counts as no arguments, where the tool needs none (`has_required` False).
    """
    if not text.strip():
        if has_required:
            return "The arguments are missing: this tool needs a JSON object with its required fields."
        return {}
    if len(text) > MOST_CHARACTERS:
        return f"The arguments are {len(text):,} characters long; at most {MOST_CHARACTERS:,} are taken."
    try:
        value = json.loads(text, object_pairs_hook=_unique, parse_constant=_no_constant)
    except json.JSONDecodeError as error:
        return _problem(text, error)
    except RecursionError:
        return "The arguments are nested too deeply."
    except ValueError as error:
        return f"The arguments are not valid JSON: {error}."
    if not isinstance(value, dict):
        return f"The arguments must be one JSON object, not {_kind(value)}."
    return value


def _problem(text: str, error: json.JSONDecodeError) -> str:
    if error.msg == "Extra data":
        return (
            f"The arguments must be exactly one JSON object; after it, at character {error.pos}, more follows. "
            "Make one call for each object."
        )
    if error.pos >= len(text.rstrip()) or error.msg.startswith("Unterminated string"):
        return (
            "The arguments end in the middle (the JSON is cut off), so nothing was run. "
            "Send the whole object; when it is long, do the work in smaller steps."
        )
    return f"The arguments are not valid JSON: {error.msg} at character {error.pos}."


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        seen: set[str] = set()
        for key, _ in pairs:
            if key in seen:
                raise ValueError(f"the key {key!r} occurs twice")
            seen.add(key)
    return found


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")


def _kind(value: object) -> str:
    match value:
        case None:
            return "null"
        case bool():
            return "a boolean"
        case str():
            return "a string"
        case list():
            return "a list"
        case _:
            return "a number"
