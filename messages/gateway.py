"""What the outside says to the front desk, and what the front desk answers."""

from enum import StrEnum
from pathlib import PurePath
from typing import Annotated, Literal

from pydantic import BeforeValidator, Field

from messages.base import Instant, Message, Text, clean_text
from messages.blocks import FileBlock, ImageBlock, UserBlock
from messages.ids import CallId, DeliveryId, MessageId, SessionKey
from messages.model import ModelRef, Usage

HeardId = Annotated[MessageId, BeforeValidator(clean_text)]
"""A message's id as a platform gave it: text like all that comes from outside, and so always storable."""


class ChatType(StrEnum):
    """What kind of place a message comes from."""

    DM = "dm"
    GROUP = "group"
    THREAD = "thread"


class Origin(Message):
    """Where a message came from, in the platform's own ids; an empty id is an absent one."""

    platform: str
    account: str = "main"
    """Which of our accounts on the platform heard it."""
    server: Text | None = None
    """The guild, workspace or the like that the chat belongs to. Not part of the session's key."""
    chat_type: ChatType
    chat: Text | None = None
    thread: Text | None = None
    user: Text | None = None
    side: str | None = None
    """Names a conversation beside the place's own, such as a background task; what it says goes to the place."""
    profile: str = "main"


class Role(StrEnum):
    """What a person may do with us. Given by the front desk alone, by platform id."""

    OWNER = "owner"
    """Everything; makes admins."""
    ADMIN = "admin"
    """Access, settings of chats, approvals."""
    USER = "user"
    """Talks, and steers their own conversation."""


class Author(Message):
    """Who spoke. The name is untrusted decoration; only the id counts."""

    id: Text
    name: Text = ""
    alias: Text = ""
    """Stands for the id towards models, where ids tell more of a person than they should (a phone number)."""
    bot: bool = False
    """Whether the platform says that this is a program."""
    role: Role = Role.USER
    """An edge leaves it alone: the front desk sets it."""


class Said(Message):
    """One line of a conversation that happened elsewhere, given along as context."""

    role: Literal["system", "user", "assistant"]
    text: Text


class Quote(Message):
    """What a message replies to."""

    message_id: HeardId
    author: Author | None = None
    text: Text = ""
    ours: bool = False
    """Whether we said it."""


class Surroundings(Message):
    """What people call the place. Untrusted decoration, like all names."""

    server: Text = ""
    chat: Text = ""
    thread: Text = ""
    topic: Text = ""


class Overheard(Message):
    """Something said in a chat that was not said to us: context for what is."""

    message_id: HeardId
    author: Author
    text: Text
    attachments: int = 0
    at: Instant


class MessageReceived(Message):
    """A person said something, somewhere."""

    kind: Literal["message_received"] = "message_received"
    bounded = True
    message_id: HeardId
    """The platform's id of the message, never of the update or event that brought it."""
    origin: Origin
    author: Author
    text: Text
    """Without our own mention at its start; mentions of others as @name."""
    via: Literal["message", "command", "button"] = "message"
    """How it was said: written, by a native command, or by a button. The text of the last two is a command."""
    mentions_us: bool = False
    """Our own account is mentioned by id. @everyone and roles do not count."""
    quote: Quote | None = None
    """What it replies to."""
    surroundings: Surroundings = Surroundings()
    album: str | None = None
    """Names the album that it is a part of, where the platform sends albums in pieces."""
    sent_at: Instant | None = None
    """When the platform says that it was said; `at` is when we heard it."""
    overheard: tuple[Overheard, ...] = ()
    """What was said before it in the chat and not to us. Set by the front desk."""
    attachments: tuple[UserBlock, ...] = ()
    context: tuple[Said, ...] = ()
    """Earlier lines, from a client that keeps its own history; used when the session is new."""
    can_confirm: bool = False
    """Whether somebody sits there who can be asked for a yes before a tool runs."""
    at: Instant


class MessageEdited(Message):
    """A person changed what they had said. Never a new message: its id is the old one's."""

    kind: Literal["message_edited"] = "message_edited"
    bounded = True
    message_id: HeardId
    origin: Origin
    author: Author
    text: Text
    at: Instant


class MessageDeleted(Message):
    """Somebody took back something that was said."""

    kind: Literal["message_deleted"] = "message_deleted"
    bounded = True
    message_id: HeardId
    origin: Origin
    """`user` may be unknown here: the platform often tells the chat alone."""
    at: Instant


class ChatMoved(Message):
    """A chat has another id now. Everything bound to the old one belongs to the new one."""

    kind: Literal["chat_moved"] = "chat_moved"
    platform: str
    account: str = "main"
    old: Text
    new: Text
    at: Instant


EdgeHeard = Annotated[
    MessageReceived | MessageEdited | MessageDeleted | ChatMoved, Field(discriminator="kind")
]
"""What an edge hands in."""


class Acceptance(StrEnum):
    """What became of a message at the door."""

    ACCEPTED = "accepted"
    """Durable; it will be answered, merged into an answered turn, or refused aloud."""
    QUEUED = "queued"
    """Durable; a turn is running and this one comes after it."""
    DUPLICATE = "duplicate"
    """Heard before, by its id; nothing new happens."""
    OVERHEARD = "overheard"
    """Not said to us: kept as context, or not at all. Nobody is told anything."""
    REFUSED = "refused"
    """Not taken; `why` is what the person is told."""


class Receipt(Message):
    """The front desk's answer for one message, once the journal has it (or it was refused)."""

    message_id: MessageId
    session_key: SessionKey | None
    acceptance: Acceptance
    why: Text = ""


class Button(Message):
    """Something to press. Whoever presses it says `command`, in their own name."""

    label: Text
    command: Text
    """A slash command of 60 bytes at most: platforms carry little with a button."""
    style: Literal["normal", "good", "bad"] = "normal"


class Part(Message):
    """One piece of a reply, in Markdown, or a file."""

    text: Text = ""
    """With a file: its caption."""
    buttons: tuple[Button, ...] = ()
    """Below the text. A platform without buttons shows the commands instead."""
    file: FileBlock | ImageBlock | None = None


def text_of(parts: tuple[Part, ...]) -> str:
    """Return a reply as text: its parts, with an empty line between them, and the names of its files."""
    texts = (part.text if part.file is None else f"{part.text}\n[file: {_name(part.file)}]" for part in parts)
    return "\n\n".join(text.strip("\n") for text in texts if text.strip())


def _name(file: FileBlock | ImageBlock) -> str:
    return file.name if isinstance(file, FileBlock) else PurePath(file.path).name


class Say(Message):
    """Post a reply to where the session lives."""

    kind: Literal["say"] = "say"
    delivery_id: DeliveryId
    session_key: SessionKey
    origin: Origin
    parts: tuple[Part, ...]
    reply_to: MessageId | None = None
    notice: bool = False
    """Said by us, not by the model."""
    instead: str = ""
    """What stands here instead of an answer: the kind of an end without one (`rate_limited`, `refused`,
    `failed` …), or `approval`: a question comes first. Empty for answers, of commands too."""
    target: Text = "origin"
    """Where to: `origin`, `local`, `platform` or `platform:chat[:thread]`."""


class SayingFailed(Message):
    """A reply was given up: the platform will not take it, or nobody knows whether it did."""

    kind: Literal["saying_failed"] = "saying_failed"
    delivery_id: DeliveryId
    why: Text
    at: Instant


class SayingSucceeded(Message):
    """The platform took a reply."""

    kind: Literal["saying_succeeded"] = "saying_succeeded"
    delivery_id: DeliveryId
    receipt: str
    at: Instant


# ------------------------------------------------------------------ live view


class DraftChanged(Message):
    """The answer being written has grown. A view: may be dropped, the final may not."""

    kind: Literal["draft_changed"] = "draft_changed"
    turn: int
    call: int
    """The how-manieth model call of the turn."""
    text: str
    """What was added; the whole so far in a snapshot."""
    whole: bool = False


class ToolProgressed(Message):
    """A tool began, has something to say, or ended."""

    kind: Literal["tool_progressed"] = "tool_progressed"
    turn: int
    call_id: CallId
    name: str
    phase: Literal["began", "progress", "ended"]
    text: str = ""
    """One line: the arguments in short, the progress, or how it ended."""


class ModelStatusChanged(Message):
    """What the person should know while waiting: loading, retrying after a failure, falling over."""

    kind: Literal["model_status_changed"] = "model_status_changed"
    turn: int
    text: str


class ConfirmationAsked(Message):
    """A tool wants a yes before it runs."""

    kind: Literal["confirmation_asked"] = "confirmation_asked"
    turn: int
    call_id: CallId
    name: str
    arguments: str


class SessionStateChanged(Message):
    """The session became idle or busy."""

    kind: Literal["session_state_changed"] = "session_state_changed"
    state: Literal["idle", "running", "stopping"]
    turn: int
    message_ids: tuple[MessageId, ...] = ()
    """What the running turn answers."""
    queued: int = 0


LiveEvent = Annotated[
    DraftChanged | ToolProgressed | ModelStatusChanged | ConfirmationAsked | SessionStateChanged,
    Field(discriminator="kind"),
]


# ------------------------------------------------------------------ transcript


class TranscriptEntry(Message):
    """One line of a conversation as people see it. `seq` is its place in the journal."""

    seq: int
    role: Literal["user", "assistant", "tool", "notice"]
    text: Text
    at: Instant
    turn: int | None = None
    message_id: MessageId | None = None
    """Of what a person said."""
    delivery_id: DeliveryId | None = None
    """Of what was said to a person."""
    answers: tuple[MessageId, ...] = ()
    """The messages that this entry settles: none of them gets another answer."""
    author: Text = ""
    name: str = ""
    """Of a tool."""
    status: str = ""
    """Of a tool, or what kind of end a notice tells of (`interrupted`, a kind of failure …)."""
    model: ModelRef | None = None
    usage: Usage | None = None
    """Of an answer: all tokens of its turn."""


class SessionSummary(Message):
    """A session in a list."""

    session_key: SessionKey
    session_id: str
    title: Text
    state: Literal["idle", "running", "stopping", "sleeping"]
    messages: int
    turns: int
    last_at: Instant | None = None


class StatusReport(Message):
    """How the process is doing."""

    version: str
    pid: int
    life: str
    started_at: Instant
    uptime_s: float
    home: str
    model: ModelRef | None
    model_problem: Text = ""
    """Why no model can answer, with the remedy; empty when one can."""
    sessions_awake: int
    turns_running: int
    turns_done: int
    model_silent_s: float = 0.0
    """For how long the most silent of the models that are being waited for has said nothing."""
    mailbox_refusals: int
    loop_lag_ms: float
    """The worst of the last minute."""
    incidents: int
    """Since this life began."""
    dead_letters: int = 0
    """Messages and replies that were given up and wait for an operator's decision."""
    store: dict[str, str | int | float]
    degraded: tuple[str, ...] = ()
    """Names of children that are being restarted at the longest interval."""
    platforms: dict[str, str] = Field(default_factory=dict)
    """The state of each account's connection: `connected`, `waiting`, `paused`, or `degraded: why`."""
    platform_processes: dict[str, Text] = Field(default_factory=dict)
    """Of accounts that live in processes of their own: which, and how much memory each has."""
