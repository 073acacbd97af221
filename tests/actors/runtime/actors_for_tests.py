"""Small actors that tests of the runtime start."""

import asyncio
import threading
from typing import Any

from actors.runtime import ActorSystem, LoopActor, ThreadActor
from messages.base import Lane, Message


class Note(Message):
    """Plain work."""

    n: int = 0


class Bounded(Message):
    """Work from outside."""

    bounded = True
    n: int = 0


class Urgent(Message):
    """Travels before work."""

    lane = Lane.CONTROL
    n: int = 0


class Recorder(LoopActor):
    """Keeps what it hears; hears some words specially."""

    def __init__(self, system: ActorSystem, heard: list[Any] | None = None, **options: Any) -> None:
        super().__init__(system, **options)
        self.heard: list[Any] = heard if heard is not None else []
        self.gate = asyncio.Event()
        self.counter = 0

    async def on_receive(self, message: Any) -> Any:
        self.heard.append(message)
        match message:
            case "ping":
                return "pong"
            case "bad":
                self.counter += 1
                raise ValueError("bad")
            case "count":
                return self.counter
            case "wait":
                await self.gate.wait()
            case _ if callable(message):
                result = message(self)
                return await result if asyncio.iscoroutine(result) else result
        return message


class ThreadRecorder(ThreadActor):
    """The same with a thread of its own."""

    def __init__(self, system: ActorSystem, heard: list[Any] | None = None, **options: Any) -> None:
        super().__init__(system, **options)
        self.heard: list[Any] = heard if heard is not None else []
        self.gate = threading.Event()

    def on_receive(self, message: Any) -> Any:
        self.heard.append(message)
        match message:
            case "ping":
                return "pong"
            case "bad":
                raise ValueError("bad")
            case "wait":
                self.gate.wait(10)
            case _ if callable(message):
                return message(self)
        return message
