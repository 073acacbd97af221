"""The whole history, to be asked and to be deleted from: in the running process, else in the file itself."""

import json
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Protocol
from urllib.parse import quote

from actors.clock import Clock, WallClock
from actors.console.cli.client import ApiFailureError, ControlClient
from actors.console.cli.invocation import CommandFailedError, Invocation
from actors.console.cli.running import find_running
from actors.console.cli.shelf import DATABASE
from actors.errors import StartError
from messages.history import SessionErased
from messages.ids import SessionKey

if TYPE_CHECKING:
    from store.journal import Recorded
    from store.store import Store

_FACTS_AT_ONCE: Final = 2000
_ON_TOP_S: Final = 10.0
"""The process may take so much longer than the query's own limit to say that it was stopped."""

_FACTS: Final = """
SELECT seq, kind, v, fact, epoch_us(recorded_at) FROM facts
WHERE stream = $1 AND seq > $2 ORDER BY seq LIMIT 2000
"""


class QueryFailedError(CommandFailedError):
    """A query was refused, is wrong, or took too much; the text is for whoever wrote it."""

    def __init__(self, what: str) -> None:
        super().__init__(what, None)


class UnknownSessionError(Exception):
    """There is no such session."""


@dataclass(frozen=True, slots=True)
class Column:
    """A column of an answer; `type` is DuckDB's name."""

    name: str
    type: str


@dataclass(frozen=True, slots=True)
class Table:
    """What a query found. Values as JSON has them; see `store.query.Answer`."""

    columns: tuple[Column, ...]
    rows: tuple[tuple[Any, ...], ...]
    truncated: str | None = None

    def dicts(self) -> list[dict[str, Any]]:
        """Return rows by the columns' names; a name that comes again gets a number."""
        names = self.names()
        return [dict(zip(names, row, strict=True)) for row in self.rows]

    def names(self) -> list[str]:
        """Return the columns' names, each once."""
        names: list[str] = []
        for column in self.columns:
            name, count = column.name, 1
            while name in names:
                name, count = f"{column.name}_{count}", count + 1
            names.append(name)
        return names


class History(Protocol):
    """All that was ever said and done here."""

    async def query(
        self, sql: str, params: Sequence[Any] = (), *, timeout_s: float = 30.0, max_rows: int = 10_000
    ) -> Table:
        """Run one SELECT. Raises QueryFailedError."""
        ...

    async def erase(self, key: SessionKey) -> SessionErased:
        """Delete a session's history. Raises UnknownSessionError."""
        ...


class _OfProcess:
    """Asks the running process."""

    def __init__(self, client: ControlClient) -> None:
        self._client = client

    async def query(
        self, sql: str, params: Sequence[Any] = (), *, timeout_s: float = 30.0, max_rows: int = 10_000
    ) -> Table:
        body = {"sql": sql, "params": list(params), "timeout_s": timeout_s, "max_rows": max_rows}
        try:
            return _table(await self._client.post("/api/query", body, within_s=timeout_s + _ON_TOP_S))
        except ApiFailureError as failure:
            if failure.status == 422:
                raise QueryFailedError(failure.what) from None
            raise

    async def erase(self, key: SessionKey) -> SessionErased:
        path = f"/api/sessions/{quote(key, safe='')}/delete"
        try:
            answer = await self._client.post(path, {"confirm": key})
        except ApiFailureError as failure:
            if failure.status == 404:
                raise UnknownSessionError(failure.what) from None
            raise
        fields = {name: answer[name] for name in SessionErased.model_fields}
        return SessionErased.model_validate_json(json.dumps(fields))


class _OfFile:
    """Asks the database itself; nobody else has it open."""

    def __init__(self, store: "Store", invocation: Invocation, clock: Clock) -> None:
        self._store = store
        self._results = invocation.home / "results"
        self._clock = clock

    async def query(
        self, sql: str, params: Sequence[Any] = (), *, timeout_s: float = 30.0, max_rows: int = 10_000
    ) -> Table:
        from store.store import QueryError  # noqa: PLC0415 it brings DuckDB

        try:
            answer = await self._store.query(sql, params, timeout_s=timeout_s, max_rows=max_rows)
        except QueryError as error:
            raise QueryFailedError(str(error)) from None
        return _table(json.loads(answer.json))

    async def erase(self, key: SessionKey) -> SessionErased:
        from actors.gateway import erasure  # noqa: PLC0415 it brings the sessions' rules

        try:
            return await erasure.erase_asleep(self._store, key, self._clock, self._results)
        except erasure.UnknownSessionError as error:
            raise UnknownSessionError(str(error)) from None


def _table(answer: Any) -> Table:
    return Table(
        tuple(Column(column["name"], column["type"]) for column in answer["columns"]),
        tuple(map(tuple, answer["rows"])),
        answer["truncated"],
    )


@asynccontextmanager
async def open_history(invocation: Invocation) -> AsyncIterator[History]:
    """Open the history of a data folder. Raises StartError when there is none, or it cannot be read."""
    clock = WallClock()
    running = find_running(invocation.home)
    if running is not None:
        async with ControlClient(lambda: running.socket, clock) as client:
            yield _OfProcess(client)
        return
    path = invocation.home / DATABASE
    if not path.exists():
        raise StartError(f"There is no history in {invocation.home} yet.", "Begin one with: callboard chat")
    from store.store import Store, StoreOpenError  # noqa: PLC0415 it brings DuckDB

    settings = invocation.read_settings().settings
    try:
        store = Store.open(path, settings.store, clock, settings.prices)
    except StoreOpenError as error:
        raise StartError(error.what, error.remedy) from error
    await store.start()
    try:
        yield _OfFile(store, invocation, clock)
    finally:
        await store.close()


async def find_key(history: History, name: str) -> SessionKey:
    """Return the key that a person means: a whole key, a session id, or the name of a chat.

    Raises UnknownSessionError; also when several are meant, which it then names.
    """
    found = await history.query(
        """
        SELECT DISTINCT substr(stream, 9) AS key FROM facts WHERE stream = 'session:' || $1
        UNION SELECT session_key FROM sessions
        WHERE session_id = $1 OR split_part(session_key, ':', 6) IN ($1, $2)
        """,
        [name, quote(name, safe="")],
    )
    keys = sorted({SessionKey(row[0]) for row in found.rows})
    if name in keys:
        return SessionKey(name)
    if not keys:
        raise UnknownSessionError(f"There is no session {name!r}. `callboard sessions list` shows all.")
    if len(keys) > 1:
        raise UnknownSessionError(f"{name!r} may be any of: {', '.join(keys)}. Give one of these.")
    return keys[0]


async def facts_of(history: History, key: SessionKey) -> list["Recorded"]:
    """Return a session's facts, all of them."""
    from store.codec import CODEC, from_micros  # noqa: PLC0415 it brings all facts
    from store.journal import Recorded  # noqa: PLC0415 the same

    recorded: list[Recorded] = []
    last = 0
    while True:
        found = await history.query(
            _FACTS, [f"session:{key}", last], timeout_s=120.0, max_rows=_FACTS_AT_ONCE
        )
        for seq, kind, v, text, micros in found.rows:
            recorded.append(Recorded(seq, CODEC.decode(kind, v, text), from_micros(int(micros))))
            last = seq
        if not found.truncated and len(found.rows) < _FACTS_AT_ONCE:
            return recorded
