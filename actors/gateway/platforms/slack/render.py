"""From Markdown to Slack's mrkdwn and blocks. Pure, and never fails: what is odd becomes text.

Why mrkdwn and not `markdown` blocks: its three escapes (`&`, `<`, `>`) are all that can
mean something to Slack, in text and in code alike, so that no text of a model can ring a
channel; a text field takes 40,000 characters where all `markdown` blocks of a message
take 12,000 together; and what is posted is what is searched, edited and notified.

Lines stay lines: blocks are told apart line by line, what stands in a line is read by
mistune. mrkdwn has no escape for its own marks; a literal `*` stays as it is.
"""

import re
import unicodedata
from collections.abc import Iterable, Sequence
from typing import Any

import mistune

from actors.gateway.chunks import Fence, Unit, fence_after, split
from actors.gateway.markup import heading
from actors.gateway.platforms.slack.translate import BUTTON
from messages.gateway import Button

SECTION_LIMIT = 3000
MOST_BLOCKS = 50
MOST_BUTTONS = 25
LABEL_LENGTH = 75
VALUE_LENGTH = 2000
MOST_QUOTED = 8
LONGEST_LINE = 12_000
"""A longer line is taken as it is: nobody writes marks in it, and reading it would take long."""

_STYLES = {"good": "primary", "bad": "danger"}
_INLINE = mistune.create_markdown(renderer=None, plugins=["strikethrough", "url"]).inline
_BULLET = re.compile(r"^([ \t]*)[-*+][ \t]+(?:\[([ xX])\][ \t]+)?")
_QUOTED = re.compile(r"^ {0,3}>[ \t]?")
_RULE = re.compile(r"^ {0,3}(?:(?:\*[ \t]*){3,}|(?:-[ \t]*){3,}|(?:_[ \t]*){3,})$")
_TABLE_RULE = re.compile(r"^ {0,3}\|?[ \t]*:?-+:?[ \t]*(?:\|[ \t]*:?-+:?[ \t]*)*\|?[ \t]*$")
_CELL_END = re.compile(r"(?<!\\)\|")
_LINKED = re.compile(r"^(?:https?://|mailto:)[^\s<>|]+$", re.IGNORECASE)
_WORD = re.compile(r"\w")
_MARKS = {"strong": "*", "emphasis": "_", "strikethrough": "~"}
_EDGE = "\u200b"
"""Between a word and a mark: Slack sees marks only at the edge of words."""
_FENCES = re.compile(r"`{3,}")


def escaped(text: str) -> str:
    """Escape the three characters that mean something to Slack. Nothing pings after that."""
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def mrkdwn(text: str) -> str:
    """Render a whole post. An open code block is closed at the end."""
    lines = text.split("\n")
    done: list[str] = []
    code: list[str] = []
    fence: Fence | None = None
    at = 0
    while at < len(lines):
        line = lines[at]
        later = fence_after(line, fence)
        if fence is not None:
            if later is None:
                done += _code(code)
            else:
                code.append(line)
        elif later is not None:
            code = []
        elif (end := _table_end(lines, at)) > at:
            done += _code(_table(lines[at:end]))
            at = end
            continue
        else:
            done.append(_line(line))
        fence, at = later, at + 1
    if fence is not None:
        done += _code(code)
    return "\n".join(done)


def _code(lines: Iterable[str]) -> list[str]:
    """A block of code; three ticks inside it would end it."""
    return ["```", *(escaped(_FENCES.sub(_parted, line)) for line in lines), "```"]


def _parted(ticks: re.Match[str]) -> str:
    return _EDGE.join(ticks[0])


def _line(line: str, depth: int = 0) -> str:
    if len(line) > LONGEST_LINE or depth > MOST_QUOTED:
        return escaped(line)
    if _RULE.match(line):
        return "─" * 12
    if (head := heading(line)) and head[1]:
        inside = _inline(head[1], within="*")
        return f"*{inside}*" if inside.strip() else inside
    if quoted := _QUOTED.match(line):
        return f"> {_line(line[quoted.end() :], depth + 1)}" if line[quoted.end() :].strip() else ">"
    if bullet := _BULLET.match(line):
        box = {None: "", " ": "☐ "}.get(bullet[2], "☑ ")
        return f"{bullet[1]}• {box}{_inline(line[bullet.end() :])}"
    return _inline(line)


def _inline(text: str, within: str = "") -> str:
    """Render what stands in a line; blanks at its ends are kept."""
    bare = text.strip(" \t")
    if not bare:
        return text
    head, tail = text[: len(text) - len(text.lstrip(" \t"))], text[len(text.rstrip(" \t")) :]
    try:
        state = _INLINE.state_cls({"ref_links": {}})
        state.src = bare
        tokens = _INLINE.parse(state)
        inside = _tokens(tokens, within)
    except RecursionError:
        inside = escaped(bare)
    return f"{head}{inside}{tail}"


def _tokens(tokens: Sequence[dict[str, Any]], within: str) -> str:
    done = ""
    for number, token in enumerate(tokens):
        piece = _token(token, within)
        mark = piece[:1] if token["type"] in _MARKS or token["type"] == "codespan" else ""
        if mark and _WORD.match(done[-1:]):
            done += _EDGE
        done += piece
        if mark and piece.endswith(mark) and _WORD.match(_beginning(tokens[number + 1 :])):
            done += _EDGE
    return done


def _beginning(tokens: Sequence[dict[str, Any]]) -> str:
    first = tokens[0] if tokens else {}
    raw = first.get("raw")
    return raw[:1] if isinstance(raw, str) else ""


def _token(token: dict[str, Any], within: str) -> str:
    kind, raw = token["type"], token.get("raw", "")
    match kind:
        case "text" | "inline_html":
            return escaped(str(raw))
        case "codespan":
            return f"`{escaped(str(raw).replace('`', _EDGE)) or ' '}`"
        case "linebreak" | "softbreak":
            return "\n"
        case "link":
            return _link(str(token["attrs"].get("url", "")), token.get("children", ()), within)
        case "image":
            return _link(str(token["attrs"].get("url", "")), token.get("children", ()), within)
        case _ if kind in _MARKS:
            return _marked(_MARKS[kind], token.get("children", ()), within)
        case _:
            return _tokens(token.get("children", ()), within) or escaped(str(raw))


def _marked(mark: str, children: Sequence[dict[str, Any]], within: str) -> str:
    inside = _tokens(children, within + mark)
    if mark in within or not inside.strip() or inside != inside.strip():
        return inside
    return f"{mark}{inside}{mark}"


def _link(url: str, children: Sequence[dict[str, Any]], within: str) -> str:
    """A link by its address; only what is one: `<!channel>` and `<@U1>` have the same form."""
    label = _plain(children)
    if not _LINKED.match(url):
        shown = _tokens(children, within)
        return shown if not url or url == label else f"{shown} ({escaped(url)})"
    address = escaped(url)
    if not label.strip() or label in (url, url.removeprefix("mailto:")):
        return f"<{address}>"
    return f"<{address}|{escaped(label.replace('|', '¦').replace(chr(10), ' '))}>"


def _plain(tokens: Sequence[dict[str, Any]]) -> str:
    return "".join(str(t.get("raw", "")) or _plain(t.get("children", ())) for t in tokens)


# ------------------------------------------------------------------ tables


def _table_end(lines: Sequence[str], at: int) -> int:
    """Return where the table that begins at a line ends; `at` when none does."""
    if at + 1 >= len(lines) or "|" not in lines[at] or not _TABLE_RULE.match(lines[at + 1]):
        return at
    if "-" not in lines[at + 1] or len(_cells(lines[at])) != len(_cells(lines[at + 1])):
        return at
    end = at + 2
    while end < len(lines) and "|" in lines[end]:
        end += 1
    return end


def _cells(line: str) -> list[str]:
    inner = line.strip().removeprefix("|")
    inner = inner[:-1] if inner.endswith("|") and not inner.endswith("\\|") else inner
    return [cell.strip().replace("\\|", "|") for cell in _CELL_END.split(inner)]


def _table(lines: Sequence[str]) -> list[str]:
    rows = [_cells(line) for number, line in enumerate(lines) if number != 1]
    columns = max(map(len, rows))
    widths = [max((_width(row[n]) for row in rows if n < len(row)), default=0) for n in range(columns)]
    if sum(widths) > 200:
        return list(lines)  # aligning it would only make it longer
    shown = [
        " | ".join(cell + " " * (widths[n] - _width(cell)) for n, cell in enumerate(row)).rstrip()
        for row in rows
    ]
    return [shown[0], "-+-".join("-" * width for width in widths), *shown[1:]]


def _width(text: str) -> int:
    return sum(2 if unicodedata.east_asian_width(c) in "WF" else 1 for c in text)


# ------------------------------------------------------------------ blocks


def blocks(markdown: str, buttons: Sequence[Button]) -> list[dict[str, Any]]:
    """Return a message with buttons: its text in sections, and below it what can be pressed.

    Empty when there is nothing to press: a plain text needs no blocks.
    """
    if not buttons:
        return []
    texts = [mrkdwn(c.text) for c in split(markdown, SECTION_LIMIT, Unit.CHARACTERS, mrkdwn)]
    sections = [
        {"type": "section", "text": {"type": "mrkdwn", "text": text}, "expand": True} for text in texts
    ]
    return [*sections[: MOST_BLOCKS - 1], {"type": "actions", "elements": _elements(buttons)}]


def _elements(buttons: Sequence[Button]) -> list[dict[str, Any]]:
    shown: list[dict[str, Any]] = []
    for number, button in enumerate(buttons[:MOST_BUTTONS]):
        label = button.label.strip()[:LABEL_LENGTH] or button.command[:LABEL_LENGTH]
        element = {
            "type": "button",
            "action_id": f"{BUTTON}{number}",
            "text": {"type": "plain_text", "text": label, "emoji": True},
            "value": button.command[:VALUE_LENGTH],
        }
        if button.style in _STYLES:
            element["style"] = _STYLES[button.style]
        shown.append(element)
    return shown


def in_words(text: str, buttons: Sequence[Button]) -> str:
    """Return Markdown that says what the buttons would have said, where none can be shown."""
    lines = [f"- {b.label}: `!{b.command.removeprefix('/')}`" for b in buttons]
    return "\n".join([text, "", *lines]) if lines else text
