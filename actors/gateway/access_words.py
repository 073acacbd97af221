"""`/access …` read as a wish, and what is known of access put into words. Pure."""

from collections.abc import Iterable, Iterator
from typing import Final

from actors.gateway.access import AccessBook, AccountBook, Live, Standing, place_parts, place_text
from actors.gateway.targets import account_name
from actors.session.quoting import quoted
from messages import access as a
from messages.gateway import ChatType, MessageReceived, Origin, Role

MOST_IN_A_CHAT: Final = 40
"""Lines of a list that are shown in a chat; `callboard access list` shows all."""

USAGE: Final = """What `/access` can do, for this account (USER and CHAT are ids; `here` is this chat, `thread` this thread):

- `/access list` who may talk to me, and where
- `/access allow USER` · `/access revoke USER` · `/access block USER`
- `/access allow chat here` · `/access revoke chat here` everybody in a chat
- `/access allow server here` · `/access revoke server here`
- `/access role USER user|admin|owner`
- `/access chat free|quiet [CHAT]` answer everything here, or only what is said to me
- `/access chat shared|per_user [CHAT]` one conversation for all here, or one for each person
- `/access chat default [CHAT]` all of it as the settings say
- `/access pending` · `/access approve CODE` let in a stranger who was given a code"""


class WishError(ValueError):
    """What was written is no wish; the text says what to write."""


def account_of(origin: Origin) -> str:
    return account_name(origin.platform, origin.account)


def here(origin: Origin, word: str = "here") -> str:
    """Return the chat that somebody speaks in, or with the word `thread` the thread."""
    if not origin.chat:
        raise WishError("This place has no id of its own.")
    if word != "thread":
        return place_text(origin.chat)  # some platforms begin a thread with each message
    if origin.chat_type is not ChatType.THREAD or not origin.thread:
        raise WishError("This is no thread.")
    return place_text(origin.chat, origin.thread)


def read_wish(argument: str, heard: MessageReceived) -> a.AnyWish:
    """Read what stands after `/access`. Raises WishError."""
    account, origin = account_of(heard.origin), heard.origin
    match argument.split():
        case [] | ["list"]:
            return a.ShowAccess(account=account)
        case ["pending"]:
            return a.ShowPending(account=account)
        case ["approve", *code] if code:
            return a.ApprovePairing(account=account, code=" ".join(code))
        case ["allow", "chat" | "server" as what, *place]:
            return a.AllowPlace(account=account, what=what, place=_place(what, place, origin))
        case ["revoke", "chat" | "server" as what, *place]:
            return a.RevokePlace(account=account, what=what, place=_place(what, place, origin))
        case ["allow", *user]:
            return a.AllowUser(account=account, user=_user(user, heard))
        case ["revoke" | "block" as how, *user]:
            return a.RevokeUser(account=account, user=_user(user, heard), block=how == "block")
        case ["role", *user, role] if role in list(Role):
            return a.AllowUser(account=account, user=_user(user, heard), role=Role(role))
        case ["chat", "free" | "quiet" | "shared" | "per_user" | "default" as value, *place]:
            return a.ChooseForChat(account=account, place=_place("chat", place, origin), value=value)
        case _:
            raise WishError(USAGE)


def _place(what: str, words: list[str], origin: Origin) -> str:
    match words:
        case [] | ["here" | "thread"] if what == "chat":
            return here(origin, *words)
        case [] | ["here"]:
            if not origin.server:
                raise WishError("This chat belongs to no server.")
            return origin.server
        case [word]:
            return checked_place(word) if what == "chat" else word
        case _:
            raise WishError(f"Name one {what} by its id, or write `here`.")


def checked_place(word: str) -> str:
    """Return a place in the one way that places are written. Raises WishError."""
    try:
        return place_text(*place_parts(word))
    except ValueError as error:
        raise WishError(f"{error}.") from None


def _user(words: list[str], heard: MessageReceived) -> str:
    """The id that was written; else of whoever said what this replies to."""
    quoted = heard.quote.author if heard.quote is not None and not heard.quote.ours else None
    match words:
        case [] if quoted is not None and quoted.id:
            return quoted.id
        case [word] if not word.startswith("*"):
            return word
        case _:
            raise WishError(
                "Name one person by their id, or reply to something they said. With `/whoami` they see their id;"
                " names are not enough, for anybody can take any name."
            )


# ------------------------------------------------------------------ in words


def code_span(text: str) -> str:
    """Return an id as Markdown shows it without taking anything in it for mark-up."""
    plain = "".join(char if char.isprintable() else "?" for char in text).replace("`", "'")
    return f"`{plain}`"


def whoami(heard: MessageReceived, standing: Standing, key: str) -> str:
    """Say who somebody is to us."""
    origin = heard.origin
    role = standing.role.value if standing.role else "nobody"
    because = {
        "listed": "",
        "anybody": ", as anybody is",
        "place": ", as everybody here is",
    }.get(standing.why, "")
    lines = [
        f"- **You**: {code_span(heard.author.id)} on {account_of(origin)}",
        f"- **To me**: {role}{because}",
    ]
    for name, value in (("Chat", origin.chat), ("Thread", origin.thread), ("Server", origin.server)):
        if value:
            lines.append(f"- **{name}**: {code_span(value)}")
    return "\n".join([*lines, f"- **Conversation**: {code_span(key)}"])


def entries(book: AccessBook, account: str = "") -> Iterator[a.AccessEntry]:
    """List what holds, on one account or on all, and where each entry comes from."""
    for name, each in sorted(book.accounts.items()):
        if not account or name == account:
            yield from _entries(each)


def _entries(book: AccountBook) -> Iterator[a.AccessEntry]:
    settings = book.settings
    yield from _people(book)
    for what, listed, live in (
        ("chat", settings.chats, book.chats),
        ("server", settings.servers, book.servers),
    ):
        for place in listed:
            if (book.known(place) if what == "chat" else place) not in live:
                yield _entry(book, what, place, "allowed")
        for place, now in live.items():
            yield _entry(book, what, place, now.holds, now)
    for holds, listed, live in (
        ("free", settings.free_chats, book.answering),
        ("quiet", settings.quiet_chats, book.answering),
        ("shared", settings.shared_chats, book.sharing),
    ):
        for place in listed:
            if book.known(place) not in live:
                yield _entry(book, "chat", place, holds)
    for live in (book.answering, book.sharing):
        for place, now in live.items():
            yield _entry(book, "chat", place, now.holds, now)
    if book.home_now:
        yield _entry(book, "home", book.home_now, "home", book.home_chosen)
    for first, newest in book.newest_ids.items():
        yield _entry(book, "moved", first, f"is {newest} now", Live(""))


def _people(book: AccountBook) -> Iterator[a.AccessEntry]:
    settings, seen = book.settings, set[str]()
    for holds, listed in (
        ("blocked", settings.blocked),
        ("owner", settings.owners),
        ("admin", settings.admins),
        ("user", settings.users),
    ):
        for user in listed:
            if user not in book.people and user not in seen:
                seen.add(user)
                yield _entry(book, "user", user, holds)
    for user, now in book.people.items():
        yield _entry(book, "user", user, now.holds, now)


def _entry(book: AccountBook, what: str, name: str, holds: str, live: Live | None = None) -> a.AccessEntry:
    return a.AccessEntry.model_validate(
        {
            "account": book.name,
            "what": what,
            "id": name,
            "holds": holds,
            "source": "settings" if live is None else "live",
            "by": live.by if live else "",
            "at": live.at if live else None,
        }
    )


def entry_line(entry: a.AccessEntry) -> str:
    """Return one line about an entry, as people read it in a chat."""
    source = "settings" if entry.source == "settings" else f"by {entry.by}" if entry.by else "live"
    return f"- {entry.what} {code_span(entry.id)}: {entry.holds} ({source})"


def list_text(found: Iterable[a.AccessEntry]) -> str:
    """Return the list as people read it in a chat."""
    lines = [entry_line(entry) for entry in found]
    if not lines:
        return "Nobody may talk to me yet, except by a pairing code."
    more = len(lines) - MOST_IN_A_CHAT
    return "\n".join([*lines[:MOST_IN_A_CHAT], *([f"- … and {more} more"] if more > 0 else [])])


def pending_text(pending: Iterable[a.PendingPairing]) -> str:
    lines = [
        f"- {code_span(each.user)}, who goes by {quoted(each.name)}, asked at {each.asked_at:%Y-%m-%d %H:%M} UTC"
        for each in pending
    ]
    if not lines:
        return "Nobody waits."
    return "\n".join([*lines, "", "Each of them was given a code: `/access approve CODE` lets them in."])
