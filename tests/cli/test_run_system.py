"""The command line as a process: what it prints, with which code it ends, what it imports."""

import json
import os
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import run_system

pytestmark = pytest.mark.slow

ROOT = Path(run_system.__file__).parent


def callboard(*arguments: str, stdin: str = "", **env: str) -> subprocess.CompletedProcess[str]:
    clean = {"PATH": os.environ["PATH"], "HOME": "/nonexistent", "COLUMNS": "100", **env}
    return subprocess.run(
        [sys.executable, str(ROOT / "run_system.py"), *arguments],
        input=stdin,
        capture_output=True,
        text=True,
        timeout=120,
        env=clean,
        check=False,
    )


HEAVY = {
    "aiohttp",
    "anthropic",
    "duckdb",
    "openai",
    "prompt_toolkit",
    "pydantic",
    "pykka",
    "starlette",
    "structlog",
    "uvicorn",
    "uvloop",
    "yaml",
}


@pytest.mark.parametrize(
    ("arguments", "heavy"),
    [
        (["--help"], HEAVY),
        (["--version"], HEAVY),
        (["run", "--help"], HEAVY - {"pydantic"}),  # typer itself reads options with it
        (["sessions", "export", "--help"], HEAVY - {"pydantic"}),
    ],
)
def test_help_imports_nothing_heavy(arguments: list[str], heavy: set[str]) -> None:
    program = (
        "import sys, run_system\n"
        f"sys.argv = ['callboard', *{arguments!r}]\n"
        "try:\n    run_system.main()\nexcept SystemExit as end:\n    assert not end.code\n"
        f"print('HEAVY', sorted(sys.modules.keys() & {heavy!r}))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=True, cwd=ROOT
    )
    assert done.stdout.splitlines()[-1] == "HEAVY []"


def test_help_teaches() -> None:
    whole = callboard("--help").stdout
    for command in ("run", "chat", "ask", "status", "doctor", "sessions", "config"):
        assert command in whole
        assert "Usage" in callboard(command, "--help").stdout
    assert "callboard chat" in whole
    assert "Exit codes" in whole
    assert "git diff | callboard ask -" in callboard("ask", "--help").stdout


def test_the_version_is_the_packages() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    assert callboard("--version").stdout.strip() == f"callboard {project['version']}"


def test_where_the_data_is(tmp_path: Path) -> None:
    def settings_path(*arguments: str, **env: str) -> str:
        return callboard(*arguments, "config", "path", **env).stdout.strip()

    one, two = tmp_path / "one", tmp_path / "two"
    assert settings_path(CALLBOARD_HOME=str(one)) == str(one / "callboard.yaml")
    assert settings_path("--home", str(two), CALLBOARD_HOME=str(one)) == str(two / "callboard.yaml")
    assert callboard("config", "path", "--home", str(two)).stdout.strip() == str(two / "callboard.yaml")
    assert settings_path(XDG_DATA_HOME=str(two)) == str(two / "callboard" / "callboard.yaml")
    assert settings_path("--config", str(one / "x.yaml")) == str(one / "x.yaml")


def test_config_check_tells_each_mistake_and_ends_with_2(tmp_path: Path) -> None:
    (tmp_path / "callboard.yaml").write_text("server:\n  prot: 1\n  host: 5\n")
    done = callboard("--home", str(tmp_path), "config", "check")
    assert done.returncode == 2
    assert done.stdout == ""
    assert (
        f"{tmp_path}/callboard.yaml:2:3: unknown setting `server.prot`. Did you mean `port`?" in done.stderr
    )
    assert ":3:9: " in done.stderr
    assert "Traceback" not in done.stderr


def test_config_check_of_what_is_right(tmp_path: Path) -> None:
    assert callboard("--home", str(tmp_path), "config", "check").returncode == 0
    (tmp_path / "callboard.yaml").write_text("providers: {x: {api_key: literal-secret-value}}\n")
    done = callboard("--home", str(tmp_path), "config", "check")
    assert done.returncode == 0
    assert "is valid" in done.stdout
    assert "providers.x.api_key (line 1)" in done.stderr
    assert "literal" not in done.stdout + done.stderr


def test_X05_config_show_masks_every_secret(tmp_path: Path) -> None:
    (tmp_path / "callboard.yaml").write_text(
        "providers:\n  x:\n    api_key: ${K}\nserver:\n  token: sk-test-AAAA1111BBBB2222\n"
    )
    done = callboard("--home", str(tmp_path), "config", "show", K="another-secret-value-9876")
    assert done.returncode == 0
    assert "another-secret" not in done.stdout
    assert "AAAA1111" not in done.stdout
    assert "***2222" in done.stdout
    assert "port: 8632" in done.stdout


def test_X05_config_show_masks_passwords_in_addresses(tmp_path: Path) -> None:
    (tmp_path / "callboard.yaml").write_text(
        "providers:\n  x:\n    base_url: http://bob:hunter22@h:9/v1?key=abcdefgh12\n"
        "platforms:\n  discord:\n    options: {token: t, proxy: 'http://pu:proxypass@h:1'}\n"
    )
    done = callboard("--home", str(tmp_path), "config", "show")
    assert done.returncode == 0
    assert "http://***@h:9/v1?key=***" in done.stdout
    assert "http://***@h:1" in done.stdout
    for secret in ("hunter22", "abcdefgh12", "proxypass"):
        assert secret not in done.stdout


def test_the_schema_in_the_repository_is_the_one_of_the_settings() -> None:
    done = callboard("config", "schema")
    assert json.loads(done.stdout)["properties"].keys() >= {"server", "model"}
    assert (ROOT / "callboard.schema.json").read_text("utf-8") == done.stdout


@pytest.mark.parametrize(
    "arguments",
    [["no-such-command"], ["--no-such-option"], ["ask"], ["sessions", "export"], ["chat", "surplus"]],
)
def test_a_wrong_command_line_ends_with_2(arguments: list[str]) -> None:
    done = callboard(*arguments)
    assert done.returncode == 2
    assert "Usage" in done.stderr
    assert "Traceback" not in done.stderr


def test_an_empty_question_ends_with_2(tmp_path: Path) -> None:
    done = callboard("--home", str(tmp_path), "ask", "-", stdin=" \n")
    assert done.returncode == 2
    assert "There is no question" in done.stderr


def test_status_with_none_running_ends_with_3(tmp_path: Path) -> None:
    done = callboard("--home", str(tmp_path), "status")
    assert done.returncode == 3
    assert done.stderr.startswith("Not running")


@pytest.mark.parametrize("command", [["run"], ["chat"], ["ask", "hello"]])
def test_a_data_folder_that_is_a_file_ends_with_4(tmp_path: Path, command: list[str]) -> None:
    place = tmp_path / "file"
    place.write_text("")
    done = callboard("--home", str(place), *command)
    assert done.returncode == 4
    assert "is not a folder" in done.stderr
    assert "--home" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    "command", [["run"], ["chat"], ["ask", "hello"], ["sessions", "list"], ["config", "show"]]
)
def test_a_named_settings_file_that_is_not_there_ends_with_2(tmp_path: Path, command: list[str]) -> None:
    if command[0] == "sessions":
        (tmp_path / "callboard.duckdb").write_bytes(b"")
    done = callboard("--home", str(tmp_path), *command, "--config", str(tmp_path / "none.yaml"))
    assert done.returncode == 2
    assert "there is no such file" in done.stderr
    assert "Traceback" not in done.stderr
