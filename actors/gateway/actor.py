"""The front desk: every message from outside passes here once, and is sent to its session or away."""

from collections.abc import Callable
from typing import Any, assert_never

import structlog

from actors.gateway.transition import Knowledge, ToSession, TurnedAway, decide
from actors.redaction import Redactor
from actors.runtime import ActorSystem, Crashed, LoopActor
from actors.session.directory import Route
from messages.gateway import Acceptance, MessageReceived, Receipt

log = structlog.get_logger(__name__)


class FrontDesk(LoopActor):
    """Hears MessageReceived. Secrets in what people write are masked before anything else."""

    def __init__(
        self,
        system: ActorSystem,
        knowledge: Knowledge,
        redactor: Redactor,
        tell_sessions: Callable[[Route], None],
        answer: Callable[[Receipt], None],
        *,
        on_crash: Callable[[Crashed], None] | None = None,
    ) -> None:
        super().__init__(system, name="front desk", on_crash=on_crash)
        self._knowledge = knowledge
        self._redactor = redactor
        self._tell_sessions = tell_sessions
        self._answer = answer

    async def on_receive(self, message: Any) -> None:
        assert isinstance(message, MessageReceived), f"the front desk cannot hear {type(message).__name__}"
        heard = self._masked(message)
        match decide(heard, self._knowledge):
            case ToSession(key, to_session):
                self._tell_sessions(Route(key, to_session))
            case TurnedAway(why, key):
                log.info("message turned away", platform=heard.origin.platform, why=why)
                self._answer(
                    Receipt(
                        message_id=heard.message_id, session_key=key, acceptance=Acceptance.REFUSED, why=why
                    )
                )
            case other:
                assert_never(other)

    def _masked(self, heard: MessageReceived) -> MessageReceived:
        text = self._redactor.clean(heard.text)
        return heard if text == heard.text else heard.model_copy(update={"text": text})
