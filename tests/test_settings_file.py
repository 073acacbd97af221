from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from actors.settings_file import (
    Problem,
    SettingsError,
    known_settings,
    load_settings,
    read_settings,
    secrets_in,
    secrets_of_environment,
)
from messages.settings import BusyPolicy, Settings

ENV = {"PORT": "8000", "KEY": "s3cret-of-the-env", "DIGITS": "12345678", "YES": "true", "EMPTY": ""}


def load(tmp_path: Path, text: str) -> Settings:
    path = tmp_path / "callboard.yaml"
    path.write_text(text, "utf-8")
    return load_settings(path, ENV)


@pytest.mark.parametrize(
    "text", ["", "\n", "# nothing\n", "---\n", "null\n", "{}\n", "model:\nserver:\n", "\ufeff{}"]
)
def test_an_empty_file_is_valid(tmp_path: Path, text: str) -> None:
    assert load(tmp_path, text) == Settings()


def test_no_file_is_valid(tmp_path: Path) -> None:
    assert load_settings(None, {}) == Settings()
    assert load_settings(tmp_path / "none.yaml", {}) == Settings()


def test_a_whole_file(tmp_path: Path) -> None:
    settings = load(
        tmp_path,
        """
model: {provider: mine, name: big-1, fallbacks: [other/small-1]}
providers:
  mine:
    base_url: http://127.0.0.1:9000/v1
    api_key: ${KEY}
    first_byte_timeout_s: 10
  other:
session:
  busy_dm: steer
  instructions: |
    Be kind.
server:
  port: ${PORT}
  allowed_hosts: ["box.example"]
tools:
  private_network: ${YES}
  allow: ["*"]
log: {level: debug}
""",
    )
    key = settings.providers["mine"].api_key
    assert key is not None
    assert key.get_secret_value() == "s3cret-of-the-env"
    assert settings.providers["mine"].first_byte_timeout_s == 10.0
    assert settings.providers["other"].api_key is None
    assert settings.session.busy_dm is BusyPolicy.STEER
    assert settings.session.instructions == "Be kind.\n"
    assert settings.server.port == 8000
    assert settings.tools.private_network is True
    assert settings.tools.allow == ("*",)


@pytest.mark.parametrize(
    ("line", "value"),
    [
        ("${KEY}", "s3cret-of-the-env"),
        ("pre-${KEY}-post", "pre-s3cret-of-the-env-post"),
        ("${DIGITS}", "12345678"),
        ("${NONE:-a default}", "a default"),
        ("${NONE:-}", ""),
        ("${EMPTY:-filled}", "filled"),
        ("${EMPTY}", ""),
        ("'${KEY}'", "s3cret-of-the-env"),
        ("$${KEY}", "${KEY}"),
        ("$KEY", "$KEY"),
        ("no", "no"),
        ("22:30", "22:30"),
        ("2024-01-01", "2024-01-01"),
    ],
)
def test_variables_and_words_that_yaml_would_change(tmp_path: Path, line: str, value: str) -> None:
    assert load(tmp_path, f"model:\n  name: {line}\n").model.name == value


def test_a_variables_value_is_not_read_as_yaml(tmp_path: Path) -> None:
    path = tmp_path / "callboard.yaml"
    path.write_text("model:\n  name: ${EVIL}\n")
    assert load_settings(path, {"EVIL": "x\nserver: {port: 1}"}).model.name == "x\nserver: {port: 1}"


BAD = [
    # text, line, column, what is said, what is to be done
    ("server:\n  prot: 1\n", 2, 3, "unknown setting `server.prot`", "`port`"),
    ("port: 1\n", 1, 1, "unknown setting `port`", "`server.port`"),
    ("servers:\n  port: 1\n", 1, 1, "unknown setting `servers`", "`server`"),
    ("providers:\n  x:\n    apikey: k\n", 3, 5, "unknown setting `providers.x.apikey`", "`api_key`"),
    ("providers:\n  x:\n    zzz: k\n", 3, 5, "unknown setting `providers.x.zzz`", "base_url"),
    ("server:\n  port: abc\n", 2, 9, "must be a whole number; found `abc`", "number"),
    ("server:\n  port: '80'\n", 2, 9, "must be a whole number; found `80`", "without quotes"),
    ("server:\n  port: true\n", 2, 9, "must be a whole number; found `true`", "number"),
    ("server:\n  port: 80.5\n", 2, 9, "must be a whole number", "number"),
    ("server:\n  port: 70000\n", 2, 9, "at most 65535; found `70000`", "at most 65535"),
    ("server:\n  port:\n", 2, 8, "found nothing", "remove the line"),
    ("server:\n  port: ${KEY}\n", 2, 9, "must be a whole number; found another value", "number"),
    ("server:\n  host: 5\n", 2, 9, "must be text; found `5`", 'in quotes: "5"'),
    ("server:\n  host: false\n", 2, 9, "must be text; found `false`", 'in quotes: "false"'),
    ("server:\n  token: 12345678\n", 2, 10, "`server.token` must be text; found another value", "in quotes"),
    ("server: 5\n", 1, 9, "must be a mapping", "below it"),
    ("server: []\n", 1, 9, "must be a mapping", "below it"),
    ("providers: []\n", 1, 12, "must be a mapping", "below it"),
    ("tools:\n  allow: terminal\n", 2, 10, "must be a list", "[a, b]"),
    ("tools:\n  allow: [a, 1]\n", 2, 14, "`tools.allow[1]` must be text", 'in quotes: "1"'),
    ("tools:\n  private_network: yes\n", 2, 20, "must be true or false; found `yes`", "true or false"),
    ("tools:\n  private_network: 1\n", 2, 20, "must be true or false", "true or false"),
    ("tools:\n  timeout_s: 0\n", 2, 14, "must be more than 0", "more than 0"),
    ("tools:\n  timeout_s: .nan\n", 2, 14, "must be a number", "number"),
    ("log:\n  level: loud\n", 2, 10, "`debug`, `info`, `warning` or `error`; found `loud`", "one of them"),
    ("session:\n  busy_dm: ignore\n", 2, 12, "`interrupt`, `queue`, `collect` or `steer`", "one of them"),
    ("store:\n  memory_limit: lots\n", 2, 17, "wrong form; found `lots`", "2GB"),
    ("a: 1\nserver: {}\nserver: {}\n", 3, 1, "`server` is set twice", "line 2"),
    ("server:\n  port: 1\n  port: 2\n", 3, 3, "`server.port` is set twice", "line 2"),
    ("server:\n  port: ${NONE}\n", 2, 9, "variable NONE is not set", "export NONE=…"),
    ("server:\n  host: ${no way}\n", 2, 9, "names no environment variable", "${NAME:-default}"),
    ("server:\n  host: ${\n", 2, 9, "names no environment variable", "`$${`"),
    ("server:\n\tport: 1\n", 2, 1, "bad YAML", "spaces"),
    ("server: [1\n", 2, 1, "bad YAML", "brackets"),
    ("server:\n  host: a: b\n", 2, 10, "bad YAML", "quotes"),
    ("server:\n  host: *x\n", 2, 9, "bad YAML", "quotes"),
    ("server:\n  host: \x00\n", 2, 9, "U+0000", "Remove it"),
    ("a: 1\n---\nb: 2\n", 2, 1, "bad YAML", ""),
    ("server: &a {host: *a}\n", 1, 9, "repeats itself", "Write the value out"),
    ("- server\n", 1, 1, "must be a mapping of settings; this is a list", "name: value"),
    ("server\n", 1, 1, "this is plain text", "name: value"),
    ("? [a]\n: 1\n", 1, 3, "must be plain text", "name: value"),
    ("<<: {a: 1}\n", 1, 1, "unknown setting `<<`", "Known here"),
]


@pytest.mark.parametrize(("text", "line", "column", "what", "remedy"), BAD)
def test_each_mistake_is_told_with_its_place_and_remedy(
    tmp_path: Path, text: str, line: int, column: int, what: str, remedy: str
) -> None:
    with pytest.raises(SettingsError) as caught:
        load(tmp_path, text)
    found = [problem for problem in caught.value.problems if what in problem.what]
    assert found, caught.value.problems
    assert (found[0].line, found[0].column) == (line, column)
    assert remedy in found[0].remedy
    assert f"callboard.yaml:{line}:{column}: " in caught.value.what
    assert remedy in str(caught.value)


def test_all_mistakes_are_told_at_once(tmp_path: Path) -> None:
    with pytest.raises(SettingsError) as caught:
        load(tmp_path, "server:\n  prot: 1\n  host: 5\nlog: {level: loud}\n")
    assert [problem.line for problem in caught.value.problems] == [2, 3, 4]
    assert caught.value.what.count("\n") == 2


def test_X05_a_secret_is_never_part_of_a_message(tmp_path: Path) -> None:
    path = tmp_path / "callboard.yaml"
    for value in ("[sk-test-AAAA1111BBBB2222]", "{a: sk-test-AAAA1111BBBB2222}", "${SECRET}"):
        path.write_text(f"providers:\n  x:\n    api_key: {value}\n    context_window: {value}\n")
        with pytest.raises(SettingsError) as caught:
            load_settings(path, {"SECRET": "sk-test-AAAA1111BBBB2222"})
        assert "AAAA1111" not in str(caught.value)


def test_not_utf8_is_told_with_its_place(tmp_path: Path) -> None:
    path = tmp_path / "callboard.yaml"
    path.write_bytes(b"server:\n  host: \xff\n")
    with pytest.raises(SettingsError, match=r"callboard\.yaml:2:9: this is not UTF-8"):
        load_settings(path, {})


def test_a_folder_and_a_named_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="this is a folder"):
        load_settings(tmp_path, {})
    with pytest.raises(SettingsError, match="no such file"):
        read_settings(tmp_path / "none.yaml", {}, must_exist=True)


@given(st.text(max_size=60))
def test_any_text_is_settings_or_a_told_mistake(tmp_path_factory: pytest.TempPathFactory, text: str) -> None:
    path = tmp_path_factory.mktemp("any") / "callboard.yaml"
    path.write_text(text, "utf-8", errors="replace", newline="")
    problems: tuple[Problem, ...] = ()
    try:
        load_settings(path, {})
    except SettingsError as error:
        problems = error.problems
    assert all(problem.what and problem.remedy for problem in problems)


def test_what_is_known_of_reading(tmp_path: Path) -> None:
    path = tmp_path / "callboard.yaml"
    path.write_text("providers:\n  a: {api_key: '${KEY}'}\n  b:\n    api_key: sk-in-the-file\n")
    loaded = read_settings(path, ENV)
    assert loaded.variables == {"KEY"}
    assert loaded.literal_secrets == ("providers.b.api_key (line 4)",)
    assert dict(secrets_in(loaded.settings)) == {
        ("providers", "a", "api_key"): "s3cret-of-the-env",
        ("providers", "b", "api_key"): "sk-in-the-file",
    }


def test_secrets_of_the_environment_are_known_by_name() -> None:
    env = {
        "OPENAI_API_KEY": "aaaaaaaa",
        "GITHUB_TOKEN": "bbbbbbbb",
        "DB_PASSWORD": "cccccccc",
        "MONKEY": "dddddddd",
        "KEYBOARD": "eeeeeeee",
        "SHORT_TOKEN": "x",
        "PATH": "/usr/bin",
    }
    assert set(secrets_of_environment(env)) == {"OPENAI_API_KEY", "GITHUB_TOKEN", "DB_PASSWORD"}


def test_every_setting_is_known() -> None:
    known = {".".join(path) for path, _ in known_settings()}
    assert {"server.port", "providers.*.api_key", "session.busy_dm", "hooks.timeout_s"} <= known
