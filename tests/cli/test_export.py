import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from actors.console.cli.export import UnsafeNameError, as_json, as_markdown, safe_file_name, write_export
from actors.console.cli.invocation import ExitCode
from actors.console.cli.sessions import export_sessions, list_sessions, show_session
from messages.gateway import SessionSummary
from messages.ids import SessionKey
from tests.cli.house import noted, printed, running, typed
from tests.fakes.desk import FakeDesk, Talk

HOSTILE = [
    "../pwned",
    "../../etc/passwd",
    "/etc/x",
    "a\\..\\b",
    "C:evil",
    "C:\\evil",
    "\\\\server\\share",
    "con",
    "CON.md",
    "com1",
    "lpt9.txt",
    "nul",
    "aux.",
    ".",
    "..",
    "...",
    " ",
    "a/b",
    "-rf",
    ".hidden",
    "name.",
    "name ",
    "line\nbreak",
    "\x1b[31mred",
    "é" * 300,
    "x" * 300,
    "\ud800",
    "a\u202eb",
    "~root",
    "$(id)",
    "*?<>|\"'",
]


@pytest.mark.parametrize("name", HOSTILE)
def test_R10_every_file_is_inside_the_folder(tmp_path: Path, name: str) -> None:
    folder = tmp_path / "out"
    folder.mkdir()
    if not name.strip():
        with pytest.raises(UnsafeNameError):
            write_export(folder, name, ".md", "content")
        return
    written = write_export(folder, name, ".md", "content")
    assert written.resolve().parent == folder.resolve()
    assert written.read_text("utf-8") == "content"
    assert len(written.name.encode()) <= 255
    assert [path.name for path in tmp_path.iterdir()] == ["out"]


def test_R10_a_name_with_nul_is_refused_in_plain_words(tmp_path: Path) -> None:
    with pytest.raises(UnsafeNameError, match="NUL"):
        write_export(tmp_path, "a\0b", ".md", "content")
    assert list(tmp_path.iterdir()) == []


def test_R10_long_names_with_one_prefix_stay_apart() -> None:
    one, two = safe_file_name("é" * 300 + "1", ".md"), safe_file_name("é" * 300 + "2", ".md")
    assert one != two
    assert {len(name.encode()) <= 255 for name in (one, two)} == {True}
    assert one.endswith(".md")


def test_R10_a_failed_write_leaves_no_half_file(tmp_path: Path) -> None:
    (tmp_path / "taken.md").mkdir()
    with pytest.raises(UnsafeNameError):
        write_export(tmp_path, "taken", ".md", "content")
    assert [path.name for path in tmp_path.iterdir()] == ["taken.md"]


def test_R10_a_link_that_lies_in_wait_is_not_followed(tmp_path: Path) -> None:
    outside = tmp_path / "outside.txt"
    outside.write_text("mine")
    folder = tmp_path / "out"
    folder.mkdir()
    (folder / "name.md").symlink_to(outside)
    with pytest.raises(UnsafeNameError):
        write_export(folder, "name", ".md", "content")
    assert outside.read_text() == "mine"


@given(
    st.lists(
        st.text(st.characters(exclude_characters="\0"), max_size=300), min_size=2, max_size=5, unique=True
    )
)
def test_R10_different_names_never_meet_not_even_where_case_does_not_count(names: list[str]) -> None:
    usable = [name for name in names if name.strip()]
    files = [safe_file_name(name, ".json") for name in usable]
    assert len({file.lower() for file in files}) == len(usable)
    for file in files:
        assert len(file.encode("utf-8")) <= 255
        assert not {"/", "\\", ":", "\0"} & set(file)
        assert not file.startswith((".", "-"))


def test_an_ordinary_name_stays_as_it_is() -> None:
    assert safe_file_name("work", ".md") == "work.md"


SUMMARY = SessionSummary(
    session_key=SessionKey("k"), session_id="s", title="a\ntitle", state="idle", messages=1, turns=1
)


def names_in(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


async def _some_sessions(home: Path, names: list[str]) -> FakeDesk:
    desk = FakeDesk()
    for name in names:
        key = SessionKey(name)
        desk.talks[key] = talk = Talk(key)
        talk.enter("user", f"hello from {len(name)}")
        talk.enter("tool", "```\nfenced\n```", name="read_file", status="ok")
        talk.enter("assistant", "good day")
    return desk


async def test_R10_sessions_with_hostile_names_are_exported_and_one_refusal_stops_nobody(
    tmp_path: Path,
) -> None:
    home, out = tmp_path / "home", tmp_path / "out"
    home.mkdir()
    desk = await _some_sessions(
        home, ["agent:..\\pwned", "agent:a\0b", "agent:x/../y", "agent:main:terminal:main:dm:work"]
    )
    call = typed(home, desk)
    async with running(home, desk):
        assert await export_sessions(call, (), out, "json") == ExitCode.FAILED
    files = sorted(out.iterdir())
    assert len(files) == 2
    assert all(json.loads(file.read_text("utf-8"))["entries"][2]["text"] == "good day" for file in files)
    assert "NUL" in noted(call)
    assert names_in(tmp_path) == ["home", "out"]


async def test_a_session_is_found_by_the_name_of_its_chat(tmp_path: Path) -> None:
    desk = await _some_sessions(
        tmp_path, ["agent:main:terminal:main:dm:my%20work", "agent:main:web:main:dm:main"]
    )
    call = typed(tmp_path, desk)
    async with running(tmp_path, desk):
        assert await show_session(call, "my work", as_json=False) == ExitCode.OK
        assert await show_session(call, "nothing", as_json=False) == ExitCode.FAILED
        assert await export_sessions(call, ["my work"], tmp_path / "out", "md") == ExitCode.OK
    assert "good day" in printed(call)
    assert len(list((tmp_path / "out").iterdir())) == 1


async def test_the_list_says_what_there_is(tmp_path: Path) -> None:
    call = typed(tmp_path, FakeDesk())
    assert await list_sessions(call, as_json=False) == ExitCode.OK
    assert "No conversations yet" in noted(call)
    desk = await _some_sessions(tmp_path, ["agent:main:web:main:dm:main"])
    async with running(tmp_path, desk):
        await list_sessions(call, as_json=False)
        await list_sessions(call, as_json=True)
    first, *rest = printed(call).splitlines()
    assert "agent:main:web:main:dm:main" in first
    assert json.loads("".join(rest))[0]["title"] == "hello from 27"


def test_a_folder_of_markdown_keeps_fences_whole() -> None:
    talk = Talk(SessionKey("k"))
    talk.enter("tool", "```\nfenced\n```", name="read_file", status="ok")
    text = as_markdown(SUMMARY, talk.entries)
    assert "# a title" in text
    assert "````\n```\nfenced\n```\n````" in text
    assert json.loads(as_json(SUMMARY, talk.entries))["session"]["session_key"] == "k"
