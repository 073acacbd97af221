"""Keeping secrets out of what leaves: logs, chats, model requests, the store.

Two kinds of secret are known. Registered values (keys from the settings, the
server's token, secrets of the environment) are found in every form in which
they usually travel: plain, base64 at each alignment and in both alphabets,
percent-encoded in any mixture, hexadecimal, escaped for JSON or HTML, and broken
by line ends. Values nobody registered are found by the shape of well-known keys.

Nothing here touches arguments of tools that are executed: cleaning is for copies
that leave, and is called at the borders.
"""

import base64
import html
import json
import re
from collections.abc import Callable, Iterable
from typing import Final
from urllib.parse import quote, quote_plus

MASK: Final = "***"

SHORTEST: Final = 6
"""Characters. A shorter value is not registered: masking it would damage ordinary text."""

_KEEP_FROM: Final = 16
"""Values of at least so many characters keep their last four, so that an operator can tell them apart."""

_HELD_AT_MOST: Final = 8192
"""Characters that a stream may hold back for an open-ended shape, such as a private key."""

Span = tuple[int, int, str]
"""Where a secret is (start, end), and what stands there instead."""


def mask(secret: str) -> str:
    """Return what is shown instead of a secret: at most its last four characters."""
    return f"{MASK}{secret[-4:]}" if len(secret) >= _KEEP_FROM else MASK


# ------------------------------------------------------------------ the shapes of well-known keys


class _Shape:
    """A family of keys: `marker` is searched first, because that is cheap."""

    def __init__(self, marker: str, pattern: str, *, keeps_end: bool = True) -> None:
        self.marker = marker
        self.pattern = re.compile(pattern)
        self._keeps_end = keeps_end

    def mask(self, secret: str) -> str:
        return mask(secret) if self._keeps_end else MASK


_EDGE = r"(?<![A-Za-z0-9])"
_HAS_DIGIT = r"(?=[^\s\d]{0,200}\d)"

_IN_QUERY: Final = (
    r"[?&](?:api[_-]?key|key|token|access_token|refresh_token|client_secret|secret|password|sig|ticket)="
    r"(?P<s>[^\s&#'\"<>*]{8,})"
)
_IN_ENVIRONMENT: Final = (
    r"(?:^|(?<=[\s'\"]))(?:[A-Z][A-Z0-9_]*_)?(?:API_?KEY|KEY|TOKEN|SECRET|PASSWORD|PASSWD)="
    r"['\"]?(?P<s>[^\s'\"*$]{8,})"
)

_OF_TELEGRAM: Final = (
    r"(?<![0-9A-Za-z])(?:bot)?(?P<s>[0-9]{6,12}(?::|%3[Aa])AA[A-Za-z0-9_\-]{30,35})(?![A-Za-z0-9_\-])"
)

_SHAPES: Final = (
    _Shape("sk-", _EDGE + r"(?P<s>sk-" + _HAS_DIGIT + r"[A-Za-z0-9_\-]{16,})"),
    _Shape("k_live_", _EDGE + r"(?P<s>[sr]k_live_[A-Za-z0-9]{12,})"),
    _Shape("k_test_", _EDGE + r"(?P<s>[sr]k_test_[A-Za-z0-9]{12,})"),
    _Shape("xox", _EDGE + r"(?P<s>xox[a-z]-[A-Za-z0-9\-]{10,})"),
    _Shape("xapp-", _EDGE + r"(?P<s>xapp-[A-Za-z0-9\-]{10,})"),
    _Shape("gh", _EDGE + r"(?P<s>gh[opsur]_[A-Za-z0-9]{16,})"),
    _Shape("github_pat_", _EDGE + r"(?P<s>github_pat_[A-Za-z0-9_]{16,})"),
    _Shape("glpat-", _EDGE + r"(?P<s>glpat-[A-Za-z0-9_\-]{16,})"),
    _Shape("AKIA", _EDGE + r"(?P<s>AKIA[A-Z0-9]{16})(?![A-Za-z0-9])"),
    _Shape("ASIA", _EDGE + r"(?P<s>ASIA[A-Z0-9]{16})(?![A-Za-z0-9])"),
    _Shape("AIza", _EDGE + r"(?P<s>AIza[A-Za-z0-9_\-]{30,})"),
    _Shape("hf_", _EDGE + r"(?P<s>hf_[A-Za-z0-9]{20,})"),
    _Shape("gsk_", _EDGE + r"(?P<s>gsk_[A-Za-z0-9]{20,})"),
    _Shape("npm_", _EDGE + r"(?P<s>npm_[A-Za-z0-9]{30,})"),
    _Shape("pypi-", _EDGE + r"(?P<s>pypi-[A-Za-z0-9_\-]{30,})"),
    _Shape("xai-", _EDGE + r"(?P<s>xai-[A-Za-z0-9]{20,})"),
    _Shape("eyJ", _EDGE + r"(?P<s>eyJ[A-Za-z0-9_\-]{6,}\.[A-Za-z0-9_\-]{6,}(?:\.[A-Za-z0-9_\-]*)?)"),
    _Shape("earer", r"[Bb]earer\s{1,4}(?P<s>" + _HAS_DIGIT + r"[A-Za-z0-9._~+/\-]{12,}=*)"),
    _Shape("EARER", r"BEARER\s{1,4}(?P<s>" + _HAS_DIGIT + r"[A-Za-z0-9._~+/\-]{12,}=*)"),
    _Shape("asic ", r"[Bb]asic (?P<s>" + _HAS_DIGIT + r"[A-Za-z0-9+/]{12,}={0,2})(?![A-Za-z0-9+/])"),
    # A password may hold a bare @ as well: programs take the last one before the path.
    _Shape("://", r"://(?P<s>[^\s/@:'\"<>*]*:[^\s/?#'\"<>]+)@"),
    _Shape("://", r"://(?P<s>(?=[^\s/@:]{0,200}\d)[A-Za-z0-9_.~%\-]{20,})@"),
    _Shape(
        "hooks.slack.com/", r"hooks\.slack\.com/(?:services|workflows|triggers)/(?P<s>[A-Za-z0-9/_\-]{16,})"
    ),
    _Shape("/webhooks/", r"/webhooks/[0-9]{15,22}/(?P<s>[A-Za-z0-9_\-]{30,})"),
    _Shape("whsec_", _EDGE + r"(?P<s>whsec_[A-Za-z0-9+/=_\-]{16,})"),
    _Shape("syt_", _EDGE + r"(?P<s>syt_[A-Za-z0-9+/=_\-]{16,})"),
    *(_Shape(marker, _IN_QUERY) for marker in ("key=", "token=", "secret=", "password=", "sig=", "ticket=")),
    *(_Shape(marker, _IN_ENVIRONMENT) for marker in ("KEY=", "TOKEN=", "SECRET=", "PASSWORD=", "PASSWD=")),
    *(_Shape(marker, _OF_TELEGRAM) for marker in (":AA", "%3AAA", "%3aAA")),
    _Shape(
        ".",
        r"(?P<s>[MNO](?<![A-Za-z0-9_\-.].)[TjzD][A-Za-z0-9_\-]{22,26}\.[A-Za-z0-9_\-]{6}\.[A-Za-z0-9_\-]{27,})",
    ),
    _Shape(
        "PRIVATE KEY-----",
        r"(?P<s>-----BEGIN [A-Z ]{0,30}PRIVATE KEY-----(?:(?!-----END)[\s\S])*(?:-----END[A-Z ]{0,40}-----)?)",
        keeps_end=False,
    ),
)

_OPEN: Final = re.compile(
    r"""(?:
      (?<![A-Za-z0-9])(?:
          (?:sk-|[sr]k_live_|[sr]k_test_|xox[a-z]-|xapp-|gh[opsur]_|github_pat_|glpat-|hf_|gsk_|npm_|pypi-|xai-
             |A[KS]IA|AIza|eyJ|whsec_|syt_)[A-Za-z0-9_.+/=\-]*
        | s|sk|[sr]k_[a-z_]{0,5}|x|xo|xox[a-z]?|xa|xap|xapp|xai|g|gh|gh[opsur]|gi[thub_pat]{0,9}|gl[pat]{0,3}
        | h|hf|gs|gsk|n|np|npm|p|py|pyp|pypi|A|A[KS]I?|AI|AIz|e|ey|w|wh|whs|whse|whsec|s[yk]|syt
        | hoo?|hook[s.lackom]{0,12}(?:/[A-Za-z0-9/_\-]*)?
        | b(?:o(?:t(?:[0-9]{1,12}(?:(?::|%3[Aa])[A-Za-z0-9_\-]{0,35})?)?)?)?
        | [Bb](?:e(?:a(?:r(?:e(?:r(?:\s{1,4}[A-Za-z0-9._~+/=\-]*)?)?)?)?)?)?
        | B(?:E(?:A(?:R(?:E(?:R(?:\s{1,4}[A-Za-z0-9._~+/=\-]*)?)?)?)?)?)?
        | [Bb]a(?:s(?:i(?:c(?:\s[A-Za-z0-9+/=]*)?)?)?)?
        | [A-Z][A-Z0-9_]*(?:=['"]?[^\s'"]*)?
        | [0-9]{1,12}(?:(?::|%(?:3[Aa]?)?)(?:(?<=[:Aa])[A-Za-z0-9_\-]{0,35})?)?
        | [MNO](?:[TjzD][A-Za-z0-9_\-]{0,26})?(?:\.[A-Za-z0-9_\-]*){0,2}
      )
      | /(?:w(?:e(?:b(?:h(?:o(?:o(?:k(?:s(?:/(?:[0-9]{1,22}(?:/[A-Za-z0-9_\-]*)?)?)?)?)?)?)?)?)?)?)?
      | :(?:/(?:/[^\s/?#'"<>]*)?)?
      | [?&][A-Za-z_\-]{0,16}(?:=[^\s&#'"<>]*)?
      | -----BEGIN\ [A-Z\ ]{0,30}PRIVATE\ KEY-----(?:(?!-----END[A-Z\ ]{0,40}-----)[\s\S])*
      | -{1,5}(?:[A-Z][A-Z\ ]{0,48}-{0,4})?
    )\Z""",
    re.VERBOSE,
)
"""The end of a text that may be the beginning of one of the shapes."""


# ------------------------------------------------------------------ registered values


def _aligned_base64(raw: bytes) -> set[str]:
    """Return what base64 of any text around `raw` must contain, for each of the three alignments."""
    forms = set()
    for before in range(3):
        encoded = base64.b64encode(b"\0" * before + raw).decode("ascii")
        first = -(-before * 8 // 6)
        last = (before + len(raw)) * 8 // 6
        core = encoded[first:last]
        forms |= {core, core.replace("+", "-").replace("/", "_")}
    return forms


def _forms(secret: str) -> set[str]:
    """Return the encodings in which a secret is searched, besides the plain one."""
    raw = secret.encode("utf-8", "surrogatepass")
    encoded = {
        quote(secret, safe="", errors="replace"),
        quote_plus(secret, errors="replace"),
        json.dumps(secret)[1:-1],
        json.dumps(secret, ensure_ascii=False)[1:-1],
        json.dumps(json.dumps(secret)[1:-1])[1:-1],
        repr(secret)[1:-1],
        html.escape(secret),
        raw.hex(),
        raw.hex().upper(),
    }
    return encoded | _aligned_base64(raw)


_PERCENT = re.compile(r"(?:%[0-9A-Fa-f]{2})+")


class _View:
    """A text as it reads after decoding, with the place in the raw text of every character."""

    def __init__(self, text: str, places: list[int], after: int) -> None:
        self.text = text
        self.places = places
        self._after = after
        """Where the raw text ends."""

    def place(self, index: int) -> int:
        """Return where a character begins in the raw text; the raw text's end for the one after the last."""
        return self.places[index] if index < len(self.places) else self._after


def _without_line_ends(text: str) -> _View:
    places = [place for place, char in enumerate(text) if char not in "\r\n"]
    return _View("".join(text[place] for place in places), places, len(text))


def _as_bytes(text: str) -> str:
    """Return UTF-8 as one character per byte: a percent sign stands for a byte, not for a character."""
    return text.encode("utf-8", "surrogatepass").decode("latin-1")


def _percent_decoded(text: str) -> _View:
    parts: list[str] = []
    places: list[int] = []

    def keep(start: int, end: int) -> None:
        for place in range(start, end):
            piece = _as_bytes(text[place])
            parts.append(piece)
            places.extend([place] * len(piece))

    at = 0
    for found in _PERCENT.finditer(text):
        keep(at, found.start())
        parts.append(bytes.fromhex(found[0].replace("%", "")).decode("latin-1"))
        places.extend(range(found.start(), found.end(), 3))
        at = found.end()
    keep(at, len(text))
    return _View("".join(parts), places, len(text))


_SKIP_LINE = ("-----BEGIN", "-----END")


class Redactor:
    """Masks secrets in text. One for the process; may be used from any thread."""

    def __init__(self, secrets: Iterable[str] = ()) -> None:
        self._plain: tuple[str, ...] = ()
        self._bytes: tuple[str, ...] = ()
        self._needles: tuple[str, ...] = ()
        self._longest = 0
        self._starts: frozenset[str] = frozenset()
        """Every proper beginning of a needle: what a stream must hold back."""
        for secret in secrets:
            self.register(secret)

    def register(self, secret: str) -> bool:
        """Mask this value from now on, in all its forms. Returns False when it is too short to be masked.

        Each long line of a value of several lines is registered too.
        """
        secret = secret.strip()
        if len(secret) < SHORTEST:
            return False
        lines = [line.strip() for line in secret.splitlines()] if "\n" in secret else []
        whole = {
            secret,
            *(line for line in lines if len(line) >= _KEEP_FROM and not line.startswith(_SKIP_LINE)),
        }
        plain = set(self._plain) | whole
        needles = set(self._needles)
        for value in whole:
            needles |= {form.replace("\n", "").replace("\r", "") for form in {value} | _forms(value)}
        self._plain = tuple(sorted(plain, key=len, reverse=True))
        self._bytes = tuple(_as_bytes(value) for value in self._plain)
        self._needles = tuple(sorted(needles, key=len, reverse=True))
        self._longest = max(map(len, self._needles))
        self._starts = frozenset(
            needle[:n] for needle in (*self._needles, *self._bytes) for n in range(1, len(needle))
        )
        return True

    def clean(self, text: str) -> str:
        """Return the text with every known secret masked; the same object when there is none."""
        while spans := self._spans(text):
            text = _masked(text, spans)
        return text

    def stream(self) -> "StreamCleaner":
        """Return a cleaner for one text that arrives in pieces."""
        return StreamCleaner(self)

    # What follows is for StreamCleaner too.

    def _spans(self, text: str) -> list[Span]:
        spans: list[Span] = []
        if self._plain:
            joined = text.replace("\n", "").replace("\r", "") if "\n" in text or "\r" in text else text
            if [needle for needle in self._needles if needle in joined]:
                for needle in self._needles:
                    spans.extend(_places(needle, text, mask(needle) if needle in self._plain else MASK))
                if joined is not text:
                    spans.extend(self._in_view(_without_line_ends(text), self._needles))
            if "%" in text and _PERCENT.search(text):
                spans.extend(self._in_view(_percent_decoded(text), self._bytes))
        for shape in _SHAPES:
            if shape.marker in text:
                spans.extend(
                    (found.start("s"), found.end("s"), shape.mask(found["s"]))
                    for found in shape.pattern.finditer(text)
                    if not found["s"].startswith(MASK)
                )
        return spans

    @staticmethod
    def _in_view(view: _View, needles: tuple[str, ...]) -> list[Span]:
        return [
            (view.place(start), view.place(end), MASK)
            for needle in needles
            if needle in view.text
            for start, end, _ in _places(needle, view.text, MASK)
        ]

    def _open_from(self, text: str) -> int:
        """Return where an unfinished secret may begin at the end of a text; its length when there is none."""
        opened = [len(text)]
        if found := _OPEN.search(text, max(0, len(text) - _HELD_AT_MOST)):
            opened.append(found.start())
        if self._plain:
            window = max(0, len(text) - 6 * self._longest)
            tail = text[window:]
            opened.append(window + self._beginning(_View(tail, [*range(len(tail))], len(tail))))
            if "%" in tail:
                cut = re.search(r"%[0-9A-Fa-f]?\Z", tail)
                opened.append(
                    window + self._beginning(_percent_decoded(tail[: cut.start()] if cut else tail))
                )
            if "\n" in tail or "\r" in tail:
                opened.append(window + self._beginning(_without_line_ends(tail)))
        return min(opened)

    def _beginning(self, view: _View) -> int:
        starts, text = self._starts, view.text
        for start in range(max(0, len(text) - self._longest + 1), len(text)):
            if text[start:] in starts:
                return view.place(start)
        return view.place(len(text))


def _places(needle: str, text: str, shown: str) -> list[Span]:
    """Return every place of a needle, overlapping ones too."""
    found = []
    at = text.find(needle)
    while at >= 0:
        found.append((at, at + len(needle), shown))
        at = text.find(needle, at + 1)
    return found


def _merged(spans: list[Span]) -> list[Span]:
    """Join spans that overlap; of spans that lie within one another the widest says what is shown."""
    merged: list[Span] = []
    for start, end, shown in sorted(spans, key=lambda span: (span[0], -span[1])):
        if merged and start < merged[-1][1]:
            last = merged[-1]
            merged[-1] = last if end <= last[1] else (last[0], end, MASK)
        else:
            merged.append((start, end, shown))
    return merged


def _masked(text: str, spans: list[Span]) -> str:
    parts = []
    at = 0
    for start, end, shown in _merged(spans):
        parts += [text[at:start], shown]
        at = end
    parts.append(text[at:])
    return "".join(parts)


class StreamCleaner:
    """Cleans one text that arrives in pieces: a secret split over pieces is masked all the same.

    Only what may be the beginning of a secret is held back; `flush` gives the rest.
    """

    def __init__(self, redactor: Redactor) -> None:
        self._redactor = redactor
        self._held = ""
        self._before = ""
        """The last raw character given out: whether a word begins here depends on it."""

    def feed(self, piece: str) -> str:
        """Take a piece; return what can be shown now, clean."""
        raw = self._held + piece
        if not raw:
            return ""
        ready = self._ready(raw)
        self._held = raw[ready:]
        if not ready:
            return ""
        self._before = raw[ready - 1]
        return self._redactor.clean(raw[:ready])

    def flush(self) -> str:
        """Return what was held back, clean; the text has ended."""
        rest, self._held, self._before = self._held, "", ""
        return self._redactor.clean(rest)

    def _ready(self, raw: str) -> int:
        """Return how much of the raw text no secret can reach across."""
        redactor = self._redactor
        context = len(self._before)
        ready = max(0, redactor._open_from(self._before + raw) - context)  # noqa: SLF001 one room
        spans = _merged(redactor._spans(raw))  # noqa: SLF001 one room
        for start, end, _ in reversed(spans):
            if start < ready < end:
                ready = start
        if len(raw) - ready > max(_HELD_AT_MOST, 6 * redactor._longest):  # noqa: SLF001 one room
            return len(raw)
        return ready


Clean = Callable[[str], str]
"""What a border is given: text in, clean text out."""
