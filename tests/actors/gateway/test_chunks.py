"""Splitting: nothing is lost, nothing is too long, code stays code."""

import re

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from actors.gateway.chunks import Chunk, Fence, Unit, between_characters, fence_after, measure, split

PIECES = st.sampled_from(
    [
        "a",
        "word ",
        "\n",
        "\n\n",
        "```\n",
        "```python\n",
        "~~~~ x\n",
        "~~~\n",
        "    ",
        "> ",
        "👩\u200d👩\u200d👧",
        "é",
        "日本語",
        "🇩🇪🇫🇷",
        "x" * 40,
        "\r\n",
        "a_b*c",
        "line of code = 1\n",
        "| a | b |\n|---|---|\n",
        "| 1 | 2 |\n",
        "[a b](http://x.y/z)",
    ]
)
TEXTS = st.one_of(st.text(max_size=300), st.lists(PIECES, max_size=60).map("".join))


def shown(text: str) -> str:
    return "".join(text.split())


@given(TEXTS, st.integers(16, 90), st.sampled_from(Unit))
@example("```" + "x" * 50 + "\n" + "y" * 100, 16, Unit.CHARACTERS)
@example("`" * 60 + "\n" + "code\n" * 9, 20, Unit.CHARACTERS)
def test_whatever_the_text_nothing_is_lost_or_too_long(text: str, limit: int, unit: Unit) -> None:
    chunks = split(text, limit, unit)
    assert all(measure(chunk.text, unit) <= limit for chunk in chunks)
    assert all(chunk.body.strip() for chunk in chunks)
    assert shown("".join(chunk.body for chunk in chunks)) == shown(text)


def open_at_the_end(chunk: Chunk) -> Fence | None:
    fence = None
    for line in re.findall(r"[^\r\n]*(?:\r\n|\r|\n)|[^\r\n]+", chunk.text):
        fence = fence_after(line, fence)
    return fence


@given(TEXTS, st.integers(40, 90))
@example("          ```00000000000000", 40)
@example("\r```", 40)
@example("a\rb\r```py\rcode\r```\r" * 9, 40)
def test_no_chunk_leaves_a_code_block_open(text: str, limit: int) -> None:
    for chunk in split(text, limit):
        fence = open_at_the_end(chunk)
        if fence is not None:  # only where its two marks alone are as long as a post
            assert len(fence.opening + fence.closing) >= limit, chunk


def test_D01_a_code_block_as_long_as_the_limit_still_fits_with_its_added_fences() -> None:
    code = "\n".join(f"x{i} = {i}" for i in range(300))[:1995]
    text = f"Here it is:\n\n```python\n{code}\n```\n\nDone."
    chunks = split(text, 2000)
    assert all(len(chunk.text) <= 2000 for chunk in chunks)
    assert all(chunk.text.count("```") % 2 == 0 for chunk in chunks)
    assert "".join(chunk.body for chunk in chunks) == text


def test_D01_one_line_of_code_longer_than_a_post() -> None:
    code = "x" * 1995
    chunks = split(f"Look: \n```python\n{code}\n```\nDone.", 2000)
    assert all(len(chunk.text) <= 2000 and chunk.text.count("```") % 2 == 0 for chunk in chunks)
    inside = "".join(c.body for c in chunks).split("```python\n")[1].split("\n```")[0]
    assert inside == code


def test_D03_a_long_tilde_block_with_backticks_inside() -> None:
    rows = [f"row {n}: value" for n in range(300)]
    rows[150] = "```"
    text = "~~~text\n" + "\n".join(rows) + "\n~~~\n"
    chunks = split(text, 2000)
    assert len(chunks) > 2
    assert "".join(c.body for c in chunks) == text
    for chunk in chunks[1:]:
        assert chunk.before == "~~~text\n"
    for chunk in chunks[:-1]:
        assert chunk.after == "~~~"
        assert chunk.body.endswith("\n")
    assert all(len(chunk.text) <= 2000 for chunk in chunks)


def test_a_code_block_that_fits_is_kept_whole() -> None:
    code = "```js\n" + "let a = 1;\n" * 10 + "```\n"
    chunks = split("intro " * 12 + "\n" + code + "outro", 150)
    assert [code in chunk.text for chunk in chunks].count(True) == 1
    assert not any(chunk.before for chunk in chunks)


def test_paragraphs_before_lines_before_words() -> None:
    assert [c.body for c in split("aaaa bbbb cccc\n\ndddd eeee", 20)] == ["aaaa bbbb cccc\n\n", "dddd eeee"]
    assert [c.body for c in split("aaaa bbbb cccc\ndddd eeee", 20)] == ["aaaa bbbb cccc\n", "dddd eeee"]
    assert [c.body for c in split("aaaa bbbb cccc dddd eeee", 20)] == ["aaaa bbbb cccc dddd ", "eeee"]


@pytest.mark.parametrize(
    "kept",
    [
        "[a link of words](https://example.org/a_(b)?c=d)",
        "![a picture of it](https://example.org/x.png)",
        '[a link](https://example.org/ "with a title")',
        "`x = [y for y in z]`",
        "``a ` b c d e f``",
        "**a few bold words**",
        "[no_blank](https://example.org/)",
    ],
)
def test_what_stands_together_in_a_line_is_not_cut_in_half(kept: str) -> None:
    for before in range(60):
        for blank in ("", " "):
            text = "word " * 4 + "x" * before + blank + kept + " and more words " * 6
            chunks = split(text, 80)
            assert "".join(chunk.body for chunk in chunks) == text
            assert all(len(chunk.text) <= 80 for chunk in chunks)
            assert [kept in chunk.text for chunk in chunks].count(True) == 1, chunks


def test_a_link_that_is_longer_than_a_post_is_cut_where_it_must() -> None:
    text = "See [all of " + "it " * 40 + "](https://example.org/" + "y" * 100 + ") there"
    chunks = split(text, 60)
    assert "".join(chunk.body for chunk in chunks) == text
    assert all(len(chunk.text) <= 60 for chunk in chunks)


HEAD = "| Name | Price |\n|------|------:|\n"


def test_a_table_that_fits_is_kept_whole() -> None:
    table = HEAD + "".join(f"| n{n} | {n} |\n" for n in range(5))
    chunks = split("intro words " * 8 + "\n" + table + "outro", 150)
    assert [table in chunk.text for chunk in chunks].count(True) == 1
    assert not any(chunk.before for chunk in chunks)


@pytest.mark.parametrize("intro", ["", "Prices:\n\n", "a" * 120 + "\n", "a" * 110 + "\n\n"])
def test_the_head_of_a_long_table_is_repeated(intro: str) -> None:
    table = HEAD + "".join(f"| name {n} | {n * 7} |\n" for n in range(60))
    text = intro + table + "\nThat is all."
    chunks = split(text, 150)
    assert "".join(chunk.body for chunk in chunks) == text
    assert all(len(chunk.text) <= 150 for chunk in chunks)
    for chunk in chunks:
        rows = [line for line in chunk.text.split("\n") if "|" in line]
        assert not rows or (len(rows) > 2 and "\n".join(rows[:2]) + "\n" == HEAD), chunk
        assert chunk.text.count("| Name |") <= 1
    assert chunks[-1].text.endswith("That is all.")


def test_lines_with_bars_are_no_table_and_a_long_head_is_not_repeated() -> None:
    bars = "".join(f"a{n} | b\n" for n in range(60))
    assert not any(chunk.before for chunk in split(bars, 100))
    wide = "|" + "w" * 50 + "|\n|-|\n" + "|x|\n" * 60
    assert not any(chunk.before for chunk in split(wide, 100))


def test_characters_stay_whole() -> None:
    family = "👩‍👩‍👧"
    for chunk in split("x" * 14 + family * 9, 16, Unit.UTF16):
        assert not chunk.body.startswith(("\u200d", "👩‍👧")) or chunk.body.startswith(family)
    flags = "🇩🇪🇫🇷"
    assert not between_characters(flags, 1)
    assert between_characters(flags, 2)
    assert not between_characters("e\u0301", 1)
    assert not between_characters("\r\n", 1)


def test_units() -> None:
    assert measure("a😀é", Unit.CHARACTERS) == 3
    assert measure("a😀é", Unit.UTF16) == 4
    assert measure("a😀é", Unit.BYTES) == 7


def test_what_counts_is_what_the_renderer_makes_of_it() -> None:
    def escaped(text: str) -> str:
        return text.replace(".", "\\.")

    chunks = split("a.b.c. " * 40, 60, render=escaped)
    assert all(len(escaped(c.text)) <= 60 for c in chunks)
    assert "".join(c.body for c in chunks) == "a.b.c. " * 40


def test_nothing_is_made_of_nothing() -> None:
    assert split("", 100) == ()
    assert split(" \n\n ", 100) == ()


def test_a_mistaken_limit() -> None:
    with pytest.raises(ValueError, match="limit of 3"):
        split("x", 3)
