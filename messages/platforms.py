"""What operators ask of the connections to chat platforms, and what they are told."""

from typing import Literal

from messages.base import Lane, Message, Text

PlatformWish = Literal["restart", "pause", "resume"]


class PlatformAsked(Message):
    """An operator wants this of a connection. Answered with the state that follows."""

    lane = Lane.CONTROL
    what: PlatformWish
    by: str


class PlatformState(Message):
    """How one account on a platform is doing."""

    name: str
    """As in the settings: `platform`, or `platform/account`."""
    state: Text
    """`connected`, `waiting`, `paused`, `degraded: why`, `off` in the settings, or `unusable: why`."""
    process: Text = ""
    """Of an account that lives in a process of its own: which, and how much memory it has."""
