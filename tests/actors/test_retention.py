"""The actor that forgets: by the operator's rules, in quiet moments, and nothing without rules."""

import asyncio
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from actors.clock import WallClock
from actors.gateway.erasure import Eraser, UnknownSessionError
from actors.retention import BUSY_WAIT_S, FIRST_LOOK_S, LOOK_EVERY_S, RetentionActor, forget_results
from actors.runtime import ActorSystem
from actors.session import facts as f
from actors.session.decision import Rules
from actors.session.directory import Route
from actors.session.live import LiveHub
from actors.session.state import Session, fold
from actors.session.transition import decide
from actors.tool.results import place_of
from messages.ids import CallId, SessionKey, StreamId, Turn
from messages.session import UserSpoke
from messages.settings import RetentionSettings, StoreSettings
from store.dead_letters import open_letters
from store.store import Store
from tests.actors.session.sentences import heard
from tests.fakes.clock import START, ManualClock


class House:
    """A store, sessions that follow the real rules, and the eraser over both."""

    def __init__(self, home: Path, clock: ManualClock) -> None:
        self.clock = clock
        self.results = home / "results"
        self.results.mkdir()
        self.store = Store.open(home / "callboard.duckdb", StoreSettings(), WallClock())
        self.hub = LiveHub()
        self.eraser = Eraser(self.store, self.hub, clock, self._tell, self.results)
        self.is_busy = False
        self._tasks: set[asyncio.Task[None]] = set()

    def _tell(self, route: Route) -> None:
        task = asyncio.ensure_future(self.hears(route.key, route.message))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def hears(self, key: SessionKey, message: Any) -> None:
        """Let a session wake, hear this, and write what it decides."""
        stream = StreamId(f"session:{key}")
        recorded = await self.store.journal.read(stream)
        facts: Any = [r.fact for r in recorded]
        decided = decide(fold(Session(key=key), facts), message, Rules()).facts
        last = recorded[-1].seq if recorded else 0
        self.hub.recorded(key, await self.store.journal.append(stream, last, decided))

    async def keys(self) -> list[str]:
        found = await self.store.select("SELECT DISTINCT session_key FROM messages ORDER BY 1")
        return [str(key) for (key,) in found.rows]

    async def spoken(self, key: str, days_ago: int) -> None:
        message = heard("m1").model_copy(update={"at": START - timedelta(days=days_ago)})
        await self.hears(SessionKey(key), UserSpoke(heard=message))


@asynccontextmanager
async def house_of(
    home: Path, system: ActorSystem, clock: ManualClock, rules: RetentionSettings
) -> AsyncIterator[House]:
    house = House(home, clock)
    actor = RetentionActor.start(
        system, house.store, house.eraser, rules, house.results, busy=lambda: house.is_busy
    )
    try:
        yield house
    finally:
        await actor.stop(block=False)
        await house.store.close()


async def until_only(house: House, *keys: str) -> None:
    async with asyncio.timeout(30):
        while await house.keys() != sorted(keys):
            await house.clock.settle()


async def test_idle_conversations_are_deleted_and_others_stay(
    tmp_path: Path, system: ActorSystem, clock: ManualClock
) -> None:
    async with house_of(tmp_path, system, clock, RetentionSettings(days=30)) as house:
        await house.spoken("old", 40)
        await house.spoken("new", 20)
        await clock.advance(FIRST_LOOK_S)
        await until_only(house, "new")


async def test_it_waits_for_a_quiet_moment(tmp_path: Path, system: ActorSystem, clock: ManualClock) -> None:
    async with house_of(tmp_path, system, clock, RetentionSettings(days=30)) as house:
        await house.spoken("old", 40)
        house.is_busy = True
        for _ in range(20):
            await clock.advance(BUSY_WAIT_S)
        assert await house.keys() == ["old"]
        house.is_busy = False
        await clock.advance(BUSY_WAIT_S)
        await until_only(house)


async def test_without_rules_nothing_is_forgotten(
    tmp_path: Path, system: ActorSystem, clock: ManualClock
) -> None:
    async with house_of(tmp_path, system, clock, RetentionSettings()) as house:
        await house.spoken("old", 4000)
        for _ in range(5):
            await clock.advance(LOOK_EVERY_S)
        assert await house.keys() == ["old"]


async def test_a_session_is_erased_with_its_files(
    tmp_path: Path, system: ActorSystem, clock: ManualClock
) -> None:
    async with house_of(tmp_path, system, clock, RetentionSettings()) as house:
        key = SessionKey("one")
        await house.spoken(key, 1)
        kept = place_of(house.results, key, Turn(1), CallId("c"), "read_file")
        kept.parent.mkdir()
        kept.write_text("long")
        erased = await house.eraser.erase(key)
        assert (erased.facts, erased.files, erased.unanswered) == (3, 1, 1)
        assert not kept.parent.exists()
        with pytest.raises(UnknownSessionError):
            await house.eraser.erase(SessionKey("nobody"))
        assert await house.eraser.finish() == 0


async def test_open_dead_letters_that_go_with_a_session_are_told(
    tmp_path: Path, system: ActorSystem, clock: ManualClock
) -> None:
    async with house_of(tmp_path, system, clock, RetentionSettings()) as house:
        key, told = SessionKey("one"), list[int]()
        await house.spoken(key, 1)
        stream = StreamId(f"session:{key}")
        seq = len(await house.store.journal.read(stream))
        given_up = f.MessageGivenUp(message_id=None, error="twice", letter="", at=START)
        closed = f.DeadLetterClosed(letter=seq + 1, how="dropped", by="ops", at=START)
        await house.store.journal.append(stream, seq, [given_up, given_up, given_up, closed])
        eraser = Eraser(house.store, house.hub, clock, house._tell, house.results, told.append)
        await eraser.erase(key)
        assert told == [2]
        assert await open_letters(house.store.select) == 0


def test_old_results_go_and_links_are_not_followed(tmp_path: Path) -> None:
    results, outside = tmp_path / "results", tmp_path / "outside"
    for folder in (results / "a", results / "b", outside):
        folder.mkdir(parents=True)
    for path in (
        results / "a" / "old.txt",
        results / "b" / "old.txt",
        results / "b" / "new.txt",
        outside / "old.txt",
    ):
        path.write_text("x")
        age = START if path.name == "old.txt" else START + timedelta(days=10)
        os.utime(path, (age.timestamp(), age.timestamp()))
    (results / "link").symlink_to(outside)
    assert forget_results(results, START + timedelta(days=5)) == 2
    assert not (results / "a").exists()
    assert [path.name for path in (results / "b").iterdir()] == ["new.txt"]
    assert (outside / "old.txt").exists()


def test_what_a_connection_keeps_for_itself_is_never_old(tmp_path: Path) -> None:
    for folder in (".matrix-main", "discord-main"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "file").write_text("kept")
        os.utime(tmp_path / folder / "file", (0, 0))
    assert forget_results(tmp_path, START) == 1
    assert (tmp_path / ".matrix-main" / "file").exists()
