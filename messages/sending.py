"""What an operator says in a chat through us: the order, and what became of it."""

from typing import Literal

from messages.base import Message, Text
from messages.ids import DeliveryId


class SendAsked(Message):
    """Say this in a chat, in nobody's conversation."""

    target: Text
    """`platform` (its home chat), `platform:chat` or `platform:chat:thread`."""
    text: Text = ""
    file: str | None = None
    """The absolute path of a file of this machine, posted with the text."""
    delivery_id: DeliveryId | None = None
    """Made by whoever asks: asking again with it says nothing twice."""
    wait_s: float = 60.0
    """How long to wait for the platform's receipt."""


class SendEnded(Message):
    """How far it has come."""

    delivery_id: DeliveryId
    state: Literal["posted", "failed", "owed"]
    """`owed`: it is in the outbox, and goes out when the platform takes it."""
    receipt: Text = ""
    """The platform's id of the last post."""
    why: Text = ""
    """Why it failed, in words for the operator."""
