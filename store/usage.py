"""What models were asked for in one conversation's place, in words: calls, tokens, cost."""

from collections.abc import Awaitable, Callable, Sequence
from datetime import datetime, timedelta
from typing import Protocol

from messages.ids import SessionKey
from store.readers import Rows

_USED = """
SELECT c.provider || '/' || c.model AS model, count(*) AS calls,
    coalesce(sum(c.input_tokens), 0)::BIGINT AS read, coalesce(sum(c.output_tokens), 0)::BIGINT AS written,
    count(*) FILTER (c.input_tokens IS NULL) AS uncounted,
    sum(k.cost_usd) AS cost, count(*) FILTER (k.cost_usd IS NULL) AS unpriced
FROM model_calls AS c LEFT JOIN costs AS k ON c.id = k.id
WHERE c.outcome = 'answered' AND c.ended_at >= ? AND (c.session_key = ? OR starts_with(c.session_key, ?))
GROUP BY 1 ORDER BY calls DESC, model
"""

_MOST_MODELS = 20


class Selects(Protocol):
    """What can be asked for rows: `Store.select`."""

    def __call__(
        self, sql: str, params: Sequence[object] = (), *, timeout_s: float = 30.0, max_rows: int = 10_000
    ) -> Awaitable[Rows]: ...


def usage_reporter(
    select: Selects, now: Callable[[], datetime]
) -> Callable[[SessionKey, int], Awaitable[str]]:
    """Return what says in words what was used in a place, its background tasks included.

    It raises what `select` raises.
    """

    async def report(key: SessionKey, days: int) -> str:
        since = now() - timedelta(days=days)
        found = await select(_USED, (since, key, f"{key}:~"), timeout_s=8.0, max_rows=1000)
        return usage_text(found.rows, days)

    return report


def usage_text(rows: Sequence[Sequence[object]], days: int) -> str:
    """Return the rows of a place as people read them: model, calls, read, written, uncounted, cost, unpriced."""
    span = "the last day" if days == 1 else f"the last {days} days"
    if not rows:
        return f"No model was asked here in {span}."
    calls, read, written, uncounted, unpriced = (
        sum(int(str(row[i])) for row in rows) for i in (1, 2, 3, 4, 6)
    )
    known = [float(str(row[5])) for row in rows if row[5] is not None]
    lines = [
        f"In {span} here:",
        "",
        f"- **Model calls**: {calls:,}",
        f"- **Tokens**: {read:,} read, {written:,} written"
        + (f" ({uncounted:,} call(s) were not counted by their provider)" if uncounted else ""),
        f"- **Cost**: {_cost(known, unpriced)}",
    ]
    if len(rows) > 1:
        lines += [f"- {row[0]}: {row[1]} call(s), {_cost_of(row)}" for row in rows[:_MOST_MODELS]]
    return "\n".join(lines)


def _cost(known: Sequence[float], unpriced: int) -> str:
    if not known:
        return "unknown: no price is known"
    text = f"${sum(known):,.4f}"
    return f"{text}, and {unpriced:,} call(s) without a known price" if unpriced else text


def _cost_of(row: Sequence[object]) -> str:
    return "unknown" if row[5] is None else f"${float(str(row[5])):,.4f}"
