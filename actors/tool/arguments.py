"""A tool call's arguments: JSON text from a model, read strictly and never repaired.

A model that runs out of output leaves half an object; a repair would turn that
into a call it never made. So whatever is not exactly one JSON object is refused,
with a text that tells the model what to send instead.
"""

import json
from typing import Any, Never

from pydantic_core import ErrorDetails

_LARGEST_EXACT = 2**53
_SHOWN = 80


class ArgumentsError(ValueError):
    """Arguments that cannot be used. The message is written for the model."""


def parse_arguments(text: str) -> dict[str, Any]:
    """Read the arguments of one call.

    Nothing but white space counts as no arguments at all. Raises ArgumentsError for
    anything else that is not one complete JSON object.
    """
    if not text.strip():
        return {}
    try:
        value = json.loads(text, object_pairs_hook=_unique, parse_constant=_no_constant, parse_float=_number)
    except json.JSONDecodeError as error:
        raise ArgumentsError(_explain(text, error)) from None
    except ArgumentsError:
        raise
    except RecursionError:
        raise ArgumentsError("The arguments are nested too deeply.") from None
    except ValueError as error:  # a number with thousands of digits
        raise ArgumentsError(f"The arguments cannot be read: {error}.") from None
    if not isinstance(value, dict):
        raise ArgumentsError(f"The arguments must be one JSON object, not {_kind(value)}.")
    return value


def explain_mistakes(errors: list[ErrorDetails]) -> str:
    """Say which fields are wrong, what was given, and what is expected."""
    lines = [f"- {_place(error)}: {_mistake(error)}" for error in errors[:10]]
    if len(errors) > len(lines):
        lines.append(f"- and {len(errors) - len(lines)} more")
    return "The arguments are wrong:\n" + "\n".join(lines)


def canonical(arguments: dict[str, Any]) -> str:
    """Write arguments as the one JSON text that stands for them: sorted, compact."""
    return json.dumps(arguments, ensure_ascii=False, sort_keys=True, separators=(",", ":"))


def _explain(text: str, error: json.JSONDecodeError) -> str:
    if error.msg == "Extra data":
        return (
            "The arguments hold more than one JSON value: "
            f"something follows the end of the first at character {error.pos}. Send exactly one object."
        )
    if error.pos >= len(text.rstrip()) or error.msg.startswith("Unterminated string"):
        return (
            "The arguments are cut off: the JSON object does not end. "
            "Nothing was run. Send the call again, whole; make it smaller if it was too long."
        )
    return f"The arguments are not valid JSON: {error.msg} at character {error.pos}. Send one JSON object."


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members = dict(pairs)
    if len(members) != len(pairs):
        names = [name for name, _ in pairs]
        twice = sorted({name for name in names if names.count(name) > 1})
        raise ArgumentsError(f"The arguments name {', '.join(map(repr, twice))} more than once.")
    return members


def _no_constant(name: str) -> Never:
    raise ArgumentsError(f"The arguments hold {name}, which is not JSON.")


def _number(text: str) -> float | int:
    """Give 5.0 as 5: some providers send every number as a floating-point one."""
    number = float(text)
    if number.is_integer() and abs(number) <= _LARGEST_EXACT:
        return int(number)
    return number


def _place(error: ErrorDetails) -> str:
    return ".".join(str(part) for part in error["loc"]) or "arguments"


def _mistake(error: ErrorDetails) -> str:
    match error["type"]:
        case "missing":
            return "is required and was not given"
        case "extra_forbidden":
            return "is not a parameter of this tool"
    message = error["msg"].removeprefix("Input should be ").removeprefix("Value error, ")
    return f"expected {message}, got {_kind(error['input'])}"


def _kind(value: object) -> str:
    match value:
        case None:
            return "null"
        case bool():
            return f"the boolean {str(value).lower()}"
        case int() | float():
            return f"the number {str(value)[:_SHOWN]}"
        case str():
            shown = value if len(value) <= _SHOWN else value[:_SHOWN] + "…"
            return f"the string {json.dumps(shown, ensure_ascii=False)}"
        case list() | tuple():
            return "an array"
        case _:
            return "an object"
