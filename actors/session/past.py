"""Earlier conversations of a session's place, and the older part of the one that is open. Pure."""

from collections.abc import Iterable, Sequence
from dataclasses import replace

from actors.session import facts as f
from actors.session import words
from actors.session.quoting import quoted
from actors.session.state import Session, apply
from messages.blocks import Entry
from messages.ids import SessionId, SessionKey
from messages.session import EarlierConversation

MOST_LISTED = 50
USUALLY_LISTED = 10
EXCHANGES_KEPT = 2
"""How many of the last exchanges a summary leaves as they are."""

LEAST_COMPRESSED = 2
"""Entries below which a summary is not worth its model call."""


def conversations(key: SessionKey, facts: Iterable[f.SessionFact]) -> tuple[EarlierConversation, ...]:
    """Return the conversations that were held here, latest first; those in which nobody spoke are left out."""
    found: dict[SessionId, EarlierConversation] = {}
    state = Session(key=key)
    for fact in facts:
        if isinstance(fact, f.HistoryErased):
            found.clear()
        state = replace(_told(state, fact), owed=(), decided=(), sides=())
        if state.session_id is None or state.opened_at is None or not state.messages:
            continue
        found[state.session_id] = EarlierConversation(
            session_id=state.session_id,
            title=state.shown_title,
            messages=state.messages,
            began_at=state.opened_at,
            last_at=state.last_at or state.opened_at,
        )
    return tuple(reversed(found.values()))


def _told(state: Session, fact: f.SessionFact) -> Session:
    """Follow what names and dates a conversation, without the history that the model reads."""
    match fact:
        case f.SessionOpened() | f.TitleChosen() | f.HistoryErased():
            return apply(state, fact)
        case f.ConversationResumed():
            return replace(state, title=fact.title)
        case f.MessageAccepted():
            return replace(apply(state, fact), waiting=(), seen=())
        case f.TurnEnded():
            return replace(state, last_at=fact.at)
        case _:
            return state


def entries_of(
    key: SessionKey, facts: Iterable[f.SessionFact], session_id: SessionId
) -> tuple[Entry, ...] | None:
    """Return what the model knew when this conversation was left; None when there is no such conversation."""
    state = Session(key=key)
    found: tuple[Entry, ...] | None = None
    for fact in facts:
        if isinstance(fact, f.HistoryErased):
            found = None
        state = apply(state, fact)
        if state.session_id == session_id:
            found = state.entries
    return found


def listed(earlier: Sequence[EarlierConversation], problem: str = "") -> str:
    """Return a list of conversations as people read it."""
    if problem or not earlier:
        return problem or words.NO_SESSIONS
    lines = [
        f"- `{c.session_id}` {quoted(c.title, 60)}, {c.messages} message(s), last on {c.last_at:%Y-%m-%d %H:%M} UTC"
        for c in earlier
    ]
    return "\n".join([words.SESSIONS, "", *lines])


def find(earlier: Iterable[EarlierConversation], wanted: str) -> EarlierConversation | str:
    """Return the conversation that an id, or the beginning or end of one, means; or why none is."""
    wanted = wanted.strip().strip("`").lower()
    if not wanted:
        return words.RESUME_WHAT
    candidates = tuple(earlier)
    exact = [c for c in candidates if c.session_id == wanted]
    alike = exact or [
        c for c in candidates if c.session_id.startswith(wanted) or c.session_id.endswith(wanted)
    ]
    if len(alike) == 1:
        return alike[0]
    text = words.AMBIGUOUS_SESSION if alike else words.NO_SUCH_SESSION
    return text.format(id=quoted(wanted, 60))


def older_part(state: Session) -> int:
    """Return how many entries a summary would take the place of: all but the last exchanges."""
    exchanges = state.exchanges
    if len(exchanges) >= EXCHANGES_KEPT:
        return exchanges[-EXCHANGES_KEPT].start
    return exchanges[0].start if exchanges else len(state.entries)
