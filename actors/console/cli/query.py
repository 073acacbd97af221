"""`callboard query`: one SELECT over the whole history, printed or written to a file."""

import csv
import io
import json
import os
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Literal

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table as RichTable
from rich.text import Text

from actors.console.cli.charts import bars
from actors.console.cli.history import QueryFailedError, Table, open_history
from actors.console.cli.invocation import ExitCode, Invocation
from actors.console.cli.printable import printable

Form = Literal["table", "csv", "json", "plot"]

_LONGEST_CELL: Final = 300
_WIDE: Final = 4000
_MOST_BARS: Final = 60
_NUMBERS: Final = ("INT", "INTEGER", "DECIMAL", "DOUBLE", "FLOAT", "REAL", "NUMERIC")


@dataclass(frozen=True, slots=True)
class QueryAsked:
    """What was asked on the command line."""

    sql: str
    form: Form = "table"
    parquet: Path | None = None
    limit: int = 1000
    timeout_s: float = 30.0


async def query(invocation: Invocation, asked: QueryAsked) -> int:
    """Run the query and show what it finds. A wrong query is USAGE."""
    async with open_history(invocation) as history:
        try:
            found = await history.query(asked.sql, timeout_s=asked.timeout_s, max_rows=asked.limit)
        except QueryFailedError as error:
            invocation.note(str(error))
            return ExitCode.USAGE
    if asked.parquet is not None:
        try:
            write_parquet(found, asked.parquet)
        except OSError as error:
            invocation.note(f"{asked.parquet} cannot be written: {error.strerror or error}.")
            return ExitCode.FAILED
        invocation.note(f"{len(found.rows):,} rows are in {asked.parquet}.")
    else:
        problem = show(invocation, found, asked.form)
        if problem:
            invocation.note(problem)
            return ExitCode.USAGE
    if found.truncated:
        invocation.note(f"These are {found.truncated}.")
    return ExitCode.OK


def show(invocation: Invocation, found: Table, form: Form) -> str:
    """Print the rows; return what keeps them from being shown so, or nothing."""
    match form:
        case "csv":
            text = as_csv(found)
            invocation.stdout.write(printable(text) if invocation.stdout.isatty() else text)
        case "json":
            invocation.out(as_json(found))
        case "plot":
            return _plot(invocation, found)
        case "table":
            console_of(invocation).print(as_table(found))
            invocation.note(f"{len(found.rows):,} row{'' if len(found.rows) == 1 else 's'}")
    invocation.stdout.flush()
    return ""


def console_of(invocation: Invocation) -> Console:
    """Return a console over the command's output: as wide as the terminal, or wide where nobody wraps."""
    wide = None if invocation.stdout.isatty() else _WIDE
    return Console(file=invocation.stdout, width=wide, highlight=False, emoji=False, markup=False)


# ------------------------------------------------------------------ forms


def as_table(found: Table) -> RichTable:
    """Return rows for people: numbers to the right, NULL dimmed, long texts cut."""
    table = RichTable(box=SIMPLE_HEAD, pad_edge=False)
    for column in found.columns:
        table.add_column(printable(column.name), justify="right" if is_number(column.type) else "left")
    for row in found.rows:
        table.add_row(*(cell(value, column.type) for value, column in zip(row, found.columns, strict=True)))
    return table


def cell(value: Any, kind: str) -> Text:
    """Return a value for people."""
    if value is None:
        return Text("NULL", style="dim")
    if isinstance(value, float) and is_number(kind):
        return Text(f"{value:.6g}" if abs(value) < 1e6 else f"{value:.1f}")
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    text = printable(text)
    return Text(text if len(text) <= _LONGEST_CELL else f"{text[: _LONGEST_CELL - 1]}…")


def is_number(kind: str) -> bool:
    """Whether a column's type is one of numbers."""
    return kind.endswith(_NUMBERS) or kind.startswith("DECIMAL(")


def as_csv(found: Table) -> str:
    """Return rows as CSV, with a line of names first. NULL and an empty text are both empty."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n", quoting=csv.QUOTE_MINIMAL)
    writer.writerow([column.name for column in found.columns])
    for row in found.rows:
        writer.writerow([_plain_cell(value) for value in row])
    return out.getvalue()


def _plain_cell(value: Any) -> Any:
    match value:
        case None:
            return ""
        case bool():
            return "true" if value else "false"
        case list() | dict():
            return json.dumps(value, ensure_ascii=False)
        case _:
            return value


def as_json(found: Table) -> str:
    """Return rows as a JSON array of objects, one a line."""
    return "[" + ",\n ".join(json.dumps(row, ensure_ascii=False) for row in found.dicts()) + "]"


def _plot(invocation: Invocation, found: Table) -> str:
    numbers = [n for n, column in enumerate(found.columns) if is_number(column.type)]
    labels_at = next((n for n in range(len(found.columns)) if n not in numbers), None)
    if labels_at is None and len(numbers) > 1:
        labels_at, *numbers = numbers
    if not numbers:
        return "A chart needs a column of numbers, and before it one of labels: SELECT day, count(*) …"
    rows = found.rows[:_MOST_BARS]
    labels = [
        printable(str(row[labels_at])) if labels_at is not None else str(place)
        for place, row in enumerate(rows, start=1)
    ]
    series = {
        name: [None if row[n] is None else float(row[n]) for row in rows]
        for n, name in enumerate(found.names())
        if n in numbers
    }
    console = console_of(invocation)
    width = console.width if invocation.stdout.isatty() else 100
    for line in bars(labels, series, width):
        console.print(line)
    if len(found.rows) > _MOST_BARS:
        invocation.note(f"The first {_MOST_BARS} of {len(found.rows):,} rows are shown.")
    return ""


# ------------------------------------------------------------------ parquet


def write_parquet(found: Table, target: Path) -> None:
    """Write rows into a Parquet file with their own types, whole or not at all. Raises OSError.

    A database in memory does it; it sees these rows and nothing of the history.
    """
    import duckdb  # noqa: PLC0415 heavy

    folder = target.absolute().parent
    handle, rows = tempfile.mkstemp(prefix=".query-", suffix=".ndjson", dir=folder)
    unfinished = Path(rows).with_suffix(".parquet")
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            for row in found.rows:
                named = {f"c{n}": value for n, value in enumerate(row)}
                file.write(json.dumps(named, ensure_ascii=False) + "\n")
        columns = ", ".join(f"c{n}: '{_read_as(c.type)}'" for n, c in enumerate(found.columns))
        values = ", ".join(
            f"{_cast(f'c{n}', column.type)} AS {_quoted(name)}"
            for n, (column, name) in enumerate(zip(found.columns, found.names(), strict=True))
        )
        source = f"read_json({_text(rows)}, format = 'newline_delimited', columns = {{{columns}}}, maximum_object_size = 100000000)"
        with duckdb.connect() as connection:
            connection.execute("SET TimeZone = 'UTC'")
            connection.execute(
                f"COPY (SELECT {values} FROM {source}) TO {_text(str(unfinished))} (FORMAT parquet)"  # noqa: S608 quoted above
            )
        unfinished.replace(target)
    except duckdb.IOException as error:
        raise OSError(str(error)) from error
    finally:
        Path(rows).unlink(missing_ok=True)
        unfinished.unlink(missing_ok=True)


def _is_nested(kind: str) -> bool:
    return kind.endswith("]") or kind.startswith(("STRUCT(", "MAP("))


def _read_as(kind: str) -> str:
    return kind.replace("'", "''") if _is_nested(kind) else "VARCHAR"


def _cast(name: str, kind: str) -> str:
    if kind == "BLOB":
        return f"unhex({name})"
    if _is_nested(kind) or kind in ("VARCHAR", "JSON", '"NULL"', "NULL") or kind.startswith("ENUM("):
        return name
    return f"{name}::{kind}"


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _text(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"
