r"""From Markdown, as models write it, to what a chat shows. Pure, and never fails: what is odd becomes text.

`markdown_v2` is the dialect in which three contexts have escapes of their own: text
(every mark), the address of a link (`)` and `\\`), and code (a backtick and `\\`). What it
returns is always well-formed there, whatever comes in: a mark that opens nothing is
escaped, an image becomes its text and its address, a heading becomes bold.
"""

import re
from collections.abc import Callable, Mapping
from typing import Literal

from actors.gateway.chunks import Fence, fence_after

Markup = Literal["markdown", "markdown_v2", "plain"]

_RESERVED = re.compile(r"([_*\[\]()~`>#+\-=|{}.!\\])")
_IN_CODE = re.compile(r"([`\\])")
_IN_ADDRESS = re.compile(r"([)\\])")

_ADDRESS = r"(?:[^\s()]|\([^\s()]*\))+"
_INLINE = re.compile(
    rf"""
      (?P<escaped>\\[!-/:-@\[-`{{-~])
    | (?:(?<!`)|(?<=\\`))(?P<ticks>`++)(?P<code>.{{1,4000}}?)(?<!`)(?P=ticks)(?!`)
    | !\[(?P<alt>[^\[\]\n]*)\]\((?P<image>{_ADDRESS})\)
    | \[(?P<label>[^\[\]\n]+)\]\((?P<link>{_ADDRESS})\)
    | \*\*(?P<strong>\S(?:.*?\S)?)\*\*
    | (?<![\w_])__(?P<strong2>[^\s_](?:.*?[^\s_])?)__(?![\w_])
    | ~~(?P<struck>\S(?:.*?\S)?)~~
    | (?<!\*)\*(?P<italic>[^\s*](?:[^*]*[^\s*])?)\*(?!\*)
    | (?<![\w_])_(?P<italic2>[^\s_](?:[^_]*[^\s_])?)_(?![\w_])
    """,
    re.VERBOSE,
)
_HEADING = re.compile(r" {0,3}(#{1,6})(?:[ \t]+(.*))?")
_HEADINGS = re.compile(r"[ \t>]*#")
_GAP = re.compile(r"[ \t]{64,}")
_QUOTED = re.compile(r"^>[ \t]?(.*)$")
_LANGUAGE = re.compile(r"[^\w+#.-].*", re.DOTALL)

_BREAK = "\u200b"
"""Between two marks that would read as another one: `_` `_` would be an underline."""


def heading(line: str) -> tuple[int, str] | None:
    """Return a heading's level and its words; None for any other line. As CommonMark has it."""
    found = _HEADING.fullmatch(line)
    if found is None:
        return None
    words = (found[2] or "").strip(" \t")
    without = words.rstrip("#")
    if without != words and (not without or without[-1] in " \t"):
        words = without.rstrip(" \t")  # the marks that may close it, but not those of `C#`
    return len(found[1]), words


def narrowed(text: str) -> str:
    """Return a text for mistune, whose time for a heading grows with the square of the longest gap in it."""
    if _GAP.search(text) is None:
        return text
    lines: list[str] = []
    fence: Fence | None = None
    for line in text.split("\n"):
        later = fence_after(line, fence)
        in_code = fence is not None or later is not None
        lines.append(line if in_code or not _HEADINGS.match(line) else _GAP.sub(" ", line))
        fence = later
    return "\n".join(lines)


def escaped(text: str) -> str:
    """Escape text that stands outside of code and addresses."""
    return _backslashed(_RESERVED, text)


def _backslashed(what: re.Pattern[str], text: str) -> str:
    return what.sub(r"\\\1", text)


def markdown_v2(text: str) -> str:
    """Render a whole post. Code blocks must be closed in it, as `chunks.split` leaves them."""
    lines: list[str] = []
    fence: Fence | None = None
    code: list[str] = []
    for line in text.split("\n"):
        later = fence_after(line, fence)
        if fence is None and later is None:
            lines.append(_line(line))
        elif fence is None:
            code = []
        elif later is None:
            lines += _block(fence, code)
        else:
            code.append(line)
        fence = later
    if fence is not None:
        lines += _block(fence, code)
    return "\n".join(lines)


def plain(text: str) -> str:
    """Render for a chat that shows text only: marks of emphasis and headings go, addresses stay."""
    lines: list[str] = []
    fence: Fence | None = None
    for line in text.split("\n"):
        later = fence_after(line, fence)
        if fence is None and later is None:
            head = heading(line)
            lines.append(_INLINE.sub(_plainly, head[1] if head and head[1] else line))
        elif fence is not None and later is not None:
            lines.append(line)
        fence = later
    return "\n".join(lines)


RENDERERS: Mapping[Markup, Callable[[str], str] | None] = {
    "markdown": None,
    "markdown_v2": markdown_v2,
    "plain": plain,
}


def _block(fence: Fence, code: list[str]) -> list[str]:
    language = _LANGUAGE.sub("", fence.info.strip())
    return [f"```{language}", *(_backslashed(_IN_CODE, line) for line in code), "```"]


def _line(line: str) -> str:
    head = heading(line)
    if head and head[1]:
        # All of it is bold: a bold part inside would end it.
        return f"*{_inline(head[1], within='*')}*"
    quoted = _QUOTED.match(line)
    return f">{_inline(quoted[1])}" if quoted else _inline(line)


def _inline(text: str, within: str = "") -> str:
    """Render what stands in a line; `within` holds the marks that are open around it."""
    done, at = "", 0
    for found in _INLINE.finditer(text):
        done = _joined(done, escaped(text[at : found.start()]))
        done = _joined(done, _mark(found, within))
        at = found.end()
    return _joined(done, escaped(text[at:]))


def _joined(before: str, after: str) -> str:
    clash = before.endswith("_") and after.startswith("_") and not before.endswith("\\_")
    return before + _BREAK + after if clash else before + after


def _mark(found: re.Match[str], within: str) -> str:
    match found.lastgroup:
        case "escaped":
            return escaped(found["escaped"][1:])
        case "code" | "ticks":
            return f"`{_backslashed(_IN_CODE, found['code'].strip() or ' ')}`"
        case "image":
            return escaped(f"{found['alt']} ({found['image']})".strip())
        case "link":
            label = _inline(found["label"], within + "[")
            if "[" in within:
                return escaped(found[0])
            return f"[{label}]({_backslashed(_IN_ADDRESS, found['link'])})"
        case "strong" | "strong2":
            return _wrapped("*", found["strong"] or found["strong2"], within)
        case "struck":
            return _wrapped("~", found["struck"], within)
        case _:
            return _wrapped("_", found["italic"] or found["italic2"], within)


def _wrapped(mark: str, text: str, within: str) -> str:
    if mark in within:
        return _inline(text, within)
    inside = _inline(text, within + mark)
    if mark == "_" and (inside.startswith("_") or inside.endswith("_")):
        inside = _BREAK + inside + _BREAK
    return f"{mark}{inside}{mark}"


def _plainly(found: re.Match[str]) -> str:
    match found.lastgroup:
        case "escaped":
            return found["escaped"][1:]
        case "code" | "ticks":
            return found["code"]
        case "image":
            return f"{found['alt']} ({found['image']})".strip()
        case "link":
            label, link = found["label"], found["link"]
            return link if label == link else f"{label} ({link})"
        case other:
            assert other is not None
            return _INLINE.sub(_plainly, found[other])
