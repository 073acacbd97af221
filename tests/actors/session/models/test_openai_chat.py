"""Chat Completions: streams of OpenAI, and of those who only resemble it."""

import json
from typing import Any

import pytest

from actors.session.models.images import NO_PICTURES
from actors.session.models.openai_chat import to_wire
from actors.session.models.port import ModelCallError
from messages.blocks import TextBlock, ThinkingBlock, ToolStatus
from messages.model import CallDelta, FailureKind, StopReason, TextDelta, ThinkingDelta, Usage
from tests.actors.session.models.wires import (
    MODEL,
    TOOL,
    answer,
    call,
    calls_of,
    calls_stream,
    feed,
    fragment,
    openai,
    request,
    result,
    results,
    said,
    text_of,
    user,
)
from tests.counterparts.model_server import Call, Say, chunk, data, openai_frames

DONE = "data: [DONE]\n\n"


def test_a_request_in_its_wire_form() -> None:
    history = request(
        user("look"),
        said("I look.", call("c1", arguments='{"path":"a"}')),
        results(result("c1", "hello")),
        tools=(TOOL,),
    )
    wire = to_wire(history, NO_PICTURES, "http://127.0.0.1:1/v1")
    function = {"name": "read_file", "arguments": '{"path": "a"}'}
    assert wire["messages"] == [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": "look"},
        {
            "role": "assistant",
            "content": "I look.",
            "tool_calls": [{"id": "c1", "type": "function", "function": function}],
        },
        {"role": "tool", "tool_call_id": "c1", "content": "hello"},
    ]
    assert wire["stream"] is True
    assert wire["stream_options"] == {"include_usage": True}
    assert wire["max_tokens"] == 100
    assert wire["tools"][0]["function"]["parameters"]["properties"] == {"path": {"type": "string"}}


def test_the_official_api_has_its_own_name_for_the_limit() -> None:
    assert to_wire(request(user("hi")), NO_PICTURES)["max_completion_tokens"] == 100


def test_a_result_that_is_no_success_says_so_in_words() -> None:
    history = request(user("x"), said(call("c")), results(result("c", "no such file", ToolStatus.ERROR)))
    assert to_wire(history, NO_PICTURES)["messages"][-1]["content"] == "[error] no such file"


def test_text_thinking_and_usage() -> None:
    accumulator = openai()
    deltas = feed(accumulator, openai_frames(Say("hello big world", thinking="hm"), counted=12))
    reply = accumulator.finish()
    assert [type(d) for d in deltas] == [ThinkingDelta, TextDelta, TextDelta, TextDelta]
    assert reply.blocks[1:] == (TextBlock(text="hello big world"),)
    assert isinstance(reply.blocks[0], ThinkingBlock)
    assert reply.blocks[0].text == "hm"
    assert reply.stop is StopReason.END
    assert reply.usage == Usage(input_tokens=12, output_tokens=5)


def test_parallel_calls() -> None:
    accumulator = openai()
    deltas = feed(accumulator, openai_frames(Call(("a", {"x": 1}), ("b", {}), text="I do both.")))
    reply = accumulator.finish()
    assert [d.name for d in deltas if isinstance(d, CallDelta)] == ["a", "b"]
    assert calls_of(reply) == [("call_1", "a", '{"x": 1}'), ("call_2", "b", "{}")]
    assert reply.stop is StopReason.TOOL_CALLS


# ------------------------------------------------------------------- L13


X1 = '{"x":1}'


@pytest.mark.parametrize(
    ("fragments", "expected"),
    [
        pytest.param(
            [fragment(0, "c1", "a", "{}"), fragment(0, "c2", "b", X1)],
            [("c1", "a", "{}"), ("c2", "b", X1)],
            id="index 0 for all",
        ),
        pytest.param(
            [
                fragment(0, "c1", "a", ""),
                fragment(0, None, None, "{}"),
                fragment(0, "c2", "b", '{"x"'),
                fragment(0, None, None, ":1}"),
            ],
            [("c1", "a", "{}"), ("c2", "b", X1)],
            id="index 0, arguments in pieces",
        ),
        pytest.param(
            [[fragment(0, "c1", "a", "{}"), fragment(0, "c2", "b", X1)]],
            [("c1", "a", "{}"), ("c2", "b", X1)],
            id="both in one chunk",
        ),
        pytest.param(
            [fragment(None, "c1", "a", "{}"), fragment(None, "c2", "b", X1)],
            [("c1", "a", "{}"), ("c2", "b", X1)],
            id="no index",
        ),
        pytest.param(
            [fragment(0, None, "a", "{}"), fragment(0, None, "b", X1)],
            [("call_1", "a", "{}"), ("call_2", "b", X1)],
            id="no ids",
        ),
        pytest.param(
            [fragment(0, "", "a", "{}"), fragment(1, "", "a", X1)],
            [("call_1", "a", "{}"), ("call_2", "a", X1)],
            id="empty ids",
        ),
        pytest.param(
            [fragment(0, None, "a", X1), fragment(0, None, "a", X1)],
            [("call_1", "a", X1), ("call_2", "a", X1)],
            id="no ids, one tool twice",
        ),
        pytest.param(
            [fragment(0, "c", "a", "{}"), fragment(1, "c", "b", X1)],
            [("c", "a", "{}"), ("c_1", "b", X1)],
            id="one id for two",
        ),
        pytest.param(
            [fragment(0, "c", "a", "{}"), fragment(0, "c", "a", X1)],
            [("c", "a", "{}"), ("c_1", "a", X1)],
            id="one id and index for two",
        ),
        pytest.param(
            [fragment(0, "c1", "a", '{"x"'), fragment(0, "c1", None, ":1}")],
            [("c1", "a", X1)],
            id="id repeated in each piece",
        ),
        pytest.param(
            [fragment(0, "c1", "a", '{"x"'), fragment(0, "c1", "a", ":1}")],
            [("c1", "a", X1)],
            id="id and name repeated in each piece",
        ),
        pytest.param(
            [
                fragment(0, "c1", "a", ""),
                fragment(1, "c2", "b", ""),
                fragment(1, None, None, X1),
                fragment(0, None, None, "{}"),
            ],
            [("c1", "a", "{}"), ("c2", "b", X1)],
            id="pieces interleaved",
        ),
        pytest.param(
            [fragment(0, "c1", "a", "{}"), fragment(3, "c2", "b", X1)],
            [("c1", "a", "{}"), ("c2", "b", X1)],
            id="a gap in the indices",
        ),
        pytest.param(
            [fragment(0, "c1", None, ""), fragment(0, None, "a", X1)],
            [("c1", "a", X1)],
            id="the name comes late",
        ),
        pytest.param(
            [fragment(0, "c1", "a", '{}{"x":1}')],
            [("c1", "a", '{}{"x":1}')],
            id="a double object stays as it came",
        ),
        pytest.param(
            [fragment(0, " c1 ", " a<|channel|>json", "{}")], [("c1", "a", "{}")], id="leaked marks"
        ),
    ],
)
def test_L13_calls_are_told_apart(fragments: list[Any], expected: list[tuple[str, str, str]]) -> None:
    assert calls_of(answer(openai(), calls_stream(*fragments))) == expected


def test_L13_ids_are_unique_over_the_conversation() -> None:
    before = (user("x"), said(call("call_1")), results(result("call_1")))
    reply = answer(openai(*before), calls_stream(fragment(0, "call_1", "a", "{}")))
    assert calls_of(reply) == [("call_1_1", "a", "{}")]


def test_arguments_that_come_as_an_object_become_text() -> None:
    raw = {"index": 0, "id": "c", "function": {"name": "a", "arguments": {"x": 1}}}
    assert calls_of(answer(openai(), calls_stream(raw))) == [("c", "a", '{"x": 1}')]


def test_the_old_function_call_is_a_call() -> None:
    frames = [
        chunk({"function_call": {"name": "a", "arguments": "{"}}),
        chunk({"function_call": {"arguments": "}"}}, "function_call"),
    ]
    assert calls_of(answer(openai(), frames)) == [("call_1", "a", "{}")]


# ------------------------------------------------------------------- L10

UPSTREAM = {"error": {"message": "upstream overloaded", "code": 502}}


@pytest.mark.parametrize("before", [0, 1, 4])
def test_L10_an_error_in_a_data_line_is_a_failure(before: int) -> None:
    texts = [data(chunk({"content": f"t{n} "})) for n in range(before)]
    partial = "".join(f"t{n} " for n in range(before))
    with pytest.raises(ModelCallError) as caught:
        answer(openai(), [*texts, data(UPSTREAM), DONE])
    assert caught.value.failure.kind is FailureKind.OVERLOADED
    assert caught.value.failure.status == 502
    assert caught.value.partial == partial


@pytest.mark.parametrize(
    ("body", "kind"),
    [
        ({"error": {"message": "boom"}}, FailureKind.OVERLOADED),
        ({"error": "boom"}, FailureKind.OVERLOADED),
        ({"error": {"code": 429, "message": "slow down"}}, FailureKind.RATE_LIMITED),
        ({"error": {"code": "429", "message": "slow down"}}, FailureKind.RATE_LIMITED),
        ({"object": "error", "message": "boom", "code": 500}, FailureKind.OVERLOADED),
        ({"type": "error", "error": {"type": "overloaded_error", "message": "x"}}, FailureKind.OVERLOADED),
        (
            {"choices": [], "error": {"code": "context_length_exceeded", "message": "x"}},
            FailureKind.CONTEXT_OVERFLOW,
        ),
        (
            {"choices": [{"index": 0, "delta": {}, "finish_reason": "error", "error": {"code": 502}}]},
            FailureKind.OVERLOADED,
        ),
        ({"choices": [{"index": 0, "delta": {}, "finish_reason": "error"}]}, FailureKind.OVERLOADED),
    ],
)
def test_L10_in_all_the_shapes_that_errors_have(body: dict[str, Any], kind: FailureKind) -> None:
    with pytest.raises(ModelCallError) as caught:
        answer(openai(), [chunk({"content": "a"}), body, DONE])
    assert caught.value.failure.kind is kind


def test_L10_an_error_event_in_plain_words() -> None:
    with pytest.raises(ModelCallError):
        answer(openai(), ["event: error\ndata: upstream went away\n\n"])


def test_L10_calls_that_came_before_the_error_are_not_in_any_answer() -> None:
    frames = calls_stream(fragment(0, "c", "write_file", "{}"))[:1]
    with pytest.raises(ModelCallError):
        answer(openai(), [*frames, UPSTREAM, DONE])


# ------------------------------------------------------------------- L17


@pytest.mark.parametrize(
    ("raw", "stop"),
    [
        ("stop", StopReason.END),
        ("STOP", StopReason.END),
        ("eos", StopReason.END),
        ("length", StopReason.LENGTH),
        ("max_tokens", StopReason.LENGTH),
        ("MAX_TOKENS", StopReason.LENGTH),
        ("content_filter", StopReason.REFUSED),
        ("SAFETY", StopReason.REFUSED),
        ("refusal", StopReason.REFUSED),
        ("MALFORMED_FUNCTION_CALL", StopReason.MALFORMED),
        ("function_call_filter: MALFORMED_FUNCTION_CALL", StopReason.MALFORMED),
        ("pause_turn", StopReason.PAUSED),
        ("model_context_window_exceeded", StopReason.CONTEXT_FULL),
        ("foo_bar", StopReason.OTHER),
    ],
)
def test_L17_stop_reasons(raw: str, stop: StopReason) -> None:
    reply = answer(openai(), [chunk({"content": "text"}), chunk({}, raw), DONE])
    assert (reply.stop, reply.raw_stop) == (stop, raw)


@pytest.mark.parametrize(
    ("raw", "stop"),
    [
        ("stop", StopReason.TOOL_CALLS),
        ("STOP", StopReason.TOOL_CALLS),
        ("tool_calls", StopReason.TOOL_CALLS),
        ("foo_bar", StopReason.TOOL_CALLS),
        ("length", StopReason.LENGTH),
        ("model_context_window_exceeded", StopReason.CONTEXT_FULL),
        ("content_filter", StopReason.REFUSED),
    ],
)
def test_L17_calls_are_to_be_run_unless_they_were_cut(raw: str, stop: StopReason) -> None:
    reply = answer(openai(), calls_stream(fragment(0, "c", "a", "{}"), finish=raw))
    assert (reply.stop, reply.raw_stop) == (stop, raw)


def test_L17_the_reason_for_calls_without_any_call() -> None:
    assert answer(openai(), [chunk({}, "tool_calls"), DONE]).stop is StopReason.MALFORMED
    assert answer(openai(), [chunk({"content": "hi"}, "tool_calls"), DONE]).stop is StopReason.END


def test_L17_a_refusal_in_its_own_field() -> None:
    reply = answer(openai(), [chunk({"refusal": "I cannot do that."}), chunk({}, "stop"), DONE])
    assert (reply.stop, text_of(reply)) == (StopReason.REFUSED, "I cannot do that.")


# ------------------------------------------------------------------- L18


def test_L18b_an_end_without_finish_reason_and_without_done_is_cut() -> None:
    with pytest.raises(ModelCallError) as caught:
        answer(openai(), [chunk({"content": "half an ans"})])
    assert (caught.value.failure.kind, caught.value.partial) == (FailureKind.CUT, "half an ans")


def test_L18d_finish_reason_without_done_is_complete() -> None:
    assert text_of(answer(openai(), [chunk({"content": "whole"}), chunk({}, "stop")])) == "whole"


def test_L18_done_without_finish_reason_is_complete() -> None:
    reply = answer(openai(), [chunk({"content": "whole"}), DONE])
    assert (text_of(reply), reply.stop) == ("whole", StopReason.END)


@pytest.mark.parametrize("frames", [[], [DONE], [": ping\n\n", DONE], ["data: \n\n"]])
def test_L18_an_empty_stream_is_cut(frames: list[str]) -> None:
    with pytest.raises(ModelCallError) as caught:
        answer(openai(), frames)
    assert caught.value.failure.kind is FailureKind.CUT


def test_L18_done_in_the_middle_of_a_call_is_cut() -> None:
    frames: list[Any] = [chunk({"tool_calls": [fragment(0, "c", "a", '{"x"')]}), DONE]
    with pytest.raises(ModelCallError) as caught:
        answer(openai(), frames)
    assert caught.value.failure.kind is FailureKind.CUT


def test_L18_a_last_frame_cut_in_itself_after_the_end_is_no_matter() -> None:
    whole = "".join(openai_frames(Say("all of it")))
    at = whole.index('"finish_reason": "stop"') + 30
    reply = answer(openai(), [whole[: whole.index("\n\n", at) + 10]])
    assert text_of(reply) == "all of it"


def test_L18_cut_at_every_byte_it_is_either_cut_or_whole() -> None:
    whole = "".join(openai_frames(Call(("a", {"x": 1}), text="I do it")))
    complete = whole.index('"finish_reason": "tool_calls"')
    outcomes = [outcome(whole[:at]) for at in range(len(whole))]
    first_whole = outcomes.index("whole")
    assert complete < first_whole < complete + 60
    assert set(outcomes[:first_whole]) == {FailureKind.CUT}
    assert set(outcomes[first_whole:]) == {"whole"}


def outcome(stream: str) -> str:
    """Say how a stream of these bytes ends: `whole`, or the kind of its failure."""
    try:
        reply = answer(openai(), [stream])
    except ModelCallError as error:
        return error.failure.kind
    return "whole" if calls_of(reply) == [("call_1", "a", '{"x": 1}')] else "something else"


def test_a_piece_that_is_not_json_in_the_middle_is_a_failure() -> None:
    with pytest.raises(ModelCallError) as caught:
        answer(openai(), [chunk({"content": "a"}), "data: {oops\n\n", chunk({}, "stop"), DONE])
    assert caught.value.failure.kind is FailureKind.CUT


# ------------------------------------------------------------- oddities


def test_chunks_without_blank_lines_between() -> None:
    lines = "".join(
        f"data: {json.dumps(c)}\n"
        for c in (chunk({"content": "a"}), chunk({"content": "b"}), chunk({}, "stop"))
    )
    assert text_of(answer(openai(), [lines])) == "ab"


def test_an_answer_in_one_piece() -> None:
    accumulator = openai()
    message = {"role": "assistant", "content": "hi", "tool_calls": [fragment(None, "c", "a", "{}")]}
    accumulator.whole(
        {
            "choices": [{"index": 0, "message": message, "finish_reason": "tool_calls"}],
            "usage": {"prompt_tokens": 3},
        }
    )
    reply = accumulator.finish()
    assert (text_of(reply), calls_of(reply), reply.usage.input_tokens) == ("hi", [("c", "a", "{}")], 3)


@pytest.mark.parametrize(
    "body",
    [{"error": {"code": "context_length_exceeded", "message": "m"}}, {"detail": "x"}, [], "text", None],
)
def test_a_body_that_is_no_answer_is_a_failure(body: object) -> None:
    with pytest.raises(ModelCallError):
        openai().whole(body)


@pytest.mark.parametrize(
    "frames",
    [
        [
            chunk({"content": "hi"}),
            {**chunk({}, "stop"), "usage": {"prompt_tokens": 7, "completion_tokens": 2}},
        ],
        [
            {
                **chunk({"content": "hi"}, "stop"),
                "x_groq": {"usage": {"prompt_tokens": 7, "completion_tokens": 2}},
            }
        ],
        [
            {
                "choices": [
                    {
                        "index": 0,
                        "delta": {"content": "hi"},
                        "finish_reason": "stop",
                        "usage": {"prompt_tokens": 7, "completion_tokens": 2},
                    }
                ]
            }
        ],
        [
            chunk({"content": "hi"}, "stop"),
            {"choices": [], "usage": {"prompt_tokens": 7, "completion_tokens": 2}},
            {"choices": [], "usage": None},
        ],
    ],
)
def test_usage_is_found_wherever_it_comes(frames: list[Any]) -> None:
    reply = answer(openai(), [*frames, DONE])
    assert (reply.usage.input_tokens, reply.usage.output_tokens) == (7, 2)


def test_cached_tokens() -> None:
    usage = {"prompt_tokens": 7, "completion_tokens": 2, "prompt_tokens_details": {"cached_tokens": 4}}
    assert (
        answer(openai(), [{**chunk({"content": "a"}, "stop"), "usage": usage}]).usage.cache_read_tokens == 4
    )


@pytest.mark.parametrize("name", ["reasoning_content", "reasoning"])
def test_reasoning_becomes_thinking(name: str) -> None:
    reply = answer(openai(), [chunk({name: "hm, "}), chunk({name: "yes"}), chunk({"content": "ok"}, "stop")])
    assert isinstance(reply.blocks[0], ThinkingBlock)
    assert (reply.blocks[0].text, reply.blocks[0].provider) == ("hm, yes", MODEL.provider)


def test_reasoning_goes_back_where_it_is_wanted_and_only_while_tools_run() -> None:
    reply = answer(openai(), [chunk({"reasoning_content": "hm"}), *calls_stream(fragment(0, "c", "a", "{}"))])
    turn = (user("x"), said(*reply.blocks), results(result("c")))
    assert to_wire(request(*turn), NO_PICTURES)["messages"][2]["reasoning_content"] == "hm"
    later = to_wire(request(*turn, said("done"), user("and now?")), NO_PICTURES)
    assert all("reasoning_content" not in message for message in later["messages"])


def test_content_in_typed_parts() -> None:
    parts = [
        {"type": "thinking", "thinking": [{"type": "text", "text": "hm"}]},
        {"type": "text", "text": "ok"},
    ]
    reply = answer(openai(), [chunk({"content": parts}, "stop")])
    assert (text_of(reply), len(reply.blocks)) == ("ok", 2)


def test_L15_an_empty_answer_is_an_answer_without_blocks() -> None:
    assert answer(openai(), [chunk({"content": None}), chunk({}, "stop"), DONE]).blocks == ()


def test_L06_halves_of_a_pair_in_two_pieces_are_joined_and_a_lone_half_replaced() -> None:
    accumulator = openai()
    frames = [
        'data: {"choices":[{"index":0,"delta":{"content":"a\\ud83d"}}]}\n\n',
        'data: {"choices":[{"index":0,"delta":{"content":"\\ude42b\\udc9d"},"finish_reason":"stop"}]}\n\n',
    ]
    deltas = feed(accumulator, frames)
    assert text_of(accumulator.finish()) == "a🙂b�"
    assert "".join(d.text for d in deltas if isinstance(d, TextDelta)) == "a🙂b�"


@pytest.mark.parametrize(
    "odd",
    [
        {},
        {"choices": None},
        {"choices": [None]},
        {"choices": [{"delta": None}]},
        {"choices": [{"index": 1, "delta": {"content": "no"}}]},
        {"choices": [{"delta": {"tool_calls": [None]}}]},
    ],
)
def test_odd_chunks_are_no_matter(odd: dict[str, Any]) -> None:
    assert text_of(answer(openai(), [chunk({"content": "a"}), odd, chunk({}, "stop"), DONE])) == "a"


def test_tools_are_shown_but_may_not_be_called_when_the_budget_is_spent() -> None:
    asked = request(user("hi"), tools=(TOOL,)).model_copy(update={"tool_choice": "none"})
    wire = to_wire(asked, NO_PICTURES)
    assert wire["tool_choice"] == "none"
    assert wire["tools"]
    assert "tool_choice" not in to_wire(request(user("hi"), tools=(TOOL,)), NO_PICTURES)
