"""What the text of a query may say: exactly one SELECT, and no function that reaches out or has no bounds.

This is the first of three fences. The others are DuckDB's: the transaction is read-only, and
access to files and the network is off for the whole process, until it ends.
"""

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

import duckdb

from store.readers import QueryError

LONGEST_SQL: Final = 100_000
"""Characters."""

_LONGEST_TEXT_GROWTH: Final = 100
_LONGEST_LIST: Final = 1_000_000

_TABLE_FUNCTIONS: Final = frozenset(
    [
        "range",
        "generate_series",
        "unnest",
        "repeat",
        "repeat_row",
        "summary",
        "json_each",
        "json_tree",
        "duckdb_columns",
        "duckdb_tables",
        "duckdb_views",
        "duckdb_functions",
        "duckdb_keywords",
        "duckdb_types",
        "duckdb_constraints",
        "duckdb_indexes",
        "duckdb_memory",
        "duckdb_settings",
        "duckdb_databases",
        "duckdb_schemas",
        "duckdb_sequences",
        "duckdb_temporary_files",
        "pragma_table_info",
        "pragma_version",
        "pragma_storage_info",
        "pragma_database_size",
        "pragma_show",
        "pragma_collations",
        "pg_timezone_names",
        "icu_calendar_names",
    ]
)

_WITH_SIDE_EFFECTS: Final = frozenset(
    ["pg_sleep", "sleep_ms", "setseed", "write_log", "nextval", "currval", "setval", "txid_current"]
)

_GROW_TEXT: Final = frozenset(["repeat", "lpad", "rpad", "list_resize", "array_resize", "bitstring"])
_FORMAT_TEXT: Final = frozenset(("printf", "format"))
_GROW_LIST: Final = frozenset(("range", "generate_series"))

_EXPLAIN: Final = re.compile(
    r"(?:\s|--[^\n]*\n|/\*.*?\*/)*explain(?:\s+analyze\b|\s*\([^)]*\))?\s", re.IGNORECASE | re.DOTALL
)


def check(connection: duckdb.DuckDBPyConnection, sql: str) -> None:
    """Raise QueryError unless the text is one SELECT (or an EXPLAIN of one) that may run; duckdb.Error if it is no SQL."""
    if len(sql) > LONGEST_SQL:
        raise QueryError(f"the query has {len(sql):,} characters; {LONGEST_SQL:,} are the most")
    if "\0" in sql:
        raise QueryError("the query contains a NUL character; leave it out, or write chr(0)")
    statements = connection.extract_statements(sql)
    if len(statements) != 1:
        raise QueryError(f"a query is exactly one SELECT; this text has {len(statements)} statements")
    kind = statements[0].type
    if kind == duckdb.StatementType.EXPLAIN:
        sql = _EXPLAIN.sub("", sql, count=1)
    elif kind == duckdb.StatementType.MULTI:
        raise QueryError(
            "PIVOT must say which values become columns: PIVOT … ON column IN ('a', 'b') USING …"
        )
    elif kind != duckdb.StatementType.SELECT:
        raise QueryError(f"a query is exactly one SELECT; this is {kind.name}, which a query may not do")
    row = connection.execute("SELECT json_serialize_sql(?)", [sql]).fetchone()
    tree = json.loads(row[0]) if row else {"error": True}
    if tree["error"]:
        raise QueryError(
            f"this cannot be checked, so it does not run: {tree.get('error_message', 'unknown')}"
        )
    for node in _nodes(tree):
        _check_node(node)


def _nodes(tree: object) -> Iterator[dict[str, Any]]:
    waiting = [tree]
    while waiting:
        node = waiting.pop()
        if isinstance(node, dict):
            yield node
            waiting.extend(node.values())
        elif isinstance(node, list):
            waiting.extend(node)


def _check_node(node: Mapping[str, Any]) -> None:
    if node.get("type") == "TABLE_FUNCTION":
        name = node["function"]["function_name"].lower()
        if name not in _TABLE_FUNCTIONS:
            raise QueryError(f"{name}() is not for queries: they read this database and nothing else")
        # Its rows stream, so that its arguments need no bounds.
        node["function"]["class"] = "CHECKED"
    elif node.get("class") == "FUNCTION":
        _check_function(node["function_name"].lower(), _arguments(node))


def _arguments(node: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    return [argument["expression"] for argument in node["arguments"]]


def _check_function(name: str, arguments: list[Mapping[str, Any]]) -> None:
    if name in _WITH_SIDE_EFFECTS:
        raise QueryError(f"{name}() is not for queries: it does something besides reading")
    if name in _GROW_TEXT and not all(_is_small(each, _LONGEST_TEXT_GROWTH) for each in arguments[1:2]):
        raise QueryError(f"{name}() may take a number up to {_LONGEST_TEXT_GROWTH} here, written out")
    if name in _GROW_TEXT | _FORMAT_TEXT and any(_grows(node) for node in _nodes(arguments)):
        raise QueryError(
            f"{name}() of repeat() and the like is not for queries: the text could fill the memory"
        )
    if name in _FORMAT_TEXT and not (arguments and _is_plain_format(arguments[0])):
        raise QueryError(f"{name}() needs its format written out, with widths below 1000")
    if name in _GROW_LIST and not all(_is_small(each, _LONGEST_LIST) for each in arguments):
        raise QueryError(
            f"{name}() as a list may take numbers up to {_LONGEST_LIST:,}, written out; "
            f"as a table (FROM {name}(…)) it has no bounds"
        )


def _grows(node: Mapping[str, Any]) -> bool:
    return node.get("class") == "FUNCTION" and node["function_name"].lower() in _GROW_TEXT | _FORMAT_TEXT


def _is_small(node: Mapping[str, Any], limit: int) -> bool:
    """Whether an argument is a number written out, or a minus before one, and within bounds."""
    if node.get("class") == "FUNCTION" and node["function_name"] == "-" and len(node["arguments"]) == 1:
        return _is_small(_arguments(node)[0], limit)
    if node.get("class") != "CONSTANT" or node["literal"]["kind"] != "INTEGER":
        return False
    return abs(int(node["literal"]["text"])) <= limit


def _is_plain_format(node: Mapping[str, Any]) -> bool:
    if node.get("class") != "CONSTANT" or node["literal"]["kind"] != "STRING":
        return False
    text: str = node["literal"]["text"]
    return not re.search(r"\d{4}|\*|\{[^}]*\{", text)
