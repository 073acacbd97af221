"""The analyst's rows of the facts of one append: pure, and without folding what came before.

A fact gives at most one row, in one typed table, under the fact's own id, so that
a row can always be joined back to `facts`. The order of the values is the order
of the columns in schema.sql.
"""

from collections.abc import Iterator, Sequence
from datetime import datetime

from actors.session import facts as f
from messages import system
from messages.base import Message
from messages.gateway import Origin, text_of
from messages.ids import StreamId

Row = tuple[object, ...]

TABLES = ("sessions", "messages", "turns", "model_calls", "tool_calls", "deliveries", "incidents", "lives")
"""The typed tables, in the order in which they are written."""

_BIGINT = 1 << 63


def rows(stream: StreamId, numbered: Sequence[tuple[int, Message]]) -> Iterator[tuple[str, Row]]:
    """Yield (table, row) for the facts of one append, given with their ids."""
    key = stream.removeprefix("session:")
    turns = {
        message_id: _count(fact.turn)
        for _, fact in numbered
        if isinstance(fact, f.TurnBegan)
        for message_id in fact.message_ids
    }
    for number, fact in numbered:
        match fact:
            case f.MessageAccepted() | f.CommandAccepted():
                yield "messages", _heard(number, key, turns.get(fact.message_id), fact)
            case f.ReplyOwed():
                yield "messages", _said(number, key, fact)
            case f.ModelCallAnswered():
                yield "model_calls", _answered(number, key, fact)
            case f.TurnEnded():
                yield "turns", _turn(number, key, fact)
            case f.ReplyDelivered():
                yield "deliveries", (number, key, fact.delivery_id, fact.receipt, fact.at)
            case f.ToolCallEnded():
                yield "tool_calls", _tool(number, key, fact)
            case f.SessionOpened():
                yield "sessions", _session(number, fact)
            case f.ModelCallFailed() if fact.failure.sent:
                yield "model_calls", _failed(number, key, fact)
            case system.IncidentHappened():
                yield "incidents", (number, fact.life, fact.child, fact.what, fact.detail, fact.at)
            case system.ProcessStarted():
                yield "lives", (number, fact.life, "started", fact.version, _count(fact.pid), fact.at)
            case system.ProcessStopped():
                yield "lives", (number, fact.life, "stopped", None, None, fact.at)
            case _:
                pass  # read from `facts`: nobody counts or sums the other kinds


def _heard(number: int, key: str, turn: int | None, fact: f.MessageAccepted | f.CommandAccepted) -> Row:
    if isinstance(fact, f.CommandAccepted):
        role, text, attached = "command", f"/{fact.name} {fact.argument}".rstrip(), 0
    else:
        role, text, attached = "user", fact.text, len(fact.attachments)
    origin = _origin(fact.origin)
    author = (fact.author.id, fact.author.name)
    ids = (fact.message_id, None, None)
    return (
        number,
        key,
        fact.session_id,
        turn,
        role,
        *ids,
        *author,
        text,
        attached,
        *origin,
        None,
        None,
        fact.at,
    )


def _said(number: int, key: str, fact: f.ReplyOwed) -> Row:
    model = (fact.model.provider, fact.model.name) if fact.model else (None, None)
    return (
        number,
        key,
        fact.session_id,
        _count(fact.turn),
        "notice" if fact.notice else "assistant",
        None,
        fact.delivery_id,
        fact.reply_to,
        None,
        None,
        text_of(fact.parts),
        0,
        *_origin(fact.origin),
        *model,
        fact.at,
    )


def _session(number: int, fact: f.SessionOpened) -> Row:
    origin = fact.origin
    return (
        number,
        fact.session_id,
        fact.session_key,
        fact.parent,
        origin.profile,
        *_origin(origin),
        origin.user,
        fact.at,
    )


def _turn(number: int, key: str, fact: f.TurnEnded) -> Row:
    return (
        number,
        key,
        fact.session_id,
        _count(fact.turn),
        fact.reason,
        list(fact.message_ids),
        _count(fact.model_calls),
        _count(fact.tool_calls),
        _count(fact.input_tokens),
        _count(fact.output_tokens),
        fact.began_at,
        fact.at,
        _ms(fact.began_at, fact.at),
    )


def _answered(number: int, key: str, fact: f.ModelCallAnswered) -> Row:
    usage = fact.usage
    return (
        number,
        key,
        _count(fact.turn),
        _count(fact.call),
        None,
        "answered",
        fact.model.provider,
        fact.model.name,
        fact.stop.value,
        fact.raw_stop,
        _count(usage.input_tokens),
        _count(usage.output_tokens),
        _count(usage.cache_read_tokens),
        _count(usage.cache_write_tokens),
        None,
        None,
        None,
        None,
        fact.first_token_ms,
        fact.began_at,
        fact.at,
        _ms(fact.began_at, fact.at),
    )


def _failed(number: int, key: str, fact: f.ModelCallFailed) -> Row:
    failure = fact.failure
    return (
        number,
        key,
        _count(fact.turn),
        _count(fact.call),
        _count(fact.attempt),
        "failed",
        failure.model.provider,
        failure.model.name,
        *(None,) * 6,
        failure.kind.value,
        _count(failure.status),
        failure.detail,
        fact.next_step,
        None,
        fact.began_at,
        fact.at,
        _ms(fact.began_at, fact.at),
    )


def _tool(number: int, key: str, fact: f.ToolCallEnded) -> Row:
    return (
        number,
        key,
        _count(fact.turn),
        fact.call_id,
        fact.name,
        fact.effect.value,
        fact.arguments,
        fact.status.value,
        fact.text,
        fact.kept_in,
        fact.began_at,
        fact.at,
        _ms(fact.began_at, fact.at),
    )


def _origin(origin: Origin) -> Row:
    return (origin.platform, origin.account, origin.chat_type.value, origin.chat, origin.thread)


def _count(number: int | None) -> int | None:
    """Return the number, or None where a provider's figure is beyond what a BIGINT holds."""
    if number is None or -_BIGINT <= number < _BIGINT:
        return number
    return None


def _ms(began: datetime, ended: datetime) -> float:
    return (ended - began).total_seconds() * 1000
