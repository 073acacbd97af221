"""Markdown as Discord shows it."""

import random

import pytest

from actors.gateway.chunks import Unit, measure, split
from actors.gateway.platforms.discord.render import discord_markdown


@pytest.mark.parametrize(
    ("written", "shown"),
    [
        ("**bold** and *italic* and `code`", "**bold** and *italic* and `code`"),
        ("__bold__, snake__case__name", "**bold**, snake__case__name"),
        ("# One\n### Three\n#### Four **b**", "# One\n### Three\n**Four b**"),
        ("---\n* * *", "─" * 16 + "\n" + "─" * 16),
        (">>> deep", "> deep"),
        ("a || b || c", "a \\|\\| b \\|\\| c"),
        ("`a || b`", "`a || b`"),
        ("![a cat](https://x.org/cat.png)", "[a cat](https://x.org/cat.png)"),
        ("- [ ] to do\n- [x] done", "- ☐ to do\n- ☑ done"),
        ("-# small", "\\-# small"),
        ("hi @everyone, @here", "hi @\u200beveryone, @\u200bhere"),
        ("mail me@here.org", "mail me@\u200bhere.org"),
        ("https://x.org/__init__.py || no", "https://x.org/__init__.py \\|\\| no"),
        ("~~~python\nx = '__a__'\n~~~", "```python\nx = '__a__'\n```"),
        ("````\n```\n````", "```\n`\u200b`\u200b`\n```"),
        ("```js title=x\n@everyone || __x__\n```", "```js\n@everyone || __x__\n```"),
        ("a | b", "a | b"),
        ("", ""),
    ],
)
def test_what_is_shown(written: str, shown: str) -> None:
    assert discord_markdown(written) == shown


def test_a_table_is_a_block_with_columns() -> None:
    written = "Soups:\n\n| Name | Price |\n|------|------:|\n| Leek | 3 |\n| 味噌 | 4 |\n\nEnd"
    assert discord_markdown(written).split("\n") == [
        *("Soups:", "", "```"),
        *("Name  Price", "----  -----", "Leek  3", "味噌  4"),
        *("```", "", "End"),
    ]


def test_a_wide_table_is_told_row_by_row() -> None:
    written = f"|Name|What|\n|-|-|\n|Leek|{'long ' * 20}|"
    assert discord_markdown(written) == f"- **Name**: Leek; **What**: {('long ' * 20).strip()}"


def test_nothing_breaks_it_and_everything_fits() -> None:
    chance = random.Random(5)
    pieces = [
        "```",
        "\n",
        "|",
        "-",
        "__",
        "**",
        "||",
        "@everyone",
        "> ",
        "# ",
        "word ",
        "`",
        "😀",
        "[x](y)",
        "\\",
    ]
    for _ in range(2000):
        text = "".join(chance.choice(pieces) for _ in range(chance.randrange(60)))
        assert isinstance(discord_markdown(text), str)
    long = "".join(chance.choice(pieces) for _ in range(3000))
    for chunk in split(long, 2000, Unit.UTF16, discord_markdown):
        assert measure(discord_markdown(chunk.text), Unit.UTF16) <= 2000


def test_it_takes_time_in_proportion() -> None:
    for text in ("|" * 20_000, "__a" * 10_000, "`" * 20_000, "[" * 20_000, "#" * 20_000, "* " * 10_000 + "x"):
        discord_markdown(text)
