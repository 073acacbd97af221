"""What analysts find beside the tables: views, prices, and the figures of `callboard insights`.

The views' text is `views.sql`. It is carried out at a start when it, or a price,
has changed since the last one; so views need no migrations, and an ordinary start
costs one look into `meta`.
"""

import hashlib
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final, Literal, NamedTuple

import duckdb

from messages.settings import PriceSettings

_VIEWS = Path(__file__).with_name("views.sql")
_DIGEST: Final = "views_digest"

AS_OF: Final = "2025-12-01"
"""As of when the built-in prices were noted. They are a help, not a bill: correct them in the settings."""

_PER_MILLION: Final[tuple[tuple[str, float, float, float, float, bool], ...]] = (
    # model, input, output, cache read, cache write (US dollars), whether input counts the cached
    ("gpt-4o", 2.50, 10.00, 1.25, 2.50, True),
    ("gpt-4o-20*", 2.50, 10.00, 1.25, 2.50, True),
    ("gpt-4o-mini*", 0.15, 0.60, 0.075, 0.15, True),
    ("gpt-4.1", 2.00, 8.00, 0.50, 2.00, True),
    ("gpt-4.1-20*", 2.00, 8.00, 0.50, 2.00, True),
    ("gpt-4.1-mini*", 0.40, 1.60, 0.10, 0.40, True),
    ("gpt-4.1-nano*", 0.10, 0.40, 0.025, 0.10, True),
    ("gpt-5", 1.25, 10.00, 0.125, 1.25, True),
    ("gpt-5-20*", 1.25, 10.00, 0.125, 1.25, True),
    ("gpt-5-mini*", 0.25, 2.00, 0.025, 0.25, True),
    ("gpt-5-nano*", 0.05, 0.40, 0.005, 0.05, True),
    ("o3", 2.00, 8.00, 0.50, 2.00, True),
    ("o3-20*", 2.00, 8.00, 0.50, 2.00, True),
    ("o4-mini*", 1.10, 4.40, 0.275, 1.10, True),
    ("claude-opus-4-5*", 5.00, 25.00, 0.50, 6.25, False),
    ("claude-opus-4-1*", 15.00, 75.00, 1.50, 18.75, False),
    ("claude-opus-4-20*", 15.00, 75.00, 1.50, 18.75, False),
    ("claude-sonnet-4-5*", 3.00, 15.00, 0.30, 3.75, False),
    ("claude-sonnet-4-20*", 3.00, 15.00, 0.30, 3.75, False),
    ("claude-3-7-sonnet*", 3.00, 15.00, 0.30, 3.75, False),
    ("claude-haiku-4-5*", 1.00, 5.00, 0.10, 1.25, False),
    ("claude-3-5-haiku*", 0.80, 4.00, 0.08, 1.00, False),
)

LOCAL: Final = "local"
"""The provider that is this machine: what it answers costs nothing, and that is known."""


class Price(NamedTuple):
    """A line of the table `prices`."""

    provider: str
    model: str
    input_usd: float
    output_usd: float
    cache_read_usd: float
    cache_write_usd: float
    input_has_cache: bool
    source: str
    as_of: str | None


def price_table(prices: Mapping[str, PriceSettings]) -> tuple[Price, ...]:
    """Return the built-in prices and an operator's, by `provider/model` or `model`."""
    built_in = [Price("*", *line, "built-in", AS_OF) for line in _PER_MILLION]
    free = Price(LOCAL, "*", 0.0, 0.0, 0.0, 0.0, True, "built-in", AS_OF)
    return (free, *built_in, *(_of_settings(name, price) for name, price in prices.items()))


def _of_settings(name: str, price: PriceSettings) -> Price:
    provider, slash, model = name.partition("/")
    if not slash:
        provider, model = "*", name
    has_cache = price.input_has_cache
    return Price(
        provider,
        model,
        price.input_usd,
        price.output_usd,
        price.input_usd if price.cache_read_usd is None else price.cache_read_usd,
        price.input_usd if price.cache_write_usd is None else price.cache_write_usd,
        "claude" not in model if has_cache is None else has_cache,
        "callboard.yaml",
        None,
    )


def furnish(connection: duckdb.DuckDBPyConnection, prices: Mapping[str, PriceSettings] | None) -> bool:
    """Make the views and the price table, if they are not as they should be. On the writer's connection.

    Without `prices` those that are there stay, unless the views are made anew.
    Returns whether anything was done. Raises duckdb.Error.
    """
    lines = price_table(prices or {})
    sql = _VIEWS.read_text(encoding="utf-8")
    digest = f"{_of_views(sql)} {hashlib.sha256(json.dumps(lines).encode()).hexdigest()[:16]}"
    found = connection.execute("SELECT value FROM meta WHERE name = ?", [_DIGEST]).fetchone()
    if found == (digest,) or (prices is None and found and found[0].startswith(_of_views(sql))):
        return False
    connection.begin()
    connection.execute(sql)
    columns = list(zip(*lines, strict=True))
    unnested = ", ".join(f"unnest(${n + 1})" for n in range(len(columns)))
    connection.execute(f"INSERT INTO prices SELECT {unnested}", [list(column) for column in columns])
    connection.execute("DELETE FROM meta WHERE name = ?", [_DIGEST])
    connection.execute("INSERT INTO meta VALUES (?, ?)", [_DIGEST, digest])
    connection.commit()
    return True


def _of_views(sql: str) -> str:
    return hashlib.sha256(sql.encode()).hexdigest()[:16]


# ------------------------------------------------------------------ insights

By = Literal["platform", "model", "session", "tool", "user"]


class Question(NamedTuple):
    """A query and its parameters."""

    sql: str
    params: Sequence[object]


_PLATFORM = "split_part(session_key, ':', 3)"

_SINCE = "epoch_us({time}) >= epoch_us($1::TIMESTAMPTZ)"


def totals(since: str) -> Question:
    """All figures in one row, from a time (ISO text with its zone) on."""
    return Question(
        f"""
        SELECT
            (SELECT count(*) FROM messages WHERE role = 'user' AND {_since("said_at")}) AS messages,
            (SELECT count(*) FROM messages WHERE role = 'assistant' AND {_since("said_at")}) AS answers,
            (SELECT count(DISTINCT session_key) FROM messages WHERE {_since("said_at")}) AS sessions,
            (SELECT count(DISTINCT (platform, author_id)) FROM messages
                WHERE role = 'user' AND {_since("said_at")}) AS users,
            (SELECT count(*) FROM turns WHERE {_since("ended_at")}) AS turns,
            (SELECT count(*) FROM turns WHERE reason <> 'answered' AND {_since("ended_at")}) AS turns_not_answered,
            (SELECT count(*) FROM tool_calls WHERE {_since("ended_at")}) AS tool_calls,
            (SELECT count(*) FROM incidents WHERE {_since("happened_at")}) AS incidents,
            (SELECT sum(input_tokens)::BIGINT FROM model_calls WHERE {_since("ended_at")}) AS input_tokens,
            (SELECT sum(output_tokens)::BIGINT FROM model_calls WHERE {_since("ended_at")}) AS output_tokens,
            (SELECT sum(cost_usd) FROM costs WHERE {_since("ended_at")}) AS cost_usd,
            (SELECT count(*) FROM costs WHERE cost_usd IS NULL AND {_since("ended_at")}) AS unpriced_calls,
            (SELECT quantile_cont(duration_ms, 0.5) FROM turns WHERE {_since("ended_at")}) AS turn_p50_ms,
            (SELECT quantile_cont(duration_ms, 0.95) FROM turns WHERE {_since("ended_at")}) AS turn_p95_ms
        """,  # noqa: S608 no text from outside
        [since],
    )


def per_day(since: str) -> Question:
    """Messages, answers and turns that failed for each day (UTC) on which anything was said."""
    return Question(
        f"""
        SELECT make_timestamp(epoch_us(said_at))::DATE AS day,
            count(*) FILTER (role = 'user') AS messages,
            count(*) FILTER (role = 'assistant') AS answers
        FROM messages WHERE {_since("said_at")} GROUP BY day ORDER BY day
        """,  # noqa: S608 no text from outside
        [since],
    )


def grouped(by: By, since: str) -> Question:
    """The figures for each platform, model, session, tool or user; the first column is the name."""
    return Question(_GROUPED[by], [since])


def _since(time: str) -> str:
    return _SINCE.format(time=time)


_GROUPED: Final[Mapping[By, str]] = {
    "platform": f"""
        SELECT platform, sum(messages)::BIGINT AS messages, sum(answers)::BIGINT AS answers,
            sum(sessions)::BIGINT AS sessions, max(cost_usd) AS cost_usd
        FROM (
            SELECT {_PLATFORM} AS platform, count(*) FILTER (role = 'user') AS messages,
                count(*) FILTER (role = 'assistant') AS answers, count(DISTINCT session_key) AS sessions,
                NULL AS cost_usd
            FROM messages WHERE {_since("said_at")} GROUP BY 1
            UNION ALL
            SELECT {_PLATFORM}, 0, 0, 0, sum(cost_usd) FROM costs WHERE {_since("ended_at")} GROUP BY 1
        )
        GROUP BY platform ORDER BY messages DESC, platform
        """,  # noqa: S608 no text from outside
    "model": f"""
        SELECT m.provider || '/' || m.model AS model, count(*) FILTER (outcome = 'answered') AS calls,
            count(*) FILTER (outcome = 'failed') AS failed, sum(m.input_tokens)::BIGINT AS input_tokens,
            sum(m.output_tokens)::BIGINT AS output_tokens, sum(cost_usd) AS cost_usd,
            quantile_cont(m.first_token_ms, 0.5) AS first_token_p50_ms,
            quantile_cont(m.duration_ms, 0.95) AS call_p95_ms
        FROM model_calls m LEFT JOIN costs c USING (id) WHERE {_since("m.ended_at")}
        GROUP BY 1 ORDER BY calls DESC, model
        """,  # noqa: S608 no text from outside
    "session": f"""
        SELECT session_key AS session, count(*) FILTER (role = 'user') AS messages,
            count(*) FILTER (role = 'assistant') AS answers, max(said_at) AS last_at
        FROM messages WHERE {_since("said_at")} GROUP BY 1 ORDER BY messages DESC, session
        """,  # noqa: S608 no text from outside
    "tool": f"""
        SELECT name AS tool, count(*) AS calls, count(*) FILTER (status = 'ok') AS ok,
            count(*) FILTER (status IN ('error', 'timed_out', 'unknown')) AS failed,
            count(*) FILTER (status IN ('refused', 'skipped', 'interrupted')) AS not_run,
            quantile_cont(duration_ms, 0.5) AS p50_ms, quantile_cont(duration_ms, 0.95) AS p95_ms
        FROM tool_calls WHERE {_since("ended_at")} GROUP BY 1 ORDER BY calls DESC, tool
        """,  # noqa: S608 no text from outside
    "user": f"""
        SELECT coalesce(nullif(arg_max(author_name, id), ''), author_id) AS "user", count(*) AS messages,
            count(DISTINCT session_key) AS sessions, platform, max(said_at) AS last_at
        FROM messages WHERE role = 'user' AND {_since("said_at")}
        GROUP BY platform, author_id ORDER BY messages DESC, "user"
        """,  # noqa: S608 no text from outside
}
