"""Puts conversations into a store, as the rooms do: sessions are opened, people speak, replies are owed."""

from datetime import datetime, timedelta

from actors.gateway.session_key import key_of
from actors.session.facts import CommandAccepted, MessageAccepted, ReplyOwed, SessionOpened
from messages.base import Message
from messages.gateway import Author, ChatType, Origin, Part
from messages.ids import DeliveryId, MessageId, SessionId, SessionKey, StreamId, Turn
from messages.model import ModelRef
from store.journal import Journal
from tests.fakes.clock import START

ANN = Origin(platform="discord", chat_type=ChatType.DM, chat="c-ann", user="ann")
BEN = Origin(platform="discord", chat_type=ChatType.DM, chat="c-ben", user="ben")


class Talk:
    """Writes into a journal; each line is a minute after the one before."""

    def __init__(self, journal: Journal) -> None:
        self._journal = journal
        self._seqs: dict[StreamId, int] = {}
        self._lines = 0

    @property
    def now(self) -> datetime:
        return START + timedelta(minutes=self._lines)

    async def says(self, text: str, origin: Origin = ANN, name: str = "") -> SessionKey:
        """A person says something."""
        self._lines += 1
        key, user = key_of(origin), origin.user or "somebody"
        fact = MessageAccepted(
            message_id=MessageId(f"m{self._lines}"),
            session_id=SessionId("s1"),
            origin=origin,
            author=Author(id=user, name=name),
            text=text,
            at=self.now,
        )
        await self._append(key, origin, fact)
        return key

    async def commands(self, name: str, argument: str, origin: Origin = ANN) -> None:
        self._lines += 1
        fact = CommandAccepted(
            message_id=MessageId(f"m{self._lines}"),
            session_id=SessionId("s1"),
            origin=origin,
            author=Author(id=origin.user or "somebody"),
            name=name,
            argument=argument,
            at=self.now,
        )
        await self._append(key_of(origin), origin, fact)

    async def answers(self, text: str, origin: Origin = ANN, turn: int = 1) -> None:
        """The assistant answers."""
        self._lines += 1
        fact = ReplyOwed(
            delivery_id=DeliveryId(f"d{self._lines}"),
            origin=origin,
            parts=(Part(text=text),),
            session_id=SessionId("s1"),
            turn=Turn(turn),
            model=ModelRef(provider="fake", name="parrot"),
            at=self.now,
        )
        await self._append(key_of(origin), origin, fact)

    async def _append(self, key: SessionKey, origin: Origin, *facts: Message) -> None:
        stream = StreamId(f"session:{key}")
        if stream not in self._seqs:
            opened = SessionOpened(
                session_id=SessionId(f"s{len(self._seqs) + 1}"), session_key=key, origin=origin, at=self.now
            )
            facts = (opened, *facts)
            self._seqs[stream] = 0
        recorded = await self._journal.append(stream, self._seqs[stream], facts)
        self._seqs[stream] = recorded[-1].seq
