"""The Messages API: its streams and its requests."""

from typing import Any

import pytest

from actors.session.models.anthropic_messages import to_wire
from actors.session.models.images import NO_PICTURES
from actors.session.models.port import ModelCallError
from messages.blocks import TextBlock, ThinkingBlock, ToolStatus
from messages.model import CallDelta, FailureKind, StopReason, TextDelta, ThinkingDelta, Usage
from tests.actors.session.models.wires import (
    MODEL,
    TOOL,
    answer,
    anthropic,
    call,
    calls_of,
    feed,
    request,
    result,
    results,
    said,
    text_of,
    user,
)
from tests.counterparts.model_server import Call, Say, anthropic_frames, event

MARK = {"type": "ephemeral"}


def signed(text: str, signature: str = "S1", provider: str = MODEL.provider) -> ThinkingBlock:
    return ThinkingBlock(text=text, provider=provider, opaque=signature)


def test_a_request_in_its_wire_form() -> None:
    history = request(
        user("look"),
        said("I look.", call("c1", arguments='{"path":"a"}')),
        results(result("c1", "hello")),
        user("and?"),
        tools=(TOOL,),
    )
    wire = to_wire(history, NO_PICTURES)
    assert wire["system"] == [{"type": "text", "text": "Be brief.", "cache_control": MARK}]
    assert wire["messages"] == [
        {"role": "user", "content": [{"type": "text", "text": "look"}]},
        {
            "role": "assistant",
            "content": [
                {"type": "text", "text": "I look."},
                {"type": "tool_use", "id": "c1", "name": "read_file", "input": {"path": "a"}},
            ],
        },
        {
            "role": "user",
            "content": [
                {"type": "tool_result", "tool_use_id": "c1", "content": "hello"},
                {"type": "text", "text": "and?", "cache_control": MARK},
            ],
        },
    ]
    assert (wire["max_tokens"], wire["stream"]) == (100, True)
    assert wire["tools"][0]["input_schema"]["type"] == "object"


def test_what_was_sent_before_is_sent_again_byte_for_byte() -> None:
    first = to_wire(request(user("a")), NO_PICTURES)
    second = to_wire(request(user("a"), said("b"), user("c")), NO_PICTURES)
    del first["messages"][0]["content"][0]["cache_control"]
    assert second["system"] == first["system"]
    assert second["messages"][0] == first["messages"][0]


def test_a_result_that_is_no_success_is_marked() -> None:
    history = request(user("x"), said(call("c")), results(result("c", "no such file", ToolStatus.ERROR)))
    block = to_wire(history, NO_PICTURES)["messages"][-1]["content"][0]
    assert (block["is_error"], block["content"]) == (True, "[error] no such file")


def test_text_thinking_and_usage() -> None:
    accumulator = anthropic()
    deltas = feed(accumulator, anthropic_frames(Say("hello big world", thinking="hm"), counted=12))
    reply = accumulator.finish()
    assert [type(d) for d in deltas] == [ThinkingDelta, TextDelta, TextDelta, TextDelta]
    assert reply.blocks == (
        ThinkingBlock(text="hm", provider=MODEL.provider, opaque="c2lnbmVk"),
        TextBlock(text="hello big world"),
    )
    assert (reply.stop, reply.raw_stop) == (StopReason.END, "end_turn")
    assert reply.usage == Usage(input_tokens=12, output_tokens=5)


def test_parallel_calls() -> None:
    accumulator = anthropic()
    deltas = feed(accumulator, anthropic_frames(Call(("a", {"x": 1}), ("b", {}), text="Both.")))
    reply = accumulator.finish()
    assert [d.name for d in deltas if isinstance(d, CallDelta)] == ["a", "b"]
    assert calls_of(reply) == [("call_1", "a", '{"x": 1}'), ("call_2", "b", "{}")]
    assert reply.stop is StopReason.TOOL_CALLS


def test_L13_one_id_for_two_calls_and_none_at_all() -> None:
    frames = anthropic_frames(Call(("a", {}), ("b", {}), ("c", {}), ids=["i", "i", ""]))
    assert [i for i, _, _ in calls_of(answer(anthropic(), frames))] == ["i", "i_1", "call_1"]


def test_cache_tokens() -> None:
    usage = {
        "input_tokens": 3,
        "output_tokens": 1,
        "cache_read_input_tokens": 40,
        "cache_creation_input_tokens": 5,
    }
    frames = [event("message_start", message={"usage": usage}), *anthropic_frames(Say("a"))[1:]]
    assert answer(anthropic(), frames).usage == Usage(
        input_tokens=3, output_tokens=5, cache_read_tokens=40, cache_write_tokens=5
    )


# ------------------------------------------------------------------- L05


def test_L05a_thinking_goes_back_to_its_provider_byte_for_byte_and_first() -> None:
    block = signed("deep  \n thought é", "Sig+/=\\n")
    history = request(user("x"), said(block, call("c")), results(result("c")))
    content = to_wire(history, NO_PICTURES)["messages"][1]["content"]
    assert content[0] == {"type": "thinking", "thinking": block.text, "signature": "Sig+/=\\n"}


def test_L05b_no_other_provider_gets_it() -> None:
    history = request(user("x"), said(signed("t", provider="other"), call("c")), results(result("c")))
    assert [b["type"] for b in to_wire(history, NO_PICTURES)["messages"][1]["content"]] == ["tool_use"]


def test_L05d_encrypted_thinking_goes_back_unchanged() -> None:
    frames = anthropic_frames(Call(("a", {})))
    redacted = [
        event("content_block_start", index=7, content_block={"type": "redacted_thinking", "data": "ENC=="}),
        event("content_block_stop", index=7),
    ]
    reply = answer(anthropic(), [frames[0], *redacted, *frames[1:]])
    wire = to_wire(request(user("x"), said(*reply.blocks), results(result("call_1"))), NO_PICTURES)
    assert wire["messages"][1]["content"][0] == {"type": "redacted_thinking", "data": "ENC=="}


def test_L05e_thinking_without_signature_is_dropped() -> None:
    unsigned = ThinkingBlock(text="t", provider=MODEL.provider)
    history = request(user("x"), said(unsigned, "text"), user("y"))
    assert [b["type"] for b in to_wire(history, NO_PICTURES)["messages"][1]["content"]] == ["text"]


# ------------------------------------------------------------------- L17


@pytest.mark.parametrize(
    ("raw", "stop"),
    [
        ("end_turn", StopReason.END),
        ("stop_sequence", StopReason.END),
        ("max_tokens", StopReason.LENGTH),
        ("refusal", StopReason.REFUSED),
        ("pause_turn", StopReason.PAUSED),
        ("model_context_window_exceeded", StopReason.CONTEXT_FULL),
        ("foo_bar", StopReason.OTHER),
    ],
)
def test_L17_stop_reasons(raw: str, stop: StopReason) -> None:
    reply = answer(anthropic(), anthropic_frames(Say("some text", stop=raw)))
    assert (reply.stop, reply.raw_stop) == (stop, raw)


def test_L17_a_paused_answer_is_sent_again_as_it_is() -> None:
    reply = answer(anthropic(), anthropic_frames(Say("so far", stop="pause_turn")))
    wire = to_wire(request(user("x"), said(*reply.blocks)), NO_PICTURES)
    assert wire["messages"][-1] == {"role": "assistant", "content": [{"type": "text", "text": "so far"}]}


@pytest.mark.parametrize(
    ("raw", "stop"), [("end_turn", StopReason.TOOL_CALLS), ("max_tokens", StopReason.LENGTH)]
)
def test_L17_calls_are_to_be_run_unless_they_were_cut(raw: str, stop: StopReason) -> None:
    assert answer(anthropic(), anthropic_frames(Call(("a", {}), stop=raw))).stop is stop


# ------------------------------------------------------------------- L18


def test_L18a_an_end_without_stop_reason_is_cut() -> None:
    with pytest.raises(ModelCallError) as caught:
        answer(anthropic(), anthropic_frames(Say("half an ans"))[:5])
    assert (caught.value.failure.kind, caught.value.partial) == (FailureKind.CUT, "half an ans")


def test_L18c_stop_reason_without_message_stop_is_complete() -> None:
    assert text_of(answer(anthropic(), anthropic_frames(Say("whole"))[:-1])) == "whole"


def test_L18e_the_last_frame_cut_in_itself_is_complete() -> None:
    *frames, _ = anthropic_frames(Say("whole"))
    assert text_of(answer(anthropic(), [*frames, "event: message_st"])) == "whole"
    assert text_of(answer(anthropic(), [*frames, 'event: message_stop\ndata: {"type": "mess'])) == "whole"


def test_L18_an_empty_stream_is_cut() -> None:
    with pytest.raises(ModelCallError) as caught:
        answer(anthropic(), [])
    assert caught.value.failure.kind is FailureKind.CUT


# ------------------------------------------------------------------- L10


@pytest.mark.parametrize(
    ("body", "kind"),
    [
        ({"type": "overloaded_error", "message": "Overloaded"}, FailureKind.OVERLOADED),
        ({"type": "rate_limit_error", "message": "slow"}, FailureKind.RATE_LIMITED),
        ({"type": "api_error", "message": "boom"}, FailureKind.OVERLOADED),
        (
            {"type": "invalid_request_error", "message": "prompt is too long: 9 tokens > 8 maximum"},
            FailureKind.CONTEXT_OVERFLOW,
        ),
        ({"type": "authentication_error", "message": "invalid x-api-key"}, FailureKind.AUTH),
    ],
)
@pytest.mark.parametrize("after", [0, 4])
def test_L10_an_error_event_is_a_failure(body: dict[str, Any], kind: FailureKind, after: int) -> None:
    frames = anthropic_frames(Say("half an answer"))[:after]
    with pytest.raises(ModelCallError) as caught:
        answer(anthropic(), [*frames, event("error", error=body)])
    assert caught.value.failure.kind is kind
    assert caught.value.failure.detail == body["message"]


def test_L10_an_error_of_a_router_without_any_type() -> None:
    with pytest.raises(ModelCallError):
        answer(anthropic(), [{"error": {"message": "upstream overloaded", "code": 502}}])


# -------------------------------------------------------------- oddities


def test_an_answer_in_one_piece() -> None:
    accumulator = anthropic()
    content = [
        {"type": "text", "text": "hi"},
        {"type": "tool_use", "id": "c", "name": "a", "input": {"x": 1}},
    ]
    accumulator.whole(
        {"type": "message", "content": content, "stop_reason": "tool_use", "usage": {"input_tokens": 3}}
    )
    reply = accumulator.finish()
    assert (text_of(reply), calls_of(reply), reply.usage.input_tokens) == ("hi", [("c", "a", '{"x": 1}')], 3)


def test_L15_an_empty_answer_is_an_answer_without_blocks() -> None:
    assert answer(anthropic(), anthropic_frames(Say(""))).blocks == ()


@pytest.mark.parametrize(
    "odd",
    [
        {"type": "ping"},
        {"type": "never_seen", "x": 1},
        {"type": "content_block_start", "index": 9, "content_block": {"type": "server_tool_use", "id": "s"}},
        {"type": "content_block_delta", "index": 9, "delta": {"type": "never_seen_delta"}},
        {"type": "content_block_delta", "index": 77},
        {"type": "message_delta"},
    ],
)
def test_odd_events_are_no_matter(odd: dict[str, Any]) -> None:
    frames: list[Any] = anthropic_frames(Say("a"))
    assert text_of(answer(anthropic(), [*frames[:3], odd, *frames[3:]])) == "a"


def test_tools_are_shown_but_may_not_be_called_when_the_budget_is_spent() -> None:
    asked = request(user("hi"), tools=(TOOL,)).model_copy(update={"tool_choice": "none"})
    wire = to_wire(asked, NO_PICTURES)
    assert wire["tool_choice"] == {"type": "none"}
    assert wire["tools"]
    assert "tool_choice" not in to_wire(request(user("hi"), tools=(TOOL,)), NO_PICTURES)
