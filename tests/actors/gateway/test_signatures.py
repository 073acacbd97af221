"""Secrets and signatures are compared as bytes, and no bytes make that fail."""

import base64
import hashlib
import hmac

import pytest

from actors.gateway.signatures import hmac_matches, same

ODD = ["", "é", "\u2019", "\udce9", "\ud83d", "\x00", "ä" * 10_000, "v0=é"]


@pytest.mark.parametrize(
    "given", [*ODD, *(text.encode("utf-8", "surrogatepass") for text in ODD), b"\xff", b"\xe9"]
)
def test_X13_whatever_is_given_is_only_wrong(given: str | bytes) -> None:
    assert not same(given, "a secret")
    assert not same(given, "ein Schlüssel")
    assert not hmac_matches(given, "a secret", b"body", prefix="sha256=")
    assert not hmac_matches(given, "ein Schlüssel", b"body", form="base64")


@pytest.mark.parametrize("secret", ["plain", "mit ä und ü", "日本", "😀"])
def test_X13_the_right_secret_is_right_in_all_its_forms(secret: str) -> None:
    wire = secret.encode()
    assert same(secret, secret)
    assert same(wire, secret)
    assert same(wire, wire)
    assert same(wire.decode("utf-8", "surrogateescape"), secret)
    assert not same(secret + "x", secret)
    assert not same(secret[:-1], secret)


def test_X13_a_header_in_latin_1_is_the_same_secret() -> None:
    assert same("schlüssel".encode("latin-1"), "schlüssel")
    assert same("schlüssel".encode("latin-1").decode("utf-8", "surrogateescape"), "schlüssel")
    assert not same("schl?ssel", "schlüssel")
    assert not same("schlssel", "schlüssel")


def test_an_empty_secret_never_matches() -> None:
    assert not same("", "")
    assert not same(b"", b"")
    digest = hmac.new(b"", b"body", hashlib.sha256).hexdigest()
    assert not hmac_matches(digest, "", b"body")


def test_signatures() -> None:
    key, body = "schlüssel", b"\x00body\xff"
    digest = hmac.new(key.encode(), body, hashlib.sha256)
    assert hmac_matches(f"sha256={digest.hexdigest()}", key, body, prefix="sha256=")
    assert hmac_matches(f"sha256={digest.hexdigest().upper()}", key, body, prefix="sha256=")
    assert hmac_matches(base64.b64encode(digest.digest()), key, body, form="base64")
    assert hmac_matches(hmac.new(key.encode(), body, hashlib.sha1).hexdigest(), key, body, algorithm="sha1")
    assert not hmac_matches(digest.hexdigest(), key, body, prefix="sha256=")
    assert not hmac_matches(f"sha256={digest.hexdigest()}", key, body + b"x", prefix="sha256=")
    assert not hmac_matches(f"sha256={digest.hexdigest()}", "other", body, prefix="sha256=")
