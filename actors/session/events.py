"""Facts → lifecycle events: what hooks and other listeners hear of a session."""

from collections.abc import Iterable, Iterator

from actors.lifecycle import Lifecycle
from actors.session import facts as f
from messages import lifecycle as ev
from messages.ids import SessionKey, Turn


def publish(
    lifecycle: Lifecycle, key: SessionKey, facts: Iterable[f.SessionFact], running: Turn | None, waiting: int
) -> None:
    """Publish what became true. `running` and `waiting` tell of the session before these facts."""
    if not lifecycle.wanted:
        return
    for fact in facts:
        for event in events_of(key, fact, running, waiting):
            lifecycle.publish(event)


def events_of(
    key: SessionKey, fact: f.SessionFact, running: Turn | None, waiting: int
) -> Iterator[ev.SessionEvent]:
    """Return the events that a fact is; most are one or none."""
    match fact:
        case f.MessageAccepted():
            yield ev.MessageHeard(
                session_key=key,
                at=fact.at,
                message_id=fact.message_id,
                text=fact.text,
                author=fact.author.id,
                platform=fact.origin.platform,
            )
            if running is not None:
                yield ev.MessagePending(
                    session_key=key,
                    at=fact.at,
                    message_id=fact.message_id,
                    turn=running,
                    waiting=waiting + 1,
                )
        case f.TurnStopping():
            by = {"stopped": "stop", "interrupted": "message", "reset": "reset"}[fact.reason]
            yield ev.Interrupted.model_validate(
                {"session_key": key, "at": fact.at, "turn": fact.turn, "by": by}
            )
        case f.TurnBegan():
            yield ev.ProcessingStarted(
                session_key=key, at=fact.at, turn=fact.turn, message_ids=fact.message_ids
            )
        case f.ModelCallFailed() if not fact.failure.sent:
            pass  # nothing ran
        case f.ModelCallAnswered() | f.ModelCallFailed():
            yield _agent_ran(key, fact)
        case f.ToolCallStarted():
            yield ev.ToolBegan(
                session_key=key, at=fact.at, turn=fact.turn, call_id=fact.call_id, name=fact.name
            )
        case f.ToolCallEnded():
            yield ev.ToolEnded(
                session_key=key,
                at=fact.at,
                turn=fact.turn,
                call_id=fact.call_id,
                name=fact.name,
                status=fact.status,
                began_at=fact.began_at,
            )
        case f.ReplyDelivered():
            yield ev.ResponseSent(
                session_key=key, at=fact.at, delivery_id=fact.delivery_id, receipt=fact.receipt
            )
        case f.TurnEnded():
            yield ev.ProcessingCompleted(
                session_key=key,
                at=fact.at,
                turn=fact.turn,
                reason=fact.reason,
                message_ids=fact.message_ids,
                began_at=fact.began_at,
            )
        case _:
            pass


def _agent_ran(key: SessionKey, fact: f.ModelCallAnswered | f.ModelCallFailed) -> ev.AgentRan:
    if isinstance(fact, f.ModelCallAnswered):
        return ev.AgentRan(
            session_key=key,
            at=fact.at,
            turn=fact.turn,
            call=fact.call,
            model=fact.model,
            stop=fact.stop,
            usage=fact.usage,
            began_at=fact.began_at,
        )
    return ev.AgentRan(
        session_key=key,
        at=fact.at,
        turn=fact.turn,
        call=fact.call,
        model=fact.failure.model,
        failure=f"{fact.failure.kind}: {fact.failure.detail}",
        began_at=fact.began_at,
    )
