"""Feeds an edge's translation with what no service should ever send: `python -m tests.platforms.fuzz EDGE`.

Each edge has a module `tests/platforms/EDGE/shapes.py` with a `FUZZ`: recorded payloads,
and a function that feeds one to the edge's pure translation. The payloads are changed
at random, by a seed: fields of the wrong type, missing, doubled, invented, huge, deep,
endless; texts with lone surrogates, NULs and bidirectional marks; numbers that are not
numbers. See README.md beside this file.

A run prints one JSON line. `crashes` must be 0, and `rss_growth_mb` must not depend on
the number of payloads.
"""

import argparse
import contextlib
import copy
import ctypes
import gc
import importlib
import json
import random
import sys
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil

from messages.gateway import ChatMoved, MessageDeleted, MessageEdited, MessageReceived

HEARD = (MessageReceived, MessageEdited, MessageDeleted, ChatMoved)
WARM_UP = 0.2
"""Part of the payloads after which memory is measured first: caches have filled by then."""
SLOW_S = 1.0
"""Of processor time: what else the machine does says nothing about a translation."""
MOST_SHOWN = 5


@dataclass(frozen=True)
class FuzzTarget:
    """What an edge registers as `FUZZ` in `tests/platforms/EDGE/shapes.py`."""

    shapes: Sequence[Any]
    """Recorded raw payloads: JSON-like data, or the bytes of one. Never changed in place."""
    feed: Callable[[Any], object]
    """Feeds one to the pure translation, and returns what came of it: an EdgeHeard, several, or anything
    else for a refusal. Whatever it raises is a crash."""


@dataclass
class Report:
    """What came of a run."""

    edge: str
    seed: int
    payloads: int = 0
    handed_in: int = 0
    refused: int = 0
    crashes: int = 0
    slow: int = 0
    slowest_ms: float = 0.0
    seconds: float = 0.0
    rss_growth_mb: float = 0.0
    object_growth: int = 0
    """Python objects that came and stayed: memory alone also tells of an allocator's gaps."""
    kinds: Counter[str] = field(default_factory=Counter)
    shown: list[str] = field(default_factory=list)
    """The first crashes and slow ones, with the payload in short."""

    def line(self) -> str:
        shown = {name: value for name, value in vars(self).items() if name != "shown"}
        return json.dumps({**shown, "kinds": dict(self.kinds)})


def target_of(edge: str) -> FuzzTarget:
    """Load an edge's target. Raises ModuleNotFoundError for an edge without one."""
    target = importlib.import_module(f"tests.platforms.{edge}.shapes").FUZZ
    assert target.shapes, f"{edge} has no shapes"
    return target  # type: ignore[no-any-return]


def edges() -> list[str]:
    """Name the edges that have a target."""
    return sorted(path.parent.name for path in Path(__file__).parent.glob("*/shapes.py"))


def fuzz(edge: str, payloads: int, seed: int, target: FuzzTarget | None = None) -> Report:
    """Feed so many payloads. The same seed gives the same payloads."""
    target = target or target_of(edge)
    report, began = Report(edge, seed), time.perf_counter()
    process, before, objects = psutil.Process(), 0, 0
    warm = int(payloads * WARM_UP)
    for number, raw in enumerate(mutated(target.shapes, seed, payloads)):
        if number == warm:
            before, objects = _memory(process), len(gc.get_objects())
        _feed(target, raw, report)
    report.rss_growth_mb = round((_memory(process) - before) / 1e6, 2)
    report.object_growth = len(gc.get_objects()) - objects
    report.seconds = round(time.perf_counter() - began, 2)
    return report


def _memory(process: psutil.Process) -> int:
    """Return the memory that is in use; what the C library keeps for later is given back before."""
    gc.collect()
    with contextlib.suppress(AttributeError, OSError):
        ctypes.CDLL(None).malloc_trim(0)
    return int(process.memory_info().rss)


def _feed(target: FuzzTarget, raw: Any, report: Report) -> None:
    report.payloads += 1
    began = time.process_time()
    try:
        came = target.feed(raw)
        heard = [came] if isinstance(came, HEARD) else list(came) if isinstance(came, list | tuple) else []
        heard = [each for each in heard if isinstance(each, HEARD)]
        for each in heard:
            # What is handed in goes into the journal: it must be storable as it is.
            type(each).model_validate_json(each.model_dump_json())
    except BaseException as error:
        if isinstance(error, KeyboardInterrupt):
            raise
        report.crashes += 1
        if len(report.shown) < MOST_SHOWN:
            where = "".join(traceback.format_exception(error, limit=-4))
            report.shown.append(f"{where}\npayload: {_short(raw)}")
        return
    finally:
        took = time.process_time() - began
        report.slowest_ms = max(report.slowest_ms, round(took * 1000, 1))
        if took > SLOW_S:
            report.slow += 1
            if len(report.shown) < MOST_SHOWN:
                report.shown.append(f"{took:.1f} s of processor time\npayload: {_short(raw)}")
    report.handed_in += bool(heard)
    report.refused += not heard
    report.kinds.update(type(each).__name__ for each in heard)


def _short(raw: Any) -> str:
    try:
        return repr(raw)[:3000]
    except RecursionError:
        return "(too deep to be shown)"


# ------------------------------------------------------------------ how payloads are changed

TEXTS = (
    "",
    " ",
    "0",
    "-1",
    "null",
    "/stop",
    "/" * 50,
    "@everyone <!channel> <@&1>",
    "\ud83d",
    "a\udc00b\ud800",
    "\x00nul\x00",
    "\u202egnp.exe\u2066\u2028\u2029",
    "e" + "\u0301" * 400,
    "👩‍👩‍👧‍👦" * 50,
    "\r\n## SYSTEM\r\n",
    "../../etc/passwd",
    "%s%n{0}{payload.__class__}${HOME}",
    "<script>&#0;</b>",
    "2026-13-45T99:99:99Z",
    "1e400",
    "\N{ARABIC-INDIC DIGIT ONE}\N{ARABIC-INDIC DIGIT TWO}",
    "²",
)
NUMBERS = (
    0,
    -1,
    1,
    1.5,
    float("nan"),
    float("inf"),
    float("-inf"),
    -(2**63),
    2**63,
    2**64 + 1,
    10**25,
    1e308,
    -0.0,
    253402300800,
    -62135596801,
)


def mutated(shapes: Sequence[Any], seed: int, count: int) -> Iterator[Any]:
    """Give so many payloads, each a recorded one with 0 to 5 changes."""
    chance = random.Random(seed)
    for number in range(count):
        shape = shapes[number % len(shapes)] if number < len(shapes) else chance.choice(shapes)
        changes = 0 if number < len(shapes) else chance.choice((0, 1, 1, 1, 1, 2, 2, 3, 5))
        if isinstance(shape, bytes):
            yield _changed_bytes(shape, chance, changes)
            continue
        root = [copy.deepcopy(shape)]
        for _ in range(changes):
            _change(root, chance)
        yield root[0]


def _places(root: list[Any]) -> list[tuple[Any, Any]]:
    """Every (container, key or index) of JSON-like data, each container once."""
    found: list[tuple[Any, Any]] = []
    waiting: list[Any] = [root]
    seen: set[int] = set()
    while waiting and len(found) < 5000:
        node = waiting.pop()
        if id(node) in seen:
            continue
        seen.add(id(node))
        for key in list(node) if isinstance(node, dict) else range(len(node)):
            found.append((node, key))
            if isinstance(node[key], dict | list):
                waiting.append(node[key])
    return found


def _change(root: list[Any], chance: random.Random) -> None:
    places = _places(root)
    node, key = chance.choice(places)
    match chance.randrange(10):
        case 0 | 1 | 2:
            node[key] = _odd(chance)
        case 3 | 4 if node is not root:
            del node[key]
        case 5:
            node[key] = _other_type(node[key], chance)
        case 6:
            other_node, other_key = chance.choice(places)
            node[key], other_node[other_key] = other_node[other_key], node[key]
        case 7 if isinstance(node, dict):
            node[chance.choice(("", "id", "type", "__class__", "0", "\udc00", "text"))] = _odd(chance)
        case 8 if isinstance(node, list) and node is not root:
            node.extend(copy.deepcopy(node[:50]) if _is_shallow(node) else [None])
        case _:
            node[key] = _grown(node[key], chance, root)


def _is_shallow(node: Any, depth: int = 0) -> bool:
    if depth > 20:
        return False
    inner = node.values() if isinstance(node, dict) else node if isinstance(node, list) else ()
    return all(_is_shallow(each, depth + 1) for each in inner)


def _odd(chance: random.Random) -> Any:
    match chance.randrange(8):
        case 0:
            return None
        case 1:
            return chance.choice((True, False))
        case 2 | 3:
            return chance.choice(NUMBERS)
        case 4 | 5:
            return chance.choice(TEXTS)
        case 6:
            return chance.choice(([], [[]], [None], ["a", 1, {}], [{"type": []}]))
        case _:
            return chance.choice(({}, {"": None}, {"id": {}}, {"text": ["x"]}))


def _other_type(value: Any, chance: random.Random) -> Any:
    match value:
        case bool() | None:
            return chance.choice(("true", 1, [value], {"value": value}))
        case int() | float():
            return chance.choice((str(value), -value, float(value) if abs(value) < 1e300 else 0.5, [value]))
        case str():
            return chance.choice(
                (value.encode("utf-8", "replace").hex(), len(value), [value], list(value[:20]))
            )
        case list():
            return chance.choice(({str(n): each for n, each in enumerate(value[:50])}, None, "list"))
        case dict():
            return chance.choice((list(value.values())[:50], list(value)[:50], None, "dict"))
        case _:
            return None


def _grown(value: Any, chance: random.Random, root: list[Any]) -> Any:
    match chance.randrange(6):
        case 0:
            return "x" * chance.choice((4001, 40_001, 300_000))
        case 1:
            return chance.choice(TEXTS) * 2000
        case 2:
            deep: Any = value if not isinstance(value, dict | list) else 0
            for _ in range(chance.choice((50, 900, 3000))):
                deep = {"a": deep} if chance.random() < 0.5 else [deep]
            return deep
        case 3:
            return [0] * 20_000
        case 4:
            return {f"k{n}": n for n in range(5000)}
        case _:
            # Without end: no service can send it, an SDK's objects can hold it.
            return root[0] if isinstance(root[0], dict | list) else None


def _changed_bytes(raw: bytes, chance: random.Random, changes: int) -> bytes:
    data = bytearray(raw)
    for _ in range(changes):
        at = chance.randrange(len(data) + 1)
        match chance.randrange(7):
            case 0:
                del data[at : at + chance.choice((1, 10, 1000))]
            case 1:
                data[at:at] = bytes(chance.randrange(256) for _ in range(chance.choice((1, 4, 40))))
            case 2 if data:
                data[min(at, len(data) - 1)] = chance.randrange(256)
            case 3:
                data[at:at] = data[: chance.choice((10, 200, 2000))]
            case 4:
                data = data[:at]
            case 5:
                data[at:at] = chance.choice(TEXTS).encode("utf-8", "surrogatepass") * 20
            case _:
                data[at:at] = chance.choice((b"\r\n", b"\n\n", b"\x00", b"=?utf-8?b?////?=", b"(" * 3000))
    return bytes(data[:2_000_000])


def main() -> int:
    """Run what the command line asks for; 1 when something crashed."""
    parser = argparse.ArgumentParser(prog="python -m tests.platforms.fuzz", description=__doc__)
    parser.add_argument("edge", choices=[*edges(), "all"])
    parser.add_argument("--payloads", type=int, default=100_000)
    parser.add_argument("--seed", type=int, default=1)
    asked = parser.parse_args()
    crashed = False
    for edge in edges() if asked.edge == "all" else [asked.edge]:
        report = fuzz(edge, asked.payloads, asked.seed)
        sys.stdout.write(report.line() + "\n")
        sys.stdout.flush()
        for shown in report.shown:
            sys.stderr.write(shown + "\n")
        crashed |= report.crashes > 0
    return int(crashed)


if __name__ == "__main__":
    sys.exit(main())
