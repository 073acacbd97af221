"""Delivery: what is owed to which platform, handed to that platform's edge.

Surfaces that read the journal themselves (the web page, the API, the terminal)
need none: for them, durable is delivered. For all others an edge takes `Say` and
answers with a receipt; what no edge takes stays owed, and is handed over again
when the session wakes.
"""

from collections.abc import Callable, Mapping
from typing import Any, assert_never

import structlog

from actors.runtime import ActorSystem, Crashed, LoopActor
from messages.gateway import Say, SayingSucceeded
from messages.ids import DeliveryId, SessionKey

log = structlog.get_logger(__name__)


class Delivery(LoopActor):
    """Hears Say from sessions and SayingSucceeded from edges."""

    def __init__(
        self,
        system: ActorSystem,
        edges: Mapping[str, Callable[[Say], None]],
        tell_session: Callable[[SessionKey, SayingSucceeded], None],
        *,
        on_crash: Callable[[Crashed], None] | None = None,
    ) -> None:
        super().__init__(system, name="delivery", on_crash=on_crash)
        self._edges = edges
        self._tell_session = tell_session
        self._under_way: dict[DeliveryId, SessionKey] = {}

    async def on_receive(self, message: Any) -> None:
        match message:
            case Say():
                self._hand_over(message)
            case SayingSucceeded():
                key = self._under_way.pop(message.delivery_id, None)
                if key is not None:
                    self._tell_session(key, message)
            case _:
                assert_never(message)

    def _hand_over(self, say: Say) -> None:
        if say.delivery_id in self._under_way:
            return  # the edge has it already
        edge = self._edges.get(say.origin.platform)
        if edge is None:
            log.warning("no edge for a reply; it stays owed", platform=say.origin.platform)
            return
        self._under_way[say.delivery_id] = say.session_key
        edge(say)
