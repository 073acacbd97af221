"""Dead letters, read from the journal's facts: messages that sessions gave up, and replies that outboxes did."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import PurePath
from typing import Final, NamedTuple

from actors.gateway.access import part_text, place_text
from actors.gateway.outbox import key_of
from actors.gateway.targets import account_name, outbox_stream
from actors.session.facts import DeadLetterClosed, MessageAccepted, MessageGivenUp
from messages import delivery as d
from messages.blocks import FileBlock
from messages.dead_letters import DeadLetter
from messages.gateway import MessageReceived, Origin, Surroundings
from messages.ids import DeliveryId, SessionKey, StreamId
from store.readers import SelectRows

MOST_LETTERS: Final = 10_000
_EVERY_ROW: Final = 1_000_000

NO_MESSAGE: Final = "no message is kept"
ERASED: Final = "its text was deleted, with its session's history"
UNKNOWN: Final = "what was to be posted is not in the journal"

_IS_REPLY: Final = (
    "starts_with(stream, 'outbox:') AND (fact ->> '$.session_key') IS NOT NULL"
    f" AND NOT starts_with(fact ->> '$.session_key', '{d.DESK}')"
)
"""The same as `DeliveryFailed.is_letter`, which says why."""
_IS_LETTER: Final = f"(kind = 'message_given_up' OR (kind = 'delivery_failed' AND {_IS_REPLY}))"
_IN_STREAM: Final = "($1::VARCHAR IS NULL OR stream = $1)"
_CLOSES: Final = "kind IN ('dead_letter_closed', 'delivery_letter_closed')"
_KINDS: Final = (
    "kind IN ('message_given_up', 'delivery_failed', 'dead_letter_closed', 'delivery_letter_closed')"
)

_FACTS: Final = f"""
SELECT id, stream, seq, kind, fact FROM facts
WHERE {_KINDS} AND ({_CLOSES} OR ({_IS_LETTER} AND (?::BIGINT IS NULL OR id = ?))) ORDER BY id DESC
"""  # noqa: S608 our own words
_ACCEPTED: Final = """
SELECT stream, fact FROM facts
WHERE kind = 'message_accepted' AND stream IN (SELECT unnest(?::VARCHAR[]))
    AND json_extract_string(fact, '$.message_id') IN (SELECT unnest(?::VARCHAR[]))
"""
_DELIVERIES: Final = """
SELECT id, stream, kind, fact FROM facts
WHERE kind IN ('delivery_taken', 'part_tried', 'part_unclear', 'place_moved') AND stream IN (SELECT unnest(?::VARCHAR[]))
    AND (kind = 'place_moved' OR (fact ->> '$.delivery_id') IN (SELECT unnest(?::VARCHAR[])))
ORDER BY id
"""
_OPEN: Final = f"""
SELECT (SELECT count(*) FROM facts WHERE kind = 'message_given_up' AND {_IN_STREAM})
    + (SELECT count(*) FROM facts WHERE kind = 'delivery_failed' AND {_IN_STREAM} AND {_IS_REPLY})
    - (SELECT count(DISTINCT (stream, fact ->> '$.letter')) FROM facts WHERE kind = 'dead_letter_closed' AND {_IN_STREAM})
    - (SELECT count(DISTINCT (stream, fact ->> '$.letter')) FROM facts WHERE kind = 'delivery_letter_closed' AND {_IN_STREAM})
"""  # noqa: S608 our own words
"""Asked at every start. One kind at a time: DuckDB then reads the long column of facts only where there is one."""

Closed = DeadLetterClosed | d.DeliveryLetterClosed
_Told = d.DeliveryTaken | d.PartTried | d.PartUnclear


class _GivenUp(NamedTuple):
    """A letter's fact, and where it stands."""

    id: int
    stream: str
    seq: int
    fact: MessageGivenUp | d.DeliveryFailed


class _Reply(NamedTuple):
    """Names a reply that was given up."""

    letter: int
    """The id of the fact that says so."""
    stream: str
    delivery_id: DeliveryId


@dataclass(slots=True)
class _Delivery:
    """What else the journal says of a reply."""

    taken: d.DeliveryTaken | None = None
    """To the place as it is called now."""
    unclear: set[int] = field(default_factory=set)
    """Parts of which nobody knows what became of a try."""
    tried: dict[int, datetime] = field(default_factory=dict)
    """When a part was tried first."""


async def open_letters(select: SelectRows, stream: StreamId | None = None) -> int:
    """Return how many dead letters nobody has decided about; with `stream`, of those in it."""
    return int(str((await select(_OPEN, (stream,))).rows[0][0]))


async def dead_letters(select: SelectRows, number: int | None = None) -> tuple[DeadLetter, ...]:
    """Return all dead letters, the newest first, those that were decided about too; or the one of this number.

    Raises as `select` does.
    """
    closed: dict[tuple[str, int], Closed] = {}
    given_up: list[_GivenUp] = []
    most = MOST_LETTERS if number is None else _EVERY_ROW  # the one comes behind all decisions
    for row in (await select(_FACTS, (number, number), max_rows=most)).rows:
        place, kind, text = (int(str(row[0])), str(row[1]), int(str(row[2]))), row[3], str(row[4])
        match kind:
            case "message_given_up":
                given_up.append(_GivenUp(*place, MessageGivenUp.model_validate_json(text)))
            case "delivery_failed":
                given_up.append(_GivenUp(*place, d.DeliveryFailed.model_validate_json(text)))
            case "dead_letter_closed":
                message = DeadLetterClosed.model_validate_json(text)
                closed[place[1], message.letter] = message  # the first decision counts, and it comes last
            case _:
                reply = d.DeliveryLetterClosed.model_validate_json(text)
                closed[place[1], reply.letter] = reply
    accepted = await _accepted(select, given_up)
    replies = [
        _Reply(each.id, each.stream, each.fact.delivery_id)
        for each in given_up
        if isinstance(each.fact, d.DeliveryFailed)
    ]
    deliveries = await _deliveries(select, replies)
    return tuple(
        _decided(
            _message(each, each.fact, accepted)
            if isinstance(each.fact, MessageGivenUp)
            else _reply(each, each.fact, deliveries[each.id]),
            closed.get((each.stream, each.seq)),
        )
        for each in given_up
    )


async def owed_again(select: SelectRows, letter: DeadLetter) -> d.DeliveryTaken | None:
    """Return what of a reply that was given up is to be posted still: without what was posted, under a new id.

    The new id follows from the letter's number. None when its text is not kept any more.
    """
    assert letter.delivery_id is not None, "a letter of a reply"
    reply = _Reply(letter.id, outbox_stream(account_of(letter)), letter.delivery_id)
    delivery = (await _deliveries(select, [reply]))[letter.id]
    taken, part = delivery.taken, letter.posted + 1
    missing = taken.parts[letter.posted :] if taken is not None else ()
    if taken is None or not missing:
        return None
    since = delivery.tried.get(part, letter.at)
    doubt = d.Doubt(key=key_of(taken, part), since=since) if part in delivery.unclear else None
    return taken.model_copy(
        update={
            "delivery_id": DeliveryId(f"{taken.delivery_id}~{letter.id}"),
            "parts": missing,
            "reply_to": None if letter.posted else taken.reply_to,
            "first": False,
            "doubt": doubt,
        }
    )


def masked(letter: DeadLetter, clean: Callable[[str], str]) -> DeadLetter:
    """Mask the secrets in it: what a reply says was written by the program or an operator, and not masked on its way."""
    return letter.model_copy(update={"text": clean(letter.text), "error": clean(letter.error)})


def account_of(letter: DeadLetter) -> str:
    """Return the account whose outbox gave a reply up: `platform`, or `platform/account`."""
    return letter.place.partition(":")[0]


def _decided(letter: DeadLetter, closed: Closed | None) -> DeadLetter:
    if closed is None:
        return letter
    return letter.model_copy(
        update={
            "state": closed.how,
            "retried_as": closed.retried_as,
            "closed_by": closed.by,
            "closed_at": closed.at,
        }
    )


# ------------------------------------------------------------------ messages


async def _accepted(
    select: SelectRows, given_up: Iterable[_GivenUp]
) -> dict[tuple[str, str], MessageReceived]:
    """Read the messages that had been taken: their letters do not repeat them."""
    wanted = {
        (each.stream, str(each.fact.message_id))
        for each in given_up
        if isinstance(each.fact, MessageGivenUp) and each.fact.message_id and not each.fact.letter
    }
    if not wanted:
        return {}
    streams, ids = ([pair[n] for pair in wanted] for n in (0, 1))
    rows = (await select(_ACCEPTED, (streams, ids), max_rows=MOST_LETTERS)).rows
    facts = ((str(stream), MessageAccepted.model_validate_json(str(text))) for stream, text in rows)
    return {(stream, str(fact.message_id)): _as_heard(fact) for stream, fact in facts}


def _as_heard(fact: MessageAccepted) -> MessageReceived:
    return MessageReceived(
        message_id=fact.message_id,
        origin=fact.origin,
        author=fact.author,
        text=fact.text,
        attachments=fact.attachments,
        quote=fact.quote,
        overheard=fact.overheard,
        surroundings=fact.surroundings or Surroundings(),
        can_confirm=fact.can_confirm,
        at=fact.at,
    )


def _message(
    given_up: _GivenUp, fact: MessageGivenUp, accepted: Mapping[tuple[str, str], MessageReceived]
) -> DeadLetter:
    heard = _heard_in(fact) or accepted.get((given_up.stream, str(fact.message_id)))
    message = heard if heard and (heard.text or heard.attachments) else None
    return DeadLetter(
        id=given_up.id,
        session_key=SessionKey(given_up.stream.removeprefix("session:")),
        seq=given_up.seq,
        message_id=fact.message_id,
        origin=heard.origin if heard else None,
        place=_heard_at(heard.origin) if heard else "",
        author=(heard.author.name or heard.author.id) if heard else "",
        text=heard.text if heard else "",
        error=fact.error,
        at=fact.at,
        obstacle="" if message else NO_MESSAGE,
        message=message,
    )


def _heard_in(fact: MessageGivenUp) -> MessageReceived | None:
    return MessageReceived.model_validate_json(fact.letter) if fact.letter else None


# ------------------------------------------------------------------ replies


async def _deliveries(select: SelectRows, replies: Sequence[_Reply]) -> dict[int, _Delivery]:
    """Read what the given up replies were, by their letters."""
    if not replies:
        return {}
    streams, ids = list({r.stream for r in replies}), list({str(r.delivery_id) for r in replies})
    told: dict[tuple[str, DeliveryId], list[tuple[int, _Told]]] = defaultdict(list)
    moved: dict[str, dict[d.Place, d.Place]] = defaultdict(dict)
    rows = (await select(_DELIVERIES, (streams, ids), max_rows=_EVERY_ROW)).rows
    for number, stream, kind, text in rows:
        match kind:
            case "place_moved":
                move = d.PlaceMoved.model_validate_json(str(text))
                moved[str(stream)][move.old] = move.new
            case "delivery_taken":
                taken = d.DeliveryTaken.model_validate_json(str(text))
                told[str(stream), taken.delivery_id].append((int(str(number)), taken))
            case _:
                kind_of = d.PartTried if kind == "part_tried" else d.PartUnclear
                fact = kind_of.model_validate_json(str(text))
                told[str(stream), fact.delivery_id].append((int(str(number)), fact))
    return {
        reply.letter: _delivery(
            [fact for number, fact in told[reply.stream, reply.delivery_id] if number < reply.letter],
            moved[reply.stream],
        )
        for reply in replies
    }


def _delivery(facts: Iterable[_Told], moved: Mapping[d.Place, d.Place]) -> _Delivery:
    found = _Delivery()
    for fact in facts:
        if isinstance(fact, d.PartUnclear):
            found.unclear.add(fact.part)
        elif isinstance(fact, d.PartTried):
            found.tried.setdefault(fact.part, fact.at)
        else:  # the latest: one that is asked for again after very long is taken again
            found = _Delivery(fact)
            if fact.doubt is not None:
                found.unclear.add(1)
                found.tried[1] = fact.doubt.since
    if found.taken is not None:
        place = found.taken.place
        for _ in range(len(moved)):
            place = moved.get(place, place)
        found.taken = found.taken.model_copy(update={"place": place})
    return found


def _reply(given_up: _GivenUp, fact: d.DeliveryFailed, delivery: _Delivery) -> DeadLetter:
    taken = delivery.taken
    account = account_name(*given_up.stream.split(":", 2)[1:])
    if taken is None:
        obstacle = UNKNOWN
    elif len(taken.parts) <= fact.posted:
        obstacle = ERASED
    else:
        obstacle = ""
    return DeadLetter(
        kind="reply",
        id=given_up.id,
        session_key=fact.session_key or SessionKey(""),
        seq=given_up.seq,
        message_id=None,
        origin=None,
        place=account if taken is None else _at(account, taken.place),
        text="\n\n".join(filter(None, map(_shown, taken.parts))) if taken is not None else "",
        error=fact.why,
        at=fact.at,
        obstacle=obstacle,
        delivery_id=fact.delivery_id,
        parts=fact.parts,
        posted=fact.posted,
        doubtful=fact.posted + 1 in delivery.unclear,
    )


def _shown(part: d.PartText) -> str:
    """A post as text: that of a file is its caption, with the file's name."""
    if part.file is None:
        return part.text
    name = part.file.name if isinstance(part.file, FileBlock) else PurePath(part.file.path).name
    return f"{part.text}\n[file: {name}]".strip()


def _heard_at(origin: Origin) -> str:
    chat = origin.chat or None
    place = d.Place(chat=chat, thread=origin.thread or None, user=None if chat else origin.user)
    return _at(account_name(origin.platform, origin.account), place)


def _at(account: str, place: d.Place) -> str:
    """Write a place as a target."""
    if place.chat is None:
        return f"{account}:@{part_text(place.user or '')}"
    return f"{account}:{place_text(place.chat, place.thread)}"
