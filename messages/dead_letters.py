"""Dead letters, as an operator sees them."""

from typing import Literal

from messages.base import Instant, Message, Text
from messages.gateway import MessageReceived, Origin
from messages.ids import MessageId, SessionKey


class DeadLetter(Message):
    """A message that was given up: handling it failed twice, or the process died of it three times."""

    id: int
    """Of the fact that says so: what an operator names it by."""
    session_key: SessionKey
    seq: int
    """The place of that fact in the session's stream."""
    message_id: MessageId | None
    """None: it was nobody's message that failed, but something of the program's own."""
    origin: Origin | None
    author: Text = ""
    text: Text = ""
    error: Text
    at: Instant
    state: Literal["open", "retried", "dropped"] = "open"
    retried_as: MessageId | None = None
    """The id under which it was handed in again."""
    closed_by: Text = ""
    closed_at: Instant | None = None
    message: MessageReceived | None = None
    """What would be handed in again; None when there is nothing to hand in."""
