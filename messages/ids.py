"""The names of things. Plain strings and numbers on the wire, distinct types to mypy."""

from typing import NewType

SessionKey = NewType("SessionKey", str)
"""Names a conversation's place: ``agent:<profile>:<platform>:<account>:<chat_type>:<chat>…``"""

SessionId = NewType("SessionId", str)
"""Names one conversation in that place; new after a reset. Safe as a file name."""

MessageId = NewType("MessageId", str)
"""The platform's own id of a message; unique within its session key. The idempotency key."""

Turn = NewType("Turn", int)
"""Counts the runs of a session key from 1; never goes back, also not over a reset."""

CallId = NewType("CallId", str)
"""A tool call's id, as the model gave it (made unique within the turn)."""

DeliveryId = NewType("DeliveryId", str)
"""Names one reply that is owed; the idempotency key towards the platform."""

StreamId = NewType("StreamId", str)
"""A journal stream: ``session:<key>``, ``outbox:<platform account>``, ``system`` …"""
