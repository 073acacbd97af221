"""A session whose history is deleted: whatever goes on in it, it begins anew, and nobody waits for ever."""

from actors.session import facts as f
from actors.session import transcript
from actors.session.effects import AskModel, CancelModel, CancelTools, Deliver
from actors.session.state import Session, fold
from actors.session.transition import decide
from messages import session as m
from messages.blocks import ToolStatus
from messages.ids import CallId, Turn
from messages.tool import ToolFinished
from store.journal import Recorded
from tests.actors.session.sentences import INTERRUPT, KEY, QUEUE, at, spoke, woke

ASKED = m.ErasureAsked(at=at(50))


def hear(state: Session, *heard: m.Heard) -> Session:
    for each in heard:
        state = fold(state, decide(state, each, QUEUE).facts)
    return state


def test_an_idle_session_forgets_all_but_the_number_of_its_last_turn() -> None:
    state = hear(Session(key=KEY), spoke("m1"), m.StopAsked(at=at(3)))
    assert state.entries
    decision = decide(state, ASKED, QUEUE)
    assert decision.effects == ()
    assert decision.facts == (f.HistoryErased(last_turn=Turn(1), at=at(50)),)
    assert fold(state, decision.facts) == Session(key=KEY, last_turn=Turn(1))


def test_a_running_turn_is_cancelled_and_what_waits_is_named() -> None:
    state = hear(Session(key=KEY), spoke("m1"), spoke("m2"))
    decision = decide(state, ASKED, QUEUE)
    assert {type(effect) for effect in decision.effects} == {CancelModel, CancelTools}
    (erased,) = decision.facts
    assert isinstance(erased, f.HistoryErased)
    assert erased.message_ids == ("m1", "m2")
    after = fold(state, decision.facts)
    assert not after.owing
    assert decide(after, woke("life-2"), QUEUE).effects == ()


def test_the_next_message_begins_anew_with_the_next_turn_number() -> None:
    state = hear(Session(key=KEY), spoke("m1"), ASKED)
    decision = decide(state, spoke("m2"), INTERRUPT)
    assert any(isinstance(fact, f.SessionOpened) for fact in decision.facts)
    (asked,) = [effect for effect in decision.effects if isinstance(effect, AskModel)]
    assert asked.turn == 2


def test_the_same_message_may_be_said_again_for_it_is_forgotten_too() -> None:
    state = hear(Session(key=KEY), spoke("m1"), ASKED)
    assert any(isinstance(effect, AskModel) for effect in decide(state, spoke("m1"), QUEUE).effects)


def test_late_answers_of_the_erased_turn_change_nothing() -> None:
    state = hear(Session(key=KEY), spoke("m1"), ASKED)
    late: list[m.Heard] = [
        m.StopOverdue(turn=Turn(1), at=at(60)),
        m.RetryDue(turn=Turn(1), call=1, attempt=2, at=at(60)),
        ToolFinished(
            turn=Turn(1),
            call_id=CallId("c1"),
            status=ToolStatus.OK,
            text="",
            began_at=at(1),
            at=at(60),
        ),
    ]
    for each in late:
        decision = decide(state, each, QUEUE)
        assert decision.facts == ()
        assert not any(isinstance(effect, Deliver | AskModel) for effect in decision.effects)


def test_the_facts_after_it_alone_give_the_same_state() -> None:
    facts: list[f.SessionFact] = []
    state = Session(key=KEY)
    for heard in (spoke("m1"), ASKED, spoke("m2"), m.StopAsked(at=at(70))):
        decided = decide(state, heard, QUEUE).facts
        facts += decided
        state = fold(state, decided)
    erased_at = next(n for n, fact in enumerate(facts) if isinstance(fact, f.HistoryErased))
    assert fold(Session(key=KEY), facts[erased_at:]) == state


def test_who_watches_is_told_and_who_waits_is_let_go() -> None:
    state = hear(Session(key=KEY), spoke("m1"))
    (erased,) = decide(state, ASKED, QUEUE).facts
    line = transcript.line_of(Recorded(9, erased, at(50)))
    assert line is not None
    assert line.status == "erased"
    assert line.answers == ("m1",)
    before = Recorded(1, f.PolicyChosen(policy=QUEUE.busy_dm, at=at(1)), at(1))
    assert transcript.current([before, Recorded(9, erased, at(50))]) == (Recorded(9, erased, at(50)),)
