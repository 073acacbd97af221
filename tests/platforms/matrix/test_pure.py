"""Errors, rendering, options and what is kept: without a server."""

import json
import re
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from actors.gateway.attachments import image_type, in_words, safe_name
from actors.gateway.chunks import Unit, measure, split
from actors.gateway.keeping import Keeping
from actors.gateway.markup_html import html
from actors.gateway.platforms.matrix import PLATFORM
from actors.gateway.platforms.matrix.errors import KINDS, error_for
from actors.gateway.platforms.matrix.options import LENGTH, MatrixOptions
from actors.gateway.platforms.matrix.progress import Progress
from actors.gateway.platforms.matrix.recent import Bounded, Known
from actors.gateway.platforms.matrix.render import counted, edit_of, relation, size_of, text_content
from messages.delivery import ProblemKind as K


@pytest.mark.parametrize(
    ("status", "body", "posting", "kind"),
    [
        (429, {"errcode": "M_LIMIT_EXCEEDED", "retry_after_ms": 37_000}, True, K.RATE_LIMITED),
        (401, {"errcode": "M_UNKNOWN_TOKEN", "soft_logout": True}, True, K.NEEDS_HUMAN),
        (403, {"errcode": "M_FORBIDDEN"}, True, K.TARGET_GONE),
        (404, {"errcode": "M_NOT_FOUND"}, True, K.TARGET_GONE),
        (413, {"errcode": "M_TOO_LARGE"}, True, K.REFUSED),
        (400, {"errcode": "M_BAD_JSON"}, True, K.REFUSED),
        (418, {}, True, K.REFUSED),
        (401, None, True, K.NEEDS_HUMAN),
        (502, "<html>", True, K.UNKNOWN),
        (502, "<html>", False, K.TRANSIENT),
        (500, {"errcode": "M_UNKNOWN"}, True, K.UNKNOWN),
        (504, {}, True, K.UNKNOWN),
        (403, {"errcode": "M_CONSENT_NOT_GIVEN"}, True, K.NEEDS_HUMAN),
    ],
)
def test_each_answer_has_its_meaning(status: int, body: object, posting: bool, kind: K) -> None:
    assert error_for(status, body, posting=posting).problem.kind is kind


def test_every_known_code_has_a_kind_and_waits_are_sane() -> None:
    for code, kind in KINDS.items():
        status = 429 if kind is K.RATE_LIMITED else 400
        assert error_for(status, {"errcode": code}, posting=True).problem.kind is kind
    for told, wait in (
        (37_000, 37.0),
        (-5, 0.0),
        (float("inf"), 5.0),
        ("soon", 5.0),
        (None, 5.0),
        (10**12, 86_400.0),
    ):
        problem = error_for(429, {"errcode": "M_LIMIT_EXCEEDED", "retry_after_ms": told}).problem
        assert problem.retry_after_s == wait
    assert error_for(403, {"errcode": "M_FORBIDDEN"}, login=True).problem.kind is K.NEEDS_HUMAN


@settings(max_examples=150, deadline=None)
@given(st.text(max_size=3000))
def test_whatever_is_said_becomes_a_harmless_message_that_fits(text: str) -> None:
    content = text_content(text)
    assert content["m.mentions"] == {}
    for shown in (content["body"], content.get("formatted_body", "")):
        assert re.search(r"@room\b", shown, re.IGNORECASE) is None
    rich = content.get("formatted_body", "")
    assert "<script" not in rich
    assert 'href="javascript' not in rich
    edited = edit_of("$e", {**content, "m.relates_to": relation("$t", None)})
    assert "m.relates_to" not in edited["m.new_content"]


def test_long_texts_are_cut_so_that_text_and_html_fit_and_nothing_is_lost() -> None:
    text = "\n\n".join(
        f'Paragraph **{n}** with `code` & <b>marks</b> 😀 \\ " and a [link](https://x.org/{n}).'
        for n in range(2500)
    )
    chunks = split(text, LENGTH, Unit.BYTES, counted)
    assert "".join(chunk.body for chunk in chunks) == text
    for chunk in chunks:
        assert measure(counted(chunk.text), Unit.BYTES) <= LENGTH
        content = text_content(chunk.text)
        assert "formatted_body" in content
        whole = edit_of("$" + "e" * 43, content)
        # As encrypted: base64 of it, and what stands around.
        assert size_of(whole) * 4 / 3 + 2000 < 65_536


def test_html_is_safe_and_plain_text_has_none() -> None:
    assert "formatted_body" not in text_content("just words\u2026")
    assert html("<img src=x onerror=alert(1)>") == "<p>&lt;img src=x onerror=alert(1)&gt;</p>"
    assert html("[x](javascript:alert(1))") == "<p>x (javascript:alert(1))</p>"
    assert html("[x](JaVaScRiPt:alert(1))").count("<a") == 0
    assert html('[x](https://a.b/"onclick=alert(1))').startswith('<p><a href="https://a.b/%22onclick')
    assert html("![a picture](https://x.org/p.png)") == '<p><a href="https://x.org/p.png">a picture</a></p>'
    assert "&#64;room" not in text_content("&#64;room **x**")["formatted_body"]
    assert "@room" not in text_content("&#64;room **x**")["formatted_body"]


def test_options_say_what_is_wrong_with_them() -> None:
    good = {"homeserver": "https://matrix.example.org/", "access_token": "t"}
    assert MatrixOptions.model_validate(good).homeserver == "https://matrix.example.org"
    for change in (
        {"homeserver": "http://matrix.example.org"},
        {"homeserver": "matrix.example.org"},
        {"homeserver": "https://u:p@matrix.example.org"},
        {"password": "p"},
        {"access_token": None},
        {"access_token": None, "password": "p"},
        {"user_id": "callboard"},
        {"whatever": 1},
    ):
        with pytest.raises(ValidationError):
            MatrixOptions.model_validate(good | change)
    assert MatrixOptions.model_validate(good | {"homeserver": "http://127.0.0.1:8008"})


def test_the_entry_is_whole_and_its_options_do_not_show_secrets() -> None:
    options = MatrixOptions.model_validate({"homeserver": "https://x.org", "access_token": "syt_secret"})
    assert "syt_secret" not in repr(options)
    assert PLATFORM.shape is not None
    limits, can = PLATFORM.shape(options)
    assert limits.fetch_bytes == 25_000_000
    assert can.idempotency_key
    assert {question.option for question in PLATFORM.questions} == {"homeserver", "access_token"}


def test_a_token_is_kept_only_when_all_before_it_is_done() -> None:
    progress = Progress()
    progress.begins("s1", 2)
    progress.begins("s2", 1)
    progress.begins("s3", 0)
    assert progress.settled() is None
    assert progress.handed_in("s2") is None
    assert progress.handed_in("s1") is None
    assert progress.on_the_way == 1
    assert progress.handed_in("s1") == "s3"
    assert progress.on_the_way == 0


def test_what_is_kept_is_whole_or_not_there(tmp_path: Path) -> None:
    keeping = Keeping(tmp_path / "matrix-main")
    assert keeping.read("sync") == {}
    keeping.write("sync", {"next_batch": "s1"})
    assert keeping.read("sync") == {"next_batch": "s1"}
    (keeping.folder / "sync.json").write_text(json.dumps([1]))
    assert keeping.read("sync") == {}


def test_memory_is_bounded() -> None:
    recent: Bounded[str, Known] = Bounded(3)
    for number in range(10):
        recent.put(str(number), Known.message("@a:b", "x" * 10_000))
    assert len(recent) == 3
    known = recent.get("9")
    assert known is not None
    assert (len(known.text), known.says("x" * 10_000), known.says("x" * 9_999)) == (2000, True, False)


@pytest.mark.parametrize(
    ("name", "safe"),
    [
        ("../../x\u202egnp.exe", "xgnp.exe"),
        ("C:\\temp\\a.txt", "a.txt"),
        ("a\0b\n\u2028c.md", "abc.md"),
        ("...", "file"),
        ("x" * 500 + ".tar.gz", "x" * 117 + ".gz"),
        ("", "file"),
        (".hidden", "hidden"),
    ],
)
def test_D10_names_of_files_are_made_safe(name: str, safe: str) -> None:
    assert safe_name(name) == safe
    assert len(safe) <= 120


def test_images_are_told_by_their_bytes_and_sizes_are_words() -> None:
    assert image_type(b"\xff\xd8\xff\xe0") == "image/jpeg"
    assert image_type(b"GIF89a") == "image/gif"
    assert image_type(b"RIFF\0\0\0\0WEBP") == "image/webp"
    assert image_type(b"<svg>") is None
    assert [in_words(n) for n in (12, 1500, 40_000_000, 20_000_001)] == [
        "12 bytes",
        "1.5 kB",
        "40 MB",
        "20 MB",
    ]
