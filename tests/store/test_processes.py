"""The store in real processes: many threads, another time zone, and kills at any moment."""

import json
import os
import signal
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path

import pytest

from actors.clock import WallClock
from actors.session.facts import SessionOpened
from messages.gateway import ChatType, Origin
from messages.ids import SessionId, SessionKey, StreamId
from messages.settings import StoreSettings
from store.store import Store
from tests.store import child_threads, child_writer

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]
AT = datetime(2026, 1, 15, 12, tzinfo=UTC)
KILLS = 6


def run(module: str, path: Path, **environment: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", f"tests.store.{module}", path],
        stdout=subprocess.PIPE,
        text=True,
        cwd=ROOT,
        env={**os.environ, **environment},
    )


def test_B06_eight_threads_on_fifty_streams_count_exactly(path: Path) -> None:
    child = run("child_threads", path)
    out, _ = child.communicate()
    assert child.returncode == 0
    total = child_threads.THREADS * child_threads.APPENDS
    assert json.loads(out.splitlines()[-1]) == {
        "facts": total,
        "streams": child_threads.STREAMS,
        "last": total,
        "lives": total,
        "gaps": 0,
        "surprises": [],
    }


async def test_nothing_acknowledged_is_lost_by_a_kill(path: Path) -> None:
    acknowledged: dict[str, int] = {}
    for kill in range(1, KILLS + 1):
        child = run("child_writer", path)
        assert child.stdout is not None
        for _ in range(37 * kill):
            note(acknowledged, child.stdout.readline())
        child.send_signal(signal.SIGKILL)
        for line in child.stdout:
            note(acknowledged, line)
        child.wait()
        child.stdout.close()

        store = Store.open(path, StoreSettings(), WallClock())
        for stream, seq in acknowledged.items():
            history = await store.journal.read(StreamId(stream))
            assert len(history) >= seq
            assert len(history) % 2 == 0  # both facts of an append, or none
            for number, recorded in enumerate(history, start=1):
                assert (recorded.seq, recorded.fact) == (number, child_writer.fact(StreamId(stream), number))
        rows = await store.select("SELECT (SELECT count(*) FROM facts), (SELECT count(*) FROM incidents)")
        assert rows.rows[0][0] == rows.rows[0][1] == store.stats()["facts"]
        await store.close()


def note(acknowledged: dict[str, int], line: str) -> None:
    stream, _, seq = line.rstrip("\n").partition(" ")
    if line.endswith("\n"):
        acknowledged[stream] = int(seq)


def test_a_full_disk_is_waited_for_then_told_to_the_writer_and_harms_nothing_written(path: Path) -> None:
    child = run("child_full_disk", path)
    out, _ = child.communicate()
    assert child.returncode == 0
    found = json.loads(out.splitlines()[-1])
    assert found["acknowledged"] > 10
    assert found == {
        "problem": f"the disk of {path.parent} is full",
        "refused": 1,
        "acknowledged": found["acknowledged"],
        "read": found["acknowledged"],
        "reports": ["degraded", "recovered"] * 2,
        "afterwards": None,
        "read_after_opening_again": found["acknowledged"],
    }


def test_B03_a_database_given_up_by_duckdb_is_opened_again_and_what_waited_is_written_once(
    path: Path,
) -> None:
    child = run("child_failing_checkpoint", path)
    out, _ = child.communicate()
    assert child.returncode == 0
    found = json.loads(out.splitlines()[-1])
    assert found.pop("problem").startswith("the store has failed: FATAL Error")
    assert found == {
        "written": [101, 102, 103],
        "read": 100,
        "afterwards": None,
        "reports": ["crashed", "restarted"],
        "read_after_opening_again": 103,
    }


async def test_B07_the_same_conversation_can_be_written_again_beside_an_old_reader_and_after_a_kill(
    path: Path,
) -> None:
    """Nothing is deleted or rewritten and no row has to be unique: there is nothing to check over-eagerly."""
    key = SessionKey("agent:main:web:main:dm:u")
    opened = SessionOpened(
        session_id=SessionId("s1"),
        session_key=key,
        origin=Origin(platform="web", chat_type=ChatType.DM),
        at=AT,
    )
    stream = StreamId(f"session:{key}")
    store = Store.open(path, StoreSettings(), WallClock())
    await store.journal.append(stream, 0, [opened])
    reading = store.select("SELECT count(*) FROM range(3000000) a, facts")
    written = [await store.journal.append(stream, 1, [opened, opened])]
    assert (await reading).rows[0][0] in (3_000_000, 9_000_000)
    written.append(await store.journal.append(stream, 3, [opened]))
    assert len(await store.journal.read(stream)) == 4
    assert (await store.select("SELECT session_id, count(*) FROM sessions GROUP BY 1")).rows == (("s1", 4),)
    await store.close()


CLOCKS = """
import asyncio, sys
from datetime import datetime, timedelta, timezone
from pathlib import Path
from actors.clock import WallClock
from messages.settings import StoreSettings
from messages.system import ProcessStopped
from store.store import Store

async def main():
    store = Store.open(Path(sys.argv[1]), StoreSettings(), WallClock())
    seq = len(await store.journal.read("system"))
    await store.journal.append("system", seq, [ProcessStopped(life=str(seq), at=datetime.fromisoformat(sys.argv[2]))])
    for recorded in await store.journal.read("system"):
        print(recorded.fact.at.isoformat())
    for row in (await store.select("SELECT happened_at, happened_at::VARCHAR FROM lives ORDER BY id")).rows:
        print(row[0].isoformat(), row[1])
    await store.close()

asyncio.run(main())
"""


def test_B09_processes_in_other_time_zones_agree(path: Path) -> None:
    for zone, wall in (
        ("America/New_York", "2026-01-15T07:00:00-05:00"),
        ("Asia/Tokyo", "2026-01-15T21:00:00+09:00"),
    ):
        child = subprocess.run(
            [sys.executable, "-c", CLOCKS, path, wall],
            capture_output=True,
            text=True,
            check=True,
            cwd=ROOT,
            env={**os.environ, "TZ": zone},
        )
    noon = "2026-01-15T12:00:00+00:00"
    assert child.stdout.splitlines() == [noon, noon, *[f"{noon} 2026-01-15 12:00:00+00"] * 2]
