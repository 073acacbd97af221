import socket
from pathlib import Path

import pytest

from actors.console.cli import doctor
from actors.console.cli.config import check_config
from actors.console.cli.doctor import examine
from actors.console.cli.invocation import ExitCode
from messages.settings import Settings
from tests.cli.house import noted, printed, running, typed
from tests.fakes.desk import FakeDesk

CONFIGURED = "model: {provider: mine, name: big-1}\nproviders: {mine: {base_url: 'http://127.0.0.1:9/v1'}}\n"


async def test_a_place_where_all_is_well(tmp_path: Path) -> None:
    home = tmp_path / "home"
    home.mkdir(mode=0o700)
    (home / "callboard.yaml").write_text(CONFIGURED + "server: {port: 0}\n")
    call = typed(home, FakeDesk())
    assert await examine(call, ask=True) == ExitCode.OK
    lines = printed(call).splitlines()
    assert "ok    model: mine/big-1 would answer." in lines
    assert any(line.startswith("ok    answer: you said: ") for line in lines)
    assert not [line for line in lines if line.startswith("fail")]
    for subject in (
        "Python",
        "data folder",
        "disk",
        "settings",
        "process",
        "database",
        "port",
        "small local model",
    ):
        assert f" {subject}: " in printed(call)


async def test_a_platform_that_cannot_be_used_is_named(tmp_path: Path) -> None:
    right = "{address: '127.0.0.1:7700', secret: a-secret-of-some-length}"
    platforms = f"{{bridge: {{options: {right}}}, bridge/work: {{options: {{}}}}, carrier: {{}}}}"
    (tmp_path / "callboard.yaml").write_text(f"{CONFIGURED}platforms: {platforms}\n")
    call = typed(tmp_path, FakeDesk())
    assert await examine(call, ask=False) == ExitCode.FAILED
    text = printed(call)
    assert "ok    platform bridge: can be connected." in text
    assert "fail  platform bridge/work: The options of the platform 'bridge' are wrong: address" in text
    assert "fail  platform carrier: There is no platform 'carrier'." in text


async def test_wrong_settings_are_a_failure_with_its_line(tmp_path: Path) -> None:
    (tmp_path / "callboard.yaml").write_text("server: {prot: 1}\n")
    call = typed(tmp_path, FakeDesk())
    assert await examine(call, ask=False) == ExitCode.FAILED
    assert "callboard.yaml:1:10: unknown setting `server.prot`" in printed(call)
    assert "Did you mean `port`?" in printed(call)


async def test_a_provider_that_nobody_knows_is_a_failure(tmp_path: Path) -> None:
    (tmp_path / "callboard.yaml").write_text("model: {provider: none-such}\n")
    call = typed(tmp_path, FakeDesk())
    assert await examine(call, ask=False) == ExitCode.FAILED
    assert "fail  model: " in printed(call)


async def test_an_answer_that_fails_is_a_failure(tmp_path: Path) -> None:
    (tmp_path / "callboard.yaml").write_text(CONFIGURED)
    desk = FakeDesk()
    desk.will_fail("The key is wrong.")
    call = typed(tmp_path, desk)
    assert await examine(call, ask=True) == ExitCode.FAILED
    assert "fail  answer: The key is wrong." in printed(call)


async def test_a_running_process_is_asked(tmp_path: Path) -> None:
    desk = FakeDesk()
    call = typed(tmp_path, desk)
    async with running(tmp_path, desk):
        assert await examine(call, ask=False) == ExitCode.OK
    assert "ok    model: fake/parrot-1" in printed(call)
    assert "in use by the running process" in printed(call)


def test_an_old_python_is_a_failure() -> None:
    assert doctor.check_python((3, 10, 9)).verdict == "fail"
    assert doctor.check_python((3, 12, 0)).verdict == "ok"


def test_a_port_in_use_is_a_failure_with_the_remedy() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        settings = Settings.model_validate({"server": {"port": taken.getsockname()[1]}})
        finding = doctor.check_port(settings, None)
    assert finding.verdict == "fail"
    assert "server.port" in finding.remedy


@pytest.mark.parametrize("mode", [0o755, 0o701])
def test_a_data_folder_open_to_others_is_a_warning(tmp_path: Path, mode: int) -> None:
    tmp_path.chmod(mode)
    finding = doctor.check_home(typed(tmp_path, FakeDesk()))
    assert finding.verdict == "warn"
    assert "chmod 700" in finding.remedy


def test_a_secret_in_the_file_is_a_warning(tmp_path: Path) -> None:
    (tmp_path / "callboard.yaml").write_text("server: {token: a-secret-in-a-file}\n")
    call = typed(tmp_path, FakeDesk())
    findings = list(doctor.check_settings(call, call.read_settings()))
    assert [finding.verdict for finding in findings] == ["ok", "warn"]
    assert "a-secret" not in str(findings)


@pytest.mark.parametrize(
    ("options", "code", "words"),
    [
        ("{address: '127.0.0.1:7700', secret: a-secret-of-some-length}", ExitCode.OK, "is valid"),
        (
            "{address: '127.0.0.1:7700', secret: short}",
            ExitCode.USAGE,
            "options of the platform 'bridge' are wrong",
        ),
    ],
)
async def test_a_check_of_the_settings_looks_into_the_platforms_options(
    tmp_path: Path, options: str, code: ExitCode, words: str
) -> None:
    (tmp_path / "callboard.yaml").write_text(f"platforms: {{bridge: {{options: {options}}}}}\n")
    call = typed(tmp_path, FakeDesk())
    assert await check_config(call) == code
    assert words in printed(call) + noted(call)


def test_secrets_that_others_can_read_are_a_warning(tmp_path: Path) -> None:
    call = typed(tmp_path, FakeDesk())
    (tmp_path / "callboard.yaml").write_text("{}\n")
    (tmp_path / "callboard.env").write_text("A_TOKEN=x\n")
    (tmp_path / "callboard.env").chmod(0o644)
    findings = list(doctor.check_settings(call, call.read_settings()))
    assert [finding.verdict for finding in findings] == ["ok", "warn"]
    assert "chmod 600" in findings[1].remedy


async def test_each_account_is_examined_and_what_is_wrong_is_a_failure(tmp_path: Path) -> None:
    route = "{secret: a-secret-of-some-length, answer_url: 'http://127.0.0.1:9/'}"
    options = f"{{listen: '127.0.0.1:0', routes: {{main: {route}}}}}"
    (tmp_path / "callboard.yaml").write_text(f"{CONFIGURED}platforms: {{webhook: {{options: {options}}}}}\n")
    call = typed(tmp_path, FakeDesk())
    assert await examine(call, ask=False) == ExitCode.FAILED
    text = printed(call)
    assert "ok    platform webhook: can be connected." in text
    assert "fail  platform webhook: route main at /hooks/main, hmac-sha256: its answer_url takes no" in text
    assert "a-secret-of" not in text
