"""Places at a provider, shared fairly between chats.

As long as there are free places, whoever comes takes one. When there are none, the
next that becomes free goes to the chat that holds the fewest, and among those to the
one that has waited longest for its turn: a chat with a hundred questions and a chat
with one get the same share, and nobody waits behind somebody else's queue.
"""

import asyncio
from collections import Counter, OrderedDict, deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager


class FairPlaces:
    """`async with places.taken(share)`: waits for a place on behalf of a share (a chat)."""

    def __init__(self, limit: int) -> None:
        self._free = limit
        self._held: Counter[str] = Counter()
        self._waiting: OrderedDict[str, deque[asyncio.Future[None]]] = OrderedDict()
        """By share; the share whose turn was longest ago first."""

    @asynccontextmanager
    async def taken(self, share: str) -> AsyncIterator[None]:
        """Hold a place. Who is cancelled while waiting gives its turn away."""
        await self._take(share)
        try:
            yield
        finally:
            self._leave(share)

    @property
    def waiting(self) -> int:
        """How many wait for a place."""
        return sum(map(len, self._waiting.values()))

    def held_by(self, share: str) -> int:
        """Return how many places a share holds."""
        return self._held[share]

    async def _take(self, share: str) -> None:
        if self._free > 0:
            self._free -= 1
            self._held[share] += 1
            return
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(share, deque()).append(turn)
        try:
            await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():
                self._leave(share)  # the place came in the same moment: it goes on to the next
            else:
                self._forget(share, turn)
            raise

    def _leave(self, share: str) -> None:
        self._held[share] -= 1
        if not self._held[share]:
            del self._held[share]
        self._free += 1
        self._hand_on()

    def _hand_on(self) -> None:
        while self._free > 0 and self._waiting:
            share = min(self._waiting, key=lambda each: self._held[each])  # the first of the least
            queue = self._waiting[share]
            turn = queue.popleft()
            if queue:
                self._waiting.move_to_end(share)
            else:
                del self._waiting[share]
            if not turn.done():
                self._free -= 1
                self._held[share] += 1
                turn.set_result(None)

    def _forget(self, share: str, turn: "asyncio.Future[None]") -> None:
        queue = self._waiting.get(share)
        if queue is not None and turn in queue:
            queue.remove(turn)
            if not queue:
                del self._waiting[share]
