"""The front desk: every message from outside passes here once, and is sent to its session or away."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, assert_never

import structlog

from actors.gateway.aliases import Aliases
from actors.gateway.commands import parse
from actors.gateway.gating import Gate
from actors.gateway.intake import MOST_DEATHS, Intake
from actors.gateway.masking import masked
from actors.gateway.session_key import SessionKeyError
from actors.gateway.transition import Knowledge, LeftAlone, ToAccess, ToSession, TurnedAway, decide
from actors.redaction import Redactor
from actors.runtime import ActorSystem, Crashed, LoopActor, MailboxFullError
from actors.session import words
from actors.session.directory import BUSY, Route
from messages.access import ClaimTried, StrangerKnocked, WishSpoken
from messages.base import Lane, Message
from messages.gateway import (
    Acceptance,
    MessageDeleted,
    MessageEdited,
    MessageReceived,
    Receipt,
    Surroundings,
)
from messages.ids import SessionKey
from messages.session import HandlingFailed

log = structlog.get_logger(__name__)


class SuspectDone(Message):
    """A suspect was taken and did no harm: whatever waited for it may be taken now."""

    lane = Lane.CONTROL


class Arrived(Message):
    """Somebody said something; the conversation that it belongs to has this key."""

    bounded = True
    key: SessionKey
    heard: MessageReceived


NOTHING_SAID: dict[str, object] = {
    "text": "",
    "attachments": (),
    "context": (),
    "quote": None,
    "overheard": (),
    "surroundings": Surroundings(),
}
"""All of a message that somebody else chose."""


class ChangeArrived(Message):
    """Somebody changed or took back what they had said. Asked, never told: see `FrontDesk`."""

    bounded = True
    change: MessageEdited | MessageDeleted


@dataclass(frozen=True, slots=True)
class DeskLinks:
    """Whom the front desk knows."""

    tell_sessions: Callable[[Route], None]
    tell_access: Callable[[WishSpoken | StrangerKnocked | ClaimTried], None]
    answer: Callable[[Receipt], None]
    """Tells the door what became of a message that goes no further."""


class FrontDesk(LoopActor):
    """Hears Arrived. Secrets in what people write are masked before anything else.

    Asked with ChangeArrived, it answers with a Route for the session that must know,
    or None: by then, what was changed has been handed to its session.
    """

    def __init__(
        self,
        system: ActorSystem,
        knowledge: Knowledge,
        redactor: Redactor,
        gate: Gate,
        links: DeskLinks,
        *,
        intake: Intake | None = None,
        aliases: Aliases | None = None,
        on_crash: Callable[[Crashed], None] | None = None,
    ) -> None:
        super().__init__(system, name="front desk", on_crash=on_crash)
        self._intake = intake
        self._knowledge = knowledge
        self._redactor = redactor
        self._aliases = aliases or Aliases()
        self._gate = gate
        self._links = links

    async def on_receive(self, message: Any) -> Route | None:
        while self._intake is not None and (released := self._intake.released()):
            for key, heard in released:
                self._take(key, heard, waited=True)
        match message:
            case Arrived():
                self._take(message.key, message.heard, waited=False)
            case ChangeArrived():
                return self._route_of(message.change)
            case SuspectDone():
                pass
            case _:
                assert_never(message)
        return None

    def _route_of(self, change: MessageEdited | MessageDeleted) -> Route | None:
        if isinstance(change, MessageEdited):
            change = _as_said(masked(change, self._redactor.clean))
        try:
            key = self._gate.whose(change)
        except SessionKeyError:
            return None  # it comes from nowhere
        return None if key is None else Route(key, change)

    def _take(self, key: SessionKey, message: MessageReceived, *, waited: bool) -> None:
        if not self._takes(key, message, waited=waited):
            return
        heard = self._masked(message)
        match decide(heard, key, self._gate, self._knowledge):
            case ToSession(to, to_session):
                self._links.tell_sessions(Route(to, to_session))
            case ToAccess(to_access):
                self._to_access(key, to_access)
            case TurnedAway(why):
                log.info("message turned away", platform=heard.origin.platform, why=why)
                self._answer(key, heard, Acceptance.REFUSED, why)
            case LeftAlone():
                self._answer(key, heard, Acceptance.OVERHEARD)
            case other:
                assert_never(other)

    def _to_access(self, key: SessionKey, message: WishSpoken | StrangerKnocked | ClaimTried) -> None:
        try:
            self._links.tell_access(message)
        except MailboxFullError:  # a flood of strangers; each of them may come again
            stranger = isinstance(message, StrangerKnocked)
            acceptance = Acceptance.OVERHEARD if stranger else Acceptance.REFUSED
            self._answer(key, message.heard, acceptance, "" if stranger else BUSY)

    def _answer(self, key: SessionKey, heard: MessageReceived, acceptance: Acceptance, why: str = "") -> None:
        self._links.answer(
            Receipt(message_id=heard.message_id, session_key=key, acceptance=acceptance, why=why)
        )

    def _takes(self, key: SessionKey, heard: MessageReceived, *, waited: bool) -> bool:
        """Note that a message is being taken, unless it must wait, or was there at too many deaths."""
        if self._intake is None:
            return True
        if not waited and not _is_stop(heard) and not self._intake.may_begin(key, heard):
            return False
        deaths = self._intake.begin(key, heard.message_id)
        if deaths >= MOST_DEATHS:
            self._give_up(key, heard, deaths)
        return deaths < MOST_DEATHS

    def _give_up(self, key: SessionKey, heard: MessageReceived, deaths: int) -> None:
        """Make it a dead letter. Should even that kill, it is kept without its content; then not at all."""
        log.error("a message is given up: it was there at every death", key=key, deaths=deaths)
        if self._gate.standing(heard.origin, heard.author.id).role is None:
            self._answer(key, heard, Acceptance.OVERHEARD)  # strangers are told nothing
            return
        error = words.DIED_AT_THE_DOOR.format(times=deaths)
        match deaths - MOST_DEATHS:
            case 0:
                failed = HandlingFailed(heard=self._masked(heard), error=error, at=heard.at)
            case 1:
                bare = heard.model_copy(update=NOTHING_SAID)
                failed = HandlingFailed(heard=bare, error=error, at=heard.at)
            case _:
                self._answer(key, heard, Acceptance.REFUSED, error)
                return
        self._links.tell_sessions(Route(key, failed))

    def _masked(self, heard: MessageReceived) -> MessageReceived:
        return self._aliases.given(masked(heard, self._redactor.clean))


def _as_said(edit: MessageEdited) -> MessageEdited:
    """What follows `/queue` or `/steer` is what was said; the word itself is no part of it."""
    command = parse(edit.text)
    if command is None or command.name not in ("queue", "steer") or not command.argument:
        return edit
    return edit.model_copy(update={"text": command.argument})


def _is_stop(heard: MessageReceived) -> bool:
    """It works whatever hangs: it waits for nobody."""
    command = parse(heard.text)
    return command is not None and command.name == "stop"
