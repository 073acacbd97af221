"""Run as a process: a checkpoint fails, which DuckDB does not survive; prints how the store takes it."""

import asyncio
import json
import sys
from pathlib import Path

from actors.clock import WallClock
from messages.settings import StoreSettings
from store.journal import JournalUnavailableError
from store.store import Store
from tests.fakes.clock import ManualClock
from tests.store.child_full_disk import STREAM, UNLIMITED, incident, limit_files_to


async def main() -> None:
    path, clock = Path(sys.argv[1]), ManualClock()
    store = Store.open(path, StoreSettings(checkpoint_wal="4MB"), clock)
    for number in range(100):
        await store.journal.append(STREAM, number, [incident(str(number) * 9000)])
    await store.start()
    limit_files_to(540_000)
    await clock.advance(1.0)  # a quiet moment: the checkpoint begins
    refused = 0
    for _ in range(3):
        try:
            await store.journal.append(STREAM, 100, [incident("late")])
        except JournalUnavailableError:
            refused += 1
    limit_files_to(UNLIMITED)
    problem = store.problem
    await store.close()
    again = Store.open(path, StoreSettings(), WallClock())
    read = len(await again.journal.read(STREAM))
    sys.stdout.write(json.dumps({"problem": problem, "refused": refused, "read_after_opening_again": read}))
    await again.close()


if __name__ == "__main__":
    asyncio.run(main())
