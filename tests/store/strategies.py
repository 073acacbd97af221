"""Hypothesis strategies built from the models themselves: a new field or kind is covered as it appears."""

import enum
import types
from datetime import UTC, datetime
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from hypothesis import strategies as st

from messages.base import Message
from store.codec import CODEC

TEXTS = st.one_of(
    st.text(max_size=40),
    st.text(st.characters(codec=None), max_size=20),  # lone surrogates too
    st.sampled_from(["a\x00b", "x\ud83d", '{"t":"\\ud83d"}', "[" * 2000, "\u2028", "é" * 300, ""]),
)
INTEGERS = st.one_of(st.integers(-5, 5), st.sampled_from([9007199254740993, -(2**63), 2**63, 2**80]))
FLOATS = st.floats(allow_nan=False)
INSTANTS = st.datetimes(timezones=st.just(UTC))

_SIMPLE: dict[Any, st.SearchStrategy[Any]] = {
    str: TEXTS,
    int: INTEGERS,
    float: FLOATS,
    bool: st.booleans(),
    datetime: INSTANTS,
    type(None): st.none(),
}


def of(annotation: Any) -> st.SearchStrategy[Any]:
    """Return a strategy for whatever our models are annotated with."""
    if annotation in _SIMPLE:
        return _SIMPLE[annotation]
    if hasattr(annotation, "__supertype__"):
        return of(annotation.__supertype__)
    origin, arguments = get_origin(annotation), get_args(annotation)
    if origin is Annotated:
        return of(arguments[0])
    if origin is Literal:
        return st.sampled_from(arguments)
    if origin in (Union, types.UnionType):
        return st.one_of([of(argument) for argument in arguments])
    if origin is tuple:
        return st.lists(of(arguments[0]), max_size=3).map(tuple)
    if issubclass(annotation, enum.Enum):
        return st.sampled_from(list(annotation))
    return of_model(annotation)


def of_model(model: type[Message]) -> st.SearchStrategy[Any]:
    """Return a strategy for valid instances of a model."""
    fields = {
        name: st.just(field.default)
        if name in ("v", "kind", "role") and not field.is_required()
        else of(field.annotation)
        for name, field in model.model_fields.items()
    }
    if "retry_after_s" in fields:  # no wait is infinite: it is kept as unknown
        fields["retry_after_s"] = st.one_of(st.none(), st.floats(0, 1e9))
    return st.builds(model, **fields)


@st.composite
def facts(draw: st.DrawFn) -> Message:
    """A fact of any kind."""
    kind = draw(st.sampled_from(sorted(CODEC.kinds)))
    fact: Message = draw(_BY_KIND[kind])
    return fact


_BY_KIND = {kind: of_model(model) for kind, model in CODEC.kinds.items()}
