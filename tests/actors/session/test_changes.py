"""What people edit or delete after they said it is never answered anew."""

import pytest

from actors.session import facts as f
from actors.session.effects import Acknowledge, AskModel
from actors.session.transcript import line_of
from messages.blocks import FileBlock
from messages.gateway import Acceptance, Author, MessageDeleted, MessageEdited
from messages.ids import MessageId
from store.journal import Recorded
from tests.actors.session.sentences import (
    ANN,
    BOB,
    DM,
    GROUP,
    INTERRUPT,
    QUEUE,
    Story,
    answer,
    at,
    command,
    ended,
    spoke,
    stop_button,
    write,
)


def edit(message_id: str, text: str, *, author: Author = ANN) -> MessageEdited:
    return MessageEdited(message_id=MessageId(message_id), origin=DM, author=author, text=text, at=at(9))


def delete(message_id: str) -> MessageDeleted:
    return MessageDeleted(message_id=MessageId(message_id), origin=DM, at=at(9))


def acceptance(story: Story) -> Acceptance:
    (effect,) = story.effects
    assert isinstance(effect, Acknowledge)
    return effect.acceptance


def test_R15_an_edited_command_is_not_run_again() -> None:
    story = Story(QUEUE, command("10", "new"), spoke("11"), answer(1, 1, "hello"))
    before = [fact for fact in story.facts if isinstance(fact, f.CommandAccepted | f.SessionOpened)]
    story.hears(edit("10", "/new "), edit("10", "/stop"), edit("10", "/new"))
    assert [fact for fact in story.facts if isinstance(fact, f.CommandAccepted | f.SessionOpened)] == before
    assert story.state.running is None
    assert story.told() == ["A new conversation begins.", "hello"]


@pytest.mark.parametrize("text", ["something else", "/restart", "/new", "/approve x", "11"])
def test_R15_an_edit_of_what_was_answered_asks_no_model(text: str) -> None:
    story = Story(QUEUE, spoke("11"), answer(1, 1, "hello"))
    entries = story.state.entries
    story.hears(edit("11", text))
    assert acceptance(story) is Acceptance.ACCEPTED
    assert not story.does(AskModel)
    assert story.state.entries == entries
    assert story.state.running is None
    assert isinstance(story.facts[-1], f.EditNoted)
    assert not story.facts[-1].in_time


def test_R15_an_edit_of_what_is_being_answered_is_noted_only() -> None:
    story = Story(QUEUE, spoke("11", "old"), edit("11", "new"))
    assert story.reads() == ["user: old"]
    assert story.state.last_turn == 1


def test_R15_an_edit_is_never_a_message_of_its_own() -> None:
    story = Story(QUEUE, edit("99", "never heard of"))
    assert acceptance(story) is Acceptance.OVERHEARD
    assert story.facts == []
    story.hears(delete("99"))
    assert acceptance(story) is Acceptance.OVERHEARD
    assert story.facts == []


def test_what_waits_is_answered_as_it_is_written_now() -> None:
    story = Story(QUEUE, spoke("1"), spoke("2", "old"), edit("2", "new"), answer(1, 1, "one"))
    assert story.reads() == ["user: 1", "assistant: one", "user: new"]


def test_R15_an_unchanged_text_is_no_edit() -> None:
    story = Story(QUEUE, spoke("1"), spoke("2", "same"), edit("2", "same"))
    assert acceptance(story) is Acceptance.DUPLICATE
    assert not any(isinstance(fact, f.EditNoted) for fact in story.facts)


def test_nobody_edits_what_another_said() -> None:
    story = Story(QUEUE, spoke("1", origin=GROUP), spoke("2", "mine", origin=GROUP))
    story.hears(edit("2", "theirs", author=BOB))
    assert acceptance(story) is Acceptance.OVERHEARD
    assert story.state.waiting[0].text == "mine"


def test_what_waits_and_becomes_a_command_is_still_said_to_the_model() -> None:
    story = Story(QUEUE, spoke("1"), spoke("2", "hi"), edit("2", "/new"), answer(1, 1, "one"))
    assert story.reads()[-1] == "user: /new"
    assert not any(isinstance(fact, f.CommandAccepted) for fact in story.facts)


def test_what_is_taken_back_in_time_is_not_answered() -> None:
    story = Story(QUEUE, spoke("1"), spoke("2"), spoke("3"), delete("2"))
    assert acceptance(story) is Acceptance.ACCEPTED
    story.hears(answer(1, 1, "one"), answer(2, 1, "three"))
    assert story.reads() == ["user: 1", "assistant: one", "user: 3", "assistant: three"]
    assert story.state.running is None


def test_an_edit_to_nothing_takes_back_but_not_what_has_files() -> None:
    story = Story(QUEUE, spoke("1"), spoke("2"), edit("2", " "), answer(1, 1, "one"))
    assert story.state.running is None
    file = FileBlock(name="a", mime="x", path="/a", size=1)
    story = Story(QUEUE, spoke("1"), spoke("2", attachments=(file,)), edit("2", ""), answer(1, 1, "one"))
    assert story.state.running is not None


def test_what_an_interrupted_turn_had_taken_is_answered_also_when_the_interruption_is_taken_back() -> None:
    story = Story(
        INTERRUPT,
        spoke("1", "first"),
        answer(1, 1, "", write("a", "/w")),
        spoke("2", "no, this"),
        delete("2"),
        ended(1, "a"),
    )
    assert story.state.running is not None
    assert story.state.running.message_ids == ("1",)
    story.hears(answer(2, 1, "first, then"))
    assert story.state.running is None
    assert story.told()[-1] == "first, then"


def test_taking_back_what_runs_stops_nothing() -> None:
    story = Story(QUEUE, spoke("1"), delete("1"))
    assert story.state.running is not None
    story.hears(stop_button(), delete("1"))
    assert story.state.running is None


def test_changes_show_in_the_history() -> None:
    story = Story(QUEUE, spoke("1", "a"), answer(1, 1, "x"), edit("1", "b"), delete("1"))
    recorded = [
        Recorded(seq=i, fact=fact, at=at(0))  # type: ignore[arg-type]
        for i, fact in enumerate(story.facts)
    ]
    lines = [line for r in recorded if (line := line_of(r)) is not None]
    assert [(line.status, line.message_id) for line in lines[-2:]] == [("edited", "1"), ("deleted", "1")]
    assert "b" in lines[-2].text


def test_somebody_who_only_edits_does_not_fill_the_history() -> None:
    story = Story(QUEUE, spoke("1"), answer(1, 1, "x"))
    story.hears(*(edit("1", f"text {n}") for n in range(500)), *(delete("1") for _ in range(500)))
    noted = [fact for fact in story.facts if isinstance(fact, f.EditNoted | f.DeletionNoted)]
    assert len(noted) == 50
    story.hears(spoke("2"), edit("1", "once more"))
    assert isinstance(story.facts[-1], f.EditNoted)
    assert acceptance(story.hears(edit("2", "x" * 2_000_001))) is Acceptance.OVERHEARD
