"""What file tools may touch."""

import os
from pathlib import Path
from typing import Any

import pytest

from actors.tool.workspace import OUTSIDE, OutsideWorkspaceError, Workspace
from tests.actors.tool.shop import Shop


@pytest.fixture
def places(workspace: Path) -> Path:
    (workspace / "sub").mkdir()
    (workspace / "a").write_text("inside")
    srv = workspace.parent
    (srv / "proj-secret").mkdir()
    (srv / "proj-secret" / "a").write_text("secret")
    (srv / "PROJ").mkdir()
    (srv / "PROJ" / "a").write_text("secret")
    (srv / "x").write_text("secret")
    (workspace / "out").symlink_to(srv / "proj-secret")
    (workspace / "file-out").symlink_to(srv / "x")
    (workspace / "dangling-out").symlink_to(srv / "not-there")
    (workspace / "loop").symlink_to("loop")
    return workspace


ESCAPES = [
    "{srv}/proj-secret/a",
    "{srv}/proj/../proj-secret/a",
    "{srv}/PROJ/a",
    "../proj-secret/a",
    "sub/../../x",
    "sub/../../../../../../../../etc/passwd",
    "~/a",
    "~",
    "~root/a",
    "/proc/self/cwd/a",
    "/proc/self/root/etc/passwd",
    "/proc/self/environ",
    "/dev/zero",
    "file:///etc/passwd",
    "FILE:/etc/passwd",
    "file:a",
    "https://example.com/a",
    "a\x00b",
    "a\\x00b/../../x",
    "out/a",
    "out/../x",
    "file-out",
    "dangling-out",
    "/",
    "/etc/passwd",
    "..",
]

ASKING: dict[str, dict[str, Any]] = {
    "read_file": {},
    "write_file": {"content": "x"},
    "edit_file": {"old_text": "secret", "new_text": "x"},
    "list_files": {},
    "search_files": {"pattern": "secret", "literal": True},
}


@pytest.mark.parametrize("escape", ESCAPES)
@pytest.mark.parametrize("name", ASKING)
async def test_T01_every_escape_is_refused_by_every_tool_with_the_same_error(
    shop: Shop, places: Path, name: str, escape: str
) -> None:
    path = escape.format(srv=places.parent)
    assert await shop.outcome(name, path=path, **ASKING[name]) == OUTSIDE
    assert (places.parent / "x").read_text() == "secret"
    assert not (places.parent / "not-there").exists()


@pytest.mark.parametrize("escape", [e for e in ESCAPES if e not in {"file-out", "dangling-out"}])
@pytest.mark.parametrize("name", ["list_files", "search_files"])
async def test_T01_every_escape_is_refused_as_a_glob(
    shop: Shop, places: Path, name: str, escape: str
) -> None:
    glob = escape.format(srv=places.parent)
    for pattern in (glob, glob + "/*"):
        arguments = {"pattern": "secret", "literal": True} if name == "search_files" else {}
        assert await shop.outcome(name, glob=pattern, **arguments) == OUTSIDE


async def test_T01_what_is_inside_passes_and_the_root_itself_can_be_listed(shop: Shop, places: Path) -> None:
    for path in ("a", "./a", "sub/../a", str(places / "a"), f"{places}/../proj/a"):
        assert await shop.outcome("read_file", path=path) == "inside"
    for path in (".", "", str(places), f"{places}/"):
        assert "a  6" in await shop.outcome("list_files", path=path)
    assert await shop.outcome("list_files", glob=f"{places}/a*") == "a  6"


async def test_T01_a_search_does_not_follow_links_out(shop: Shop, places: Path) -> None:
    assert await shop.outcome("search_files", pattern="secret", literal=True) == "[nothing matches]"
    assert "proj-secret" not in await shop.outcome("list_files", glob="**/*")
    assert "out/a" not in await shop.outcome("list_files", glob="**/*")


async def test_a_pipe_or_a_device_is_refused_and_does_not_block(shop: Shop, workspace: Path) -> None:
    os.mkfifo(workspace / "pipe")
    assert await shop.outcome("read_file", path="pipe") == OUTSIDE
    assert await shop.outcome("write_file", path="pipe", content="x") == OUTSIDE


async def test_a_link_inside_leads_to_the_real_file(shop: Shop, workspace: Path) -> None:
    (workspace / "f").write_text("old")
    (workspace / "l").symlink_to("f")
    await shop.call("write_file", path="l", content="new")
    assert (workspace / "f").read_text() == "new"
    assert (workspace / "l").is_symlink()


def test_a_link_put_in_after_the_check_leads_nowhere(places: Path) -> None:
    workspace = Workspace(places)
    (places / "d").mkdir()
    (places / "d" / "a").write_text("inside")
    checked = workspace.resolve("d/a")
    (places / "d" / "a").unlink()
    (places / "d").rmdir()
    (places / "d").symlink_to(places.parent / "proj-secret")
    with pytest.raises(OutsideWorkspaceError):
        workspace.open_for_reading(checked)
    with pytest.raises(OutsideWorkspaceError):
        workspace.replace(checked, b"x")
    assert (places.parent / "proj-secret" / "a").read_text() == "secret"


def test_the_root_may_itself_be_reached_by_a_link(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "real" / "a").write_text("x")
    (tmp_path / "link").symlink_to("real")
    workspace = Workspace(tmp_path / "link")
    assert workspace.resolve(str(tmp_path / "link" / "a")) == tmp_path / "real" / "a"
