"""Who may talk to us where: what operators wish, and the facts of the journal's stream `access`.

An account is named as in the settings: `platform`, or `platform/account`. A place is
a chat, or a thread of it, written as in targets: `chat` or `chat:thread`, with `:` and
`%` in an id percent-encoded. All ids are the platform's own; names play no part.
"""

from typing import Annotated, Literal

from pydantic import Field

from messages.base import Instant, Message, Text
from messages.gateway import MessageReceived, Role
from messages.ids import SessionKey, StreamId

ACCESS: StreamId = StreamId("access")
"""The stream of all facts below."""

ChatSetting = Literal["free", "quiet", "shared", "per_user", "default"]
"""In a chat: `free`, everything is answered; `quiet`, only what is addressed to us; `shared`, one conversation
for all; `per_user`, one for each person; `default`, all of it as the settings say."""


# ------------------------------------------------------------------ wishes


class Wish(Message):
    """Something that an operator wants. `account` is empty where it makes no difference."""

    account: str = ""


class ShowAccess(Wish):
    """Say who may do what, and where each entry comes from."""

    kind: Literal["show_access"] = "show_access"


class ShowPending(Wish):
    """Say which strangers wait for a yes."""

    kind: Literal["show_pending"] = "show_pending"


class AllowUser(Wish):
    """Let somebody talk to us, or give them another role."""

    kind: Literal["allow_user"] = "allow_user"
    user: Text
    role: Role = Role.USER


class RevokeUser(Wish):
    """Take somebody's permission back; with `block` they are never heard, also where everybody may."""

    kind: Literal["revoke_user"] = "revoke_user"
    user: Text
    block: bool = False


class AllowPlace(Wish):
    """Let everybody in a chat, a thread or a server talk to us there."""

    kind: Literal["allow_place"] = "allow_place"
    what: Literal["chat", "server"]
    place: Text


class RevokePlace(Wish):
    """The opposite: there, only those may who may everywhere."""

    kind: Literal["revoke_place"] = "revoke_place"
    what: Literal["chat", "server"]
    place: Text


class ChooseForChat(Wish):
    """Choose how we behave in a chat or thread."""

    kind: Literal["choose_for_chat"] = "choose_for_chat"
    place: Text
    value: ChatSetting


class ChooseHome(Wish):
    """Say there what answers nobody; an empty place: as the settings say."""

    kind: Literal["choose_home"] = "choose_home"
    place: Text


class ApprovePairing(Wish):
    """Let in the stranger who was given this code."""

    kind: Literal["approve_pairing"] = "approve_pairing"
    code: Text


class MakeClaim(Wish):
    """Make a one-time code; who says it to us in a direct message is the owner. An empty account: on any."""

    kind: Literal["make_claim"] = "make_claim"


AnyWish = Annotated[
    ShowAccess
    | ShowPending
    | AllowUser
    | RevokeUser
    | AllowPlace
    | RevokePlace
    | ChooseForChat
    | ChooseHome
    | ApprovePairing
    | MakeClaim,
    Field(discriminator="kind"),
]


class AccessAsked(Message):
    """An operator at the console wishes something; who may use the console may do all of it."""

    wish: AnyWish
    by: Text


class AccessEntry(Message):
    """One line of the list: who or what, what holds for it, and since when by whom."""

    account: str
    what: Literal["user", "chat", "server", "home", "moved"]
    id: Text
    holds: Text
    """`owner`, `blocked`, `allowed`, `answers everything` …"""
    source: Literal["settings", "live"]
    by: Text = ""
    at: Instant | None = None


class PendingPairing(Message):
    """A stranger who waits for a yes. The name is theirs: untrusted decoration."""

    account: str
    user: Text
    name: Text
    asked_at: Instant
    expires_at: Instant


class AccessAnswered(Message):
    """What came of a wish."""

    done: bool
    text: Text
    """For people, one paragraph."""
    entries: tuple[AccessEntry, ...] = ()
    pending: tuple[PendingPairing, ...] = ()
    code: str = ""
    """Of MakeClaim; it is told once and kept nowhere."""


# ------------------------------------------------------------------ from the front desk


class WishSpoken(Message):
    """Somebody in a chat wishes something, by `/access …` or `/sethome`."""

    kind: Literal["wish_spoken"] = "wish_spoken"
    bounded = True
    key: SessionKey
    name: str
    """The command's name."""
    argument: Text
    heard: MessageReceived
    """With the author's role, as the front desk found it."""
    wish: AnyWish | None
    """None when the argument makes no sense; `problem` then says why."""
    problem: Text = ""


class StrangerKnocked(Message):
    """Somebody whom we do not know wrote a direct message."""

    kind: Literal["stranger_knocked"] = "stranger_knocked"
    bounded = True
    key: SessionKey
    heard: MessageReceived


class ClaimTried(Message):
    """Somebody says that they are the owner, with a code."""

    kind: Literal["claim_tried"] = "claim_tried"
    bounded = True
    key: SessionKey
    heard: MessageReceived
    code: Text
    known: bool
    """Whether they may talk to us already."""


# ------------------------------------------------------------------ facts


class Fact(Message):
    """Something that is true about access from now on."""

    v: int = 1
    account: str
    by: Text = ""
    """Who did it: `discord user 42`, or `the command line`."""
    at: Instant


class RoleGiven(Fact):
    """Somebody may talk to us, in this role, wherever we are."""

    kind: Literal["role_given"] = "role_given"
    user: Text
    role: Role


class UserRevoked(Fact):
    """Somebody is on no list any more, whatever the settings say; `blocked`: they may never talk to us."""

    kind: Literal["user_revoked"] = "user_revoked"
    user: Text
    blocked: bool = False


class PlaceAllowed(Fact):
    """Everybody in a chat, thread or server may talk to us there."""

    kind: Literal["place_allowed"] = "place_allowed"
    what: Literal["chat", "server"]
    place: Text


class PlaceRevoked(Fact):
    """That is over, whatever the settings say."""

    kind: Literal["place_revoked"] = "place_revoked"
    what: Literal["chat", "server"]
    place: Text


class ChatSettingChosen(Fact):
    """Somebody chose how we behave in a chat or thread."""

    kind: Literal["chat_setting_chosen"] = "chat_setting_chosen"
    place: Text
    setting: Literal["answering", "sharing"]
    value: ChatSetting


class HomeChosen(Fact):
    """What answers nobody is said here; an empty place: as the settings say."""

    kind: Literal["home_chosen"] = "home_chosen"
    place: Text


class PairingOffered(Fact):
    """A stranger was given a code. The code itself is kept nowhere."""

    kind: Literal["pairing_offered"] = "pairing_offered"
    user: Text
    name: Text = ""
    salt: str
    digest: str
    expires_at: Instant


class PairingAccepted(Fact):
    """An operator said the code: the stranger may talk to us."""

    kind: Literal["pairing_accepted"] = "pairing_accepted"
    user: Text


class ClaimMade(Fact):
    """A one-time code for the owner exists. An empty account: it is good on any."""

    kind: Literal["claim_made"] = "claim_made"
    salt: str
    digest: str
    expires_at: Instant


class ClaimTaken(Fact):
    """Somebody said the code and is an owner now; it is good for nothing any more."""

    kind: Literal["claim_taken"] = "claim_taken"
    user: Text
    salt: str
    """Names the claim."""


class ChatIdChanged(Fact):
    """A chat has another id now; what was bound to the old one belongs to the new one."""

    kind: Literal["chat_id_changed"] = "chat_id_changed"
    old: Text
    new: Text


AccessFact = Annotated[
    RoleGiven
    | UserRevoked
    | PlaceAllowed
    | PlaceRevoked
    | ChatSettingChosen
    | HomeChosen
    | PairingOffered
    | PairingAccepted
    | ClaimMade
    | ClaimTaken
    | ChatIdChanged,
    Field(discriminator="kind"),
]
