"""User hooks: functions that hear lifecycle events, found by entry point and by file.

A hook that cannot be loaded is reported with file, line and reason; it never stops
the start. See docs/hooks.md.
"""

import importlib.util
import inspect
import sys
import traceback
import types
import typing
from collections.abc import Callable
from dataclasses import dataclass
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from typing import Any, Final

import structlog

from actors.lifecycle import Lifecycle
from messages.lifecycle import LifecycleEvent
from messages.settings import HookSettings

log = structlog.get_logger(__name__)

GROUP: Final = "callboard.hooks"
"""The entry point group in which packages announce their hooks."""


@dataclass(frozen=True)
class Hook:
    """A function that is to hear events. `kinds` is None for all of them."""

    name: str
    function: Callable[[Any], Any]
    kinds: tuple[type[LifecycleEvent], ...] | None


@dataclass(frozen=True)
class HookProblem:
    """A hook that could not be loaded, and where to look."""

    source: str
    """The entry of the settings, or the entry point."""
    reason: str
    file: str = ""
    line: int | None = None

    def __str__(self) -> str:
        where = f" ({self.file}:{self.line})" if self.line else f" ({self.file})" if self.file else ""
        return f"hook {self.source}: {self.reason}{where}"


class HookError(Exception):
    """A hook is not usable; the text says why."""


def load_hooks(
    settings: HookSettings, base: Path, installed: tuple[EntryPoint, ...] | None = None
) -> tuple[tuple[Hook, ...], tuple[HookProblem, ...]]:
    """Load all hooks: those of installed packages, then the files of the settings, relative to `base`."""
    found = tuple(entry_points(group=GROUP)) if installed is None else installed
    hooks: list[Hook] = []
    problems: list[HookProblem] = []
    sources: list[tuple[str, Callable[[], Hook]]] = [
        *((f"{point.name} = {point.value}", lambda p=point: _from_entry_point(p)) for point in found),
        *((entry, lambda e=entry: _from_file(e, base)) for entry in settings.files),
    ]
    for source, load in sources:
        try:
            hooks.append(load())
        except HookError as error:
            problems.append(HookProblem(source, str(error)))
        except (Exception, SystemExit) as error:  # noqa: BLE001 somebody else's module may raise anything
            problems.append(_problem(source, error))
    for problem in problems:
        log.error(
            "hook not loaded",
            hook=problem.source,
            reason=problem.reason,
            file=problem.file,
            line=problem.line,
        )
    return tuple(hooks), tuple(problems)


def install_hooks(lifecycle: Lifecycle, settings: HookSettings, base: Path) -> tuple[HookProblem, ...]:
    """Load all hooks and subscribe them; return what could not be loaded."""
    hooks, problems = load_hooks(settings, base)
    for hook in hooks:
        lifecycle.subscribe(
            hook.name, hook.function, kinds=hook.kinds, timeout_s=settings.timeout_s, isolated=True
        )
        log.info("hook loaded", hook=hook.name)
    return problems


def _from_entry_point(point: EntryPoint) -> Hook:
    return _hook(point.name, point.load())


def _from_file(entry: str, base: Path) -> Hook:
    path_text, separator, function_name = entry.rpartition(":")
    if not separator or not function_name.isidentifier():
        raise HookError("write it as path/to/file.py:function")
    path = (base / Path(path_text).expanduser()).resolve()
    if not path.is_file():
        raise HookError(f"there is no file {path}")
    module = _load_module(path)
    function = getattr(module, function_name, None)
    if function is None:
        raise HookError(f"{path} has no function {function_name!r}")
    return _hook(f"{path.stem}.{function_name}", function)


def _load_module(path: Path) -> types.ModuleType:
    name = f"callboard_hook_{path.stem}_{abs(hash(str(path))):x}"
    if name in sys.modules:
        return sys.modules[name]
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise HookError(f"{path} is not a Python file")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[name]
        raise
    return module


def _hook(name: str, function: Any) -> Hook:
    if not callable(function):
        raise HookError(f"{function!r} is not a function")
    try:
        signature = inspect.signature(function)
        signature.bind(object())
    except (TypeError, ValueError):
        raise HookError("a hook takes exactly one argument, the event") from None
    return Hook(name, function, _kinds(function, signature))


def _kinds(function: Any, signature: inspect.Signature) -> tuple[type[LifecycleEvent], ...] | None:
    """Read from the argument's annotation which events are wanted."""
    target = function if inspect.isroutine(function) else type(function).__call__
    parameter = next(iter(signature.parameters))
    try:
        wanted = typing.get_type_hints(target).get(parameter)
    except NameError as error:
        raise HookError(f"its annotation names something that is not imported: {error}") from None
    if wanted is None or wanted is Any or wanted is LifecycleEvent:
        return None
    parts = typing.get_args(wanted) or (wanted,)
    kinds = tuple(part for part in parts if isinstance(part, type) and issubclass(part, LifecycleEvent))
    if len(kinds) != len(parts):
        raise HookError(f"its argument is annotated {wanted}, which is not an event of messages.lifecycle")
    return kinds


def _problem(source: str, error: BaseException) -> HookProblem:
    reason = f"{type(error).__name__}: {error}"
    if isinstance(error, SyntaxError):
        return HookProblem(source, reason, error.filename or "", error.lineno)
    frames = traceback.extract_tb(error.__traceback__)
    theirs = [f for f in frames if f.filename != __file__ and not f.filename.startswith("<frozen")]
    if not theirs:
        return HookProblem(source, reason)
    return HookProblem(source, reason, theirs[-1].filename, theirs[-1].lineno)
