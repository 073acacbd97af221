"""What outboxes and platforms say to each other, and the facts of an outbox's stream.

An outbox keeps what is owed to the chats of one account on one platform. A
delivery is one reply; a part is one post of it; a try is one call of the platform
with one part. A try is recorded before the call, so that after a crash nobody
takes a part for unsent that may have been posted.

It is long, and one file, because it is one vocabulary: a platform of somebody else's
imports its words from here, and each fact says again what a word has told.
"""

from enum import StrEnum
from typing import Annotated, Final, Literal

from pydantic import Field

from messages.base import Instant, Lane, Message, Text
from messages.blocks import FileBlock, ImageBlock
from messages.gateway import Button, Origin, Say
from messages.ids import DeliveryId, MessageId, SessionKey

DESK: Final = "desk:"
"""Begins the session key of what the front desk itself says: there is no such session."""


class Place(Message):
    """A chat, or a thread in it, on one account. Posts to one place keep their order."""

    chat: str | None
    thread: str | None = None
    user: str | None = None
    """Of a direct message whose chat has no id of its own; None where `chat` is set."""

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Place):
            return NotImplemented
        return (self.chat, self.thread, self.user) == (other.chat, other.thread, other.user)

    def __hash__(self) -> int:
        return hash((self.chat, self.thread, self.user))

    def __str__(self) -> str:
        """Return the place for people: `chat`, `chat:thread` or `@user`."""
        chat = self.chat if self.chat is not None else f"@{self.user}"
        return chat if self.thread is None else f"{chat}:{self.thread}"


class PartText(Message):
    """One post, in Markdown, already within the platform's limit."""

    text: Text
    file_name: str | None = None
    """Post the text as a file of this name."""
    buttons: tuple[Button, ...] = ()
    file: FileBlock | ImageBlock | None = None
    """Post this file, with the text (which may be empty, and is within the caption's limit) as its caption."""


class Post(Message):
    """One part, on its way to the platform."""

    delivery_id: DeliveryId
    part: int
    """From 1."""
    of: int
    attempt: int
    key: str
    """The idempotency key: 24 hexadecimal digits, the same for every try of this part."""
    place: Place
    body: PartText
    reply_to: str | None = None
    maybe_duplicate: bool = False
    """An earlier try may have been posted, and nothing on the platform can tell."""
    instead: str = ""
    """What stands here instead of an answer; see `messages.gateway.Say`."""
    draft: str | None = None
    """The platform's id of a live draft of this very answer: make the post out of it by an edit. When
    it is gone, or cannot become this post (a file, say), remove it and post anew."""


# ------------------------------------------------------------------ views: may be dropped, nothing is lost


class TypingShown(Message):
    """Show for a few seconds that an answer is coming."""

    kind: Literal["typing_shown"] = "typing_shown"
    place: Place


class DraftShown(Message):
    """Show an answer that is being written: a new message without `receipt`, else an edit of that one."""

    kind: Literal["draft_shown"] = "draft_shown"
    place: Place
    text: Text
    """The whole so far in Markdown, within the platform's limit."""
    key: str = ""
    """Of the answer's first part. A platform that knows keys makes one message of a new draft that is shown twice."""
    receipt: str | None = None
    reply_to: str | None = None
    buttons: tuple[Button, ...] = ()


class DraftRemoved(Message):
    """Take a draft away: no answer came of it."""

    kind: Literal["draft_removed"] = "draft_removed"
    place: Place
    receipt: str


class ReactionShown(Message):
    """Say with a reaction what became of somebody's message; it takes the place of our earlier one."""

    kind: Literal["reaction_shown"] = "reaction_shown"
    place: Place
    message_id: str
    sign: Literal["seen", "working", "done", "failed", "none"]


EdgeView = Annotated[TypingShown | DraftShown | DraftRemoved | ReactionShown, Field(discriminator="kind")]


class ProblemKind(StrEnum):
    """What went wrong with a try, and so what follows."""

    TRANSIENT = "transient"
    """Not posted; may work later."""
    NOT_CONNECTED = "not_connected"
    """Not posted: there is no connection. Does not count as a failed try."""
    RATE_LIMITED = "rate_limited"
    """Not posted; wait as long as the platform says."""
    TARGET_GONE = "target_gone"
    """Not posted: the chat is gone, or does not let us in."""
    REFUSED = "refused"
    """Not posted, and never will be."""
    UNKNOWN = "unknown"
    """Nobody knows whether it was posted."""
    NEEDS_HUMAN = "needs_human"
    """Not posted; somebody must do something, such as give a new token."""


class Problem(Message):
    """How a try failed."""

    kind: ProblemKind
    detail: Text = ""
    """For the operator; one line, no secrets."""
    retry_after_s: float | None = None
    whole_account: bool = False
    """Of a rate limit: it holds for all chats of the account, not for this one alone."""
    moved_to: str | None = None
    """Not posted, because the chat has this id now. Whatever the kind, it goes there instead."""
    draft_gone: bool = False
    """Of an unknown outcome: the draft was gone, so this was a new post, and another try would be another."""


# ------------------------------------------------------------------ to the platform


class SayPost(Message):
    """Post this now. It was recorded as tried before."""

    kind: Literal["say_post"] = "say_post"
    post: Post
    until: float
    """On the monotonic clock, in seconds: later than this it must not go out any more."""


class FindPost(Message):
    """Look in the chat's recent history whether this was posted."""

    kind: Literal["find_post"] = "find_post"
    post: Post
    until: float


class ShowView(Message):
    """Show something that may be dropped. `token` comes back with the answer."""

    kind: Literal["show_view"] = "show_view"
    token: int
    view: EdgeView


class ConnectionAsked(Message):
    """Tell the outbox whether you are connected."""

    kind: Literal["connection_asked"] = "connection_asked"


# ------------------------------------------------------------------ to the live view


class ViewShown(Message):
    """A view was shown, or not."""

    kind: Literal["view_shown"] = "view_shown"
    token: int
    receipt: Text | None
    """The id of a new draft."""
    problem: Problem | None = None
    at: Instant


class TurnSeen(Message):
    """A turn began whose answer goes to a platform."""

    kind: Literal["turn_seen"] = "turn_seen"
    session_key: SessionKey
    turn: int
    delivery_id: DeliveryId
    """Of the answer that will end it."""
    origin: Origin
    message_ids: tuple[MessageId, ...]


class TurnGone(Message):
    """It is over."""

    kind: Literal["turn_gone"] = "turn_gone"
    session_key: SessionKey
    turn: int
    origin: Origin


# ------------------------------------------------------------------ to the outbox


class DraftPosted(Message):
    """A live draft of the answer that will be this delivery stands in a place."""

    kind: Literal["draft_posted"] = "draft_posted"
    delivery_id: DeliveryId
    place: Place
    receipt: Text
    at: Instant


class DraftOver(Message):
    """The turn whose answer was drafted is over: a draft that no delivery takes up is to be removed."""

    kind: Literal["draft_over"] = "draft_over"
    delivery_id: DeliveryId
    at: Instant


class DraftRemovalTried(Message):
    """A draft was taken away, or could not be."""

    kind: Literal["draft_removal_tried"] = "draft_removal_tried"
    place: Place
    receipt: str
    problem: Problem | None = None
    chance: float
    at: Instant


class SayHeard(Message):
    """A session wants this said; `at` is when the outbox heard it."""

    kind: Literal["say_heard"] = "say_heard"
    say: Say
    at: Instant


class PostTaken(Message):
    """The platform posted a part."""

    kind: Literal["post_taken"] = "post_taken"
    delivery_id: DeliveryId
    place: Place
    part: int
    attempt: int
    receipt: Text
    at: Instant


class PostFailed(Message):
    """A try of a part failed, or nobody knows."""

    kind: Literal["post_failed"] = "post_failed"
    delivery_id: DeliveryId
    place: Place
    part: int
    attempt: int
    problem: Problem
    chance: float
    """In [0, 1): the jitter of the next wait."""
    at: Instant


class PostLookedUp(Message):
    """The platform looked for a part; `receipt` is None when it is not there, `problem` says that it could not."""

    kind: Literal["post_looked_up"] = "post_looked_up"
    delivery_id: DeliveryId
    place: Place
    part: int
    attempt: int
    receipt: Text | None
    problem: Problem | None = None
    chance: float
    at: Instant


class WaitOver(Message):
    """A place may be posted to again; without a place, the whole account."""

    kind: Literal["wait_over"] = "wait_over"
    place: Place | None
    at: Instant


class PlatformConnected(Message):
    """The platform can be spoken to."""

    kind: Literal["platform_connected"] = "platform_connected"
    lane = Lane.CONTROL
    at: Instant


class PlatformLost(Message):
    """The platform cannot be spoken to until it is connected again."""

    kind: Literal["platform_lost"] = "platform_lost"
    lane = Lane.CONTROL
    at: Instant


class PlaceSpoke(Message):
    """Somebody wrote in this place: it is alive."""

    kind: Literal["place_spoke"] = "place_spoke"
    place: Place
    at: Instant


class LetterDecided(Message):
    """An operator decided about the dead letter of a reply. Who tells this has read that it was open."""

    kind: Literal["letter_decided"] = "letter_decided"
    token: int
    """Comes back with the answer."""
    letter: int
    """The place in the outbox's stream of the `DeliveryFailed` that it closes."""
    delivery_id: DeliveryId
    again: "DeliveryTaken | None"
    """What is owed anew: the parts that were not posted, under a new id. None: nothing more is done."""
    by: Text
    at: Instant


OutboxHeard = (
    SayHeard
    | LetterDecided
    | DraftPosted
    | DraftOver
    | DraftRemovalTried
    | PostTaken
    | PostFailed
    | PostLookedUp
    | WaitOver
    | PlatformConnected
    | PlatformLost
    | PlaceSpoke
)


# ------------------------------------------------------------------ to the delivery room


class SayTaken(Message):
    """An outbox has it in its journal; nobody needs to remember it for it any more."""

    kind: Literal["say_taken"] = "say_taken"
    delivery_id: DeliveryId


class OutboxWoke(Message):
    """An outbox begins a new life and may have lost mail: tell it again what it has not taken."""

    kind: Literal["outbox_woke"] = "outbox_woke"
    outbox: str
    """`platform`, or `platform/account`."""


# ------------------------------------------------------------------ to who decides about dead letters


class LetterSettled(Message):
    """A decision about a dead letter is durable; or it was not `written`, because there had been one."""

    kind: Literal["letter_settled"] = "letter_settled"
    token: int
    written: bool


# ------------------------------------------------------------------ facts


class Doubt(Message):
    """An earlier try of a part, of which nobody knows what became."""

    key: str
    """The idempotency key that it had: who still knows it posts nothing twice, and it can be looked for."""
    since: Instant
    """Of the part's first call."""


class DeliveryTaken(Message):
    """A reply is owed to a place, in these parts. In order of these facts, place by place."""

    kind: Literal["delivery_taken"] = "delivery_taken"
    v: int = 1
    delivery_id: DeliveryId
    session_key: SessionKey | None
    """Who is told of the end; None for the outbox's own notices."""
    place: Place
    parts: tuple[PartText, ...]
    reply_to: str | None = None
    first: bool = False
    """Goes before what waits for the place already."""
    doubt: Doubt | None = None
    """Of a reply that an operator retries: its first part may stand in the chat already, nobody knows."""
    instead: str = ""
    """What stands here instead of an answer; see `messages.gateway.Say`."""
    at: Instant


class PartTried(Message):
    """A call with this part is about to be made."""

    kind: Literal["part_tried"] = "part_tried"
    v: int = 1
    delivery_id: DeliveryId
    part: int
    attempt: int
    maybe_duplicate: bool = False
    at: Instant


class PartNotTaken(Message):
    """A try came to nothing, and this is certain."""

    kind: Literal["part_not_taken"] = "part_not_taken"
    v: int = 1
    delivery_id: DeliveryId
    part: int
    attempt: int
    problem: Problem
    counts: bool
    """Whether it brings the delivery nearer to being given up."""
    text_instead: Text | None = None
    """The part's file is left out, because it cannot be posted: this text goes out in the part's place."""
    at: Instant


class PartUnclear(Message):
    """Nobody knows whether a try was posted."""

    kind: Literal["part_unclear"] = "part_unclear"
    v: int = 1
    delivery_id: DeliveryId
    part: int
    attempt: int
    why: Text
    at: Instant


class LookUpFailed(Message):
    """The chat's history could not be searched."""

    kind: Literal["look_up_failed"] = "look_up_failed"
    v: int = 1
    delivery_id: DeliveryId
    part: int
    why: Text
    at: Instant


class PartDelivered(Message):
    """The platform posted a part."""

    kind: Literal["part_delivered"] = "part_delivered"
    v: int = 1
    delivery_id: DeliveryId
    part: int
    receipt: Text
    maybe_duplicate: bool = False
    """An earlier try of it may stand in the chat too."""
    at: Instant


class DeliveryDone(Message):
    """All parts are posted, or there was nothing to post."""

    kind: Literal["delivery_done"] = "delivery_done"
    v: int = 1
    delivery_id: DeliveryId
    session_key: SessionKey | None
    receipt: Text
    parts: int
    attempts: int
    maybe_duplicate: bool
    taken_at: Instant
    at: Instant


class DeliveryFailed(Message):
    """A reply was given up; `posted` parts of it stand in the chat. A dead letter, see `is_letter`."""

    kind: Literal["delivery_failed"] = "delivery_failed"
    v: int = 1
    delivery_id: DeliveryId
    session_key: SessionKey | None
    why: Text
    posted: int
    parts: int
    attempts: int
    taken_at: Instant
    at: Instant

    @property
    def is_letter(self) -> bool:
        """Say whether somebody lost words by it, so that an operator is to decide what becomes of them.

        Two kinds are not worth a decision. An outbox's own notice (it has no session)
        says that a reply could not be delivered: that reply is the letter. What the
        front desk said belongs to its moment (busy, not allowed here, a pairing code
        that expires): whoever speaks again is told again, hours later it would be
        wrong, and strangers could fill the operator's list with it. What `callboard send`
        was to say does count: whoever sent it may have gone before it was given up.
        `store.dead_letters` asks the same of the stored facts.
        """
        return self.session_key is not None and not self.session_key.startswith(DESK)


class DeliveryLetterClosed(Message):
    """An operator decided about the dead letter of a reply. What is owed anew is in the same append."""

    kind: Literal["delivery_letter_closed"] = "delivery_letter_closed"
    v: int = 1
    letter: int
    """The place in this stream of the `DeliveryFailed` that it closes."""
    delivery_id: DeliveryId
    how: Literal["retried", "dropped"]
    retried_as: DeliveryId | None = None
    """The id under which it is delivered again."""
    by: Text
    at: Instant


class TargetDied(Message):
    """A place is gone: nothing is sent there until somebody speaks there, or a later try succeeds."""

    kind: Literal["target_died"] = "target_died"
    v: int = 1
    place: Place
    why: Text
    at: Instant


class TargetRevived(Message):
    """A dead place is alive again."""

    kind: Literal["target_revived"] = "target_revived"
    v: int = 1
    place: Place
    at: Instant


class DraftStands(Message):
    """A live draft of a coming answer stands in a place: the answer's first post is made out of it."""

    kind: Literal["draft_stands"] = "draft_stands"
    v: int = 1
    delivery_id: DeliveryId
    place: Place
    receipt: Text
    at: Instant


class DraftDropped(Message):
    """No answer came of a draft: it is removed, as far as it could be."""

    kind: Literal["draft_dropped"] = "draft_dropped"
    v: int = 1
    delivery_id: DeliveryId
    at: Instant


class PlaceMoved(Message):
    """A chat has another id now: what is owed to the old place goes to the new one."""

    kind: Literal["place_moved"] = "place_moved"
    v: int = 1
    old: Place
    new: Place
    at: Instant


class OutboxSettled(Message):
    """In the stream `outbox-settled:…`: what the outbox's stream holds up to `through` is not needed to wake."""

    kind: Literal["outbox_settled"] = "outbox_settled"
    v: int = 1
    through: int
    """Sequence number in the outbox's stream."""
    dead: tuple[TargetDied, ...]
    """The places that were dead then."""
    moved: tuple[PlaceMoved, ...] = ()
    """The places that had another id by then."""
    at: Instant


DeliveryFact = Annotated[
    DeliveryTaken
    | PartTried
    | PartNotTaken
    | PartUnclear
    | LookUpFailed
    | PartDelivered
    | DeliveryDone
    | DeliveryFailed
    | DeliveryLetterClosed
    | TargetDied
    | TargetRevived
    | DraftStands
    | DraftDropped
    | PlaceMoved
    | OutboxSettled,
    Field(discriminator="kind"),
]
