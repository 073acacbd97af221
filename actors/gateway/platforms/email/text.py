"""What somebody wrote in a mail: without what they quote, and without their signature. Pure and total."""

import re
from html import unescape

LONGEST = 200_000
"""Characters of a mail's text that are looked at."""

_ATTRIBUTION_END = re.compile(r":\s*$")
_SEPARATOR = re.compile(
    r"^\s*(?:-{2,}|_{2,}|={2,})\s*"
    r"(?:original(?:\s|-)?(?:message|mail|nachricht)|urspr(?:ü|ue)ngliche\s+nachricht|message\s+d['\u2019]origine|"
    r"mensaje\s+original|messaggio\s+originale|mensagem\s+original|oorspronkelijk\s+bericht|"
    r"ursprungligt\s+meddelande|opprinnelig\s+melding|oprindelig\s+meddelelse|исходное\s+сообщение|"
    r"原始邮件|原始郵件|元のメッセージ|reply\s+message|antwort)"
    r"\s*(?:-{2,}|_{2,}|={2,})?\s*$",
    re.IGNORECASE,
)
_FROM = re.compile(
    r"^\s*\**(?:from|von|de|da|van|från|fra|от|od|发件人|寄件者|差出人)\**\s*[:\uff1a]\s*\**\s*\S",
    re.IGNORECASE,
)
_SENT = re.compile(
    r"^\s*\**(?:sent|date|gesendet|datum|envoyé|enviado(?:\s+el)?|fecha|data|inviato|verzonden|skickat|sendt|"
    r"dato|отправлено|дата|wysłano|发送时间|日期|寄件日期|送信日時|to|an|à|para|a|aan|till|til|кому|do|收件人|宛先)"
    r"\**\s*[:\uff1a]",
    re.IGNORECASE,
)
_LINE = re.compile(r"^\s*_{10,}\s*$")
_DEVICE = re.compile(
    r"^\s*(?:sent|get|gesendet|von\s+meinem|envoyé|enviado|inviato|verzonden|skickat|sendt)\b.{0,20}\b"
    r"(?:from|outlook|mit|von|depuis|de|desde|da|vanaf|från|fra)\b.{1,60}$",
    re.IGNORECASE,
)
_FORWARD_SUBJECT = re.compile(r"^\s*(?:fwd?|wg|tr|rv|i|enc|doorst|vs|vb|пересл)\s*:", re.IGNORECASE)
_FORWARDED = re.compile(
    r"^[ \t]*-{2,20}[ \t]*(?:forwarded|weitergeleitete|message\s+transféré|mensaje\s+reenviado|messaggio\s+inoltrato)",
    re.IGNORECASE | re.MULTILINE,
)
_QUOTED = re.compile(r"^\s{0,3}>")


def written(text: str, subject: str = "") -> str:
    """Return what is new in a mail's text. A forwarded mail stays whole: it is what is to be looked at."""
    text = text[:LONGEST].replace("\r\n", "\n").replace("\r", "\n").replace("\u00a0", " ")
    if _FORWARD_SUBJECT.search(subject) or _FORWARDED.search(text):
        return _tidied(text)
    lines = _without_history(text.split("\n"))
    lines = _without_quotes(lines)
    return _tidied("\n".join(_without_signature(lines))) or _tidied(text)


def _without_history(lines: list[str]) -> list[str]:
    """Cut where a mail program has put the whole earlier mail below."""
    for at, line in enumerate(lines):
        if _SEPARATOR.match(line):
            return lines[:at]
        if _FROM.match(line) and any(_SENT.match(each) for each in lines[at + 1 : at + 4]):
            start = at
            while start > 0 and (not lines[start - 1].strip() or _LINE.match(lines[start - 1])):
                start -= 1
            return lines[:start]
    return lines


def _without_quotes(lines: list[str]) -> list[str]:
    """Leave out one quotation above or below an answer. Answers between quotations keep them: they explain."""
    blocks = _quotations(lines)
    own = [bool(line.strip()) for line in lines]
    for start, end in blocks:
        own[start:end] = [False] * (end - start)
    if not any(own) or not blocks:
        return lines
    first, last = own.index(True), len(own) - 1 - own[::-1].index(True)
    between = [block for block in blocks if first < block[0] and block[1] <= last]
    return (
        lines[: last + 1]
        if between
        else [each for each, kept in zip(lines, own, strict=True) if kept or not each.strip()]
    )


def _quotations(lines: list[str]) -> list[tuple[int, int]]:
    """Where there are quotations, with the line that says whose they are."""
    blocks: list[tuple[int, int]] = []
    at = 0
    while at < len(lines):
        if not _QUOTED.match(lines[at]):
            at += 1
            continue
        end = at
        while end < len(lines) and (_QUOTED.match(lines[end]) or _blank_inside(lines, end)):
            end += 1
        blocks.append((_attribution(lines, at, blocks[-1][1] if blocks else 0), end))
        at = end
    return blocks


def _blank_inside(lines: list[str], at: int) -> bool:
    return not lines[at].strip() and at + 1 < len(lines) and bool(_QUOTED.match(lines[at + 1]))


def _attribution(lines: list[str], quote: int, least: int) -> int:
    """Where the line begins that ends in a colon before a quotation: `On Monday, Ann wrote:`."""
    at = quote - 1
    while at >= least and not lines[at].strip():
        at -= 1
    if at < least or not _ATTRIBUTION_END.search(lines[at]) or quote - at > 3:
        return quote
    # It may have been broken into two lines; only the beginnings of dates and addresses tell.
    if (
        at - 1 >= least
        and re.match(r"^\s*(?:on|am|le|el|il|op|den|em|w dniu)\b.{6,}", lines[at - 1], re.IGNORECASE)
        and not _ATTRIBUTION_END.search(lines[at - 1])
    ):
        return at - 1
    known = re.search(r"\d|@|wrote|schrieb|écrit|escribi|scritto|schreef|skrev|пишет|писал|写道", lines[at])
    return at if known else quote


def _without_signature(lines: list[str]) -> list[str]:
    for at, line in enumerate(lines):
        if line.rstrip("\n") in {"-- ", "--"} and at > 0 and len(lines) - at <= 30:
            lines = lines[:at]
            break
    end = len(lines)
    while end > 0 and not lines[end - 1].strip():
        end -= 1
    lines = lines[:end]
    if len(lines) > 1 and _DEVICE.match(lines[-1]) and not lines[-2].strip():
        lines = lines[:-1]
    return lines


def _tidied(text: str) -> str:
    return re.sub(r"\n[ \t]*\n(?:[ \t]*\n)+", "\n\n", text).strip()


# ------------------------------------------------------------------ HTML

_BLOCKS = {
    "p",
    "div",
    "tr",
    "table",
    "ul",
    "ol",
    "h1",
    "h2",
    "h3",
    "h4",
    "h5",
    "h6",
    "section",
    "article",
    "header",
    "footer",
    "pre",
}
_UNSEEN = {"script", "style", "head", "title", "template", "noscript", "svg", "object"}
_VOID = {"br", "img", "hr", "input", "meta", "link", "area", "base", "col", "embed", "source", "track", "wbr"}
_HIDDEN = re.compile(
    r"display\s*:\s*none|visibility\s*:\s*hidden|font-size\s*:\s*0(?![.\d]*[1-9])|mso-hide\s*:\s*all",
    re.IGNORECASE,
)
_HISTORY = {"divrplyfwdmsg", "appendonsend", "replysplit", "mail-editor-reference-message-container"}
_TAG = re.compile(r"(/?)([A-Za-z][\w:-]{0,60})")
_ATTRIBUTE = re.compile(r"\s(href|id|style|alt)\s*=\s*(\"[^\"]*\"|'[^']*'|[^\s\"'>]+)", re.IGNORECASE)
_DEEPEST = 200
_DECLARATION = re.compile(r"<[!?][^<>]{0,500}>")


class _ToText:
    """Writes the text that a reader sees; quotations get `> `, so that they are known again."""

    def __init__(self) -> None:
        self._lines: list[str] = [""]
        self._quotes = 0
        self._unseen: list[str] = []
        """Elements that are open and whose inside nobody sees; the first is what began it."""
        self._links: list[tuple[str, int]] = []
        self._pre = 0

    def feed(self, html: str) -> None:
        """Read a document in one pass: whatever stands between `<` and the next `>` is a tag."""
        first, *rest = html.split("<")
        self._data(first)
        for piece in rest:
            inside, closed, after = piece.partition(">")
            name = _TAG.match(inside)
            if not closed or name is None:
                self._data("<" + piece)
                continue
            if name[1]:
                self._ends(name[2].lower())
            else:
                self._begins(name[2].lower(), inside[name.end() : 4000])
            self._data(after)

    def _begins(self, tag: str, inside: str) -> None:
        given = {n.lower(): unescape(v.strip("\"'")) for n, v in _ATTRIBUTE.findall(inside)}
        if self._unseen:
            if tag not in _VOID and len(self._unseen) < _DEEPEST:
                self._unseen.append(tag)
            return
        hidden = _HIDDEN.search(given.get("style", "")) or re.search(r"\shidden(?=[\s/]|$)", inside)
        if tag not in _VOID and (tag in _UNSEEN or hidden):
            self._unseen.append(tag)
            return
        if given.get("id", "").lower() in _HISTORY:
            self._line()
            self._write("-----Original Message-----")
            self._line()
        match tag:
            case "br":
                self._break()
            case "hr":
                self._line()
            case "img":
                self._write(given.get("alt", ""))
            case "li":
                self._line()
                self._write("- ")
            case "a":
                self._links.append((given.get("href", ""), len(self._lines[-1])))
            case "blockquote":
                self._line()
                self._quotes += 1
                self._lines[-1] = "> " * min(self._quotes, 5)
            case "td" | "th":
                if self._lines[-1].strip("> "):
                    self._write(" ")
            case _ if tag in _BLOCKS:
                self._pre += tag == "pre"
                self._line()

    def _ends(self, tag: str) -> None:
        if self._unseen:
            if tag in self._unseen:
                while self._unseen.pop() != tag:
                    pass
            return
        match tag:
            case "a" if self._links:
                href, start = self._links.pop()
                label = self._lines[-1][start:].strip()
                if href.startswith(("http://", "https://")) and label and href.rstrip("/") not in label:
                    self._write(f" ({href[:500]})")
            case "blockquote":
                self._line()
                self._quotes = max(self._quotes - 1, 0)
                self._lines[-1] = "> " * min(self._quotes, 5)
            case "p":
                self._line()
                self._break()
            case _ if tag in _BLOCKS:
                self._pre = max(self._pre - (tag == "pre"), 0)
                self._line()

    def _data(self, data: str) -> None:
        if self._unseen or not data:
            return
        data = unescape(data)
        if self._pre:
            for number, line in enumerate(data.split("\n")):
                if number:
                    self._break()
                self._write(line)
            return
        text = re.sub(r"\s+", " ", data)
        if not self._lines[-1].strip("> "):
            text = text.lstrip()
        self._write(text)

    def _write(self, text: str) -> None:
        self._lines[-1] += text

    def _line(self) -> None:
        """Begin a new line, if this one has something."""
        if self._lines[-1].strip("> "):
            self._break()

    def _break(self) -> None:
        self._lines.append("> " * min(self._quotes, 5))

    def text(self) -> str:
        return "\n".join(line.rstrip() for line in self._lines)


def of_html(html: str) -> str:
    """Return the text of a mail's HTML, as its reader sees it."""
    reader = _ToText()
    reader.feed(_without_comments(html[: LONGEST * 2]))
    return _tidied(reader.text())


def _without_comments(html: str) -> str:
    kept, at = [], 0
    while (found := html.find("<!--", at)) >= 0:
        kept.append(html[at:found])
        end = html.find("-->", found + 4)
        if end < 0:
            return _DECLARATION.sub("", "".join(kept))
        at = end + 3
    kept.append(html[at:])
    return _DECLARATION.sub("", "".join(kept))
