"""Dead letters, read from the journal's facts."""

from collections.abc import Awaitable, Callable, Iterable

from actors.session.facts import DeadLetterClosed, MessageAccepted, MessageGivenUp
from messages.dead_letters import DeadLetter
from messages.gateway import MessageReceived, Surroundings
from messages.ids import SessionKey
from store.readers import Rows

Select = Callable[..., Awaitable[Rows]]
"""`Store.select`."""

MOST_LETTERS = 10_000

_FACTS = """
SELECT id, stream, seq, kind, fact FROM facts
WHERE kind IN ('message_given_up', 'dead_letter_closed') ORDER BY id DESC
"""
_ACCEPTED = """
SELECT stream, fact FROM facts
WHERE kind = 'message_accepted' AND stream IN (SELECT unnest(?::VARCHAR[]))
    AND json_extract_string(fact, '$.message_id') IN (SELECT unnest(?::VARCHAR[]))
"""
_OPEN = """
SELECT (SELECT count(*) FROM facts WHERE kind = 'message_given_up')
    - (SELECT count(DISTINCT (stream, json_extract_string(fact, '$.letter')))
        FROM facts WHERE kind = 'dead_letter_closed')
"""


async def open_letters(select: Select) -> int:
    """Return how many dead letters nobody has decided about."""
    return int(str((await select(_OPEN)).rows[0][0]))


async def dead_letters(select: Select) -> tuple[DeadLetter, ...]:
    """Return all dead letters, the newest first, those that were decided about too. Raises as `select` does."""
    found = (await select(_FACTS, max_rows=MOST_LETTERS)).rows
    closed: dict[tuple[str, int], DeadLetterClosed] = {}
    given_up: list[tuple[int, str, int, MessageGivenUp]] = []
    for row in found:
        number, stream, seq, kind, text = int(str(row[0])), str(row[1]), int(str(row[2])), row[3], str(row[4])
        if kind == "dead_letter_closed":
            decided = DeadLetterClosed.model_validate_json(text)
            closed.setdefault((stream, decided.letter), decided)
        else:
            given_up.append((number, stream, seq, MessageGivenUp.model_validate_json(text)))
    accepted = await _accepted(select, given_up)
    return tuple(
        _letter(number, stream, seq, fact, closed.get((stream, seq)), accepted)
        for number, stream, seq, fact in given_up
    )


async def _accepted(
    select: Select, given_up: Iterable[tuple[int, str, int, MessageGivenUp]]
) -> dict[tuple[str, str], MessageReceived]:
    """Read the messages that had been taken: their letters do not repeat them."""
    wanted = {
        (stream, str(fact.message_id))
        for _, stream, _, fact in given_up
        if fact.message_id and not fact.letter
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


def _letter(
    number: int,
    stream: str,
    seq: int,
    fact: MessageGivenUp,
    closed: DeadLetterClosed | None,
    accepted: dict[tuple[str, str], MessageReceived],
) -> DeadLetter:
    heard = _heard_in(fact) or accepted.get((stream, str(fact.message_id)))
    return DeadLetter(
        id=number,
        session_key=SessionKey(stream.removeprefix("session:")),
        seq=seq,
        message_id=fact.message_id,
        origin=heard.origin if heard else None,
        author=(heard.author.name or heard.author.id) if heard else "",
        text=heard.text if heard else "",
        error=fact.error,
        at=fact.at,
        state=closed.how if closed else "open",
        retried_as=closed.retried_as if closed else None,
        closed_by=closed.by if closed else "",
        closed_at=closed.at if closed else None,
        message=heard if heard and (heard.text or heard.attachments) else None,
    )


def _heard_in(fact: MessageGivenUp) -> MessageReceived | None:
    return MessageReceived.model_validate_json(fact.letter) if fact.letter else None
