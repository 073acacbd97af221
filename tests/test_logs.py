import io
import json
import logging
from collections.abc import Iterator
from pathlib import Path

import pytest
import structlog

from actors.logs import FILE_BYTES, LogSetup, set_up_logs
from actors.redaction import Redactor
from messages.settings import LogSettings

KEY = "sk-test-AAAA1111BBBB2222"


class Logs:
    """Logging as it is set up for a process, with what it wrote."""

    def __init__(self, home: Path, settings: LogSettings) -> None:
        self.stream = io.StringIO()
        self.setup: LogSetup = set_up_logs(settings, Redactor([KEY]), home=home, stream=self.stream)

    def file_lines(self) -> list[dict[str, object]]:
        assert self.setup.file is not None
        return [json.loads(line) for line in self.setup.file.read_text("utf-8").splitlines()]


@pytest.fixture
def logs(tmp_path: Path) -> Iterator[Logs]:
    logs = Logs(tmp_path, LogSettings(format="json"))
    yield logs
    logs.setup.close()


def _fail(shown: str) -> None:
    local_secret_copy = shown.lower()
    raise ValueError(f"the provider said: {shown} is wrong, {len(local_secret_copy)}")


def test_X05_nothing_that_is_logged_holds_the_secret(logs: Logs) -> None:
    log = structlog.get_logger("actors.somewhere")
    log.info(
        "a call failed", url=f"https://h/?key={KEY}", deep={"list": [KEY, {"x": KEY}]}, bytes=KEY.encode()
    )
    log.info("inside", api_key="anything", token="else", **{KEY: "a name"})
    try:
        _fail(KEY)
    except ValueError as error:
        log.exception("crashed", error=error)
        logging.getLogger("openai").exception("request with %s failed", KEY)
    logging.getLogger("uvicorn.error").warning("header %s", {"Authorization": f"Bearer {KEY}"})
    for written in (logs.stream.getvalue(), json.dumps(logs.file_lines())):
        assert "AAAA1111" not in written
        assert KEY.lower() not in written
        assert "anything" not in written
        assert "ValueError: the provider said: ***2222 is wrong" in written
        assert "local_secret_copy =" not in written


def test_a_line_says_when_where_and_for_whom(logs: Logs) -> None:
    with structlog.contextvars.bound_contextvars(session_key="agent:x", turn=3):
        structlog.get_logger("actors.session").info("turn began", model="m")
        logging.getLogger("discord").warning("reconnecting")
    ours, theirs = logs.file_lines()
    assert ours["event"] == "turn began"
    assert ours["logger"] == "actors.session"
    assert ours["level"] == "info"
    assert str(ours["timestamp"]).endswith("Z")
    assert (ours["session_key"], ours["turn"]) == (theirs["session_key"], theirs["turn"]) == ("agent:x", 3)
    assert theirs["event"] == "reconnecting"


def test_the_level_holds_and_libraries_are_quiet(logs: Logs) -> None:
    structlog.get_logger("a").debug("no")
    for name in ("uvicorn.access", "openai", "httpx"):
        logging.getLogger(name).info("no")
    assert logs.file_lines() == []


def test_the_file_is_its_owners_alone_and_rotates(tmp_path: Path) -> None:
    logs = Logs(tmp_path, LogSettings(format="json"))
    log = structlog.get_logger("a")
    log.info("big", text="x" * (FILE_BYTES - 1000))
    log.info("big", text="y" * 2000)
    logs.setup.close()
    files = sorted((tmp_path / "logs").iterdir())
    assert [file.name for file in files] == ["callboard.log", "callboard.log.1"]
    assert {file.stat().st_mode & 0o777 for file in files} == {0o600}


def test_a_person_gets_lines_for_people(tmp_path: Path) -> None:
    logs = Logs(tmp_path, LogSettings(format="console"))
    try:
        _fail(KEY)
    except ValueError:
        structlog.get_logger("a").exception("crashed", key=KEY)
    logs.setup.close()
    assert "crashed" in logs.stream.getvalue()
    assert "ValueError" in logs.stream.getvalue()
    assert "AAAA1111" not in logs.stream.getvalue()
    assert "local_secret_copy" not in logs.stream.getvalue().replace("len(local_secret_copy)", "").replace(
        "local_secret_copy = shown.lower()", ""
    )


def test_closing_leaves_no_handler_behind(tmp_path: Path) -> None:
    before = list(logging.getLogger().handlers)
    Logs(tmp_path, LogSettings()).setup.close()
    assert logging.getLogger().handlers == before


def test_what_utf8_cannot_encode_is_logged_all_the_same(logs: Logs) -> None:
    structlog.get_logger("a").info("odd", text="\ud800 \x00")
    assert len(logs.file_lines()) == 1
