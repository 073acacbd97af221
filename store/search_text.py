"""How text becomes what is searched for: words, and pairs of characters where no spaces part words. Pure.

The same folding and splitting is used for what is indexed and for what is asked, and
again on the text of each hit, to check phrases and to mark what was found.

- Case, accents and widths are folded: `Ångström`, `ANGSTROM` and `angstrom` are one word.
- A word is a run of letters and digits. Words are not stemmed: histories are in many
  languages and full of names and code, and a wrong stem finds nonsense. `deploy*`
  finds what begins so.
- Chinese, Japanese, Korean, Thai, Lao, Khmer and Burmese runs become overlapping pairs of
  characters, and the last character by itself: `東京都` gives `東京 京都 都`. The pairs of
  a run are searched as a phrase.
- A pictograph is a word.
"""

import re
import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

LONGEST_WORD = 128
"""In characters; longer ones (encoded files, keys) are known by their beginning."""

MOST_PARTS = 32
"""Of one search."""

_UNSPACED = (
    "\u0e00-\u0eff\u1000-\u109f\u1100-\u11ff\u1780-\u17ff"  # Thai, Lao, Burmese, jamo, Khmer
    "\u2e80-\u2fdf\u3005-\u3007\u3021-\u3029\u3031-\u3035\u3038-\u303b"  # radicals, iteration marks
    "\u3041-\u3096\u3099\u309a\u309d-\u309f\u30a1-\u30fa\u30fc-\u30ff"  # kana
    "\u3105-\u312f\u3131-\u318e\u31a0-\u31bf\u31f0-\u31ff"  # bopomofo, jamo
    "\u3400-\u4dbf\u4e00-\u9fff\ua960-\ua97f\uac00-\ud7ff\uf900-\ufaff"  # Han, Hangul
    "\U00020000-\U0003ffff"
)
_PICTOGRAPHS = "\u2600-\u27bf\U0001f000-\U0001faff"
_FOLDED_MARKS = re.compile(
    "[\u0300-\u036f\u0591-\u05bd\u05bf\u05c1\u05c2\u05c4\u05c5\u05c7\u0610-\u061a\u0640\u064b-\u065f\u0670]"
)
"""Accents of Latin, Greek and Cyrillic letters, Hebrew points, Arabic vowel signs and stretching."""

_LETTERS = str.maketrans(
    {
        "ø": "o",
        "ł": "l",
        "đ": "d",
        "ð": "d",
        "þ": "th",
        "æ": "ae",
        "œ": "oe",
        "ħ": "h",
        "\u0131": "i",
        "ŧ": "t",
    }
)


def _mark_ranges() -> str:
    """Return the combining marks of scripts with spaces as a character class: in Hindi they are letters."""
    return "".join(
        chr(code) for code in range(0x0300, 0x1E00) if unicodedata.category(chr(code)).startswith("M")
    )


_MARKS = _mark_ranges()
_ASCII_WORD = re.compile("[a-z0-9]+")
_TOKEN = re.compile(f"[{_UNSPACED}]+|(?:[^\\W_{_UNSPACED}]|[{_MARKS}])+|[{_PICTOGRAPHS}]")
_STARTS_RUN = re.compile(f"[{_UNSPACED}]")
_CLUSTER = re.compile(f".[{_MARKS}\u1160-\u11ff\u3099\u309a\uff9e\uff9f]*", re.DOTALL)
_QUOTES = str.maketrans({"“": '"', "”": '"', "„": '"', "\uff02": '"', "\uff0a": "*"})
_ASKED = re.compile(r'(-?)"([^"]*)"?|(-?)([^\s"]+)')


class SearchWordsError(ValueError):
    """There is nothing to search for; the text says what is missing."""


def fold(text: str) -> str:
    """Return the text without differences of case, accent, width and composition."""
    if text.isascii():
        return text.lower()
    apart = _FOLDED_MARKS.sub("", unicodedata.normalize("NFKD", text.casefold()))
    return unicodedata.normalize("NFKC", apart.casefold()).translate(_LETTERS)


def is_run(token: str) -> bool:
    """Return whether a token is of a script without spaces."""
    return _STARTS_RUN.match(token) is not None


def pairs(run: str) -> list[str]:
    """Return a run's overlapping pairs of characters."""
    return [run[at : at + 2] for at in range(len(run) - 1)]


def index_terms(text: str) -> str:
    """Return what is indexed of a text: terms with a space between them, in the text's order."""
    folded = fold(text)
    if folded.isascii():
        return " ".join([word[:LONGEST_WORD] for word in _ASCII_WORD.findall(folded)])
    terms: list[str] = []
    for token in _TOKEN.findall(folded):
        if is_run(token):
            terms.extend(pairs(token))
            terms.append(token[-1])
        else:
            terms.append(token[:LONGEST_WORD])
    return " ".join(terms)


# ------------------------------------------------------------------ what is asked


@dataclass(frozen=True, slots=True)
class Wanted:
    """One thing to find: tokens that follow each other."""

    tokens: tuple[str, ...]
    """Words, and whole runs of scripts without spaces."""
    begins: bool = False
    """The last token is a word's beginning."""
    quoted: bool = False
    """It was put in quotes: nothing less will do."""

    @property
    def units(self) -> tuple[str, ...]:
        """What must follow each other in the text: words, and single characters of runs."""
        return tuple(unit for token in self.tokens for unit in (token if is_run(token) else (token,)))


@dataclass(frozen=True, slots=True)
class Words:
    """What was asked, understood."""

    wanted: tuple[Wanted, ...]
    unwanted: tuple[Wanted, ...] = ()


def understand(asked: str) -> Words:
    """Read words, "phrases", -unwanted ones and begin*nings. Raises SearchWordsError."""
    wanted: dict[Wanted, None] = {}
    unwanted: dict[Wanted, None] = {}
    for not_phrase, phrase, not_word, word in _ASKED.findall(asked.translate(_QUOTES)):
        target = unwanted if not_phrase or not_word else wanted
        parts = _phrase(phrase) if phrase else _parts(word)
        target.update(dict.fromkeys(parts))
    if not wanted:
        only = " besides what is unwanted" if unwanted else ""
        raise SearchWordsError(f"there is no word to search for{only}")
    if len(wanted) + len(unwanted) > MOST_PARTS:
        raise SearchWordsError(f"at most {MOST_PARTS} words and phrases can be searched for at once")
    return Words(tuple(wanted), tuple(unwanted))


def loosened(words: Words) -> Words | None:
    """Return the question with longer runs taken apart, so that some of it may be found.

    None when every part was quoted: then there is nothing to loosen.
    """
    parts: dict[Wanted, None] = {}
    for part in words.wanted:
        if not part.quoted and len(part.tokens) == 1 and is_run(part.tokens[0]) and len(part.tokens[0]) > 2:
            parts.update(dict.fromkeys(Wanted((pair,)) for pair in pairs(part.tokens[0])))
        else:
            parts[part] = None
    loose = tuple(parts)[: 2 * MOST_PARTS]
    if all(part.quoted for part in loose) or len(loose) < 2:
        return None
    return Words(loose, words.unwanted)


def _phrase(text: str) -> Iterator[Wanted]:
    tokens = _tokens(text)
    if tokens:
        begins = text.rstrip().endswith("*") and not is_run(tokens[-1])
        yield Wanted(tokens, begins=begins, quoted=True)


def _parts(chunk: str) -> Iterator[Wanted]:
    """Split what was written without a space: runs stand for themselves, words stay together."""
    words: list[str] = []
    begins = chunk.endswith("*")
    for token in _tokens(chunk):
        if is_run(token):
            if words:
                yield Wanted(tuple(words))
                words = []
            yield Wanted((token,))
        else:
            words.append(token)
    if words:
        yield Wanted(tuple(words), begins=begins)


def _tokens(text: str) -> tuple[str, ...]:
    return tuple(
        token if is_run(token) else token[:LONGEST_WORD] for token in _TOKEN.findall(fold(text.strip("*")))
    )


# ------------------------------------------------------------------ what is found


class Unit(NamedTuple):
    """A word, or a character of a run, and where it stands in the text as it was written."""

    text: str
    start: int
    end: int


class Place(NamedTuple):
    """Where something that was asked stands in a text."""

    part: int
    start: int
    end: int


def units_of(text: str) -> list[Unit]:
    """Return a text's words and characters with their places."""
    if text.isascii():
        return [
            Unit(found[0][:LONGEST_WORD], found.start(), found.end())
            for found in _ASCII_WORD.finditer(text.lower())
        ]
    starts: list[int] = []
    pieces: list[str] = []
    for cluster in _CLUSTER.finditer(text):
        folded = fold(cluster[0])
        pieces.append(folded)
        starts.extend([cluster.start()] * len(folded))
    starts.append(len(text))
    ends = _ends(starts)
    units: list[Unit] = []
    for found in _TOKEN.finditer("".join(pieces)):
        if is_run(found[0]):
            units.extend(Unit(found[0][n], starts[at], ends[at]) for n, at in enumerate(range(*found.span())))
        else:
            units.append(Unit(found[0][:LONGEST_WORD], starts[found.start()], ends[found.end() - 1]))
    return units


def places(units: list[Unit], parts: tuple[Wanted, ...]) -> list[Place]:
    """Return where the parts stand in a text, in the text's order."""
    wanted = [(number, part.units, part.begins) for number, part in enumerate(parts)]
    by_first: dict[str, list[tuple[int, tuple[str, ...], bool]]] = {}
    beginnings = [entry for entry in wanted if entry[2] and len(entry[1]) == 1]
    for entry in wanted:
        if entry not in beginnings:
            by_first.setdefault(entry[1][0], []).append(entry)
    found: list[Place] = []
    for at, unit in enumerate(units):
        for number, sought, begins in (*by_first.get(unit.text, ()), *beginnings):
            if _stands_at(units, at, sought, begins):
                found.append(Place(number, unit.start, units[at + len(sought) - 1].end))
    return found


def _stands_at(units: list[Unit], at: int, sought: tuple[str, ...], begins: bool) -> bool:
    if at + len(sought) > len(units):
        return False
    *whole, last = sought
    if any(units[at + n].text != text for n, text in enumerate(whole)):
        return False
    there = units[at + len(sought) - 1].text
    return there.startswith(last) if begins else there == last


def _ends(starts: list[int]) -> list[int]:
    """Return for each folded character where its cluster ends: where the next one begins."""
    ends = [0] * (len(starts) - 1)
    following = starts[-1]
    for at in range(len(starts) - 2, -1, -1):
        if starts[at] != starts[at + 1]:
            following = starts[at + 1]
        ends[at] = following
    return ends
