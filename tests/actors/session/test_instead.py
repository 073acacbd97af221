"""What a session's notice stands for, as doors that have statuses are told it."""

from datetime import UTC, datetime

import pytest

from actors.session import effects as e
from actors.session.actor import _say
from actors.session.facts import ReplyOwed
from messages.gateway import ChatType, Origin, Part
from messages.ids import DeliveryId, MessageId, SessionId, SessionKey

ASKED, STOP = MessageId("m1"), MessageId("stop")


def owed(status: str, *, notice: bool = True, reply_to: MessageId = ASKED) -> ReplyOwed:
    return ReplyOwed(
        delivery_id=DeliveryId("d1"),
        session_id=SessionId("s1"),
        origin=Origin(platform="webhook", chat_type=ChatType.GROUP, chat="main"),
        notice=notice,
        parts=(Part(text="said"),),
        answers=(ASKED, STOP),
        reply_to=reply_to,
        status=status,
        at=datetime(2026, 1, 1, tzinfo=UTC),
    )


@pytest.mark.parametrize(
    ("reply", "instead"),
    [
        (owed("", notice=False), ""),
        (owed("truncated", notice=False), ""),  # half an answer is one
        (owed(""), ""),
        (owed("compressed"), ""),
        (owed("rate_limited"), "rate_limited"),
        (owed("crashed"), "crashed"),
        (owed("approval"), "approval"),
        (owed("stopped"), "stopped"),
        (owed("stopped", reply_to=STOP), ""),  # the answer to /stop
    ],
)
def test_what_a_reply_stands_for(reply: ReplyOwed, instead: str) -> None:
    assert _say(SessionKey("agent:main:webhook:main:group:main"), e.Deliver(reply)).instead == instead
