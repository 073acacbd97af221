"""File names as text, and back."""

# ruff: noqa: ASYNC240 small files, in a test

import os
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from actors.tool.names import read_name, show_name
from tests.actors.tool.shop import Shop

NAMES = st.binary(min_size=1, max_size=40).filter(lambda b: b"\x00" not in b).map(os.fsdecode)


@given(NAMES | st.text(alphabet="\\x0159cf\n\udc9dé", min_size=1).filter(lambda t: True))
def test_L06_every_file_name_comes_back(name: str) -> None:
    shown = show_name(name)
    shown.encode("utf-8")
    assert "\n" not in shown
    assert os.fsencode(read_name(shown)) == os.fsencode(name)


def test_ordinary_names_are_shown_as_they_are() -> None:
    for name in ("a.txt", "päth/ünï.md", "back\\slash", "\\x", "日本語"):
        assert show_name(name) == name
        assert read_name(name) == name


async def test_L06_a_file_with_undecodable_bytes_is_listed_and_can_be_opened_by_that_name(
    shop: Shop, workspace: Path
) -> None:
    Path(os.fsdecode(os.fsencode(workspace) + b"/bad \x9d name")).write_text("found")
    listed = (await shop.call("list_files")).text
    shown = listed.split("  ")[0]
    assert shown == r"bad \x9d name"
    assert (await shop.call("read_file", path=shown)).text == "found"
    assert (await shop.call("read_file", path="bad \udc9d name")).text == "found"
    found = await shop.call("search_files", pattern="found", literal=True)
    assert found.text == r"bad \x9d name:1: found"
    call = shop.prepare("read_file", path=shown)
    assert all(path.encode("utf-8") for path in call.paths)
