"""From Markdown, as models write it, to what Discord shows. Pure, and never fails.

Discord shows much of Markdown as it stands. What it does not: tables (made code
blocks), headings below the third level (bold), images (links), rules (a line),
nested quotes. What it shows and Markdown does not mean: `__` as underline, `||` as a
spoiler, `-#` as small print, `>>>` as a quote to the end.
"""

import re
import unicodedata

from actors.gateway.chunks import Fence, fence_after
from actors.gateway.markup import heading

_RULE = re.compile(r"^ {0,3}(?:(?:\*[ \t]*){3,}|(?:-[ \t]*){3,}|(?:_[ \t]*){3,})$")
_QUOTE = re.compile(r"^ {0,3}>(?:[ \t]*>)*[ \t]?")
_TASK = re.compile(r"^(\s*[-*+][ \t]+)\[([ xX])\][ \t]+")
_ROW = re.compile(r"^\s*\|?.*\|.*$")
_DELIMITER = re.compile(r"^\s*\|?\s*:?-+:?\s*(?:\|\s*:?-+:?\s*)*\|?\s*$")
_INLINE = re.compile(
    r"""
      (?P<escaped>\\[!-/:-?\[-`{-~])
    | (?:(?<!`)|(?<=\\`))(?P<ticks>`++)(?P<code>.{1,4000}?)(?<!`)(?P=ticks)(?!`)
    | (?P<address><?https?://[^\s<>]+>?)
    | !\[(?P<alt>[^\[\]\n]*)\]\((?P<image>[^\s()]+(?:\([^\s()]*\))?)\)
    | (?<![\w_])__(?P<strong>[^\s_](?:.*?[^\s_])?)__(?![\w_])
    | (?P<spoiler>\|\|)
    | (?P<ping>@(?:everyone|here)\b)
    """,
    re.VERBOSE,
)
_RULER = "\u2500" * 16
_JOINER = "\u200b"
MOST_WIDE = 60
"""A table that is wider is shown row by row."""


def discord_markdown(text: str) -> str:
    """Render a whole post. Pings of everybody become text that pings nobody."""
    lines = text.split("\n")
    done: list[str] = []
    fence: Fence | None = None
    at = 0
    while at < len(lines):
        line = lines[at]
        later = fence_after(line, fence)
        if fence is not None or later is not None:
            done.append(_fenced(line, fence, later))
        elif (end := _table_end(lines, at)) > at:
            done += _table(lines[at:end])
            at = end
            continue
        else:
            done.append(_line(line))
        fence = later
        at += 1
    return "\n".join(done)


def _fenced(line: str, before: Fence | None, after: Fence | None) -> str:
    """A line of a code block. Discord knows only fences of backticks that stand at the beginning."""
    if before is None and after is not None:
        language = re.sub(r"[^\w+#.-].*", "", after.info.strip(), flags=re.DOTALL)
        return f"```{language}"
    if after is None:
        return "```"
    return line.replace("```", f"`{_JOINER}`{_JOINER}`")


def _line(line: str) -> str:
    if (head := heading(line)) is not None and head[1]:
        level, words = head[0], _inline(head[1])
        if level <= 3:
            return f"{'#' * min(level, 3)} {words}"
        return f"**{words.replace('**', '')}**"
    if _RULE.match(line):
        return _RULER
    if (quote := _QUOTE.match(line)) is not None:
        return f"> {_inline(line[quote.end() :])}"
    line = _TASK.sub(lambda task: f"{task[1]}{'☐' if task[2] == ' ' else '☑'} ", line)
    if line.startswith("-# "):
        line = "\\" + line
    return _inline(line)


def _inline(line: str) -> str:
    return _INLINE.sub(_mark, line)


def _mark(found: re.Match[str]) -> str:
    match found.lastgroup:
        case "image":
            return f"[{found['alt'].strip() or 'image'}]({found['image']})"
        case "strong":
            return f"**{_inline(found['strong'])}**"
        case "spoiler":
            return "\\|\\|"
        case "ping":
            return f"@{_JOINER}{found['ping'][1:]}"
        case _:
            return found[0]


# ------------------------------------------------------------------ tables


def _table_end(lines: list[str], at: int) -> int:
    """Return where the table that begins here ends; `at` when none does."""
    if at + 1 >= len(lines) or "|" not in lines[at] or not _DELIMITER.match(lines[at + 1]):
        return at
    if "|" not in lines[at + 1] and len(_cells(lines[at])) > 1:
        return at
    end = at + 2
    while end < len(lines) and lines[end].strip() and _ROW.match(lines[end]):
        end += 1
    return end


def _table(lines: list[str]) -> list[str]:
    rows = [_cells(line) for line in (lines[0], *lines[2:])]
    columns = max(map(len, rows))
    rows = [row + [""] * (columns - len(row)) for row in rows]
    widths = [max(_width(row[i]) for row in rows) for i in range(columns)]
    if sum(widths) + 2 * columns > MOST_WIDE:
        return _spelled(rows)
    shown = [
        "  ".join(
            cell + " " * (width - _width(cell)) for cell, width in zip(row, widths, strict=True)
        ).rstrip()
        for row in rows
    ]
    return ["```", shown[0], "  ".join("-" * max(1, width) for width in widths), *shown[1:], "```"]


def _spelled(rows: list[list[str]]) -> list[str]:
    """A wide table, one row after the other: `Name: value`."""
    head = rows[0]
    return [
        "- "
        + "; ".join(
            _inline(f"**{name}**: {cell}" if name else cell) for name, cell in zip(head, row, strict=True)
        )
        for row in rows[1:]
    ] or [_inline(" ".join(head))]


def _cells(line: str) -> list[str]:
    inner = line.strip().removeprefix("|")
    if inner.endswith("|") and not inner.endswith("\\|"):
        inner = inner[:-1]
    return [cell.strip().replace("\\|", "|").replace("```", "'''") for cell in re.split(r"(?<!\\)\|", inner)]


def _width(text: str) -> int:
    return sum(
        2 if unicodedata.east_asian_width(c) in "WF" else 0 if unicodedata.combining(c) else 1 for c in text
    )
