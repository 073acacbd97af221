"""A docstring as a model reads it: what the tool does, and a line for each parameter."""

import re
from collections.abc import Mapping
from dataclasses import dataclass

_ARGUMENTS = re.compile(r"(Args|Arguments|Parameters):\s*")
_OTHER_SECTION = re.compile(r"(Returns|Return|Raises|Yields|Examples?|Notes?):\s*")
_FIELD = re.compile(r":param\s+(?:[^:]*\s)?(\w+)\s*:\s*(.*)")
_OTHER_FIELD = re.compile(r":(return|returns|rtype|raise|raises|type)\b.*")
_ENTRY = re.compile(r"\s+(\w+)\s*(?:\([^)]*\))?\s*:\s*(.*)")


@dataclass(frozen=True, slots=True)
class Docs:
    """What a docstring says."""

    description: str
    parameters: Mapping[str, str]


def read_docstring(text: str) -> Docs:
    """Read a docstring (already dedented) in the `Args:` form or the `:param name:` form."""
    description: list[str] = []
    parameters: dict[str, list[str]] = {}
    section = "description"
    current = ""
    for line in text.splitlines():
        if _ARGUMENTS.fullmatch(line):
            section = "arguments"
        elif _OTHER_SECTION.fullmatch(line) or _OTHER_FIELD.fullmatch(line):
            section = "other"
        elif found := _FIELD.fullmatch(line):
            section, current = "field", found[1]
            parameters[current] = [found[2]]
        elif section == "arguments" and (found := _ENTRY.fullmatch(line)) and not _continues(line, text):
            current = found[1]
            parameters[current] = [found[2]]
        elif section in {"arguments", "field"} and current and line.startswith(" "):
            parameters[current].append(line.strip())
        elif section == "arguments" and line and not line.startswith(" "):
            section = "description"
            description.append(line)
        elif section == "description":
            description.append(line)
    return Docs(
        description="\n".join(description).strip(),
        parameters={name: " ".join(filter(None, lines)) for name, lines in parameters.items()},
    )


def _continues(line: str, text: str) -> bool:
    """Say whether a line of the section is deeper than its entries: the text of one, not the next."""
    lines = text.splitlines()
    start = next(i for i, candidate in enumerate(lines) if _ARGUMENTS.fullmatch(candidate))
    first = next((candidate for candidate in lines[start + 1 :] if candidate.strip()), line)
    return _indent(line) > _indent(first)


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip(" "))
