"""A log that lost its end, or more: every start notices, and what was acknowledged is there again, or missed aloud."""

import itertools
import json
import os
import shutil
import zlib
from collections.abc import Callable
from pathlib import Path

import duckdb
import pytest

from actors.clock import WallClock
from messages.ids import StreamId
from messages.settings import StoreSettings
from store.mark import mark_path, read_mark
from store.opening import StoreOpenError, open_store
from store.recovery import SMALL_GAP, wal_path
from store.store import Store
from tests.store.test_store import incident

pytestmark = pytest.mark.slow

A = StreamId("session:a")
SETTINGS = StoreSettings()
FACTS = 401


def cut(size: Callable[[int], int]) -> Callable[[Path], None]:
    return lambda wal: os.truncate(wal, size(wal.stat().st_size))


def flip(place: Callable[[int], int]) -> Callable[[Path], None]:
    def damage(wal: Path) -> None:
        content = bytearray(wal.read_bytes())
        content[place(len(content))] ^= 0xFF
        wal.write_bytes(content)

    return damage


def zero(count: Callable[[int], int]) -> Callable[[Path], None]:
    def damage(wal: Path) -> None:
        content = wal.read_bytes()
        wal.write_bytes(content[: -count(len(content))] + bytes(count(len(content))))

    return damage


DAMAGES = {
    "7 bytes cut off": cut(lambda size: size - 7),
    "cut in half": cut(lambda size: size // 2),
    "cut to nothing": cut(lambda _: 0),
    "cut to its head": cut(lambda _: 20),
    "a byte flipped in the middle": flip(lambda size: size // 2),
    "a byte flipped early": flip(lambda size: size // 7),
    "a byte flipped in the head": flip(lambda _: 5),
    "the last byte flipped": flip(lambda size: size - 1),
    "20 bytes of zeros at the end": zero(lambda _: 20),
    "half of it zeros": zero(lambda size: size // 2),
    "lost": Path.unlink,
}


async def killed(path: Path, facts: int = FACTS) -> Path:
    """Return a folder's database as a kill leaves it: facts acknowledged, the log not yet moved into the file."""
    store = Store.open(path, SETTINGS, WallClock())
    for number in range(facts):
        await store.journal.append(A, number, [incident(f"{number} " + "x" * 300)], owing=number == facts - 1)
    left = path.parent / "killed" / path.name
    left.parent.mkdir()
    for file in (path, wal_path(path), mark_path(path)):
        shutil.copyfile(file, left.parent / file.name)
    await store.close()
    return left


def _read(path: Path) -> bytes:
    return path.read_bytes()


def _write(path: Path, content: bytes) -> None:
    path.write_bytes(content)


def _remove(path: Path) -> None:
    path.unlink()


def names(path: Path) -> list[str]:
    return sorted(file.name for file in path.parent.iterdir())


@pytest.mark.parametrize("damage", list(DAMAGES))
async def test_B12_a_torn_log_loses_nothing_and_is_said(path: Path, damage: str) -> None:
    path = await killed(path)
    before = path.read_bytes()
    DAMAGES[damage](wal_path(path))
    torn = wal_path(path).read_bytes() if wal_path(path).exists() else None
    store = Store.open(path, SETTINGS, WallClock())
    reports: list[tuple[str, str]] = []
    store.report_to(lambda what, detail: reports.append((what, detail)))
    try:
        facts = await store.journal.read(A)
        assert [recorded.seq for recorded in facts] == list(range(1, FACTS + 1))
        assert facts[-1].fact == incident(f"{FACTS - 1} " + "x" * 300)
        assert await store.journal.owed() == (A,)
        counted = await store.select("SELECT count(*), count(DISTINCT id), max(id) FROM incidents")
        assert counted.rows == ((FACTS, FACTS, FACTS),)
        assert (await store.journal.append(A, FACTS, [incident("goes on")]))[0].seq == FACTS + 1
    finally:
        await store.close()
    ((what, detail),) = reports
    assert what == "recovered"
    assert "written again" in detail
    assert "session:a" in detail
    (aside,) = (name for name in names(path) if "damaged" in name and not name.endswith(".wal"))
    assert aside in detail
    assert (path.parent / aside).read_bytes() == before
    if torn:
        assert wal_path(path.parent / aside).read_bytes() == torn
    quiet = Store.open(path, SETTINGS, WallClock())
    quiet.report_to(lambda what, detail: reports.append((what, detail)))
    await quiet.close()
    assert len(reports) == 1


async def test_B12_an_unhurt_log_is_read_without_a_word(path: Path) -> None:
    path = await killed(path)
    store = Store.open(path, SETTINGS, WallClock())
    store.report_to(lambda what, detail: pytest.fail(f"{what}: {detail}"))
    assert len(await store.journal.read(A)) == FACTS
    await store.close()
    assert names(path) == ["callboard.duckdb", "callboard.mark"]


async def test_B12_damage_right_after_another_fall_is_mended_too(path: Path) -> None:
    """What was written again is in the log only: the mark must still have it."""
    path = await killed(path)
    wal_path(path).unlink()
    opened = open_store(path, SETTINGS)
    left = path.parent / "again" / path.name
    left.parent.mkdir()
    for file in (path, mark_path(path)):
        shutil.copyfile(file, left.parent / file.name)  # its log is lost as well
    opened.connection.close()
    opened.mark.close()
    store = Store.open(left, SETTINGS, WallClock())
    assert len(await store.journal.read(A)) == FACTS
    await store.close()


async def test_a_torn_mark_hurts_nobody(path: Path) -> None:
    path = await killed(path)
    for size in (0, 30, mark_path(path).stat().st_size - 5):
        os.truncate(mark_path(path), size)
        store = Store.open(path, SETTINGS, WallClock())
        store.report_to(lambda what, detail: pytest.fail(f"{what}: {detail}"))
        assert len(await store.journal.read(A)) == FACTS
        await store.close()


async def test_a_mark_and_a_log_torn_together_give_what_either_has(path: Path) -> None:
    path = await killed(path)
    DAMAGES["cut in half"](wal_path(path))
    os.truncate(mark_path(path), mark_path(path).stat().st_size * 3 // 4)
    store = Store.open(path, SETTINGS, WallClock())
    facts = await store.journal.read(A)
    assert FACTS // 2 < len(facts) < FACTS
    assert [recorded.seq for recorded in facts] == list(range(1, len(facts) + 1))
    await store.close()


# ------------------------------------------------------------------ facts that nobody has


async def lost(path: Path, facts: int, *, boot: str | None = None) -> Path:
    """Return a database whose file is older than the mark: that many facts are nowhere."""
    store = Store.open(path, SETTINGS, WallClock())
    await store.journal.append(A, 0, [incident("old")])
    await store.close()
    older = _read(path)
    store = Store.open(path, SETTINGS, WallClock())
    await store.journal.append(A, 1, [incident(str(number)) for number in range(facts)])
    await store.close()
    _write(path, older)
    if boot is not None:
        rest = f"{facts + 1} {json.dumps({'boot': boot})}".encode()
        _write(mark_path(path), b"%08x %b\n" % (zlib.crc32(rest), rest))
    return path


def refused(path: Path) -> StoreOpenError:
    before = {file.name: file.read_bytes() for file in path.parent.iterdir()}
    with pytest.raises(StoreOpenError) as refusal:
        Store.open(path, SETTINGS, WallClock())
    assert {file.name: file.read_bytes() for file in path.parent.iterdir()} == before
    assert "callboard store" in refusal.value.remedy
    return refusal.value


async def test_B12_a_database_older_than_its_mark_is_refused_until_a_person_decides(path: Path) -> None:
    await lost(path, 3)
    for _ in range(2):
        assert "lost 3 facts that were acknowledged (numbers 2 to 4)" in refused(path).what
    opened = open_store(path, SETTINGS, accept_loss=True)
    opened.connection.close()
    opened.mark.close()
    assert "LOST" in opened.notes[0].detail
    store = Store.open(path, SETTINGS, WallClock())
    assert len(await store.journal.read(A)) == 1
    await store.close()


async def test_a_small_loss_after_a_power_loss_is_said_and_borne(path: Path) -> None:
    await lost(path, SMALL_GAP, boot="another")
    store = Store.open(path, SETTINGS, WallClock())
    reports: list[tuple[str, str]] = []
    store.report_to(lambda what, detail: reports.append((what, detail)))
    assert len(await store.journal.read(A)) == 1
    await store.close()
    ((what, detail),) = reports
    assert what == "degraded"
    assert f"{SMALL_GAP} ACKNOWLEDGED FACTS ARE LOST" in detail


async def test_a_large_loss_after_a_power_loss_is_refused(path: Path) -> None:
    await lost(path, SMALL_GAP + 1, boot="another")
    assert f"lost {SMALL_GAP + 1} facts" in refused(path).what


async def test_a_missing_database_is_no_new_one(path: Path) -> None:
    _remove(await lost(path, 3))
    assert "is missing, with 4 facts" in refused(path).what


async def test_a_mark_of_another_history_writes_nothing_into_this_one(path: Path) -> None:
    other = path.parent / "other" / path.name
    other.parent.mkdir()
    path = await killed(path, facts=20)
    store = Store.open(other, SETTINGS, WallClock())
    await store.journal.append(StreamId("session:b"), 0, [incident(str(n)) for n in range(5)])
    await store.close()
    shutil.copyfile(other, path)
    wal_path(path).unlink()
    assert "lost 15 facts" in refused(path).what


@pytest.mark.parametrize("damage", ["half of it zeros", "a byte flipped early"])
async def test_without_a_mark_only_a_short_end_is_given_up(path: Path, damage: str) -> None:
    path = await killed(path, facts=3000)
    mark_path(path).unlink()
    if damage == "half of it zeros":
        assert wal_path(path).stat().st_size > 2_000_000
    DAMAGES[damage](wal_path(path))
    assert "is damaged" in refused(path).what


async def test_without_a_mark_a_zeroed_end_is_cut_off_and_said(path: Path) -> None:
    path = await killed(path)
    mark_path(path).unlink()
    DAMAGES["20 bytes of zeros at the end"](wal_path(path))
    opened = open_store(path, SETTINGS)
    assert "the log was damaged, 20 bytes at its end were cut off" in opened.notes[0].detail or opened.notes
    assert opened.connection.execute("SELECT count(*) FROM facts").fetchall()[0][0] >= FACTS - 1
    opened.connection.close()
    opened.mark.close()


async def test_the_mark_begins_anew_whenever_the_log_is_moved_into_the_file(path: Path) -> None:
    store = Store.open(path, StoreSettings(checkpoint_wal="250KB"), WallClock())
    sizes = []
    for number in range(400):
        await store.journal.append(A, number, [incident("x" * 5000)])
        sizes.append(mark_path(path).stat().st_size)
    found = read_mark(mark_path(path))
    assert found is not None
    assert found.last_id == 400
    assert max(sizes) < 1_500_000
    assert any(later < earlier for earlier, later in itertools.pairwise(sizes))
    await store.close()
    found = read_mark(mark_path(path))
    assert found is not None
    assert (found.base, found.last_id, found.groups) == (400, 400, ())
    with duckdb.connect(path) as connection:
        assert connection.execute("SELECT max(id) FROM facts").fetchall() == [(400,)]
