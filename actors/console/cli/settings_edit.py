"""Putting a platform into callboard.yaml so that comments, order and everything else stay as they are.

The text is changed at one place, which the YAML parser names; nothing is written anew.
Whoever calls this compares what the file said before with what it says then: `check_edit`.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import yaml

INDENT = 2


class EditError(Exception):
    """The file cannot be changed this way; the text says why."""


@dataclass(frozen=True, slots=True)
class _Found:
    """A key of a mapping, and what stands there."""

    key: yaml.Node
    value: yaml.Node


def has_platform(text: str, name: str) -> bool:
    """Say whether the settings name this platform. Raises EditError for text that is no mapping."""
    platforms = _section(text)
    return (
        platforms is not None
        and isinstance(platforms.value, yaml.MappingNode)
        and _entry(platforms.value, name) is not None
    )


def with_platform(text: str, name: str, block: Mapping[str, Any]) -> str:
    """Return the settings with a platform's `options` in them; what else is set for it stays. Raises EditError."""
    if text and not text.endswith("\n"):
        text += "\n"
    platforms = _section(text)
    if platforms is None:
        root = _root(text)
        if root is not None and root.flow_style:
            raise EditError("callboard.yaml is written in braces; add the platform by hand")
        gap = "\n" if text.strip() else ""
        return f"{text}{gap}platforms:\n{_lines(name, block, INDENT)}"
    value = platforms.value
    if not isinstance(value, yaml.MappingNode):
        if not _is_nothing(value):
            raise EditError("`platforms` in callboard.yaml is no mapping")
        return _after_key(text, platforms, _lines(name, block, INDENT))
    if not value.value:  # {}
        return _after_key(text, platforms, _lines(name, block, INDENT))
    if value.flow_style:
        return _flow(text, value, name, block)
    return _in_block(text, value, name, block)


def _section(text: str) -> _Found | None:
    root = _root(text)
    return None if root is None else _entry(root, "platforms")


def _root(text: str) -> yaml.MappingNode | None:
    try:
        root = yaml.compose(text, Loader=yaml.SafeLoader)
    except yaml.YAMLError as error:
        raise EditError(f"callboard.yaml cannot be read: {error}") from None
    if root is None or _is_nothing(root):
        return None
    if not isinstance(root, yaml.MappingNode):
        raise EditError("callboard.yaml is no mapping of settings")
    return root


def _is_nothing(node: yaml.Node) -> bool:
    return isinstance(node, yaml.ScalarNode) and node.style is None and node.value in {"", "~", "null"}


def _entry(mapping: yaml.MappingNode, name: str) -> _Found | None:
    for key, value in mapping.value:
        if isinstance(key, yaml.ScalarNode) and key.value == name:
            return _Found(key, value)
    return None


def _after_key(text: str, found: _Found, lines: str) -> str:
    """Put lines below a key that has no value yet (or an explicit nothing)."""
    end = max(found.key.end_mark.index, found.value.end_mark.index)
    colon = text.index(":", found.key.end_mark.index)
    line_end = text.find("\n", max(end, colon))
    line_end = len(text) if line_end < 0 else line_end
    remark = text[max(end, colon + 1) : line_end].rstrip()
    return f"{text[: colon + 1]}{remark}\n{lines}{text[line_end + 1 :]}"


def _in_block(text: str, mapping: yaml.MappingNode, name: str, value: Any) -> str:
    """Set a key of a block mapping; of one that is a block itself, only the keys that are given."""
    indent = mapping.start_mark.column
    if indent == 0:
        raise EditError("`platforms` in callboard.yaml is not indented; add the platform by hand")
    found = _entry(mapping, name)
    if found is None:
        end = _end_of(text, mapping.value[-1][1])
        return text[:end] + _lines(name, value, indent) + text[end:]
    inner = found.value
    if (
        isinstance(inner, yaml.MappingNode)
        and inner.value
        and isinstance(value, Mapping)
        and "options" in value
    ):
        if inner.flow_style:
            raise EditError(f"{name} is written in braces in callboard.yaml; change it by hand")
        return _in_block(text, inner, "options", value["options"])
    start = text.rindex("\n", 0, found.key.start_mark.index) + 1 if found.key.start_mark.line else 0
    return text[:start] + _lines(name, value, indent) + text[_end_of(text, inner) :]


def _end_of(text: str, node: yaml.Node) -> int:
    """Return where the line after a value's last one begins; remarks below it stay behind it."""
    last = _last(node)
    if isinstance(last, yaml.ScalarNode) and last.style in {"|", ">"}:
        # A block of text ends where the next thing begins; blank lines and remarks between are not its own.
        end = last.end_mark.index
        return text.rindex("\n", 0, end) + 1 if "\n" in text[:end] else end
    end = text.find("\n", last.end_mark.index)
    return len(text) if end < 0 else end + 1


def _last(node: yaml.Node) -> yaml.Node:
    """Return the node that ends a value: a block's own end mark is where the next thing begins."""
    while isinstance(node, yaml.CollectionNode) and not node.flow_style and node.value:
        last = node.value[-1]
        node = last[1] if isinstance(last, tuple) else last
    return node


def _flow(text: str, platforms: yaml.MappingNode, name: str, block: Mapping[str, Any]) -> str:
    if _entry(platforms, name) is not None:
        raise EditError(f"`platforms` is written in braces and names {name} already; change it by hand")
    end = platforms.end_mark.index - 1
    entry = yaml.safe_dump({name: dict(block)}, default_flow_style=True, width=10_000, allow_unicode=True)
    entry = entry.strip().removeprefix("{").removesuffix("}")
    before = text[:end].rstrip()
    comma = "" if not platforms.value else " " if before.endswith(",") else ", "
    return before + comma + entry + text[end:]


def _lines(name: str, value: Any, indent: int) -> str:
    dumped = yaml.safe_dump(
        {name: dict(value)}, sort_keys=False, allow_unicode=True, width=10_000, indent=INDENT
    )
    return "".join(f"{' ' * indent}{line}\n" for line in dumped.splitlines())


def check_edit(before: str, after: str, name: str, block: Mapping[str, Any]) -> None:
    """Raise EditError unless the new text says what the old one did, and the platform."""
    try:
        wanted, found = yaml.safe_load(before) or {}, yaml.safe_load(after)
    except yaml.YAMLError as error:
        raise EditError(f"the changed callboard.yaml would not be readable: {error}") from None
    platforms = wanted.get("platforms") or {}
    expected = {**wanted, "platforms": {**platforms, name: {**(platforms.get(name) or {}), **block}}}
    if found != expected:
        raise EditError("callboard.yaml could not be changed without changing something else")
