"""What is said to and by a language model, in neutral form."""

from enum import StrEnum
from typing import Literal

from messages.base import Message, Text
from messages.blocks import AssistantBlock, Entry
from messages.ids import CallId


class ToolSchema(Message):
    """A tool as a model sees it."""

    name: str
    description: str
    parameters: str
    """JSON schema of the arguments, as JSON text."""


class ModelRef(Message):
    """A model: `provider` is the name of an entry of `providers` in the settings."""

    provider: str
    name: str


class ModelRequest(Message):
    """One request to a model: everything it will know."""

    model: ModelRef
    system: Text
    entries: tuple[Entry, ...]
    tools: tuple[ToolSchema, ...] = ()
    tool_choice: Literal["auto", "none"] = "auto"
    """`none`: the tools are shown, so that earlier calls make sense, but none may be called."""
    max_output_tokens: int
    share: str = ""
    """The chat on whose behalf it is made: the places at a provider are shared fairly between chats."""


class Usage(Message):
    """Tokens as the provider counted them; None is unknown, not zero."""

    input_tokens: int | None = None
    output_tokens: int | None = None
    cache_read_tokens: int | None = None
    cache_write_tokens: int | None = None


class StopReason(StrEnum):
    """Why a model stopped, over all protocols."""

    END = "end"
    TOOL_CALLS = "tool_calls"
    LENGTH = "length"
    """The output limit cut it: its tool calls are not to be trusted."""
    CONTEXT_FULL = "context_full"
    """The context window ran out while answering."""
    REFUSED = "refused"
    """The provider's safety system declined or filtered."""
    PAUSED = "paused"
    """The provider wants the same conversation sent again to go on."""
    MALFORMED = "malformed"
    """The model wrote a call that its provider could not read."""
    OTHER = "other"
    """A reason we do not know; see `raw_stop`."""


class ModelReply(Message):
    """A complete answer of a model: its stream came to a proper end."""

    blocks: tuple[AssistantBlock, ...]
    stop: StopReason
    raw_stop: str
    """The provider's own word."""
    model: ModelRef
    usage: Usage = Usage()
    first_token_ms: float | None = None


class FailureKind(StrEnum):
    """Classes of failure, by what should be done about them."""

    RATE_LIMITED = "rate_limited"
    OVERLOADED = "overloaded"
    BILLING = "billing"
    AUTH = "auth"
    CONTEXT_OVERFLOW = "context_overflow"
    TOO_LARGE = "too_large"
    REFUSED = "refused"
    INVALID_REQUEST = "invalid_request"
    NOT_FOUND = "not_found"
    CUT = "cut"
    """The stream ended without its proper end."""
    STALE = "stale"
    """Nothing came for too long."""
    NETWORK = "network"
    NO_MODEL = "no_model"
    """No model is configured or reachable at all."""


class Failure(Message):
    """A model call that failed."""

    kind: FailureKind
    detail: Text
    """For the operator; redacted, one line, no body of more than 500 characters."""
    remedy: Text = ""
    """For the person: what to do, where there is something to do."""
    retry_after_s: float | None = None
    may_retry: bool = True
    """False when the provider says that the same request must not be sent again."""
    sent: bool = True
    """False when our own circuit breaker held the request back: it was no attempt."""
    status: int | None = None
    model: ModelRef


class TextDelta(Message):
    """More text arrived."""

    kind: Literal["text"] = "text"
    text: str


class CallDelta(Message):
    """A tool call began to arrive."""

    kind: Literal["call"] = "call"
    call_id: CallId
    name: str


class ThinkingDelta(Message):
    """More reasoning arrived."""

    kind: Literal["thinking"] = "thinking"
    text: str


Delta = TextDelta | CallDelta | ThinkingDelta
