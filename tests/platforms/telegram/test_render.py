import random

import pytest

from actors.gateway.chunks import Unit, measure, split
from actors.gateway.platforms.telegram.render import Rendered, render, shown


def parts(rendered: Rendered) -> list[tuple[str, str]]:
    """Return each entity with the text that it covers, as Telegram counts."""
    raw = rendered.text.encode("utf-16-le")
    return [
        (e["type"], raw[2 * e["offset"] : 2 * (e["offset"] + e["length"])].decode("utf-16-le"))
        for e in rendered.entities
    ]


@pytest.mark.parametrize(
    ("text", "plain", "marks"),
    [
        ("**bold** and *it*", "bold and it", [("bold", "bold"), ("italic", "it")]),
        ("👋 **b**", "👋 b", [("bold", "b")]),
        ("# A *title*", "A title", [("bold", "A title"), ("italic", "title")]),
        ("`a*b*`", "a*b*", [("code", "a*b*")]),
        ("```py\nx = 1\n```", "x = 1", [("pre", "x = 1")]),
        ("~~no~~", "no", [("strikethrough", "no")]),
        ("> wise\n> words", "wise\nwords", [("blockquote", "wise\nwords")]),
        ("- a\n- b", "• a\n• b", []),
        ("3. a\n4. b", "3. a\n4. b", []),
        ("- [x] done\n- [ ] not", "☑ done\n☐ not", []),
        ("[text](https://e.org/?a=1&b=2)", "text", [("text_link", "text")]),
        ("[Ann](tg://user?id=11)", "Ann (tg://user?id=11)", []),
        ("[x](javascript:alert(1))", "x (javascript:alert(1))", []),
        ("![a cat](https://e.org/c.png)", "a cat (https://e.org/c.png)", []),
        ("a\nb", "a\nb", []),
        ("a\n\nb", "a\n\nb", []),
        ("one_two_three 2 * 3 * 4", "one_two_three 2 * 3 * 4", []),
        ("[1]: https://e.org", "[1]: https://e.org", []),
        ("<b>x</b> 1 < 2 & 3", "<b>x</b> 1 < 2 & 3", []),
        ("**unfinished", "**unfinished", []),
        ("    indented", "indented", []),
        ("****", "———", []),
    ],
)
def test_markdown_becomes_text_with_entities(text: str, plain: str, marks: list[tuple[str, str]]) -> None:
    rendered = render(text)
    assert (rendered.text, parts(rendered)) == (plain, marks)


def test_a_table_is_shown_in_columns() -> None:
    rendered = render("| a | bb |\n|---|---|\n| **1** | 2 |")
    assert rendered.text == "a | bb\n--+---\n1 | 2"
    assert rendered.entities[0]["type"] == "pre"


def test_the_language_of_code_is_kept() -> None:
    assert render("```c++ title\nx\n```").entities[0]["language"] == "c++"


def test_a_long_text_is_split_by_what_people_see() -> None:
    table = "\n".join(["| a | b |", "|---|---|", *(f"| {'x' * (n % 30)} | {n} |" for n in range(150))])
    assert measure(shown(table), Unit.UTF16) > 4096 > measure(table, Unit.UTF16)
    chunks = split(table, 4096, Unit.UTF16, shown)
    assert all(measure(shown(chunk.text), Unit.UTF16) <= 4096 for chunk in chunks)
    marks = ".!-()" * 800
    assert len(split(marks, 4096, Unit.UTF16, shown)) == 1


def test_nothing_that_is_written_keeps_a_text_from_being_posted() -> None:
    chance = random.Random(4)
    atoms = [
        *"*_~`[]()>#-+|!\\<&\n\n\n .:1",
        "```",
        "**",
        "](",
        "http://e.org",
        "👩‍👩‍👧",
        "é",
        "写",
        "\x00",
        "\u202e",
        "- [ ] ",
        "    ",
    ]
    for _ in range(3000):
        text = "".join(chance.choices(atoms, k=chance.randint(1, 60)))
        rendered = render(text)
        size = measure(rendered.text, Unit.UTF16)
        assert bool(rendered.text.strip()) >= bool(text.strip()), text
        for entity in rendered.entities:
            assert 0 <= entity["offset"] < entity["offset"] + entity["length"] <= size, text
        spans = [(e["offset"], e["offset"] + e["length"]) for e in rendered.entities]
        assert not [1 for a in spans for b in spans if a[0] < b[0] < a[1] < b[1]], text


def test_deep_nesting_is_posted_as_it_is() -> None:
    for text in (
        ">" * 3000 + " x",
        "[" * 4000,
        "*a " * 1500,
        "- " * 200 + "x",
        "**_" * 300 + "x" + "_**" * 300,
    ):
        assert render(text).text
