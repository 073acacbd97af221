"""Reading callboard.yaml: every mistake is told with its line, its column and the remedy.

No file and an empty file are valid. `${NAME}` is replaced by the environment's
value, `${NAME:-default}` by the default when it is not set, `$${` stands for `${`.
Words are read as YAML 1.2 reads them: `yes`, `no`, `on` and `22:30` are text, not
truth values and numbers, so that nothing changes its meaning silently.
"""

import difflib
import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, get_args, get_origin

import yaml
from pydantic import BaseModel, SecretStr, ValidationError
from pydantic_core import ErrorDetails

from actors.errors import StartError
from messages.settings import Settings

Where = tuple[str | int, ...]
"""Where a value is in the settings: ("providers", "openai", "api_key")."""

_MOST_NODES: Final = 50_000
_VARIABLE = re.compile(r"\$(?:(\$)\{|\{([^{}:]*)(?::-([^{}]*))?\}|\{)")
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")
_WHOLE = re.compile(r"[-+]?[0-9]+\Z")
_FRACTION = re.compile(r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?\Z")
_NOTHING = ("", "~", "null", "Null", "NULL")
_TRUTH = {"true": True, "True": True, "TRUE": True, "false": False, "False": False, "FALSE": False}


@dataclass(frozen=True, slots=True)
class Problem:
    """One mistake in the file. Lines and columns count from 1; 0 when it has no place."""

    line: int
    column: int
    what: str
    remedy: str


class SettingsError(StartError):
    """The settings cannot be used. Holds all mistakes that were found, in order of lines."""

    def __init__(self, path: Path | None, problems: tuple[Problem, ...]) -> None:
        self.path = path
        self.problems = tuple(sorted(problems, key=lambda problem: (problem.line, problem.column)))
        name = str(path) if path else "settings"
        lines = [
            f"{name}:{p.line}:{p.column}: {p.what}" + (f" {p.remedy}" if len(problems) > 1 else "")
            if p.line
            else f"{name}: {p.what}"
            for p in self.problems
        ]
        super().__init__("\n".join(lines), self.problems[0].remedy if len(problems) == 1 else "")


@dataclass(frozen=True, slots=True)
class LoadedSettings:
    """Settings with what else is known from reading them."""

    settings: Settings
    path: Path | None
    """The file they came from; None when there is none."""
    variables: frozenset[str]
    """Names of the environment's variables that the file used."""
    literal_secrets: tuple[str, ...]
    """Secrets written into the file itself, as `providers.openai.api_key (line 7)`."""


def load_settings(path: Path | None, env: Mapping[str, str]) -> Settings:
    """Return the settings of a file; the defaults for None or a file that does not exist.

    Raises SettingsError.
    """
    return read_settings(path, env).settings


def read_settings(path: Path | None, env: Mapping[str, str], *, must_exist: bool = False) -> LoadedSettings:
    """Return the settings of a file with what is known of them. Raises SettingsError.

    `must_exist` is for a file that somebody named: its absence is then a mistake.
    """
    if path is None:
        return LoadedSettings(Settings(), None, frozenset(), ())
    try:
        text = _text_of(path)
    except FileNotFoundError:
        if must_exist:
            raise SettingsError(
                path, (Problem(0, 0, "there is no such file.", "Check the name, or leave --config out."),)
            ) from None
        return LoadedSettings(Settings(), None, frozenset(), ())
    return _Reader(path, env).read(text)


def _text_of(path: Path) -> str:
    try:
        raw = path.read_bytes()
    except IsADirectoryError:
        raise SettingsError(
            path, (Problem(0, 0, "this is a folder, not a file.", "Name the YAML file itself."),)
        ) from None
    except PermissionError:
        remedy = f"Let this user read it: chmod u+r {path}"
        raise SettingsError(path, (Problem(0, 0, "this file may not be read.", remedy),)) from None
    except NotADirectoryError:
        raise FileNotFoundError(path) from None
    except FileNotFoundError:
        raise
    except OSError as error:
        raise SettingsError(
            path, (Problem(0, 0, f"reading failed: {error.strerror}.", "Check the disk and the path."),)
        ) from None
    try:
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        before = raw[: error.start]
        line = before.count(b"\n") + 1
        column = error.start - (before.rfind(b"\n") + 1) + 1
        problem = Problem(line, column, "this is not UTF-8 text.", "Save the file as UTF-8.")
        raise SettingsError(path, (problem,)) from None


class _Reader:
    """Reads one file: nodes with their places, then plain data, then the model."""

    def __init__(self, path: Path, env: Mapping[str, str]) -> None:
        self._path = path
        self._env = env
        self._problems: list[Problem] = []
        self._values: dict[Where, yaml.Node] = {}
        self._keys: dict[Where, yaml.Node] = {}
        self._replaced: set[Where] = set()
        self._variables: set[str] = set()
        self._count = 0

    def read(self, text: str) -> LoadedSettings:
        root = self._compose(text)
        data = self._data(root) if root is not None else {}
        self._raise_problems()
        settings = self._validate(data)
        literal = tuple(
            f"{_dotted(where)} (line {self._values[where].start_mark.line + 1})"
            for where, _ in secrets_in(settings)
            if where in self._values and where not in self._replaced
        )
        return LoadedSettings(settings, self._path, frozenset(self._variables), literal)

    def _raise_problems(self) -> None:
        if self._problems:
            raise SettingsError(self._path, tuple(self._problems))

    def _problem(self, node: yaml.Node | None, what: str, remedy: str) -> None:
        mark = node.start_mark if node is not None else None
        line, column = (mark.line + 1, mark.column + 1) if mark else (0, 0)
        self._problems.append(Problem(line, column, what, remedy))

    # ------------------------------------------------------------------ YAML

    def _compose(self, text: str) -> yaml.Node | None:
        try:
            root = yaml.compose(text, Loader=yaml.SafeLoader)
        except yaml.MarkedYAMLError as error:
            mark = error.problem_mark or error.context_mark
            line, column = (mark.line + 1, mark.column + 1) if mark else (0, 0)
            context = f" ({error.context})" if error.context else ""
            self._problems.append(
                Problem(
                    line, column, f"bad YAML: {error.problem}{context}.", _yaml_remedy(str(error.problem))
                )
            )
        except yaml.reader.ReaderError as error:
            line = text[: error.position].count("\n") + 1
            column = error.position - (text.rfind("\n", 0, error.position) + 1) + 1
            what = f"bad YAML: the character U+{int(error.character):04X} is not allowed."
            self._problems.append(Problem(line, column, what, "Remove it."))
        except RecursionError:
            self._problems.append(Problem(1, 1, "this is nested too deeply.", "Settings have three levels."))
        self._raise_problems()
        if isinstance(root, yaml.ScalarNode) and root.value in _NOTHING and root.style is None:
            return None
        if root is not None and not isinstance(root, yaml.MappingNode):
            found = "a list" if isinstance(root, yaml.SequenceNode) else "plain text"
            remedy = "Write `name: value` lines, such as `server:` and below it `  port: 8632`."
            self._problem(root, f"the file must be a mapping of settings; this is {found}.", remedy)
            self._raise_problems()
        return root

    def _data(self, node: yaml.Node, where: Where = (), above: tuple[yaml.Node, ...] = ()) -> Any:
        self._count += 1
        if node in above or self._count > _MOST_NODES:
            self._problem(node, "an alias (*name) repeats itself without end.", "Write the value out.")
            self._raise_problems()
        self._values[where] = node
        if isinstance(node, yaml.MappingNode):
            return self._mapping(node, where, (*above, node))
        if isinstance(node, yaml.SequenceNode):
            return [self._data(item, (*where, n), (*above, node)) for n, item in enumerate(node.value)]
        assert isinstance(node, yaml.ScalarNode)
        return self._scalar(node, where)

    def _mapping(self, node: yaml.MappingNode, where: Where, above: tuple[yaml.Node, ...]) -> dict[str, Any]:
        data: dict[str, Any] = {}
        first: dict[str, yaml.Node] = {}
        for key_node, value_node in node.value:
            if not isinstance(key_node, yaml.ScalarNode):
                self._problem(key_node, "a setting's name must be plain text.", "Write `name: value`.")
                continue
            key = key_node.value
            if key in first:
                line = first[key].start_mark.line + 1
                remedy = f"It was set in line {line} already; keep one of the two."
                self._problem(key_node, f"`{_dotted((*where, key))}` is set twice.", remedy)
                continue
            first[key] = key_node
            self._keys[(*where, key)] = key_node
            value = self._data(value_node, (*where, key), above)
            if value is None and len(where) == 0:
                continue  # a section whose lines are all comments
            data[key] = {} if value is None and where == ("providers",) else value
        return data

    def _scalar(self, node: yaml.ScalarNode, where: Where) -> Any:
        text = self._with_variables(node, where)
        if node.style is not None or where in self._replaced:
            return text
        return _plain(text)

    def _with_variables(self, node: yaml.ScalarNode, where: Where) -> str:
        def replace(found: re.Match[str]) -> str:
            escaped, name, default = found.groups()
            if escaped:
                return "${"
            if name is None or not _NAME.match(name):
                remedy = "Write ${NAME} or ${NAME:-default}; for a plain `${`, write `$${`."
                self._problem(node, f"`{found[0]}` names no environment variable.", remedy)
                return ""
            self._replaced.add(where)
            self._variables.add(name)
            value = self._env.get(name)
            if value is None or (value == "" and default is not None):
                if default is not None:
                    return default
                remedy = f"Set it before the start (export {name}=…), or give a default: ${{{name}:-value}}"
                self._problem(
                    node, f"the environment variable {name} is not set (for `{_dotted(where)}`).", remedy
                )
                return ""
            return value

        text: str = node.value
        return _VARIABLE.sub(replace, text) if "$" in text else text

    # ------------------------------------------------------------------ the model

    def _validate(self, data: Any) -> Settings:
        try:
            return _strictly(data)
        except ValidationError as error:
            first = error
        # A variable's value is text; where a number or a truth value is wanted, it is read as one.
        for detail in first.errors(include_url=False):
            if detail["type"] in {"int_type", "float_type", "bool_type"} and detail["loc"] in self._replaced:
                _put(data, detail["loc"], _plain(str(_at(data, detail["loc"]))))
        try:
            return _strictly(data)
        except ValidationError as error:
            for detail in error.errors(include_url=False):
                self._explain(detail)
        self._raise_problems()
        raise AssertionError("a validation error without details")

    def _explain(self, detail: ErrorDetails) -> None:
        where = tuple(detail["loc"])
        if detail["type"] == "extra_forbidden":
            self._problem(self._keys.get(where), f"unknown setting `{_dotted(where)}`.", _did_you_mean(where))
            return
        node = self._values.get(where) or next(
            (self._values[where[:n]] for n in range(len(where), -1, -1) if where[:n] in self._values), None
        )
        what, remedy = _wrong_value(detail, self._shown(node, where))
        self._problem(node, f"`{_dotted(where)}` {what}", remedy)

    def _shown(self, node: yaml.Node | None, where: Where) -> str:
        """Return the value for a message; never one that may be a secret."""
        if isinstance(node, yaml.MappingNode):
            return "a mapping"
        if isinstance(node, yaml.SequenceNode):
            return "a list"
        if node is None or where in self._replaced or _is_secret(where):
            return "another value"
        text = str(node.value)
        if text in _NOTHING:
            return "nothing"
        return f"`{text[:40]}{'…' if len(text) > 40 else ''}`"


def _strictly(data: Any) -> Settings:
    """Validate as JSON: lists and words are taken, but no text as a number and no truth value as one."""
    return Settings.model_validate_json(json.dumps(data), strict=True)


def _plain(text: str) -> Any:
    """Return what an unquoted word means in YAML 1.2."""
    if text in _NOTHING:
        return None
    if text in _TRUTH:
        return _TRUTH[text]
    if _WHOLE.match(text):
        return int(text) if len(text) < 30 else text
    if _FRACTION.match(text):
        return float(text)
    return text


def _at(data: Any, where: Where) -> Any:
    for step in where:
        data = data[step]
    return data


def _put(data: Any, where: Where, value: Any) -> None:
    _at(data, where[:-1])[where[-1]] = value


def _dotted(where: Where) -> str:
    text = ""
    for step in where:
        text += f"[{step}]" if isinstance(step, int) else f".{step}" if text else step
    return text or "the file"


def _yaml_remedy(problem: str) -> str:
    if "\\t" in problem or "tab" in problem:
        return "Indent with spaces, not with tabs."
    if "mapping values are not allowed" in problem:
        return "Check the indentation, and put text that contains `: ` in quotes."
    if "alias" in problem or "anchor" in problem:
        return "Put text that begins with * or & in quotes."
    return "Check the indentation, quotes and brackets of this line and the one before it."


_WANTED: Final = {
    "string_type": "text",
    "int_type": "a whole number",
    "int_from_float": "a whole number",
    "float_type": "a number",
    "bool_type": "true or false",
    "tuple_type": "a list",
    "dict_type": "a mapping",
    "model_type": "a mapping of settings",
    "model_attributes_type": "a mapping of settings",
}


def _wrong_value(detail: ErrorDetails, shown: str) -> tuple[str, str]:
    """Return what is wrong with a value, and the remedy."""
    kind = detail["type"]
    context = detail.get("ctx", {})
    if wanted := _WANTED.get(kind):
        return f"must be {wanted}; found {shown}.", _remedy_for_type(kind, detail["input"], shown)
    if kind in {"literal_error", "enum"}:
        allowed = str(context.get("expected", "")).replace("'", "`")
        return f"must be one of {allowed}; found {shown}.", "Write one of them."
    if limit := next((name for name in ("ge", "gt", "le", "lt") if name in context), None):
        word = {"ge": "at least", "gt": "more than", "le": "at most", "lt": "less than"}[limit]
        bound = context[limit]
        return f"must be {word} {bound}; found {shown}.", f"Write a number {word} {bound}."
    if kind == "string_pattern_mismatch":
        return f"has the wrong form; found {shown}.", "Write a number and a unit, such as 2GB or 512MB."
    return f"is wrong: {detail['msg']}.", "See docs/configuration.md."


def _remedy_for_type(kind: str, value: Any, shown: str) -> str:
    if kind == "string_type" and isinstance(value, bool | int | float):
        return "Put it in quotes: " + (f'"{shown.strip("`")}".' if shown.startswith("`") else '"…".')
    if kind == "bool_type":
        return "Write true or false."
    if kind == "tuple_type":
        return "Write a list: [a, b], or lines that begin with `- `."
    if kind in {"dict_type", "model_type", "model_attributes_type"}:
        return "Write its settings below it, each on a line of its own and indented."
    if value is None:
        return "Give it a value, or remove the line to use the default."
    if kind in {"int_type", "int_from_float", "float_type"}:
        return "Write the number alone, without a unit and without quotes."
    return "Write text."


# ------------------------------------------------------------------ what there is to set


def known_settings() -> Iterator[tuple[tuple[str, ...], Any]]:
    """Give every setting's path and its pydantic field; `*` stands for a name of the operator's choice."""
    yield from _known(Settings, ())


def _known(model: type[BaseModel], where: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], Any]]:
    for name, field in model.model_fields.items():
        part = field.annotation
        if isinstance(part, type) and issubclass(part, BaseModel):
            yield from _known(part, (*where, name))
            continue
        named = get_args(part)[-1:] if get_origin(part) is dict else ()
        if named and isinstance(named[0], type) and issubclass(named[0], BaseModel):
            yield from _known(named[0], (*where, name, "*"))
            continue
        yield (*where, name), field


def _did_you_mean(where: Where) -> str:
    name = str(where[-1])
    above = tuple(
        "*" if n == 1 and where[0] in ("providers", "platforms") else str(step)
        for n, step in enumerate(where[:-1])
    )
    paths = [path for path, _ in known_settings()]
    siblings = sorted(
        {path[len(above)] for path in paths if path[: len(above)] == above and len(path) > len(above)}
    )
    plain = name.lower().replace("-", "_")
    if close := difflib.get_close_matches(plain, siblings, 1, 0.6):
        return f"Did you mean `{close[0]}`?"
    elsewhere = [path for path in paths if path[-1] == plain]
    if elsewhere:
        return f"Did you mean `{'.'.join(elsewhere[0]).replace('*', '<name>')}`?"
    return f"Known here: {', '.join(siblings)}."


def _is_secret(where: Where) -> bool:
    return bool(where) and str(where[-1]) in {
        path[-1] for path, field in known_settings() if "SecretStr" in str(field.annotation)
    }


def secrets_in(settings: BaseModel, where: Where = ()) -> Iterator[tuple[Where, str]]:
    """Give every secret that is set, with its path: what the redactor must know."""
    for name, value in settings:
        yield from _secrets(value, (*where, name))


def _secrets(value: object, where: Where) -> Iterator[tuple[Where, str]]:
    match value:
        case SecretStr():
            yield where, value.get_secret_value()
        case BaseModel():
            yield from secrets_in(value, where)
        case dict():
            for name, item in value.items():
                yield from _secrets(item, (*where, name))
        case _:
            return


def secrets_of(settings: BaseModel) -> tuple[str, ...]:
    """Return every secret that is set."""
    return tuple(secret for _, secret in secrets_in(settings))


_SECRET_NAME = re.compile(
    r"(?:^|_)(?:API_?KEY|KEY|TOKEN|SECRET|PASSWORD|PASSWD|CREDENTIALS?|AUTH)(?:$|_)|_PAT$|_DSN$",
    re.IGNORECASE,
)


def secrets_of_environment(env: Mapping[str, str]) -> dict[str, str]:
    """Return the environment's variables whose name says that they hold a secret."""
    return {name: value for name, value in env.items() if _SECRET_NAME.search(name) and len(value) >= 8}
