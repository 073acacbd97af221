"""Ten million messages: how fast one session wakes, how fast all is grouped, and whether queries disturb appends.

    python -m benchmarks.analytics --messages 10000000

Prints one JSON object. `last50_p95_ms`: the last 50 facts of one of 10,000 sessions,
through the store's port, as a session that wakes reads them. `group_by_ms`: messages per
day and model over everything, as an analyst asks (`Store.query`); the median of five.
`append_p99_ratio`: the 99th percentile of an append's time while a long analyst's query
runs, divided by the one without. The history is made by SQL, once, and kept with --keep.
"""

import argparse
import asyncio
import contextlib
import json
import random
import shutil
import time
from pathlib import Path

import platformdirs

from actors.clock import WallClock
from actors.session.facts import MessageAccepted
from benchmarks.running import percentile
from messages.gateway import Author, ChatType, Origin
from messages.ids import MessageId, SessionId, StreamId
from messages.settings import StoreSettings
from store.opening import open_database
from store.store import QueryError, Store

SESSIONS = 10_000
READS = 200
APPENDS = 400
PAUSE_S = 0.01
NEEDED_BYTES_PER_MESSAGE = 700

_CLOCK = WallClock()

_KEY = "'agent:main:' || ['discord', 'telegram', 'slack', 'web'][s % 4 + 1] || ':main:dm:user-' || s"
_MODEL = (
    "['claude-sonnet-4-5', 'gpt-4.1-mini', 'gpt-4o', 'SmolLM2-135M-Instruct', 'prototype-7'][i % 7 % 5 + 1]"
)

_ROWS = f"""
CREATE TEMP VIEW said AS
SELECT
    i,
    (hash(i // 2)::UBIGINT % {SESSIONS})::BIGINT AS s,
    {_KEY} AS session_key,
    i // 2 AS turn,
    i % 2 = 0 AS is_user,
    {_MODEL} AS model,
    make_timestamptz(1735689600000000 + i * 4000000) AS moment,
    md5(i::VARCHAR) || ' ' || md5((i * 7)::VARCHAR) || ' said in the course of a long evening' AS text
FROM range(getvariable('low'), getvariable('high')) r(i)
"""

_FACTS = """
INSERT INTO facts
SELECT i + 1, 'session:' || session_key,
    row_number() OVER (PARTITION BY s ORDER BY i) + coalesce((SELECT seq FROM seqs WHERE seqs.s = said.s), 0),
    'message_accepted', 1, moment, false,
    '{"kind":"message_accepted","v":1,"message_id":"m' || i || '","session_id":"conversation-' || s || '","origin":{"platform":"web","account":"main",'
    || '"chat_type":"dm","chat":"user-' || s || '","thread":null,"user":null,"profile":"main"},"author":{"id":"user-'
    || s || '","name":""},"text":"' || text || '","attachments":[],"can_confirm":false,"how":"turn","at":"'
    || strftime(moment, '%Y-%m-%dT%H:%M:%SZ') || '"}'
FROM said ORDER BY i
"""

_SEQS = """
CREATE OR REPLACE TEMP TABLE seqs AS
SELECT s, sum(n) AS seq FROM (
    SELECT s, seq AS n FROM seqs UNION ALL SELECT s, count(*) FROM said GROUP BY s
) GROUP BY s
"""

_MESSAGES = """
INSERT INTO messages BY NAME
SELECT i + 1 AS id, session_key, 'conversation-' || s AS session_id, turn,
    CASE WHEN is_user THEN 'user' ELSE 'assistant' END AS role,
    CASE WHEN is_user THEN 'm' || i END AS message_id,
    CASE WHEN NOT is_user THEN 'd' || i END AS delivery_id,
    CASE WHEN is_user THEN 'user-' || s END AS author_id,
    text, 0 AS attachments, split_part(session_key, ':', 3) AS platform, 'main' AS account, 'dm' AS chat_type,
    'user-' || s AS chat,
    CASE WHEN NOT is_user THEN model END AS model, CASE WHEN NOT is_user THEN 'provider' END AS provider,
    moment AS said_at
FROM said ORDER BY i
"""

_CALLS = """
INSERT INTO model_calls BY NAME
SELECT i + 1 AS id, session_key, turn, 1 AS model_call, 'answered' AS outcome, 'provider' AS provider, model,
    'end' AS stop, 'end_turn' AS raw_stop, 500 + i % 3000 AS input_tokens, 20 + i % 300 AS output_tokens,
    300.0 + i % 500 AS first_token_ms, moment AS began_at, moment + INTERVAL 2 SECOND AS ended_at, 2000.0 AS duration_ms
FROM said WHERE NOT is_user ORDER BY i
"""

GROUP_BY = """
SELECT make_timestamp(epoch_us(said_at))::DATE AS day, model, count(*) AS messages
FROM messages GROUP BY day, model ORDER BY day, model
"""

LONG = """
SELECT m.session_key, count(DISTINCT m.text), max(length(m.text) + length(f.fact))
FROM messages m JOIN facts f USING (id) GROUP BY m.session_key ORDER BY 2 DESC LIMIT 5
"""


def generate(path: Path, messages: int) -> None:
    """Make a database with so many messages, in pieces of half a million."""
    settings = StoreSettings()
    with contextlib.closing(open_database(path, settings)) as connection:
        connection.execute("CREATE TEMP TABLE seqs (s BIGINT, seq HUGEINT)")
        connection.execute("SET VARIABLE low = 0")
        connection.execute("SET VARIABLE high = 0")
        connection.execute(_ROWS)
        for low in range(0, messages, 500_000):
            connection.execute(f"SET VARIABLE low = {low}")
            connection.execute(f"SET VARIABLE high = {min(messages, low + 500_000)}")
            for sql in (_FACTS, _SEQS, _MESSAGES, _CALLS):
                connection.execute(sql)
        connection.execute("CHECKPOINT")


async def measure(path: Path) -> dict[str, float]:
    """Return the figures of a database that `generate` has made."""
    began = time.perf_counter()
    store = Store.open(path, StoreSettings(), _CLOCK)
    figures: dict[str, float] = {
        "open_s": round(time.perf_counter() - began, 2),
        "file_mb": round(int(store.stats()["file_bytes"]) / 1e6),
    }
    await store.start()
    try:
        figures |= await _last_facts(store)
        figures |= await _group_by(store)
        figures |= await _beside(store)
    finally:
        await store.close()
    return figures


async def _last_facts(store: Store) -> dict[str, float]:
    chance = random.Random(1)
    found = await store.select(
        "SELECT stream, max(seq) FROM facts GROUP BY stream HAVING count(*) >= 50", max_rows=SESSIONS
    )
    taken: list[float] = []
    for stream, last in chance.sample(found.rows, READS):
        began = time.perf_counter()
        facts = await store.journal.read(StreamId(str(stream)), int(str(last)) - 50)
        taken.append((time.perf_counter() - began) * 1000)
        assert len(facts) == 50
    return {
        "last50_p50_ms": round(percentile(taken, 0.5), 1),
        "last50_p95_ms": round(percentile(taken, 0.95), 1),
    }


async def _group_by(store: Store) -> dict[str, float]:
    taken = []
    rows = 0
    for _ in range(6):
        began = time.perf_counter()
        rows = (await store.query(GROUP_BY, timeout_s=120)).rows
        taken.append((time.perf_counter() - began) * 1000)
    return {
        "group_by_first_ms": round(taken[0]),
        "group_by_ms": round(sorted(taken[1:])[2]),
        "group_by_rows": rows,
    }


async def _beside(store: Store) -> dict[str, float]:
    """Appends alone and appends beside a long query, taking turns so that a slow disk minute hits both."""
    alone: list[float] = []
    beside: list[float] = []
    stream, length = StreamId(f"session:bench-{_CLOCK.now():%Y%m%dT%H%M%S}"), 0
    for _ in range(4):
        length = await _append(store, stream, length, alone)
        stop = asyncio.Event()
        long = asyncio.create_task(_ask_for_long(store, stop))
        await asyncio.sleep(0.5)
        length = await _append(store, stream, length, beside)
        stop.set()
        long.cancel()
        (ended,) = await asyncio.gather(long, return_exceptions=True)
        if isinstance(ended, QueryError):
            raise ended  # it was not there to disturb anybody
    return {
        "append_p50_alone_ms": round(percentile(alone, 0.5), 2),
        "append_p50_beside_ms": round(percentile(beside, 0.5), 2),
        "append_p99_alone_ms": round(percentile(alone, 0.99), 2),
        "append_p99_beside_ms": round(percentile(beside, 0.99), 2),
        "append_p99_ratio": round(percentile(beside, 0.99) / percentile(alone, 0.99), 2),
    }


async def _ask_for_long(store: Store, stop: asyncio.Event) -> None:
    while not stop.is_set():
        await store.query(LONG, timeout_s=300)


async def _append(store: Store, stream: StreamId, length: int, taken: list[float]) -> int:
    for n in range(length, length + APPENDS):
        began = time.perf_counter()
        await store.journal.append(stream, n, [_message(n)])
        taken.append((time.perf_counter() - began) * 1000)
        await asyncio.sleep(PAUSE_S)
    return length + APPENDS


def _message(n: int) -> MessageAccepted:
    return MessageAccepted(
        message_id=MessageId(f"b{n}"),
        session_id=SessionId("conversation-bench"),
        origin=Origin(platform="web", chat_type=ChatType.DM, chat="bench"),
        author=Author(id="bench"),
        text="x" * 200,
        at=_CLOCK.now(),
    )


def main() -> None:
    """Generate unless it is there, measure, and clean up."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--messages", type=int, default=10_000_000)
    parser.add_argument("--dir", type=Path, help="a folder on a real disk; else the user's cache")
    parser.add_argument("--keep", action="store_true", help="keep the history for the next time")
    arguments = parser.parse_args()
    folder = arguments.dir or platformdirs.user_cache_path("callboard") / "benchmarks"
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"analytics-{arguments.messages}.duckdb"
    figures: dict[str, float] = {"messages": arguments.messages}
    try:
        if not path.exists():
            free = shutil.disk_usage(folder).free
            if free < arguments.messages * NEEDED_BYTES_PER_MESSAGE:
                parser.error(f"{folder} has {free // 10**9} GB free; name another folder with --dir")
            began = time.perf_counter()
            unfinished = path.with_suffix(".part")
            unfinished.unlink(missing_ok=True)
            generate(unfinished, arguments.messages)
            unfinished.rename(path)
            figures["generate_s"] = round(time.perf_counter() - began)
        print(json.dumps(figures | asyncio.run(measure(path))))
    finally:
        if not arguments.keep:
            for left in folder.glob(f"analytics-{arguments.messages}.*"):
                shutil.rmtree(left) if left.is_dir() else left.unlink()


if __name__ == "__main__":
    main()
