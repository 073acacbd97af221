"""What a session remembers between messages: its shape. `state.py` says how facts change it."""

from dataclasses import dataclass
from datetime import datetime
from typing import Literal

from actors.session import facts as f
from messages.blocks import Entry, FileBlock, ToolResultBlock, UserEntry
from messages.gateway import Origin, Surroundings
from messages.ids import MessageId, SessionId, SessionKey, Turn
from messages.model import ModelRef
from messages.settings import BusyPolicy
from messages.tool import PreparedCall

NO_TURN = Turn(0)

REMEMBERED_IDS = 1000
"""How many message ids a session knows for telling a repeated delivery."""

REMEMBERED_APPROVALS = 50

Phase = Literal["asking", "ready", "running", "done"]


@dataclass(frozen=True, slots=True)
class Call:
    """One tool call of the running turn."""

    prepared: PreparedCall
    phase: Phase = "ready"
    result: ToolResultBlock | None = None
    began_at: datetime | None = None
    approval: str = ""
    """The id under which a chat may say yes to it."""
    in_chat: bool = True
    expires_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class Exchange:
    """A turn in what the model reads: what people said, and all that followed."""

    turn: Turn
    start: int
    """Where it begins in the entries."""
    said: tuple[UserEntry, ...]
    origin: Origin
    speakers: tuple[str, ...] = ()
    can_confirm: bool = False
    asked: str = ""
    """The first words of it."""


@dataclass(frozen=True, slots=True)
class Running:
    """The one active run."""

    turn: Turn
    message_ids: tuple[MessageId, ...]
    began_at: datetime
    origin: Origin
    can_confirm: bool = False
    speakers: tuple[str, ...] = ()
    """The ids of those whose messages it answers."""
    purpose: Literal["answer", "again", "compress"] = "answer"
    upto: int = 0
    """Of `compress`: how many entries are summed up."""
    personality: str | None = None
    call: int = 1
    """The model call that is asked or was answered last."""
    attempt: int = 1
    model: ModelRef | None = None
    """Another than the session's, after a failover."""
    calls: tuple[Call, ...] = ()
    """The tool calls of the last answer while they are not all done."""
    tools_called: int = 0
    files: tuple[FileBlock, ...] = ()
    """What its tools gave to go with the answer."""
    input_tokens: int | None = None
    output_tokens: int | None = None
    nudges: tuple[str, ...] = ()
    """What the model was told by us in this turn."""
    malformed: int = 0
    cut_calls: int = 0
    shrinks: int = 0
    waited_s: float = 0.0
    """How long the turn has waited for a provider whose breaker is open."""
    final: bool = False
    """The budget is spent: one last answer, without tools."""
    stopping: Literal["stopped", "interrupted", "reset"] | None = None
    reset_to: SessionId | None = None
    lives: tuple[str, ...] = ()
    """The lives of the process that found this turn running."""


@dataclass(frozen=True, slots=True)
class Session:
    """A session between two messages."""

    key: SessionKey
    session_id: SessionId | None = None
    origin: Origin | None = None
    running: Running | None = None
    last_turn: Turn = NO_TURN
    waiting: tuple[f.MessageAccepted, ...] = ()
    carried: tuple[MessageId, ...] = ()
    """Messages of an interrupted turn, which the next turn answers with its own."""
    entries: tuple[Entry, ...] = ()
    owed: tuple[f.ReplyOwed, ...] = ()
    seen: tuple[MessageId, ...] = ()
    policy: BusyPolicy | None = None
    model: ModelRef | None = None
    notices: int = 0
    """Counts what was said by us, to name it."""
    messages: int = 0
    noted: int = 0
    """Edits and deletions since the last message."""
    opened_at: datetime | None = None
    last_at: datetime | None = None
    """When something was last said or done here."""
    title: str = ""
    """As somebody chose it."""
    first_words: str = ""
    personality: str | None = None
    told: Surroundings | None = None
    """What the model knows of what people call this place."""
    exchanges: tuple[Exchange, ...] = ()
    """The turns of which the model still reads everything, oldest first."""
    decided: tuple[tuple[str, str], ...] = ()
    """Approvals that wait no longer, and why not: `approved`, `denied`, `expired`, `dropped`."""
    sides: tuple[f.SideBegan, ...] = ()
    """Conversations beside this one that are not done."""

    @property
    def owing(self) -> bool:
        """Whether something is left to do that a restart must take up."""
        return self.running is not None or bool(self.waiting or self.owed or self.sides)

    @property
    def shown_title(self) -> str:
        """The conversation's title: the chosen one, else its first words."""
        return self.title or self.first_words
