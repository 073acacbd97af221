"""Markdown for chats with a dialect of their own: always well-formed, nothing that was said is lost."""

import time
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from actors.gateway.chunks import Unit, measure, split
from actors.gateway.markup import markdown_v2, plain
from actors.gateway.markup_html import html
from actors.gateway.platforms.discord.render import discord_markdown
from actors.gateway.platforms.slack.render import mrkdwn
from actors.gateway.platforms.telegram.render import shown
from actors.gateway.silence import heard_by_people
from messages.gateway import ChatType

CODE = "\u2423"
RESERVED = set("_*[]()~`>#+-=|{}.!")


def up_to(mark: str, text: str, at: int) -> int:
    """The place of a mark that is not escaped. Raises ValueError without one."""
    while at < len(text) and text[at] != mark:
        at += 2 if text[at] == "\\" else 1
    if at >= len(text):
        raise ValueError(f"no {mark} ends it")
    return at


def without_code(text: str) -> str:
    """Put a sign in the place of code, and take code blocks out; what is in them needs only its own two escapes."""
    out, at = "", 0
    while at < len(text):
        if text.startswith("```", at):
            at = up_to("`", text, at + 3)
            if not text.startswith("```", at):
                raise ValueError("a backtick in a block")
            at += 3
        elif text[at] == "`":
            out, at = out + CODE, up_to("`", text, at + 1) + 1
        else:
            step = 2 if text[at] == "\\" else 1
            out += text[at : at + step]
            at += step
    return out


def visible(text: str) -> str:
    """Read the dialect as its server does; return what people see besides code. Raises ValueError where that refuses."""
    text, out, open_, at = without_code(text), "", "", 0
    while at < len(text):
        char = text[at]
        if char == "\\":
            out, at = out + text[at + 1], at + 1
        elif char in "*_~" and not text.startswith("__", at):
            if char in open_[:-1]:
                raise ValueError(f"{char} closes out of order")
            open_ = open_[:-1] if open_.endswith(char) else open_ + char
        elif char == "[":
            open_ += char
        elif text.startswith("](", at) and open_.endswith("["):
            open_, at = open_[:-1], up_to(")", text, at + 2)
        elif char in RESERVED and not (char == ">" and text[at - 1 : at] in ("", "\n")):
            raise ValueError(f"{char} is reserved: {text!r}")
        else:
            out += char
        at += 1
    if open_:
        raise ValueError(f"{open_} left open")
    return out


def test_D06_images_addresses_and_lists() -> None:
    image = markdown_v2("![alt](http://x.com/a_b.png)")
    assert visible(image) == "alt (http://x.com/a_b.png)"
    assert markdown_v2("[t](http://x.com/q?(a)\\b)") == "[t](http://x.com/q?(a\\)\\\\b)"
    rest = "1. a\n- b # c! {d} | ~e~ >f"
    assert visible(markdown_v2(rest)) == rest


@pytest.mark.parametrize(
    ("markdown", "rendered"),
    [
        ("**bold** and *italic* and ~~gone~~", "*bold* and _italic_ and ~gone~"),
        ("# Title", "*Title*"),
        ("## Title ##", "*Title*"),
        ("# About C#", "*About C\\#*"),
        ("#tag", "\\#tag"),
        ("#", "\\#"),
        ("snake_case_name", "snake\\_case\\_name"),
        ("`a_b\\c`", "`a_b\\\\c`"),
        ("```python\nx = `1`\n```", "```python\nx = \\`1\\`\n```"),
        ("> quoted.", ">quoted\\."),
        ("2 * 3 * 4", "2 \\* 3 \\* 4"),
        ("**a *b* c**", "*a _b_ c*"),
        ("\\*plain\\*", "\\*plain\\*"),
    ],
)
def test_marks(markdown: str, rendered: str) -> None:
    assert markdown_v2(markdown) == rendered
    visible(rendered)


PIECES = ["*", "**", "_", "__", "~~", "`", "``", "```\n", "[", "](", ")", "![", "a", "b c", " ", "\n", "\\"]
TEXTS = st.lists(st.sampled_from([*PIECES, "# ", "> ", "1. ", "http://x.y/z_(1)"]), max_size=40).map("".join)


@given(TEXTS)
def test_D06_whatever_comes_in_what_goes_out_is_well_formed(text: str) -> None:
    for chunk in split(text, 100):
        visible(markdown_v2(chunk.text))


@given(TEXTS)
def test_plain_never_fails_and_keeps_what_was_said(text: str) -> None:
    if text.isascii() and text.isalnum():
        assert plain(text).strip() == text
    else:
        assert isinstance(plain(text), str)


def test_a_wide_gap_in_code_stays_as_it_is() -> None:
    line = "# a" + " " * 80 + "b"
    assert line in html(f"```\n{line}\n```")
    assert shown(f"```\n{line}\n```") == line
    assert shown(line) == "a b"


HOSTILE = {
    "ticks": " ".join("`" * n for n in range(1, 200)),
    "blanks in a heading": "# a" + " " * 20_000 + "x",
    "lines": "\n" * 30_000 + "x NO_REPLY",
    "word and lines": "no reply" + "\n" * 30_000 + "x",
}


@pytest.mark.parametrize("text", HOSTILE.values(), ids=HOSTILE)
@pytest.mark.parametrize(
    "render",
    [
        markdown_v2,
        plain,
        html,
        discord_markdown,
        mrkdwn,
        shown,
        lambda text: heard_by_people(text, ChatType.GROUP),
    ],
    ids=["v2", "plain", "html", "discord", "slack", "telegram", "silence"],
)
def test_no_text_of_a_model_holds_the_loop_up(render: Callable[[str], str], text: str) -> None:
    began = time.process_time()
    render(text)
    assert time.process_time() - began < 1.0


@given(TEXTS)
def test_what_is_rendered_fits_the_limit(text: str) -> None:
    for chunk in split(text, 100, Unit.UTF16, render=markdown_v2):
        assert measure(markdown_v2(chunk.text), Unit.UTF16) <= 100
