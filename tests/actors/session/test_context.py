"""What fits into a model's window."""

from hypothesis import given, settings
from hypothesis import strategies as st

from actors.session.context import LEFT_OUT, build, clip, estimate, fit, size
from messages.blocks import (
    AssistantEntry,
    Entry,
    ResultsEntry,
    TextBlock,
    ToolCallBlock,
    ToolResultBlock,
    ToolStatus,
    UserEntry,
)
from messages.ids import CallId
from messages.model import ModelRef, ToolSchema

MODEL = ModelRef(provider="fake", name="one")


def user(text: str) -> UserEntry:
    return UserEntry(blocks=(TextBlock(text=text),))


def said(text: str) -> AssistantEntry:
    return AssistantEntry(blocks=(TextBlock(text=text),))


def called(call_id: str) -> AssistantEntry:
    return AssistantEntry(blocks=(ToolCallBlock(call_id=CallId(call_id), name="t", arguments="{}"),))


def results(call_id: str, text: str) -> ResultsEntry:
    block = ToolResultBlock(call_id=CallId(call_id), status=ToolStatus.OK, text=text)
    return ResultsEntry(results=(block,))


def talk(turns: int, characters: int = 400) -> list[Entry]:
    entries: list[Entry] = []
    for n in range(turns):
        entries += [user(f"{n} " + "q" * characters), said("a" * characters)]
    return entries


def test_what_fits_is_sent_as_it_is() -> None:
    assert fit(talk(3), 10_000) == tuple(talk(3))


def test_the_oldest_exchanges_go_first_and_it_is_said() -> None:
    kept = fit([*talk(100), user("now")], 2_000)
    assert kept[0] == user(LEFT_OUT)
    assert kept[-1] == user("now")
    assert isinstance(kept[1], UserEntry)
    assert sum(map(size, kept)) <= 2_000


def test_the_beginning_stays_the_same_over_several_turns() -> None:
    beginnings = {fit([*talk(n), user("now")], 4_000)[1] for n in range(100, 112)}
    assert len(beginnings) <= 4, "providers can cache it"


def test_a_huge_result_in_the_running_turn_is_clipped_not_dropped() -> None:
    kept = fit([*talk(5), user("look"), called("1"), results("1", "x" * 1_000_000)], 3_000)
    last = kept[-1]
    assert isinstance(last, ResultsEntry)
    assert "characters left out" in last.results[0].text
    assert sum(map(size, kept)) <= 3_000


LENGTHS = st.integers(0, 6000)


@settings(deadline=None)
@given(
    st.lists(st.tuples(st.sampled_from(["user", "said", "tool"]), LENGTHS), max_size=30),
    st.integers(500, 5000),
)
def test_it_always_fits_and_keeps_the_last_words(parts: list[tuple[str, int]], room: int) -> None:
    entries: list[Entry] = [user("hello")]
    for n, (kind, length) in enumerate(parts):
        if kind == "tool":
            entries += [called(str(n)), results(str(n), "r" * length)]
        else:
            entries.append(user("u" * length) if kind == "user" else said("s" * min(length, 200)))
    entries.append(user("the last words"))
    kept = fit(entries, room)
    assert kept[-1] == user("the last words")
    assert sum(map(size, kept)) <= room
    open_calls = {b.call_id for e in kept if e.role == "assistant" for b in e.blocks if b.kind == "tool_call"}
    assert all(r.call_id in open_calls for e in kept if e.role == "results" for r in e.results)


@given(st.text(max_size=3000), st.integers(20, 500))
def test_clipping_keeps_head_and_tail(text: str, most: int) -> None:
    clipped = clip(text, most)
    if estimate(text) <= most:
        assert clipped == text
    else:
        assert clipped[:10] == text[:10]
        assert clipped[-10:] == text[-10:]


def test_a_request_leaves_room_for_the_answer_and_each_shrink_halves_it() -> None:
    tools = (ToolSchema(name="t", description="d" * 700, parameters="{}"),)
    entries = [*talk(400), user("now")]

    def asked(shrinks: int) -> int:
        request = build(
            entries,
            model=MODEL,
            system="s",
            tools=tools,
            window=32_000,
            max_output_tokens=4_000,
            shrinks=shrinks,
        )
        assert request.max_output_tokens == 4_000
        return sum(map(size, request.entries))

    assert asked(0) <= 28_000
    assert asked(1) <= 14_000
    assert asked(2) <= 7_000
