"""LoopActor as one of the runtimes of pykka's own test suite: its loop runs in a thread beside the tests."""

import asyncio
import threading
import time
from typing import Any

from actors.clock import WallClock
from actors.runtime import ActorSystem, LoopActor, LoopFuture, ThreadActor

_loop = asyncio.new_event_loop()
threading.Thread(target=_loop.run_forever, name="loop", daemon=True).start()
_system = ActorSystem(WallClock(), loop=_loop)


class SuiteLoopActor(LoopActor):
    """Takes any arguments, as pykka's base class does."""

    def __init__(self, *_args: Any, **_kwargs: Any) -> None:
        super().__init__(_system)


class SuiteThreadActor(ThreadActor):
    """The same for the actors with a thread of their own."""

    def __init__(self, *_args: Any, **_kwargs: Any) -> None:
        super().__init__(_system)


def runtimes() -> list[dict[str, Any]]:
    """Return what pykka's `Runtime` is made of, for both of our kinds of actor."""
    common = {"event_class": threading.Event, "future_class": LoopFuture, "sleep_func": time.sleep}
    return [
        {"name": "loop", "actor_class": SuiteLoopActor, **common},
        {"name": "thread", "actor_class": SuiteThreadActor, **common},
    ]
