"""Which messages are being taken at this moment, kept where the successor of a dead process can read it.

A message is in the journal only when it has been taken. One that kills the process
before that leaves no fact, and its platform sends it again, for ever. So its id stands
in a small file while it is being taken; whatever stands there when a process starts was
being taken when the last one died, and is counted. The file is written without fsync:
what a process has written outlives the process, and when the machine loses its power,
nobody's message is to blame.

A message that was being taken at a death is a suspect. Suspects are taken one at a time,
so that after the next death exactly one of them is blamed. At the third death it is
given up: see `FrontDesk`.
"""

import json
import os
from hashlib import blake2b
from pathlib import Path

import structlog

from messages.gateway import MessageReceived
from messages.ids import MessageId, SessionKey

log = structlog.get_logger(__name__)

MOST_DEATHS = 3
"""A message that was being taken when the process died so often is not tried again."""

MOST_SUSPECTS = 10_000
"""The oldest are forgotten first; a platform that sends again does so within hours."""

LONGEST_FILE = 1_000_000
"""In bytes; then it is written anew with what still counts."""


class Intake:
    """The messages that are being taken, and the deaths they were there at. Survives SIGKILL.

    `begin` before anything is done with a message; `done` when it is durable or refused.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._deaths, taking = _read(path)
        for name in taking:
            self._deaths[name] = self._deaths.pop(name, 0) + 1
        if taking:
            log.warning("messages were being taken when the process died", messages=len(taking))
        while len(self._deaths) > MOST_SUSPECTS:
            del self._deaths[next(iter(self._deaths))]
        self._taking: set[str] = set()
        self._file: int | None = None
        self._write_anew()
        self._alone: str | None = None
        self._held: dict[str, tuple[SessionKey, MessageReceived]] = {}

    def begin(self, key: SessionKey, message_id: MessageId) -> int:
        """Note that a message is being taken; return at how many deaths of the process it was there."""
        name = _name(key, message_id)
        deaths = self._deaths.get(name, 0)
        if name not in self._taking:
            self._taking.add(name)
            self._note("+", name)
        return deaths

    def done(self, key: SessionKey, message_id: MessageId) -> None:
        """Note that a message is durable or refused: it did no harm."""
        name = _name(key, message_id)
        if name in self._taking:
            self._taking.discard(name)
            self._deaths.pop(name, None)
            self._note("-", name)
        if name == self._alone:
            self._alone = None

    def may_begin(self, key: SessionKey, heard: MessageReceived) -> bool:
        """Whether it may be taken now; if not, it is kept here, and `released` gives it back.

        A suspect waits while another is taken, and what came after it in its session waits with it.
        """
        name = _name(key, heard.message_id)
        if name == self._alone:
            return True
        suspect = name in self._deaths
        if any(waiting == key for waiting, _ in self._held.values()) or (suspect and self._alone is not None):
            self._held.setdefault(name, (key, heard))
            return False
        if suspect:
            self._alone = name
        return True

    @property
    def waiting(self) -> bool:
        """Whether something waits that may be taken now."""
        return self._alone is None and bool(self._held)

    def released(self) -> tuple[tuple[SessionKey, MessageReceived], ...]:
        """Return what is to be taken now, in order; `may_begin` need not be asked about it again.

        When no suspect is being taken, that is the next one and what came after it in its session.
        """
        if not self.waiting:
            return ()
        first, (key, _) = next(iter(self._held.items()))
        if first in self._deaths:
            self._alone = first
        names = [first]
        for name, (waiting, _) in self._held.items():
            if waiting == key and name != first:
                if name in self._deaths:
                    break
                names.append(name)
        return tuple(self._held.pop(name) for name in names)

    def close(self) -> None:
        """A stop in good order: nobody is to blame for it."""
        self._taking.clear()
        self._write_anew()
        self._let_go()

    def _note(self, sign: str, name: str) -> None:
        if self._file is None:
            return
        try:
            self._size += os.write(self._file, f"{sign}{name}\n".encode())
        except OSError as error:
            self._give_in(error)
            return
        if self._size > LONGEST_FILE:
            self._write_anew()

    def _write_anew(self) -> None:
        """Write only what still counts."""
        self._let_go()
        new = self._path.with_suffix(".new")
        text = "\n".join([json.dumps(self._deaths), *(f"+{name}" for name in self._taking)]) + "\n"
        try:
            new.write_text(text)
            new.replace(self._path)
            self._file = os.open(self._path, os.O_WRONLY | os.O_APPEND | os.O_CLOEXEC)
        except OSError as error:
            self._give_in(error)
        self._size = len(text)

    def _give_in(self, error: OSError) -> None:
        """On a full disk, say, messages are taken as ever; only a death is not counted."""
        log.warning("which messages are being taken cannot be noted", error=str(error))
        self._let_go()

    def _let_go(self) -> None:
        if self._file is not None:
            os.close(self._file)
            self._file = None


def _name(key: SessionKey, message_id: MessageId) -> str:
    return blake2b(f"{key}\0{message_id}".encode("utf-8", "surrogatepass"), digest_size=12).hexdigest()


def _read(path: Path) -> tuple[dict[str, int], list[str]]:
    """Return the deaths by name, and the names that were being taken. A file that makes no sense is empty."""
    try:
        first, *notes = path.read_text().splitlines()
        deaths = {str(name): int(times) for name, times in json.loads(first).items()}
    except FileNotFoundError:
        return {}, []
    except (OSError, ValueError, AttributeError, TypeError) as error:
        log.warning("the file of messages that are being taken is not readable", error=str(error))
        return {}, []
    taking: dict[str, None] = {}
    for note in notes:
        if note[:1] == "+":
            taking[note[1:]] = None
        else:
            taking.pop(note[1:], None)
            deaths.pop(note[1:], None)
    return deaths, list(taking)
