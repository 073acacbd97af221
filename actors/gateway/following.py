"""The threads that we take part in: there, who goes on need not mention us again. Bounded, and no I/O.

A thread is followed for a day after we said something in it, or were spoken to in it.
What is forgotten costs somebody a mention. After a start, the latest of them are read
from the store.
"""

from collections.abc import Callable, Iterable
from datetime import datetime, timedelta
from typing import Final

from actors.gateway.access import AccessLedger, AccountBook
from actors.gateway.limits import Latest
from actors.gateway.silence import heard_by_people
from actors.gateway.targets import account_name
from messages.gateway import ChatType, MessageReceived, Origin, Say

FOLLOWED_FOR: Final = timedelta(days=1)


class Following:
    """Which threads those are, by account, chat (its first id) and thread."""

    def __init__(self, ledger: AccessLedger, rooms: frozenset[str] = frozenset()) -> None:
        """`rooms` are the accounts whose threads are rooms that stay, as large as chats: none is followed."""
        self._ledger = ledger
        self._rooms = rooms
        self._spoken: Latest[tuple[str, str, str], datetime] = Latest()

    def note(self, origin: Origin, at: datetime) -> None:
        """We said something there, or were spoken to."""
        name = account_name(origin.platform, origin.account)
        account = self._ledger.book.account_of(origin)
        if origin.chat_type is not ChatType.THREAD or account is None or name in self._rooms:
            return
        if origin.chat and origin.thread:
            place = (name, account.first_id(origin.chat), origin.thread)
            before = self._spoken.get(place)
            self._spoken.put(place, at if before is None else max(before, at))

    def watching(self, outbox: Callable[[Say], None], now: Callable[[], datetime]) -> Callable[[Say], None]:
        """Return what hands a reply to an outbox, and takes note of the thread that it goes to."""

        def hand_over(say: Say) -> None:
            if _is_heard_in_a_thread(say):
                self.note(say.origin, now())
            outbox(say)

        return hand_over

    def remember(self, places: Iterable[tuple[Origin, datetime]]) -> None:
        """Take note of what was said before this life, the oldest first."""
        for origin, at in places:
            self.note(origin, at)

    def goes_on(self, account: AccountBook, heard: MessageReceived) -> bool:
        """Whether a message that is not addressed to us goes on with what was, in a thread that we follow.

        What begins with a mention of somebody else, or replies to another's message in
        the thread, is for them.
        """
        origin = heard.origin
        if not account.settings.follow_threads or heard.author.bot or account.is_quiet(origin):
            return False
        if origin.chat_type is not ChatType.THREAD or not origin.chat or not origin.thread:
            return False
        if is_for_somebody(heard):
            return False
        if heard.quote is not None and heard.quote.message_id != origin.thread:
            return False
        spoken = self._spoken.get((account.name, account.first_id(origin.chat), origin.thread))
        return spoken is not None and heard.at - spoken <= FOLLOWED_FOR


def is_for_somebody(heard: MessageReceived) -> bool:
    """Whether it begins by mentioning somebody who is not us: our own mention is not in the text."""
    return heard.text.lstrip().startswith("@")


def _is_heard_in_a_thread(say: Say) -> bool:
    """What we say of ourselves (a refusal, a question for a yes) does not take part in a talk."""
    if say.notice or say.origin.chat_type is not ChatType.THREAD:
        return False
    return any(part.file or heard_by_people(part.text, ChatType.THREAD).strip() for part in say.parts)
