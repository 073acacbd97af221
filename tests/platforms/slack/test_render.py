"""Markdown as Slack shows it. Pure."""

import random
import re
import time

import pytest

from actors.gateway.chunks import Unit, split
from actors.gateway.platforms.slack.options import TEXT_LIMIT
from actors.gateway.platforms.slack.render import blocks, in_words, mrkdwn
from messages.gateway import Button

OURS = re.compile(r"<(?:https?://|mailto:)[^<>|\n]*(?:\|[^<>|\n]*)?>", re.IGNORECASE)


@pytest.mark.parametrize(
    ("markdown", "shown"),
    [
        ("plain", "plain"),
        ("**bold** *italic* _too_ ~~gone~~ `code`", "*bold* _italic_ _too_ ~gone~ `code`"),
        ("***both***", "_*both*_"),
        ("# Heading", "*Heading*"),
        ("## A **bold** one", "*A bold one*"),
        ("- a\n  - b\n* c", "• a\n  • b\n• c"),
        ("- [ ] open\n- [x] done", "• ☐ open\n• ☑ done"),
        ("1. one\n2. two", "1. one\n2. two"),
        ("> quoted **text**\n>\n> more", "> quoted *text*\n>\n> more"),
        ("[there](https://a.b/c?d=e&f=g)", "<https://a.b/c?d=e&amp;f=g|there>"),
        ("https://a.b.", "<https://a.b>."),
        ("<https://a.b>", "<https://a.b>"),
        ("[a|b](https://a.b)", "<https://a.b|a¦b>"),
        ("[x](javascript:alert)", "x (javascript:alert)"),
        ("![a cat](https://a.b/c.png)", "<https://a.b/c.png|a cat>"),
        ("[mail](mailto:a@b.c)", "<mailto:a@b.c|mail>"),
        ("a < b && c > d", "a &lt; b &amp;&amp; c &gt; d"),
        ("`a < b`", "`a &lt; b`"),
        ("```py\nif a < b:\n    x = `1`\n```", "```\nif a &lt; b:\n    x = `1`\n```"),
        ("~~~\n```\n~~~", "```\n`\u200b`\u200b`\n```"),
        ("---", "─" * 12),
        ("snake_case_name and 2 * 3 * 4", "snake_case_name and 2 * 3 * 4"),
        ("in**side**words", "in\u200b*side*\u200bwords"),
        ("\\*not italic\\*", "*not italic*"),
        ("a\n\n\nb  \n  c", "a\n\n\nb  \n  c"),
        ("| a | b |\n|---|:-:|\n| 1 | 22 |", "```\na | b\n--+---\n1 | 22\n```"),
        ("a | b\nno table", "a | b\nno table"),
        ("", ""),
    ],
)
def test_rendering(markdown: str, shown: str) -> None:
    assert mrkdwn(markdown) == shown


PIECES = (
    "<!channel>",
    "<@U123>",
    "<!subteam^S1>",
    "](",
    "[",
    "](!channel)",
    "](@U1)",
    "<https://a.b|<!here>>",
    "`",
    "```\n",
    "**",
    "_",
    "~~",
    "\\",
    "<",
    ">",
    "&",
    "&lt;!here&gt;",
    "&#60;!here&#62;",
    "&lt;",
    "|",
    "\n",
    "\n|-|-|\n",
    "> ",
    "- ",
    "# ",
    "https://a.b/",
    "http://<!here>",
    "word",
    " ",
    "![",
    "\u200b",
    "<a@b.c>",
    "<http://x.y>",
)


def test_nothing_but_links_of_ours_is_left_between_angles() -> None:
    chance = random.Random(3)
    for _ in range(4000):
        text = "".join(chance.choice(PIECES) for _ in range(chance.randrange(1, 25)))
        shown = OURS.sub("", mrkdwn(text))
        assert "<" not in shown, (text, mrkdwn(text))
        assert not re.search(r"&(?!amp;|lt;|gt;)", shown), (text, shown)


@pytest.mark.parametrize(
    "text",
    [
        "*" * 4000,
        "[" * 4000,
        "`" * 3999,
        "**a " * 1000,
        "[a](" * 1000,
        "![[" * 1300,
        "_a" * 2000,
        "<" * 4000,
        "[" * 2000 + "]" * 2000,
        "***a" * 1000,
        "*a_" * 1300,
        "> " * 2000,
        "|" * 4000,
        "|-" * 2000,
        "- " * 2000,
    ],
)
def test_no_text_takes_long(text: str) -> None:
    began = time.perf_counter()
    mrkdwn(text)
    mrkdwn(f"{text}\n" * 3)
    assert time.perf_counter() - began < 5


@pytest.mark.parametrize("text", ["a < b & c " * 3000, "```\n" + "<>&\n" * 4000 + "```\n", "<" * 20_000])
def test_chunks_are_measured_as_they_are_shown(text: str) -> None:
    chunks = split(text, TEXT_LIMIT, Unit.CHARACTERS, mrkdwn)
    assert all(len(mrkdwn(chunk.text)) <= TEXT_LIMIT for chunk in chunks)
    shown = "".join(chunk.text for chunk in chunks)
    assert {c: shown.count(c) for c in "<>&"} == {c: text.count(c) for c in "<>&"}


def test_blocks_within_every_limit_of_slacks() -> None:
    buttons = tuple(Button(label="x" * 200, command=f"/approve {n}") for n in range(60))
    shown = blocks("<&>" * 20_000, buttons)
    assert len(shown) <= 50
    assert all(0 < len(b["text"]["text"]) <= 3000 for b in shown if b["type"] == "section")
    elements = shown[-1]["elements"]
    assert len(elements) == 25
    assert len({element["action_id"] for element in elements}) == 25
    assert all(0 < len(element["text"]["text"]) <= 75 for element in elements)
    assert blocks("text", ()) == []


def test_buttons_in_words() -> None:
    assert in_words("Working.", (Button(label="Stop", command="/stop"),)) == "Working.\n\n- Stop: `!stop`"
