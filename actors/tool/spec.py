"""`@tool`: a typed function becomes something a model can call."""

import inspect
import json
import re
import shutil
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Literal, TypeVar, get_type_hints

from pydantic import BaseModel, ConfigDict, Field, ValidationError, create_model
from pydantic.errors import PydanticUserError
from pydantic.fields import FieldInfo
from pydantic.json_schema import GenerateJsonSchema

from actors.tool.arguments import ArgumentsError, explain_mistakes
from actors.tool.docs import read_docstring
from actors.tool.names import show_bytes
from actors.tool.run import ToolRun
from messages.base import clean_text
from messages.model import ToolSchema
from messages.tool import Effect

Isolation = Literal["thread", "process"]
Arguments = Mapping[str, Any]
F = TypeVar("F", bound=Callable[..., Any])

_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")
_MARK = "__callboard_tool__"


class _IsPath:
    """Marks a parameter as a path inside the workspace."""


WorkspacePath = Annotated[str, _IsPath]
"""A path in the workspace. Parameters of this type say what a tool reads or writes."""


class ToolDefinitionError(Exception):
    """A function that cannot be a tool as it is written. The message says why."""


class _NoTitles(GenerateJsonSchema):
    """Titles repeat the names; a model pays for them in every request."""

    def field_title_should_be_set(self, schema: Any) -> bool:  # noqa: ARG002 pydantic's signature
        return False


class _Parameters(BaseModel):
    model_config = ConfigDict(extra="forbid")


@dataclass(frozen=True, slots=True)
class ToolSpec:
    """All that is known of a tool before it is called."""

    name: str
    description: str
    function: Callable[..., Any]
    parameters: type[BaseModel]
    schema: ToolSchema
    toolset: str
    effect: Effect
    interactive: bool
    timeout_s: float | Callable[[Arguments], float | None] | None
    result_bytes: int | None
    repeatable: bool
    isolation: Isolation | Callable[[Arguments], Isolation]
    requires: tuple[str, ...]
    paths: Callable[[Arguments], Iterable[str]]
    run_parameter: str | None
    """The parameter that takes the ToolRun, when the function wants it."""
    path_parameters: tuple[str, ...] = ()

    def validate(self, arguments: dict[str, Any]) -> dict[str, Any]:
        """Return the arguments checked, as plain JSON values. Raises ArgumentsError."""
        clean = {
            name: show_bytes(value) if name in self.path_parameters and isinstance(value, str) else value
            for name, value in arguments.items()
        }
        checked: dict[str, Any] = _cleaned(clean)
        self._check(checked)
        return checked

    def call(self, arguments: dict[str, Any], run: ToolRun) -> Any:
        """Call the function with checked arguments; a coroutine when it is asynchronous."""
        given = self._check(arguments)
        values = {name: getattr(given, name) for name in type(given).model_fields}
        if self.run_parameter is not None:
            values[self.run_parameter] = run
        return self.function(**values)

    def named_paths(self, arguments: Arguments) -> tuple[str, ...]:
        """Return the paths that a call reads or writes, as its arguments spell them."""
        given = self._check(dict(arguments))
        return tuple(self.paths({name: getattr(given, name) for name in type(given).model_fields}))

    def time_limit(self, arguments: Arguments, default: float) -> float:
        """Return how many seconds a call may take."""
        limit = self.timeout_s(arguments) if callable(self.timeout_s) else self.timeout_s
        return default if limit is None else limit

    def isolation_of(self, arguments: Arguments) -> Isolation:
        return self.isolation(arguments) if callable(self.isolation) else self.isolation

    def missing(self) -> str:
        """Return the first required program that this machine does not have, or nothing."""
        return next((program for program in self.requires if shutil.which(program) is None), "")

    def _check(self, arguments: dict[str, Any]) -> BaseModel:
        try:
            return self.parameters.model_validate_json(json.dumps(arguments), strict=True)
        except ValidationError as error:
            raise ArgumentsError(explain_mistakes(error.errors(include_url=False))) from None


def tool(  # noqa: PLR0913 each is a property of the tool, named at every use
    *,
    name: str | None = None,
    toolset: str = "user",
    effect: Effect = Effect.READ,
    interactive: bool = False,
    timeout_s: float | Callable[[Arguments], float | None] | None = None,
    result_bytes: int | None = None,
    repeatable: bool | None = None,
    isolation: Isolation | Callable[[Arguments], Isolation] = "thread",
    requires: Iterable[str] = (),
    paths: Callable[[Arguments], Iterable[str]] | None = None,
) -> Callable[[F], F]:
    """Declare a function to be a tool; the function itself stays what it was.

    The docstring's first part describes the tool, its `Args:` section the parameters.
    `timeout_s` is in seconds, or a function of the arguments; without it, the settings'.
    `result_bytes` is how much of a result a model is given at most.
    `repeatable` says whether a call may run twice; without it, true for what only reads.
    A synchronous function runs in a thread; with `isolation="process"` in a process of
    its own, which can be killed: for code that may compute for long without a pause.
    `requires` names programs that must be installed.
    `paths` tells the paths that a call reads or writes; without it, the parameters of
    type WorkspacePath do. Raises ToolDefinitionError.
    """

    def declare(function: F) -> F:
        taken = name or function.__name__
        if not _NAME.fullmatch(taken):
            raise ToolDefinitionError(f"`{taken}`: a tool's name is 1 to 64 of A-Z, a-z, 0-9, _ and -.")
        if isolation == "process" and (inspect.iscoroutinefunction(function) or "<" in function.__qualname__):
            raise ToolDefinitionError(
                f"`{taken}`: only a synchronous function at the top of a module can run in its own process."
            )
        hints = _hints(taken, function)
        doc = read_docstring(inspect.getdoc(function) or "")
        if not doc.description:
            raise ToolDefinitionError(f"`{taken}` has no docstring: a model would not know what it is for.")
        parameters, run_parameter = _parameters(taken, function, hints, doc.parameters)
        marked = tuple(name for name in parameters.model_fields if _IsPath in _metadata(hints.get(name)))
        spec = ToolSpec(
            name=taken,
            description=doc.description,
            function=function,
            parameters=parameters,
            schema=_schema(taken, doc.description, parameters),
            toolset=toolset,
            effect=effect,
            interactive=interactive,
            timeout_s=timeout_s,
            result_bytes=result_bytes,
            repeatable=effect in {Effect.READ, Effect.EXTERNAL} if repeatable is None else repeatable,
            isolation=isolation,
            requires=tuple(requires),
            paths=paths or (lambda arguments: [arguments[name] for name in marked if arguments[name]]),
            run_parameter=run_parameter,
            path_parameters=marked,
        )
        setattr(function, _MARK, spec)
        return function

    return declare


def spec_of(thing: object) -> ToolSpec | None:
    """Return what `@tool` declared about a function; None when it is no tool."""
    spec = getattr(thing, _MARK, None)
    return spec if isinstance(spec, ToolSpec) else None


def _hints(name: str, function: Callable[..., Any]) -> dict[str, Any]:
    try:
        return get_type_hints(function, include_extras=True)
    except (NameError, TypeError) as error:
        raise ToolDefinitionError(f"`{name}`: its annotations cannot be read: {error}.") from error


def _parameters(
    name: str, function: Callable[..., Any], hints: dict[str, Any], docs: Mapping[str, str]
) -> tuple[type[BaseModel], str | None]:
    fields: dict[str, Any] = {}
    run_parameter = None
    for parameter in inspect.signature(function).parameters.values():
        hint = hints.get(parameter.name)
        if hint is ToolRun:
            run_parameter = parameter.name
            continue
        if parameter.kind not in {parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY}:
            raise ToolDefinitionError(f"`{name}`: `{parameter}` has no name of its own to be given by.")
        if hint is None:
            raise ToolDefinitionError(f"`{name}`: parameter `{parameter.name}` has no type.")
        field = FieldInfo.from_annotation(hint)
        default = field.default if parameter.default is parameter.empty else parameter.default
        described = docs.get(parameter.name)
        if described and not field.description:
            hint = Annotated[hint, Field(description=described)]
        fields[parameter.name] = (hint, default)
    try:
        return create_model(f"{name}_parameters", __base__=_Parameters, **fields), run_parameter
    except (PydanticUserError, NameError, TypeError) as error:
        raise ToolDefinitionError(
            f"`{name}`: no JSON schema can be made of its parameters: {error}"
        ) from error


def _schema(name: str, description: str, parameters: type[BaseModel]) -> ToolSchema:
    try:
        schema = parameters.model_json_schema(schema_generator=_NoTitles)
    except PydanticUserError as error:
        raise ToolDefinitionError(
            f"`{name}`: no JSON schema can be made of its parameters: {error}"
        ) from error
    for titled in (schema, *schema.get("$defs", {}).values()):
        titled.pop("title", None)
    schema.pop("description", None)
    schema.setdefault("properties", {})
    text = json.dumps(schema, ensure_ascii=False, separators=(",", ":"))
    return ToolSchema(name=name, description=description, parameters=text)


def _metadata(hint: Any) -> tuple[Any, ...]:
    return getattr(hint, "__metadata__", ())


def _cleaned(value: Any) -> Any:
    """Replace what UTF-8 cannot encode, at any depth."""
    match value:
        case str():
            return clean_text(value)
        case dict():
            return {_cleaned(key): _cleaned(inner) for key, inner in value.items()}
        case list():
            return [_cleaned(inner) for inner in value]
        case _:
            return value
