"""What can be asked of the history, and what is found in it."""

from typing import Annotated, Literal

from pydantic import Field

from messages.base import Instant, Message, Text
from messages.ids import SessionId, SessionKey, Turn

SearchRole = Literal["user", "assistant", "command", "notice"]

MOST_HITS = 200


class SearchAsked(Message):
    """Find messages that hold these words. Every filter that is set narrows the search."""

    words: Text
    """Words, "phrases", -unwanted, begin* : see docs/search.md."""
    platform: str | None = None
    chat: str | None = None
    """The platform's id of the chat."""
    user: str | None = None
    """Who said it: the platform's id of the person, or the name."""
    session_key: SessionKey | None = None
    roles: tuple[SearchRole, ...] = ("user", "assistant")
    since: Instant | None = None
    """The earliest moment, itself included."""
    until: Instant | None = None
    """The latest moment, itself not included."""
    limit: Annotated[int, Field(ge=1, le=MOST_HITS)] = 10
    newest_first: bool = False
    """Order by time instead of by rank."""


class Mark(Message):
    """A place in a snippet that was searched for; counted in characters, `end` not included."""

    start: int
    end: int


class SearchHit(Message):
    """A message that was found."""

    id: int
    """The row's id in the table `messages`."""
    session_key: SessionKey
    session_id: SessionId | None = None
    turn: Turn | None = None
    role: SearchRole
    author_id: str | None = None
    author_name: Text | None = None
    platform: str | None = None
    chat: str | None = None
    said_at: Instant
    score: float
    """Higher is better, within one search; 0 when ordered by time."""
    snippet: Text
    """The part of the message around what was found, on one line."""
    marks: tuple[Mark, ...] = ()


class SearchFound(Message):
    """The answer: the best hits, and how far the answer can be trusted."""

    hits: tuple[SearchHit, ...]
    total: int
    """How many messages hold the words, hits that are not shown included."""
    any_word: bool = False
    """No message holds all the words; these hold some of them."""
    not_indexed: int = 0
    """How much of the journal the index has yet to read, in facts; more than a few: it is being built."""
