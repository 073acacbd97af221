"""Run as a process: eight threads append to the same fifty streams through one store; prints what is there."""

import asyncio
import json
import sys
import threading
from datetime import UTC, datetime
from pathlib import Path

from actors.clock import WallClock
from messages.ids import StreamId
from messages.settings import StoreSettings
from messages.system import ProcessStopped
from store.journal import StaleWriterError
from store.store import Store

THREADS, APPENDS, STREAMS = 8, 1500, 50
AT = datetime(2026, 1, 15, 12, tzinfo=UTC)


async def write(store: Store, thread: int, surprises: list[str]) -> None:
    known: dict[StreamId, int] = {}
    for number in range(APPENDS):
        stream = StreamId(f"session:{(number * 7 + thread) % STREAMS}")
        while True:
            try:
                fact = ProcessStopped(life=f"{thread} {number}", at=AT)
                recorded = await store.journal.append(stream, known.get(stream, 0), [fact])
            except StaleWriterError as stale:
                known[stream] = stale.found
            except Exception as error:  # noqa: BLE001 any at all is what is looked for
                surprises.append(repr(error))
                return
            else:
                known[stream] = recorded[-1].seq
                break
        if number % 100 == 0:
            await store.journal.read(stream, known[stream] - 1)
            await store.select("SELECT count(*) FROM facts")


async def count(store: Store) -> dict[str, object]:
    rows = await store.select(
        "SELECT count(*), count(DISTINCT stream), max(id), (SELECT count(*) FROM lives),"
        " (SELECT count(*) FROM (SELECT stream FROM facts GROUP BY stream HAVING max(seq) <> count(*))) FROM facts"
    )
    await store.close()
    return dict(zip(("facts", "streams", "last", "lives", "gaps"), rows.rows[0], strict=True))


def main() -> None:
    store = Store.open(Path(sys.argv[1]), StoreSettings(), WallClock())
    surprises: list[str] = []
    threads = [
        threading.Thread(target=lambda thread=thread: asyncio.run(write(store, thread, surprises)))
        for thread in range(THREADS)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    sys.stdout.write(json.dumps({**asyncio.run(count(store)), "surprises": surprises}))


if __name__ == "__main__":
    main()
