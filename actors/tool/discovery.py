"""Finds the tools there are: the built-in ones, and those of installed packages.

A package offers tools under the entry point group `callboard.tools`; the entry
names a module, a tool, or a list of tools. One that is broken is reported and
left out; it never keeps the process from starting.
"""

import importlib
from collections.abc import Iterable
from dataclasses import dataclass
from importlib.metadata import EntryPoint, entry_points
from types import ModuleType

import structlog

from actors.tool.spec import ToolSpec, spec_of

log = structlog.get_logger(__name__)

GROUP = "callboard.tools"
_BUILTIN = ("clock", "files", "search", "sending", "terminal", "web")


@dataclass(frozen=True, slots=True)
class Discovered:
    """The tools that can be used, and what is wrong with the others, for people to read."""

    specs: tuple[ToolSpec, ...]
    problems: tuple[str, ...]


def builtin_tools() -> tuple[ToolSpec, ...]:
    """Return the tools that are part of the product."""
    found: list[ToolSpec] = []
    for name in _BUILTIN:
        found.extend(_specs_in(importlib.import_module(f"actors.tool.builtin.{name}")))
    return tuple(found)


def discover(offered: Iterable[EntryPoint] | None = None, own: Iterable[ToolSpec] = ()) -> Discovered:
    """Return the built-in tools and those that installed packages offer. Never raises.

    `own` are built-in ones that stand on something of the house, such as its history.
    """
    specs = {spec.name: spec for spec in (*builtin_tools(), *own)}
    problems: list[str] = []
    for entry in sorted(entry_points(group=GROUP) if offered is None else offered, key=lambda e: e.name):
        try:
            found = _specs_in(entry.load())
        except (Exception, SystemExit) as error:  # noqa: BLE001 the code of others, at its import
            problems.append(f"{entry.name} ({entry.value}): {type(error).__name__}: {error}")
            continue
        if not found:
            problems.append(f"{entry.name} ({entry.value}): there is no function with @tool")
        for spec in found:
            if spec.name in specs:
                problems.append(f"{entry.name} ({entry.value}): there is a tool `{spec.name}` already")
            else:
                specs[spec.name] = spec
    for problem in problems:
        log.warning("a tool cannot be used", problem=problem)
    return Discovered(tuple(specs.values()), tuple(problems))


def _specs_in(thing: object) -> tuple[ToolSpec, ...]:
    spec = spec_of(thing)
    if spec is not None:
        return (spec,)
    if isinstance(thing, ModuleType):
        own = (
            value for value in vars(thing).values() if getattr(value, "__module__", None) == thing.__name__
        )
        return tuple(found for value in own if (found := spec_of(value)) is not None)
    if isinstance(thing, Iterable):
        return tuple(found for value in thing if (found := spec_of(value)) is not None)
    return ()
