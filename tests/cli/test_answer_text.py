import pytest
from hypothesis import given
from hypothesis import strategies as st

from actors.console.cli.answer_text import AnswerText, finished_upto
from messages.gateway import DraftChanged


@pytest.mark.parametrize(
    ("text", "finished"),
    [
        ("one paragraph", ""),
        ("one\n\ntwo", "one\n\n"),
        ("```\ncode\n\nmore\n", ""),
        ("```\ncode\n\n```\nafter", "```\ncode\n\n```\n"),
        ("~~~~\n```\n\n~~~~\n", "~~~~\n```\n\n~~~~\n"),
        ("text\n```py\na\n", ""),
        ("a\n\n```py\nb\n\nc", "a\n\n"),
    ],
)
def test_a_block_is_finished_by_a_blank_line_outside_of_a_fence(text: str, finished: str) -> None:
    assert text[: finished_upto(text)] == finished


def change(text: str, *, call: int = 1, whole: bool = False) -> DraftChanged:
    return DraftChanged(turn=1, call=call, text=text, whole=whole)


@given(st.lists(st.text(alphabet="ab`~ \n", max_size=8), max_size=20), st.integers(0, 20))
def test_what_is_printed_is_the_answer_whatever_the_pieces_and_wherever_it_reconnects(
    pieces: list[str], reconnect_at: int
) -> None:
    answer = AnswerText()
    final = "".join(pieces)
    printed = []
    sent = ""
    for number, piece in enumerate(pieces):
        sent += piece
        printed += answer.heard(change(sent, whole=True) if number == reconnect_at else change(piece))
    printed += answer.finish(final)
    assert "".join("".join(printed).split()) == "".join(final.split())


def test_an_answer_that_begins_anew_is_shown_whole() -> None:
    answer = AnswerText()
    assert answer.heard(change("First try.\n\nmore")) == ["First try.\n\n"]
    shown = answer.heard(change("Second try.\n\n", whole=True))
    assert shown[-1] == "Second try.\n\n"
    assert len(shown) == 2
    assert answer.finish("Second try.\n\nThe end.") == ["The end."]


def test_the_text_before_a_tool_is_shown_once() -> None:
    answer = AnswerText()
    answer.heard(change("Let me look."))
    assert answer.pause() == ["Let me look."]
    assert answer.heard(change("Here it is.", call=2)) == []
    assert answer.finish("Here it is.") == ["Here it is."]


def test_a_final_text_that_joins_all_calls_is_not_shown_twice() -> None:
    answer = AnswerText()
    answer.heard(change("Let me look."))
    answer.pause()
    answer.heard(change("Here it is.\n\n", call=2))
    assert answer.finish("Here it is.") == []
