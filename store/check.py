"""Is the database in order? Questions in SQL, asked of the file or of the running process, and what the answers mean."""

from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from messages.base import Message
from messages.ids import StreamId
from store import projection
from store.codec import CODEC
from store.journal import JournalError
from store.mark import MarkRead, mark_path, read_mark
from store.opening import known_steps
from store.recovery import wal_path

Ask = Callable[[str], Awaitable[Sequence[Sequence[object]]]]
"""Runs one SELECT and returns its rows."""

NEWEST = 20_000
"""Facts whose derived rows are worked out again, unless all are asked for."""

_PAGE = 5_000

_VERSIONS = "SELECT (SELECT value FROM meta WHERE name = 'schema_version'), version()"

_COUNTS = """
SELECT count(*), coalesce(min(id), 0), coalesce(max(id), 0), count(DISTINCT id), count(DISTINCT stream) FROM facts
"""

_GAPS = """
SELECT stream, count(*) AS facts, min(seq) AS first, max(seq) AS last FROM facts GROUP BY stream
HAVING max(seq) - min(seq) + 1 <> count(*) OR count(DISTINCT seq) <> count(*)
    OR (min(seq) > 1 AND arg_min(kind, seq) <> 'history_erased')
ORDER BY stream LIMIT 20
"""

_ORDER = """
SELECT count(*) FROM (SELECT seq <= lag(seq) OVER (PARTITION BY stream ORDER BY id) AS wrong FROM facts) WHERE wrong
"""

_FACTS = "SELECT id, stream, kind, v, fact FROM facts WHERE id > {after} ORDER BY id LIMIT {count}"
_ROWS = "SELECT id FROM {table} WHERE id > {after} AND id <= {until}"


@dataclass(frozen=True, slots=True)
class Finding:
    """One line of the report."""

    verdict: Literal["ok", "warn", "fail"]
    subject: str
    what: str
    remedy: str = ""


async def check(path: Path, ask: Ask, *, everything: bool, progress: Callable[[str], None]) -> list[Finding]:
    """Look at a database: versions, numbers without gaps, derived rows, the mark. Changes nothing."""
    mark = read_mark(mark_path(path))  # first: a running process goes on writing while we look
    findings = [await _versions(ask)]
    ((facts, first, last, different, streams),) = await ask(_COUNTS)
    text = f"{facts:,} facts in {streams:,} streams, numbers {first:,} to {last:,}"
    findings.append(
        Finding("ok", "facts", text)
        if facts == different
        else Finding("fail", "facts", f"{text}; numbers occur twice", _REMEDY)
    )
    findings.extend(await _streams(ask))
    start = 0 if everything else max(0, int(str(last)) - NEWEST)
    findings.append(await _derived(ask, start, int(str(last)), progress))
    findings.append(_compared(mark, int(str(last))))
    findings.extend(_files(path))
    return findings


_REMEDY = (
    "Keep a copy of the file (`callboard store backup`) and go back to a good one: `callboard store restore`."
)


async def _versions(ask: Ask) -> Finding:
    ((schema, engine),) = await ask(_VERSIONS)
    newest = known_steps()[-1].version
    verdict: Literal["ok", "fail"] = "ok" if int(str(schema)) == newest else "fail"
    return Finding(verdict, "versions", f"schema {schema} (this program: {newest}), DuckDB {engine}")


async def _streams(ask: Ask) -> list[Finding]:
    gaps = await ask(_GAPS)
    ((disorder,),) = await ask(_ORDER)
    findings = [
        Finding("fail", "stream", f"{name}: {facts} facts, but numbers {first} to {last}", _REMEDY)
        for name, facts, first, last in gaps
    ]
    if disorder:
        findings.append(Finding("fail", "streams", f"{disorder:,} facts are out of order", _REMEDY))
    return findings or [Finding("ok", "streams", "every stream counts without gaps")]


async def _derived(ask: Ask, after: int, last: int, progress: Callable[[str], None]) -> Finding:
    """Derive the rows of facts again, and compare which are there."""
    missing = surplus = looked_at = unreadable = 0
    begin = after
    while lines := await ask(_FACTS.format(after=after, count=_PAGE)):
        until = int(str(lines[-1][0]))
        expected: dict[str, set[int]] = {table: set() for table in projection.TABLES}
        for stream, numbered in _readable(lines):
            for table, row in projection.rows(stream, numbered):
                expected[table].add(int(str(row[0])))
        unreadable += len(lines) - sum(len(numbered) for _, numbered in _readable(lines))
        for table, ids in expected.items():
            rows = await ask(_ROWS.format(table=table, after=after, until=until))
            found = {int(str(number)) for (number,) in rows}
            missing += len(ids - found)
            surplus += len(found - ids)
        looked_at += len(lines)
        after = until
        if looked_at % (20 * _PAGE) == 0:
            progress(f"{looked_at:,} facts looked at, {100 * (after - begin) // max(1, last - begin)} %")
    text = f"the rows of {'all' if begin == 0 else 'the newest'} {looked_at:,} facts are there"
    if missing or surplus:
        wrong = f"{missing:,} derived rows are missing, {surplus:,} have no fact"
        return Finding("fail", "derived rows", wrong, _REMEDY)
    if unreadable:
        return Finding(
            "warn", "derived rows", f"{text}; {unreadable:,} are of kinds that this program cannot read"
        )
    return Finding("ok", "derived rows", text)


def _readable(lines: Sequence[Sequence[object]]) -> Iterator[tuple[StreamId, list[tuple[int, Message]]]]:
    for number, stream, kind, v, text in lines:
        try:
            fact = CODEC.decode(str(kind), int(str(v)), str(text))
        except JournalError:
            continue
        yield StreamId(str(stream)), [(int(str(number)), fact)]


def _compared(read: MarkRead | None, last: int) -> Finding:
    if read is None:
        return Finding("warn", "mark", "there is none beside the database; the next start makes one")
    if read.last_id > last:
        lost = read.last_id - last
        return Finding(
            "fail",
            "mark",
            f"{lost:,} acknowledged facts are not in the database (numbers {last + 1:,} to {read.last_id:,})",
            "Start Callboard: what the mark has is written again, and it says what is lost.",
        )
    return Finding("ok", "mark", f"nothing acknowledged is missing (last noted: {read.last_id:,})")


def _files(path: Path) -> Iterator[Finding]:
    wal = wal_path(path)
    log = wal.stat().st_size if wal.exists() else 0
    yield Finding("ok", "files", f"{path} {path.stat().st_size / 1e6:,.1f} MB, log {log / 1e6:,.1f} MB")
    kept = sorted(file for file in path.parent.glob(f"{path.name}.*") if file != wal and file.is_file())
    if kept:
        names = ", ".join(file.name for file in kept[:6]) + (" …" if len(kept) > 6 else "")
        size = sum(file.stat().st_size for file in kept) / 1e6
        yield Finding(
            "warn", "copies", f"{size:,.1f} MB beside the database: {names}", "Remove what you do not need."
        )
