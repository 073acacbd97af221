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

STREAM = StreamId("system")
AT = datetime(2026, 1, 15, 12, tzinfo=UTC)
UNLIMITED = resource.RLIM_INFINITY


def incident(detail: str) -> IncidentHappened:
    return IncidentHappened(life="l", child="c", what="crashed", detail=detail, at=AT)


def limit_files_to(size: int) -> None:
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, UNLIMITED))


async def main() -> None:
    path = Path(sys.argv[1])
    store = Store.open(path, StoreSettings(), WallClock())
    limit_files_to(700_000)
    acknowledged = refused = 0
    for _ in range(200):
        try:
            await store.journal.append(STREAM, acknowledged, [incident("x" * 5000)])
        except JournalUnavailableError:
            refused += 1
            limit_files_to(UNLIMITED)
        else:
            acknowledged += 1
    read = len(await store.journal.read(STREAM))
    await store.close()
    again = Store.open(path, StoreSettings(), WallClock())
    found = {"refused": refused, "acknowledged": acknowledged, "read": read}
    sys.stdout.write(json.dumps({**found, "read_after_opening_again": len(await again.journal.read(STREAM))}))
    await again.close()


if __name__ == "__main__":
    asyncio.run(main())
