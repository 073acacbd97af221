"""A long text that a person's own program cut into several messages is one message again.

Nothing links the pieces but their length. Programs cut a text that is too long at the
best place in the second half of what fits: between paragraphs, else lines, sentences,
words. So a message that is longer than half the limit waits for more by the same person
in the same place: for a second when it is nearly as long as a message can be, else for
a moment. Every other is handed in at once. What is joined is one message under the
first piece's id, and every piece gets its receipt: until then the platform knows none
of them as taken, so that a crash loses nothing.

A person's messages in one place keep their order. The message that was joined counts
as said with its last piece: what others said meanwhile came before it.
"""

import asyncio
import itertools
from collections import OrderedDict
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from typing import Any, Final

from actors.clock import Alarm, Clock
from actors.gateway.chunks import Unit, measure
from actors.gateway.commands import parse
from actors.gateway.edge import Hear
from actors.gateway.registry import Limits
from messages.gateway import ChatMoved, EdgeHeard, MessageEdited, MessageReceived, Receipt
from messages.ids import MessageId

WAIT_S: Final = 1.0
"""How long the next piece may take. Programs send the pieces within some tens of milliseconds."""

MOMENT_S: Final = 0.4
"""The same, after a piece that may well be a whole message: most of them are."""

SLACK: Final = 50
"""What is so much shorter than the limit, or less, was hardly written to that length by chance."""

MOST_JOINED: Final = 500
"""So many joined messages are remembered, for edits of their pieces."""

MOST_PIECES: Final = 20
"""What is cut into more is handed in as several messages."""

APART_S: Final = 5.0
"""Messages that the platform dates so far apart are not pieces of one: they came late, and together."""

ONCE_S: Final = 1.0
"""A piece that mentions us is dated so closely: platforms tell whole seconds, and nobody types that fast."""

_URGENT: Final = frozenset({"stop"})
"""Commands that never wait, whatever their length."""


@dataclass(frozen=True, slots=True)
class JoinRules:
    """Where a platform's programs cut."""

    at: int
    unit: Unit = Unit.CHARACTERS

    @classmethod
    def of(cls, limits: Limits) -> "JoinRules | None":
        """Return the rules of a platform; None where nobody cuts."""
        return None if limits.joins_at is None else cls(limits.joins_at, limits.unit)


def patience(message: MessageReceived, rules: JoinRules) -> float:
    """Say for how many seconds a message's rest may follow; 0 where there can be none."""
    if message.via != "message" or message.attachments or message.album is not None or message.author.bot:
        return 0.0
    length = measure(message.text, rules.unit)
    if message.mentions_us:
        length += SLACK  # our mention was taken away from its start
    if length <= rules.at // 2 or _is_urgent(message):
        return 0.0
    return WAIT_S if length >= rules.at - SLACK else MOMENT_S


def goes_on(pieces: tuple[MessageReceived, ...], message: MessageReceived) -> bool:
    """Say whether a message can be the next piece, given that it is the same person's in the same place.

    Of a text that replies to something, each piece is such a reply, or the first alone is.
    What mentions us, and is no later than the platform can tell, does so in the middle of the text.
    """
    if message.via != "message" or message.author.bot:
        return False
    if message.attachments or message.album is not None:
        return False
    if message.quote is not None and message.quote.message_id != _replied(pieces):
        return False
    if message.message_id in {piece.message_id for piece in pieces} or parse(message.text) is not None:
        return False
    before, now = pieces[-1].sent_at, message.sent_at
    if before is None or now is None:
        return not message.mentions_us
    return abs((now - before).total_seconds()) <= (ONCE_S if message.mentions_us else APART_S)


def _replied(pieces: tuple[MessageReceived, ...]) -> MessageId | None:
    quote = pieces[0].quote
    return None if quote is None else quote.message_id


def joined(pieces: tuple[MessageReceived, ...], rules: JoinRules) -> MessageReceived:
    """Make one message of the pieces. A command keeps its meaning: it stands at the very start."""
    first = pieces[0]
    if len(pieces) == 1:
        return first
    text = first.text
    for before, piece in itertools.pairwise(pieces):
        text += _seam(before, piece, rules) + piece.text
    mentions_us = any(piece.mentions_us for piece in pieces)
    return first.model_copy(update={"text": text, "mentions_us": mentions_us})


def _seam(before: MessageReceived, after: MessageReceived, rules: JoinRules) -> str:
    """What was lost at the cut: nothing in the middle of a word, else the blank that programs take away."""
    cut_hard = measure(before.text, rules.unit) >= rules.at
    blank = before.text[-1:].isspace() or after.text[:1].isspace()
    return "" if cut_hard or blank else "\n"


def _is_urgent(message: MessageReceived) -> bool:
    command = parse(message.text)
    return command is not None and command.name in _URGENT


# ------------------------------------------------------------------ the shell


@dataclass(frozen=True, slots=True)
class _Who:
    """One person in one place."""

    chat: str | None
    thread: str | None
    user: str

    @classmethod
    def of(cls, message: MessageReceived) -> "_Who":
        origin = message.origin
        return cls(origin.chat or None, origin.thread or None, message.author.id)


@dataclass(slots=True)
class _Held:
    """Pieces that wait for the rest, and who waits for their receipts."""

    pieces: tuple[MessageReceived, ...] = ()
    waiting: list["asyncio.Future[Receipt]"] = field(default_factory=list)
    alarm: Alarm | None = None


class Joiner:
    """Stands before whoever hears one account's messages. Call `hear` in the order of the messages."""

    def __init__(
        self,
        rules: JoinRules | None,
        clock: Clock,
        hear: Hear,
        spawn: Callable[[Coroutine[Any, Any, None]], object],
    ) -> None:
        """`spawn` runs a coroutine whose end nobody waits for; it must begin them in order."""
        self._rules = rules
        self._clock = clock
        self._hear = hear
        self._spawn = spawn
        self._held: dict[_Who, _Held] = {}
        self._unbegun: dict[_Who, int] = {}
        """Hand-ins that are spawned and have not begun: what comes now must come after them."""
        self._joined: OrderedDict[tuple[str | None, MessageId], tuple[MessageReceived, ...]] = OrderedDict()
        """By chat and the first piece's id: the pieces as they stand now."""

    async def hear(self, heard: EdgeHeard) -> Receipt:
        """Hand a message in, alone or joined with others; return what became of it."""
        if self._rules is None:
            return await self._hear(heard)
        if not isinstance(heard, MessageReceived):
            return await self._hear_news(heard)
        who = _Who.of(heard)
        held = self._held.get(who)
        if held is not None and goes_on(held.pieces, heard):
            return await self._wait(who, held, heard)
        if held is not None:
            self._release(who)
        if patience(heard, self._rules):
            held = self._held[who] = _Held()
            return await self._wait(who, held, heard)
        if who in self._unbegun:
            return await self._hand_in(who, heard)
        return await self._hear(heard)

    async def _hear_news(self, heard: EdgeHeard) -> Receipt:
        """An edit, a deletion, a move: what it may be about is handed in before it."""
        chat = heard.old if isinstance(heard, ChatMoved) else heard.origin.chat
        touched = [who for who in self._held if who.chat == chat or chat is None]
        for who in touched:
            self._release(who)
        if isinstance(heard, MessageEdited):
            heard = self._of_the_whole(heard)
        behind = [who for who in self._unbegun if who.chat == chat or chat is None]
        return await (self._hand_in(behind[-1], heard) if behind else self._hear(heard))

    def _of_the_whole(self, edit: MessageEdited) -> MessageEdited:
        """Make an edit of one piece an edit of what it was joined to."""
        assert self._rules is not None
        for place, pieces in self._joined.items():
            if place[0] != edit.origin.chat or edit.message_id not in {piece.message_id for piece in pieces}:
                continue
            edited = tuple(
                piece.model_copy(update={"text": edit.text}) if piece.message_id == edit.message_id else piece
                for piece in pieces
            )
            self._joined[place] = edited
            whole = joined(edited, self._rules)
            return edit.model_copy(update={"message_id": whole.message_id, "text": whole.text})
        return edit

    async def _wait(self, who: _Who, held: _Held, piece: MessageReceived) -> Receipt:
        assert self._rules is not None
        receipt: asyncio.Future[Receipt] = asyncio.get_running_loop().create_future()
        held.pieces = (*held.pieces, piece)
        held.waiting.append(receipt)
        if held.alarm is not None:
            held.alarm.cancel()
            held.alarm = None
        wait = patience(piece, self._rules)
        if wait and len(held.pieces) < MOST_PIECES:
            held.alarm = self._clock.call_later(wait, lambda: self._release_if(who, held))
        else:
            self._release(who)
        try:
            return (await receipt).model_copy(update={"message_id": piece.message_id})
        except asyncio.CancelledError:
            self._abandoned(who, held)
            raise

    def _abandoned(self, who: _Who, held: _Held) -> None:
        """Whoever heard a piece is gone, so the platform will send all of them again: forget them."""
        if self._held.get(who) is held:
            del self._held[who]
            if held.alarm is not None:
                held.alarm.cancel()
            for receipt in held.waiting:
                receipt.cancel()

    def _release_if(self, who: _Who, held: _Held) -> None:
        if self._held.get(who) is held:
            self._release(who)

    def _release(self, who: _Who) -> None:
        assert self._rules is not None
        held = self._held.pop(who)
        if held.alarm is not None:
            held.alarm.cancel()
        if len(held.pieces) > 1:
            self._joined[held.pieces[0].origin.chat, held.pieces[0].message_id] = held.pieces
            if len(self._joined) > MOST_JOINED:
                self._joined.popitem(last=False)
        self._start(who, joined(held.pieces, self._rules), held.waiting)

    async def _hand_in(self, who: _Who, heard: EdgeHeard) -> Receipt:
        receipt: asyncio.Future[Receipt] = asyncio.get_running_loop().create_future()
        self._start(who, heard, [receipt])
        return await receipt

    def _start(self, who: _Who, heard: EdgeHeard, waiting: "list[asyncio.Future[Receipt]]") -> None:
        self._unbegun[who] = self._unbegun.get(who, 0) + 1
        self._spawn(self._carry(who, heard, waiting))

    async def _carry(self, who: _Who, heard: EdgeHeard, waiting: "list[asyncio.Future[Receipt]]") -> None:
        left = self._unbegun.pop(who) - 1
        if left:
            self._unbegun[who] = left
        try:
            receipt = await self._hear(heard)
        except asyncio.CancelledError:
            for each in waiting:
                each.cancel()
            raise
        except Exception as error:  # noqa: BLE001 handed to those who wait for the receipts
            for each in waiting:
                if not each.done():
                    each.set_exception(error)
            return
        for each in waiting:
            if not each.done():
                each.set_result(receipt)
