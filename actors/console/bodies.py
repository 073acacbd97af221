"""What requests may say."""

from typing import Annotated, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field

from messages.base import Text

LONGEST_ID = 512


def _not_blank(text: str) -> str:
    if not text.strip():
        raise ValueError("must not be blank")
    return text


def _of_fair_length(name: str) -> str:
    if not 1 <= len(name) <= LONGEST_ID:
        raise ValueError(f"must have 1 to {LONGEST_ID} characters, not {len(name)}")
    return name


Id = Annotated[Text, AfterValidator(_of_fair_length)]
Spoken = Annotated[Text, AfterValidator(_not_blank)]


class Body(BaseModel):
    """A request's JSON object: right types, nothing unknown."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)


class MessageBody(Body):
    """POST /api/messages."""

    text: Spoken
    chat: Id = "main"
    platform: Literal["web", "terminal"] = "web"
    thread: Id | None = None
    user: Id | None = None
    message_id: Id | None = None
    """Made by the client: sending the message again with it does nothing twice."""
    can_confirm: bool = False


class ConfirmBody(Body):
    """POST /api/sessions/{key}/confirm."""

    call_id: Id
    yes: bool


class LoginBody(Body):
    """POST /api/login."""

    token: str


class LenientBody(BaseModel):
    """Right types, and whatever else a client of OpenAI's API may say besides."""

    model_config = ConfigDict(frozen=True, extra="ignore", strict=True)


class ContentPart(LenientBody):
    """A part of a message's content."""

    type: str
    text: Text | None = None


class ChatMessage(LenientBody):
    """A line of the conversation as the client knows it."""

    role: str
    content: Text | list[ContentPart] | None = None


class StreamOptions(LenientBody):
    """What the stream shall carry besides."""

    include_usage: bool | None = None


class ChatBody(LenientBody):
    """POST /v1/chat/completions."""

    model: str
    messages: Annotated[list[ChatMessage], Field(min_length=1)]
    stream: bool | None = None
    stream_options: StreamOptions | None = None
    user: Id | None = None
    n: int | None = None
    tools: list[object] | None = None
    functions: list[object] | None = None
