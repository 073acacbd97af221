"""The port of processes of our own: one is raised for a program, and talked to in frames of JSON.

Nothing else crosses: no objects, no references, no pickles. What a process was told
and what it said keep their order, each way. Whoever raised it ends it.
"""

from typing import Protocol


class ProcessGoneError(Exception):
    """The process has ended, or could not be started; the text says what is known."""


class Channel(Protocol):
    """One end of the line between two processes."""

    async def tell(self, frame: bytes) -> None:
        """Send a frame; wait while the other end has too much to read. Raises ProcessGoneError.

        Calls that begin one after the other arrive in that order.
        """
        ...

    def tell_now(self, frame: bytes, *, droppable: bool = False) -> None:
        """Send a frame without waiting; drop it when it may be and too much waits already, or nobody is there."""
        ...

    async def hear(self) -> bytes:
        """Return the next frame. Raises ProcessGoneError when there will be none."""
        ...


class ProcessActor(Channel, Protocol):
    """A process that was raised, as its raiser sees it."""

    @property
    def pid(self) -> int: ...

    @property
    def alive(self) -> bool: ...

    async def end(self, patience_s: float) -> None:
        """Let it end in good order, by closing the line; kill it when it takes longer."""
        ...


class Nursery(Protocol):
    """Where processes are raised."""

    async def raise_process(self, program: str) -> ProcessActor:
        """Start a process that runs `package.module:function`, a coroutine function of its channel.

        Raises ProcessGoneError when it does not come up in time.
        """
        ...

    async def close(self) -> None:
        """End all processes that are left, and whatever raises them."""
        ...
