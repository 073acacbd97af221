"""Drafts that may be dropped, become text that only grows."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from actors.console.follow import DraftWriter
from messages.gateway import DraftChanged


def change(text: str, *, turn: int = 1, call: int = 1, whole: bool = False) -> DraftChanged:
    return DraftChanged(turn=turn, call=call, text=text, whole=whole)


@pytest.mark.parametrize(
    ("changes", "final", "sent"),
    [
        ([], "Hello.", "Hello."),
        ([change("Hel"), change("lo.")], "Hello.", "Hello."),
        ([change("Hel")], "Hello.", "Hello."),
        ([change("Hel"), change("Hello, wor", whole=True), change("ld")], "Hello, world", "Hello, world"),
        ([change("Hel"), change("He", whole=True), change("llo.")], "Hello.", "Hello."),
        ([change("Hel"), change("!")], "Hello.", "Hel!\n\nHello."),
        ([change("Cut he"), change("", whole=True), change("Other")], "Other", "Cut he\n\nOther"),
        ([change("Let me look."), change("Four.", call=2)], "Four.", "Let me look.\n\nFour."),
        ([change("Let me look."), change("Four.", call=2)], "Let me look.\n\nFour.", "Let me look.\n\nFour."),
        ([change("Let me look.")], "Let me look.\n\nFour.", "Let me look.\n\nFour."),
        ([change("Let me look."), change("", call=2)], "Four.", "Let me look.\n\nFour."),
        ([change("One"), change("Two", turn=2)], "Two.", "One\n\nTwo."),
        ([change("Hello.\n")], "Hello.", "Hello.\n"),
        ([change("Hello.")], "", "Hello."),
    ],
)
def test_what_a_client_reads(changes: list[DraftChanged], final: str, sent: str) -> None:
    writer = DraftWriter()
    assert "".join(map(writer.heard, changes)) + writer.finish(final) == sent


@given(st.lists(st.text("ab", max_size=3)), st.data())
def test_the_final_is_always_there_whatever_was_dropped(chunks: list[str], data: st.DataObject) -> None:
    final = "".join(chunks)
    kept = [chunk for chunk in chunks if data.draw(st.booleans())]
    writer = DraftWriter()
    sent = "".join(writer.heard(change(chunk)) for chunk in kept) + writer.finish(final)
    assert sent.endswith(final)
    if kept == chunks:
        assert sent == final
