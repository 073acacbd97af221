"""What a chaos run saw from outside."""

from collections import Counter
from dataclasses import dataclass, field
from typing import Any

Json = dict[str, Any]


@dataclass
class Posted:
    """A post as people of the platform see it."""

    account: str
    key: str
    chat: str
    text: str
    reply_to: str | None
    part: int
    of: int
    marked: bool


@dataclass
class Seen:
    """What was seen from outside: the truth that the journal is compared with."""

    accepted: set[str] = field(default_factory=set)
    """Ids that were acknowledged."""
    refused: dict[str, str] = field(default_factory=dict)
    posts: list[Posted] = field(default_factory=list)
    effects: Counter[str] = field(default_factory=Counter)
    kills: Counter[str] = field(default_factory=Counter)
    """By what brought them about."""
    unexpected_ends: list[str] = field(default_factory=list)
    jumps: int = 0
    """How often the clock was set."""
    full: int = 0
    """How often the disk was full."""
    store_deaths: Counter[str] = field(default_factory=Counter)
    """How often the store's thread died, and how."""
    store_back: int = 0
    """How often it wrote facts again afterwards, in the same life."""
    store_killed_down: int = 0
    """How often the process was killed before it could."""
    store_stayed_down: list[str] = field(default_factory=list)
    store_left_stuck: list[str] = field(default_factory=list)
    """What did not come to rest in a life whose store had died and come back."""
    became_quiet: bool = False
    status: Json = field(default_factory=dict)
    rss_mb: float = 0.0
    fds: int = 0
