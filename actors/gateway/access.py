"""Who may talk to us, where, and in which role. Pure.

The settings are the base; what operators changed since (the facts of the stream
`access`) goes before them. Everything goes by the platform's ids, compared exactly and
for each account of its own; a name is never looked at.

    a person is                     may they talk?
    ------------------------------  ------------------------------------------------
    blocked                         never
    owner, admin or user            everywhere, in that role (`*` among users: anybody)
    in a chat, thread or server     there, as a user (a thread is as its chat, unless
    that is allowed                 it is listed itself; direct messages go by person)
    anybody else                    no: a stranger

Chats that have changed their id are known by the first one for ever: so lists, choices
and conversations keep, and only what is posted goes to the newest.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from functools import cached_property
from typing import Final, Literal
from urllib.parse import unquote

from actors.gateway.targets import account_name
from messages import access as a
from messages.gateway import ChatType, Origin, Role
from messages.settings import AccessSettings, PlatformSettings, RouteSettings

RANK: Final = {Role.USER: 0, Role.ADMIN: 1, Role.OWNER: 2}

ANYBODY: Final = "*"
UNLIMITED = 1_000_000
"""Messages a minute: as many as may come."""

ROLES: Final = (("owners", Role.OWNER), ("admins", Role.ADMIN), ("users", Role.USER))
IDS: Final = ("owners", "admins", "users", "blocked", "servers")
PLACES: Final = ("chats", "free_chats", "quiet_chats", "shared_chats")
"""The lists of the settings, by what stands in them: ids as they are, and places."""


def place_text(chat: str, thread: str | None = None) -> str:
    """Write a place as targets and settings do: `chat` or `chat:thread`."""
    return part_text(chat) if thread is None else f"{part_text(chat)}:{part_text(thread)}"


def place_parts(place: str) -> tuple[str, str | None]:
    """Read what `place_text` wrote. Raises ValueError for what is no place."""
    words = place.strip().split(":")
    if len(words) > 2 or not all(words):
        raise ValueError(f"{place!r} is no chat: write CHAT or CHAT:THREAD, and %3A for a colon in an id")
    return unquote(words[0]), unquote(words[1]) if len(words) > 1 else None


def part_text(text: str) -> str:
    """Write an id as it stands in a place."""
    return text.replace("%", "%25").replace(":", "%3A")


def _opened(settings: AccessSettings) -> AccessSettings:
    """Return the settings of an account that hears only who knows a secret, and has a rate of its own."""
    names = (settings.owners, settings.admins, settings.users, settings.chats, settings.servers)
    opened: dict[str, object] = {} if any(names) else {"users": (ANYBODY,)}
    for limit in ("user_per_minute", "chat_per_minute"):
        if limit not in settings.model_fields_set:
            opened[limit] = UNLIMITED
    return settings.model_copy(update=opened)


def _in_one_spelling(settings: AccessSettings) -> AccessSettings:
    """Return the settings with their people written as `person_id` does, and their places as `place_text`."""
    people = {name: tuple(map(person_id, getattr(settings, name))) for name in IDS if name != "servers"}
    places = {name: tuple(map(_respelled, getattr(settings, name))) for name in PLACES}
    return settings.model_copy(update=people | places)


def person_id(user: str) -> str:
    """Return a person's id in its one spelling: in mail addresses, nobody tells capitals from small letters."""
    return user.lower() if "@" in user[1:] and user.isascii() else user


def _respelled(place: str) -> str:
    try:
        return place_text(*place_parts(place))
    except ValueError:
        return place  # it names nothing; the list of access shows it


@dataclass(frozen=True, slots=True)
class Live:
    """Something that an operator changed: what holds now, who did it, and when."""

    holds: str
    by: str = ""
    at: datetime | None = None


@dataclass(frozen=True, slots=True)
class Standing:
    """What a person is to us in one place. No role: they may not talk to us there."""

    role: Role | None
    why: Literal["blocked", "listed", "anybody", "place", "stranger"]


Offer = a.PairingOffered


@dataclass(frozen=True)
class AccountBook:
    """All that is known of access on one account. Keys of mappings are ids and places (`place_text`)."""

    name: str
    settings: AccessSettings = field(default_factory=AccessSettings)
    home: str | None = None
    """As the settings name it."""
    max_age_s: float | None = None
    people: Mapping[str, Live] = field(default_factory=dict)
    """`owner`, `admin`, `user`, `nobody` or `blocked`."""
    chats: Mapping[str, Live] = field(default_factory=dict)
    """`allowed` or `revoked`."""
    servers: Mapping[str, Live] = field(default_factory=dict)
    answering: Mapping[str, Live] = field(default_factory=dict)
    sharing: Mapping[str, Live] = field(default_factory=dict)
    home_chosen: Live | None = None
    offers: tuple[Offer, ...] = ()
    """Those that nobody has accepted, the oldest first; some may have expired."""
    first_ids: Mapping[str, str] = field(default_factory=dict)
    """By the newer ids of chats that changed theirs."""
    newest_ids: Mapping[str, str] = field(default_factory=dict)
    """By the first ids of those chats."""

    # ---------------------------------------------------------------- chats that moved

    def first_id(self, chat: str) -> str:
        """Return the id under which a chat is known here."""
        return self.first_ids.get(chat, chat)

    def newest_id(self, chat: str) -> str:
        """Return the id that a chat has on the platform now."""
        first = self.first_id(chat)
        return self.newest_ids.get(first, first)

    def known(self, place: str) -> str:
        """Return a place of the settings or of a wish as it is known here."""
        if not self.first_ids:
            return place
        chat, colon, thread = place.partition(":")
        first = self.first_ids.get(unquote(chat))
        return place if first is None else f"{part_text(first)}{colon}{thread}"

    @cached_property
    def _listed(self) -> Mapping[str, frozenset[str]]:
        """What stands in the settings, places as they are known here."""
        settings = self.settings
        ids = {name: frozenset(getattr(settings, name)) for name in IDS}
        places = {name: frozenset(map(self.known, getattr(settings, name))) for name in PLACES}
        return {**ids, **places}

    def places_of(self, origin: Origin) -> tuple[str, ...]:
        """Return where something was said: the thread and its chat, or the chat."""
        if not origin.chat:
            return ()
        chat = self.first_id(origin.chat)
        if origin.chat_type is ChatType.THREAD and origin.thread:
            return (place_text(chat, origin.thread), place_text(chat))
        return (place_text(chat),)

    # ---------------------------------------------------------------- who may speak

    def standing(self, user: str, origin: Origin) -> Standing:
        """Say what somebody is to us where they spoke."""
        live = self.people.get(user) or self.people.get(person_id(user)) if user else None
        user = person_id(user)
        found = self._by_settings(user) if live is None else _by_operators(live)
        if found is not None:
            return found
        if self._place_allowed(origin):
            return Standing(Role.USER, "place")
        return Standing(None, "stranger")

    def _by_settings(self, user: str) -> Standing | None:
        listed = self._listed
        if not user:
            return None
        if user in listed["blocked"]:
            return Standing(None, "blocked")
        role = None if user == ANYBODY else self.listed_role(user)
        if role is not None:
            return Standing(role, "listed")
        return Standing(Role.USER, "anybody") if ANYBODY in listed["users"] else None

    def listed_role(self, user: str) -> Role | None:
        """Return the role that the settings give to somebody by their id."""
        user = person_id(user)
        for name, role in ROLES:
            if user in self._listed[name]:
                return role
        return None

    def _place_allowed(self, origin: Origin) -> bool:
        if origin.chat_type is ChatType.DM:
            return False
        for place in self.places_of(origin):
            live = self.chats.get(place)
            if live is not None:
                return live.holds == "allowed"
            if place in self._listed["chats"]:
                return True
        if ANYBODY in self._listed["chats"] and origin.chat:
            return True
        if not origin.server:
            return False
        live = self.servers.get(origin.server)
        return live.holds == "allowed" if live is not None else origin.server in self._listed["servers"]

    @property
    def lets_anybody_in(self) -> bool:
        """Whether there is anybody who may talk to us; without, only codes let people in."""
        named = any(self._listed[name] for name in ("owners", "admins", "users", "chats", "servers"))
        people = any(live.holds not in ("nobody", "blocked") for live in self.people.values())
        places = (*self.chats.values(), *self.servers.values())
        return named or people or any(live.holds == "allowed" for live in places)

    # ---------------------------------------------------------------- how we behave

    def answers_everything(self, origin: Origin) -> bool:
        """Whether what is not addressed to us is answered too."""
        for place in self.places_of(origin):
            live = self.answering.get(place)
            if live is not None:
                return live.holds == "free"
            if place in self._listed["quiet_chats"]:
                return False
            if place in self._listed["free_chats"]:
                return True
        return self.settings.answer == "always"

    def is_quiet(self, origin: Origin) -> bool:
        """Whether somebody said that only what is addressed to us is answered there."""
        for place in self.places_of(origin):
            live = self.answering.get(place)
            if live is not None:
                return live.holds == "quiet"
            if place in self._listed["quiet_chats"]:
                return True
            if place in self._listed["free_chats"]:
                return False
        return False

    def shares(self, origin: Origin) -> bool:
        """Whether a place has one conversation for all who talk there."""
        places = self.places_of(origin)
        if not places:
            return False
        live = self.sharing.get(places[0])
        if live is not None:
            return live.holds == "shared"
        if places[0] in self._listed["shared_chats"]:
            return True
        if origin.chat_type is ChatType.THREAD:
            return self.settings.threads == "shared"
        return self.settings.sessions == "shared"

    def needed_role(self, command: str, usual: Role) -> Role:
        """Return the role that a command needs."""
        named = self.settings.command_roles.get(command)
        return usual if named is None else Role(named)

    @property
    def home_now(self) -> str | None:
        """Where what answers nobody is said, with the id that the chat has now."""
        place = self.home_chosen.holds if self.home_chosen is not None else self.home
        if not place:
            return None
        chat, colon, thread = place.partition(":")
        newest = self.newest_id(unquote(chat))
        return place if newest == unquote(chat) else f"{part_text(newest)}{colon}{thread}"


def _by_operators(live: Live) -> Standing | None:
    match live.holds:
        case "blocked":
            return Standing(None, "blocked")
        case "nobody":
            return None
        case role:
            return Standing(Role(role), "listed")


@dataclass(frozen=True)
class AccessBook:
    """All accounts, by `platform` or `platform/account`. What is not in it has no access rules at all."""

    accounts: Mapping[str, AccountBook] = field(default_factory=dict)
    claims: tuple[a.ClaimMade, ...] = ()
    """Those that nobody has used, the oldest first; some may have expired."""
    routes: tuple[RouteSettings, ...] = ()
    served: frozenset[str] = frozenset()
    """The accounts that the settings name."""

    @classmethod
    def of_settings(
        cls,
        platforms: Mapping[str, PlatformSettings],
        routes: tuple[RouteSettings, ...] = (),
        homes: Mapping[str, str | None] | None = None,
        speakers_checked: Collection[str] = (),
    ) -> "AccessBook":
        """Return what the settings say; `homes` are the home chats where the environment may name them.

        On the accounts of `speakers_checked`, whoever is heard may talk to us, unless the
        settings name anybody.
        """
        named = homes or {}
        accounts = {
            name: AccountBook(
                name=name,
                settings=_in_one_spelling(_opened(each.access) if name in speakers_checked else each.access),
                home=named.get(name, each.home),
                max_age_s=None if each.max_age_minutes is None else each.max_age_minutes * 60,
            )
            for name, each in platforms.items()
        }
        return cls(accounts=accounts, routes=routes, served=frozenset(accounts))

    def account_of(self, origin: Origin) -> AccountBook | None:
        """Return the account that heard something; None for a surface without access rules."""
        name = account_name(origin.platform, origin.account)
        return self.accounts.get(name) if name in self.served else None

    def at_home(self, origin: Origin) -> Origin:
        """Return a place as it is known here: under the chat's first id, with the profile that answers there."""
        account = self.account_of(origin)
        if account is None:
            return origin
        changes: dict[str, str] = {}
        chat = origin.chat and account.first_id(origin.chat)
        if chat and chat != origin.chat:
            changes["chat"] = chat
        profile = self._profile(origin, account)
        if profile != origin.profile:
            changes["profile"] = profile
        return origin.model_copy(update=changes) if changes else origin

    def profile_of(self, origin: Origin) -> str:
        """Return the profile that answers in a place: that of the first route that fits."""
        account = self.account_of(origin)
        return origin.profile if account is None else self._profile(origin, account)

    def _profile(self, origin: Origin, account: AccountBook) -> str:
        if origin.profile != "main":
            return origin.profile
        fits = (route.profile for route in self.routes if _fits(route, origin, account))
        return next(fits, origin.profile)

    def shares(self, origin: Origin) -> bool | None:
        """Whether a place has one conversation for all; None where nothing is said about it."""
        account = self.account_of(origin)
        return None if account is None else account.shares(origin)

    def posted_to(self, origin: Origin) -> Origin:
        """Return a place with the id that its chat has on the platform now."""
        account = self.account_of(origin)
        if account is None or not origin.chat or not account.first_ids:
            return origin
        newest = account.newest_id(origin.chat)
        return origin if newest == origin.chat else origin.model_copy(update={"chat": newest})


def _fits(route: RouteSettings, origin: Origin, account: AccountBook) -> bool:
    return (
        (route.platform is None or route.platform in (account.name, origin.platform))
        and (route.server is None or route.server == origin.server)
        and (
            route.chat is None
            or (bool(origin.chat) and account.first_id(route.chat) == account.first_id(origin.chat or ""))
        )
        and (route.thread is None or route.thread == origin.thread)
        and (route.user is None or person_id(route.user) == person_id(origin.user or ""))
    )


class Homes(Mapping[str, str | None]):
    """The home chats of the accounts, as they are now."""

    def __init__(self, ledger: "AccessLedger", names: Iterable[str]) -> None:
        self._ledger = ledger
        self._names = tuple(names)

    def __getitem__(self, name: str) -> str | None:
        if name not in self._names:
            raise KeyError(name)
        account = self._ledger.book.accounts.get(name)
        return account.home_now if account is not None else None

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)


class AccessLedger:
    """The book as it stands: replaced by the access room alone, read by whoever decides."""

    def __init__(self, book: AccessBook) -> None:
        self.book = book
