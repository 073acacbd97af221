"""Callers that wait for the answer: from a message to the HTTP response that is kept open for it."""

import asyncio
from collections import OrderedDict
from dataclasses import dataclass, field
from typing import Final

from actors.gateway.edge import EdgeError
from messages.delivery import Place, Post, ProblemKind

MOST_KEPT: Final = 500
"""Answers that are kept for callers who ask again; of this life alone."""

SENDING_S: Final = 20.0

APPROVAL: Final = "approval"
"""Instead of an answer: a tool waits for somebody's yes, and the answer comes later."""


@dataclass(frozen=True, slots=True)
class Answer:
    """What a caller is told in the end."""

    text: str
    instead: str = ""
    """What it is instead of an answer; see `messages.gateway.Say`."""


@dataclass(eq=False, slots=True)
class Waiter:
    """One caller."""

    message_id: str
    place: Place
    answer: "asyncio.Future[Answer]" = field(
        default_factory=lambda: asyncio.get_running_loop().create_future()
    )
    sent: "asyncio.Future[bool]" = field(default_factory=lambda: asyncio.get_running_loop().create_future())
    """Whether the caller got it."""

    def was_sent(self, *, well: bool) -> None:
        if not self.sent.done():
            self.sent.set_result(well)


class Waiting:
    """Those who wait, in the order in which they came."""

    def __init__(self) -> None:
        self._waiters: dict[Waiter, None] = {}
        self._parts: dict[str, list[str]] = {}
        """What has come so far of answers in several parts, by delivery."""
        self._kept: OrderedDict[str, Answer] = OrderedDict()

    def add(self, message_id: str, place: Place) -> Waiter:
        waiter = Waiter(message_id, place)
        self._waiters[waiter] = None
        return waiter

    def remove(self, waiter: Waiter) -> None:
        self._waiters.pop(waiter, None)
        if not waiter.answer.done():
            waiter.answer.cancel()
        waiter.was_sent(well=False)
        if not self._waiters:
            self._parts.clear()

    def kept(self, message_id: str) -> Answer | None:
        """Return the answer that a message had lately."""
        return self._kept.get(message_id)

    async def take(self, post: Post) -> bool:
        """Give a post to whom it answers; False when nobody waits for it.

        Raises EdgeError UNKNOWN when the caller went away while it was being sent.
        """
        waiters = self._for(post)
        if not waiters:
            return False
        parts = self._parts.setdefault(post.delivery_id, [])
        if len(parts) < post.part:
            parts.append(post.body.text)
        if post.part < post.of:
            return True
        answer = Answer("\n\n".join(self._parts.pop(post.delivery_id, parts)), post.instead)
        for waiter in waiters:
            if not waiter.answer.done():
                waiter.answer.set_result(answer)
                if answer.instead != APPROVAL:  # who asks again may get the answer itself
                    self._keep(waiter.message_id, answer)
        try:
            async with asyncio.timeout(SENDING_S):
                well = await asyncio.gather(*(asyncio.shield(waiter.sent) for waiter in waiters))
        except TimeoutError:
            well = [False]
        if not any(well):
            raise EdgeError(ProblemKind.UNKNOWN, "the caller went away while the answer was being sent")
        return True

    def _for(self, post: Post) -> list[Waiter]:
        """Those whom a post answers: the one it replies to, and who came before it in the same place.

        Messages of a place are answered in their order, so a message before it that has
        no answer yet was answered together with it.
        """
        here = [w for w in self._waiters if w.place == post.place and not w.answer.done()]
        ids = [waiter.message_id for waiter in here]
        if post.reply_to not in ids:
            return []
        first = ids.index(post.reply_to)
        return [w for n, w in enumerate(here) if n <= first or w.message_id == post.reply_to]

    def _keep(self, message_id: str, answer: Answer) -> None:
        self._kept[message_id] = answer
        while len(self._kept) > MOST_KEPT:
            self._kept.popitem(last=False)

    def stop(self) -> None:
        """Nobody is answered any more."""
        for waiter in list(self._waiters):
            self.remove(waiter)
