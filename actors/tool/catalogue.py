"""All tools there are: what a model is shown, and what becomes of what it asks for."""

import difflib
import re
from collections.abc import Collection, Iterable, Sequence
from pathlib import Path

from actors.tool.arguments import ArgumentsError, canonical, parse_arguments
from actors.tool.names import show_name
from actors.tool.spec import ToolDefinitionError, ToolSpec, WorkspacePath, spec_of, tool
from actors.tool.workspace import OutsideWorkspaceError, Workspace
from messages.blocks import ToolCallBlock
from messages.ids import CallId
from messages.model import ToolSchema
from messages.settings import ToolSettings
from messages.tool import Effect, Permission, PreparedCall

__all__ = [
    "Catalogue",
    "ToolDefinitionError",
    "ToolSpec",
    "WorkspacePath",
    "spec_of",
    "tool",
]

_PREFIX = re.compile(r"^(functions?|tools?|default_api)[.:/]", re.IGNORECASE)
_SEPARATORS = re.compile(r"[-_.\s]+")


class Catalogue:
    """The tools of this process, as the settings allow them.

    `workspace` is the folder of the file tools; `results_dir` the folder where whole
    results are kept, which the reading tools may read too.
    """

    def __init__(
        self,
        specs: Iterable[ToolSpec],
        settings: ToolSettings,
        workspace: Path,
        results_dir: Path | None = None,
    ) -> None:
        self.settings = settings
        self.workspace = Workspace(workspace, results_dir)
        disabled = set(settings.disable)
        known: dict[str, ToolSpec] = {}
        for spec in specs:
            if spec.name not in disabled:
                known.setdefault(spec.name, spec)
        self._specs = known
        self._absent = {name: absent for name, spec in known.items() if (absent := spec.missing())}
        self._by_key: dict[str, list[str]] = {}
        for name in known:
            self._by_key.setdefault(_key(name), []).append(name)
        self._schemas = tuple(known[name].schema for name in sorted(known) if name not in self._absent)

    def schemas(self) -> tuple[ToolSchema, ...]:
        """Return the tools as models see them, by name; the same bytes every time."""
        return self._schemas

    def get(self, name: str) -> ToolSpec | None:
        """Return a tool by its exact name."""
        return self._specs.get(name)

    def specs(self) -> tuple[ToolSpec, ...]:
        """Return all tools that are not disabled, by name."""
        return tuple(self._specs[name] for name in sorted(self._specs))

    def prepare(
        self, blocks: Sequence[ToolCallBlock], taken: Collection[CallId] = ()
    ) -> tuple[PreparedCall, ...]:
        """Look up and check the calls of one answer: one result for each, in order.

        `taken` are call ids that the turn used before; a call whose id is empty or was
        used gets another. Never raises: what is wrong with a call is its `problem`.
        """
        used = set(taken)
        prepared = []
        for block in blocks:
            call_id = _unused(block.call_id, used)
            used.add(call_id)
            prepared.append(self._prepare(block, call_id))
        return tuple(prepared)

    def _prepare(self, block: ToolCallBlock, call_id: CallId) -> PreparedCall:
        spec = self._find(block.name)
        if spec is None or spec.name in self._absent:
            why = self._unknown(block.name) if spec is None else self._unavailable(spec.name)
            return PreparedCall(call_id=call_id, name=block.name, arguments=block.arguments, problem=why)
        arguments, problem = block.arguments, ""
        paths: tuple[str, ...] = ()
        try:
            checked = spec.validate(parse_arguments(block.arguments))
            paths = self._real_paths(spec, spec.named_paths(checked))
            arguments = canonical(checked)
        except (ArgumentsError, OutsideWorkspaceError) as error:
            problem = str(error)
        return PreparedCall(
            call_id=call_id,
            name=spec.name,
            arguments=arguments,
            effect=spec.effect,
            paths=paths,
            interactive=spec.interactive,
            repeatable=spec.repeatable,
            permission=self._permission(spec),
            problem=problem,
        )

    def _find(self, name: str) -> ToolSpec | None:
        """Find by the exact name, else by one that differs in case, separators or a prefix only."""
        if name in self._specs:
            return self._specs[name]
        alike = self._by_key.get(_key(name), [])
        return self._specs[alike[0]] if len(alike) == 1 else None

    def _unknown(self, name: str) -> str:
        shown = name if len(name) <= 64 else name[:64] + "…"
        names = [schema.name for schema in self._schemas]
        close = difflib.get_close_matches(name[:64].lower(), names, n=3, cutoff=0.5)
        if close:
            return f"There is no tool `{shown}`. Closest: {_listed(close)}."
        return f"There is no tool `{shown}`. There are: {_listed(names)}."

    def _unavailable(self, name: str) -> str:
        return f"The tool `{name}` needs the program `{self._absent[name]}`, which is not installed here."

    def _permission(self, spec: ToolSpec) -> Permission:
        if spec.effect in {Effect.READ, Effect.EXTERNAL}:
            return Permission.YES
        allowed = {spec.name, "*"} & set(self.settings.allow)
        return Permission.YES if allowed else Permission.ASK

    def _real_paths(self, spec: ToolSpec, named: tuple[str, ...]) -> tuple[str, ...]:
        reads = spec.effect is Effect.READ
        resolve = self.workspace.resolve_for_reading if reads else self.workspace.resolve
        return tuple(show_path(resolve(path)) for path in named)


def show_path(path: Path) -> str:
    """Return a real path as text that can be stored whatever bytes it holds."""
    return show_name(str(path))


def _key(name: str) -> str:
    return _SEPARATORS.sub("", _PREFIX.sub("", name.strip())).casefold()


def _unused(call_id: CallId, used: set[CallId]) -> CallId:
    base = call_id or "call"
    candidate, n = CallId(base), 1
    while candidate in used:
        n += 1
        candidate = CallId(f"{base}-{n}")
    return candidate


def _listed(names: Iterable[str]) -> str:
    return ", ".join(f"`{name}`" for name in names) or "none"
