"""Dead letters, as an operator sees them: messages and replies that were given up."""

from typing import Literal

from messages.base import Instant, Message, Text
from messages.gateway import MessageReceived, Origin
from messages.ids import DeliveryId, MessageId, SessionKey


class DeadLetter(Message):
    """A message that was given up (handling it failed twice, or the process died of it three times), or a reply."""

    kind: Literal["message", "reply"] = "message"
    """`message`: what a person said was not handled. `reply`: what was to be said to them was not posted."""
    id: int
    """Of the fact that says so: what an operator names it by."""
    session_key: SessionKey
    """Of a reply: who wanted it said."""
    seq: int
    """The place of that fact in its stream: the session's, or the outbox's."""
    message_id: MessageId | None
    """None: a reply, or it was nobody's message that failed, but something of the program's own."""
    origin: Origin | None
    place: Text = ""
    """Where it was said, or was to be posted: `platform:chat[:thread]`, as targets are written; `@user` is
    a direct message to somebody."""
    author: Text = ""
    text: Text = ""
    """The whole: of a reply also what was posted. Secrets are masked."""
    error: Text
    at: Instant
    state: Literal["open", "retried", "dropped"] = "open"
    retried_as: MessageId | DeliveryId | None = None
    """The id under which it was handed in, or delivered, again."""
    closed_by: Text = ""
    closed_at: Instant | None = None
    obstacle: Text = ""
    """Why it cannot be retried; empty when it can."""
    message: MessageReceived | None = None
    """What would be handed in again; None when there is nothing to hand in."""
    delivery_id: DeliveryId | None = None
    """Of a reply."""
    parts: int = 0
    """Of a reply: the posts that it was cut into."""
    posted: int = 0
    """Of a reply: so many of them, from the first on, stand in the chat. A retry posts the others."""
    doubtful: bool = False
    """Of a reply: nobody knows whether the first of the others stands there too."""
