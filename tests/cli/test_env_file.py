"""`callboard.env`: what is written is read back to the letter, and nothing else changes."""

import shlex
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from actors.env_file import open_to_others, quoted, read_env, write_env


def test_a_file_as_people_write_it(tmp_path: Path) -> None:
    path = tmp_path / "env"
    path.write_text(
        '# remark\nA=1\n export B = \'two words\' \nC="a\\nb\\"c"\nnot a line\n=x\n1D=x\nE=\nF=a=b#c\n',
        "utf-8",
    )
    assert read_env(path) == {"A": "1", "B": "two words", "C": 'a\nb"c', "E": "", "F": "a=b#c"}


@pytest.mark.parametrize("content", [None, b"\xff\xfe", b""])
def test_no_file_and_a_strange_one_are_nothing(tmp_path: Path, content: bytes | None) -> None:
    path = tmp_path / "env"
    if content is not None:
        path.write_bytes(content)
    assert read_env(path) == {}
    assert read_env(tmp_path) == {}


def test_remarks_and_other_variables_stay(tmp_path: Path) -> None:
    path = tmp_path / "env"
    path.write_text("# mine\nA=1\n\nB=2\nA=again\n")
    path.chmod(0o644)
    assert open_to_others(path)
    write_env(path, {"A": "new", "C": "3"})
    assert path.read_text() == "# mine\nA=new\n\nB=2\nC=3\n"
    assert not open_to_others(path)


def test_a_link_is_followed(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    real = tmp_path / "elsewhere" / "secrets"
    real.write_text("A=1\n")
    link = tmp_path / "env"
    link.symlink_to(real)
    write_env(link, {"B": "2"})
    assert link.is_symlink()
    assert read_env(real) == {"A": "1", "B": "2"}


TEXTS = st.text(
    st.characters(exclude_categories=("Cs", "Cc"), exclude_characters="\u2028\u2029\x85"), max_size=60
)


@given(st.dictionaries(st.from_regex(r"[A-Z_][A-Z0-9_]{0,8}", fullmatch=True), TEXTS, max_size=4))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_value_is_read_back(tmp_path: Path, variables: dict[str, str]) -> None:
    path = tmp_path / "env"
    path.unlink(missing_ok=True)
    write_env(path, variables)
    assert read_env(path) == variables


@pytest.mark.parametrize("value", ["plain-1", "with space", "it's", "$HOME", 'a"b'])
def test_a_shell_reads_the_same_where_it_is_quoted_simply(value: str) -> None:
    assert "'" in value or shlex.split(quoted(value)) == [value]
