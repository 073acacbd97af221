"""The watch over the loop: how late it runs, and who holds it up.

Two watch each other. A beat on the loop measures how late it comes; a thread beside
it sees when the beat fails to come, and says who is at it while it lasts. When a
thread holds the interpreter itself (a huge regular expression in a tool), the
watching thread cannot run either: then the next beat, coming late, says who was at
work meanwhile.
"""

import asyncio
import contextlib
import sys
import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from types import FrameType
from typing import Any, Final

import structlog

from actors.system import ActorSystem

log = structlog.get_logger(__name__)

_now = time.perf_counter

WORST_OF_S: Final = 60.0
"""The lag that is shown is the worst of so many seconds."""


@dataclass(frozen=True, slots=True)
class Blocked:
    """The loop does not turn."""

    seconds: float
    """So far."""
    actor: str
    """Whose handler is on the loop; empty when it is none."""
    message: str
    """What kind of message it handles."""
    working: tuple[str, ...]
    """Synchronous work in threads at that time: it may hold the interpreter."""
    where: str
    """The innermost line that runs on the loop, when it could be seen."""

    def __str__(self) -> str:
        who = [f"actor {self.actor} handling {self.message}"] if self.actor else []
        who += [f"at work: {name}" for name in self.working]
        return f"loop blocked for {self.seconds:.1f} s by {'; '.join(who) or self.where or 'unknown'}"


class LoopWatch:
    """Measures the loop's lag, and raises an alarm that names who blocks it for longer than `blocked_s`.

    `on_blocked` is called in the watch's own thread, or on the loop when that comes
    first; it must not block.
    """

    def __init__(
        self,
        system: ActorSystem,
        *,
        tick_s: float = 0.1,
        blocked_s: float = 0.5,
        on_blocked: Callable[[Blocked], None] | None = None,
    ) -> None:
        self.alarms = 0
        self._system = system
        self._tick_s = tick_s
        self._blocked_s = blocked_s
        self._on_blocked = on_blocked
        self._lock = threading.Lock()
        self._working: Counter[str] = Counter()
        self._ended: deque[tuple[float, str]] = deque(maxlen=64)
        self._slow: tuple[float, str, str] = (float("-inf"), "", "")
        self._lags: deque[tuple[float, float]] = deque()
        self._beat = _now()
        self._alarmed = False
        self._next: asyncio.TimerHandle | None = None
        self._closed = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="loop-watch", daemon=True)

    def start(self) -> None:
        """Begin, on the loop."""
        self._system.on_slow = self._note_slow
        self._beat = _now()
        self._next = self._system.loop.call_later(self._tick_s, self._tick)
        self._thread.start()

    def close(self) -> None:
        """End the beat and the thread. On the loop."""
        if self._next is not None:
            self._next.cancel()
        self._system.on_slow = None
        self._closed.set()
        if self._thread.is_alive():
            self._thread.join(1.0)

    @property
    def lag_s(self) -> float:
        """How late the loop was at worst in the last minute, in seconds."""
        with self._lock:
            oldest = _now() - WORST_OF_S
            return max((lag for at, lag in self._lags if at >= oldest), default=0.0)

    @contextlib.contextmanager
    def working(self, name: str) -> Iterator[None]:
        """Note that synchronous work is done in this thread, under a name that says for whom."""
        with self._lock:
            self._working[name] += 1
        try:
            yield
        finally:
            with self._lock:
                self._working[name] -= 1
                if not self._working[name]:
                    del self._working[name]
                self._ended.append((_now(), name))

    # ------------------------------------------------------------------ on the loop

    def _tick(self) -> None:
        now = _now()
        last = self._beat
        lag = max(now - last - self._tick_s, 0.0)
        with self._lock:
            while self._lags and (self._lags[-1][1] <= lag or self._lags[0][0] < now - WORST_OF_S):
                if self._lags[-1][1] <= lag:
                    self._lags.pop()
                else:
                    self._lags.popleft()
            self._lags.append((now, lag))
            missed = lag > self._blocked_s and not self._alarmed
            self._alarmed = False
            self._beat = now
        if missed:
            at, actor, message = self._slow
            if at < last:
                actor = message = ""
            self._alarm(Blocked(lag, actor, message, self._at_work(last), ""))
        self._next = self._system.loop.call_later(self._tick_s, self._tick)

    def _note_slow(self, actor: str, message: str, _seconds: float) -> None:
        self._slow = (_now(), actor, message)

    # ---------------------------------------------------------------- in the thread

    def _watch(self) -> None:
        while not self._closed.wait(self._blocked_s / 4):
            with self._lock:
                late = _now() - self._beat - self._tick_s
                blocked = late > self._blocked_s and not self._alarmed
                if blocked:
                    self._alarmed = True
            if blocked:
                self._alarm(self._look(late))

    def _look(self, late: float) -> Blocked:
        """See who is on the loop while it is blocked."""
        running = self._system.running
        actor = message = ""
        if running is not None:
            actor = running.name
            envelope: Any = running.actor_ref.current
            content = getattr(envelope, "message", None)
            message = getattr(content, "kind", None) or type(content).__name__
        frame = sys._current_frames().get(self._system.home.thread)  # noqa: SLF001 documented for this purpose
        return Blocked(late, actor, message, self._at_work(_now() - late), _place(frame))

    def _at_work(self, since: float) -> tuple[str, ...]:
        with self._lock:
            return tuple(
                dict.fromkeys((*self._working, *(name for ended, name in self._ended if ended >= since)))
            )

    def _alarm(self, blocked: Blocked) -> None:
        self.alarms += 1
        log.error(
            "event loop blocked",
            seconds=round(blocked.seconds, 2),
            actor=blocked.actor,
            message=blocked.message,
            working=blocked.working,
            where=blocked.where,
        )
        if self._on_blocked is not None:
            self._on_blocked(blocked)


def _place(frame: FrameType | None) -> str:
    return f"{frame.f_code.co_filename}:{frame.f_lineno} {frame.f_code.co_name}" if frame is not None else ""
