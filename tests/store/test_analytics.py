"""The analyst's views and the price table."""

import asyncio
import json
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, get_args

import duckdb
import pytest

from actors.clock import WallClock
from actors.session.facts import ModelCallAnswered
from messages.blocks import TextBlock
from messages.ids import StreamId, Turn
from messages.model import ModelRef, StopReason, Usage
from messages.settings import PriceSettings, StoreSettings
from messages.system import IncidentKind
from store import analytics
from store.store import Store

AT = datetime(2026, 1, 1, 12, tzinfo=UTC)
KEY = "agent:main:web:main:dm:ann"
FRAGMENTS = ("platform", "model", "session", "tool", "user")


@asynccontextmanager
async def opened(path: Path, prices: dict[str, PriceSettings] | None = None) -> AsyncIterator[Store]:
    store = Store.open(path, StoreSettings(), WallClock(), prices)
    try:
        yield store
    finally:
        await store.close()


async def ask(store: Store, sql: str, params: Any = ()) -> list[Any]:
    rows: list[Any] = json.loads((await store.query(sql, params)).json)["rows"]
    return rows


def answered(provider: str, model: str, usage: Usage, at: datetime = AT) -> ModelCallAnswered:
    return ModelCallAnswered(
        turn=Turn(1),
        call=1,
        model=ModelRef(provider=provider, name=model),
        blocks=(TextBlock(text="hi"),),
        stop=StopReason.END,
        raw_stop="end",
        usage=usage,
        began_at=at - timedelta(seconds=2),
        first_token_ms=300.0,
        at=at,
    )


async def test_what_an_incident_may_be_is_written_at_its_column_also_of_an_old_database(path: Path) -> None:
    sql = "SELECT comment FROM duckdb_columns() WHERE table_name = 'incidents' AND column_name = 'what'"

    def written(store: Store) -> Any:
        return asyncio.wrap_future(store._between(lambda c: c.execute(sql).fetchone()))

    def make_old(connection: duckdb.DuckDBPyConnection) -> None:
        connection.execute("COMMENT ON COLUMN incidents.what IS '`crashed`.'")
        connection.execute("UPDATE meta SET value = 'of before' WHERE name = 'views_digest'")

    async with opened(path) as store:
        (fresh,) = await written(store)
        await asyncio.wrap_future(store._between(make_old))
    assert set(get_args(IncidentKind)) == set(re.findall(r"`(\w+)`", fresh))
    async with opened(path) as store:
        assert await written(store) == (fresh,)


async def cost_of(store: Store, *calls: ModelCallAnswered) -> list[float | None]:
    await store.journal.append(StreamId(f"session:{KEY}"), 0, calls)
    return [row[0] for row in await ask(store, "SELECT cost_usd FROM costs ORDER BY id")]


MILLION = Usage(input_tokens=1_000_000, output_tokens=1_000_000)


async def test_every_table_view_and_column_says_what_it_is(store: Store) -> None:
    sql = """
    SELECT table_name, column_name FROM duckdb_columns() WHERE NOT internal AND coalesce(comment, '') = ''
    UNION ALL SELECT view_name, '' FROM duckdb_views() WHERE NOT internal AND coalesce(comment, '') = ''
    UNION ALL SELECT table_name, '' FROM duckdb_tables() WHERE NOT internal AND coalesce(comment, '') = ''
    """
    assert await ask(store, sql) == []


async def test_all_that_analysts_are_promised_is_there(store: Store) -> None:
    for name in (
        *("messages", "turns", "model_calls", "tool_calls", "deliveries", "incidents", "sessions"),
        *("participants", "usage_daily", "latency", "costs", "prices", "lives", "facts"),
    ):
        assert await ask(store, f"SELECT count(*) >= 0 FROM {name}") == [[True]]


async def test_a_known_model_has_a_cost_and_an_unknown_one_has_none(store: Store) -> None:
    costs = await cost_of(
        store,
        answered("openai", "gpt-4.1-mini", MILLION),
        answered("anthropic", "claude-sonnet-4-5-20250929", MILLION),
        answered("lab", "prototype", MILLION),
        answered("openai", "gpt-4.1-mini", Usage()),
        answered("local", "anything", MILLION),
    )
    assert costs == [2.0, 18.0, None, None, 0.0]
    assert await ask(store, "SELECT sum(unpriced_calls), sum(answered_calls) FROM usage_daily") == [[2, 5]]


async def test_cached_tokens_are_paid_once_however_the_provider_counts(store: Store) -> None:
    # One counts cached tokens among those it read, the other beside them: the same call, the same sum of tokens.
    among = Usage(input_tokens=1_000_000, output_tokens=0, cache_read_tokens=600_000)
    beside = Usage(
        input_tokens=400_000, output_tokens=0, cache_read_tokens=600_000, cache_write_tokens=100_000
    )
    costs = await cost_of(
        store, answered("openai", "gpt-4o", among), answered("anthropic", "claude-sonnet-4-5", beside)
    )
    assert costs == [pytest.approx(0.4 * 2.5 + 0.6 * 1.25), pytest.approx(0.4 * 3 + 0.6 * 0.3 + 0.1 * 3.75)]


async def test_an_operators_price_comes_first_and_the_closest_one_of_several(path: Path) -> None:
    prices = {
        "lab/*": PriceSettings(input_usd=1, output_usd=1),
        "lab/big-*": PriceSettings(input_usd=2, output_usd=2),
        "gpt-4o": PriceSettings(input_usd=7, output_usd=7),
    }
    async with opened(path, prices) as store:
        costs = await cost_of(
            store,
            answered("lab", "small", MILLION),
            answered("lab", "big-1", MILLION),
            answered("other", "big-1", MILLION),
            answered("openai", "gpt-4o", MILLION),
        )
        assert costs == [2.0, 4.0, None, 14.0]
        assert await ask(store, "SELECT DISTINCT priced_as FROM costs WHERE priced_as LIKE 'big%'") == [
            ["big-*"]
        ]


async def test_a_changed_price_holds_from_the_next_start_and_also_for_what_was(path: Path) -> None:
    async with opened(path) as store:
        assert await cost_of(store, answered("lab", "x", MILLION)) == [None]
    async with opened(path, {"lab/x": PriceSettings(input_usd=1, output_usd=2)}) as store:
        assert await ask(store, "SELECT cost_usd FROM costs") == [[3.0]]
    async with opened(path) as store:  # a tool that knows no settings leaves them alone
        assert await ask(store, "SELECT cost_usd FROM costs") == [[3.0]]
    async with opened(path, {}) as store:
        assert await ask(store, "SELECT cost_usd FROM costs") == [[None]]


async def test_a_name_with_quotes_is_a_name(path: Path) -> None:
    price = PriceSettings(input_usd=1, output_usd=2)
    async with opened(path, {'it\'s/a "model"; DROP TABLE facts': price}) as store:
        assert await ask(store, "SELECT provider FROM prices WHERE source <> 'built-in'") == [["it's"]]


@pytest.mark.parametrize("by", FRAGMENTS)
async def test_insights_of_an_empty_history_are_empty_and_not_wrong(store: Store, by: analytics.By) -> None:
    since = AT.isoformat()
    assert await ask(store, *analytics.grouped(by, since)) == []
    assert await ask(store, *analytics.per_day(since)) == []
    (totals,) = await ask(store, *analytics.totals(since))
    assert totals[0] == 0


async def test_insights_count_from_their_first_moment_on(store: Store) -> None:
    await cost_of(
        store,
        answered("openai", "gpt-4o", MILLION, AT - timedelta(seconds=1)),
        answered("openai", "gpt-4o", MILLION, AT),
    )
    (row,) = await ask(store, *analytics.grouped("model", AT.isoformat()))
    assert row[:2] == ["openai/gpt-4o", 1]
    (row,) = await ask(store, *analytics.grouped("model", (AT - timedelta(days=1)).isoformat()))
    assert row[:2] == ["openai/gpt-4o", 2]


def test_the_built_in_prices_are_sane() -> None:
    for price in analytics.price_table({}):
        assert price.output_usd >= price.input_usd >= price.cache_read_usd >= 0
        assert price.as_of == analytics.AS_OF
