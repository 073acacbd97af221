"""`callboard insights`: how much was said, by whom, with what, and what it cost."""

import json
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final

from rich.text import Text

from actors.clock import Clock, WallClock
from actors.console.cli.charts import bars
from actors.console.cli.history import History, Table, open_history
from actors.console.cli.invocation import ExitCode, Invocation
from actors.console.cli.printable import printable
from actors.console.cli.query import as_table, console_of

if TYPE_CHECKING:
    from store.analytics import By, Question

_MOST_GROUPS: Final = 20
_MOST_DAYS: Final = 31
_PLAIN_WIDTH: Final = 100
_TIMEOUT_S: Final = 120.0


async def insights(
    invocation: Invocation, *, days: int, by: "By", as_json: bool, clock: Clock | None = None
) -> int:
    """Print the figures of the last days."""
    from store import analytics  # noqa: PLC0415 it brings DuckDB

    now = (clock or WallClock()).now()
    since = (now - timedelta(days=days)).isoformat()
    async with open_history(invocation) as history:
        totals = await _ask(history, analytics.totals(since))
        per_day = await _ask(history, analytics.per_day(since))
        grouped = await _ask(history, analytics.grouped(by, since))
    if as_json:
        found = {"days": days, "totals": totals.dicts()[0], "per_day": per_day.dicts(), by: grouped.dicts()}
        invocation.out(json.dumps(found, ensure_ascii=False, indent=2))
        return ExitCode.OK
    _show_totals(invocation, totals.dicts()[0], days)
    _show_days(invocation, per_day)
    _show_groups(invocation, grouped, by)
    return ExitCode.OK


async def _ask(history: History, question: "Question") -> Table:
    return await history.query(question.sql, question.params, timeout_s=_TIMEOUT_S, max_rows=10_000)


def _show_totals(invocation: Invocation, figures: dict[str, Any], days: int) -> None:
    console = console_of(invocation)
    console.print(Text(f"The last {days} days" if days > 1 else "The last day", style="bold"))
    cost = _usd(figures["cost_usd"])
    if figures["unpriced_calls"]:
        cost += f" and {figures['unpriced_calls']:,} calls of unknown price"
    lines = (
        (
            "Messages",
            f"{figures['messages']:,} by {figures['users']:,} people in {figures['sessions']:,} sessions",
        ),
        ("Answers", f"{figures['answers']:,}"),
        (
            "Turns",
            f"{figures['turns']:,}, of which {figures['turns_not_answered']:,} ended without an answer",
        ),
        ("Turn time", f"median {_ms(figures['turn_p50_ms'])}, 95 % below {_ms(figures['turn_p95_ms'])}"),
        ("Tool calls", f"{figures['tool_calls']:,}"),
        ("Tokens", f"{_count(figures['input_tokens'])} read, {_count(figures['output_tokens'])} written"),
        ("Cost", cost),
        ("Incidents", f"{figures['incidents']:,}"),
    )
    for name, text in lines:
        console.print(f"  {name:<11}{text}")


def _show_days(invocation: Invocation, per_day: Table) -> None:
    rows = per_day.dicts()[-_MOST_DAYS:]
    if not rows:
        return
    console = console_of(invocation)
    console.print()
    series = {name: [float(row[name]) for row in rows] for name in ("messages", "answers")}
    for line in bars([row["day"] for row in rows], series, _width(invocation)):
        console.print(line)


def _show_groups(invocation: Invocation, grouped: Table, by: str) -> None:
    console = console_of(invocation)
    console.print(Text(f"\nBy {by}", style="bold"))
    rows = grouped.rows[:_MOST_GROUPS]
    if not rows:
        console.print("  nothing yet")
        return
    labels = [printable(str(row[0] or "unknown")) for row in rows]
    for line in bars(labels, {grouped.columns[1].name: [float(row[1]) for row in rows]}, _width(invocation)):
        console.print(line)
    console.print(as_table(Table(grouped.columns, rows)))
    if len(grouped.rows) > _MOST_GROUPS:
        invocation.note(f"The first {_MOST_GROUPS} of {len(grouped.rows):,} are shown; --json has all.")


def _width(invocation: Invocation) -> int:
    return console_of(invocation).width if invocation.stdout.isatty() else _PLAIN_WIDTH


def _usd(amount: float | None) -> str:
    return "unknown" if amount is None else f"{amount:,.2f} USD"


def _ms(value: float | None) -> str:
    return "unknown" if value is None else f"{value / 1000:,.1f} s"


def _count(value: Any) -> str:
    return "unknown" if value is None else f"{int(value):,}"
