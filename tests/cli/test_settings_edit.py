"""callboard.yaml is changed in one place; everything else stays, to the letter."""

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from actors.console.cli.settings_edit import EditError, check_edit, has_platform, with_platform

BLOCK = {"options": {"token": "${TOKEN}", "list": ["a", 1], "text": "1: 2"}}

FILES = {
    "nothing": "",
    "only remarks": "# mine\n",
    "no platforms": "# mine\nserver:\n  port: 1  # fixed\n",
    "no line end": "server: {port: 1}",
    "no value": "platforms:\nserver: {port: 1}\n",
    "no value, with a remark": "platforms:  # none yet\n# and more\nserver: {port: 1}\n",
    "null": "platforms: null  # none\nserver: {}\n",
    "no value at the end": "server: {}\nplatforms:",
    "empty braces": "platforms: {}\nserver: {}\n",
    "empty braces, with a remark": "platforms: { }   # none\nserver: {}\n",
    "braces": "platforms: {bridge: {options: {a: b}}}\nserver: {}\n",
    "braces over lines": "platforms: {\n  bridge: {options: {a: b}},\n  }\nserver: {}\n",
    "a block": "platforms:\n  bridge:\n    options: {a: b}\n\n# the server\nserver: {}\n",
    "a deep indent": "platforms:\n      bridge:\n            options:\n              a: b # x\nserver: {}\n",
    "in the middle": "a: 1\nplatforms:\n  bridge:\n    options:\n      a: |\n        text\n        # no remark\n\nb: 2\n",
    "folded at the end": "platforms:\n  bridge:\n    options:\n      a: >-\n        text\n        more\n",
    "a list at the end": "platforms:\n  bridge:\n    access:\n      users:\n      - '1'\n      - '2'\n",
    "a quoted value": 'platforms:\n  bridge:\n    home: "a:\\n b"\n    # remark\n  # remark\nb: 1\n',
    "empty entry": "platforms:\n  bridge:\nserver: {}\n",
    "a mark": "---\nplatforms:\n  bridge: {}\n",
    "CRLF": "server:\r\n  port: 1\r\nplatforms:\r\n  bridge:\r\n    home: x\r\n",
    "umlauts": "# Grüße 😀\nplatforms:\n  bridge:\n    home: 😀ü  # 😀\nb: ö\n",
}


@pytest.mark.parametrize("text", FILES.values(), ids=FILES.keys())
def test_a_platform_is_added_and_nothing_else_changes(text: str) -> None:
    changed = with_platform(text, "discord", BLOCK)
    check_edit(text, changed, "discord", BLOCK)
    for line in text.splitlines():
        if "#" in line:
            assert line.partition("#")[2] in changed  # every remark is still there
    assert has_platform(changed, "discord")
    assert not has_platform(text, "discord")
    twice = with_platform(changed, "discord/work", {"options": {}})
    check_edit(changed, twice, "discord/work", {"options": {}})


@pytest.mark.parametrize("name", ["a deep indent", "in the middle", "empty entry", "a mark", "umlauts"])
def test_a_platform_that_is_there_is_replaced(name: str) -> None:
    changed = with_platform(FILES[name], "bridge", BLOCK)
    check_edit(FILES[name], changed, "bridge", BLOCK)


def test_what_else_is_set_for_it_stays_with_its_remarks() -> None:
    text = "platforms:\n  bridge:\n    home: x  # ours\n    options:\n      a: b\n    access: {users: ['1']}  # Ann\n"
    changed = with_platform(text, "bridge", BLOCK)
    check_edit(text, changed, "bridge", BLOCK)
    assert "home: x  # ours\n" in changed
    assert "access: {users: ['1']}  # Ann\n" in changed


@pytest.mark.parametrize(
    "text",
    [
        "- a\n",
        "platforms: [1]\n",
        "platforms: word\n",
        "{a: 1}\n",
        "a: [\n",
        "platforms: {bridge: {}}\n",
        "platforms:\n  bridge: {home: x}\n",
    ],
)
def test_what_cannot_be_changed_is_said(text: str) -> None:
    with pytest.raises(EditError):
        check_edit(text, with_platform(text, "bridge", BLOCK), "bridge", BLOCK)


def test_a_change_of_anything_else_is_noticed() -> None:
    with pytest.raises(EditError, match="something else"):
        check_edit("a: 1\n", "a: 2\nplatforms:\n  x: {}\n", "x", {})


VALUES = st.recursive(
    st.text(max_size=20) | st.integers() | st.booleans() | st.none(),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(min_size=1, max_size=8), inner, max_size=3)
    ),
    max_leaves=8,
)


@given(
    st.dictionaries(st.text(min_size=1, max_size=8), VALUES, min_size=1, max_size=3), st.booleans(), VALUES
)
def test_any_block_style_file_can_be_added_to(
    platforms: dict[str, object], flow: bool, after: object
) -> None:
    platforms.pop("discord", None)
    platforms = platforms or {"x": 1}
    text = yaml.safe_dump(
        {"a": 1, "platforms": platforms, "z": after},
        sort_keys=False,
        allow_unicode=True,
        default_flow_style=None if flow else False,
    )
    check_edit(text, with_platform(text, "discord", BLOCK), "discord", BLOCK)
