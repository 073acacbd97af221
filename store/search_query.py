"""What was asked, as tantivy's queries."""

import itertools
from collections.abc import Collection, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import tantivy

from messages.search import SearchAsked
from store.search_text import Wanted, Words, fold, is_run, pairs

_MUST, _SHOULD, _NOT = tantivy.Occur.Must, tantivy.Occur.Should, tantivy.Occur.MustNot
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class Fields:
    """The fields of a document."""

    TOKENIZER = "spaces"

    def __init__(self) -> None:
        builder = tantivy.SchemaBuilder()
        builder.add_integer_field("id", indexed=True, fast=True)
        builder.add_integer_field("at", fast=True)
        builder.add_text_field("terms", tokenizer_name=self.TOKENIZER, index_option="position")
        for name in ("session", "role", "audience", "platform", "chat", "user", "user_name", "mark"):
            builder.add_text_field(name, tokenizer_name="raw", index_option="basic")
        builder.add_bytes_field("row", stored=True)
        self.schema = builder.build()

    def term(self, field: str, value: str) -> Any:
        """Return a query for one exact term."""
        return tantivy.Query.term_query(self.schema, field, value, "basic")

    def text(self, terms: Sequence[str]) -> Any:
        """Return a query for terms that follow each other."""
        if len(terms) == 1:
            return tantivy.Query.term_query(self.schema, "terms", terms[0], "freq")
        return tantivy.Query.phrase_query(self.schema, "terms", list(terms))

    def pattern(self, pattern: str) -> Any:
        """Return a query for all terms that a regular expression describes."""
        return tantivy.Query.regex_query(self.schema, "terms", pattern)

    def any_of(self, field: str, values: Collection[str]) -> Any:
        """Return a query for any of several exact terms."""
        return tantivy.Query.boolean_query([(_SHOULD, self.term(field, value)) for value in sorted(values)])

    def between(self, since_us: int | None, until_us: int | None) -> Any:
        """Return a query for a span of time, in microseconds since 1970; the end is not included."""
        whole = tantivy.FieldType.Integer
        last = None if until_us is None else until_us - 1
        return tantivy.Query.range_query(self.schema, "at", whole, since_us, last)


def matching(fields: Fields, words: Words, narrowed: Sequence[Any], *, every: bool) -> Any:
    """Return the query: all of the words, or with `every` False some of them, and all the filters."""
    clauses = [(_MUST, _part(fields, part)) for part in words.wanted if every or part.quoted]
    loose = [(_SHOULD, _part(fields, part)) for part in words.wanted if not (every or part.quoted)]
    if clauses:
        clauses += loose  # they raise the rank of what is found by the others
    elif loose:
        clauses = [(_MUST, tantivy.Query.boolean_query(loose))]  # one of them at least, filters or not
    clauses += [(_NOT, _part(fields, part)) for part in words.unwanted]
    clauses += [(_MUST, tantivy.Query.const_score_query(query, 0.0)) for query in narrowed]
    return tantivy.Query.boolean_query(clauses)


def filters(fields: Fields, asked: SearchAsked, audiences: Collection[str] | None) -> list[Any]:
    """Return the queries that narrow a search without ranking it."""
    found: list[Any] = []
    if audiences is not None:
        found.append(fields.any_of("audience", audiences) if audiences else tantivy.Query.empty_query())
    if asked.platform is not None:
        found.append(fields.term("platform", asked.platform))
    if asked.chat is not None:
        found.append(fields.term("chat", asked.chat))
    if asked.session_key is not None:
        found.append(fields.term("session", asked.session_key))
    if asked.user is not None:
        either = [(_SHOULD, fields.term("user", asked.user))]
        either.append((_SHOULD, fields.term("user_name", fold(asked.user))))
        found.append(tantivy.Query.boolean_query(either))
    if asked.roles:
        found.append(fields.any_of("role", asked.roles))
    if asked.since is not None or asked.until is not None:
        found.append(fields.between(_micros(asked.since), _micros(asked.until)))
    return found


def _part(fields: Fields, part: Wanted) -> Any:
    """Return a query for one part: rows of terms, and patterns for what is no whole term."""
    rows, patterns = _rows(part)
    queries = [fields.text(row) for row in rows] + [fields.pattern(pattern) for pattern in patterns]
    if len(queries) == 1:
        return queries[0]
    return tantivy.Query.boolean_query([(_MUST, query) for query in queries])


def _rows(part: Wanted) -> tuple[list[list[str]], list[str]]:
    """Return the rows of terms that follow each other, and regular expressions of single terms.

    A run that a word follows ends in the text too, with its last character as a term. Between
    two runs there may be a space in the text or none: two rows. The text of each hit is
    asked whether all stand together.
    """
    tokens = list(part.tokens)
    patterns = [f"{tokens.pop()}.*"] if part.begins else []
    rows: list[list[str]] = []
    row: list[str] = []
    for token, following in itertools.zip_longest(tokens, tokens[1:], fillvalue=""):
        if not is_run(token):
            row.append(token)
        elif following and not is_run(following):
            row += [*pairs(token), token[-1]]
        else:
            row += pairs(token)
            if len(token) == 1:  # it may stand first or second in a pair, or alone
                patterns.append(f"{token}.?")
            rows.append(row)
            row = []
    rows.append(row)
    return [row for row in rows if row], patterns


def _micros(moment: datetime | None) -> int | None:
    return None if moment is None else (moment - _EPOCH) // timedelta(microseconds=1)
