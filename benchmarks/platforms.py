"""Group chats on three platforms at once: `python -m benchmarks.platforms --minutes 10 --kill-every 20`.

200 Discord channels, 200 Slack channels and 100 Telegram groups, five people in each;
on every platform one message a second, in a chat and by a person drawn by the seed, to
the real `callboard run`, over the real SDKs, to simulated services in processes of
their own. The model takes a second, and begins its answer with the number that the
message held, so that every answer can be told.

With `--kill-every`, each platform lives in a process of its own (`isolation: process`),
and after a first third without any, the process of one platform is killed again and
again. One JSON line:

    lost             messages without an answer
    doubled          answers that stand in a chat more than once
    crossed          answers in another chat than their question, or out of order there
    p95_added_ms     from a person's message to the answer in the chat, less the model's second
    others_p95_ratio the same of the platforms that are not killed: while others are, over before
    back_s_max       from a kill until the platform is connected again
    rss_mb, edges_rss_mb   of Callboard's process, and of the processes of its platforms
    rss_growth_mb    of all of them, from a quarter of the time to the end
"""

import argparse
import asyncio
import contextlib
import json
import random
import re
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import aiohttp
import psutil

from benchmarks.running import Callboard, callboard, fake_provider, model_server, percentile
from tests.platforms.simulators.discord import DiscordSimulator
from tests.platforms.simulators.port import SimPost, Simulator
from tests.platforms.simulators.slack import SlackSimulator
from tests.platforms.simulators.telegram import TelegramSimulator

LATENCY_S = 1.0
PEOPLE = 5
GRACE_S = 60.0
"""How long answers may take after the last message, before they count as lost."""

CHATS = {"discord": 200, "slack": 200, "telegram": 100}
NUMBER = re.compile(r"q\d{6}")


@dataclass(frozen=True)
class Asked:
    """A message of a person, and when it was sent on the monotonic clock."""

    number: str
    platform: str
    chat: str
    user: str
    at: float
    message_id: str


class Rss(NamedTuple):
    """Memory at one moment, in megabytes; pages that processes share count in each."""

    at: float
    ours: float
    """Of Callboard itself."""
    edges: float
    """Of the processes of platforms, those that stand ready too."""


@dataclass
class Field:
    """What happened."""

    asked: list[Asked] = field(default_factory=list)
    killed_from: float | None = None
    kills: int = 0
    backs: list[float] = field(default_factory=list)
    rss: list[Rss] = field(default_factory=list)


async def talk(
    sim: Simulator, platform: str, rules: argparse.Namespace, field_: Field, until: float, first: int
) -> None:
    """Let people talk on one platform: a message each second, never waiting for answers."""
    chance = random.Random(f"{rules.seed}:{platform}")
    number = first
    while (began := time.monotonic()) < until:
        number += 1
        chat = f"{platform}-{chance.randrange(CHATS[platform])}"
        user = f"{chat}-p{chance.randrange(PEOPLE)}"
        asked_at = time.monotonic()
        message_id = await sim.says(chat, user, f"question q{number:06d}, please")
        field_.asked.append(Asked(f"q{number:06d}", platform, chat, user, asked_at, message_id))
        await asyncio.sleep(max(0.0, 1.0 / rules.rate - (time.monotonic() - began)))


async def edges(board: Callboard, http: aiohttp.ClientSession) -> list[psutil.Process]:
    """Return the processes in which platforms live, and those that stand ready behind them: no children of ours.

    All of them have the same parent, which thespian has made.
    """
    pids = [pid for each in (await status(http))["platforms"] if (pid := pid_in(each))]
    with contextlib.suppress(psutil.Error):
        parent = psutil.Process(pids[0]).parent() if pids else None
        if parent is not None and parent.pid not in (1, board.process.pid):
            return [parent, *parent.children(recursive=True)]
    return []


def rss_mb(processes: Iterable[psutil.Process]) -> float:
    total = 0.0
    for process in processes:
        with contextlib.suppress(psutil.Error):
            total += process.memory_info().rss / 1e6
    return total


async def watch_memory(board: Callboard, field_: Field) -> None:
    async with aiohttp.ClientSession(board.url, headers=board.headers) as http:
        while True:
            ours = rss_mb([board.process, *board.process.children(recursive=True)])
            field_.rss.append(Rss(time.monotonic(), ours, rss_mb(await edges(board, http))))
            await asyncio.sleep(2.0)


async def status(http: aiohttp.ClientSession) -> dict[str, Any]:
    async with http.get("/api/platforms") as response:
        told: dict[str, Any] = await response.json()
        return told


async def kill_again_and_again(board: Callboard, rules: argparse.Namespace, field_: Field) -> None:
    """Kill the process of one platform, and see how soon it is connected again."""
    async with aiohttp.ClientSession(board.url, headers=board.headers) as http:
        while True:
            platforms = {each["name"]: each for each in (await status(http))["platforms"]}
            pid = pid_in(platforms[rules.victim])
            if pid:
                killed_at = time.monotonic()
                psutil.Process(pid).kill()
                field_.kills += 1
                field_.killed_from = field_.killed_from or killed_at
                await back(http, rules.victim, pid)
                field_.backs.append(time.monotonic() - killed_at)
            await asyncio.sleep(rules.kill_every)


def pid_in(state: dict[str, Any]) -> int | None:
    """Read the process of an isolated platform out of what is told of it."""
    found = re.search(r"\d+", state["process"])
    return int(found[0]) if found else None


async def back(http: aiohttp.ClientSession, name: str, dead: int) -> None:
    """Wait until the platform is connected, in another process than the dead one."""
    while True:
        for each in (await status(http))["platforms"]:
            if each["name"] == name and each["state"] == "connected" and pid_in(each) != dead:
                return
        await asyncio.sleep(0.02)


async def answers(sims: dict[str, Simulator], field_: Field) -> dict[str, list[SimPost]]:
    """Wait until everything is answered, or the grace is over; return the posts by platform."""
    wanted = {asked.number for asked in field_.asked}
    until = time.monotonic() + GRACE_S
    while True:
        posts = {name: await sim.posts() for name, sim in sims.items()}
        found = {number for each in posts.values() for post in each for number in NUMBER.findall(post.text)}
        if wanted <= found or time.monotonic() > until:
            return posts
        await asyncio.sleep(0.5)


def judge(field_: Field, posts: dict[str, list[SimPost]], victim: str | None) -> dict[str, Any]:
    """Hold the questions against what stands in the chats."""
    places: dict[str, list[tuple[str, SimPost]]] = defaultdict(list)
    for platform, each in posts.items():
        for post in each:
            for number in NUMBER.findall(post.text):
                places[number].append((platform, post))
    added: list[tuple[Asked, float]] = []
    count: Counter[str] = Counter()
    order: dict[tuple[str, str], list[tuple[float, float]]] = defaultdict(list)
    for asked in field_.asked:
        found = places.get(asked.number, [])
        count["lost"] += not found
        count["doubled"] += len(found) > 1
        for platform, post in found[:1]:
            right = platform == asked.platform and post.chat == asked.chat
            count["crossed"] += not right
            added.append((asked, post.at - asked.at - LATENCY_S))
            order[asked.chat, asked.user].append((asked.at, post.at))
    for pairs in order.values():
        posted = [at for _, at in sorted(pairs)]
        count["crossed"] += posted != sorted(posted)
    return {
        "asked": len(field_.asked),
        "lost": count["lost"],
        "doubled": count["doubled"],
        "crossed": count["crossed"],
        **latencies(added, field_, victim),
    }


def latencies(added: Sequence[tuple[Asked, float]], field_: Field, victim: str | None) -> dict[str, Any]:
    """The added latency in milliseconds: of all, and of those that are not killed before and during."""
    quiet = [s for asked, s in added if field_.killed_from is None or asked.at < field_.killed_from]
    result: dict[str, Any] = {
        "p50_added_ms": round(percentile(quiet, 0.5) * 1000, 1),
        "p95_added_ms": round(percentile(quiet, 0.95) * 1000, 1),
        "others_p95_ratio": None,
    }
    for platform in sorted({asked.platform for asked, _ in added}):
        of = [s for asked, s in added if asked.platform == platform and s in set(quiet)]
        result[f"p95_{platform}_ms"] = round(percentile(of or [0.0], 0.95) * 1000, 1)
    if field_.killed_from is not None:
        others = [(asked, s) for asked, s in added if asked.platform != victim]
        before = [s for asked, s in others if asked.at < field_.killed_from]
        during = [s for asked, s in others if asked.at >= field_.killed_from]
        result["others_p95_ratio"] = round(percentile(during, 0.95) / percentile(before, 0.95), 2)
    return result


async def measure(rules: argparse.Namespace) -> dict[str, Any]:
    killing = rules.kill_every > 0
    async with contextlib.AsyncExitStack() as stack:
        every: dict[str, Simulator] = {
            "discord": DiscordSimulator(),
            "slack": SlackSimulator(),
            "telegram": TelegramSimulator(),
        }
        sims: dict[str, Simulator] = {
            name: await stack.enter_async_context(sim)
            for name, sim in every.items()
            if name in rules.platforms
        }
        for name, sim in sims.items():
            for n in range(CHATS[name]):  # they are there before we come, as in life
                await sim.says(f"{name}-{n}", f"{name}-{n}-p0", "hello, everybody", mention=False)
        base_url = await stack.enter_async_context(
            model_server("--latency", str(LATENCY_S), "--tokens", "10", "--echo")
        )
        settings = {
            **fake_provider(base_url),
            "platforms": {name: platform_settings(sim, isolated=killing) for name, sim in sims.items()},
        }
        board = await stack.enter_async_context(callboard(settings))
        field_ = Field()
        await all_connected(board, len(sims))
        posts = await drive(board, sims, rules, field_)
        return {
            "minutes": rules.minutes,
            "kill_every_s": rules.kill_every,
            "isolation": "process" if killing else "none",
            "chats": sum(CHATS[name] for name in sims),
            **judge(field_, posts, rules.victim),
            "kills": field_.kills,
            "back_s_max": round(max(field_.backs), 2) if field_.backs else None,
            **memory(field_),
        }


def platform_settings(sim: Simulator, *, isolated: bool) -> dict[str, Any]:
    settings = sim.settings(users=["*"], user_per_minute=1000, chat_per_minute=10_000)
    return {**settings, **({"isolation": "process"} if isolated else {})}


async def all_connected(board: Callboard, wanted: int) -> None:
    async with asyncio.timeout(60), aiohttp.ClientSession(board.url, headers=board.headers) as http:
        while True:
            if sum(each["state"] == "connected" for each in (await status(http))["platforms"]) == wanted:
                return
            await asyncio.sleep(0.05)


async def drive(
    board: Callboard, sims: dict[str, Simulator], rules: argparse.Namespace, field_: Field
) -> dict[str, list[SimPost]]:
    until = time.monotonic() + rules.minutes * 60
    beside = [asyncio.create_task(watch_memory(board, field_))]
    talks = [
        asyncio.create_task(talk(sim, name, rules, field_, until, 100_000 * n))
        for n, (name, sim) in enumerate(sims.items(), 1)
    ]
    try:
        if rules.kill_every > 0:
            await asyncio.sleep(rules.minutes * 60 / 3)
            beside.append(asyncio.create_task(kill_again_and_again(board, rules, field_)))
        await asyncio.gather(*talks)
        for task in beside[1:]:
            task.cancel()
        return await answers(sims, field_)
    finally:
        for task in (*beside, *talks):
            task.cancel()
        for ended in await asyncio.gather(*beside, *talks, return_exceptions=True):
            if isinstance(ended, Exception):
                print(repr(ended), file=sys.stderr)


def memory(field_: Field) -> dict[str, Any]:
    """Compare the medians of the last tenth and of the tenth that follows the first quarter: one moment says little."""
    tenth = max(1, len(field_.rss) // 10)
    early, late = field_.rss[len(field_.rss) // 4 :][:tenth], field_.rss[-tenth:]

    def median(of: Sequence[Rss], *, edges: bool) -> float:
        return percentile([each.edges if edges else each.ours for each in of], 0.5)

    ours, of_edges = median(late, edges=False), median(late, edges=True)
    grown = (ours - median(early, edges=False), of_edges - median(early, edges=True))
    return {
        "rss_mb": round(ours, 1),
        "edges_rss_mb": round(of_edges, 1),
        "rss_growth_mb": round(sum(grown), 1),
        "edges_rss_growth_mb": round(grown[1], 1),
        "rss_most_mb": round(max(each.ours + each.edges for each in field_.rss), 1),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=10.0)
    parser.add_argument("--kill-every", type=float, default=0.0, help="seconds between kills; 0: none")
    parser.add_argument("--victim", default="discord", help="the platform whose process is killed")
    parser.add_argument("--rate", type=float, default=1.0, help="messages a second on each platform")
    parser.add_argument("--platforms", nargs="*", default=list(CHATS))
    parser.add_argument("--seed", type=int, default=1)
    print(json.dumps(asyncio.run(measure(parser.parse_args()))))


if __name__ == "__main__":
    main()
