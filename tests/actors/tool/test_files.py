"""The file tools, through the workshop."""

import asyncio
import stat
from pathlib import Path

import pytest

from messages.blocks import ToolStatus
from tests.actors.tool.shop import Shop


@pytest.mark.parametrize(
    ("one", "other"),
    [("f.txt", "f.txt"), ("./f.txt", "sub/../f.txt"), ("f.txt", "link"), ("{root}/f.txt", "sub/up/f.txt")],
)
@pytest.mark.slow
async def test_T09_two_edits_at_once_both_survive_in_every_round(
    shop: Shop, workspace: Path, one: str, other: str
) -> None:
    (workspace / "sub").mkdir()
    (workspace / "sub" / "up").symlink_to("..")
    (workspace / "link").symlink_to("f.txt")
    file = workspace / "f.txt"
    lines = [f"line {n}\n" for n in range(1, 51)]
    one = one.format(root=workspace)
    for round_ in range(200):
        file.write_text("".join(lines))
        first = shop.start("edit_file", turn=round_ + 1, path=one, old_text="line 1\n", new_text="FIRST\n")
        last = shop.start("edit_file", turn=round_ + 1, path=other, old_text="line 50\n", new_text="LAST\n")
        answers = await asyncio.gather(shop.answer(first), shop.answer(last))
        assert [a.status for a in answers] == [ToolStatus.OK, ToolStatus.OK]
        text = file.read_text()
        assert text.startswith("FIRST\n")
        assert text.endswith("LAST\n")


async def test_T09_edits_of_different_files_do_not_wait_for_each_other(shop: Shop, workspace: Path) -> None:
    for name in ("a", "b"):
        (workspace / name).write_text("old")
    real = shop.catalogue.workspace.resolve("a")
    with shop.catalogue.workspace.changing(real):  # somebody is busy with a for as long as it takes
        waits = shop.start("edit_file", path="a", old_text="old", new_text="new")
        assert (
            await shop.call("edit_file", path="b", old_text="old", new_text="new")
        ).status is ToolStatus.OK
        assert (workspace / "a").read_text() == "old"
    assert (await shop.answer(waits)).status is ToolStatus.OK


async def test_writing_makes_folders_keeps_the_mode_and_leaves_nothing_else(
    shop: Shop, workspace: Path
) -> None:
    assert (await shop.call("write_file", path="x/y/z.sh", content="1")).text == "Wrote 1 bytes to x/y/z.sh."
    (workspace / "x/y/z.sh").chmod(0o750)
    await shop.call("write_file", path="x/y/z.sh", content="2")
    assert stat.S_IMODE((workspace / "x/y/z.sh").stat().st_mode) == 0o750
    assert [file.name for file in (workspace / "x/y").iterdir()] == ["z.sh"]
    assert "is a folder" in (await shop.call("write_file", path="x", content="")).text
    assert "is a folder" in (await shop.call("write_file", path=".", content="")).text
    assert "part of the path is a file" in (await shop.call("write_file", path="x/y/z.sh/a", content="")).text


async def test_an_edit_that_is_not_exact_changes_nothing_and_says_why(shop: Shop, workspace: Path) -> None:
    file = workspace / "f"
    file.write_bytes(b"one\r\ntwo\r\none\r\n")
    asked = {
        ("three", "x"): "does not occur in the file",
        ("one\ntwo", "x"): "end in \\r\\n",
        ("one", "x"): "occurs 2 times, first in the lines 1, 3",
        ("one", "one"): "nothing to do",
    }
    for (old, new), why in asked.items():
        finished = await shop.call("edit_file", path="f", old_text=old, new_text=new)
        assert finished.status is ToolStatus.ERROR
        assert why in finished.text
    assert file.read_bytes() == b"one\r\ntwo\r\none\r\n"
    await shop.call("edit_file", path="f", old_text="one", new_text="1", replace_all=True)
    assert file.read_bytes() == b"1\r\ntwo\r\n1\r\n"


async def test_an_edit_keeps_bytes_that_are_not_utf8(shop: Shop, workspace: Path) -> None:
    (workspace / "latin").write_bytes(b"caf\xe9 old")
    await shop.call("edit_file", path="latin", old_text="old", new_text="new")
    assert (workspace / "latin").read_bytes() == b"caf\xe9 new"


async def test_reading_goes_line_by_line_and_says_where_to_go_on(shop: Shop, workspace: Path) -> None:
    (workspace / "f").write_text("".join(f"{n}\n" for n in range(1, 11)))
    assert (
        await shop.outcome("read_file", path="f", offset=3, limit=2)
        == "3\n4\n[lines 3-4 of 10; go on with offset=5]"
    )
    assert await shop.outcome("read_file", path="f", offset=10) == "10\n[lines 10-10 of 10]"
    assert await shop.outcome("read_file", path="f") == "".join(f"{n}\n" for n in range(1, 11))
    assert "has 10 lines" in await shop.outcome("read_file", path="f", offset=11)
    (workspace / "e").write_text("")
    assert await shop.outcome("read_file", path="e") == "[the file is empty]"
    (workspace / "n").write_text("no end")
    assert await shop.outcome("read_file", path="n") == "no end"


async def test_reading_more_than_the_budget_stops_at_a_line(shop: Shop, workspace: Path) -> None:
    (workspace / "long").write_text(("é" * 99 + "\n") * 1000)
    text = await shop.outcome("read_file", path="long")
    assert len(text.encode()) <= 50_000
    assert text.endswith("go on with offset=250]")
    (workspace / "one").write_text("é" * 1_000_000)
    text = await shop.outcome("read_file", path="one")
    assert len(text.encode()) <= 50_000
    assert "line 1 is longer than a result may be" in text
    assert "\ufffd" not in text


async def test_a_binary_file_is_named_and_measured(shop: Shop, workspace: Path) -> None:
    (workspace / "p.png").write_bytes(b"\x89PNG\r\n\x1a\n" + bytes(5_000_000))
    assert await shop.outcome("read_file", path="p.png") == "[binary file: image/png, 5,000,008 bytes]"
    (workspace / "u.txt").write_bytes("grüße\n".encode("utf-16"))
    assert await shop.outcome("read_file", path="u.txt") == "grüße\n"


async def test_listing_and_searching(shop: Shop, workspace: Path) -> None:
    (workspace / "src" / "deep").mkdir(parents=True)
    (workspace / ".git").mkdir()
    for name in ("src/a.py", "src/deep/b.py", "src/deep/c.md", ".git/d.py"):
        (workspace / name).write_text("x = 1\nneedle here\n")
    assert await shop.outcome("list_files") == ".git/\nsrc/"
    assert await shop.outcome("list_files", glob="src/**/*.py") == "a.py  18\ndeep/b.py  18"
    assert await shop.outcome("list_files", path="src", glob="*.py") == "a.py  18"
    assert await shop.outcome("list_files", glob="nothing*") == "[nothing matches]"
    found = await shop.outcome("search_files", pattern="needle", glob="*.py")
    assert found == "src/a.py:2: needle here\nsrc/deep/b.py:2: needle here"
    assert await shop.outcome("search_files", pattern="NEEDLE", ignore_case=True, path="src/a.py") == (
        "src/a.py:2: needle here"
    )
    limited = await shop.outcome("search_files", pattern="needle", limit=1)
    assert limited.endswith("[stopped at 1 lines: narrow the pattern or the path]")
    assert "not a regular expression" in await shop.outcome("search_files", pattern="(")


@pytest.mark.slow
async def test_nothing_in_the_workspace_is_imported_by_a_tool(shop: Shop, workspace: Path) -> None:
    for name in ("json", "pydantic", "actors", "structlog", "sitecustomize"):
        (workspace / f"{name}.py").write_text("raise SystemExit('hijacked')  # needle\n")
    found = await shop.call("search_files", pattern="n[e]edle", path="json.py")
    assert found.text == "json.py:1: raise SystemExit('hijacked')  # needle"


@pytest.mark.slow
async def test_C08_a_regular_expression_that_never_ends_holds_nobody_up(shop: Shop, workspace: Path) -> None:
    (workspace / "evil").write_text("needle\n" + "a" * 60 + "!\n")
    hangs = shop.start("search_files", pattern="(a+)+$|needle")
    assert (await shop.call("current_time")).status is ToolStatus.OK
    await shop.answer(shop.start("search_files", pattern="n[e]edle", turn=2))  # another process got as far
    shop.stop()
    assert (await shop.answer(hangs)).status is ToolStatus.INTERRUPTED


async def test_the_time_is_told_in_any_zone(still_shop: Shop) -> None:
    assert await still_shop.outcome("current_time") == "Thursday 2026-01-01T12:00:00+00:00 (UTC)"
    assert "21:00:00+09:00" in await still_shop.outcome("current_time", timezone="Asia/Tokyo")
    assert "no time zone" in await still_shop.outcome("current_time", timezone="../etc/passwd")
    assert "no time zone" in await still_shop.outcome("current_time", timezone="Mars/Olympus")
