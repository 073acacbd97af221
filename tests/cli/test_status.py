import json
import socket
from pathlib import Path

import pytest

from actors.console.cli.invocation import ExitCode, make_home
from actors.console.cli.running import find_running
from actors.console.cli.serve import model_lines, serve
from actors.console.cli.status import duration, show_status
from actors.errors import StartError
from messages.model import ModelRef
from tests.cli.house import noted, printed, running, typed
from tests.fakes.desk import FakeDesk


async def test_status_without_a_process_says_so_and_ends_with_3(tmp_path: Path) -> None:
    call = typed(tmp_path, FakeDesk())
    assert await show_status(call, as_json=False) == ExitCode.NOT_RUNNING
    assert "Not running" in noted(call)
    assert "callboard run" in noted(call)
    assert await show_status(call, as_json=True) == ExitCode.NOT_RUNNING
    assert json.loads(printed(call)) == {"running": False}


async def test_status_of_a_running_process(tmp_path: Path) -> None:
    desk = FakeDesk()
    call = typed(tmp_path, desk)
    async with running(tmp_path, desk):
        assert await show_status(call, as_json=False) == ExitCode.OK
        assert "fake/parrot-1" in printed(call)
        assert "Dead letters" in printed(call)
        again = typed(tmp_path, desk)
        assert await show_status(again, as_json=True) == ExitCode.OK
    assert json.loads(printed(again))["model"]["name"] == "parrot-1"
    assert json.loads(printed(again))["dead_letters"] == 0


@pytest.mark.parametrize("content", ["", "{", "[]", '{"pid": 1}', '{"pid": "x", "socket": "s"}', "null"])
def test_a_broken_run_file_is_no_process(tmp_path: Path, content: str) -> None:
    (tmp_path / "run.json").write_text(content)
    assert find_running(tmp_path) is None


def test_the_file_of_a_dead_process_is_no_process(tmp_path: Path) -> None:
    path = tmp_path / "control.sock"
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(path))
    (tmp_path / "run.json").write_text(json.dumps({"pid": 1, "socket": str(path)}))
    assert find_running(tmp_path) is None


async def test_a_second_run_names_the_first(tmp_path: Path) -> None:
    desk = FakeDesk()
    async with running(tmp_path, desk):
        first = find_running(tmp_path)
        assert first is not None
        with pytest.raises(StartError) as caught:
            await serve(typed(tmp_path, desk))
    assert str(first.pid) in caught.value.what
    assert "--home" in caught.value.remedy
    assert "\n" not in caught.value.what


def test_the_small_local_model_is_called_small() -> None:
    status = FakeDesk().status()
    assert model_lines(status) == ["fake/parrot-1"]
    local = status.model_copy(update={"model": ModelRef(provider="local", name="smollm2-135m")})
    assert "small" in model_lines(local)[0]
    assert "ANTHROPIC_API_KEY" in model_lines(local)[1]
    none = status.model_copy(update={"model": None, "model_problem": "Connect one."})
    assert model_lines(none) == ["none can answer.", "Connect one."]


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0, "0 s"), (59.9, "59 s"), (61, "1 min 1 s"), (7200, "2 h"), (90_061, "1 d 1 h")],
)
def test_durations(seconds: float, text: str) -> None:
    assert duration(seconds) == text


def test_a_file_in_place_of_the_data_folder_is_told(tmp_path: Path) -> None:
    place = tmp_path / "file"
    place.write_text("")
    for home in (place, place / "below"):
        with pytest.raises(StartError) as caught:
            make_home(home)
        assert "is not a folder" in caught.value.what
        assert "--home" in caught.value.remedy


def test_the_data_folder_is_made_for_its_owner_alone(tmp_path: Path) -> None:
    make_home(tmp_path / "a" / "b")
    assert (tmp_path / "a" / "b").stat().st_mode & 0o777 == 0o700
    assert list((tmp_path / "a" / "b").iterdir()) == []
