"""What both protocols' accumulators share: text that may be cut between surrogates, call ids, the outcome."""

from collections.abc import Iterable, Sequence
from typing import NoReturn, Protocol

from actors.session.models.port import ModelCallError
from actors.session.models.sse import Event
from actors.session.models.where import Where
from messages.base import clean_text
from messages.blocks import AssistantEntry, Entry, ToolCallBlock
from messages.model import Delta, Failure, FailureKind, ModelReply


class Accumulator(Protocol):
    """A stream's events in, deltas out as they come, the whole answer at the end."""

    done: bool
    """The stream's own end marker has come; nothing more needs to be read."""

    def feed(self, event: Event) -> Sequence[Delta]:
        """Take one event. Raises ModelCallError when it carries an error."""
        ...

    def whole(self, body: object) -> Sequence[Delta]:
        """Take an answer that came in one piece, from a server that does not stream. Raises the same."""
        ...

    def finish(self) -> ModelReply:
        """Return the answer. Raises ModelCallError(CUT) when the stream had no proper end."""
        ...

    @property
    def partial(self) -> str:
        """The text that has arrived."""
        ...


class Joiner:
    """Collects text; holds a half of a surrogate pair back until its other half comes."""

    def __init__(self) -> None:
        self._pieces: list[str] = []
        self._held = ""

    def add(self, piece: str) -> str:
        """Add a piece; return what of it (and of before) can be shown now."""
        if not self._held and piece.isascii():
            self._pieces.append(piece)
            return piece
        piece = self._held + piece
        self._held = ""
        if piece and "\ud800" <= piece[-1] <= "\udbff":
            piece, self._held = piece[:-1], piece[-1]
        shown = str(clean_text(piece))
        self._pieces.append(shown)
        return shown

    def text(self) -> str:
        """Return all of it."""
        return "".join(self._pieces) + str(clean_text(self._held))


class CallIds:
    """Gives every call an id that is its own: the provider's when it is new, else one made from it."""

    def __init__(self, taken: Iterable[str]) -> None:
        self._taken = set(taken)

    def claim(self, wanted: str) -> str:
        base = wanted or "call"
        candidate, number = wanted, 1
        while not candidate or candidate in self._taken:
            candidate = f"{base}_{number}"
            number += 1
        self._taken.add(candidate)
        return candidate


def call_ids(entries: Iterable[Entry]) -> Iterable[str]:
    """Return the ids of all calls in a history."""
    for entry in entries:
        if isinstance(entry, AssistantEntry):
            for block in entry.blocks:
                if isinstance(block, ToolCallBlock):
                    yield block.call_id


def clean_name(name: object) -> str:
    """Return a tool's name without what some models leak into it (control marks, blanks)."""
    return str(clean_text(name)).split("<|")[0].strip() if isinstance(name, str) else ""


def fail(kind: FailureKind, detail: str, where: Where, partial: str) -> NoReturn:
    """Raise the failure of a stream."""
    raise ModelCallError(Failure(kind=kind, detail=detail, model=where.model), partial)


def whole_number(value: object) -> int | None:
    """Return a count of tokens, None for anything that is not one."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return int(value) if value >= 0 else None
