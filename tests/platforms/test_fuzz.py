"""Every edge's translation takes whatever comes."""

import math
from datetime import UTC, datetime

import pytest

from messages.gateway import Author, ChatType, MessageReceived, Origin, Quote
from messages.ids import MessageId
from tests.platforms.fuzz import FuzzTarget, edges, fuzz, mutated

pytestmark = pytest.mark.slow

PAYLOADS = 2000


@pytest.mark.parametrize("edge", edges())
def test_no_payload_makes_a_translation_crash(edge: str) -> None:
    report = fuzz(edge, PAYLOADS, seed=11)
    assert report.crashes == 0, "\n".join(report.shown)
    assert report.handed_in > 0, "the recorded shapes themselves are not handed in any more"
    assert report.refused > 0
    assert report.handed_in + report.refused == PAYLOADS
    assert report.slow == 0


def test_ids_with_lone_surrogates_can_be_stored() -> None:
    odd = "a\ud83d"
    quote = Quote(message_id=MessageId(odd), author=Author(id=odd))
    message = MessageReceived(
        message_id=MessageId(odd),
        origin=Origin(platform="x", chat_type=ChatType.THREAD, server=odd, chat=odd, thread=odd, user=odd),
        author=Author(id=odd),
        text=odd,
        quote=quote,
        at=datetime(2026, 1, 1, tzinfo=UTC),
    )
    assert MessageReceived.model_validate_json(message.model_dump_json()) == message
    assert message.origin.chat == "a\N{REPLACEMENT CHARACTER}"


def test_the_same_seed_gives_the_same_payloads() -> None:
    shapes = [{"id": "1", "text": "hello", "list": [1, 2, {"deep": None}]}]
    # Endless ones cannot be compared or shown.
    first, second = ([_said(raw) for raw in mutated(shapes, seed, 300)] for seed in (5, 5))
    assert first == second
    assert first != [_said(raw) for raw in mutated(shapes, 6, 300)]
    assert shapes == [{"id": "1", "text": "hello", "list": [1, 2, {"deep": None}]}]


def _said(raw: object, depth: int = 0) -> str:
    if depth > 6:
        return "…"
    if isinstance(raw, dict):
        return ",".join(f"{key!r}={_said(value, depth + 1)}" for key, value in list(raw.items())[:20])
    if isinstance(raw, list):
        return "[" + ",".join(_said(value, depth + 1) for value in raw[:20]) + "]"
    return "nan" if isinstance(raw, float) and math.isnan(raw) else repr(raw)


def test_a_crash_is_counted_and_shown() -> None:
    def feed(raw: object) -> object:
        return raw["text"].upper()  # type: ignore[index]

    report = fuzz("mine", 300, 3, FuzzTarget([{"text": "hello"}], feed))
    assert report.crashes > 0
    assert "payload: " in report.shown[0]
