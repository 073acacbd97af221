"""Up to where each chat of an account was heard: what an edge needs to fetch what it missed.

The store says it for earlier lives; this life notes it as messages become durable. A
mark moves over a message only when all that came before it in that place are durable
too: what a lost connection took with it is fetched again.
"""

from collections import deque
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, Final, Protocol

import structlog

from actors.clock import Clock
from actors.gateway.edge import LastHeard
from messages.delivery import Place
from messages.gateway import MessageReceived
from store.journal import JournalUnavailableError
from store.store import QueryError

log = structlog.get_logger(__name__)

LOOK_BACK: Final = timedelta(days=7)
"""What was missed longer ago nobody expects an answer to."""

MOST_PLACES: Final = 10_000
LOAD_S: Final = 10.0
"""How long the store may take; without an answer, edges begin with what is new."""

_LATEST: Final = """
SELECT chat, thread, CASE WHEN coalesce(chat, '') = '' THEN author_id END AS person,
       arg_max(message_id, id) AS latest, max(said_at) AS latest_at
FROM messages
WHERE platform = ? AND account = ? AND role IN ('user', 'command') AND message_id IS NOT NULL AND said_at > ?
GROUP BY ALL ORDER BY latest_at DESC
"""


class FoundRows(Protocol):
    """What a query found."""

    @property
    def rows(self) -> Sequence[Sequence[object]]: ...


Select = Callable[..., Awaitable[FoundRows]]
"""As `store.store.Store.select`."""


@dataclass(slots=True)
class Mark:
    """One message on its way in."""

    place: Place
    latest: LastHeard
    marks: "Marks"
    done: bool = False

    def taken(self) -> None:
        """It is durable, or was refused for good."""
        self.done = True
        self.marks.advance(self.place)

    def lost(self) -> None:
        """Nobody took it: until the next connection, the place's mark stays before it."""
        self.marks.hold(self.place)


@dataclass
class Marks:
    """The marks of one account. `load` once, then `begin`, and `taken` or `lost`, for each message."""

    platform: str
    account: str
    _known: dict[str, LastHeard] = field(default_factory=dict)
    _under_way: dict[Place, deque[Mark]] = field(default_factory=dict)
    _held: set[Place] = field(default_factory=set)
    """Places in which something was lost since the last snapshot."""
    _loaded: bool = False

    async def load(self, select: Select, clock: Clock) -> None:
        """Read what earlier lives heard, once; whatever goes wrong with it is no reason not to connect."""
        if self._loaded:
            return
        self._loaded = True
        since = clock.now() - LOOK_BACK
        try:
            found = await select(
                _LATEST, [self.platform, self.account, since], timeout_s=LOAD_S, max_rows=MOST_PLACES
            )
        except (QueryError, JournalUnavailableError, TimeoutError) as error:
            log.warning("what was heard last could not be read", platform=self.platform, error=str(error))
            return
        for chat, thread, person, latest, at in found.rows:
            self._add(_place(chat, thread, person), str(latest), at)

    def _add(self, place: Place, message_id: str, at: Any) -> None:
        if isinstance(at, datetime):
            self._known.setdefault(str(place), LastHeard(message_id=message_id, at=at))

    def snapshot(self) -> Mapping[str, LastHeard]:
        """Return the marks as they stand; what was under way counts as missed from now on."""
        self._under_way.clear()
        self._held.clear()
        return dict(self._known)

    def begin(self, message: MessageReceived) -> Mark:
        """Note that a message is being handed in, in the order of the messages."""
        origin = message.origin
        place = _place(origin.chat, origin.thread, None if origin.chat else origin.user)
        latest = LastHeard(message_id=str(message.message_id), at=message.sent_at or message.at)
        mark = Mark(place, latest, self)
        if place not in self._held:
            self._under_way.setdefault(place, deque()).append(mark)
        return mark

    def hold(self, place: Place) -> None:
        """Move no further in a place."""
        self._under_way.pop(place, None)
        self._held.add(place)

    def advance(self, place: Place) -> None:
        """Move over what is durable."""
        waiting = self._under_way.get(place)
        while waiting and waiting[0].done:
            self._note(place, waiting.popleft().latest)
        if waiting is not None and not waiting:
            del self._under_way[place]

    def _note(self, place: Place, latest: LastHeard) -> None:
        name = str(place)
        self._known.pop(name, None)
        self._known[name] = latest
        if len(self._known) > MOST_PLACES:
            del self._known[next(iter(self._known))]


def _place(chat: object, thread: object, user: object) -> Place:
    return Place(chat=_text(chat), thread=_text(thread), user=None if _text(chat) else _text(user))


def _text(value: object) -> str | None:
    return str(value) if value else None
