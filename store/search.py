"""The full-text index over the messages, in a folder of its own. Derived: it can be thrown away at any time.

Each message is one document; one more, the mark, says up to which fact the journal was
read, and is replaced in the same commit as the documents. So after a crash the index
is where its last commit was, and goes on from there. The folder's name carries the
version of all this: an index of another version is not read but made anew.

All methods block. `add`, `forget` and `commit` are for one thread; `search` may be
called from another at the same time.
"""

import contextlib
import json
import shutil
from collections.abc import Collection, Iterable, Iterator, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Self

import structlog
import tantivy

from messages.ids import SessionKey
from messages.search import SearchAsked, SearchFound, SearchHit
from store.search_entry import Entry, SearchIndexDamagedError, SearchIndexError, erase, path_of
from store.search_query import Fields, filters, matching
from store.search_snippet import snippet
from store.search_text import Place, Words, fold, index_terms, loosened, places, understand, units_of

log = structlog.get_logger(__name__)

WRITER_BYTES = 15_000_000
"""What tantivy asks for at least; it is taken as it is used, and given back by `rest`."""

_MARK = "mark"
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_SNIPPET = 160
_READ_OF_A_HIT = 200_000
"""Characters of a found message that are looked at to check and mark it; beyond, the index is believed."""

_EXAMINED = 1_000
"""Candidates of one search that are checked against their text at most."""


class SearchIndex:
    """One open index."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._fields = Fields()
        self._index = _opened(path, self._fields)
        self._writer: Any = None
        self._searcher: Any = self._index.searcher()
        self.last_id = self._read_mark()
        """The journal was read up to this fact."""
        self._reached = self.last_id
        self._pending = False

    @classmethod
    def open(cls, folder: Path) -> Self:
        """Open the index of this version in `folder`, or make an empty one.

        Indexes of other versions and a damaged one are removed. Raises SearchIndexError.
        """
        path = path_of(folder)
        for other in folder.glob("messages-*"):
            if other != path:
                shutil.rmtree(other, ignore_errors=True)
        try:
            return cls(path)
        except SearchIndexDamagedError as error:
            log.warning("the search index is damaged and is made anew", path=str(path), error=str(error))
            erase(folder)
            return cls(path)

    @property
    def documents(self) -> int:
        """How many messages can be found now."""
        return max(0, int(self._searcher.num_docs) - 1)

    @property
    def reached(self) -> int:
        """The journal was read up to this fact; what was added since `last_id` is not committed yet."""
        return self._reached

    # ---------------------------------------------------------------- writing

    def add(self, entries: Iterable[Entry], reached: int) -> None:
        """Take messages in, none of which is in yet; `reached` is the fact up to which the journal was read."""
        with _tantivy_fails():
            for entry in entries:
                self._writing().add_document(_document(entry))
        self._reached = max(self._reached, reached)

    def forget(self, session_key: SessionKey) -> None:
        """Take all messages of a session out; they can be found no more after the next commit."""
        with _tantivy_fails():
            self._writing().delete_documents_by_term("session", str(session_key))

    def commit(self) -> None:
        """Let everything that was added and forgotten take effect, durably, together. Raises SearchIndexError."""
        if not self._pending:
            return
        with _tantivy_fails():
            self._writer.delete_documents_by_term("mark", _MARK)
            self._writer.add_document(_mark(self._reached))
            self._writer.commit()
            self._index.reload()
            self._searcher = self._index.searcher()
        self.last_id = self._reached
        self._pending = False

    def rest(self) -> None:
        """Give back what writing takes, when merges have ended. What was not committed is lost."""
        writer = self._writer
        self.let_go()
        if writer is not None:
            with _tantivy_fails():
                writer.wait_merging_threads()

    def let_go(self) -> None:
        """Give back what writing takes, at once."""
        self._writer = None
        if self._pending:
            self._reached, self._pending = self.last_id, False

    def sessions(self) -> dict[str, int]:
        """Return all session keys in the index, with the numbers of their messages."""
        with _tantivy_fails():
            found = self._searcher.terms_with_prefix("session", "", filter_query=tantivy.Query.all_query())
        return dict(found)

    def _writing(self) -> Any:
        if self._writer is None:
            self._writer = self._index.writer(WRITER_BYTES, 1)
        self._pending = True
        return self._writer

    def _read_mark(self) -> int:
        with _tantivy_fails(damaged=True):
            query = self._fields.term("mark", _MARK)
            hits = self._searcher.search(query, 1, count=False).hits
            return int(_row(self._searcher.doc(hits[0][1]))["last_id"]) if hits else 0

    # -------------------------------------------------------------- searching

    def search(self, asked: SearchAsked, audiences: Collection[str] | None = None) -> SearchFound:
        """Find messages; with `audiences`, only those that one of them may see.

        When no message holds all the words, those that hold some of them are given.
        Raises SearchWordsError when nothing is asked, and SearchIndexError.
        """
        words = understand(asked.words)
        narrowed = filters(self._fields, asked, audiences)
        with _tantivy_fails():
            found = self._find(words, narrowed, asked, every=True)
            if not found.hits and (loose := loosened(words)) is not None:
                some = self._find(loose, narrowed, asked, every=False)
                if some.hits:
                    return some.model_copy(update={"any_word": True})
        return found

    def _find(self, words: Words, narrowed: Sequence[Any], asked: SearchAsked, *, every: bool) -> SearchFound:
        query = matching(self._fields, words, narrowed, every=every)
        searcher = self._searcher
        hits: list[SearchHit] = []
        total = offset = 0
        order = {"order_by_field": "id"} if asked.newest_first else {}
        step = asked.limit
        while len(hits) < asked.limit and offset < _EXAMINED:
            result = searcher.search(query, step, count=offset == 0, offset=offset, **order)
            total = result.count if offset == 0 else total
            for score, address in result.hits:
                row = _row(searcher.doc(address))
                shown = _checked(row["text"], words, every=every)
                if shown is None:
                    total -= 1
                elif len(hits) < asked.limit:
                    hits.append(_hit(row, shown, 0.0 if asked.newest_first else score))
            if len(result.hits) < step:
                break
            offset += step
            step = min(2 * step, 200)
        return SearchFound(hits=tuple(hits), total=max(total, len(hits)))


def _opened(path: Path, fields: Fields) -> Any:
    try:
        for folder in (path.parent, path):  # for its owner alone: all that was said is in it
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise SearchIndexError(f"the folder {path} cannot be made: {error.strerror}") from error
    with _tantivy_fails(damaged=True):
        index = tantivy.Index(fields.schema, str(path))
        spaces = tantivy.TextAnalyzerBuilder(tantivy.Tokenizer.whitespace()).build()
        index.register_tokenizer(Fields.TOKENIZER, spaces)
        index.config_reader("manual")
        index.reload()
        return index


@contextlib.contextmanager
def _tantivy_fails(*, damaged: bool = False) -> Iterator[None]:
    """Turn what tantivy raises, its panics included, into our errors."""
    try:
        yield
    except SearchIndexError:
        raise
    except (ValueError, OSError, RuntimeError, KeyError, IndexError) as error:
        text = " ".join(str(error).split())[:300]
        if damaged or "corrupt" in text.lower():
            raise SearchIndexDamagedError(text) from error
        raise SearchIndexError(text) from error
    except BaseException as error:  # a panic is no Exception, and its class cannot be imported
        if type(error).__name__ != "PanicException":
            raise
        raise SearchIndexDamagedError(str(error)[:300]) from error


def _document(entry: Entry) -> Any:
    document = tantivy.Document()
    document.add_integer("id", entry.id)
    document.add_integer("at", entry.said_at_us)
    document.add_text("terms", index_terms(entry.text))
    document.add_text("session", entry.session_key)
    document.add_text("role", entry.role)
    for audience in entry.audiences:
        document.add_text("audience", audience)
    if entry.platform:
        document.add_text("platform", entry.platform)
    if entry.chat:
        document.add_text("chat", entry.chat)
    if entry.author_id:
        document.add_text("user", entry.author_id)
    if entry.author_name:
        document.add_text("user_name", fold(entry.author_name))
    row = entry._asdict()
    del row["audiences"]
    document.add_bytes("row", json.dumps(row, ensure_ascii=False).encode("utf-8", "replace"))
    return document


def _mark(last_id: int) -> Any:
    document = tantivy.Document()
    document.add_integer("id", -1)
    document.add_text("mark", _MARK)
    document.add_bytes("row", json.dumps({"last_id": last_id}).encode())
    return document


def _row(document: Any) -> dict[str, Any]:
    row: dict[str, Any] = json.loads(bytes(document["row"][0]))
    return row


def _checked(text: str, words: Words, *, every: bool) -> tuple[str, list[Place]] | None:
    """Return the text and what was found in it; None when the index has said too much."""
    part = text[:_READ_OF_A_HIT]
    units = units_of(part)
    found = places(units, words.wanted)
    there = {place.part for place in found}
    must = {number for number, wanted in enumerate(words.wanted) if every or wanted.quoted}
    if not there or not must <= there:
        return (text, found) if len(text) > len(part) else None
    if words.unwanted and places(units, words.unwanted):
        return None
    return text, found


def _hit(row: dict[str, Any], shown: tuple[str, list[Place]], score: float) -> SearchHit:
    text, marks = snippet(shown[0], shown[1], _SNIPPET)
    names = (
        "id",
        "session_key",
        "session_id",
        "turn",
        "role",
        "author_id",
        "author_name",
        "platform",
        "chat",
    )
    said_at = _EPOCH + timedelta(microseconds=row["said_at_us"])
    return SearchHit(
        **{name: row[name] for name in names},
        said_at=said_at,
        score=round(float(score), 4),
        snippet=text,
        marks=marks,
    )
