"""The front desk: every message from outside passes here once, and is sent to its session or away."""

from collections.abc import Callable
from typing import Any, assert_never

import structlog

from actors.gateway.commands import parse
from actors.gateway.intake import MOST_DEATHS, Intake
from actors.gateway.session_key import SessionKeyError, key_of
from actors.gateway.transition import Knowledge, ToSession, TurnedAway, decide
from actors.redaction import Redactor
from actors.runtime import ActorSystem, Crashed, LoopActor
from actors.session import words
from actors.session.directory import Route
from messages.base import Lane, Message
from messages.gateway import Acceptance, MessageReceived, Receipt
from messages.ids import SessionKey
from messages.session import HandlingFailed

log = structlog.get_logger(__name__)


class SuspectDone(Message):
    """A suspect was taken and did no harm: whatever waited for it may be taken now."""

    lane = Lane.CONTROL


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
        intake: Intake | None = None,
        on_crash: Callable[[Crashed], None] | None = None,
    ) -> None:
        super().__init__(system, name="front desk", on_crash=on_crash)
        self._intake = intake
        self._knowledge = knowledge
        self._redactor = redactor
        self._tell_sessions = tell_sessions
        self._answer = answer

    async def on_receive(self, message: Any) -> None:
        while self._intake is not None and (released := self._intake.released()):
            for heard in released:
                self._take(heard, waited=True)
        if isinstance(message, SuspectDone):
            return
        assert isinstance(message, MessageReceived), f"the front desk cannot hear {type(message).__name__}"
        self._take(message, waited=False)

    def _take(self, message: MessageReceived, *, waited: bool) -> None:
        if not self._takes(message, waited=waited):
            return
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

    def _takes(self, heard: MessageReceived, *, waited: bool) -> bool:
        """Note that a message is being taken, unless it must wait, or was there at too many deaths."""
        if self._intake is None:
            return True
        try:
            key = key_of(heard.origin)
        except SessionKeyError:
            return True  # it will be turned away
        if not waited and not _is_stop(heard) and not self._intake.may_begin(key, heard):
            return False
        deaths = self._intake.begin(key, heard.message_id)
        if deaths >= MOST_DEATHS:
            self._give_up(key, heard, deaths)
        return deaths < MOST_DEATHS

    def _give_up(self, key: SessionKey, heard: MessageReceived, deaths: int) -> None:
        """Make it a dead letter. Should even that kill, it is kept without its content; then not at all."""
        log.error("a message is given up: it was there at every death", key=key, deaths=deaths)
        error = words.DIED_AT_THE_DOOR.format(times=deaths)
        match deaths - MOST_DEATHS:
            case 0:
                failed = HandlingFailed(heard=self._masked(heard), error=error, at=heard.at)
            case 1:
                bare = heard.model_copy(update={"text": "", "attachments": (), "context": ()})
                failed = HandlingFailed(heard=bare, error=error, at=heard.at)
            case _:
                refused = Acceptance.REFUSED
                self._answer(
                    Receipt(message_id=heard.message_id, session_key=key, acceptance=refused, why=error)
                )
                return
        self._tell_sessions(Route(key, failed))

    def _masked(self, heard: MessageReceived) -> MessageReceived:
        text = self._redactor.clean(heard.text)
        return heard if text == heard.text else heard.model_copy(update={"text": text})


def _is_stop(heard: MessageReceived) -> bool:
    """It works whatever hangs: it waits for nobody."""
    command = parse(heard.text)
    return command is not None and command.name == "stop"
