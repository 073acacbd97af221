"""Full-text search over generated messages, a fifth of them Chinese: how fast it is built and asked.

    python -m benchmarks.search --messages 1000000 [--dir FOLDER]

The messages go into a real database file (not through the journal's appends, which
`benchmarks.journal` measures), and from there through the product's own catching up into
the index. Then each question is asked many times, from the same loop. Prints one JSON
line: `p95_ms` (words, phrases and filters in the Latin part), `cjk_p95_ms` (the Chinese
part), `index_per_s` (messages read, split and committed a second), `index_mb`,
`loop_lag_p99_ms` while the index is built, `fresh_ms` (from an append that is
acknowledged to a search that finds it, when the index looks at once).
"""

import argparse
import asyncio
import json
import random
import shutil
import tempfile
import time
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import duckdb

from actors.clock import WallClock
from benchmarks.journal import message
from messages.ids import StreamId
from messages.search import SearchAsked
from messages.settings import StoreSettings
from store.search_keeper import HistorySearch
from store.store import Store

_CLOCK = WallClock()
_CHINESE_SHARE = 0.2
_SESSIONS = 10_000
_ROWS_AT_ONCE = 20_000

_SYLLABLES = [
    "ba",
    "be",
    "bi",
    "bo",
    "bu",
    "da",
    "de",
    "di",
    "do",
    "du",
    "ka",
    "ke",
    "ki",
    "ko",
    "ku",
    "la",
    "le",
    "li",
    "lo",
    "lu",
    "ma",
    "me",
    "mi",
    "mo",
    "mu",
    "na",
    "ne",
    "ni",
    "no",
    "nu",
    "ra",
    "re",
]
_HAN = "".join(chr(code) for code in range(0x4E00, 0x4E00 + 2500))
_PHRASES = ("部署失败", "数据库连接超时", "明天开会", "端口被占用", "测试通过")
"""Each stands in a message of two thousand or so: what is searched for must be somewhere."""


class Writer:
    """Makes messages: words and characters by Zipf's law, as in real talk."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)
        self.words = [
            "".join(self._random.choices(_SYLLABLES, k=self._random.randint(1, 4))) for _ in range(30_000)
        ]
        self._word_weights = list(_zipf(len(self.words)))
        self._han_weights = list(_zipf(len(_HAN)))

    def english(self) -> str:
        count = max(3, int(self._random.lognormvariate(3.2, 0.7)))
        text = " ".join(self._random.choices(self.words, cum_weights=self._word_weights, k=count))
        return f"{text.capitalize()}."

    def chinese(self) -> str:
        parts = [
            "".join(self._random.choices(_HAN, cum_weights=self._han_weights, k=self._random.randint(3, 14)))
            for _ in range(self._random.randint(1, 6))
        ]
        if self._random.random() < 0.003:
            parts.insert(0, self._random.choice(_PHRASES))
        return "\uff0c".join(parts) + "。"

    def text(self) -> str:
        return self.chinese() if self._random.random() < _CHINESE_SHARE else self.english()

    def rows(self, count: int) -> Iterator[tuple[object, ...]]:
        now = _CLOCK.now() - timedelta(seconds=count)
        for number in range(1, count + 1):
            session = self._random.randrange(_SESSIONS)
            role = "user" if number % 2 else "assistant"
            user = f"u{session}" if role == "user" else None
            key = f"agent:main:discord:main:dm:c{session}"
            ids = (number, key, f"s{session}", number, role, f"m{number}", None, None, user, user)
            place = ("discord", "main", "dm", f"c{session}", None)
            yield (*ids, self.text(), 0, *place, None, None, now + timedelta(seconds=number))


def _zipf(count: int) -> Iterator[float]:
    total = 0.0
    for rank in range(1, count + 1):
        total += 1 / (rank + 2)
        yield total


def fill(path: Path, count: int, seed: int) -> Writer:
    """Put messages, and facts enough that their ids are known, into a database that was made before."""
    writer = Writer(seed)
    with duckdb.connect(path) as connection:
        messages, facts = connection.appender("messages"), connection.appender("facts")
        batch: list[tuple[object, ...]] = []
        for row in writer.rows(count):
            batch.append(row)
            if len(batch) == _ROWS_AT_ONCE:
                messages.append_rows(batch)
                batch = []
        messages.append_rows(batch)
        facts.append_rows([(count, "system", 1, "process_stopped", 1, _CLOCK.now(), False, "{}")])
        messages.flush()
        facts.flush()
    return writer


def questions(writer: Writer, rng: random.Random) -> tuple[list[SearchAsked], list[SearchAsked]]:
    """Return what is asked: common, middling and rare words, together, in phrases, with filters; and in Chinese."""
    words, now = writer.words, _CLOCK.now()
    common, middling, rare = words[:50], words[200:2000], words[5000:]
    pick = rng.choice
    latin = []
    for _ in range(60):
        latin += [
            SearchAsked(words=pick(rare)),
            SearchAsked(words=pick(middling)),
            SearchAsked(words=pick(common)),
            SearchAsked(words=f"{pick(common)} {pick(middling)}"),
            SearchAsked(words=f"{pick(common)} {pick(common)} {pick(common)}"),
            SearchAsked(words=f'"{pick(common)} {pick(common)}"'),
            SearchAsked(words=f"{pick(middling)} -{pick(common)}"),
            SearchAsked(words=f"{pick(rare)[:4]}*"),
            SearchAsked(words=pick(middling), user=f"u{rng.randrange(_SESSIONS)}"),
            SearchAsked(words=pick(common), since=now - timedelta(days=2), newest_first=True),
        ]
    han = _HAN
    chinese = []
    for _ in range(60):
        chinese += [
            SearchAsked(words=pick(_PHRASES)),
            SearchAsked(words=pick(_PHRASES)[:2]),
            SearchAsked(words=pick(han[:40]) + pick(han[:40])),
            SearchAsked(words=pick(han[:400]) + pick(han[:400])),
            SearchAsked(words="".join(rng.choices(han[:20], k=3))),
            SearchAsked(words=pick(han[200:])),
            SearchAsked(words=f"{pick(_PHRASES)} {pick(han[:40])}{pick(han[:40])}"),
            SearchAsked(words=f'"{pick(_PHRASES)}"', roles=("user",)),
        ]
    return latin, chinese


async def _ask_all(history: HistorySearch, asked: list[SearchAsked]) -> list[float]:
    latencies = []
    for question in asked:
        began = time.perf_counter()
        await history.search(question)
        latencies.append((time.perf_counter() - began) * 1000)
    return sorted(latencies)


async def _lag(lags: list[float]) -> None:
    while True:
        began = time.perf_counter()
        await asyncio.sleep(0.005)
        lags.append((time.perf_counter() - began - 0.005) * 1000)


async def _freshness(history: HistorySearch, store: Store, number: int) -> float:
    said = message(number).model_copy(update={"text": f"freshword{number} just now"})
    await store.journal.append(StreamId(f"session:agent:main:web:main:dm:fresh-{number}"), 0, (said,))
    began = time.perf_counter()
    await history.catch_up()
    assert (await history.search(SearchAsked(words=f"freshword{number}"))).hits
    return (time.perf_counter() - began) * 1000


async def _run(folder: Path, count: int, seed: int) -> dict[str, float]:
    path = folder / "callboard.duckdb"
    await Store.open(path, StoreSettings(), _CLOCK).close()
    writer = fill(path, count, seed)
    store = Store.open(path, StoreSettings(), _CLOCK)
    await store.start()
    history = HistorySearch(folder / "index", store, _CLOCK)
    rng = random.Random(seed)
    latin, chinese = questions(writer, rng)
    try:
        lags: list[float] = []
        watching = asyncio.create_task(_lag(lags))
        began, cpu = time.perf_counter(), time.process_time()
        await history.catch_up()
        wall, cpu = time.perf_counter() - began, time.process_time() - cpu
        watching.cancel()
        await _ask_all(history, latin[:50] + chinese[:50])
        by_latin, by_chinese = await _ask_all(history, latin), await _ask_all(history, chinese)
        fresh = sorted([await _freshness(history, store, number) for number in range(15)])
    finally:
        await history.close()  # after it no merge replaces files any more
        size = sum(file.stat().st_size for file in (folder / "index").rglob("*") if file.is_file())
        await store.close()
    lags.sort()
    return {
        "messages": count,
        "p50_ms": _at(by_latin, 0.5),
        "p95_ms": _at(by_latin, 0.95),
        "max_ms": _at(by_latin, 1.0),
        "cjk_p50_ms": _at(by_chinese, 0.5),
        "cjk_p95_ms": _at(by_chinese, 0.95),
        "cjk_max_ms": _at(by_chinese, 1.0),
        "index_per_s": round(count / wall),
        "index_cpu_us_per_message": round(cpu / count * 1e6, 1),
        "index_mb": round(size / 1e6, 1),
        "loop_lag_p99_ms": _at(lags, 0.99),
        "fresh_ms": _at(fresh, 0.5),
    }


def _at(values: list[float], share: float) -> float:
    return round(values[min(len(values) - 1, int(share * len(values)))], 2)


def main() -> None:
    """Measure in a folder of its own below `--dir`."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--messages", type=int, default=1_000_000)
    parser.add_argument("--seed", type=int, default=7)
    parser.add_argument("--dir", type=Path, help="a folder on a real disk; else the temporary folder")
    arguments = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="search-bench-", dir=arguments.dir))
    try:
        print(json.dumps(asyncio.run(_run(folder, arguments.messages, arguments.seed))))
    finally:
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main()
