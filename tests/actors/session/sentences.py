"""Words for telling a session's story in a test."""

import json
from datetime import UTC, datetime, timedelta

from actors.session.decision import Rules
from actors.session.effects import Effect
from actors.session.state import Session, fold
from actors.session.transition import decide
from messages import session as m
from messages.blocks import TextBlock, ToolCallBlock, ToolStatus
from messages.gateway import Author, ChatType, MessageReceived, Origin, Role
from messages.ids import CallId, MessageId, SessionKey, Turn
from messages.model import Failure, FailureKind, ModelRef, ModelReply, StopReason, Usage
from messages.settings import BusyPolicy
from messages.tool import Effect as ToolEffect
from messages.tool import Permission, PreparedCall, ToolFinished

START = datetime(2026, 1, 5, 12, tzinfo=UTC)
MODEL = ModelRef(provider="fake", name="one")
OTHER = ModelRef(provider="fake", name="two")
KEY = SessionKey("agent:main:discord:main:dm:ann")
DM = Origin(platform="discord", chat_type=ChatType.DM, chat="ann", user="ann")
GROUP = Origin(platform="discord", chat_type=ChatType.GROUP, chat="stage", user="ann")
QUEUE = Rules(busy_dm=BusyPolicy.QUEUE)
INTERRUPT = Rules()
COLLECT = Rules(busy_dm=BusyPolicy.COLLECT)
STEER = Rules(busy_dm=BusyPolicy.STEER)


def at(seconds: float) -> datetime:
    return START + timedelta(seconds=seconds)


ANN = Author(id="ann", name="Ann")
BOB = Author(id="bob", name="Bob")
ADMIN = Author(id="ada", name="Ada", role=Role.ADMIN)


def heard(
    message_id: str,
    text: str = "",
    *,
    origin: Origin = DM,
    author: Author = ANN,
    can_confirm: bool = False,
    t: float = 0,
) -> MessageReceived:
    return MessageReceived(
        message_id=MessageId(message_id),
        origin=origin,
        author=author,
        text=text or message_id,
        can_confirm=can_confirm,
        at=at(t),
    )


def spoke(
    message_id: str,
    text: str = "",
    *,
    origin: Origin = DM,
    can_confirm: bool = False,
    policy: BusyPolicy | None = None,
    author: Author = ANN,
    t: float = 0,
    **more: object,
) -> m.UserSpoke:
    said = heard(message_id, text, origin=origin, author=author, can_confirm=can_confirm, t=t)
    return m.UserSpoke(heard=said.model_copy(update=more), policy=policy)


def command(
    message_id: str,
    name: str,
    argument: str = "",
    *,
    info: str = "",
    origin: Origin = DM,
    author: Author = ANN,
    t: float = 0,
) -> m.CommandGiven:
    said = heard(message_id, f"/{name} {argument}".strip(), origin=origin, author=author, t=t)
    return m.CommandGiven(name=name, argument=argument, heard=said, info=info)


def answer(
    turn: int,
    call: int,
    text: str = "",
    *calls: PreparedCall,
    stop: StopReason | None = None,
) -> m.ModelAnswered:
    blocks = (
        *((TextBlock(text=text),) if text else ()),
        *(ToolCallBlock(call_id=c.call_id, name=c.name, arguments=c.arguments) for c in calls),
    )
    stop = stop or (StopReason.TOOL_CALLS if calls else StopReason.END)
    return m.ModelAnswered(
        turn=Turn(turn),
        call=call,
        reply=ModelReply(
            blocks=blocks,
            stop=stop,
            raw_stop=stop.value,
            model=MODEL,
            usage=Usage(input_tokens=10, output_tokens=5),
        ),
        calls=calls,
        began_at=START,
        at=at(1),
    )


def failure(
    turn: int,
    call: int,
    kind: FailureKind,
    *,
    attempt: int = 1,
    partial: str = "",
    remedy: str = "",
    retry_after_s: float | None = None,
) -> m.ModelFailed:
    return m.ModelFailed(
        turn=Turn(turn),
        call=call,
        attempt=attempt,
        failure=Failure(
            kind=kind, detail="it went wrong", remedy=remedy, retry_after_s=retry_after_s, model=MODEL
        ),
        partial=partial,
        chance=0.5,
        began_at=START,
        at=at(1),
    )


def call(
    call_id: str,
    name: str = "read_file",
    *,
    effect: ToolEffect = ToolEffect.READ,
    paths: tuple[str, ...] = (),
    permission: Permission = Permission.YES,
    repeatable: bool = True,
    problem: str = "",
) -> PreparedCall:
    return PreparedCall(
        call_id=CallId(call_id),
        name=name,
        arguments=json.dumps({"id": call_id}),
        effect=effect,
        paths=paths,
        permission=permission,
        repeatable=repeatable,
        problem=problem,
    )


def write(call_id: str, path: str, **more: object) -> PreparedCall:
    return call(
        call_id,
        "write_file",
        effect=ToolEffect.WRITE,
        paths=(path,),
        repeatable=False,
        **more,  # type: ignore[arg-type]
    )


def ended(turn: int, call_id: str, text: str = "done", status: ToolStatus = ToolStatus.OK) -> ToolFinished:
    return ToolFinished(
        turn=Turn(turn), call_id=CallId(call_id), status=status, text=text, began_at=START, at=at(2)
    )


def stop_button(t: float = 3) -> m.StopAsked:
    return m.StopAsked(heard=None, at=at(t))


def woke(life: str, *, crashed: bool = False) -> m.Woke:
    return m.Woke(life=life, crashed=crashed, at=at(60))


class Story:
    """A session that hears one thing after the other; `effects` are those of the last."""

    def __init__(self, rules: Rules = INTERRUPT, *heard: m.Heard) -> None:
        self.rules = rules
        self.state = Session(key=KEY)
        self.facts: list[object] = []
        self.effects: tuple[Effect, ...] = ()
        self.hears(*heard)

    def hears(self, *heard: m.Heard) -> "Story":
        for message in heard:
            decision = decide(self.state, message, self.rules)
            self.state = fold(self.state, decision.facts)
            self.facts += decision.facts
            self.effects = decision.effects
        return self

    def does(self, kind: type) -> list[object]:
        """The last effects of one kind."""
        return [e for e in self.effects if isinstance(e, kind)]

    def told(self) -> list[str]:
        """All that a person was or is to be told, in order."""
        from actors.session.facts import ReplyOwed  # noqa: PLC0415 keeps the words above free of it

        return [f.parts[0].text for f in self.facts if isinstance(f, ReplyOwed)]

    def reads(self) -> list[str]:
        """What the model would read: one line an entry."""
        lines = []
        for entry in self.state.entries:
            if entry.role == "results":
                lines.append("results: " + ", ".join(f"{r.call_id}={r.status}" for r in entry.results))
            else:
                texts = [b.text if isinstance(b, TextBlock) else f"<{b.kind}>" for b in entry.blocks]
                lines.append(f"{entry.role}: " + " ".join(texts))
        return lines
