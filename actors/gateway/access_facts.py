"""From the facts of the stream `access` to the book of who may talk to us. Pure."""

from collections.abc import Iterable
from dataclasses import replace
from urllib.parse import unquote

from actors.gateway.access import AccessBook, AccountBook, Live, part_text
from messages import access as a
from messages.base import Message
from messages.gateway import Role


def apply(book: AccessBook, fact: Message) -> AccessBook:
    """Return the book with one more thing true."""
    return fold(book, (fact,))


def fold(book: AccessBook, facts: Iterable[Message]) -> AccessBook:
    """Return the book with more things true, in their order."""
    accounts: dict[str, _Open] = {}
    claims = list(book.claims)
    for fact in facts:
        match fact:
            case a.ClaimMade():
                claims = [*(claim for claim in claims if claim.expires_at > fact.at), fact]
                continue
            case a.ClaimTaken():
                claims = [claim for claim in claims if claim.salt != fact.salt]
        assert isinstance(fact, a.Fact), f"{type(fact).__name__} says nothing about access"
        if fact.account not in accounts:
            known = book.accounts.get(fact.account)
            accounts[fact.account] = _Open(known if known is not None else AccountBook(fact.account))
        accounts[fact.account].take(fact)
    closed = {name: each.close() for name, each in accounts.items()}
    return replace(book, accounts={**book.accounts, **closed}, claims=tuple(claims))


class _Open:
    """An account's book while facts are being entered: its mappings are our own until it is closed."""

    def __init__(self, account: AccountBook) -> None:
        self._account = account
        self._people = dict(account.people)
        self._places = {"chat": dict(account.chats), "server": dict(account.servers)}
        self._chosen = {"answering": dict(account.answering), "sharing": dict(account.sharing)}
        self._home = account.home_chosen
        self._offers = {offer.user: offer for offer in account.offers}
        self._first_ids = dict(account.first_ids)
        self._newest_ids = dict(account.newest_ids)

    def close(self) -> AccountBook:
        return replace(
            self._account,
            people=self._people,
            chats=self._places["chat"],
            servers=self._places["server"],
            answering=self._chosen["answering"],
            sharing=self._chosen["sharing"],
            home_chosen=self._home,
            offers=tuple(self._offers.values()),
            first_ids=self._first_ids,
            newest_ids=self._newest_ids,
        )

    def take(self, fact: a.Fact) -> None:
        match fact:
            case a.RoleGiven():
                self._person(fact.user, fact.role.value, fact)
            case a.PairingAccepted():
                self._person(fact.user, Role.USER.value, fact)
            case a.ClaimTaken():
                self._person(fact.user, Role.OWNER.value, fact)
            case a.UserRevoked():
                self._person(fact.user, "blocked" if fact.blocked else "nobody", fact)
            case a.PlaceAllowed():
                self._places[fact.what][self._known(fact.place)] = Live("allowed", fact.by, fact.at)
            case a.PlaceRevoked():
                self._places[fact.what][self._known(fact.place)] = Live("revoked", fact.by, fact.at)
            case a.ChatSettingChosen():
                self._choose(fact)
            case a.HomeChosen():
                self._home = Live(fact.place, fact.by, fact.at) if fact.place else None
            case a.PairingOffered():
                open_ = (o for o in self._offers.values() if o.expires_at > fact.at and o.user != fact.user)
                self._offers = {offer.user: offer for offer in (*open_, fact)}
            case a.ChatIdChanged():
                self._follow(fact.old, fact.new)
            case _:
                pass  # a fact that is about no account

    def _person(self, user: str, holds: str, fact: a.Fact) -> None:
        self._people[user] = Live(holds, fact.by, fact.at)
        self._offers.pop(user, None)

    def _choose(self, fact: a.ChatSettingChosen) -> None:
        chosen, place = self._chosen[fact.setting], self._known(fact.place)
        if fact.value == "default":
            chosen.pop(place, None)
        else:
            chosen[place] = Live(fact.value, fact.by, fact.at)

    def _known(self, place: str) -> str:
        chat, colon, thread = place.partition(":")
        first = self._first_ids.get(unquote(chat))
        return place if first is None else f"{part_text(first)}{colon}{thread}"

    def _follow(self, old: str, new: str) -> None:
        """Know the new id by the first one. What was entered under the new one already is moved there."""
        first = self._first_ids.get(old, old)
        if new == first:  # it has its first id again
            self._newest_ids.pop(first, None)
            return
        further = {newer for newer, known in self._first_ids.items() if known == new}
        self._first_ids.update(dict.fromkeys((new, *further), first))
        self._newest_ids[first] = self._newest_ids.pop(new, new)
        for entries in (self._places["chat"], *self._chosen.values()):
            for place in [place for place in entries if place.partition(":")[0] == part_text(new)]:
                entries.setdefault(self._known(place), entries.pop(place))
