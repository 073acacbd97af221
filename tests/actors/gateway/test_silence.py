"""When an answer is silence."""

import pytest

from actors.gateway.silence import heard_by_people
from messages.gateway import ChatType


@pytest.mark.parametrize(
    "text",
    [
        "NO_REPLY",
        "no_reply",
        " NO_REPLY \n",
        "`NO_REPLY`",
        "**NO_REPLY**",
        '"NO_REPLY."',
        "[NO REPLY]",
        "no-reply!",
    ],
)
def test_the_word_alone_is_silence_in_groups(text: str) -> None:
    assert heard_by_people(text, ChatType.GROUP).strip() == ""
    assert heard_by_people(text, ChatType.THREAD).strip() == ""
    assert heard_by_people(text, ChatType.DM) == text
    assert heard_by_people(text, ChatType.GROUP, notice=True) == text


@pytest.mark.parametrize(
    "text",
    ["no", "There is no reply yet.", "NO_REPLY is the word for silence", "noreply@example.org", "silent", ""],
)
def test_everything_else_is_said(text: str) -> None:
    assert heard_by_people(text, ChatType.GROUP) == text


def test_the_word_on_a_line_of_its_own_is_taken_off() -> None:
    assert heard_by_people("Fine.\nNO_REPLY", ChatType.GROUP) == "Fine."
    assert heard_by_people("NO_REPLY\nFine.", ChatType.GROUP) == "Fine."
    assert heard_by_people("a\nNO_REPLY\nb", ChatType.GROUP) == "a\nNO_REPLY\nb"
    assert heard_by_people("Fine.\nno reply", ChatType.GROUP) == "Fine.\nno reply"
