"""Server-sent events out of bytes, as cheaply as Python can.

Takes LF, CRLF and CR line ends, several data lines in one event, comments, and an
end of the stream without the last blank line.
"""

from typing import NamedTuple


class Event(NamedTuple):
    """One event: its name ('' for none) and its data (lines joined by a line feed)."""

    name: str
    data: str


class EventDecoder:
    """Bytes in, events out. One per stream."""

    def __init__(self) -> None:
        self._pieces: list[bytes] = []
        self._name = ""
        self._data: list[str] = []
        self._after_cr = False

    def feed(self, chunk: bytes) -> list[Event]:
        """Return the events that these bytes complete."""
        if b"\r" in chunk or self._after_cr:
            chunk = self._unix(chunk)
        if b"\n" not in chunk:
            self._pieces.append(chunk)
            return []
        if self._pieces:
            chunk = b"".join((*self._pieces, chunk))
        *lines, rest = chunk.split(b"\n")
        self._pieces = [rest] if rest else []
        return self._read(lines)

    def finish(self) -> list[Event]:
        """Return what the end of the stream leaves: an event without its blank line."""
        rest = b"".join(self._pieces)
        self._pieces = []
        return self._read([rest, b""])

    def _unix(self, chunk: bytes) -> bytes:
        """Make all line ends LF, also where CR and LF came in two pieces."""
        if self._after_cr and chunk.startswith(b"\n"):
            chunk = chunk[1:]
        self._after_cr = chunk.endswith(b"\r")
        return chunk.replace(b"\r\n", b"\n").replace(b"\r", b"\n")

    def _read(self, lines: list[bytes]) -> list[Event]:
        events: list[Event] = []
        for line in lines:
            if line.startswith(b"data:"):
                value = line[6:] if line.startswith(b"data: ") else line[5:]
                self._data.append(value.decode("utf-8", "replace"))
            elif not line:
                if self._data:
                    events.append(Event(self._name, "\n".join(self._data)))
                    self._data = []
                self._name = ""
            elif line.startswith(b"event:"):
                self._name = line[6:].strip().decode("utf-8", "replace")
        return events
