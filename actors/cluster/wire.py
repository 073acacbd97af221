"""Frames on a stream: four bytes of length, then JSON. The same at both ends."""

import asyncio
import contextlib
import struct
from typing import Final

from actors.cluster.port import ProcessGoneError

LONGEST_FRAME: Final = 16 << 20
"""In bytes. Files travel by their paths: nothing that is said comes near to it."""

MOST_WAITING: Final = 1 << 20
"""Bytes that may wait to be sent before what can be dropped is."""

_LENGTH: Final = struct.Struct("!I")

GONE: Final = "the line to the process is closed"


class FrameTooLongError(ValueError):
    """A frame longer than LONGEST_FRAME is not sent."""


class StreamChannel:
    """Implements `actors.cluster.port.Channel` over a stream."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer

    async def tell(self, frame: bytes) -> None:
        self._write(frame)
        try:
            await self._writer.drain()
        except OSError as error:
            raise ProcessGoneError(f"{GONE}: {error}") from None

    def tell_now(self, frame: bytes, *, droppable: bool = False) -> None:
        if droppable and self._writer.transport.get_write_buffer_size() > MOST_WAITING:
            return
        with contextlib.suppress(ProcessGoneError, FrameTooLongError):
            self._write(frame)

    def _write(self, frame: bytes) -> None:
        if len(frame) > LONGEST_FRAME:
            raise FrameTooLongError(f"a frame of {len(frame)} bytes is longer than {LONGEST_FRAME}")
        if self._writer.is_closing():
            raise ProcessGoneError(GONE)
        self._writer.write(_LENGTH.pack(len(frame)) + frame)

    async def hear(self) -> bytes:
        try:
            (length,) = _LENGTH.unpack(await self._reader.readexactly(_LENGTH.size))
            if length > LONGEST_FRAME:
                self.close()
                raise ProcessGoneError(f"a frame of {length} bytes was announced")
            return await self._reader.readexactly(length)
        except (OSError, asyncio.IncompleteReadError) as error:
            raise ProcessGoneError(f"{GONE}: {type(error).__name__}") from None

    def close(self) -> None:
        """Close the line; the other end hears it."""
        self._writer.close()

    def abort(self) -> None:
        """Close the line without sending what waits."""
        self._writer.transport.abort()
