"""What a place has used, in words; and what its conversation is called in the list."""

from datetime import timedelta

import pytest

from actors.session import facts as f
from actors.session.facts import ConfirmationWanted, MessageAccepted, TurnBegan
from messages.blocks import TextBlock
from messages.ids import SessionKey, StreamId, Turn
from messages.model import ModelRef, StopReason, Usage
from store.codec import CODEC
from store.store import Store
from store.usage import usage_reporter, usage_text
from tests.fakes.clock import START
from tests.store.talk import ANN, BEN, Talk

KEY = SessionKey("agent:main:discord:main:group:c")


def answered(
    model: str, *, read: int | None = 1_000_000, written: int | None = 2000, days_ago: float = 1
) -> f.ModelCallAnswered:
    at = START - timedelta(days=days_ago)
    return f.ModelCallAnswered(
        turn=Turn(1),
        call=1,
        model=ModelRef(provider="anthropic", name=model),
        blocks=(TextBlock(text="x"),),
        stop=StopReason.END,
        raw_stop="end",
        usage=Usage(input_tokens=read, output_tokens=written),
        began_at=at,
        at=at,
    )


async def test_the_figures_of_a_place_are_its_own_and_those_of_its_background(store: Store) -> None:
    report = usage_reporter(store.select, lambda: START)
    assert await report(KEY, 30) == "No model was asked here in the last 30 days."
    await store.journal.append(
        StreamId(f"session:{KEY}"),
        0,
        [answered("claude-sonnet-4-5"), answered("mystery"), answered("mystery", days_ago=40)],
    )
    await store.journal.append(StreamId(f"session:{KEY}:~abcd"), 0, [answered("mystery", read=None)])
    await store.journal.append(StreamId(f"session:{KEY}2"), 0, [answered("mystery")])
    text = await report(KEY, 30)
    assert "**Model calls**: 3\n" in text
    assert "2,000,000 read, 6,000 written (1 call(s) were not counted by their provider)" in text
    assert "2 call(s) without a known price" in text
    assert "anthropic/mystery: 2 call(s), unknown" in text
    assert "**Model calls**: 4\n" in await report(KEY, 50)


@pytest.mark.parametrize(
    ("rows", "words"),
    [
        ((("p/m", 1, 10, 5, 0, 0.5, 0),), "**Cost**: $0.5000"),
        ((("p/m", 1, 10, 5, 0, None, 1),), "**Cost**: unknown: no price is known"),
        ((("p/m", 2, 10, 5, 0, 0.5, 1),), "**Cost**: $0.5000, and 1 call(s) without a known price"),
    ],
)
def test_what_is_unknown_is_not_nothing(rows: tuple[tuple[object, ...], ...], words: str) -> None:
    assert words in usage_text(rows, 1)
    assert "the last day" in usage_text(rows, 1)


async def test_a_chosen_title_is_the_title_in_the_list(store: Store) -> None:
    talk = Talk(store.journal)
    await talk.commands("title", "", ANN)
    await talk.says("first words")
    await talk.says("hello", BEN)
    titles = {s.session_key: s.title for s in await store.sessions()}
    assert sorted(titles.values()) == ["first words", "hello"]
    await talk.commands("title", "Birds", ANN)
    await talk.commands("title", "More  birds", ANN)
    await talk.commands("titles", "are no titles", ANN)
    titles = {s.session_key: s.title for s in await store.sessions()}
    assert sorted(titles.values()) == ["More birds", "hello"]


def test_facts_that_were_written_before_there_were_groups_are_read() -> None:
    """A history from before quotes, approvals in chats and summaries means what it meant."""
    at = '"at":"2026-01-15T12:00:00Z"'
    origin = '{"platform":"discord","chat_type":"dm","chat":"c","user":"u"}'
    accepted = CODEC.decode(
        "message_accepted",
        1,
        '{"v":1,"kind":"message_accepted","message_id":"m","session_id":"s","origin":'
        f'{origin},"author":{{"id":"u"}},"text":"hi",{at}}}',
    )
    assert isinstance(accepted, MessageAccepted)
    assert (accepted.quote, accepted.overheard, accepted.surroundings) == (None, (), None)
    wanted = CODEC.decode(
        "confirmation_wanted", 1, f'{{"v":1,"kind":"confirmation_wanted","turn":1,"call_id":"a",{at}}}'
    )
    assert isinstance(wanted, ConfirmationWanted)
    assert (wanted.approval, wanted.expires_at) == ("", None)
    began = CODEC.decode(
        "turn_began",
        1,
        f'{{"v":1,"kind":"turn_began","turn":1,"session_id":"s","message_ids":["m"],{at}}}',
    )
    assert isinstance(began, TurnBegan)
    assert (began.purpose, began.upto) == ("answer", 0)
