"""A chaos run: the real process between a scripted model, a scripted platform and people who do not give up."""

import asyncio
import json
import os
import resource
import signal
import sys
from collections import Counter, defaultdict, deque
from collections.abc import Callable, Sequence
from pathlib import Path

import aiohttp

from tests.chaos.model_process import EFFECTS
from tests.chaos.plan import End, Life, Message, Plan
from tests.chaos.platform_process import ACCOUNTS, LIMIT, SECRET
from tests.chaos.seen import Json, Posted, Seen
from tests.process.real import ROOT, Program, environment, scripted

RUN_SYSTEM = ROOT / "run_system.py"
STORE_PROCESS = ROOT / "tests" / "chaos" / "store_process.py"

READY_WITHIN_S = 60.0
FAKETIME = "/usr/lib/*/faketime/libfaketimeMT.so.1"
"""Debian's faketime: with it, the process reads another time than the machine's."""

POINT_WITHIN_S = 3.0
"""A named point that was not reached so long after the start is replaced by a kill at once."""
REST_WITHIN_S = 10.0
STORE_BACK_WITHIN_S = 30.0
"""So long may the store be away after its thread has died; what is asked of it waits for 10 s."""
STORE_REST_WITHIN_S = 60.0
"""So long may it take after that until all that was said is heard and answered."""
QUIET_WITHIN_S = 240.0
QUIET_S = 3.0
MOST_UNEXPECTED = 3
"""A program that ends by itself again and again is not worth killing."""


class Counterpart:
    """A counterpart in its own process, with lines in and out."""

    def __init__(self, on_line: Callable[[str], None]) -> None:
        self._on_line = on_line
        self._first: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        self._reading: asyncio.Task[None] | None = None

    async def start(self, *words: str) -> str:
        """Start it; return its first line."""
        self._process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-m",
            *words,
            cwd=ROOT,
            env=environment({}),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
        )
        self._reading = asyncio.create_task(self._read())
        async with asyncio.timeout(READY_WITHIN_S):
            return await self._first

    async def _read(self) -> None:
        assert self._process.stdout is not None
        while raw := await self._process.stdout.readline():
            line = raw.decode().strip()
            if not self._first.done():
                self._first.set_result(line)
            self._on_line(line)

    def send(self, command: Json) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(command).encode() + b"\n")

    async def stop(self) -> None:
        if self._process.returncode is None:
            self._process.terminate()
        await self._process.wait()
        if self._reading is not None:
            await self._reading


class WebPeople:
    """Those who speak through the HTTP API: one message of a chat at a time, again until it is taken."""

    def __init__(self, program: Program, seen: Seen) -> None:
        self._program = program
        self._seen = seen
        self._queues: dict[str, deque[Message]] = defaultdict(deque)
        self._speaking: dict[str, asyncio.Task[None]] = {}

    def say(self, message: Message) -> None:
        self._queues[message.chat].append(message)
        if message.chat not in self._speaking or self._speaking[message.chat].done():
            self._speaking[message.chat] = asyncio.create_task(self._speak(message.chat))

    @property
    def silent(self) -> bool:
        return all(task.done() for task in self._speaking.values())

    async def stop(self) -> None:
        for task in self._speaking.values():
            task.cancel()
        await asyncio.gather(*self._speaking.values(), return_exceptions=True)

    async def _speak(self, chat: str) -> None:
        queue = self._queues[chat]
        while queue:
            for _ in range(2 if queue[0].twice else 1):
                await self._until_taken(queue[0])
            queue.popleft()

    async def _until_taken(self, message: Message) -> None:
        body = {"text": message.text, "chat": message.chat, "message_id": message.id}
        while True:
            try:
                async with (
                    self._program.http() as http,
                    http.post("/api/messages", json=body) as response,
                ):
                    answer = await response.json()
                    if response.status in (200, 202):
                        self._seen.accepted.add(message.id)
                        return
                    if response.status == 429:
                        self._seen.refused[message.id] = answer.get("why", "")
                        return
            except (aiohttp.ClientError, FileNotFoundError, OSError, ValueError):
                pass  # it is not there, or died while it was asked
            await asyncio.sleep(0.05)


class Run:
    """One run of a plan. `await run.go()`, then look at `seen`."""

    def __init__(self, plan: Plan, folder: Path, *, minutes: float = 60.0, quick: bool = False) -> None:
        self.plan = plan
        self.seen = Seen()
        self.said: list[Message] = []
        self.home = folder / "home"
        self._quick = quick
        self._folder = folder
        self._end_at = asyncio.get_running_loop().time() + minutes * 60
        self._bridged = any(message.account in ACCOUNTS for message in plan.messages)
        self._asked = 0
        self._clock = folder / "clock"
        self._store_notes = folder / "store-notes"
        self._faketime = next((str(path) for path in Path("/").glob(FAKETIME[1:])), "")
        self._last_event = 0.0

    async def go(self) -> Seen:
        """Run it all; the process has stopped in good order afterwards."""
        model, platform = Counterpart(self._model_says), Counterpart(self._platform_says)
        first = await model.start("tests.chaos.model_process")
        await platform.start("tests.chaos.platform_process", str(self._folder), str(self.plan.seed))
        self._platform = platform
        self.program = Program(self.home, self._settings(first.removeprefix("listening on ")))
        self._people = WebPeople(self.program, self.seen)
        try:
            for life in self.plan.lives:
                if self._now() > self._end_at or len(self.seen.unexpected_ends) >= MOST_UNEXPECTED:
                    break
                await self._live(life)
            await self._last_life()
        finally:
            await self._people.stop()
            process = self.program.process
            if process is not None and process.returncode is None:
                process.kill()
                await process.wait()
            await model.stop()
            await platform.stop()
        self.seen.effects = Counter(self._effects())
        return self.seen

    def _settings(self, base_url: str) -> Json:
        settings = {
            **scripted(base_url),
            "session": {"busy_dm": "queue"},
            "tools": {"allow": ["terminal"]},
            "log": {"format": "json"},
        }
        if self._bridged:
            settings["platforms"] = {
                f"bridge/{account}": {
                    "access": {"users": ["*"], "user_per_minute": 10_000, "chat_per_minute": 10_000},
                    "options": {
                        "address": f"unix:{self._folder}/{account}.sock",
                        "secret": SECRET,
                        "idempotency_key": account == "keyed",
                        "history": account == "looked",
                        "limit": LIMIT,
                        "answer_timeout_s": 2,
                    },
                }
                for account in ACCOUNTS
            }
        return settings

    # ------------------------------------------------------------------- lives

    async def _live(self, life: Life) -> None:
        end = life.end
        self.program.env = {**self._time(), **self._harm(end)}
        self.program.script = STORE_PROCESS if end.kind == "store" else RUN_SYSTEM
        process = await self.program.launch()
        began = self._now()
        jump = asyncio.create_task(self._jump(process, life.jump_s))
        for message in life.messages:
            self._say(message)
        cause = await self._wait_for(end, began, process)
        jump.cancel()
        if process.returncode is None:
            # Not by the process object: its own look whether the child is gone races with asyncio's.
            os.kill(process.pid, signal.SIGKILL)
        code = await process.wait()
        if code != -signal.SIGKILL:
            self.seen.unexpected_ends.append(f"exit {code}: {self._last_words()}")
        self.seen.kills[cause] += 1
        if end.kind == "store":
            self._count_store_deaths(end)

    def _harm(self, end: End) -> dict[str, str]:
        """What tells the process where it dies, or its store."""
        if end.kind == "named":
            return {"CALLBOARD_CHAOS": end.point}
        if end.kind == "store":
            self._store_notes.write_text("")
            return {"CHAOS_STORE": ",".join(end.deaths), "CHAOS_STORE_NOTES": str(self._store_notes)}
        return {}

    async def _wait_for(self, end: End, began: float, process: asyncio.subprocess.Process) -> str:
        """Wait for the instant at which a life ends; return what it was."""
        if end.kind == "start":
            await asyncio.sleep(end.wait_s)
            return "start"
        if end.kind == "named":
            waiting = asyncio.create_task(process.wait())
            ready = await self._ready(process)
            limit = POINT_WITHIN_S if ready else READY_WITHIN_S
            await asyncio.wait({waiting}, timeout=limit)
            reached = waiting.done()
            waiting.cancel()
            return end.point.rpartition(":")[0] if reached else "point not reached"
        await self._ready(process)
        if end.kind == "random":
            await asyncio.sleep(end.wait_s)
            return "random"
        if end.kind == "full":
            await self._fill_the_disk(process, end.wait_s)
        if end.kind == "store":
            if not await self._let_the_store_die(end, process):
                return "store not back"
            if end.wait_s:
                await asyncio.sleep(end.wait_s)
                return "store down"
            await self._come_to_rest(process)
            return "store"
        if end.kind in ("rest", "full"):
            limit = self._now() + REST_WITHIN_S
            while await self._is_busy() and self._now() < limit and process.returncode is None:
                await asyncio.sleep(0.1)
            return end.kind
        mark, limit = self._count(end.point), self._now() + POINT_WITHIN_S
        while self._count(end.point) == mark and self._now() < limit:
            await asyncio.sleep(0.002)
        reached = self._count(end.point) > mark
        await asyncio.sleep(end.wait_s)
        return f"seen {end.point}" if reached else "point not reached"

    def _time(self) -> dict[str, str]:
        """What lets a process read the time that the plan wants; its monotonic clock is left alone."""
        if not self._faketime:
            return {}
        if not self._clock.exists():
            self._clock.write_text("+0")
        return {
            "LD_PRELOAD": self._faketime,
            "FAKETIME_TIMESTAMP_FILE": str(self._clock),
            "FAKETIME_DONT_FAKE_MONOTONIC": "1",
            "FAKETIME_CACHE_DURATION": "1",
        }

    async def _jump(self, process: asyncio.subprocess.Process, seconds: float | None) -> None:
        """Set the clock while the process runs. It stays so for the lives that come."""
        if seconds is None or not self._faketime:
            return
        if await self._ready(process):
            new = self._clock.with_suffix(".new")
            new.write_text(f"{seconds:+.0f}")
            new.replace(self._clock)
            self.seen.jumps += 1

    async def _fill_the_disk(self, process: asyncio.subprocess.Process, seconds: float) -> None:
        """Let no file of the process grow for a while: to it, the disk is full."""
        sizes = [path.stat().st_size for path in self.home.glob("callboard.duckdb*")]
        _, hard = resource.prlimit(process.pid, resource.RLIMIT_FSIZE)
        resource.prlimit(process.pid, resource.RLIMIT_FSIZE, (min(sizes, default=0) + 4096, hard))
        self.seen.full += 1
        await asyncio.sleep(seconds)
        if process.returncode is None:
            resource.prlimit(process.pid, resource.RLIMIT_FSIZE, (hard, hard))

    async def _let_the_store_die(self, end: End, process: asyncio.subprocess.Process) -> bool:
        """Wait until the store has died as often as it was to, or nothing goes on any more; and is back.

        When the life ends soon after the last death, that is not waited for. Returns False when it stays away.
        """
        limit = self._now() + POINT_WITHIN_S
        while (left := len(end.deaths) - len(self._store_notes.read_text().split("died ")[1:])) > 0:
            if self._now() > limit and not await self._is_busy():
                break  # too little was said
            if process.returncode is not None or self._now() > limit + STORE_BACK_WITHIN_S:
                break
            await asyncio.sleep(0.005)
        if end.wait_s and not left:
            return True
        limit = self._now() + STORE_BACK_WITHIN_S
        while process.returncode is None and self._now() < limit:
            notes = self._store_notes.read_text().splitlines()
            if not notes or (notes[-1] == "back" and await self._store_is_well(len(notes) // 2)):
                return True
            await asyncio.sleep(0.02)
        return False

    async def _come_to_rest(self, process: asyncio.subprocess.Process) -> None:
        """Wait until all is heard and answered: nothing may hang that waited for a store that died."""
        limit = self._now() + STORE_REST_WITHIN_S
        while self._now() < limit and process.returncode is None:
            busy = not self._people.silent or not self._all_heard() or await self._is_busy()
            if not busy and not self.seen.status["store"]["appends_waiting"]:
                return
            await asyncio.sleep(0.1)
        unheard = [m.id for m in self.said if m.id not in self.seen.accepted | self.seen.refused.keys()]
        running, waiting = (self.seen.status.get(name) for name in ("turns_running", "store"))
        self.seen.store_left_stuck.append(f"unheard {unheard}, {running} turns running, store {waiting}")

    async def _store_is_well(self, falls: int) -> bool:
        """Whether the process itself says that its store has fallen so often and serves."""
        await self._is_busy()
        store = self.seen.status.get("store", {})
        return bool(store) and not store["problem"] and int(store["falls"]) >= falls

    def _count_store_deaths(self, end: End) -> None:
        notes = self._store_notes.read_text().splitlines()
        died = [line.removeprefix("died ") for line in notes if line.startswith("died ")]
        back = notes.count("back")
        self.seen.store_deaths.update(died)
        self.seen.store_back += back
        if len(died) > back and end.wait_s:
            self.seen.store_killed_down += len(died) - back
        elif len(died) > back:
            self.seen.store_stayed_down.append(f"{end.deaths}: {', '.join(notes)}: {self._last_words()}")

    async def _ready(self, process: asyncio.subprocess.Process) -> bool:
        limit = self._now() + READY_WITHIN_S
        async with aiohttp.ClientSession() as http:
            while process.returncode is None and self._now() < limit:
                if await self.program.is_ready(http, process.pid):
                    return True
                await asyncio.sleep(0.01)
        return False

    async def _last_life(self) -> None:
        """A life without mischief: everything that is owed must come to rest in it. Its clock may be wrong."""
        self.program.env, self.program.script = self._time(), RUN_SYSTEM
        process = await self.program.launch()
        self._platform.send({"calm": True})
        if not await self._ready(process):
            self.seen.unexpected_ends.append(f"never ready: {self._last_words()}")
            return
        limit = self._now() + QUIET_WITHIN_S
        quiet_since = None
        while self._now() < limit and process.returncode is None:
            busy = not self._people.silent or not self._all_heard() or await self._is_busy()
            if busy:
                quiet_since = None
            elif quiet_since is None:
                quiet_since = self._now()
            elif self._now() - max(quiet_since, self._last_event) > QUIET_S:
                self.seen.became_quiet = True
                break
            await asyncio.sleep(0.1)
        self._measure(process.pid)
        code = await self.program.terminate()
        if code != 0:
            self.seen.unexpected_ends.append(f"exit {code}: {self._last_words()}")

    async def _is_busy(self) -> bool:
        try:
            async with self.program.http() as http, http.get("/api/status") as response:
                self.seen.status = await response.json()
        except (aiohttp.ClientError, OSError):
            return True
        return bool(self.seen.status["turns_running"])

    def _all_heard(self) -> bool:
        heard = self.seen.accepted | self.seen.refused.keys()
        return all(message.id in heard for message in self.said)

    def _last_words(self) -> str:
        return " | ".join(self.program.errors().splitlines()[-2:])[-300:]

    def _measure(self, pid: int) -> None:
        status = Path(f"/proc/{pid}/status").read_text()
        rss = next(line for line in status.splitlines() if line.startswith("VmRSS"))
        self.seen.rss_mb = int(rss.split()[1]) / 1024
        self.seen.fds = len(list(Path(f"/proc/{pid}/fd").iterdir()))

    # ------------------------------------------------------------------- people

    def _say(self, message: Message) -> None:
        self.said.append(message)
        if message.account == "web":
            self._people.say(message)
        else:
            self._platform.send(
                {
                    "say": {
                        "id": message.id,
                        "account": message.account,
                        "chat": message.chat,
                        "text": message.text,
                        "twice": message.twice,
                    }
                }
            )

    # -------------------------------------------------------------- what is seen

    def _model_says(self, line: str) -> None:
        if line == "asked":
            self._asked += 1
            self._last_event = self._now()

    def _platform_says(self, line: str) -> None:
        event = json.loads(line)
        self._last_event = self._now()
        match event.pop("event"):
            case "ack":
                self.seen.accepted.add(event["id"])
            case "refused":
                self.seen.refused[event["id"]] = event["why"]
            case "posted":
                self.seen.posts.append(Posted(**event))
            case _:
                pass

    def _count(self, point: str) -> int:
        match point:
            case "tool":
                return len(self._effects())
            case "posted":
                return len(self.seen.posts)
            case _:
                return self._asked

    def _effects(self) -> Sequence[str]:
        try:
            return (self.home / "workspace" / EFFECTS).read_text().split()
        except FileNotFoundError:
            return ()

    def _now(self) -> float:
        return asyncio.get_running_loop().time()
