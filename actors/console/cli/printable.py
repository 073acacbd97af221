"""Text of models, tools and people may hold escape sequences; a terminal would obey them."""

_CONTROLS = {
    code: "\N{REPLACEMENT CHARACTER}" for code in (*range(32), *range(127, 160)) if chr(code) not in "\n\t"
}
_CONTROLS[ord("\r")] = ""
# What turns the direction of text around can make a command look like another.
_CONTROLS |= dict.fromkeys((*range(0x202A, 0x202F), *range(0x2066, 0x206A)), "\N{REPLACEMENT CHARACTER}")


def printable(text: str) -> str:
    """Return the text without what a terminal obeys instead of showing; lines and tabs stay."""
    return text.translate(_CONTROLS)
