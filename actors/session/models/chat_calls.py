"""Tool calls out of the fragments of Chat Completions streams.

Outside OpenAI neither `index` nor `id` can be relied upon: all parallel calls may
come with index 0, ids may be missing, late or the same for two calls. What opens a
new call: an index not seen, a new id, or a name where the call already has one and
its arguments have begun.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field

from actors.session.models.gathering import CallIds, clean_name
from messages.base import clean_text
from messages.blocks import ToolCallBlock
from messages.ids import CallId
from messages.model import CallDelta


@dataclass(slots=True)
class _Call:
    given_id: str
    call_id: str
    name: str = ""
    told: bool = False
    pieces: list[str] = field(default_factory=list)

    @property
    def arguments(self) -> str:
        return "".join(self.pieces)


@dataclass(frozen=True, slots=True)
class _Fragment:
    index: int | None
    id: str
    name: str
    arguments: str


class ChatCalls:
    """Puts the calls of one answer together."""

    def __init__(self, ids: CallIds) -> None:
        self._ids = ids
        self._calls: list[_Call] = []
        self._at: dict[int, _Call] = {}

    def __bool__(self) -> bool:
        return bool(self._calls)

    def add(self, raw: object) -> CallDelta | None:
        """Take one element of `tool_calls`; return the news of a call that began."""
        if not isinstance(raw, Mapping):
            return None
        fragment = _read(raw)
        call = self._call_for(fragment)
        if fragment.name and not call.name:
            call.name = fragment.name
        if fragment.arguments:
            call.pieces.append(fragment.arguments)
        if call.name and not call.told:
            call.told = True
            return CallDelta(call_id=CallId(call.call_id), name=call.name)
        return None

    def blocks(self) -> tuple[ToolCallBlock, ...]:
        """Return the calls in the order in which they began."""
        return tuple(
            ToolCallBlock(
                call_id=CallId(call.call_id), name=call.name, arguments=str(clean_text(call.arguments))
            )
            for call in self._calls
            if call.name or call.pieces
        )

    def complete(self) -> bool:
        """Say whether the arguments of all calls are whole JSON."""
        return all(_is_whole(call.arguments) for call in self._calls)

    def _call_for(self, fragment: _Fragment) -> _Call:
        if fragment.index is None:
            current = self._calls[-1] if self._calls else None
        else:
            current = self._at.get(fragment.index)
        if current is not None and not _opens(fragment, current):
            return current
        if not fragment.name:
            same = [call for call in self._calls if fragment.id and call.given_id == fragment.id]
            if same:
                return same[-1]
            if not fragment.id and self._calls:
                return self._calls[-1]
        return self._open(fragment)

    def _open(self, fragment: _Fragment) -> _Call:
        call = _Call(given_id=fragment.id, call_id=self._ids.claim(fragment.id))
        self._calls.append(call)
        if fragment.index is not None:
            self._at[fragment.index] = call
        return call


def _opens(fragment: _Fragment, current: _Call) -> bool:
    """Say whether a fragment begins another call than the one that is at its index."""
    if fragment.id and current.given_id and fragment.id != current.given_id:
        return True
    if not fragment.name or not current.name:
        return False
    if fragment.name != current.name:
        return True
    return bool(fragment.arguments) and bool(current.pieces) and _is_whole(current.arguments)


def _read(raw: Mapping[str, object]) -> _Fragment:
    function = raw.get("function")
    inner: Mapping[str, object] = function if isinstance(function, Mapping) else raw
    index, given, arguments = raw.get("index"), raw.get("id"), inner.get("arguments")
    text = arguments if isinstance(arguments, str) else "" if arguments is None else json.dumps(arguments)
    return _Fragment(
        index=index if isinstance(index, int) and not isinstance(index, bool) else None,
        id=str(clean_text(str(given))).strip() if isinstance(given, str | int) else "",
        name=clean_name(inner.get("name")),
        arguments=text,
    )


def _is_whole(text: str) -> bool:
    if not text.strip():
        return True
    try:
        json.loads(text)
    except (ValueError, RecursionError):
        return False
    return True
