"""How text is folded and split, what a question means, and where it stands in a text."""

# ruff: noqa: RUF001 characters that look alike are what this is about

import pytest
from hypothesis import given
from hypothesis import strategies as st

from store.search_snippet import snippet
from store.search_text import (
    LONGEST_WORD,
    SearchWordsError,
    Wanted,
    fold,
    index_terms,
    loosened,
    places,
    understand,
    units_of,
)

SAME = [
    ("Ångström", "angstrom"),
    ("ÅNGSTRÖM", "a\u030angstro\u0308m"),
    ("straße", "STRASSE"),
    ("İstanbul", "istanbul"),
    ("Łódź", "lodz"),
    ("Ærø", "aero"),
    ("ＡＢＣ１２３", "abc123"),
    ("Ёлка", "елка"),
    ("Ἀθῆναι", "αθηναι"),
    ("مُحَمَّد", "محمد"),
    ("ｶﾞｲﾄﾞ", "ガイド"),
    ("か\u3099", "が"),
    ("\u1112\u1161\u11ab", "한"),
    ("ﬁle", "FILE"),
]


@pytest.mark.parametrize(("one", "other"), SAME)
def test_differences_of_writing_are_folded(one: str, other: str) -> None:
    assert index_terms(one) == index_terms(other)


@pytest.mark.parametrize(("one", "other"), [("か", "が"), ("は", "ぱ"), ("ハ", "バ"), ("日", "目")])
def test_what_tells_characters_apart_is_kept(one: str, other: str) -> None:
    assert index_terms(one) != index_terms(other)


@pytest.mark.parametrize(
    ("text", "terms"),
    [
        ("Hello, World_2!", "hello world 2"),
        ("東京都", "東京 京都 都"),
        ("猫", "猫"),
        ("部署v2失败。再试", "部署 署 v2 失败 败 再试 试"),
        ("한국어 학교에서", "한국 국어 어 학교 교에 에서 서"),
        ("カタカナ・テスト", "カタ タカ カナ ナ テス スト ト"),
        ("नमस्ते दुनिया", "नमस्ते दुनिया"),
        ("สวัสดี", "สว วั ัส สด ดี ี"),
        ("ok 👍", "ok 👍"),
        ("\x00 \n…—", ""),
        ("𠮷野家", "𠮷野 野家 家"),
    ],
)
def test_text_becomes_words_and_pairs(text: str, terms: str) -> None:
    assert index_terms(text) == terms


def test_a_very_long_word_is_known_by_its_beginning() -> None:
    blob = "x" * 5000
    assert index_terms(blob) == "x" * LONGEST_WORD
    assert understand(blob).wanted[0].tokens == ("x" * LONGEST_WORD,)


@pytest.mark.parametrize(
    ("asked", "wanted"),
    [
        ("Deploy Failed", (Wanted(("deploy",)), Wanted(("failed",)))),
        ('"deploy failed"', (Wanted(("deploy", "failed"), quoted=True),)),
        ("“deploy failed”", (Wanted(("deploy", "failed"), quoted=True),)),
        ('"no end', (Wanted(("no", "end"), quoted=True),)),
        ("deploy*", (Wanted(("deploy",), begins=True),)),
        ("foo-bar.py", (Wanted(("foo", "bar", "py")),)),
        ("部署失败", (Wanted(("部署失败",)),)),
        ("部署v2失败", (Wanted(("部署",)), Wanted(("v2",)), Wanted(("失败",)))),
        ("again again", (Wanted(("again",)),)),
    ],
)
def test_a_question_is_understood(asked: str, wanted: tuple[Wanted, ...]) -> None:
    words = understand(asked)
    assert words.wanted == wanted
    assert words.unwanted == ()


def test_what_is_unwanted() -> None:
    words = understand('deploy -test -"dry run"')
    assert words.wanted == (Wanted(("deploy",)),)
    assert words.unwanted == (Wanted(("test",)), Wanted(("dry", "run"), quoted=True))


@pytest.mark.parametrize("asked", ["", "   ", '""', "-", "-only", "!?…", "*", '-"only this"'])
def test_a_question_without_words_is_refused(asked: str) -> None:
    with pytest.raises(SearchWordsError, match="no word"):
        understand(asked)


def test_a_question_of_too_many_words_is_refused() -> None:
    with pytest.raises(SearchWordsError, match="32"):
        understand(" ".join(f"w{n}" for n in range(40)))


def test_loosening_takes_runs_apart_and_leaves_quoted_ones() -> None:
    loose = loosened(understand("昨天部署"))
    assert loose is not None
    assert [part.tokens for part in loose.wanted] == [("昨天",), ("天部",), ("部署",)]
    assert loosened(understand('"昨天部署"')) is None
    assert loosened(understand("one")) is None


def found_in(text: str, asked: str) -> list[str]:
    return [text[place.start : place.end] for place in places(units_of(text), understand(asked).wanted)]


@pytest.mark.parametrize(
    ("text", "asked", "marked"),
    [
        ("The Deployment failed", "deployment FAILED", ["Deployment", "failed"]),
        ("The deployment, failed", '"deployment failed"', ["deployment, failed"]),
        ("failed deployment", '"deployment failed"', []),
        ("redeployment", "deployment", []),
        ("re deploymental", "deploy*", ["deploymental"]),
        ("昨天的部署V2失败了", '"部署 v2"', ["部署V2"]),
        ("昨天的部署失败了", "部署失败", ["部署失败"]),
        ("部署完成，测试失败", "部署失败", []),
        ("Über Ångström", "angstrom", ["Ångström"]),
        ("e\u0301t\u00e9 ｶﾞｲﾄﾞ", "ete ガイド", ["e\u0301t\u00e9", "ｶﾞｲﾄﾞ"]),
        ("ﬁle", "file", ["ﬁle"]),
        ("学校에서 학교에서", "학교", ["학교"]),
    ],
)
def test_places_are_marked_in_the_text_as_it_was_written(text: str, asked: str, marked: list[str]) -> None:
    assert found_in(text, asked) == marked


TEXTS = st.text(
    st.one_of(
        st.sampled_from("ab Z9_.,-東京都部署がか\u3099한\u1112\u1161ÅåßİıéＡｶﾞ👍ัस्"),
        st.characters(exclude_categories=["Cs"], exclude_characters='"“”„\uff02'),
    ),
    max_size=40,
)


@given(TEXTS)
def test_terms_are_never_torn_by_the_index(text: str) -> None:
    for term in index_terms(text).split(" "):
        assert len(term.split()) <= 1
        assert len(term) <= LONGEST_WORD


@given(TEXTS)
def test_units_lie_in_the_text_in_order(text: str) -> None:
    last = 0
    for unit in units_of(text):
        assert unit.text
        assert 0 <= unit.start < unit.end <= len(text)
        assert unit.start >= last or unit.text
        last = unit.start


@given(TEXTS, TEXTS, TEXTS)
def test_what_stands_in_a_text_as_a_word_of_its_own_is_found(before: str, text: str, after: str) -> None:
    try:
        words = understand(f'"{text}"')
    except SearchWordsError:
        return
    assert places(units_of(f"{before} {text} {after}"), words.wanted)


@given(TEXTS, st.integers(10, 60))
def test_a_snippet_is_one_line_of_bounded_length_whose_marks_lie_in_it(text: str, length: int) -> None:
    try:
        words = understand(text)
    except SearchWordsError:
        return
    long = f"{'filler ' * 20}{text} {'more ' * 20}"
    shown, marks = snippet(long, places(units_of(long), words.wanted), length)
    assert len(shown) <= length + 2
    assert "\n" not in shown
    last = 0
    for mark in marks:
        assert last <= mark.start < mark.end <= len(shown)
        last = mark.end


def test_a_snippet_shows_where_most_was_found() -> None:
    text = "alpha " + "x " * 200 + "alpha beta gamma" + " y" * 200
    words = understand("alpha beta gamma")
    shown, marks = snippet(text, places(units_of(text), words.wanted), 80)
    assert "alpha beta gamma" in shown
    assert [shown[m.start : m.end] for m in marks] == ["alpha", "beta", "gamma"]
    assert shown.startswith("…")
    assert shown.endswith("…")


def test_folding_ascii_is_lowering() -> None:
    assert fold("HeLLo_1") == "hello_1"
