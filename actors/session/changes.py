"""What people change or take back after they said it. Nothing is answered anew because of it. Pure.

A message that still waits is answered as it is now written, or not at all when it is
taken back. What has been taken up, or answered, or was a command, stays as it was: the
change is noted in the history. What this session never heard changes nothing here.
"""

from actors.session import facts as f
from actors.session.decision import Decision
from actors.session.effects import Acknowledge, Effect
from actors.session.state import Session
from messages.gateway import Acceptance, MessageDeleted, MessageEdited
from messages.ids import MessageId

LONGEST_TEXT = 2_000_000
"""In characters, as of a message."""

MOST_NOTED = 50
MOST_IN_TIME = 1000
"""Changes that are noted between two messages; of those that still wait, every one matters."""


def edited(state: Session, edit: MessageEdited) -> Decision:
    """Take note of an edit."""
    if edit.message_id not in state.seen:
        return _acknowledged(edit.message_id, Acceptance.OVERHEARD)
    if _too_many(state, edit.message_id) or len(edit.text) > LONGEST_TEXT:
        return _acknowledged(edit.message_id, Acceptance.OVERHEARD)
    waiting = next((w for w in state.waiting if w.message_id == edit.message_id), None)
    if waiting is not None and waiting.text == edit.text:
        return _acknowledged(edit.message_id, Acceptance.DUPLICATE)  # a preview was added, or it came twice
    if waiting is not None and waiting.author.id != edit.author.id:
        return _acknowledged(edit.message_id, Acceptance.OVERHEARD)
    if waiting is not None and not edit.text.strip() and not waiting.attachments:
        noted: f.EditNoted | f.DeletionNoted = f.DeletionNoted(
            message_id=edit.message_id, in_time=True, at=edit.at
        )
    else:
        noted = f.EditNoted(
            message_id=edit.message_id, text=edit.text, in_time=waiting is not None, at=edit.at
        )
    return _acknowledged(edit.message_id, Acceptance.ACCEPTED, noted)


def deleted(state: Session, deletion: MessageDeleted) -> Decision:
    """Take note that something was taken back."""
    if deletion.message_id not in state.seen:
        return _acknowledged(deletion.message_id, Acceptance.OVERHEARD)
    if _too_many(state, deletion.message_id):
        return _acknowledged(deletion.message_id, Acceptance.OVERHEARD)
    waits = any(w.message_id == deletion.message_id for w in state.waiting)
    noted = f.DeletionNoted(message_id=deletion.message_id, in_time=waits, at=deletion.at)
    return _acknowledged(deletion.message_id, Acceptance.ACCEPTED, noted)


def _too_many(state: Session, message_id: MessageId) -> bool:
    """Say whether somebody does nothing but change things: that must not fill the history."""
    waits = any(w.message_id == message_id for w in state.waiting)
    return state.noted >= (MOST_IN_TIME if waits else MOST_NOTED)


def _acknowledged(message_id: MessageId, how: Acceptance, *noted: f.SessionFact) -> Decision:
    effects: tuple[Effect, ...] = (Acknowledge(message_id, how),)
    return Decision(noted, effects)
