"""Handing updates in: in the order of each chat, albums whole, and confirmed only when they are durable.

An update is confirmed to Telegram when everything up to it is settled (see `Intake.next_offset`);
until then the service gives it again, and a death of the process loses nothing. Downloads
begin on arrival, so that one chat's slow file holds up that chat alone, and never a `/stop`.

The pieces of an album come as messages of their own. They are collected for a second after
the last one's arrival, at most three after the first; how long their files take to fetch
has no part in that.
"""

import asyncio
from collections import Counter, OrderedDict
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import Any

import structlog

from actors.clock import Alarm, Clock
from actors.gateway.commands import parse
from actors.gateway.edge import EdgeError, Hear
from actors.gateway.platforms.telegram.fetch import Fetcher
from actors.gateway.platforms.telegram.translate import Ear, Heard, Refusal, translate, update_id
from messages.blocks import UserBlock
from messages.delivery import ProblemKind
from messages.gateway import Acceptance, ChatMoved, EdgeHeard, MessageEdited, MessageReceived, Receipt

log = structlog.get_logger(__name__)

ALBUM_QUIET_S = 1.0
ALBUM_MOST_S = 3.0
MOST_PIECES = 10
MOST_REMEMBERED = 5000

AlbumName = tuple[str, str, str]


@dataclass(eq=False)
class _Item:
    """What is handed in as one message: an update, or the pieces of an album."""

    chat: str
    pieces: list[tuple[Heard, "asyncio.Task[tuple[UserBlock, ...]] | None"]]
    settled: "asyncio.Future[None]"
    begun: asyncio.Event = field(default_factory=asyncio.Event)
    """Set when its handing in has begun, or will not."""
    complete: asyncio.Event = field(default_factory=asyncio.Event)
    alarm: Alarm | None = None
    until: float = 0.0


@dataclass(frozen=True, slots=True)
class IntakeLinks:
    """Whom the intake tells what."""

    hear: Hear
    refused: Callable[[MessageReceived, str], Awaitable[None]]
    """Tell somebody why their message was not taken."""
    pressed: Callable[[Heard], None]
    """A button was pressed: the service wants that acknowledged at once."""
    moved: Callable[[ChatMoved], bool]
    """A chat has moved; returns False when that was known."""


class Intake:
    """One connection's. `take` in the order of the updates; `stop` when the connection ends."""

    def __init__(self, ear: Ear, fetcher: Fetcher, clock: Clock, links: IntakeLinks) -> None:
        self._ear = ear
        self._fetcher = fetcher
        self._clock = clock
        self._links = links
        self._open: dict[int, asyncio.Future[None]] = {}
        """By the number of the update: what is not confirmed yet."""
        self._highest: int | None = None
        self._waiting = 0
        self._stopping = False
        self._quiet = asyncio.Event()
        self._quiet.set()
        self._last: dict[str, _Item] = {}
        """By chat: what the next message has to wait for."""
        self._albums: dict[AlbumName, _Item] = {}
        self._texts: OrderedDict[tuple[str, str], bytes] = OrderedDict()
        self._tasks: set[asyncio.Task[Any]] = set()
        self.refusals: Counter[str] = Counter()
        self.failure: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        """Fails when a message could not be handed in: the connection must end, and hear it again."""

    # ------------------------------------------------------------------ updates

    def take(self, update: object) -> "asyncio.Future[None]":
        """Take an update in; what is returned is done when it may be confirmed."""
        number = update_id(update)
        if number is not None and number in self._open:
            return self._open[number]
        settled: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting += 1
        self._quiet.clear()
        settled.add_done_callback(self._one_settled)
        if number is not None:
            self._open[number] = settled
            self._highest = number if self._highest is None else max(self._highest, number)
        heard = self._translated(update)
        if isinstance(heard, Refusal):
            self._refuse(heard.why, settled)
        else:
            self._place(heard, settled)
        return settled

    def _translated(self, update: object) -> Heard | Refusal:
        try:
            return translate(update, self._ear, self._clock.now())
        except Exception:
            # It would come again, and end every connection: one odd update must not do that.
            log.exception("an update could not be translated")
            return Refusal("crashed")

    def _one_settled(self, _: "asyncio.Future[None]") -> None:
        self._waiting -= 1
        if not self._waiting:
            self._quiet.set()

    def next_offset(self) -> int | None:
        """Return the first update that is not settled yet, None when none ever came; forget those before it."""
        waiting = [number for number, settled in self._open.items() if not settled.done()]
        lowest = min(waiting, default=None if self._highest is None else self._highest + 1)
        if lowest is not None:
            for number in [n for n in self._open if n < lowest]:
                del self._open[number]
        return lowest

    def forget_numbers(self) -> None:
        """After a week without updates the service may begin with any number, a lower one too."""
        if not self.busy:
            self._open.clear()
            self._highest = None

    @property
    def busy(self) -> bool:
        return self._waiting > 0

    async def settle(self, seconds: float) -> None:
        """Wait until all is settled, at most so long. Raises what ended the handing in."""
        if self.busy and not self.failure.done():
            quiet = asyncio.ensure_future(self._quiet.wait())
            bell = asyncio.ensure_future(self._clock.sleep(seconds))
            wanted: set[asyncio.Future[Any]] = {quiet, bell, self.failure}
            try:
                await asyncio.wait(wanted, return_when=asyncio.FIRST_COMPLETED)
            finally:
                quiet.cancel()
                bell.cancel()
        if self.failure.done():
            self.failure.result()

    async def stop(self) -> None:
        """End everything; what was not confirmed comes again."""
        self._stopping = True
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        for item in self._albums.values():
            if item.alarm is not None:
                item.alarm.cancel()
        for settled in self._open.values():
            settled.cancel()
        if not self.failure.cancel() and not self.failure.cancelled():
            self.failure.exception()  # has been told, or the connection ended for another reason

    def _refuse(self, why: str, settled: "asyncio.Future[None]") -> None:
        self.refusals[why] += 1
        log.debug("an update says nothing to us", why=why)
        settled.set_result(None)

    # ------------------------------------------------------------------ order

    def _place(self, heard: Heard, settled: "asyncio.Future[None]") -> None:
        message = heard.message
        if heard.query:
            self._links.pressed(heard)
        if isinstance(message, ChatMoved):
            if not self._links.moved(message):
                self._refuse("moved before", settled)
                return
        elif not self._is_news(message):
            self._refuse("nothing changed", settled)
            return
        chat = message.new if isinstance(message, ChatMoved) else message.origin.chat or ""
        files = self._spawn(self._fetcher.fetch(chat, heard.files)) if heard.files else None
        if heard.album is not None:
            self._collect(heard.album, chat, (heard, files), settled)
            return
        self._close_albums_of(chat, message)
        item = _Item(chat, [(heard, files)], settled)
        item.complete.set()
        before = None if _is_urgent(heard) else self._last.get(chat)
        if not _is_urgent(heard):
            self._last[chat] = item
        self._spawn(self._hand_in(item, before))

    def _collect(
        self,
        name: AlbumName,
        chat: str,
        piece: tuple[Heard, "asyncio.Task[tuple[UserBlock, ...]] | None"],
        settled: "asyncio.Future[None]",
    ) -> None:
        now = self._clock.monotonic()
        item = self._albums.get(name)
        if item is None:
            item = self._albums[name] = _Item(chat, [], settled, until=now + ALBUM_MOST_S)
            before, self._last[chat] = self._last.get(chat), item
            self._spawn(self._hand_in(item, before))
        else:
            item.settled.add_done_callback(lambda done: _follow(done, settled))
        item.pieces.append(piece)
        if item.alarm is not None:
            item.alarm.cancel()
        if len(item.pieces) >= MOST_PIECES:
            self._close(name)
            return
        wait = min(ALBUM_QUIET_S, max(item.until - now, 0.0))
        item.alarm = self._clock.call_later(wait, lambda: self._close(name))

    def _close(self, name: AlbumName) -> None:
        item = self._albums.pop(name, None)
        if item is not None:
            if item.alarm is not None:
                item.alarm.cancel()
            item.complete.set()

    def _close_albums_of(self, chat: str, message: EdgeHeard) -> None:
        """Whoever says something else has sent the whole album."""
        if isinstance(message, MessageReceived) and message.via == "message":
            for name in [n for n in self._albums if n[:2] == (chat, message.author.id)]:
                self._close(name)

    def _is_news(self, message: EdgeHeard) -> bool:
        """Whether an edit changed the text, as far as we know; notes the texts of new messages."""
        if not isinstance(message, MessageReceived | MessageEdited) or message.origin.chat is None:
            return True
        name = (message.origin.chat, message.message_id)
        digest = blake2b(message.text.encode("utf-8", "surrogatepass"), digest_size=16).digest()
        known = self._texts.pop(name, None)
        self._texts[name] = digest
        if len(self._texts) > MOST_REMEMBERED:
            self._texts.popitem(last=False)
        return not isinstance(message, MessageEdited) or known != digest

    # ------------------------------------------------------------------ handing in

    def _spawn(self, work: Any) -> "asyncio.Task[Any]":
        task: asyncio.Task[Any] = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    async def _hand_in(self, item: _Item, before: _Item | None) -> None:
        try:
            await item.complete.wait()
            message = await _whole(item)
            if before is not None:
                await before.begun.wait()
            if self.failure.done():
                return  # what came before it was not taken: both come again
            handing = self._spawn(self._heard(message))  # tasks begin in the order in which they are made
            item.begun.set()
            receipt = await handing
        except asyncio.CancelledError:
            # Not by us: whoever was to take it has gone away.
            self._fail(EdgeError(ProblemKind.TRANSIENT, "a message was given up while it was handed in"))
            raise
        except Exception as error:  # noqa: BLE001 it ends the connection, with its cause
            # Whatever it was: without this one nothing may be confirmed.
            log.warning("a message could not be handed in", error=f"{type(error).__name__}: {error}")
            self._fail(error)
        else:
            if not item.settled.done():
                item.settled.set_result(None)
            if (
                isinstance(message, MessageReceived)
                and receipt.acceptance is Acceptance.REFUSED
                and receipt.why
            ):
                await self._links.refused(message, receipt.why)
        finally:
            item.begun.set()
            if self._last.get(item.chat) is item:
                del self._last[item.chat]

    def _fail(self, error: Exception) -> None:
        if not self._stopping and not self.failure.done():
            self.failure.set_exception(error)

    async def _heard(self, message: EdgeHeard) -> Receipt:
        return await self._links.hear(message)


async def _whole(item: _Item) -> EdgeHeard:
    """Wait for the files, and make one message of it, in the order of the messages' ids."""
    blocks: dict[int, tuple[UserBlock, ...]] = {}
    for place, (_, files) in enumerate(item.pieces):
        blocks[place] = await files if files is not None else ()
    first = item.pieces[0][0].message
    if not isinstance(first, MessageReceived):
        return first
    order = sorted(blocks, key=lambda place: _number_of(item.pieces[place][0].message))
    messages = [m for place in order if isinstance(m := item.pieces[place][0].message, MessageReceived)]
    attached: list[UserBlock] = []
    for place, message in zip(order, messages, strict=True):
        attached += [note for note in message.attachments if note not in attached]
        attached += blocks[place]
    speaking = next((m for m in messages if m.text.strip()), messages[0])
    return speaking.model_copy(
        update={
            "message_id": messages[0].message_id,
            "mentions_us": any(m.mentions_us for m in messages),
            "quote": next((m.quote for m in messages if m.quote is not None), None),
            "text": "\n".join(m.text for m in messages if m.text.strip()),
            "attachments": tuple(attached),
        }
    )


def _number_of(message: EdgeHeard) -> int:
    return int(message.message_id) if isinstance(message, MessageReceived) else 0


def _follow(done: "asyncio.Future[None]", other: "asyncio.Future[None]") -> None:
    if other.done():
        return
    if done.cancelled():
        other.cancel()
    else:
        other.set_result(None)


def _is_urgent(heard: Heard) -> bool:
    """Whether it may go before what its chat still waits for: buttons, and what stops us."""
    message = heard.message
    if not isinstance(message, MessageReceived) or heard.files:
        return False
    command = parse(message.text)
    return message.via == "button" or (command is not None and command.name == "stop")
