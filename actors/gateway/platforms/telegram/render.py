"""From Markdown to Telegram's text with entities. Pure, and never fails: what is odd stays as it is.

Entities are places in the text, counted in UTF-16, with what they are. Nothing is escaped,
so nothing can be escaped wrongly, and the length that counts for Telegram (that of the
text without marks) is known exactly.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import mistune

from actors.gateway.chunks import Unit, measure
from actors.gateway.markup import narrowed

Json = dict[str, Any]

MOST_ENTITIES = 100
"""Telegram passes over what comes after these."""
LONGEST_LANGUAGE = 40
DEEPEST = 40
WIDEST = 40
"""Cells of a table are filled up to so many characters."""
RULE = "———"

_LINK = re.compile(r"(?:https?://[^\s/]|mailto:\S+@|tel:\+?\d)", re.IGNORECASE)
_INLINE = {"strong": "bold", "emphasis": "italic", "strikethrough": "strikethrough"}


@dataclass(frozen=True, slots=True)
class Rendered:
    """What is sent."""

    text: str
    entities: tuple[Json, ...] = ()


def _parser() -> Callable[[str], Any]:
    markdown = mistune.create_markdown(renderer=None, plugins=["strikethrough", "table", "task_lists"])
    # Definitions of links would vanish, and a line that is indented is seldom meant as code.
    for rule in ("ref_link", "indent_code"):
        markdown.block.rules.remove(rule)
    return markdown


_PARSE = _parser()


def render(text: str) -> Rendered:
    """Render a whole post."""
    try:
        tokens = _PARSE(narrowed(text))
        writer = _Writer()
        writer.blocks(tokens if isinstance(tokens, list) else [])
        rendered = writer.finished()
    except (RecursionError, ValueError, KeyError, TypeError, AttributeError, IndexError):
        return Rendered(text)  # no shape of a text may keep it from being posted
    return rendered if rendered.text.strip() else Rendered(text)


def shown(text: str) -> str:
    """Return what people see of a post: its length is what Telegram counts."""
    return render(text).text


class _Writer:
    """Writes the text, and notes where what begins and ends."""

    def __init__(self) -> None:
        self._parts: list[str] = []
        self._at = 0
        """In UTF-16 units."""
        self._entities: list[Json] = []
        self._depth = 0

    def finished(self) -> Rendered:
        text = "".join(self._parts)
        kept = text.rstrip()
        size = measure(kept, Unit.UTF16)
        entities = []
        for entity in sorted(self._entities, key=lambda e: (e["offset"], -e["length"])):
            length = min(entity["length"], size - entity["offset"])
            if length > 0:
                entities.append({**entity, "length": length})
        return Rendered(kept, tuple(entities[:MOST_ENTITIES]))

    def _write(self, text: str) -> None:
        self._parts.append(text)
        self._at += measure(text, Unit.UTF16)

    def _marked(self, kind: str, write: Callable[[], None], **more: Any) -> None:
        start = self._at
        write()
        if self._at > start:
            self._entities.append({"type": kind, "offset": start, "length": self._at - start, **more})

    # ------------------------------------------------------------------ blocks

    def blocks(self, tokens: list[Json], *, tight: bool = False) -> None:
        self._depth += 1
        if self._depth > DEEPEST:
            raise RecursionError
        first = True
        for token in tokens:
            if token["type"] == "blank_line":
                continue
            if not first:
                self._write("\n" if tight else "\n\n")
            first = False
            self._block(token)
        self._depth -= 1

    def _block(self, token: Json) -> None:
        match token["type"]:
            case "paragraph" | "block_text":
                self._inline(token["children"])
            case "heading":
                self._marked("bold", lambda: self._inline(token["children"], bold=True))
            case "block_code":
                self._code(token)
            case "block_quote":
                self._quote(token)
            case "list":
                self._list(token)
            case "thematic_break":
                self._write(RULE)
            case "table":
                self._table(token)
            case _:
                self._write(str(token.get("raw", "")).rstrip("\n"))

    def _code(self, token: Json) -> None:
        info = str((token.get("attrs") or {}).get("info") or "").split(maxsplit=1)
        language = re.sub(r"[^\w+#.-].*", "", info[0])[:LONGEST_LANGUAGE] if info else ""
        more = {"language": language} if language else {}
        code = str(token["raw"]).rstrip("\n") or " "
        self._marked("pre", lambda: self._write(code), **more)

    def _quote(self, token: Json) -> None:
        if any(entity.get("open") for entity in self._entities):
            self.blocks(token["children"])  # Telegram has no quotes inside of quotes
            return
        start, mark = self._at, {"type": "blockquote", "offset": self._at, "length": 0, "open": True}
        self._entities.append(mark)
        self.blocks(token["children"])
        del mark["open"]
        mark["length"] = self._at - start

    def _list(self, token: Json) -> None:
        attributes = token.get("attrs") or {}
        number, indent = int(attributes.get("start") or 1), "  " * int(attributes.get("depth") or 0)
        for place, item in enumerate(token["children"]):
            if place:
                self._write("\n" if token.get("tight", True) else "\n\n")
            mark = f"{number + place}. " if attributes.get("ordered") else "• "
            if item["type"] == "task_list_item":
                mark = "☑ " if (item.get("attrs") or {}).get("checked") else "☐ "
            self._write(indent + mark)
            self.blocks(item["children"], tight=True)

    def _table(self, token: Json) -> None:
        rows = [
            [_plain(cell["children"]) for cell in row["children"]]
            for part in token["children"]
            for row in ([part] if part["type"] == "table_head" else part["children"])
        ]
        most = max(map(len, rows), default=0)
        widths = [max((len(row[n]) for row in rows if n < len(row)), default=0) for n in range(most)]
        lines = [
            " | ".join(
                cell.ljust(min(width, WIDEST)) for cell, width in zip(row, widths, strict=False)
            ).rstrip()
            for row in rows
        ]
        lines.insert(1, "-+-".join("-" * min(width, WIDEST) for width in widths))
        self._marked("pre", lambda: self._write("\n".join(lines)))

    # ------------------------------------------------------------------ lines

    def _inline(self, tokens: list[Json], *, bold: bool = False) -> None:
        self._depth += 1
        if self._depth > DEEPEST:
            raise RecursionError
        for token in tokens:
            self._word(token, bold=bold)
        self._depth -= 1

    def _word(self, token: Json, *, bold: bool) -> None:
        kind = token["type"]
        match kind:
            case "strong" if bold:
                self._inline(token["children"], bold=True)
            case "strong" | "emphasis" | "strikethrough":
                self._marked(
                    _INLINE[kind], lambda: self._inline(token["children"], bold=bold or kind == "strong")
                )
            case "codespan":
                self._marked("code", lambda: self._write(token["raw"]))
            case "linebreak" | "softbreak":
                self._write("\n")
            case "link":
                self._link(token, bold=bold)
            case "image":
                self._write(f"{_plain(token['children'])} ({token['attrs']['url']})".strip())
            case _:
                self._write(str(token.get("raw", "")))

    def _link(self, token: Json, *, bold: bool) -> None:
        url, label = str(token["attrs"]["url"]), _plain(token["children"])
        if not _LINK.match(url):
            # An address of Telegram's own could mention people, or do something.
            self._inline(token["children"], bold=bold)
            self._write("" if url == label else f" ({url})")
        elif url in (label, f"mailto:{label}"):
            self._write(label)
        else:
            self._marked("text_link", lambda: self._inline(token["children"], bold=bold), url=url)


def _plain(tokens: list[Json]) -> str:
    return "".join(
        " "
        if token["type"] in ("softbreak", "linebreak")
        else _plain(token["children"])
        if "children" in token
        else str(token.get("raw", ""))
        for token in tokens
    )
