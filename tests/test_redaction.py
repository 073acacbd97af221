import base64
import itertools
import json
from urllib.parse import quote, quote_plus

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from actors.redaction import Redactor, mask

KEY = "sk-test-AAAA1111BBBB2222"

secrets = st.text(st.characters(codec="utf-8", exclude_characters="*"), min_size=6, max_size=40).filter(
    lambda text: len(text.strip()) >= 6
)
surroundings = st.text(st.characters(codec="utf-8"), max_size=12)


def encodings(secret: str) -> list[str]:
    """Every form in which a secret may travel."""
    raw = secret.encode()
    return [
        secret,
        quote(secret, safe=""),
        quote(secret),
        quote_plus(secret),
        "".join(f"%{byte:02x}" for byte in raw),
        json.dumps(secret)[1:-1],
        json.dumps(secret, ensure_ascii=False)[1:-1],
        raw.hex(),
        raw.hex().upper(),
        base64.b64encode(raw).decode().rstrip("="),
        base64.urlsafe_b64encode(raw).decode().rstrip("="),
    ]


@given(secrets, surroundings, surroundings, st.integers(0, 10))
def test_X05_a_registered_secret_appears_in_no_form(secret: str, before: str, after: str, form: int) -> None:
    secret = secret.strip()
    text = Redactor([secret]).clean(before + encodings(secret)[form] + after)
    assert not [shape for shape in encodings(secret) if shape in text]


@given(secrets, st.binary(max_size=8), st.binary(max_size=8))
def test_X05_base64_of_a_text_that_contains_it(secret: str, before: bytes, after: bytes) -> None:
    secret = secret.strip()
    whole = base64.b64encode(before + secret.encode() + after).decode()
    assert secret.encode() not in base64.b64decode(_only_base64(Redactor([secret]).clean(f"> {whole} <")))


def _only_base64(text: str) -> bytes:
    """Return what is left of a base64 text, filled up so that it decodes at its old alignment."""
    left = text[2:-2].replace("*", "")
    left = left.rstrip("=")
    return (left + "A" * (-len(left) % 4)).encode()


@given(secrets, surroundings, surroundings, st.integers(0, 10), st.data())
def test_X05_a_secret_that_is_split_over_pieces(
    secret: str, before: str, after: str, form: int, data: st.DataObject
) -> None:
    secret = secret.strip()
    text = before + encodings(secret)[form] + after
    cuts = sorted(data.draw(st.lists(st.integers(0, len(text)), max_size=8)))
    cleaner = Redactor([secret]).stream()
    places = [0, *cuts, len(text)]
    out = "".join(cleaner.feed(text[a:b]) for a, b in itertools.pairwise(places))
    out += cleaner.flush()
    assert not [shape for shape in encodings(secret) if shape in out]


@given(st.lists(st.text(max_size=6), max_size=12))
def test_a_stream_without_secrets_arrives_as_it_was(pieces: list[str]) -> None:
    redactor, text = Redactor([KEY]), "".join(pieces)
    cleaner = redactor.stream()
    assume(redactor.clean(text) is text)
    assert "".join(map(cleaner.feed, pieces)) + cleaner.flush() == text


def test_a_stream_holds_back_only_what_may_become_a_secret() -> None:
    cleaner = Redactor([KEY]).stream()
    assert cleaner.feed("The answer is 42, I think") == "The answer is 42, I think"
    assert cleaner.feed("; the key: sk-test-AA") == "; the key: "
    assert cleaner.feed("AA1111") == ""
    assert cleaner.feed("BBBB2222, and so on") == "***2222, and so on"
    assert cleaner.feed("sk-test-") == ""
    assert cleaner.feed("drive, ") == "sk-test-drive, "
    assert cleaner.flush() == ""


@pytest.mark.parametrize(
    "text",
    [
        "sk-proj-abcDEF1234567890abcdefgh",
        "sk-ant-api03-AbCd1234-efgh5678_ijkl",
        "xoxb-123456789012-abcdefABCDEF",
        "xapp-1-A0B1C2-123456-abcdef",
        "ghp_0123456789abcdefABCDEF0123456789abcd",
        "github_pat_11ABCDEFG0123456789_abcdefghij",
        "glpat-0123456789abcdefABCD",
        "AKIAIOSFODNN7EXAMPLE",
        "AIzaSyA0123456789abcdefghijklmnopqrstuv",
        "hf_abcdefghijklmnopqrstuvwxyz",
        "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0In0.c2lnbmF0dXJl",
        "123456789:AAabcdefghijklmnopqrstuvwxyz0123456",
        "123456:AAFakeFakeFakeFakeFakeFakeFakeFake",
        "123456789%3AAAabcdefghijklmnopqrstuvwxyz0123456",
        "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw",
        "syt_YW5u_abcdefghijklmnop_1a2b3c",
        "MTIzNDU2Nzg5MDEyMzQ1Njc4.GabcdE.abcdefghijklmnopqrstuvwxyz01",
        "-----BEGIN RSA PRIVATE KEY-----\nMIIEow\nIBAAK\n-----END RSA PRIVATE KEY-----",
    ],
)
@pytest.mark.parametrize("frame", ["{}", "key: {} end", '"{}"', "a\n{}\nb", "({})"])
def test_X05_well_known_keys_nobody_registered(text: str, frame: str) -> None:
    framed = frame.format(text)
    cleaner = Redactor().stream()
    streamed = "".join(cleaner.feed(char) for char in framed) + cleaner.flush()
    for cleaned in (Redactor().clean(framed), streamed):
        assert text not in cleaned
        assert "***" in cleaned
        assert _longest_common(text, cleaned) <= 4


def _longest_common(secret: str, cleaned: str) -> int:
    return max(
        (
            n
            for n in range(len(secret) + 1)
            for i in range(len(secret) - n + 1)
            if secret[i : i + n] in cleaned
        ),
        default=0,
    )


@pytest.mark.parametrize(
    ("text", "cleaned"),
    [
        ("Authorization: Bearer abcdef0123456789", "Authorization: Bearer ***6789"),
        ("bearer abcdef012345", "bearer ***"),
        ("postgres://admin:hunter22@db:5432/x", "postgres://***@db:5432/x"),
        ("https://h/x?key=abcdefgh1234&a=b", "https://h/x?key=***&a=b"),
        ("https://u:p@ss@h/x?a=b@c", "https://***@h/x?a=b@c"),
        ("https://abcdef0123456789abcdef@sentry.io/1", "https://***cdef@sentry.io/1"),
        ("https://x.org/bot123456:AAFakeFakeFakeFakeFakeFakeFakeFake/a", "https://x.org/bot***Fake/a"),
        ("https://hooks.slack.com/services/T0/B0/XXXXyyyy1234", "https://hooks.slack.com/services/***1234"),
        (
            "https://d.com/api/webhooks/123456789012345678/abcdefghijklmnopqrstuvwxyz01234_",
            "https://d.com/api/webhooks/123456789012345678/***234_",
        ),
        (
            "to hooks.slack.com/services/T0/B0/XXXXyyyy1234 it goes",
            "to hooks.slack.com/services/***1234 it goes",
        ),
        ("wss://w.slack.com/link/?ticket=abcdefgh1234&b=1", "wss://w.slack.com/link/?ticket=***&b=1"),
        ("A=1\nOPENAI_API_KEY=whatever-it-is\nB=2", "A=1\nOPENAI_API_KEY=***\nB=2"),
        ("export DB_PASSWORD='correct-horse'", "export DB_PASSWORD='***'"),
    ],
)
def test_X05_secrets_known_by_their_place(text: str, cleaned: str) -> None:
    assert Redactor().clean(text) == cleaned
    cleaner = Redactor().stream()
    assert "".join(cleaner.feed(char) for char in text) + cleaner.flush() == cleaned


@pytest.mark.parametrize(
    "text",
    [
        "a task-oriented-programming-language",
        "The bearer of good news, bearer responsibilities",
        "Basic understanding of https://example.org/a:b@c is needed",
        "git@github.com:owner/repo.git and https://user@host/",
        "SECRET_KEY = os.environ['KEY']",
        "KEY=$OTHER_KEY_NAME",
        "12:34:56 at http://[::1]:8080/",
        "eyJ is how they begin",
        "-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----",
        "",
    ],
)
def test_ordinary_text_stays_as_it_is(text: str) -> None:
    assert Redactor([KEY]).clean(text) is text


def test_masks_keep_at_most_four_characters() -> None:
    assert mask(KEY) == "***2222"
    assert mask("hunter2") == "***"
    assert Redactor([KEY]).clean(f"a {KEY} b {KEY}") == "a ***2222 b ***2222"


def test_overlapping_secrets_leave_no_rest() -> None:
    redactor = Redactor(["abcdef", "defghijk", "abcdefgh-and-more-of-it"])
    assert redactor.clean("xabcdefghijkx") == "x***x"
    assert redactor.clean("abcdefgh-and-more-of-it") == "***f-it"


def test_a_secret_that_was_wrapped_is_found() -> None:
    wrapped = base64.encodebytes(b"x" * 50 + KEY.encode() + b"y" * 50).decode()
    assert wrapped.count("\n") > 1
    cleaned = Redactor([KEY]).clean(wrapped)
    assert KEY.encode() not in base64.b64decode(cleaned.replace("*", "").replace("\n", "")[:60] + "====")
    assert "***" in cleaned
    assert Redactor([KEY]).clean("sk-test-AAAA\r\n1111BBBB2222") == "***"


def test_a_value_of_several_lines_is_masked_line_by_line_too() -> None:
    pem = "-----BEGIN KEY-----\nline-one-of-the-key-body\nshort\n-----END KEY-----\n"
    redactor = Redactor([pem])
    assert "line-one" not in redactor.clean("here: line-one-of-the-key-body")
    assert redactor.clean("-----BEGIN KEY-----") == "-----BEGIN KEY-----"


def test_a_short_value_is_not_registered() -> None:
    redactor = Redactor()
    assert not redactor.register("12345")
    assert redactor.register("123456")
    assert redactor.clean("12345 123456") == "12345 ***"


def test_a_stream_never_holds_back_without_end() -> None:
    cleaner = Redactor([KEY]).stream()
    out = cleaner.feed("-----BEGIN PRIVATE KEY-----\n" + "A" * 20_000)
    assert "AAAA" not in out
    assert len(cleaner.feed("x" * 1000)) > 0
