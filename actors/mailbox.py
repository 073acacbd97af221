"""The mailbox: two lanes, control before work, and a bound that refuses instead of blocking.

Who may touch what. Taking is done on the loop only. Putting is done from any
thread: on the loop without a lock where nothing can collide (appending to a lane
that exists), elsewhere under the lock that all mailboxes of a system share. A lane
exists only while it holds something: an idle actor's mailbox costs nothing but
itself.
"""

import asyncio
import threading
from collections import deque
from typing import Any, Final, Protocol

from pykka import ActorDeadError

from messages.base import Lane, Message

WORK: Final = 0
CONTROL: Final = 1
BOUNDED: Final = 2
"""Work that a full mailbox refuses."""


class MailboxFullError(Exception):
    """A message was refused: as many as the mailbox takes are waiting. Try again later.

    `tell` raises it to the teller; `ask` sets it on the future.
    """

    def __init__(self, name: str, limit: int) -> None:
        super().__init__(f"{name} is busy: {limit} messages wait already; this one was not taken, try again")
        self.name = name
        self.limit = limit


class ControlSignal:
    """Base of what the runtime tells its own actors; travels before all work."""

    __slots__ = ()


class Owner(Protocol):
    """The actor behind a mailbox."""

    def _wake(self) -> None:
        """Start handling; called on the loop when there is mail and nobody is at it."""
        ...

    def _label(self) -> str:
        """Say whose mailbox it is, for people."""
        ...


class Home:
    """What all mailboxes of one system share: the loop, its thread, a lock, and the count of refusals."""

    __slots__ = ("lock", "loop", "refusals", "thread")

    def __init__(self, loop: asyncio.AbstractEventLoop, thread: int) -> None:
        self.loop = loop
        self.thread = thread
        """The loop's thread, by `threading.get_ident`; 0 while unknown."""
        self.lock = threading.Lock()
        self.refusals = 0


_KINDS: dict[type, int] = {}


def _kind_of(message_type: type) -> int:
    """Find out once per type how its messages travel."""
    if issubclass(message_type, Message):
        control = message_type.lane is Lane.CONTROL
        kind = CONTROL if control else BOUNDED if message_type.bounded else WORK
    else:
        kind = CONTROL if issubclass(message_type, ControlSignal) else WORK
    _KINDS[message_type] = kind
    return kind


class Mailbox:
    """One actor's mail. `awake` says that its owner is at work, or about to be."""

    __slots__ = ("_bounded", "_control", "_home", "_limit", "_owner", "_posted", "_work", "awake")

    def __init__(self, home: Home, owner: Owner, limit: int) -> None:
        self._home = home
        self._owner: Owner | None = owner
        self._limit = limit
        self._control: deque[Any] | None = None
        self._work: deque[Any] | None = None
        self._bounded = 0
        self._posted = False
        self.awake = False

    def __len__(self) -> int:
        return len(self._control or ()) + len(self._work or ())

    def empty(self) -> bool:
        """Say whether nothing waits."""
        return not self._control and not self._work

    def put(self, envelope: Any, /) -> None:
        """Add mail, from any thread, without ever blocking.

        Raises MailboxFullError or ActorDeadError; of an ask, the error becomes the
        reply instead.
        """
        try:
            self.accept(envelope)
        except (MailboxFullError, ActorDeadError) as error:
            if envelope.reply_to is None:
                raise
            envelope.reply_to.fail(error)

    def accept(self, envelope: Any, *, forced: bool = False) -> None:
        """Add mail, from any thread; `forced` mail was accepted before and is never refused for fullness.

        Raises MailboxFullError or ActorDeadError, also for an ask.
        """
        message_type = type(envelope.message)
        kind = _KINDS.get(message_type)
        if kind is None:
            kind = _kind_of(message_type)
        if threading.get_ident() == self._home.thread:
            work = self._work
            if kind == WORK and work is not None:
                work.append(envelope)
            else:
                self._add(envelope, kind, forced)
            if not self.awake:
                self._notify()
        else:
            self._add(envelope, kind, forced)
            self._post()

    def get(self) -> Any:
        """Take the next mail. Raises LookupError when there is none: an actor on the loop never waits here."""
        envelope = self.take()
        if envelope is None:
            raise LookupError("no mail")
        return envelope

    def take(self) -> Any | None:
        """Take the next mail, control first; None when there is none. On the loop only."""
        if self._control:
            return self._control.popleft()
        if not self._work:
            return None
        envelope = self._work.popleft()
        if self._bounded and _KINDS[type(envelope.message)] == BOUNDED:
            with self._home.lock:
                self._bounded -= 1
        return envelope

    def rest(self) -> bool:
        """Say that the owner has nothing to do; False when mail has come meanwhile."""
        with self._home.lock:
            if self._work or self._control:
                return False
            self._work = self._control = None
            self.awake = False
            return True

    def close(self) -> tuple[Any, ...]:
        """Take no more mail; return what was left, in the order in which it would have been taken."""
        with self._home.lock:
            left = (*(self._control or ()), *(self._work or ()))
            self._owner = self._work = self._control = None
            self._bounded = 0
            return left

    # ------------------------------------------------------------------ inside

    def _add(self, envelope: Any, kind: int, forced: bool) -> None:
        with self._home.lock:
            if self._owner is None:
                raise ActorDeadError("the actor stopped before it could take the message")
            if kind == BOUNDED and self._bounded >= self._limit and not forced:
                self._home.refusals += 1
                raise MailboxFullError(self._owner._label(), self._limit)  # noqa: SLF001 its own protocol
            self._append(envelope, kind)

    def _append(self, envelope: Any, kind: int) -> None:
        if kind == CONTROL:
            if self._control is None:
                self._control = deque()
            self._control.append(envelope)
            return
        if self._work is None:
            self._work = deque()
        self._work.append(envelope)
        self._bounded += kind == BOUNDED

    def _notify(self) -> None:
        owner = self._owner
        if owner is not None:
            self.awake = True
            owner._wake()  # noqa: SLF001 its own protocol

    def _post(self) -> None:
        """Wake the owner from another thread; one waiting call for all that came before it runs."""
        if self._posted:
            return
        self._posted = True
        try:
            self._home.loop.call_soon_threadsafe(self._arrived)
        except RuntimeError as closed:  # the loop is gone, and with it all that could handle mail
            for envelope in self.close():
                if envelope.reply_to is not None:
                    envelope.reply_to.fail(ActorDeadError("the event loop is closed"))
            raise ActorDeadError("the event loop is closed") from closed

    def _arrived(self) -> None:
        self._posted = False
        if not self.awake and not self.empty():
            self._notify()
