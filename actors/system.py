"""The universe of actors: not a global, one per process or per test."""

import asyncio
import threading
from collections.abc import Awaitable, Callable, Coroutine
from contextvars import copy_context
from dataclasses import dataclass
from typing import Any

import pykka
import structlog

from actors.clock import Clock
from actors.endings import DeadLetter
from actors.mailbox import Home

log = structlog.get_logger(__name__)

GRACE_S = 5.0
"""How long an actor that is ended by force may take to clean up."""


@dataclass
class Stats:
    """What happened so far in a system, for metrics."""

    crashes: int = 0
    slow_handlers: int = 0
    dead_letters: int = 0


class ActorSystem:
    """The universe of actors of one process, or of one test: loop, clock, who lives, what was counted.

    Make it on the loop, or name the loop. Actors may be started from any thread.
    """

    def __init__(
        self,
        clock: Clock,
        *,
        slow_handler_s: float = 0.05,
        on_dead_letter: Callable[[DeadLetter], None] | None = None,
        loop: asyncio.AbstractEventLoop | None = None,
    ) -> None:
        self.clock = clock
        self.slow_handler_s = slow_handler_s
        self.stats = Stats()
        self.stopping = False
        """True from the beginning of `stop_all`: what ends now is not to be restarted."""
        self.on_dead_letter = on_dead_letter
        self.on_slow: Callable[[str, str, float], None] | None = None
        """Called with the actor's name, the message's kind and the seconds it held the loop."""
        self.running: Any = None
        """Whose handler is on the loop at this moment; the watchdog's thread reads it."""
        self.home = Home(loop or asyncio.get_running_loop(), threading.get_ident() if loop is None else 0)
        if loop is not None:
            loop.call_soon_threadsafe(self._arrive)
        self._context = copy_context()
        self._actors: dict[str, Any] = {}

    def _arrive(self) -> None:
        self.home.thread = threading.get_ident()

    @property
    def loop(self) -> asyncio.AbstractEventLoop:
        """The loop on which the actors live."""
        return self.home.loop

    @property
    def mailbox_refusals(self) -> int:
        """How often a full mailbox refused a message."""
        return self.home.refusals

    def live(self) -> "tuple[pykka.ActorRef[Any], ...]":
        """Return the refs of all living actors, in the order in which they were started."""
        return tuple(actor.actor_ref for actor in tuple(self._actors.values()))

    async def stop_all(self, timeout_s: float = 10.0) -> None:
        """Stop all actors, the last started first; each handles the mail it has.

        Who is not done when the time is over (in all, not each) is logged by name,
        has its handler cancelled, and ends.
        """
        self.stopping = True
        deadline = self.loop.time() + timeout_s
        try:
            while self._actors:
                actor = self._actors[next(reversed(self._actors))]
                if not await within(actor.actor_ref.stop(block=False), deadline - self.loop.time()):
                    log.warning("actor did not stop in time and is ended", actor=actor.name)
                    if not await within(actor.end_now(), GRACE_S):
                        log.error("actor does not end and is left behind", actor=actor.name)
                self.dismiss(actor)
        finally:
            self.stopping = False

    def admit(self, actor: Any) -> None:
        """Keep an actor alive from its start to its end."""
        self._actors[actor.actor_urn] = actor

    def dismiss(self, actor: Any) -> None:
        """Let go of an actor."""
        self._actors.pop(actor.actor_urn, None)

    def spawn(self, coro: Coroutine[Any, Any, Any], name: str) -> "asyncio.Task[Any]":
        """Make a task that inherits nothing from whoever happens to run now."""
        return self.loop.create_task(coro, name=name, context=self._context.copy())

    def report_slow(self, name: str, what: str, seconds: float) -> None:
        """Count and log that somebody kept the loop for too long."""
        self.stats.slow_handlers += 1
        log.warning("handler blocked the loop", actor=name, message=what, ms=round(seconds * 1000))
        if self.on_slow is not None:
            self.on_slow(name, what, seconds)

    def bury(self, letter: DeadLetter) -> None:
        """Count, log and report a message that will not be handled."""
        self.stats.dead_letters += 1
        log.warning(
            "dead letter", actor=letter.name, message=type(letter.message).__name__, cause=repr(letter.cause)
        )
        if self.on_dead_letter is not None:
            self.on_dead_letter(letter)


async def within(future: Awaitable[Any], seconds: float) -> bool:
    """Await something for so many seconds; say whether it ended in time."""
    try:
        async with asyncio.timeout(max(seconds, 0.0)):
            await future
    except TimeoutError:
        return False
    return True
