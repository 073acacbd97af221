"""What operators may change about access, and what strangers and owners do with codes. Pure.

    wish                        who may                      facts
    --------------------------  ---------------------------  ----------------------------------
    show access, pending        admins                       none
    allow, revoke, block        admins; of admins and        RoleGiven, UserRevoked
                                owners, and to make them
                                such: owners alone
    allow, revoke a place       admins                       PlaceAllowed, PlaceRevoked
    choose for a chat, home     admins                       ChatSettingChosen, HomeChosen
    approve a pairing           admins                       PairingAccepted
    make a claim                the console alone            ClaimMade

Whoever stands at the console may do all of it. What holds already makes no new fact, so
that a wish that comes twice changes nothing.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from actors.gateway import access_words as words
from actors.gateway.access import ANYBODY, RANK, AccessBook, AccountBook, person_id, place_parts, place_text
from actors.gateway.pairing import MOST_CLAIMS, PAIRING_LIFE, NewClaim
from actors.session.quoting import quoted
from messages import access as a
from messages.base import Message
from messages.gateway import MessageReceived, Role

MOST_PENDING: Final = 3
"""Strangers of one account who wait for a yes; the next is told nothing until one of them is gone."""

OFFER_EVERY: Final = timedelta(hours=1)
"""A stranger is told a code once in so long."""

LONGEST_ID: Final = 512


@dataclass(frozen=True, slots=True)
class Outcome:
    """What is true from now on, and what is said about it."""

    facts: tuple[Message, ...]
    answer: a.AccessAnswered


@dataclass(frozen=True, slots=True)
class Asker:
    """Who wishes something. No role: whoever stands at the console."""

    by: str
    role: Role | None = None


def _no(text: str) -> Outcome:
    return Outcome((), a.AccessAnswered(done=False, text=text))


def _yes(text: str, *facts: Message) -> Outcome:
    return Outcome(facts, a.AccessAnswered(done=True, text=text))


def grant(
    book: AccessBook, wish: a.AnyWish, asker: Asker, now: datetime, found: a.PairingOffered | None = None
) -> Outcome:
    """Decide about a wish that needs no code to be made. `found` is whose code was said, for a pairing."""
    if asker.role is not None and RANK[asker.role] < RANK[Role.ADMIN]:
        return _no("Only admins may look at access and change it.")
    if isinstance(wish, a.ShowAccess):
        listed = tuple(words.entries(book, wish.account))
        return Outcome((), a.AccessAnswered(done=True, text=words.list_text(listed), entries=listed))
    if isinstance(wish, a.ShowPending):
        waiting = pending(book, wish.account, now)
        return Outcome((), a.AccessAnswered(done=True, text=words.pending_text(waiting), pending=waiting))
    if isinstance(wish, a.ApprovePairing):
        return _accepted(found, asker, now)
    if isinstance(wish, a.MakeClaim):
        return _no("A code for the owner is made with `callboard access claim`, on the machine itself.")
    account = book.accounts.get(wish.account)
    if account is None or wish.account not in book.served:
        known = ", ".join(sorted(book.served)) or "none"
        return _no(f"{quoted(wish.account)} is no account of the settings; there are: {known}.")
    return _changed(account, wish, asker, now)


def _changed(account: AccountBook, wish: a.AnyWish, asker: Asker, now: datetime) -> Outcome:
    match wish:
        case a.AllowUser():
            return _allowed(account, wish, asker, now)
        case a.RevokeUser():
            return _revoked(account, wish, asker, now)
        case a.AllowPlace() | a.RevokePlace():
            return _place(account, wish, asker, now)
        case a.ChooseForChat():
            return _chosen(account, wish, asker, now)
        case a.ChooseHome():
            return _home(account, wish, asker, now)
        case _:
            raise AssertionError(f"{type(wish).__name__} was decided about before")


# ------------------------------------------------------------------ people


def _role_in(account: AccountBook, user: str) -> Role | None:
    """The role that somebody was given by name of their id, wherever they are."""
    live = account.people.get(user)
    if live is not None:
        return Role(live.holds) if live.holds in list(Role) else None
    return None if user in account.settings.blocked else account.listed_role(user)


def _untouchable(account: AccountBook, user: str, asker: Asker, *, role: Role = Role.USER) -> bool:
    """Whether this is about admins or owners, and an admin asks."""
    if asker.role in (None, Role.OWNER):
        return False
    has = _role_in(account, user)
    return role is not Role.USER or (has is not None and has is not Role.USER)


ONLY_OWNERS: Final = "Only the owner may make, change or shut out admins and owners."


def _wrong_id(user: str) -> str:
    if not user.strip() or user != user.strip() or len(user) > LONGEST_ID:
        return "That is no id."
    if user == ANYBODY:
        return "Everybody at once can be let in by the settings alone (`users`)."
    return ""


def _allowed(account: AccountBook, wish: a.AllowUser, asker: Asker, now: datetime) -> Outcome:
    user, role = person_id(wish.user), wish.role
    wrong = _wrong_id(user)
    if wrong:
        return _no(wrong)
    if _untouchable(account, user, asker, role=role):
        return _no(ONLY_OWNERS)
    who = f"{words.code_span(user)} on {account.name}"
    if _role_in(account, user) is role:
        return _yes(f"{who} is {role.value} already.")
    fact = a.RoleGiven(account=account.name, user=user, role=role, by=asker.by, at=now)
    may = {
        Role.USER: "may talk to me now",
        Role.ADMIN: "is an admin now: may change access and settings of chats, and approve",
        Role.OWNER: "is an owner now: may do everything",
    }[role]
    return _yes(f"{who} {may}.", fact)


def _revoked(account: AccountBook, wish: a.RevokeUser, asker: Asker, now: datetime) -> Outcome:
    user = person_id(wish.user)
    wrong = _wrong_id(user)
    if wrong:
        return _no(wrong)
    if _untouchable(account, user, asker):
        return _no(ONLY_OWNERS)
    who = f"{words.code_span(user)} on {account.name}"
    holds = "blocked" if wish.block else "nobody"
    live = account.people.get(user)
    if live is not None and live.holds == holds:
        return _yes(f"{who} is {holds} already.")
    fact = a.UserRevoked(account=account.name, user=user, blocked=wish.block, by=asker.by, at=now)
    if wish.block:
        return _yes(f"{who} is blocked: I hear nothing of them any more, wherever they are.", fact)
    rest = " In chats and servers where everybody may, so may they; `block` shuts them out there too."
    return _yes(f"{who} is nobody to me now.{rest}", fact)


# ------------------------------------------------------------------ places


def _spelled(place: str) -> str:
    """Return a place in its one spelling. Raises ValueError."""
    return place_text(*place_parts(place))


def _place(account: AccountBook, wish: a.AllowPlace | a.RevokePlace, asker: Asker, now: datetime) -> Outcome:
    try:
        place = account.known(_spelled(wish.place)) if wish.what == "chat" else wish.place.strip()
    except ValueError as error:
        return _no(f"{error}.")
    if not place or len(place) > LONGEST_ID or place == ANYBODY:
        return _no(f"That is no {wish.what}.")
    allows = isinstance(wish, a.AllowPlace)
    live = (account.chats if wish.what == "chat" else account.servers).get(place)
    name = f"{wish.what} {words.code_span(place)} on {account.name}"
    if live is not None and live.holds == ("allowed" if allows else "revoked"):
        return _yes(f"That holds already for {name}.")
    about = {"account": account.name, "what": wish.what, "place": place, "by": asker.by, "at": now}
    if allows:
        return _yes(f"Everybody in {name} may talk to me there now.", a.PlaceAllowed.model_validate(about))
    text = f"In {name}, only those may talk to me now who may everywhere."
    return _yes(text, a.PlaceRevoked.model_validate(about))


def _chosen(account: AccountBook, wish: a.ChooseForChat, asker: Asker, now: datetime) -> Outcome:
    try:
        place = account.known(_spelled(wish.place))
    except ValueError as error:
        return _no(f"{error}.")
    settings = {"free": ["answering"], "quiet": ["answering"], "shared": ["sharing"], "per_user": ["sharing"]}
    facts = tuple(
        a.ChatSettingChosen.model_validate(
            {
                "account": account.name,
                "place": place,
                "setting": setting,
                "value": wish.value,
                "by": asker.by,
                "at": now,
            }
        )
        for setting in settings.get(wish.value, ["answering", "sharing"])
        if _holds(account, setting, place) != wish.value
    )
    says = {
        "free": "I answer everything that is said",
        "quiet": "I answer only what is said to me",
        "shared": "There is one conversation for all",
        "per_user": "Everybody has a conversation of their own",
        "default": "I behave as the settings say",
    }[wish.value]
    return _yes(f"{says} in {words.code_span(place)} on {account.name}.", *facts)


def _holds(account: AccountBook, setting: str, place: str) -> str:
    live = (account.answering if setting == "answering" else account.sharing).get(place)
    return live.holds if live is not None else "default"


def _home(account: AccountBook, wish: a.ChooseHome, asker: Asker, now: datetime) -> Outcome:
    try:
        place = _spelled(wish.place) if wish.place else ""
    except ValueError as error:
        return _no(f"{error}.")
    chosen = account.home_chosen.holds if account.home_chosen is not None else ""
    fact = a.HomeChosen(account=account.name, place=place, by=asker.by, at=now)
    facts = () if chosen == place else (fact,)
    if not place:
        return _yes(f"The home chat of {account.name} is as the settings say.", *facts)
    text = (
        f"{words.code_span(place)} is the home chat of {account.name} now: what answers nobody is said there."
    )
    return _yes(text, *facts)


# ------------------------------------------------------------------ pairing


def pending(book: AccessBook, account: str, now: datetime) -> tuple[a.PendingPairing, ...]:
    """Return who waits for a yes, on one account or on all."""
    return tuple(
        a.PendingPairing(
            account=name, user=offer.user, name=offer.name, asked_at=offer.at, expires_at=offer.expires_at
        )
        for name, each in sorted(book.accounts.items())
        if not account or account == name
        for offer in each.offers
        if offer.expires_at > now
    )


def open_offers(book: AccessBook, account: str, now: datetime) -> tuple[a.PairingOffered, ...]:
    """Return the offers that a code may be for, on one account or on all."""
    return tuple(
        offer
        for name, each in book.accounts.items()
        if not account or account == name
        for offer in each.offers
        if offer.expires_at > now
    )


def may_be_offered(account: AccountBook, user: str, now: datetime) -> bool:
    """Whether a stranger is told a code now."""
    if not user or len(user) > LONGEST_ID:
        return False
    waiting = [offer for offer in account.offers if offer.expires_at > now]
    if any(offer.user == user and now - offer.at < OFFER_EVERY for offer in account.offers):
        return False
    return len(waiting) < MOST_PENDING


def offer(
    account: AccountBook, heard: MessageReceived, salt: str, digest: str, now: datetime
) -> a.PairingOffered:
    """The fact that a stranger was told a code."""
    return a.PairingOffered(
        account=account.name,
        user=heard.author.id,
        name=heard.author.name[:80],
        salt=salt,
        digest=digest,
        expires_at=now + PAIRING_LIFE,
        by=heard.author.id,
        at=now,
    )


def _accepted(found: a.PairingOffered | None, asker: Asker, now: datetime) -> Outcome:
    if found is None:
        return _no("Nobody waits with this code. Codes are good for an hour; a new message gets a new one.")
    fact = a.PairingAccepted(account=found.account, user=found.user, by=asker.by, at=now)
    who = f"{words.code_span(found.user)} on {found.account}, who goes by {quoted(found.name)},"
    return _yes(f"{who} may talk to me now.", fact)


# ------------------------------------------------------------------ claims


def open_claims(book: AccessBook, account: str, now: datetime) -> tuple[a.ClaimMade, ...]:
    """Return the claims that a code said on an account may be for, the latest of them."""
    live = [claim for claim in book.claims if claim.expires_at > now]
    return tuple(claim for claim in live[-MOST_CLAIMS:] if claim.account in ("", account))


def claimed(book: AccessBook, made: NewClaim, account: str) -> Outcome:
    """Somebody at the console wants a code for the owner."""
    if account and account not in book.served:
        known = ", ".join(sorted(book.served)) or "none"
        return _no(f"{quoted(account)} is no account of the settings; there are: {known}.")
    where = f"on {account}" if account else "on any of the accounts"
    text = f"Write to me {where}, in a direct message, within a day: /claim {made.code}"
    return Outcome((made.fact,), a.AccessAnswered(done=True, text=text, code=made.code))


def taken(claim: a.ClaimMade, account: str, user: str, now: datetime) -> Sequence[Message]:
    """Somebody said the code: they are an owner of that account."""
    return (
        a.ClaimTaken(
            account=account, user=user, salt=claim.salt, by=f"claim by {claim.by or 'the console'}", at=now
        ),
    )
