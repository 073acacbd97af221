"""What is said about the history as a whole."""

from messages.base import Message
from messages.ids import SessionKey


class SessionErased(Message):
    """A session's history was deleted."""

    session_key: SessionKey
    facts: int
    """How many facts were deleted."""
    unanswered: int = 0
    """How many accepted messages get no answer because of it."""
    files: int = 0
    """How many kept results were deleted with it."""
