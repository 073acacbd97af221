"""`callboard access`: with the running process, and alone with the database."""

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path

import yaml

from actors.clock import WallClock
from actors.console.cli.access import change, claim, show_access, show_pending
from actors.console.cli.invocation import ExitCode
from actors.gateway.pairing import digest, new_salt
from messages.access import (
    ACCESS,
    AccessAnswered,
    AccessEntry,
    AllowPlace,
    AllowUser,
    ApprovePairing,
    ChooseHome,
    PairingOffered,
    PendingPairing,
    RevokeUser,
)
from messages.gateway import Role
from messages.settings import StoreSettings
from store.store import Store
from tests.cli.house import noted, printed, running, typed
from tests.fakes.desk import FakeDesk

AT = datetime(2026, 3, 1, 12, tzinfo=UTC)


async def test_a_wish_goes_to_the_running_process(tmp_path: Path) -> None:
    desk = FakeDesk()
    desk.grants = AccessAnswered(done=True, text="`7` on discord may talk to me now.")
    async with running(tmp_path, desk):
        call = typed(tmp_path, desk)
        assert await change(call, AllowUser(account="discord", user="7")) == ExitCode.OK
        assert printed(call) == "7 on discord may talk to me now.\n"
        desk.grants = AccessAnswered(done=False, text="That is no id.")
        refused = typed(tmp_path, desk)
        assert await change(refused, AllowUser(account="discord", user=" ")) == ExitCode.FAILED
        assert "That is no id." in noted(refused)
    assert [asked.by for asked in desk.wishes] == ["the command line"] * 2


async def test_the_list_says_where_each_entry_comes_from(tmp_path: Path) -> None:
    desk = FakeDesk()
    entries = (
        AccessEntry(account="discord", what="user", id="7", holds="owner", source="settings"),
        AccessEntry(
            account="discord", what="chat", id="9\x1b[31m", holds="allowed", source="live", by="ann", at=AT
        ),
    )
    desk.grants = AccessAnswered(done=True, text="", entries=entries)
    async with running(tmp_path, desk):
        call, as_json = typed(tmp_path, desk), typed(tmp_path, desk)
        await show_access(call, "", as_json=False)
        await show_access(as_json, "", as_json=True)
    lines = printed(call).splitlines()
    assert lines[0].split() == ["ACCOUNT", "WHAT", "ID", "HOLDS", "FROM"]
    assert lines[1].split() == ["discord", "user", "7", "owner", "settings"]
    assert "ann, 2026-03-01 12:00 UTC" in lines[2]
    assert "\x1b" not in printed(call), "an id never controls the terminal"
    assert [entry["id"] for entry in json.loads(printed(as_json))] == ["7", "9\x1b[31m"]


async def test_who_waits_is_shown_with_a_harmless_name(tmp_path: Path) -> None:
    desk = FakeDesk()
    waiting = PendingPairing(account="discord", user="7", name="Eve\n\x1b[2Jroot", asked_at=AT, expires_at=AT)
    desk.grants = AccessAnswered(done=True, text="", pending=(waiting,))
    async with running(tmp_path, desk):
        call = typed(tmp_path, desk)
        await show_pending(call, "", as_json=False)
    assert len(printed(call).splitlines()) == 2
    assert "\x1b" not in printed(call)
    assert "Eve" in printed(call)


# ------------------------------------------------------------------ nothing runs


def configured(home: Path) -> Path:
    access = {"owners": ["1"], "chats": ["900"]}
    home.mkdir(exist_ok=True)
    (home / "callboard.yaml").write_text(yaml.safe_dump({"platforms": {"discord": {"access": access}}}))
    return home


async def test_without_a_process_the_settings_are_listed_and_nothing_is_made(tmp_path: Path) -> None:
    home = configured(tmp_path)
    call = typed(home, FakeDesk())
    assert await show_access(call, "", as_json=False) == ExitCode.OK
    assert "owner" in printed(call)
    assert not (home / "callboard.duckdb").exists()
    empty = typed(tmp_path / "empty", FakeDesk())
    (tmp_path / "empty").mkdir()
    assert await show_access(empty, "", as_json=False) == ExitCode.OK
    assert "Nobody may talk" in noted(empty)


async def test_without_a_process_a_change_is_kept_for_the_next_start(tmp_path: Path) -> None:
    home = configured(tmp_path)
    for wish in (
        AllowUser(account="discord", user="7", role=Role.ADMIN),
        RevokeUser(account="discord", user="1", block=True),
        AllowPlace(account="discord", what="server", place="s"),
        ChooseHome(account="discord", place="900"),
    ):
        assert await change(typed(home, FakeDesk()), wish) == ExitCode.OK
    wrong = typed(home, FakeDesk())
    assert await change(wrong, AllowUser(account="slack", user="7")) == ExitCode.FAILED
    assert "there are: discord" in noted(wrong)
    call = typed(home, FakeDesk())
    await show_access(call, "discord", as_json=True)
    rows = {(entry["what"], entry["id"]): entry["holds"] for entry in json.loads(printed(call))}
    assert rows == {
        ("user", "7"): "admin",
        ("user", "1"): "blocked",
        ("chat", "900"): "allowed",
        ("server", "s"): "allowed",
        ("home", "900"): "home",
    }


async def test_without_a_process_a_code_is_approved_and_one_for_the_owner_made(tmp_path: Path) -> None:
    home = configured(tmp_path)
    clock, salt = WallClock(), new_salt()
    store = Store.open(home / "callboard.duckdb", StoreSettings(), clock)
    await store.start()
    offer = PairingOffered(
        account="discord",
        user="7",
        name="Eve",
        salt=salt,
        digest=digest("ABCD-EFGH", salt),
        expires_at=clock.now() + timedelta(hours=1),
        at=clock.now(),
    )
    await store.journal.append(ACCESS, 0, (offer,))
    await store.close()
    assert await change(typed(home, FakeDesk()), ApprovePairing(code="wrong")) == ExitCode.FAILED
    assert await change(typed(home, FakeDesk()), ApprovePairing(code="abcd efgh")) == ExitCode.OK
    call = typed(home, FakeDesk())
    assert await claim(call, "discord") == ExitCode.OK
    assert "/claim " in printed(call)
    listed = typed(home, FakeDesk())
    await show_access(listed, "discord", as_json=False)
    assert "7" in printed(listed)
