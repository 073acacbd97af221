"""What a decision is, what it goes by, and the sheet of paper it is written on."""

from dataclasses import dataclass, field
from datetime import datetime
from hashlib import blake2b

from actors.session import facts as f
from actors.session import words
from actors.session.effects import CancelModel, CancelTools, Deliver, Effect, TellMain
from actors.session.quoting import quoted
from actors.session.rules import Rules
from actors.session.state import Call, Running, Session, apply
from messages.blocks import ToolStatus
from messages.gateway import Button, MessageReceived, Origin, Part
from messages.ids import DeliveryId, MessageId, SessionId, SessionKey, Turn
from messages.model import ModelRef, Usage

__all__ = ["NOTHING", "Decision", "Draft", "Rules", "name_session", "reply_id"]


@dataclass(frozen=True, slots=True)
class Decision:
    """What is now true, and what should be done about it."""

    facts: tuple[f.SessionFact, ...]
    effects: tuple[Effect, ...]


NOTHING = Decision((), ())


def name_session(key: SessionKey, first: MessageId, at: datetime) -> SessionId:
    """Name a conversation after its place, its first message and its time: safe as a file name."""
    digest = blake2b(f"{key}\0{first}\0{at.isoformat()}".encode(), digest_size=6).hexdigest()
    return SessionId(f"{at:%Y%m%d-%H%M%S}-{digest}")


def reply_id(session_id: SessionId, turn: Turn) -> DeliveryId:
    """Name the answer of a turn."""
    return DeliveryId(f"{session_id}/turn-{turn}")


def _usage(run: Running) -> Usage:
    return Usage(input_tokens=run.input_tokens, output_tokens=run.output_tokens)


@dataclass(slots=True)
class Draft:
    """A decision while it is being made: each fact is folded in as soon as it is said."""

    state: Session
    rules: Rules
    facts: list[f.SessionFact] = field(default_factory=list)
    effects: list[Effect] = field(default_factory=list)

    def decision(self) -> Decision:
        return Decision(tuple(self.facts), tuple(self.effects))

    def say(self, fact: f.SessionFact) -> None:
        """Something is now true."""
        self.facts.append(fact)
        self.state = apply(self.state, fact)

    def do(self, effect: Effect) -> None:
        """Something should be done."""
        self.effects.append(effect)

    @property
    def running(self) -> Running | None:
        return self.state.running

    @property
    def run(self) -> Running:
        """The running turn, where there must be one."""
        assert self.state.running is not None, "no turn is running"
        return self.state.running

    @property
    def session_id(self) -> SessionId:
        """The conversation, where it must be open."""
        assert self.state.session_id is not None, "the session is not open"
        return self.state.session_id

    def open_for(self, heard: MessageReceived) -> None:
        """Open the conversation at its first message."""
        if self.state.session_id is None:
            self.say(
                f.SessionOpened(
                    session_id=name_session(self.state.key, heard.message_id, heard.at),
                    session_key=self.state.key,
                    origin=heard.origin,
                    context=heard.context,
                    at=heard.at,
                )
            )

    def take_command(self, heard: MessageReceived, name: str, argument: str) -> None:
        """Note a command as taken."""
        self.say(
            f.CommandAccepted(
                message_id=heard.message_id,
                session_id=self.session_id,
                origin=heard.origin,
                name=name,
                argument=argument,
                author=heard.author,
                at=heard.at,
            )
        )

    def notice(
        self,
        text: str,
        at: datetime,
        heard: MessageReceived | None = None,
        *,
        run: Running | None = None,
        also: tuple[MessageId, ...] = (),
        status: str = "",
    ) -> None:
        """Owe a person something said by us, not by the model.

        It settles the command that asked (`heard`), the turn it ends (`run`), and `also`.
        """
        origin = heard.origin if heard else run.origin if run else self.state.origin
        answers = (*(run.message_ids if run else ()), *also, *((heard.message_id,) if heard else ()))
        reply_to = heard.message_id if heard else answers[0] if answers else None
        self._owe_notice(
            Part(text=text), at, origin, answers=answers, reply_to=reply_to, run=run, status=status
        )

    def remark(
        self,
        text: str,
        at: datetime,
        origin: Origin,
        *,
        buttons: tuple[Button, ...] = (),
        reply_to: MessageId | None = None,
        status: str = "",
    ) -> None:
        """Tell a person something that settles no message: a question, or what they should know besides."""
        self._owe_notice(Part(text=text, buttons=buttons), at, origin, reply_to=reply_to, status=status)

    def _owe_notice(
        self,
        part: Part,
        at: datetime,
        origin: Origin | None,
        *,
        answers: tuple[MessageId, ...] = (),
        reply_to: MessageId | None = None,
        run: Running | None = None,
        status: str = "",
    ) -> None:
        assert origin is not None, "a notice needs a place"
        self._owe(
            f.ReplyOwed(
                delivery_id=DeliveryId(f"{self.session_id}/notice-{self.state.notices + 1}"),
                session_id=self.session_id,
                origin=origin,
                turn=run.turn if run else None,
                notice=True,
                parts=(part.model_copy(update={"text": self._marked(part.text, origin)}),),
                answers=answers,
                reply_to=reply_to,
                status=status,
                usage=_usage(run) if run else None,
                at=at,
            )
        )

    def reply(self, text: str, model: ModelRef, at: datetime, *, status: str = "") -> None:
        """Owe the running turn's answer. Call it before the turn is ended."""
        run = self.run
        self._owe(
            f.ReplyOwed(
                delivery_id=reply_id(self.session_id, run.turn),
                session_id=self.session_id,
                origin=run.origin,
                turn=run.turn,
                parts=(Part(text=self._marked(text, run.origin)), *(Part(file=each) for each in run.files)),
                answers=run.message_ids,
                reply_to=run.message_ids[0] if run.message_ids else None,
                model=model,
                status=status,
                usage=_usage(run),
                at=at,
            )
        )

    def _marked(self, text: str, origin: Origin) -> str:
        """What a side conversation says goes to where others speak too: it says whose it is."""
        if origin.side is None or not text.strip():
            return text
        return f"{words.FROM_SIDE.format(title=quoted(self.state.shown_title))}\n\n{text}"

    def _owe(self, owed: f.ReplyOwed) -> None:
        self.say(owed)
        if owed.origin.platform in self.rules.pulled:
            self.say(f.ReplyDelivered(delivery_id=owed.delivery_id, receipt="history", at=owed.at))
        else:
            self.do(Deliver(owed))

    def end_call(self, call: Call, status: ToolStatus, text: str, at: datetime) -> None:
        """Give a call that has not ended its result."""
        prepared = call.prepared
        self.say(
            f.ToolCallEnded(
                turn=self.run.turn,
                call_id=prepared.call_id,
                name=prepared.name,
                arguments=prepared.arguments,
                effect=prepared.effect,
                status=status,
                text=text,
                began_at=call.began_at or at,
                at=at,
            )
        )

    def end_turn(self, reason: f.EndReason, at: datetime) -> None:
        """End the running turn, with its figures."""
        run = self.run
        if run.origin.side is not None and reason != "interrupted":
            self.do(TellMain(run.origin.side, at))
        self.say(
            f.TurnEnded(
                turn=run.turn,
                session_id=self.session_id,
                reason=reason,
                message_ids=run.message_ids,
                model_calls=run.call - 1,
                tool_calls=run.tools_called,
                input_tokens=run.input_tokens,
                output_tokens=run.output_tokens,
                began_at=run.began_at,
                at=at,
            )
        )

    def cancel_model(self) -> None:
        self.do(CancelModel(self.run.turn))

    def cancel_tools(self) -> None:
        self.do(CancelTools(self.run.turn))
