"""The door of the house: whoever hands in a message waits here until it is durable, or refused.

What an edge hears and what a surface says both pass here. Refusals of what came from a
platform are said in the chat, through its outbox like everything else, unless the edge
says them itself; the same one in the same place once a minute.
"""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from hashlib import blake2b
from typing import Final, Protocol, assert_never

import structlog

from actors.clock import Clock
from actors.gateway.access import AccessLedger
from actors.gateway.actor import Arrived, ChangeArrived
from actors.gateway.edge import EdgeError
from actors.gateway.limits import OnceInAWhile
from actors.gateway.session_key import SessionKeyError, key_for
from actors.gateway.targets import account_name
from actors.runtime import MailboxFullError
from actors.session.directory import BUSY, Route
from actors.session.live import LiveHub
from messages.access import AccessAnswered, AccessAsked
from messages.delivery import DESK, ProblemKind
from messages.gateway import (
    Acceptance,
    ChatMoved,
    EdgeHeard,
    MessageDeleted,
    MessageEdited,
    MessageReceived,
    Origin,
    Part,
    Receipt,
    Say,
)
from messages.ids import DeliveryId, MessageId, SessionKey

log = structlog.get_logger(__name__)

SAME_REFUSAL_S: Final = 60.0

CHANGE_PATIENCE_S: Final = 30.0
"""How long a session may take to note a change; then the change is lost, which does nobody harm."""


@dataclass(frozen=True, slots=True)
class DoorLinks:
    """Whom the door knows."""

    hub: LiveHub
    clock: Clock
    tell_front_desk: Callable[[Arrived], None]
    ask_front_desk: Callable[[ChangeArrived], Awaitable[Route | None]]
    ask_access: Callable[[AccessAsked | ChatMoved], Awaitable[AccessAnswered | None]]
    tell_sessions: Callable[[Route], None]
    tell_delivery: Callable[[Say], None]
    says_refusals: "SaysRefusals"


class SaysRefusals(Protocol):
    """Whether the edge of an account tells people itself why something was not taken."""

    def __call__(self, name: str, *, native: bool) -> bool: ...


class Door:
    """`hear` for edges, `speak` for surfaces."""

    def __init__(self, ledger: AccessLedger, links: DoorLinks) -> None:
        self._ledger = ledger
        self._links = links
        self._refusals: OnceInAWhile[tuple[str | None, ...]] = OnceInAWhile()
        self.open = False
        """Whether messages are taken."""

    def key_of(self, origin: Origin) -> SessionKey:
        """Return the session key of a place. Raises SessionKeyError, a ValueError."""
        return key_for(origin, self._ledger.book)

    async def speak(self, message: MessageReceived) -> Receipt:
        """Hand in a message; return when it is durable, or refused."""
        if not self.open:
            return _refused(message, "Callboard is stopping. Please try again in a moment.")
        message = self._with_profile(message)
        try:
            key = self.key_of(message.origin)
        except SessionKeyError as error:
            return _refused(message, str(error))
        hub = self._links.hub
        receipt = hub.expect(key, message.message_id)
        try:
            self._links.tell_front_desk(Arrived(key=key, heard=message))
            return await receipt
        except MailboxFullError:
            return _refused(message, BUSY, key)
        finally:
            hub.give_up(key, message.message_id, receipt)

    async def hear(self, heard: EdgeHeard) -> Receipt:
        """Hand in what a platform told; return when it is durable, or refused. Raises EdgeError."""
        match heard:
            case MessageReceived():
                receipt = await self.speak(heard)
                if receipt.acceptance is Acceptance.REFUSED and receipt.session_key is not None:
                    self._say_refusal(heard, receipt.why)
                return receipt
            case MessageEdited() | MessageDeleted():
                return await self._change(heard)
            case ChatMoved():
                await self._follow(heard)
                return _left_alone(MessageId(""))
            case other:
                assert_never(other)

    async def access(self, asked: AccessAsked) -> AccessAnswered:
        """Let an operator at the console change who may talk to us."""
        answer = await self._links.ask_access(asked)
        assert answer is not None, "a wish is answered"
        return answer

    def _with_profile(self, message: MessageReceived) -> MessageReceived:
        origin = message.origin
        profile = self._ledger.book.profile_of(origin)
        if profile == origin.profile:
            return message
        return message.model_copy(update={"origin": origin.model_copy(update={"profile": profile})})

    async def _change(self, change: MessageEdited | MessageDeleted) -> Receipt:
        """An edit or a deletion: behind the message itself, and never a new message."""
        route = await self._links.ask_front_desk(ChangeArrived(change=change))
        if route is None:
            return _left_alone(change.message_id)
        hub = self._links.hub
        noted = hub.expect(route.key, change.message_id)
        try:
            self._links.tell_sessions(route)
            async with asyncio.timeout(CHANGE_PATIENCE_S):
                return await noted
        except TimeoutError:
            log.warning("a change of a message was not noted", session=route.key, id=change.message_id)
            return _left_alone(change.message_id)
        finally:
            hub.give_up(route.key, change.message_id, noted)

    async def _follow(self, moved: ChatMoved) -> None:
        """Raises EdgeError when it is not durable: the platform shall tell again."""
        try:
            await self._links.ask_access(moved)
        except Exception as error:
            log.exception("a chat's new id was not noted", platform=moved.platform, new=moved.new)
            raise EdgeError(ProblemKind.TRANSIENT, "a chat's new id was not noted") from error

    def _say_refusal(self, heard: MessageReceived, why: str) -> None:
        origin, links = heard.origin, self._links
        name = account_name(origin.platform, origin.account)
        if not why or links.says_refusals(name, native=heard.via != "message"):
            return
        place = (name, origin.chat, origin.thread, origin.user, why)
        if not self._refusals.due(place, SAME_REFUSAL_S, links.clock.now()):
            return
        seed = f"{origin.chat}\0{origin.thread}\0{origin.user}\0{heard.message_id}\0{why}"
        digest = blake2b(seed.encode("utf-8", "replace"), digest_size=8).hexdigest()
        links.tell_delivery(
            Say(
                delivery_id=DeliveryId(f"{DESK}{name}/{digest}"),
                session_key=SessionKey(f"{DESK}{name}"),
                origin=origin,
                parts=(Part(text=why),),
                reply_to=heard.message_id,
                notice=True,
                instead="refused",
            )
        )


def _refused(message: MessageReceived, why: str, key: SessionKey | None = None) -> Receipt:
    return Receipt(message_id=message.message_id, session_key=key, acceptance=Acceptance.REFUSED, why=why)


def _left_alone(message_id: MessageId) -> Receipt:
    return Receipt(message_id=message_id, session_key=None, acceptance=Acceptance.OVERHEARD)
