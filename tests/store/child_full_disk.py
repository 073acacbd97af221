"""Run as a process: its files may not grow any further for a moment, as on a full disk; prints what was kept."""

import asyncio
import json
import resource
import signal
import sys
from datetime import UTC, datetime
from pathlib import Path

from actors.clock import WallClock
from messages.ids import StreamId
from messages.settings import StoreSettings
from messages.system import IncidentHappened
from store.journal import JournalUnavailableError
from store.store import Store
from tests.fakes.clock import ManualClock

STREAM = StreamId("system")
AT = datetime(2026, 1, 15, 12, tzinfo=UTC)
UNLIMITED = resource.RLIM_INFINITY


def incident(detail: str) -> IncidentHappened:
    return IncidentHappened(life="l", child="c", what="crashed", detail=detail, at=AT)


def limit_files_to(size: int) -> None:
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, UNLIMITED))


async def main() -> None:
    path, clock = Path(sys.argv[1]), ManualClock()
    store = Store.open(path, StoreSettings(), clock)
    reports: list[str] = []
    store.report_to(lambda what, _detail: reports.append(what))
    await store.start()
    limit_files_to(700_000)
    acknowledged = 0
    while store.problem is None:
        waiting = asyncio.ensure_future(store.journal.append(STREAM, acknowledged, [incident("x" * 5000)]))
        while not waiting.done() and store.problem is None:
            await asyncio.sleep(0.001)
        acknowledged += waiting.done()
    problem, refused = store.problem, 0
    while not waiting.done():  # nobody makes room
        await clock.advance(1.0)
        await asyncio.sleep(0.01)
    refused += isinstance(waiting.exception(), JournalUnavailableError)
    await clock.advance(1.0)  # nothing waits any more, and the disk says that it has room
    assert store.problem is None
    waiting = asyncio.ensure_future(store.journal.append(STREAM, acknowledged, [incident("x" * 5000)]))
    while store.problem is None:  # there is none after all
        await asyncio.sleep(0.001)
    await clock.advance(1.0)
    limit_files_to(UNLIMITED)
    while not waiting.done():  # somebody has
        await clock.advance(1.0)
        await asyncio.sleep(0.01)
    acknowledged += waiting.result()[0].seq == acknowledged + 1
    read = len(await store.journal.read(STREAM))
    found = {
        "problem": problem,
        "refused": refused,
        "acknowledged": acknowledged,
        "read": read,
        "reports": reports,
        "afterwards": store.problem,
    }
    await store.close()
    again = Store.open(path, StoreSettings(), WallClock())
    found["read_after_opening_again"] = len(await again.journal.read(STREAM))
    sys.stdout.write(json.dumps(found))
    await again.close()


if __name__ == "__main__":
    asyncio.run(main())
