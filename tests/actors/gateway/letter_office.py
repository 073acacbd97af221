"""A post office with the desk where an operator decides about what it gave up."""

import json
from collections.abc import Sequence
from typing import Any

import duckdb

from actors.gateway.dead_letters import DeadLetterBox, LetterLinks
from actors.gateway.parts import OutboxRules
from actors.redaction import Redactor
from actors.session.directory import Route
from actors.session.live import LiveHub
from messages import delivery as d
from messages.base import Message
from messages.dead_letters import DeadLetter
from messages.gateway import MessageReceived, Receipt
from messages.ids import StreamId
from store.codec import CODEC
from store.journal import Recorded
from store.readers import Rows
from tests.actors.gateway.post_office import STREAM, CountingJournal, Fuse, PostOffice
from tests.fakes.clock import ManualClock

SECRET = "a-password-that-nobody-sees"


class SqlJournal(CountingJournal):
    """Can be asked in SQL too, as the real store can: its facts lie in the same table."""

    def __init__(self, clock: ManualClock, fuse: Fuse) -> None:
        super().__init__(clock, fuse)
        self._sql = duckdb.connect()
        self._sql.execute(
            "CREATE TABLE facts (id BIGINT, stream VARCHAR, seq BIGINT, kind VARCHAR, owing BOOLEAN, fact VARCHAR)"
        )

    async def append(
        self, stream: StreamId, expected: int, facts: Sequence[Message], *, owing: bool = False
    ) -> tuple[Recorded, ...]:
        before = len(self.facts(stream))
        try:
            return await super().append(stream, expected, facts, owing=owing)
        finally:  # the power may go when they are written and nobody knows yet
            for seq, fact in enumerate(self.facts(stream)[before:], start=before + 1):
                kind, _, text, _ = CODEC.encode(fact)
                self._sql.execute(
                    "INSERT INTO facts SELECT count(*) + 1, ?, ?, ?, ?, ? FROM facts",
                    [stream, seq, kind, owing, text],
                )

    async def select(self, sql: str, params: Sequence[object] = (), *, max_rows: int = 10_000) -> Rows:
        found = self._sql.execute(sql, list(params))
        return Rows(tuple(column[0] for column in found.description or ()), tuple(found.fetchmany(max_rows)))

    def erases_texts(self) -> None:
        """Do to the outboxes' texts what the deletion of a session does."""
        rows = self._sql.execute("SELECT id, fact FROM facts WHERE kind = 'delivery_taken'").fetchall()
        for number, text in rows:
            self._sql.execute(
                "UPDATE facts SET fact = ? WHERE id = ?",
                [json.dumps(json.loads(text) | {"parts": []}), number],
            )


class LetterOffice(PostOffice):
    """`box` is the operator's desk of the life that goes on."""

    def __init__(self, rules: OutboxRules | None = None, fuse: Fuse | None = None) -> None:
        super().__init__(rules, fuse)
        self.journal: SqlJournal = SqlJournal(self.clock, self.fuse)
        self.served = True
        self.letters_open = 0
        self.outbox_links = {"on_letter": self._counted, "tell_letters": self._settled}
        self.box: DeadLetterBox

    async def start(self) -> None:
        links = LetterLinks(
            journal=self.journal,
            select=self.journal.select,
            hub=LiveHub(),
            speak=_speaks_to_nobody,
            tell_sessions=_tells_nobody,
            tell_outbox=self._decided,
            why_not_served=lambda name: "" if self.served else f"There is no platform {name!r}.",
            on_closed=lambda: self._counted("closed"),
            clean=Redactor((SECRET,)).clean,
        )
        self.box = DeadLetterBox(self.clock, links)
        await super().start()

    def _decided(self, account: str, decided: d.LetterDecided) -> None:
        assert account == "fake"
        self._to_outbox(decided)

    def _settled(self, settled: d.LetterSettled) -> None:
        self.box.settled(settled)

    def _counted(self, change: str) -> None:
        self.letters_open += 1 if change == "opened" else -1

    async def letter(self) -> DeadLetter:
        """Return the only open letter."""
        (letter,) = await self.open_letters()
        return letter

    async def open_letters(self) -> list[DeadLetter]:
        return [letter for letter in await self.box.all() if letter.state == "open"]

    def closings(self) -> list[Any]:
        return [fact for fact in self.journal.facts(STREAM) if isinstance(fact, d.DeliveryLetterClosed)]


async def _speaks_to_nobody(message: MessageReceived) -> Receipt:
    raise AssertionError("a reply is handed in to no session")


def _tells_nobody(route: Route) -> None:
    raise AssertionError("a reply is no session's")
