"""Server-sent events out of bytes that come in any pieces."""

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from actors.session.models.sse import Event, EventDecoder


def decode(*chunks: bytes) -> list[Event]:
    decoder = EventDecoder()
    events = [event for chunk in chunks for event in decoder.feed(chunk)]
    return events + decoder.finish()


def test_plain_events() -> None:
    assert decode(b"data: a\n\nevent: e\ndata:b\n\n") == [Event("", "a"), Event("e", "b")]


def test_several_data_lines_are_one_event() -> None:
    assert decode(b"data: a\ndata: b\n\n") == [Event("", "a\nb")]


def test_comments_ids_and_unknown_fields_are_nothing() -> None:
    assert decode(b": keep-alive\n\nid: 7\nretry: 3\nfoo\n\ndata: a\n\n") == [Event("", "a")]


def test_a_name_does_not_outlive_its_event() -> None:
    assert decode(b"event: ping\n\ndata: a\n\n") == [Event("", "a")]


def test_an_event_without_its_blank_line_is_found_at_the_end() -> None:
    assert decode(b"data: a\n") == [Event("", "a")]
    assert decode(b"data: a") == [Event("", "a")]


def test_text_that_is_not_utf8_does_not_end_the_stream() -> None:
    assert decode(b"data: a\xffb\n\n") == [Event("", "a�b")]


STREAM = "event: x\ndata: one\n\n: c\ndata: zwei ü 🙂\ndata: more\n\ndata: last\n\n"
EVENTS = [Event("x", "one"), Event("", "zwei ü 🙂\nmore"), Event("", "last")]


@given(st.lists(st.integers(0, 200)), st.sampled_from(["\n", "\r\n", "\r"]))
def test_however_it_is_cut_and_whatever_ends_its_lines_the_events_are_the_same(
    cuts: list[int], end: str
) -> None:
    raw = STREAM.replace("\n", end).encode()
    places = sorted({min(cut, len(raw)) for cut in cuts} | {0, len(raw)})
    assert decode(*(raw[a:b] for a, b in pairwise(places))) == EVENTS
