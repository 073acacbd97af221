"""Other gateways on this machine are found by their processes, their files and their ports."""

import io
import json
import re
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from actors.console.cli import other_gateways, platform_add, serve
from actors.console.cli.doctor import check_other_gateways
from actors.console.cli.invocation import ExitCode
from actors.console.cli.other_gateways import KNOWN, Other, Seen, find_others, is_gateway
from actors.errors import StartError
from messages.settings import Settings
from tests.cli.house import noted, printed, typed
from tests.cli.test_platform_add import TOKEN, adds
from tests.fakes.desk import FakeDesk

HERMES, OPENCLAW, NANOBOT = KNOWN


def found(
    home: Path, *seen: tuple[str, ...], secrets: tuple[str, ...] = (), port: int = 0
) -> dict[str, Other]:
    others = find_others(
        home,
        secrets,
        seen=[Seen(100 + n, argv) for n, argv in enumerate(seen)],
        listening=lambda asked: asked == port,
    )
    return {other.name: other for other in others}


@pytest.mark.parametrize(
    ("known", "line"),
    [
        (HERMES, "hermes gateway run"),
        (HERMES, "/usr/bin/python3 /home/ann/.local/bin/hermes gateway"),
        (HERMES, "python -m hermes_cli.main gateway run --replace"),
        (HERMES, "/opt/venv/bin/python3.12 -u /opt/hermes-agent/hermes_cli/main.py gateway run"),
        (HERMES, "uv run hermes gateway"),
        (OPENCLAW, "openclaw-gateway"),
        (OPENCLAW, "node /usr/lib/node_modules/openclaw/dist/index.js gateway --port 18789"),
        (OPENCLAW, "/opt/homebrew/bin/node /opt/homebrew/bin/openclaw gateway run"),
        (OPENCLAW, "node /x/clawdbot/dist/entry.js gateway"),
        (NANOBOT, "/home/ann/.local/bin/nanobot gateway --verbose"),
        (NANOBOT, "python -m nanobot gateway"),
        (NANOBOT, "uvx nanobot-ai gateway"),
    ],
)
def test_M13_a_running_gateway_is_known_by_its_command(
    tmp_path: Path, known: other_gateways.Known, line: str
) -> None:
    assert is_gateway(known, tuple(line.split()))
    assert list(found(tmp_path, tuple(line.split()))) == [known.name]


def test_M13_a_title_instead_of_a_command_is_known(tmp_path: Path) -> None:
    assert list(found(tmp_path, ("openclaw gateway",))) == ["OpenClaw"]


@pytest.mark.parametrize(
    "line",
    [
        "",
        "vim hermes gateway",
        "grep -r hermes gateway",
        "tail -f /home/ann/.hermes/logs/gateway.log",
        "hermes chat",
        "hermes --help",
        "python train.py hermes gateway",
        "openclaw status",
        "kong-gateway",
        "python -m callboard gateway",
        "less /home/hermes/gateway",
        "/home/hermes/bin/server gateway",
        "bash -c hermes",
    ],
)
def test_M13_other_programs_are_not_taken_for_one(tmp_path: Path, line: str) -> None:
    assert found(tmp_path, tuple(line.split())) == {}


@pytest.mark.parametrize("content", ["4711", '{"pid": 4711, "kind": "hermes-gateway"}', " 4711\n"])
def test_M13_a_pid_file_names_its_process(tmp_path: Path, content: str) -> None:
    (tmp_path / ".hermes").mkdir()
    (tmp_path / ".hermes" / "gateway.pid").write_text(content)
    running = [Seen(4711, ("/usr/bin/python3", "/srv/hermes-agent/run.py"))]
    (other,) = find_others(tmp_path, seen=running, listening=lambda _: False)
    assert other.name == "Hermes Agent"
    assert "4711" in other.how
    # A stale file, or a pid that another program has now, says nothing.
    for stale in ([], [Seen(4711, ("sleep", "9"))]):
        assert find_others(tmp_path, seen=stale, listening=lambda _: False) == ()


@pytest.mark.parametrize("content", ["", "{", "[]", "true", '{"pid": "x"}', "[" * 5000, "\x00\xff"])
def test_M13_a_pid_file_without_sense_says_nothing(tmp_path: Path, content: str) -> None:
    (tmp_path / ".openclaw").mkdir()
    (tmp_path / ".openclaw" / "gateway.lock").write_text(content)
    assert find_others(tmp_path, seen=[Seen(1, ("init",))], listening=lambda _: False) == ()


def test_M13_a_port_counts_only_where_the_program_has_been_installed(tmp_path: Path) -> None:
    assert found(tmp_path, port=18789) == {}
    (tmp_path / ".openclaw").mkdir()
    assert "port 18789" in found(tmp_path, port=18789)["OpenClaw"].how


@pytest.mark.parametrize(
    ("path", "text"),
    [
        (".hermes/.env", f"TELEGRAM_BOT_TOKEN={TOKEN}\n"),
        (".hermes/profiles/work/.env", f"DISCORD_BOT_TOKEN='{TOKEN}'\n"),
    ],
)
def test_M13_the_same_token_is_noticed_and_not_shown(tmp_path: Path, path: str, text: str) -> None:
    file = tmp_path / path
    file.parent.mkdir(parents=True)
    file.write_text(text)
    argv = ("hermes", "gateway", "run", f"--token={TOKEN}")
    other = found(tmp_path, argv, secrets=(TOKEN,))["Hermes Agent"]
    assert other.same_token
    assert "the same token" in other.warning
    assert TOKEN not in other.warning
    assert not found(tmp_path, argv, secrets=("another-token",))["Hermes Agent"].same_token
    assert not found(tmp_path, argv, secrets=("",))["Hermes Agent"].same_token


@pytest.fixture
def one_runs(tmp_path: Path) -> Iterator[dict[str, str]]:
    """A home folder in which OpenClaw is installed with our token, and a process of that name."""
    (tmp_path / ".openclaw").mkdir()
    told = {"channels": {"pigeon": {"token": TOKEN}}}
    (tmp_path / ".openclaw" / "openclaw.json").write_text(json.dumps(told))
    sleep = shutil.which("sleep")
    assert sleep is not None
    with subprocess.Popen(["openclaw-gateway", "60"], executable=sleep) as process:
        try:
            yield {"HOME": str(tmp_path)}
        finally:
            process.kill()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("answer", "code"), [("y", ExitCode.OK), ("n", ExitCode.FAILED), ("", ExitCode.FAILED)]
)
async def test_M13_adding_a_platform_warns_and_asks_before_it_goes_on(
    tmp_path: Path, one_runs: dict[str, str], answer: str, code: ExitCode
) -> None:
    home = tmp_path / "home"
    call = typed(home, FakeDesk(), stdin=f"{TOKEN}\n\n{answer}\n", env=one_runs)
    assert await adds(call, platform_add.Adding("pigeon")) == code
    assert re.search(r"OpenClaw runs on this machine \(process \d+: openclaw-gateway 60\)", noted(call))
    assert "openclaw gateway stop" in noted(call)
    assert "the same token" in noted(call)
    assert TOKEN not in noted(call) + printed(call)
    assert (home / "callboard.yaml").exists() == (code is ExitCode.OK)


@pytest.mark.slow
def test_M13_the_doctor_warns(tmp_path: Path, one_runs: dict[str, str]) -> None:
    call = typed(tmp_path / "home", FakeDesk(), env=one_runs)
    settings = Settings.model_validate({"platforms": {"pigeon": {"options": {"token": TOKEN}}}})
    (finding,) = check_other_gateways(call, settings)
    assert (finding.verdict, finding.subject) == ("warn", "OpenClaw")
    assert "the same token" in finding.what
    assert list(check_other_gateways(call, Settings())) == []


@pytest.mark.slow
def test_M13_a_start_warns_and_asks_nobody_who_is_not_there(tmp_path: Path, one_runs: dict[str, str]) -> None:
    home = tmp_path / "home"
    home.mkdir()
    (home / "callboard.yaml").write_text(f"platforms: {{bridge: {{options: {{secret: {TOKEN}}}}}}}\n")
    call = typed(home, FakeDesk(), env=one_runs)
    serve._warn_of_others(call)
    assert "Warning: OpenClaw runs on this machine" in noted(call)
    assert printed(call) == ""


class Terminal(io.StringIO):
    """An input at which somebody sits."""

    def isatty(self) -> bool:
        return True


@pytest.mark.slow
@pytest.mark.parametrize(("answer", "starts"), [("y", True), ("n", False), ("", False)])
def test_M13_a_start_asks_who_is_there_when_the_token_is_the_same(
    tmp_path: Path, one_runs: dict[str, str], answer: str, *, starts: bool
) -> None:
    home = tmp_path / "home"
    home.mkdir()
    (home / "callboard.yaml").write_text(f"platforms: {{bridge: {{options: {{secret: {TOKEN}}}}}}}\n")
    call = replace(typed(home, FakeDesk(), env=one_runs), stdin=Terminal(f"{answer}\n"))
    if starts:
        serve._warn_of_others(call)
    else:
        with pytest.raises(StartError, match="same account"):
            serve._warn_of_others(call)
    assert "Start all the same?" in printed(call)
