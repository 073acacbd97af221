"""Run as a process, to be killed: appends without end; prints `stream seq` for each that was acknowledged."""

import asyncio
import os
import sys
from datetime import UTC, datetime
from pathlib import Path

from actors.clock import WallClock
from messages.ids import StreamId
from messages.settings import StoreSettings
from messages.system import IncidentHappened
from store.store import Store

STREAMS = 20
AT = datetime(2026, 1, 15, 12, tzinfo=UTC)


def fact(stream: StreamId, seq: int) -> IncidentHappened:
    return IncidentHappened(life="l", child=stream, what="crashed", detail=f"{seq} " + "x" * 500, at=AT)


async def write(store: Store, stream: StreamId) -> None:
    seq = len(await store.journal.read(stream))
    while True:
        facts = [fact(stream, seq + 1), fact(stream, seq + 2)]
        seq = (await store.journal.append(stream, seq, facts, owing=seq % 4 == 0))[-1].seq
        os.write(1, f"{stream} {seq}\n".encode())


async def main() -> None:
    store = Store.open(Path(sys.argv[1]), StoreSettings(), WallClock())
    await store.start()
    await asyncio.gather(*(write(store, StreamId(f"session:{number}")) for number in range(STREAMS)))


if __name__ == "__main__":
    asyncio.run(main())
