"""The actor that keeps the search index up: it looks once a second, whatever goes wrong."""

import asyncio
from pathlib import Path

from actors.clock import WallClock
from actors.runtime import ActorSystem
from actors.search import LOOK_EVERY_S, SearchActor
from messages.search import SearchAsked
from messages.settings import StoreSettings
from store.search_keeper import HistorySearch, SearchUnavailableError
from store.store import Store
from tests.fakes.clock import ManualClock
from tests.store.talk import Talk


async def until_found(history: HistorySearch, clock: ManualClock, words: str, count: int) -> None:
    """Turn the clock until so many are found; real threads work meanwhile."""
    async with asyncio.timeout(60):
        while True:
            await clock.advance(LOOK_EVERY_S)
            try:
                if len((await history.search(SearchAsked(words=words))).hits) == count:
                    return
            except SearchUnavailableError:
                continue


async def test_what_is_said_is_found_by_itself(
    tmp_path: Path, system: ActorSystem, clock: ManualClock
) -> None:
    store = Store.open(tmp_path / "callboard.duckdb", StoreSettings(), WallClock())
    history = HistorySearch(tmp_path / "index", store, clock)
    talk = Talk(store.journal)
    actor = SearchActor.start(system, history)
    await talk.says("word one")
    await until_found(history, clock, "word", 1)
    await talk.says("word two")
    await until_found(history, clock, "word", 2)
    await actor.stop(block=False)
    await history.close()
    await store.close()


async def test_trouble_is_outlived(tmp_path: Path, system: ActorSystem, clock: ManualClock) -> None:
    store = Store.open(tmp_path / "callboard.duckdb", StoreSettings(), WallClock())
    in_the_way = tmp_path / "index"
    in_the_way.write_text("not a folder")
    history = HistorySearch(in_the_way, store, clock)
    await Talk(store.journal).says("word")
    actor = SearchActor.start(system, history)
    for _ in range(5):
        await clock.advance(LOOK_EVERY_S)
    in_the_way.unlink()
    await until_found(history, clock, "word", 1)
    await actor.stop(block=False)
    await history.close()
    await store.close()
