"""From an envelope to the core: each thing once, the messages of a channel in their order."""

import asyncio
from collections import Counter, OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import structlog

from actors.clock import Clock
from actors.gateway.edge import EdgeError, Hear
from actors.gateway.platforms.slack.envelopes import (
    Answerable,
    answerable,
    changed_user,
    chat_of,
    ending,
    identity,
    is_bare_mention,
    is_message_in_channel,
    needs,
)
from actors.gateway.platforms.slack.files import Attachments
from actors.gateway.platforms.slack.people import People
from actors.gateway.platforms.slack.translate import Heard, Reading, Refusal, translate
from messages.delivery import ProblemKind
from messages.gateway import EdgeHeard, MessageReceived

log = structlog.get_logger(__name__)

MOST_KNOWN = 20_000
"""Slack sends again within an hour; so many messages are remembered meanwhile."""

ANSWERABLE_S = 1740.0
"""Slack takes answers to an interaction for 30 minutes …"""

ANSWERS = 5
"""… and so many of them."""

MOST_ANSWERABLE = 2000

TWIN_S = 1.0
"""So long a mention waits for the other event that tells of the same message, and of its files: the order is Slack's."""

TRIES = 5
"""So often what was acknowledged is handed in again, after 1, 2, 4 … seconds."""


class Interactions:
    """Where interactions can be answered, for as long as they can."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._open: OrderedDict[str, tuple[Answerable, float, int]] = OrderedDict()

    def add(self, interaction: Answerable) -> None:
        self._open[interaction.id] = (interaction, self._clock.monotonic() + ANSWERABLE_S, ANSWERS)
        while len(self._open) > MOST_ANSWERABLE:
            self._open.popitem(last=False)

    def get(self, message_id: str | None) -> Answerable | None:
        """Return an interaction that can still be answered."""
        found = self._open.get(message_id or "")
        if found is None or found[1] <= self._clock.monotonic() or found[2] < 1:
            return None
        return found[0]

    def used(self, message_id: str) -> None:
        found = self._open.get(message_id)
        if found is not None:
            self._open[message_id] = (found[0], found[1], found[2] - 1)


class Lines:
    """Keeps what belongs to one channel in the order in which it came."""

    def __init__(self) -> None:
        self._last: dict[str, asyncio.Future[None]] = {}

    def join(self, chat: str) -> "Turn":
        """Take the next place in a channel's line. Whoever takes it must leave it."""
        mine: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        turn = Turn(self, chat, self._last.get(chat), mine)
        self._last[chat] = mine
        return turn

    def left(self, chat: str, place: "asyncio.Future[None]") -> None:
        if not place.done():
            place.set_result(None)
        if self._last.get(chat) is place:
            del self._last[chat]


@dataclass(frozen=True, slots=True)
class Turn:
    """A place in the line of a channel."""

    lines: Lines
    chat: str
    before: "asyncio.Future[None] | None"
    place: "asyncio.Future[None]"

    async def comes(self) -> None:
        """Wait until all before have been handed in."""
        if self.before is not None and not self.before.done():
            await asyncio.wait([self.before])

    def leave(self) -> None:
        self.lines.left(self.chat, self.place)


class Hearing:
    """Takes envelopes from the connection, whichever it is, and from the look back after a gap."""

    def __init__(
        self,
        hear: Hear,
        reading: Callable[[], Reading],
        people: People,
        attachments: Attachments,
        interactions: Interactions,
        clock: Clock,
    ) -> None:
        self._hear = hear
        self._clock = clock
        self._reading = reading
        self._people = people
        self._attachments = attachments
        self._interactions = interactions
        self._known: OrderedDict[str, asyncio.Task[None] | None] = OrderedDict()
        """What was taken, and what is being taken, by its identity."""
        self._twins: dict[str, asyncio.Future[dict[str, Any]]] = {}
        """By identity: mentions that wait for the other event of the same message."""
        self._told_all = True
        """Whether Slack tells us of all messages in channels, as far as we know, and not of mentions alone."""
        self._tasks: set[asyncio.Task[None]] = set()
        self.lines = Lines()
        self.refused: Counter[str] = Counter()
        """By the few words of `Refusal.why`."""
        self.ended: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        """Done when the app's access was withdrawn."""

    async def take(self, envelope: dict[str, Any], turn: Turn | None = None) -> None:
        """Hand in what an envelope says; return when it is durable (or nothing for us).

        Its place in the channel's line is taken before the first wait. Raises EdgeError
        when it was not taken: then it may come again.
        """
        key = identity(envelope)
        if is_message_in_channel(envelope):
            self._told_all = True
        if key is not None and key in self._known:
            self._hand_to_twin(key, envelope)
            under_way = self._known[key]
            if under_way is not None:
                await asyncio.shield(under_way)
            return
        if turn is None:
            turn = self.lines.join(chat_of(envelope))
        loop = asyncio.get_running_loop()
        if key is not None and self._told_all and is_bare_mention(envelope):
            self._twins[key] = loop.create_future()
        task = loop.create_task(self._taken(key, envelope, turn))
        self._tasks.add(task)
        task.add_done_callback(lambda done: self._settled(key, done))
        if key is not None:
            self._remember(key, task)
        await asyncio.shield(task)

    async def take_at_last(self, envelope: dict[str, Any], error: EdgeError) -> None:
        """Hand in again what was not taken though Slack was told that it was: nobody else will.

        Raises EdgeError when it is not taken all the same.
        """
        for attempt in range(TRIES):
            log.warning(
                "a message that was acknowledged was not taken", attempt=attempt + 1, why=error.problem.detail
            )
            await self._clock.sleep(float(2**attempt))
            try:
                await self.take(envelope)
            except EdgeError as again:
                error = again
            else:
                return
        raise error

    def knows(self, envelope: dict[str, Any]) -> bool:
        """Say whether it was taken already."""
        return identity(envelope) in self._known

    async def close(self) -> None:
        """Let go of what is under way."""
        tasks = tuple(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _remember(self, key: str, task: "asyncio.Task[None]") -> None:
        self._known[key] = task
        while len(self._known) > MOST_KNOWN:
            self._known.popitem(last=False)

    def _settled(self, key: str | None, task: "asyncio.Task[None]") -> None:
        self._tasks.discard(task)
        if key is None or key not in self._known:
            return
        if task.cancelled() or task.exception() is not None:
            del self._known[key]
        else:
            self._known[key] = None

    def _hand_to_twin(self, key: str, envelope: dict[str, Any]) -> None:
        twin = self._twins.get(key)
        if twin is not None and not twin.done() and not is_bare_mention(envelope):
            twin.set_result(envelope)

    async def _richer(self, key: str | None, envelope: dict[str, Any]) -> dict[str, Any]:
        """Return the event that says more, if there are two of the same message."""
        twin = self._twins.get(key) if key is not None else None
        if key is None or twin is None:
            return envelope
        bell = asyncio.ensure_future(self._clock.sleep(TWIN_S))
        try:
            either: set[asyncio.Future[Any]] = {twin, bell}
            await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
        finally:
            bell.cancel()
            del self._twins[key]
        if twin.done():
            return twin.result()
        self._told_all = False
        return envelope

    async def _taken(self, key: str | None, envelope: dict[str, Any], turn: Turn) -> None:
        try:
            message = await self._prepared(await self._richer(key, envelope))
            if message is None:
                return
            if not _steers(message):
                await turn.comes()
            handed_in = asyncio.ensure_future(self._hear(message))  # tasks begin in the order of their making
        finally:
            turn.leave()
        try:
            await handed_in
        except asyncio.CancelledError:
            handed_in.cancel()
            raise

    async def _prepared(self, envelope: dict[str, Any]) -> EdgeHeard | None:
        if (why := ending(envelope)) and not self.ended.done():
            self.ended.set_result(why)
        if user := changed_user(envelope):
            self._people.users.forget(user)
        reading = self._reading()
        names = await self._people.known(needs(envelope, reading.us.user_id))
        heard = translate(envelope, reading, names)
        if isinstance(heard, Refusal):
            self.refused[heard.why] += 1
            log.debug("not for us", why=heard.why)
            return None
        if (interaction := answerable(envelope)) is not None:
            self._interactions.add(interaction)
        return await self._with_files(heard)

    async def _with_files(self, heard: Heard) -> EdgeHeard:
        if not heard.files or not isinstance(heard.message, MessageReceived):
            return heard.message
        blocks = await self._attachments.fetch(heard.files)
        return heard.message.model_copy(update={"attachments": blocks})


def _steers(message: EdgeHeard) -> bool:
    """Whether it may not wait behind somebody's large file: `/stop`, say."""
    return isinstance(message, MessageReceived) and message.text.startswith("/")


def not_taken(error: BaseException) -> EdgeError:
    """Say in the port's words that something could not be handed in."""
    if isinstance(error, EdgeError):
        return error
    return EdgeError(ProblemKind.TRANSIENT, f"a message was not taken: {error!r}")
