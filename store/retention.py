"""Deleting history for good.

A stream is deleted in two steps. Its owner appends `history_erased`, in the ordinary
way: from then on whoever reads the stream begins anew, its numbers go on, and a
writer that was overtaken is refused as always. Then `purge` deletes everything before
that fact, with the analyst's rows. When the process ends in between, the next life
finds what is left (`LEFTOVERS`) and purges it.
"""

from collections.abc import Sequence
from typing import Final

import duckdb

from messages.ids import SessionKey, StreamId

PREFIX: Final = "session:"

_OF_SESSIONS: Final = ("sessions", "messages", "turns", "model_calls", "tool_calls", "deliveries")
"""The tables that have rows of a session, by `session_key`."""

LEFTOVERS: Final = """
SELECT stream FROM facts GROUP BY stream
HAVING min(id) < max(id) FILTER (kind = 'history_erased') ORDER BY stream
"""
"""Streams with facts that are void and not deleted yet."""

IDLE_SINCE: Final = """
SELECT session_key FROM (
    SELECT session_key, said_at AS moment FROM messages
    UNION ALL SELECT session_key, opened_at FROM sessions
    UNION ALL SELECT session_key, ended_at FROM turns
)
GROUP BY session_key HAVING max(moment) < $1::TIMESTAMPTZ ORDER BY max(moment)
"""
"""Session keys in which nothing has happened since a time, the longest idle first."""

_OUTBOX_TEXTS: Final = """
UPDATE facts SET fact = CAST(json_merge_patch(CAST(fact AS JSON), '{"parts": []}') AS VARCHAR)
WHERE kind = 'delivery_taken' AND starts_with(stream, 'outbox:') AND fact ->> '$.session_key' = ?
RETURNING fact ->> '$.delivery_id'
"""
"""What a session said through a platform is also in that account's outbox: the texts go, the facts stay."""

_OUTBOX_TEXTS_INSTEAD: Final = """
UPDATE facts SET fact = CAST(json_merge_patch(CAST(fact AS JSON), '{"text_instead": null}') AS VARCHAR)
WHERE kind = 'part_not_taken' AND starts_with(stream, 'outbox:') AND fact ->> '$.text_instead' IS NOT NULL
    AND fact ->> '$.delivery_id' IN (SELECT unnest(?::VARCHAR[]))
"""
"""The same of what took a refused file's place in these deliveries."""

_VOID: Final = "SELECT min(id), max(id) FILTER (kind = 'history_erased') FROM facts WHERE stream = ?"


def session_of(stream: StreamId) -> SessionKey:
    """Return the session whose stream it is."""
    return SessionKey(stream.removeprefix(PREFIX))


def purge(connection: duckdb.DuckDBPyConnection, streams: Sequence[StreamId]) -> int:
    """Delete what is void in these streams, each in one transaction; return how many facts. Raises duckdb.Error.

    A stream that says nothing of an erasure keeps everything.
    """
    return sum(_purge(connection, stream) for stream in streams)


def _purge(connection: duckdb.DuckDBPyConnection, stream: StreamId) -> int:
    first, erased = connection.execute(_VOID, [stream]).fetchone() or (None, None)
    if first is None or erased is None or first >= erased:
        return 0
    connection.begin()
    window = [first, erased - 1]
    deleted = connection.execute(
        "DELETE FROM facts WHERE id BETWEEN ? AND ? AND stream = ?", [*window, stream]
    ).fetchone()
    for table in _OF_SESSIONS:
        connection.execute(
            f"DELETE FROM {table} WHERE id BETWEEN ? AND ? AND session_key = ?",  # noqa: S608 our own names
            [*window, session_of(stream)],
        )
    said = connection.execute(_OUTBOX_TEXTS, [session_of(stream)]).fetchall()
    if said:
        connection.execute(_OUTBOX_TEXTS_INSTEAD, [[delivery_id for (delivery_id,) in said]])
    connection.commit()
    return int(deleted[0]) if deleted else 0
