"""The base of everything that can be said: frozen, strict, nothing extra.

Text from outside may hold what UTF-8 cannot (lone surrogates); times may come
without a zone. Both are settled here, once, so that no room has to think of it.
"""

from datetime import UTC, datetime
from enum import StrEnum
from typing import Annotated, ClassVar

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict


class Lane(StrEnum):
    """Which of the two lanes of a mailbox a message travels in."""

    CONTROL = "control"
    """Stop, interrupt, supervision: handled before any work that waits."""

    WORK = "work"
    """Everything else, in order of arrival."""


class Message(BaseModel):
    """A fact or a request that travels between actors. Carries ids, never references."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    lane: ClassVar[Lane] = Lane.WORK

    bounded: ClassVar[bool] = False
    """True for what the outside can send without limit: a full work lane refuses it.

    Answers to what the room itself asked for (a model's answer, a tool's end, a
    receipt, a timer) are limited by the asking and are never refused.
    """


def clean_text(text: object) -> object:
    """Replace what UTF-8 cannot encode (lone surrogates) by U+FFFD; join real pairs.

    Anything but a string is returned as it is, for the validator to refuse.
    """
    if not isinstance(text, str) or text.isascii():
        return text
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return text


def in_utc(instant: datetime) -> datetime:
    """Return the same instant in UTC. Raises ValueError for a time without a zone."""
    if instant.tzinfo is None:
        msg = "a time without a zone is ambiguous; give it one (datetime.now(UTC), or …Z)"
        raise ValueError(msg)
    return instant.astimezone(UTC)


Text = Annotated[str, BeforeValidator(clean_text)]
"""Text that can always be stored and sent: valid UTF-8, NUL kept."""

Instant = Annotated[datetime, AfterValidator(in_utc)]
"""A moment in UTC, never naive."""
