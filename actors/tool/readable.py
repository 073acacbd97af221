"""A web page as readable text: headings, paragraphs, lists, links.

Reads any amount of any markup in linear time: a tag ends at the next `>`, a script
at its end tag, a comment at its end, and what does not end is left out.
"""

import html
import re
from urllib.parse import urljoin

_DROPPED = frozenset(
    {"script", "style", "noscript", "template", "svg", "title", "iframe", "object", "canvas"}
)
_BLOCKS = frozenset(
    [
        "address",
        "article",
        "aside",
        "blockquote",
        "dd",
        "details",
        "div",
        "dl",
        "dt",
        "fieldset",
        "figcaption",
        "figure",
        "footer",
        "form",
        "header",
        "hr",
        "main",
        "nav",
        "ol",
        "p",
        "pre",
        "section",
        "summary",
        "table",
        "tbody",
        "tfoot",
        "thead",
        "tr",
        "ul",
    ]
)
_HEADINGS = {f"h{level}": "#" * level + " " for level in range(1, 7)}
_TAG_NAME = re.compile(r"/?([a-zA-Z][a-zA-Z0-9]*)")
_HREF = re.compile(r"""\bhref\s*=\s*(?:"([^"]*)"|'([^']*)'|([^\s"'>]+))""", re.IGNORECASE)
_TITLE = re.compile(r"<title[^>]{0,200}>([^<]{1,1000})", re.IGNORECASE)
_SPACES = re.compile(r"[ \t\r\f\v\u00a0]+")
_BLANK_LINES = re.compile(r"\n{3,}")
_LONGEST_TAG = 4096


def readable(markup: str, base: str) -> str:
    """Return what a person would read of an HTML page. `base` makes its links whole."""
    reader = _Reader(base)
    reader.read(markup)
    title = _TITLE.search(markup, 0, 200_000)
    text = reader.text()
    if title and title[1].strip():
        return f"{html.unescape(title[1]).strip()}\n\n{text}"
    return text


class _Reader:
    def __init__(self, base: str) -> None:
        self._base = base
        self._parts: list[str] = []
        self._link: tuple[str, int] | None = None
        self._preformatted = 0

    def read(self, markup: str) -> None:
        at = 0
        while True:
            start = markup.find("<", at)
            if start < 0:
                self._say(markup[at:])
                return
            self._say(markup[at:start])
            at = self._markup(markup, start)
            if at < 0:
                return

    def text(self) -> str:
        lines = (line.strip(" ") if line.strip() else "" for line in "".join(self._parts).split("\n"))
        return _BLANK_LINES.sub("\n\n", "\n".join(lines)).strip()

    def _markup(self, markup: str, start: int) -> int:
        """Read what begins at `<`; return where it ends, or -1 when it does not."""
        if markup.startswith("<!--", start):
            end = markup.find("-->", start + 4)
            return end + 3 if end >= 0 else -1
        name = _TAG_NAME.match(markup, start + 1)
        if name is None and markup[start + 1 : start + 2] not in {"!", "?", "/"}:
            self._say("<")
            return start + 1
        end = markup.find(">", start)
        if end < 0:
            return -1
        if name is None:
            return end + 1
        tag, closing = name[1].lower(), name[0].startswith("/")
        if tag in _DROPPED and not closing:
            return self._after(markup, tag, end)
        self._tag(tag, closing, markup[name.end() : min(end, name.end() + _LONGEST_TAG)])
        return end + 1

    @staticmethod
    def _after(markup: str, tag: str, end: int) -> int:
        """Return where an element that is not shown ends; an empty one ends at once."""
        if markup[end - 1] == "/":
            return end + 1
        found = re.compile(rf"</{tag}\b", re.IGNORECASE).search(markup, end)
        if found is None:
            return -1
        close = markup.find(">", found.end())
        return close + 1 if close >= 0 else -1

    def _tag(self, tag: str, closing: bool, attributes: str) -> None:
        if tag == "a":
            self._anchor(closing, attributes)
        elif tag == "br":
            self._parts.append("\n")
        elif tag == "li":
            self._parts.append("\n" if closing else "\n- ")
        elif tag in {"td", "th"} and closing:
            self._parts.append(" | ")
        elif tag in _HEADINGS:
            self._parts.append("\n\n" if closing else "\n\n" + _HEADINGS[tag])
        elif tag in _BLOCKS:
            self._parts.append("\n\n" if tag == "p" else "\n")
            if tag == "pre":
                self._preformatted = max(self._preformatted + (-1 if closing else 1), 0)

    def _anchor(self, closing: bool, attributes: str) -> None:
        if not closing:
            href = _HREF.search(attributes)
            self._link = (next(filter(None, href.groups()), ""), len(self._parts)) if href else None
            return
        if self._link is None:
            return
        href_text, since = self._link
        self._link = None
        if not "".join(self._parts[since:]).strip() or href_text.startswith("#"):
            return
        try:
            target = urljoin(self._base, html.unescape(href_text).strip())
        except ValueError:
            return
        if target.startswith(("http://", "https://")):
            self._parts.append(f" ({target})")

    def _say(self, text: str) -> None:
        if not text:
            return
        text = html.unescape(text)
        self._parts.append(text if self._preformatted else _SPACES.sub(" ", text.replace("\n", " ")))
