"""What happened in a session: the sentences of its journal.

A fact is never changed. When a kind needs other fields, its `v` goes up and
`store/codec.py` learns to read the old one. Facts carry all that the analyst's
tables need, so that those are written in the same transaction, by folding nothing.
"""

from typing import Annotated, Literal

from pydantic import ConfigDict, Field

from messages.base import Instant, Message, Text
from messages.blocks import AssistantBlock, Entry, FileBlock, ToolStatus, UserBlock
from messages.gateway import Author, MessageReceived, Origin, Overheard, Part, Quote, Said, Surroundings
from messages.ids import CallId, DeliveryId, MessageId, SessionId, SessionKey, Turn
from messages.model import Failure, ModelRef, StopReason, Usage
from messages.settings import BusyPolicy
from messages.tool import Effect, PreparedCall


class Fact(Message):
    """Something that happened; true for ever."""

    model_config = ConfigDict(ser_json_inf_nan="constants")  # `null` could not be read back as a float

    v: int = 1


class SessionOpened(Fact):
    """A conversation began in this place: at the first message, and at each reset."""

    kind: Literal["session_opened"] = "session_opened"
    session_id: SessionId
    session_key: SessionKey
    origin: Origin
    parent: SessionId | None = None
    context: tuple[Said, ...] = ()
    at: Instant


class MessageAccepted(Fact):
    """A person's message was taken. From here on it ends answered, merged or refused aloud."""

    kind: Literal["message_accepted"] = "message_accepted"
    message_id: MessageId
    session_id: SessionId
    """The conversation in which it was said; a reset may begin another before its turn comes."""
    origin: Origin
    author: Author
    text: Text
    attachments: tuple[UserBlock, ...] = ()
    can_confirm: bool = False
    how: Literal["turn", "steer", "queue"] = "turn"
    """`steer`: to be added to the running turn, when that has tools to come back from.
    `queue`: a turn of its own, whatever else waits."""
    quote: Quote | None = None
    """What it replies to."""
    overheard: tuple[Overheard, ...] = ()
    """What was said before it in the chat and not to us."""
    surroundings: Surroundings | None = None
    """What people call the place, where it is called anything."""
    at: Instant


class MessagesRefused(Fact):
    """Accepted messages that will not be answered after all; the person was told why."""

    kind: Literal["messages_refused"] = "messages_refused"
    message_ids: tuple[MessageId, ...]
    why: Text
    at: Instant


class EditNoted(Fact):
    """A person changed what they had said. Nothing is answered anew because of it."""

    kind: Literal["edit_noted"] = "edit_noted"
    message_id: MessageId
    text: Text
    in_time: bool
    """Whether the message still waited: then the new text is what will be answered."""
    at: Instant


class DeletionNoted(Fact):
    """Somebody took back what was said here."""

    kind: Literal["deletion_noted"] = "deletion_noted"
    message_id: MessageId
    in_time: bool
    """Whether the message still waited: then it is not answered any more, and nobody is told."""
    at: Instant


class CommandAccepted(Fact):
    """A slash command was taken and carried out. Not part of what the model reads."""

    kind: Literal["command_accepted"] = "command_accepted"
    message_id: MessageId
    session_id: SessionId
    origin: Origin
    name: str
    argument: Text
    author: Author
    at: Instant


class TurnBegan(Fact):
    """A run started over these accepted messages (their order is the order of arrival)."""

    kind: Literal["turn_began"] = "turn_began"
    turn: Turn
    session_id: SessionId
    message_ids: tuple[MessageId, ...]
    carried: tuple[MessageId, ...] = ()
    """Those of them that an interrupted turn had begun to answer: already in the history."""
    purpose: Literal["answer", "again", "compress"] = "answer"
    """`again`: another answer to what was asked last. `compress`: a summary of the older part."""
    upto: int = 0
    """Of `compress`: how many entries of the history are to be summed up."""
    at: Instant


class TurnResumed(Fact):
    """A new life found this turn running and took it up again."""

    kind: Literal["turn_resumed"] = "turn_resumed"
    turn: Turn
    life: str
    at: Instant


class ModelCallAnswered(Fact):
    """A model call ended well."""

    kind: Literal["model_call_answered"] = "model_call_answered"
    turn: Turn
    call: int
    model: ModelRef
    blocks: tuple[AssistantBlock, ...]
    stop: StopReason
    raw_stop: str
    usage: Usage
    calls: tuple[PreparedCall, ...] = ()
    began_at: Instant
    first_token_ms: float | None = None
    at: Instant


class ModelCallFailed(Fact):
    """A model call ended badly; `next_step` is what was decided about it."""

    kind: Literal["model_call_failed"] = "model_call_failed"
    turn: Turn
    call: int
    attempt: int
    failure: Failure
    next_step: Literal["retry", "wait", "fail_over", "shrink", "give_up"]
    model: ModelRef | None = None
    """The model that is asked next, when it is another."""
    wait_s: float = 0.0
    partial: Text = ""
    began_at: Instant
    at: Instant


class ConfirmationWanted(Fact):
    """A call waits for somebody's yes."""

    kind: Literal["confirmation_wanted"] = "confirmation_wanted"
    turn: Turn
    call_id: CallId
    approval: str = ""
    """Under this id people answer in a chat; it stands for this call with these arguments and no other.
    Empty where a surface answers by the call itself."""
    in_chat: bool = True
    """Whether the chat was shown the whole call, and so may answer."""
    expires_at: Instant | None = None
    """After this, no answer is a no."""
    at: Instant


class ConfirmationSettled(Fact):
    """Somebody said yes or no."""

    kind: Literal["confirmation_settled"] = "confirmation_settled"
    turn: Turn
    call_id: CallId
    yes: bool
    by: Text
    timed_out: bool = False
    """Nobody answered in time."""
    at: Instant


class ToolCallStarted(Fact):
    """A call is about to run: whoever finds this without an end does not know its outcome."""

    kind: Literal["tool_call_started"] = "tool_call_started"
    turn: Turn
    call_id: CallId
    name: Text
    at: Instant


class ToolCallEnded(Fact):
    """A call has its result, also when it never ran."""

    kind: Literal["tool_call_ended"] = "tool_call_ended"
    turn: Turn
    call_id: CallId
    name: Text
    arguments: Text
    effect: Effect
    status: ToolStatus
    text: Text
    kept_in: str | None = None
    files: tuple[FileBlock, ...] = ()
    """What goes with the turn's answer."""
    began_at: Instant
    at: Instant


class Steered(Fact):
    """An accepted message was added to the running turn, after its tools."""

    kind: Literal["steered"] = "steered"
    turn: Turn
    message_ids: tuple[MessageId, ...]
    at: Instant


class Nudged(Fact):
    """The model was told something by us, not by a person (empty answer, budget spent …)."""

    kind: Literal["nudged"] = "nudged"
    turn: Turn
    reason: Literal["empty", "budget", "malformed"]
    text: Text
    at: Instant


class TurnStopping(Fact):
    """The run is to end; it waits only for its running tools to be gone."""

    kind: Literal["turn_stopping"] = "turn_stopping"
    turn: Turn
    reason: Literal["stopped", "interrupted", "reset"]
    reset_to: SessionId | None = None
    """The conversation that begins afterwards."""
    at: Instant


EndReason = Literal[
    "answered",
    "budget_spent",
    "empty",
    "truncated",
    "refused",
    "failed",
    "stopped",
    "interrupted",
    "reset",
    "crashed",
    "stale",
]
"""How a run can end."""


class TurnEnded(Fact):
    """The run is over. `reason` is recorded always."""

    kind: Literal["turn_ended"] = "turn_ended"
    turn: Turn
    session_id: SessionId
    reason: EndReason
    message_ids: tuple[MessageId, ...]
    model_calls: int
    tool_calls: int
    input_tokens: int | None = None
    output_tokens: int | None = None
    began_at: Instant
    at: Instant


class ReplyOwed(Fact):
    """A person is to be told this. Until `ReplyDelivered`, it is tried again after every start."""

    kind: Literal["reply_owed"] = "reply_owed"
    delivery_id: DeliveryId
    session_id: SessionId
    origin: Origin
    turn: Turn | None = None
    """None for notices: command answers, refusals."""
    notice: bool = False
    """Said by us, not by the model: never shown to it again."""
    parts: tuple[Part, ...]
    answers: tuple[MessageId, ...] = ()
    """The accepted messages that this settles: none of them gets another answer."""
    reply_to: MessageId | None = None
    model: ModelRef | None = None
    status: str = ""
    """What kind of end a notice tells of (a kind of failure, `refused`, `empty` …), or `truncated`."""
    usage: Usage | None = None
    """Of the whole turn."""
    at: Instant


class ReplyDelivered(Fact):
    """The platform took it."""

    kind: Literal["reply_delivered"] = "reply_delivered"
    delivery_id: DeliveryId
    receipt: str
    at: Instant


class ReplyGivenUp(Fact):
    """The platform will not take it, or nobody knows whether it did: it is not tried again."""

    kind: Literal["reply_given_up"] = "reply_given_up"
    delivery_id: DeliveryId
    why: Text
    at: Instant


class PolicyChosen(Fact):
    """What a message does that comes while busy was changed."""

    kind: Literal["policy_chosen"] = "policy_chosen"
    policy: BusyPolicy
    at: Instant


class ModelChosen(Fact):
    """The session answers by another model from now on; None: the configured one again."""

    kind: Literal["model_chosen"] = "model_chosen"
    model: ModelRef | None
    at: Instant


class TitleChosen(Fact):
    """The conversation was given a title."""

    kind: Literal["title_chosen"] = "title_chosen"
    session_id: SessionId
    title: Text
    at: Instant


class PersonalityChosen(Fact):
    """From the next turn on, another personality speaks here; None: none."""

    kind: Literal["personality_chosen"] = "personality_chosen"
    name: Text | None
    at: Instant


class AnswerDiscarded(Fact):
    """The answer to what was asked last is no longer what the model reads; it stays in the history."""

    kind: Literal["answer_discarded"] = "answer_discarded"
    turn: Turn
    at: Instant


class ExchangesUndone(Fact):
    """These last turns, questions and answers, are no longer what the model reads; they stay in the history."""

    kind: Literal["exchanges_undone"] = "exchanges_undone"
    turns: tuple[Turn, ...]
    at: Instant


class ConversationResumed(Fact):
    """An earlier conversation of this place goes on, in the one that was just opened."""

    kind: Literal["conversation_resumed"] = "conversation_resumed"
    session_id: SessionId
    resumed: SessionId
    title: Text = ""
    entries: tuple[Entry, ...]
    """What the model knew at its end."""
    at: Instant


class ContextCompacted(Fact):
    """A summary took the place of the older part of what the model reads."""

    kind: Literal["context_compacted"] = "context_compacted"
    turn: Turn
    summary: Text
    upto: int
    """How many entries it stands for."""
    at: Instant


class SideBegan(Fact):
    """A conversation beside this one was begun, with this for its first message."""

    kind: Literal["side_began"] = "side_began"
    side: str
    title: Text
    heard: MessageReceived
    at: Instant


class SideFinished(Fact):
    """A conversation beside this one is done: its result is owed, or delivered."""

    kind: Literal["side_finished"] = "side_finished"
    side: str
    at: Instant


class MessageGivenUp(Fact):
    """A dead letter: handling this message crashed the actor twice, or ended the whole process three times."""

    kind: Literal["message_given_up"] = "message_given_up"
    message_id: MessageId | None
    error: Text
    letter: Text
    """The message itself, as JSON; empty when it is in the journal as accepted, or must not be looked at."""
    at: Instant


class DeadLetterClosed(Fact):
    """An operator decided about a dead letter."""

    kind: Literal["dead_letter_closed"] = "dead_letter_closed"
    letter: int
    """The place in this stream of the `MessageGivenUp` that it closes."""
    how: Literal["retried", "dropped"]
    retried_as: MessageId | None = None
    """The id under which the message was handed in again."""
    by: Text
    at: Instant


class HistoryErased(Fact):
    """Everything before this in its stream is void, and deleted soon after. What comes next begins anew."""

    kind: Literal["history_erased"] = "history_erased"
    last_turn: Turn
    """So that the numbers of turns never go back."""
    message_ids: tuple[MessageId, ...] = ()
    """Accepted messages that get no answer because of it."""
    at: Instant


SessionFact = Annotated[
    SessionOpened
    | MessageAccepted
    | MessagesRefused
    | EditNoted
    | DeletionNoted
    | CommandAccepted
    | TurnBegan
    | TurnResumed
    | ModelCallAnswered
    | ModelCallFailed
    | ConfirmationWanted
    | ConfirmationSettled
    | ToolCallStarted
    | ToolCallEnded
    | Steered
    | Nudged
    | TurnStopping
    | TurnEnded
    | ReplyOwed
    | ReplyDelivered
    | ReplyGivenUp
    | PolicyChosen
    | ModelChosen
    | TitleChosen
    | PersonalityChosen
    | AnswerDiscarded
    | ExchangesUndone
    | ConversationResumed
    | ContextCompacted
    | SideBegan
    | SideFinished
    | MessageGivenUp
    | DeadLetterClosed
    | HistoryErased,
    Field(discriminator="kind"),
]
