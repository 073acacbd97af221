"""Facts to text and back, through versions."""

import json
from datetime import UTC, datetime
from typing import Literal

import pytest
from hypothesis import given

from actors.session.facts import MessageAccepted, ModelCallFailed
from messages.base import Instant, Message
from messages.gateway import Author, ChatType, Origin
from messages.ids import MessageId, SessionId, Turn
from messages.model import Failure, FailureKind, ModelRef
from messages.system import ProcessStarted
from store.codec import CODEC, Codec, UnknownFactError, UnreadableFactError
from tests.store import strategies

AT = datetime(2026, 1, 15, 12, tzinfo=UTC)
LIFE = '{"kind":"process_stopped","life":"x","at":"2026-01-15T12:00:00Z","v":1}'


class Moved(Message):
    """An invented fact, in its third version: `place` was `room`, and before that `number`."""

    kind: Literal["moved"] = "moved"
    v: int = 3
    place: str
    at: Instant


MOVES = Codec(
    [Moved],
    {
        ("moved", 1): lambda old: {
            **{k: v for k, v in old.items() if k != "number"},
            "room": f"r{old['number']}",
        },
        ("moved", 2): lambda old: {
            **{k: v for k, v in old.items() if k != "room"},
            "place": f"at {old['room']}",
        },
    },
)


@given(strategies.facts())
def test_every_fact_comes_back_equal(fact: Message) -> None:
    encoded = CODEC.encode(fact)
    assert CODEC.decode(encoded.kind, encoded.v, encoded.text) == encoded.fact
    encoded.text.encode()  # valid UTF-8, whatever came in


def test_each_version_is_upgraded_step_by_step() -> None:
    at = '"at":"2026-01-15T12:00:00Z"'
    today = Moved(place="at r7", at=AT)
    assert MOVES.decode("moved", 1, f'{{"kind":"moved","v":1,"number":7,{at}}}') == today
    assert MOVES.decode("moved", 2, f'{{"kind":"moved","v":2,"room":"r7",{at}}}') == today
    encoded = MOVES.encode(today)
    assert (encoded.kind, encoded.v) == ("moved", 3)
    assert MOVES.decode("moved", 3, encoded.text) == today


def test_a_version_that_nothing_upgrades_is_named() -> None:
    with pytest.raises(UnreadableFactError, match="'moved' from version 2"):
        Codec([Moved]).decode("moved", 2, "{}")


def test_a_newer_version_is_named() -> None:
    with pytest.raises(UnreadableFactError, match=r"'process_stopped' has version 2.*up to 1"):
        CODEC.decode("process_stopped", 2, LIFE)


def test_an_unknown_kind_is_named_with_its_version() -> None:
    with pytest.raises(UnreadableFactError, match=r"'levitated' \(version 4\)"):
        CODEC.decode("levitated", 4, "{}")


@pytest.mark.parametrize(
    "text", ["", "{", "[]", "{}", LIFE.replace('"life":"x",', ""), LIFE.replace("}", ',"y":1}')]
)
def test_a_damaged_fact_is_named(text: str) -> None:
    with pytest.raises(UnreadableFactError, match="'process_stopped', version 1, cannot be read"):
        CODEC.decode("process_stopped", 1, text)


@pytest.mark.parametrize("message", [Message(), Moved(place="x", at=AT), Author(id="u")])
def test_what_no_room_knows_is_not_recorded(message: Message) -> None:
    with pytest.raises(UnknownFactError, match="is not a fact"):
        CODEC.encode(message)


@pytest.mark.parametrize(
    ("heard", "kept"),
    [
        ("a\x00b", "a\x00b"),
        ("x\ud83d", "x\ufffd"),
        ("\ud83d\ude00", "\U0001f600"),
        ('{"t":"\\ud83d"}', '{"t":"\\ud83d"}'),
        ("9007199254740993", "9007199254740993"),
        ('{"score": NaN}', '{"score": NaN}'),
        ("[" * 2000 + "]" * 2000, "[" * 2000 + "]" * 2000),
        ("é" * 2_500_000, "é" * 2_500_000),
    ],
    ids=["nul", "half a pair", "a pair in halves", "half a pair in JSON", "integer", "NaN", "deep", "5 MB"],
)
def test_B08_text_is_kept_or_cleaned_never_refused(heard: str, kept: str) -> None:
    fact = MessageAccepted(
        session_id=SessionId("s1"),
        message_id=MessageId(heard),
        origin=Origin(platform="web", chat_type=ChatType.DM, chat=heard),
        author=Author(id=heard, name=heard),
        text=heard,
        at=AT,
    )
    encoded = CODEC.encode(fact)
    read = CODEC.decode(encoded.kind, encoded.v, encoded.text)
    assert isinstance(read, MessageAccepted)
    assert (read.text, read.author.id, read.author.name, read.message_id, read.origin.chat) == (kept,) * 5
    assert read == encoded.fact
    json.loads(encoded.text)


@pytest.mark.parametrize("wait", [float("inf"), float("-inf"), float("nan")])
def test_B08_numbers_that_json_lacks_can_be_read_again(wait: float) -> None:
    model = ModelRef(provider="p", name="m")
    fact = ModelCallFailed(
        turn=Turn(1),
        call=1,
        attempt=1,
        failure=Failure(kind=FailureKind.OVERLOADED, detail="", model=model, retry_after_s=wait),
        next_step="retry",
        wait_s=wait,
        began_at=AT,
        at=AT,
    )
    encoded = CODEC.encode(fact)
    read = CODEC.decode(encoded.kind, encoded.v, encoded.text)
    assert isinstance(read, ModelCallFailed)
    assert str(read.wait_s) == str(wait)
    assert read.failure.retry_after_s is None


def test_B09_a_time_without_a_zone_is_no_fact() -> None:
    with pytest.raises(ValueError, match="without a zone"):
        ProcessStarted(life="x", version="1", pid=1, at=datetime(2026, 1, 15, 12))  # noqa: DTZ001
