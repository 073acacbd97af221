"""Who called: every scheme's right signature is believed, and everything else is a refusal, never a crash."""

import base64
import hmac
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from multidict import CIMultiDict

from actors.gateway.platforms.webhook.replay import ReplayMemory
from actors.gateway.platforms.webhook.verify import Denied, Verified, verify
from tests.fakes.clock import START
from tests.platforms.webhook.service import SECRET, hex_of, route, standard_signature

BODY = b'{"text": "hi"}'
STAMP = int(START.timestamp())
UMLAUT = "gehäuse-schlüssel"


def right(scheme: str, body: bytes = BODY, stamp: int = STAMP, secret: str = SECRET) -> dict[str, str]:
    match scheme:
        case "github":
            return {"X-Hub-Signature-256": "sha256=" + hex_of(body, secret)}
        case "gitlab":
            return {"X-Gitlab-Token": secret}
        case "slack":
            signed = f"v0:{stamp}:".encode() + body
            return {
                "X-Slack-Request-Timestamp": str(stamp),
                "X-Slack-Signature": "v0=" + hex_of(signed, secret),
            }
        case "stripe":
            signature = hex_of(f"{stamp}.".encode() + body, secret)
            return {"Stripe-Signature": f"t={stamp},v1={'0' * 64},v1={signature},v0=old"}
        case "standard":
            signature = standard_signature("msg_1", stamp, body, secret.encode())
            return {
                "webhook-id": "msg_1",
                "webhook-timestamp": str(stamp),
                "webhook-signature": f"v1,{'A' * 44} {signature} v2,x",
            }
        case "hmac-sha256":
            return {"X-Signature": hex_of(body, secret)}
        case _:
            return {"Authorization": f"Bearer {secret}"}


SCHEMES = ["github", "gitlab", "slack", "stripe", "standard", "hmac-sha256", "token"]
TIMED = ["slack", "stripe", "standard"]


def check(scheme: str, headers: dict[str, str], body: bytes = BODY, **more: Any) -> Verified | Denied:
    return verify(route(signature=scheme, **more), CIMultiDict(headers), body, START)


@pytest.mark.parametrize("scheme", SCHEMES)
def test_the_right_signature_is_believed(scheme: str) -> None:
    assert isinstance(check(scheme, right(scheme)), Verified)
    lower = {name.lower(): value for name, value in right(scheme).items()}
    assert isinstance(check(scheme, lower), Verified)


@pytest.mark.parametrize("scheme", SCHEMES)
def test_a_wrong_or_missing_one_is_not(scheme: str) -> None:
    assert isinstance(check(scheme, {}), Denied)
    assert isinstance(check(scheme, right(scheme, secret="another-secret")), Denied)
    assert isinstance(check(scheme, dict.fromkeys(right(scheme), "")), Denied)
    if scheme not in {"gitlab", "token"}:
        assert isinstance(check(scheme, right(scheme), BODY + b" "), Denied)


@pytest.mark.parametrize("scheme", TIMED)
@pytest.mark.parametrize("away", [-301, 301, -86_400])
def test_an_old_or_future_timestamp_is_not_believed(scheme: str, away: int) -> None:
    denied = check(scheme, right(scheme, stamp=STAMP + away))
    assert isinstance(denied, Denied)
    assert "clocks" in denied.why
    assert isinstance(check(scheme, right(scheme, stamp=STAMP + away // 400)), Verified)


@pytest.mark.parametrize("scheme", TIMED)
@pytest.mark.parametrize("stamp", ["", "-1", "1e9", "99999999999999", "١٢٣", "0x10", "\udcff", "nan"])
def test_a_timestamp_that_is_none_is_not_believed(scheme: str, stamp: str) -> None:
    headers = {name: value.replace(str(STAMP), stamp) for name, value in right(scheme).items()}
    assert isinstance(check(scheme, headers), Denied)


@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize(
    "odd", ["\udce9", "\u2019", "\udcff" * 64, "é", "\x00", "a" * 100_000, "=", "," * 500]
)
def test_X13_bytes_that_no_encoding_can_hold_are_wrong_not_a_crash(scheme: str, odd: str) -> None:
    for name, value in right(scheme).items():
        prefix = value.partition("=")[0] + "=" if "=" in value[:8] else ""
        for wrong in (odd, prefix + odd):
            assert isinstance(check(scheme, {**right(scheme), name: wrong}), Denied), (name, wrong)
        for around in (value[:-1] + odd, odd + value):
            # Where a header holds several signatures, the right one may still be among them.
            outcome = check(scheme, {**right(scheme), name: around})
            assert isinstance(outcome, Denied) or scheme in {"stripe", "standard"}, (name, around)


@pytest.mark.parametrize("scheme", SCHEMES)
def test_X13_a_secret_beyond_ascii_works(scheme: str) -> None:
    headers = right(scheme, secret=UMLAUT)
    if scheme in {"gitlab", "token"}:
        # As the server gives bytes of a header that are no UTF-8: escaped.
        for encoding in ("utf-8", "latin-1"):
            wire = {n: v.encode(encoding).decode("utf-8", "surrogateescape") for n, v in headers.items()}
            assert isinstance(check(scheme, wire, secret=UMLAUT), Verified), encoding
    else:
        assert isinstance(check(scheme, headers, secret=UMLAUT), Verified)
    assert isinstance(check(scheme, right(scheme), secret=UMLAUT), Denied)


@given(
    st.sampled_from(SCHEMES),
    st.dictionaries(
        st.sampled_from([name for scheme in SCHEMES for name in right(scheme)]),
        st.text(st.characters(codec=None), max_size=80),
    ),
    st.binary(max_size=50),
)
def test_X13_no_headers_crash_or_are_believed(scheme: str, headers: dict[str, str], body: bytes) -> None:
    assert isinstance(check(scheme, headers, body), Denied)


def test_headers_of_ones_own_base64_and_a_signed_time() -> None:
    own: dict[str, Any] = {"signature_header": "X-Mine", "encoding": "base64"}
    digest = base64.b64encode(hmac.digest(SECRET.encode(), BODY, "sha256")).decode()
    assert isinstance(check("hmac-sha256", {"X-Mine": digest}, **own), Verified)
    assert isinstance(check("hmac-sha256", {"X-Signature": hex_of(BODY)}, **own), Denied)
    timed: dict[str, Any] = {"timestamp_header": "X-Time"}
    signed = hex_of(f"{STAMP}.".encode() + BODY)
    verified = check(
        "hmac-sha256", {"X-Time": str(STAMP), "X-Signature": f"sha256={signed.upper()}"}, **timed
    )
    assert isinstance(verified, Verified)
    assert verified.sent_at == START
    assert isinstance(check("hmac-sha256", {"X-Signature": hex_of(BODY)}, **timed), Denied)
    assert isinstance(check("token", {"X-Mine": SECRET}, signature_header="X-Mine"), Verified)


def test_a_standard_secret_is_base64_behind_its_mark() -> None:
    key = b"\x00\xff" * 16
    secret = "whsec_" + base64.b64encode(key).decode()
    headers = {
        "webhook-id": "m",
        "webhook-timestamp": str(STAMP),
        "webhook-signature": standard_signature("m", STAMP, BODY, key),
    }
    verified = check("standard", headers, secret=secret)
    assert isinstance(verified, Verified)
    assert verified.delivery == "m"


# ---------------------------------------------------------------------- replays


def test_the_same_content_is_the_same_message_whatever_id_is_written_beside_it() -> None:
    memory = ReplayMemory(3600)
    signed = Verified("content")
    assert memory.message_id("r", signed, "d1", START) == "d1"
    assert memory.message_id("r", signed, "d2", START) == "d1"
    assert memory.message_id("r", signed, "d2", START + timedelta(hours=2)) == "d2"
    assert memory.message_id("other", signed, "d3", START) == "d3"


def test_without_an_id_the_content_gives_one_also_after_a_restart() -> None:
    first = ReplayMemory(3600).message_id("r", Verified("content"), "", START)
    again = ReplayMemory(3600).message_id("r", Verified("content"), "", START)
    later = ReplayMemory(3600).message_id("r", Verified("content"), "", START + timedelta(days=1))
    assert first == again != later
    timed = Verified("content", sent_at=START)
    ids = {ReplayMemory(3600).message_id("r", timed, "", START + timedelta(days=n)) for n in range(3)}
    assert len(ids) == 1


def test_what_is_not_signed_is_never_taken_for_the_same() -> None:
    memory = ReplayMemory(3600)
    assert memory.message_id("r", Verified(None), "", START) != memory.message_id(
        "r", Verified(None), "", START
    )
    assert memory.message_id("r", Verified(None), "d1", START) == "d1"


def test_the_memory_is_bounded() -> None:
    memory = ReplayMemory(3600, most=100)
    for n in range(1000):
        memory.message_id("r", Verified(f"content {n}"), "", START)
    assert len(memory) <= 100
