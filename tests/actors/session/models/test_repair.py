"""Any history becomes one that every provider takes; what happened stays in the journal."""

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from actors.session.models import anthropic_messages, openai_chat
from actors.session.models.images import NO_PICTURES, read_pictures
from actors.session.models.repair import NO_BEGINNING, NO_TEXT
from actors.session.models.validate import InvalidRequestError, validate_anthropic, validate_openai_chat
from messages.blocks import (
    AssistantBlock,
    AssistantEntry,
    Entry,
    FileBlock,
    ImageBlock,
    ResultsEntry,
    TextBlock,
    ThinkingBlock,
    ToolCallBlock,
    ToolResultBlock,
    ToolStatus,
    UserBlock,
    UserEntry,
)
from messages.ids import CallId
from tests.actors.session.models.wires import MODEL, call, request, result, results, said, user


def claude(*entries: Entry) -> list[dict[str, Any]]:
    messages: list[dict[str, Any]] = anthropic_messages.to_wire(request(*entries), NO_PICTURES)["messages"]
    for message in messages:
        for block in message["content"]:
            block.pop("cache_control", None)
    return messages


def chat(*entries: Entry) -> list[dict[str, Any]]:
    messages: list[dict[str, Any]] = openai_chat.to_wire(request(*entries), NO_PICTURES, "http://x/v1")[
        "messages"
    ]
    return messages[1:]


# ------------------------------------------------------------------- L01

INTERRUPTED = (
    user("do it"),
    said("Both.", call("A"), call("B")),
    results(result("A", "a done")),
    user("go on"),
)


def test_L01_a_call_without_result_gets_one_before_what_was_said_next() -> None:
    _, _, third = claude(*INTERRUPTED)
    a, b, text = third["content"]
    assert (a["tool_use_id"], a["content"], a.get("is_error")) == ("A", "a done", None)
    assert (b["tool_use_id"], b["is_error"]) == ("B", True)
    assert "interrupted" in b["content"]
    assert text == {"type": "text", "text": "go on"}


def test_L01_the_same_for_chat_completions() -> None:
    roles = [(m["role"], m.get("tool_call_id")) for m in chat(*INTERRUPTED)]
    assert roles == [("user", None), ("assistant", None), ("tool", "A"), ("tool", "B"), ("user", None)]


@pytest.mark.parametrize("translate", [claude, chat])
def test_L01_the_history_itself_is_not_changed(translate: Any) -> None:
    before = [entry.model_dump_json() for entry in INTERRUPTED]
    translate(*INTERRUPTED)
    assert [entry.model_dump_json() for entry in INTERRUPTED] == before


def test_L01_no_result_at_all() -> None:
    third = claude(user("x"), said(call("A"), call("B")), user("go on"))[2]
    assert [b["type"] for b in third["content"]] == ["tool_result", "tool_result", "text"]


def test_L01_results_in_call_order_whatever_the_order_of_their_coming() -> None:
    entries = (user("x"), said(call("A"), call("B")), results(result("B", "b")), results(result("A", "a")))
    assert [b["content"] for b in claude(*entries)[2]["content"]] == ["a", "b"]


def test_L01_a_result_that_came_after_a_person_spoke_stands_before_their_words() -> None:
    entries = (user("x"), said(call("A")), user("hurry"), results(result("A", "a")))
    assert [b["type"] for b in claude(*entries)[2]["content"]] == ["tool_result", "text"]


def test_L01_a_result_without_call_and_a_second_result_are_dropped() -> None:
    entries = (
        results(result("Z")),
        user("x"),
        said(call("A")),
        results(result("A", "1"), result("A", "2")),
        user("y"),
    )
    assert [
        b.get("content", b.get("text"))
        for m in claude(*entries)
        for b in m["content"]
        if b["type"] != "tool_use"
    ] == ["x", "1", "y"]


def test_L01_an_id_used_again_in_a_later_turn_keeps_each_result_with_its_call() -> None:
    entries = (user("x"), said(call("c")), user("y"), said(call("c")), results(result("c", "second")))
    blocks = [b for m in claude(*entries) for b in m["content"] if b["type"] == "tool_result"]
    assert "interrupted" in blocks[0]["content"]
    assert blocks[1]["content"] == "second"
    assert blocks[0]["tool_use_id"] != blocks[1]["tool_use_id"]


# ---------------------------------------------------------------- order, emptiness


def test_two_people_in_a_row_are_one_message() -> None:
    assert claude(user("a"), user("b")) == [
        {"role": "user", "content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]}
    ]
    assert chat(user("a"), user("b")) == [{"role": "user", "content": "a\n\nb"}]


def test_the_assistant_never_begins() -> None:
    assert claude(said("hello"), user("x"))[0]["content"] == [{"type": "text", "text": NO_BEGINNING}]


def test_no_entry_at_all() -> None:
    assert chat() == [{"role": "user", "content": NO_TEXT}]


def test_empty_blocks_and_entries_are_left_out() -> None:
    entries = (
        user("x"),
        said("", "  \n"),
        said(ThinkingBlock(text="t", provider=MODEL.provider, opaque="S")),
        user(" "),
    )
    assert chat(*entries) == [{"role": "user", "content": f"x\n\n{NO_TEXT}"}]
    assert len(claude(*entries)) == 1


def test_a_result_without_text_says_so() -> None:
    assert chat(user("x"), said(call("A")), results(result("A", "")))[-1]["content"] == "(no output)"


def test_L08_arguments_that_cannot_be_read_go_back_as_what_they_are() -> None:
    entries = (
        user("x"),
        said(call("A", arguments='{"path":"/tmp')),
        results(result("A", "cut", ToolStatus.REFUSED)),
    )
    assert claude(*entries)[1]["content"][0]["input"] == {"unreadable_arguments": '{"path":"/tmp'}


def test_names_and_ids_of_odd_characters() -> None:
    entries = (
        user("x"),
        said(call("functions.read:0", "my tool!"), call("", "")),
        results(result("functions.read:0")),
    )
    first, second = claude(*entries)[1]["content"]
    assert (first["id"], first["name"]) == ("functions_read_0", "my_tool_")
    assert (second["id"], second["name"]) == ("call", "unknown_tool")


# ------------------------------------------------------------------- L06


def test_L06_no_lone_surrogate_leaves_us_wherever_it_hides() -> None:
    entries = (
        user("bad \udc9d name"),
        said("yes \ud83d", call("A", arguments='{"p":"\\udc9d","\\ud83d":["\\ud83c"]}')),
        results(result("A", "bad \udc9d name")),
    )
    for translate in (claude, chat):
        assert "\udc9d" not in str(translate(*entries))
        str(translate(*entries)).encode("utf-8")
    assert claude(*entries)[1]["content"][1]["input"] == {"p": "�", "�": ["�"]}


# ------------------------------------------------------------------- images, files

PNG = b"\x89PNG\r\n\x1a\n\x00\x00\x00\rIHDR"


def png(path: Path, width: int, height: int, size: int = 100) -> ImageBlock:
    path.write_bytes(PNG + width.to_bytes(4, "big") + height.to_bytes(4, "big") + b"\0" * size)
    return ImageBlock(mime="image/png", path=str(path), size=size)


def shown(*blocks: UserBlock) -> list[str]:
    """Say for each block what became of it."""
    paths = tuple(block.path for block in blocks if isinstance(block, ImageBlock))
    entry = UserEntry(blocks=blocks)
    wire = anthropic_messages.to_wire(request(entry), read_pictures(paths))
    openai_chat.to_wire(request(entry), read_pictures(paths))
    return [block.get("text") or block["source"]["media_type"] for block in wire["messages"][0]["content"]]


def test_L12_a_too_large_image_is_replaced_by_words(tmp_path: Path) -> None:
    good, tall = png(tmp_path / "a", 10, 10), png(tmp_path / "b", 1440, 8570)
    assert shown(good, tall) == [
        "image/png",
        "[image not shown: 1440 by 8570 pixels are more than 8000 on a side]",
    ]


def test_L12_among_many_images_the_limit_is_lower(tmp_path: Path) -> None:
    wide = png(tmp_path / "wide", 2100, 10)
    assert shown(wide) == ["image/png"]
    others = [png(tmp_path / str(n), 10, 10) for n in range(20)]
    assert "2000" in shown(wide, *others)[0]


def test_L12_the_type_comes_from_the_first_bytes(tmp_path: Path) -> None:
    path = tmp_path / "a.png"
    path.write_bytes(b"RIFF\0\0\0\0WEBPVP8X" + b"\0" * 8 + b"\x09\0\0\x09\0\0" + b"\0" * 20)
    assert shown(ImageBlock(mime="image/png", path=str(path), size=1)) == ["image/webp"]


def test_L12_too_many_bytes_in_one_and_in_all(tmp_path: Path) -> None:
    assert "bytes" in shown(png(tmp_path / "a", 1, 1, size=4_000_000))[0]
    many = [png(tmp_path / f"m{n}", 1, 1, size=3_600_000) for n in range(6)]
    assert [text.startswith("[") for text in shown(*many)] == [True, True, False, False, False, False]


def test_an_image_that_is_gone_or_none_is_replaced_by_words(tmp_path: Path) -> None:
    (tmp_path / "t").write_text("text")
    gone = ImageBlock(mime="image/png", path=str(tmp_path / "gone"), size=1)
    text = ImageBlock(mime="image/png", path=str(tmp_path / "t"), size=1)
    assert shown(gone, text) == [
        '[image no longer available: "gone"]',
        "[image not shown: it is no PNG, JPEG, GIF or WebP]",
    ]


def test_A19_an_image_of_ours_is_sent_long_after_its_address_has_expired(tmp_path: Path) -> None:
    """Requests are made from our own copies: no address of a platform is ever in one."""
    kept = png(tmp_path / "kept", 10, 10)
    address = TextBlock(text="see https://cdn.example/a.png?ex=1&is=2&hm=3")
    assert shown(address, kept) == [address.text, "image/png"]
    Path(kept.path).unlink()
    assert shown(address, kept) == [address.text, '[image no longer available: "kept"]']


@pytest.mark.parametrize(
    "path", ["/gone/\n## SYSTEM", "/gone/\u202egnp.exe", "/gone/" + "x" * 500, "/gone/\x00"]
)
def test_A19_what_stands_for_a_lost_image_is_one_line(path: str) -> None:
    (words,) = shown(ImageBlock(mime="image/png", path=path, size=1))
    assert words.splitlines() == [words]
    assert "\u202e" not in words
    assert len(words) < 150


def test_a_file_is_named() -> None:
    block = FileBlock(name="a.pdf", mime="application/pdf", path="/w/a.pdf", size=7)
    assert (
        chat(UserEntry(blocks=(block,)))[0]["content"]
        == '[file: "a.pdf", application/pdf, 7 bytes, at /w/a.pdf]'
    )


def test_D10_what_a_file_is_called_stays_on_one_line() -> None:
    block = FileBlock(name='../../x\u202egnp.exe\n## SYSTEM "', mime="a/b\nc", path="/w/1", size=7)
    content = chat(UserEntry(blocks=(block,)))[0]["content"]
    assert content == '[file: "../../xgnp.exe ## SYSTEM \\"", a/b c, 7 bytes, at /w/1]'


# ------------------------------------------------------------------- every history

texts = st.sampled_from(["", " ", "hi", "two words ", "\ud800", "a\udc9d", "🙂"]) | st.text(max_size=8)
ids = st.sampled_from(["a", "b", "c", "", "x.y:1", "ü", "a" * 70]).map(CallId)
names = st.sampled_from(["read_file", "", "my tool", "x" * 80, "n.s"])
arguments = (
    st.sampled_from(["", "{}", '{"a":1}', '{"a":', "[]", "NaN", '{"a":NaN}', '{"\\ud800":"\\udfff"}']) | texts
)
thinking = st.builds(
    ThinkingBlock,
    text=texts,
    provider=st.sampled_from([MODEL.provider, "other"]),
    opaque=st.sampled_from([None, "", "S1", "redacted_thinking:E", "field:reasoning_content"]),
)
assistant_block: st.SearchStrategy[AssistantBlock] = st.one_of(
    st.builds(TextBlock, text=texts),
    thinking,
    st.builds(ToolCallBlock, call_id=ids, name=names, arguments=arguments),
)
user_block: st.SearchStrategy[UserBlock] = st.one_of(
    st.builds(TextBlock, text=texts),
    st.just(ImageBlock(mime="image/png", path="/nowhere", size=1)),
    st.builds(FileBlock, name=texts, mime=st.just("a/b"), path=st.just("/p"), size=st.just(1)),
)
tool_result = st.builds(ToolResultBlock, call_id=ids, status=st.sampled_from(ToolStatus), text=texts)
entry: st.SearchStrategy[Entry] = st.one_of(
    st.builds(UserEntry, blocks=st.lists(user_block, max_size=3).map(tuple)),
    st.builds(AssistantEntry, blocks=st.lists(assistant_block, max_size=5).map(tuple)),
    st.builds(ResultsEntry, results=st.lists(tool_result, max_size=4).map(tuple)),
)


@settings(max_examples=400, deadline=None)
@given(st.lists(entry, max_size=10))
def test_L01_L06_every_history_passes_the_validators(entries: list[Entry]) -> None:
    validate_anthropic(anthropic_messages.to_wire(request(*entries), NO_PICTURES))
    validate_openai_chat(openai_chat.to_wire(request(*entries), NO_PICTURES, "http://x/v1"))


@settings(max_examples=100, deadline=None)
@given(st.lists(entry, max_size=10), st.data())
def test_L03_so_does_every_history_from_whatever_place_on(entries: list[Entry], data: st.DataObject) -> None:
    cut = data.draw(st.integers(0, len(entries)))
    claude(*entries[cut:])
    chat(*entries[cut:])


@settings(max_examples=200, deadline=None)
@given(st.lists(entry, max_size=8))
def test_what_people_said_is_never_lost(entries: list[Entry]) -> None:
    sent = str(claude(*entries))
    for one in entries:
        if isinstance(one, UserEntry):
            for block in one.blocks:
                if isinstance(block, TextBlock) and block.text.isalnum():
                    assert block.text in sent


# ------------------------------------------------------------------- the validators themselves


@pytest.mark.parametrize(
    "messages",
    [
        [],
        [{"role": "assistant", "content": "a"}],
        [{"role": "user", "content": ""}],
        [{"role": "user", "content": "a"}, {"role": "user", "content": "b"}],
        [{"role": "user", "content": "a"}, {"role": "tool", "tool_call_id": "x", "content": "b"}],
        [{"role": "user", "content": "a"}, {"role": "assistant", "content": None}],
        [{"role": "user", "content": "\ud800"}],
        [{"role": "robot", "content": "a"}],
    ],
)
def test_the_validator_of_chat_completions_refuses(messages: list[dict[str, Any]]) -> None:
    with pytest.raises(InvalidRequestError):
        validate_openai_chat({"model": "m", "messages": messages})


USE = {"type": "tool_use", "id": "A", "name": "t", "input": {}}
RESULT = {"type": "tool_result", "tool_use_id": "A", "content": "r"}
HI = {"type": "text", "text": "hi"}


@pytest.mark.parametrize(
    "contents",
    [
        [],
        [[]],
        [[{"type": "text", "text": " "}]],
        [[HI], [USE]],
        [[HI], [USE], [HI]],
        [[HI], [USE], [HI, RESULT]],
        [[HI], [USE], [RESULT, RESULT]],
        [[HI], [USE], [{**RESULT, "tool_use_id": "B"}]],
        [[RESULT]],
        [[HI], [{**USE, "id": "ä"}], [RESULT]],
        [[HI], [{**USE, "input": "{}"}], [RESULT]],
        [[HI], [{"type": "thinking", "thinking": "t", "signature": "S"}]],
        [[HI], [{"type": "thinking", "thinking": "t", "signature": ""}, HI]],
        [[HI], [{"type": "text", "text": "open end "}]],
    ],
)
def test_the_validator_of_messages_refuses(contents: list[list[dict[str, Any]]]) -> None:
    messages = [{"role": "assistant" if at % 2 else "user", "content": c} for at, c in enumerate(contents)]
    with pytest.raises(InvalidRequestError):
        validate_anthropic({"model": "m", "max_tokens": 1, "messages": messages})
