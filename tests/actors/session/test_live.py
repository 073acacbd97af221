"""The live view: cheap, bounded, and honest about what it dropped."""

import pytest

from actors.console.port import WatchLostError
from actors.session.live import FURTHEST_BEHIND, LiveHub
from messages.gateway import (
    Acceptance,
    DraftChanged,
    ModelStatusChanged,
    Receipt,
    SessionStateChanged,
    ToolProgressed,
)
from messages.ids import CallId, MessageId, SessionKey

KEY = SessionKey("agent:main:web:main:dm:ann")


def running(turn: int) -> SessionStateChanged:
    return SessionStateChanged(state="running", turn=turn)


def test_a_draft_is_kept_for_newcomers_and_dropped_with_its_call() -> None:
    hub = LiveHub()
    hub.state_changed(KEY, running(1))
    hub.drafted(KEY, 1, 1, "Hel")
    hub.drafted(KEY, 1, 1, "lo")
    assert hub.now(KEY)[1] == (DraftChanged(turn=1, call=1, text="Hello", whole=True),)
    hub.draft_dropped(KEY, 1, 1)
    assert hub.now(KEY)[1] == ()
    hub.drafted(KEY, 1, 1, "again")
    hub.drafted(KEY, 1, 2, "next call")
    assert hub.now(KEY)[1] == (DraftChanged(turn=1, call=2, text="next call", whole=True),)


def test_a_draft_of_a_turn_that_is_over_is_not_shown() -> None:
    hub = LiveHub()
    hub.state_changed(KEY, running(2))
    hub.drafted(KEY, 1, 1, "late")
    assert hub.now(KEY)[1] == ()
    hub.state_changed(KEY, SessionStateChanged(state="idle", turn=2))
    assert hub.now(KEY) == (SessionStateChanged(state="idle", turn=0), ())
    assert hub.busy() == ()


def test_a_tool_is_shown_while_it_runs() -> None:
    hub = LiveHub()
    hub.state_changed(KEY, running(1))
    began = ToolProgressed(turn=1, call_id=CallId("a"), name="look", phase="began")
    hub.progressed(KEY, began)
    assert hub.now(KEY)[1] == (began,)
    hub.progressed(KEY, began.model_copy(update={"phase": "ended"}))
    assert hub.now(KEY)[1] == ()


async def test_a_watcher_that_falls_behind_is_told_so() -> None:
    hub = LiveHub()
    with hub.watch(KEY) as watch:
        for n in range(FURTHEST_BEHIND + 1):
            hub.told(KEY, ModelStatusChanged(turn=1, text=str(n)))
        with pytest.raises(WatchLostError):
            async for _ in watch:
                pass
        left = len(watch.heard())
    hub.told(KEY, ModelStatusChanged(turn=1, text="nobody looks"))
    assert len(watch.heard()) == left


async def test_a_watcher_without_interest_in_drafts_gets_none() -> None:
    hub = LiveHub()
    with hub.watch(KEY, live=False) as watch:
        hub.state_changed(KEY, running(1))
        hub.drafted(KEY, 1, 1, "Hello")
        assert watch.heard() == (running(1),)


async def test_a_receipt_reaches_all_who_wait_for_it_and_nobody_else() -> None:
    hub = LiveHub()
    one, two = hub.expect(KEY, MessageId("m1")), hub.expect(KEY, MessageId("m1"))
    other = hub.expect(KEY, MessageId("m2"))
    receipt = Receipt(message_id=MessageId("m1"), session_key=KEY, acceptance=Acceptance.ACCEPTED)
    hub.acknowledge(KEY, receipt)
    assert (await one, await two) == (receipt, receipt)
    assert not other.done()
    hub.give_up(KEY, MessageId("m2"), other)
    hub.acknowledge(KEY, receipt)  # nobody waits: nothing happens
