"""The search over a real database and a real index: what is found, by whom, and after what accidents."""

# ruff: noqa: RUF001, ASYNC240 texts of all scripts; a test may look at files at once

import shutil
from collections.abc import AsyncIterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import duckdb
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from actors.clock import WallClock
from actors.gateway.erasure import erase_asleep
from actors.gateway.session_key import key_of
from messages.gateway import ChatType, Origin
from messages.search import SearchAsked, SearchFound
from messages.settings import StoreSettings
from store.search import SearchIndex
from store.search_audience import seen_by
from store.search_entry import Entry, SearchIndexDamagedError, note_of, path_of
from store.search_keeper import CHECK_EVERY_S, REST_AFTER_S, HistorySearch, SearchUnavailableError
from store.search_text import SearchWordsError, fold, places, understand, units_of
from store.store import Store
from tests.fakes.clock import ManualClock
from tests.store.talk import ANN, BEN, Talk

pytestmark = pytest.mark.slow

GROUP = Origin(platform="slack", chat_type=ChatType.GROUP, chat="g1", user="ann")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "index"


@pytest.fixture
async def history(store: Store, folder: Path, clock: ManualClock) -> AsyncIterator[HistorySearch]:
    history = HistorySearch(folder, store, clock)
    yield history
    await history.close()


@pytest.fixture
def talk(store: Store) -> Talk:
    return Talk(store.journal)


async def found(history: HistorySearch, words: str, **filters: Any) -> list[str]:
    return texts(await history.search(SearchAsked(words=words, **filters)))


def texts(answer: SearchFound) -> list[str]:
    return [hit.snippet for hit in answer.hits]


# ------------------------------------------------------------------ what is found


async def test_what_was_said_is_found_with_where_and_who(history: HistorySearch, talk: Talk) -> None:
    key = await talk.says("The deployment failed again", ANN, "Ann")
    await talk.answers("Which one?")
    assert await history.catch_up()
    assert not await history.catch_up()
    answer = await history.search(SearchAsked(words="DEPLOYMENT"))
    (hit,) = answer.hits
    assert (hit.session_key, hit.role, hit.author_id, hit.author_name) == (key, "user", "ann", "Ann")
    assert (hit.platform, hit.chat) == ("discord", "c-ann")
    assert [hit.snippet[m.start : m.end] for m in hit.marks] == ["deployment"]
    assert (answer.total, answer.any_word, answer.not_indexed) == (1, False, 0)


SAID = [
    "昨天的部署失败了，再试一次",
    "部署完成，但是测试失败",
    "东京都的天气很好",
    "京都は東京より静かです",
    "한국어 학교에서 공부해요",
    "deploy v2部署 to ＰＲＯＤ",
    "猫がいる",
]


@pytest.mark.parametrize(
    ("words", "which"),
    [
        ("部署", [0, 1, 5]),
        ("部署失败", [0]),
        ("东京", [2]),
        ("東京", [3]),
        ("京都", [2, 3]),
        ("학교", [4]),
        ("猫", [6]),
        ("いる", [6]),
        ("prod 部署", [5]),
        ('"v2 部署"', [5]),
        ('"部署 v2"', []),
        ('"v2 部"', [5]),
        ('"部署 to prod"', [5]),
        ('"署 to"', [5]),
        ('"部 to"', []),
        ('"deploy v2 部署"', [5]),
        ('"京都 東京"', []),
        ('"学校 天气"', []),
        ('"东京 都的"', [2]),
        ('"to pro*"', [5]),
        ("部署 -测试", [0, 5]),
        ("深圳", []),
    ],
)
async def test_chinese_japanese_and_korean_are_found_exactly(
    history: HistorySearch, talk: Talk, words: str, which: list[int]
) -> None:
    for text in SAID:
        await talk.says(text)
    await history.catch_up()
    assert sorted(await found(history, words)) == sorted(SAID[number] for number in which)


async def test_all_the_words_first_and_some_of_them_only_when_none_has_all(
    history: HistorySearch, talk: Talk
) -> None:
    await talk.says("red apple")
    await talk.says("green apple")
    await history.catch_up()
    assert await found(history, "red apple") == ["red apple"]
    some = await history.search(SearchAsked(words="blue apple"))
    assert some.any_word
    assert len(some.hits) == 2
    assert await found(history, 'apple "dark blue"') == []
    assert await found(history, 'sour "green apple"') == ["green apple"]


async def test_a_question_in_one_run_finds_what_has_parts_of_it(history: HistorySearch, talk: Talk) -> None:
    await talk.says("部署失败的原因是端口错误")
    await talk.says("今天吃什么")
    await history.catch_up()
    answer = await history.search(SearchAsked(words="昨天部署没有成功"))
    assert answer.any_word
    assert texts(answer)[0].startswith("部署")


async def test_beginnings_and_better_matches_first(history: HistorySearch, talk: Talk) -> None:
    await talk.says("a long talk about many things, and one deploy among them, and much more besides")
    await talk.says("deploy deploy")
    await talk.says("deployments")
    await history.catch_up()
    assert (await found(history, "deploy"))[0] == "deploy deploy"
    assert len(await found(history, "deploy*")) == 3
    assert await found(history, "deploy*", newest_first=True, limit=1) == ["deployments"]


async def test_filters_narrow(history: HistorySearch, talk: Talk) -> None:
    await talk.says("word one", ANN, "Ann Ångström")
    early = talk.now
    await talk.answers("word two", ANN)
    await talk.says("word three", BEN)
    await talk.says("word four", GROUP)
    await talk.commands("note", "word five", ANN)
    await history.catch_up()

    async def numbers(**filters: Any) -> set[str]:
        return {text.split()[-1] for text in await found(history, "word", **filters)}

    assert await numbers() == {"one", "two", "three", "four"}
    assert await numbers(platform="slack") == {"four"}
    assert await numbers(chat="c-ben") == {"three"}
    assert await numbers(user="ann") == {"one", "four"}
    assert await numbers(user="ann angstrom") == {"one"}
    assert await numbers(session_key=key_of(ANN)) == {"one", "two"}
    assert await numbers(roles=("assistant",)) == {"two"}
    assert await numbers(roles=("command",)) == {"five"}
    assert await numbers(since=early + timedelta(seconds=1)) == {"two", "three", "four"}
    assert await numbers(since=early) == {"one", "two", "three", "four"}
    assert await numbers(until=early) == set()
    assert await numbers(until=early + timedelta(microseconds=1)) == {"one"}
    assert await numbers(platform="discord", user="ben", roles=("user",)) == {"three"}
    assert await numbers(platform="telegram") == set()


async def test_more_than_the_limit_is_counted(history: HistorySearch, talk: Talk) -> None:
    for number in range(12):
        await talk.says(f"word {number}")
    await history.catch_up()
    answer = await history.search(SearchAsked(words="word", limit=5))
    assert (len(answer.hits), answer.total) == (5, 12)


@pytest.mark.parametrize("words", ["", "-x", "…"])
async def test_a_question_without_words_is_refused(history: HistorySearch, words: str) -> None:
    with pytest.raises(SearchWordsError):
        await history.search(SearchAsked(words=words))


async def test_odd_text_is_kept_and_found(history: HistorySearch, talk: Talk) -> None:
    await talk.says("nul\x00inside and \ud83d half a pair")
    await talk.says("")
    await talk.says("x" * 300_000 + " tail")
    await history.catch_up()
    assert len(await found(history, "inside")) == 1
    assert len(await found(history, "tail")) == 1


# ------------------------------------------------------------------ who finds it


async def test_nobody_finds_what_was_not_said_to_them(history: HistorySearch, talk: Talk) -> None:
    again = Origin(platform="discord", chat_type=ChatType.DM, chat="c-ann-2", user="ann")
    await talk.says("secret of ann", ANN)
    await talk.answers("secret for ann", ANN)
    await talk.says("secret of ann elsewhere", again)
    await talk.says("secret of ben", BEN)
    await talk.says("secret of the group", GROUP)
    await history.catch_up()

    async def seen(origin: Origin) -> set[str]:
        audiences = seen_by(key_of(origin), origin)
        return set(texts(await history.search(SearchAsked(words="secret"), audiences)))

    assert await seen(ANN) == {"secret of ann", "secret for ann", "secret of ann elsewhere"}
    assert await seen(BEN) == {"secret of ben"}
    assert await seen(GROUP.model_copy(update={"user": "ben"})) == {"secret of the group"}
    assert texts(await history.search(SearchAsked(words="secret"), ())) == []


# ------------------------------------------------------------------ accidents


async def reopened(store: Store, folder: Path, clock: ManualClock, history: HistorySearch) -> HistorySearch:
    await history.close()
    return HistorySearch(folder, store, clock)


async def test_a_restart_reads_only_what_is_new_and_nothing_twice(
    store: Store, folder: Path, clock: ManualClock, talk: Talk
) -> None:
    history = HistorySearch(folder, store, clock)
    await talk.says("word one")
    await history.catch_up()
    history = await reopened(store, folder, clock, history)
    await talk.says("word two")
    await history.catch_up()
    await history.catch_up()
    assert len(await found(history, "word")) == 2
    await history.close()


async def test_a_whole_index_is_not_opened_at_the_start(
    store: Store, folder: Path, clock: ManualClock, talk: Talk
) -> None:
    history = HistorySearch(folder, store, clock)
    assert not await history.catch_up()
    assert not folder.exists()
    await talk.says("word")
    await history.catch_up()
    history = await reopened(store, folder, clock, history)
    assert not await history.catch_up()
    assert history.figures() == {"search_open": 0}
    assert await found(history, "word") == ["word"]
    await history.close()


async def test_a_crash_between_the_journal_and_the_index_loses_and_doubles_nothing(
    store: Store, folder: Path, clock: ManualClock, talk: Talk
) -> None:
    history = HistorySearch(folder, store, clock)
    await talk.says("word one")
    await history.catch_up()
    await history.close()
    await talk.says("word two")
    # The index took the message in and was cut off before its commit.
    crashed = SearchIndex.open(folder)
    facts = int(store.stats()["facts"])
    entry = Entry(
        facts, str(key_of(ANN)), None, None, "user", "ann", "", "word two", "discord", "c-ann", 0, ()
    )
    crashed.add([entry], facts)
    crashed.let_go()
    history = HistorySearch(folder, store, clock)
    await history.catch_up()
    assert sorted(await found(history, "word")) == ["word one", "word two"]
    await history.close()


@pytest.mark.parametrize("damage", ["cut", "meta", "gone", "garbage"])
async def test_a_damaged_index_is_made_anew_by_itself(
    store: Store, folder: Path, clock: ManualClock, talk: Talk, damage: str
) -> None:
    history = HistorySearch(folder, store, clock)
    await talk.says("word one")
    await history.catch_up()
    await history.close()
    note_of(folder).unlink()
    place = path_of(folder)
    match damage:
        case "cut":
            for file in place.glob("*.term"):
                file.write_bytes(file.read_bytes()[:7])
        case "meta":
            (place / "meta.json").write_text("{")
        case "gone":
            next(place.glob("*.idx")).unlink()
        case _:
            for file in place.iterdir():
                file.write_bytes(b"garbage")
    history = HistorySearch(folder, store, clock)
    while await history.catch_up():
        pass
    assert await found(history, "word") == ["word one"]
    await history.close()


async def test_an_index_that_is_damaged_while_it_is_open_is_made_anew(
    history: HistorySearch, folder: Path, talk: Talk, clock: ManualClock
) -> None:
    await talk.says("word one")
    await history.catch_up()
    shutil.rmtree(path_of(folder))
    await talk.says("word two")
    for _ in range(3):
        try:
            await history.catch_up()
        except SearchUnavailableError:
            continue
    assert sorted(await found(history, "word")) == ["word one", "word two"]


async def test_an_index_of_another_version_is_removed_and_made_anew(
    history: HistorySearch, folder: Path, talk: Talk
) -> None:
    old = folder / "messages-0"
    old.mkdir(parents=True)
    (old / "meta.json").write_text("old")
    await talk.says("word")
    await history.catch_up()
    assert await found(history, "word") == ["word"]
    assert not old.exists()


async def test_an_index_ahead_of_a_database_that_was_put_back_is_made_anew(
    tmp_path: Path, folder: Path, clock: ManualClock
) -> None:
    for name, lines in (("new", 6), ("put-back", 2)):
        store = Store.open(tmp_path / name / "callboard.duckdb", StoreSettings(), WallClock())
        talk = Talk(store.journal)
        for number in range(lines):
            await talk.says(f"word {name} {number}")
        history = HistorySearch(folder, store, clock)
        while await history.catch_up():
            pass
        assert len(await found(history, "word")) == lines
        assert len(await found(history, f'"{name}"')) == lines
        await history.close()
        await store.close()


async def test_a_forgotten_session_is_found_no_more(history: HistorySearch, talk: Talk) -> None:
    await talk.says("word of ann", ANN)
    await talk.says("word of ben", BEN)
    await history.catch_up()
    await history.forget(key_of(ANN))
    assert await found(history, "word") == ["word of ben"]


async def test_what_is_deleted_in_the_database_is_taken_out(
    tmp_path: Path, folder: Path, clock: ManualClock
) -> None:
    """Of a whole session, and of a part of one; while nobody looked."""
    path = tmp_path / "callboard.duckdb"
    store = Store.open(path, StoreSettings(), WallClock())
    talk = Talk(store.journal)
    for text in ("word 1", "word 2"):
        await talk.says(text, ANN)
    await talk.says("word 3", BEN)
    history = HistorySearch(folder, store, clock)
    await history.catch_up()
    await history.close()
    await store.close()
    with duckdb.connect(path) as connection:
        connection.execute("DELETE FROM messages WHERE author_id = 'ben' OR text = 'word 1'")
    store = Store.open(path, StoreSettings(), WallClock())
    history = HistorySearch(folder, store, clock)
    await history.catch_up()
    assert await found(history, "word") == ["word 2"]
    await history.close()
    await store.close()


async def test_what_differs_is_noticed_while_it_is_open(
    history: HistorySearch, talk: Talk, clock: ManualClock
) -> None:
    await talk.says("word 1", ANN)
    await talk.says("word 2", BEN)
    await history.catch_up()
    await history.forget(key_of(ANN))  # it is still in the database
    await clock.advance(CHECK_EVERY_S)
    await history.catch_up()
    assert sorted(await found(history, "word")) == ["word 1", "word 2"]


async def test_a_session_that_is_erased_is_found_no_more(
    store: Store, history: HistorySearch, talk: Talk, clock: ManualClock, tmp_path: Path
) -> None:
    await talk.says("word of ann", ANN)
    await talk.says("word of ben", BEN)
    await history.catch_up()
    await erase_asleep(store, key_of(ANN), clock, tmp_path / "results")
    while await history.catch_up():
        pass
    assert await found(history, "word") == ["word of ben"]


async def test_a_session_that_is_erased_while_the_index_is_closed_is_found_no_more(
    store: Store, history: HistorySearch, talk: Talk, clock: ManualClock, tmp_path: Path, folder: Path
) -> None:
    await talk.says("word of ann", ANN)
    await talk.says("word of ben", BEN)
    await history.catch_up()
    await clock.advance(REST_AFTER_S)
    await history.catch_up()
    assert history.figures() == {"search_open": 0}
    await erase_asleep(store, key_of(ANN), clock, tmp_path / "results")
    await history.catch_up()
    await clock.advance(REST_AFTER_S)
    await history.catch_up()
    assert note_of(folder).read_text().endswith(" 1")
    assert await found(history, "word") == ["word of ben"]


async def test_in_quiet_times_it_is_closed_and_goes_on_after(
    history: HistorySearch, talk: Talk, clock: ManualClock, folder: Path
) -> None:
    await talk.says("word 1")
    await history.catch_up()
    assert not note_of(folder).exists()
    await clock.advance(REST_AFTER_S)
    await history.catch_up()
    assert note_of(folder).exists()
    assert history.figures() == {"search_open": 0}
    await talk.says("word 2")
    await history.catch_up()
    assert len(await found(history, "word")) == 2


async def test_many_messages_are_read_in_pieces_with_progress(history: HistorySearch, talk: Talk) -> None:
    for number in range(30):
        await talk.says(f"word {number}")
    seen: list[tuple[int, int]] = []
    await history.catch_up(lambda done, of: seen.append((done, of)))
    assert seen[-1][0] == seen[-1][1]
    assert history.figures()["search_messages"] == 30


async def test_a_closed_or_switched_off_search_says_so(
    store: Store, folder: Path, clock: ManualClock
) -> None:
    history = HistorySearch(folder, store, clock, enabled=False)
    with pytest.raises(SearchUnavailableError, match="switched off"):
        await history.search(SearchAsked(words="x"))
    await history.close()
    history = HistorySearch(folder, store, clock)
    await history.close()
    with pytest.raises(SearchUnavailableError, match="closed"):
        await history.search(SearchAsked(words="x"))


async def test_a_folder_that_cannot_be_written_is_said_and_tried_again(
    history: HistorySearch, talk: Talk, folder: Path
) -> None:
    await talk.says("word")
    folder.write_text("in the way")
    with pytest.raises(SearchUnavailableError, match="cannot be"):
        await history.catch_up()
    folder.unlink()
    await history.catch_up()
    assert await found(history, "word") == ["word"]


# ------------------------------------------------------------------ against plain reading

PIECES = st.sampled_from(
    ["部署", "失败", "test", "Test", "v2", "。", " ", "東京", "都", "é", "e", "한국", "어", "猫", "-"]
)
LINES = st.lists(PIECES, min_size=1, max_size=8).map("".join)


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(lines=st.lists(LINES, min_size=1, max_size=8), asked=LINES)
def test_the_index_finds_what_plain_reading_finds(
    tmp_path_factory: pytest.TempPathFactory, lines: list[str], asked: str
) -> None:
    try:
        words = understand(asked)
    except SearchWordsError:
        return
    index = SearchIndex.open(tmp_path_factory.mktemp("index"))
    index.add(
        (
            Entry(n, "k", None, None, "user", None, None, line, None, None, n, ())
            for n, line in enumerate(lines, 1)
        ),
        len(lines),
    )
    index.commit()
    answer = index.search(SearchAsked(words=asked, limit=200))
    index.let_go()
    by_index = set() if answer.any_word else {hit.id for hit in answer.hits}
    by_reading = {n for n, line in enumerate(lines, 1) if _holds(line, words)}
    assert by_index <= by_reading  # nothing is found that is not there
    whole = {n for n in by_reading if not _only_across_punctuation(lines[n - 1], words)}
    assert whole <= by_index


def _holds(line: str, words: Any) -> bool:
    there = {place.part for place in places(units_of(line), words.wanted)}
    return len(there) == len(words.wanted) and not (words.unwanted and places(units_of(line), words.unwanted))


def _only_across_punctuation(line: str, words: Any) -> bool:
    """A run that stands in the text only with a stop or a space in it: the index takes it for two."""
    return any("".join(part.tokens) not in fold(line) for part in words.wanted if len(part.tokens) == 1)


def test_damage_is_told_from_trouble(tmp_path: Path) -> None:
    index = SearchIndex.open(tmp_path)
    index.add([Entry(1, "k", None, None, "user", None, None, "word", None, None, 1, ())], 1)
    index.commit()
    index.let_go()
    next(path_of(tmp_path).glob("*.idx")).write_bytes(b"")
    with pytest.raises(SearchIndexDamagedError):
        SearchIndex(path_of(tmp_path))
