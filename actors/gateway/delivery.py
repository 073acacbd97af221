"""Delivery: finds out where a reply is to go, and gives it to the outbox of that account.

Surfaces that read the journal themselves (the web page, the API, the terminal) need
none of this: for them, durable is delivered. For all others an outbox has the say
in its own journal within milliseconds and tells so; until then it is remembered
here, and told again to an outbox that begins a new life. What no outbox takes stays
owed by its session, and comes again when that wakes.
"""

from collections.abc import Callable, Mapping
from typing import Any, assert_never

import structlog

from actors.gateway.targets import Local, account_name, resolve
from actors.runtime import ActorSystem, Crashed, LoopActor
from messages.delivery import OutboxWoke, SayTaken
from messages.gateway import Origin, Say, SayingFailed, SayingSucceeded
from messages.ids import DeliveryId, SessionKey

log = structlog.get_logger(__name__)


class Delivery(LoopActor):
    """Hears Say from sessions, and what outboxes (or edges that keep no books) answer."""

    def __init__(
        self,
        system: ActorSystem,
        outboxes: Mapping[str, Callable[[Say], None]],
        tell_session: Callable[[SessionKey, SayingSucceeded | SayingFailed], None],
        *,
        homes: Mapping[str, str | None] | None = None,
        posted_to: Callable[[Origin], Origin] = lambda where: where,
        target_of: Callable[[Origin], str] | None = None,
        on_local: Callable[[str], None] | None = None,
        on_crash: Callable[[Crashed], None] | None = None,
    ) -> None:
        """Take the outboxes and the home chats by account: `platform`, or `platform/account`.

        `target_of` says where the answers to a place go, when they do not go back there.
        `posted_to` says under which id a chat is found now that has changed it.
        `on_local` is told why something that had a target stays in the history.
        """
        super().__init__(system, name="delivery", on_crash=on_crash)
        self._outboxes = outboxes
        self._homes = homes if homes is not None else dict.fromkeys(outboxes)
        self._posted_to = posted_to
        self._tell_session = tell_session
        self._target_of = target_of
        self._on_local = on_local
        self._under_way: dict[DeliveryId, tuple[str, Say]] = {}

    async def on_receive(self, message: Any) -> None:
        match message:
            case Say():
                self._hand_over(message)
            case SayTaken():
                self._under_way.pop(message.delivery_id, None)
            case OutboxWoke():
                self._tell_again(message.outbox)
            case SayingSucceeded() | SayingFailed():
                _, say = self._under_way.pop(message.delivery_id, ("", None))
                if say is not None:
                    self._tell_session(say.session_key, message)
            case _:
                assert_never(message)

    def _hand_over(self, say: Say) -> None:
        if say.delivery_id in self._under_way:
            return  # the outbox has it already, or will be told again
        target = say.target
        if target == "origin" and self._target_of is not None:
            target = self._target_of(say.origin)
        where = resolve(target, say.origin, self._homes)
        if isinstance(where, Local):
            self._keep(say, where.why)
            return
        where = self._posted_to(where)
        name = account_name(where.platform, where.account)
        outbox = self._outboxes.get(name)
        if outbox is None:
            log.warning("no edge for a reply; it stays owed", platform=name)
            return
        say = say if where == say.origin else _moved(say, where)
        self._under_way[say.delivery_id] = (name, say)
        outbox(say)

    def _keep(self, say: Say, why: str) -> None:
        """Nothing is to be posted: it stands in the history."""
        if why:
            log.warning("kept in the history only", delivery=say.delivery_id, target=say.target, why=why)
            if self._on_local is not None:
                self._on_local(why)
        kept = SayingSucceeded(delivery_id=say.delivery_id, receipt="history", at=self.clock.now())
        self._tell_session(say.session_key, kept)

    def _tell_again(self, name: str) -> None:
        outbox = self._outboxes.get(name)
        if outbox is not None:
            for say in [say for account, say in self._under_way.values() if account == name]:
                outbox(say)


def _moved(say: Say, where: Origin) -> Say:
    """The same, elsewhere; there, it answers nobody."""
    return say.model_copy(update={"origin": where, "reply_to": None})
