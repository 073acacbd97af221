"""Facts to rows and back: a fact is kept as (kind, version, JSON text).

The JSON is whole, so that a fact can be read without any other column; kind and
version stand beside it so that the right model is chosen without parsing twice.
"""

import json
from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime, timedelta
from typing import NamedTuple, get_args

from pydantic import ValidationError
from pydantic_core import PydanticSerializationError

from actors.session.facts import SessionFact
from messages.access import AccessFact
from messages.base import Message, clean_text
from messages.delivery import DeliveryFact
from messages.system import SystemFact
from store.journal import JournalError

Upgrade = Callable[[dict[str, object]], dict[str, object]]
"""Turns the fields of one version of a kind into those of the next."""

UPGRADES: Mapping[tuple[str, int], Upgrade] = {}
"""By (kind, version it reads). A model whose `v` goes up gets an entry here in the same change."""


class UnreadableFactError(JournalError):
    """A stored fact that this program cannot read; the text names its kind and version."""


class UnknownFactError(JournalError):
    """A message was to be recorded that is not a fact of any room."""


class Encoded(NamedTuple):
    """A fact as it is kept, and the fact itself (an id from outside may have had to be cleaned)."""

    kind: str
    v: int
    text: str
    fact: Message


EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def to_micros(at: datetime) -> int:
    """Return a time as whole microseconds, which is how the store keeps it."""
    return (at - EPOCH) // timedelta(microseconds=1)


def from_micros(micros: int) -> datetime:
    """Return the time (UTC) that `to_micros` was given."""
    return EPOCH + timedelta(microseconds=micros)


def kinds_of(*unions: object) -> tuple[type[Message], ...]:
    """Return the models of discriminated unions written as `Annotated[A | B, Field(...)]`."""
    return tuple(model for union in unions for model in get_args(get_args(union)[0]))


def _cleaned(value: object) -> object:
    """Replace what UTF-8 cannot encode in all texts of a dumped fact; `Text` fields never need it."""
    if isinstance(value, dict):
        return {name: _cleaned(part) for name, part in value.items()}
    if isinstance(value, tuple):
        return tuple(map(_cleaned, value))
    return clean_text(value)


class Codec:
    """Writes and reads facts of the given kinds."""

    def __init__(
        self, kinds: Iterable[type[Message]], upgrades: Mapping[tuple[str, int], Upgrade] | None = None
    ) -> None:
        self._upgrades = dict(upgrades or {})
        self._models: dict[str, type[Message]] = {}
        self._current: dict[str, int] = {}
        for model in kinds:
            kind = model.model_fields["kind"].default
            self._models[kind] = model
            self._current[kind] = model.model_fields["v"].default

    @property
    def kinds(self) -> Mapping[str, type[Message]]:
        """The model of each kind."""
        return self._models

    def encode(self, fact: Message) -> Encoded:
        """Return the fact as it is kept. Raises UnknownFactError for what is no fact."""
        kind = getattr(fact, "kind", None)
        if kind is None or self._models.get(kind) is not type(fact):
            raise UnknownFactError(f"{type(fact).__name__} is not a fact of any room: it cannot be recorded")
        try:
            text = fact.__pydantic_serializer__.to_json(fact).decode()
        except (PydanticSerializationError, UnicodeEncodeError):
            fact = type(fact).model_validate(_cleaned(fact.model_dump()))
            text = fact.__pydantic_serializer__.to_json(fact).decode()
        return Encoded(kind, getattr(fact, "v", 1), text, fact)

    def decode(self, kind: str, v: int, text: str) -> Message:
        """Read a fact, also one that an older version wrote. Raises UnreadableFactError."""
        model = self._models.get(kind)
        if model is None:
            raise UnreadableFactError(
                f"no room knows facts of kind {kind!r} (version {v}): a newer callboard wrote this; run that one"
            )
        try:
            if v != self._current[kind]:
                text = self._upgraded(kind, v, text)
            return model.__pydantic_validator__.validate_json(text)  # type: ignore[no-any-return]
        except ValidationError as error:
            first = error.errors(include_url=False, include_input=False)[0]
            where = ".".join(str(part) for part in first["loc"])
            raise UnreadableFactError(
                f"a fact of kind {kind!r}, version {v}, cannot be read: {where}: {first['msg']}"
            ) from error

    def _upgraded(self, kind: str, v: int, text: str) -> str:
        current = self._current[kind]
        if v > current:
            raise UnreadableFactError(
                f"a fact of kind {kind!r} has version {v}; this program knows versions up to {current}: "
                "a newer callboard wrote it; run that one"
            )
        fields: dict[str, object] = json.loads(text)
        for version in range(v, current):
            upgrade = self._upgrades.get((kind, version))
            if upgrade is None:
                raise UnreadableFactError(f"nothing upgrades facts of kind {kind!r} from version {version}")
            fields = {**upgrade(fields), "v": version + 1}
        return json.dumps(fields)


CODEC = Codec(kinds_of(SessionFact, SystemFact, DeliveryFact, AccessFact), UPGRADES)
"""Reads and writes the facts of all rooms."""
