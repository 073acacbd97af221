"""Run as a process: a checkpoint fails, which DuckDB does not survive; prints how the store takes it."""

import asyncio
import json
import sys
from pathlib import Path

from actors.clock import WallClock
from messages.settings import StoreSettings
from store.store import Store
from tests.fakes.clock import ManualClock
from tests.store.child_full_disk import STREAM, UNLIMITED, incident, limit_files_to


async def main() -> None:
    path, clock = Path(sys.argv[1]), ManualClock()
    store = Store.open(path, StoreSettings(checkpoint_wal="4MB"), clock)
    reports: list[str] = []
    store.report_to(lambda what, _detail: reports.append(what))
    for number in range(100):
        await store.journal.append(STREAM, number, [incident(str(number) * 9000)])
    await store.start()
    await clock.advance(1.0)
    limit_files_to(540_000)
    await clock.advance(1.0)  # a quiet moment: the checkpoint begins, and fails
    while store.problem is None:
        await asyncio.sleep(0.001)
    problem = store.problem
    late = [
        asyncio.ensure_future(store.journal.append(STREAM, 100 + n, [incident("late")])) for n in range(3)
    ]
    read = asyncio.ensure_future(store.journal.read(STREAM))
    limit_files_to(UNLIMITED)
    while not reports:  # the fall is heard of on the loop
        await asyncio.sleep(0.001)
    await clock.advance(1.0)  # the wait before it is opened again is over
    written = [(await appended)[0].seq for appended in late]
    found = {
        "problem": problem,
        "written": written,
        "read": len(await read),
        "afterwards": store.problem,
        "reports": reports,
    }
    await store.close()
    again = Store.open(path, StoreSettings(), WallClock())
    found["read_after_opening_again"] = len(await again.journal.read(STREAM))
    await again.close()
    sys.stdout.write(json.dumps(found))


if __name__ == "__main__":
    asyncio.run(main())
