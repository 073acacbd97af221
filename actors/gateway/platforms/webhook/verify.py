"""Who called: the signature schemes that services use, each over the raw bytes. Pure.

    scheme        header                                   signed
    -----------   --------------------------------------   ----------------------------
    github        X-Hub-Signature-256: sha256=HEX          the body
    gitlab        X-Gitlab-Token: TOKEN                    nothing
    slack         X-Slack-Signature: v0=HEX                v0:SECONDS:BODY
    standard      webhook-signature: v1,BASE64 …           ID.SECONDS.BODY
    stripe        Stripe-Signature: t=SECONDS,v1=HEX,…     SECONDS.BODY
    hmac-sha256   X-Signature, or `signature_header`       the body, or SECONDS.BODY
    token         Authorization: Bearer TOKEN, or another  nothing

Headers are compared as bytes: what no text encoding can hold is wrong, not a crash.
"""

import base64
import binascii
import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Literal

from actors.gateway.platforms.webhook.options import RouteOptions
from actors.gateway.signatures import hmac_matches, same, wire_bytes

Form = Literal["hex", "base64"]

MOST_SIGNATURES = 10
"""So many may a header hold; a key that is being changed makes two."""


@dataclass(frozen=True, slots=True)
class Denied:
    """The call is not believed; `why` is for our log and tells no secret."""

    why: str


@dataclass(frozen=True, slots=True)
class Verified:
    """The call is believed."""

    content: str | None
    """Names the signed content; None when nothing was signed. The same again is the same call again."""
    sent_at: datetime | None = None
    """When it was signed."""
    delivery: str = ""
    """The delivery's id, where it was signed too."""


def verify(
    route: RouteOptions, headers: Mapping[str, str], body: bytes, now: datetime, tolerance_s: int = 300
) -> Verified | Denied:
    """Say whether a call comes from who knows the route's secret, and not from long ago."""
    match route.signature:
        case "gitlab":
            return _token(route, _raw(headers, "X-Gitlab-Token"))
        case "token":
            return _token(route, _bearer(route, headers))
        case "github":
            return _signed(route, body, [_after(_raw(headers, "X-Hub-Signature-256"), b"sha256=")])
        case "slack":
            stamp = _raw(headers, "X-Slack-Request-Timestamp")
            given = [_after(_raw(headers, "X-Slack-Signature"), b"v0=")]
            signed = b"v0:%b:%b" % (stamp, body)
            return _timely(stamp, now, tolerance_s, lambda: _signed(route, signed, given))
        case "stripe":
            stamp, given = _stripe(_raw(headers, "Stripe-Signature"))
            signed = b"%b.%b" % (stamp, body)
            return _timely(stamp, now, tolerance_s, lambda: _signed(route, signed, given))
        case "standard":
            return _standard(route, headers, body, now, tolerance_s)
        case "hmac-sha256":
            return _plain_hmac(route, headers, body, now, tolerance_s)


def _raw(headers: Mapping[str, str], name: str) -> bytes:
    """Return a header's bytes as they came."""
    return wire_bytes(headers.get(name, "").strip())


def _after(given: bytes, prefix: bytes) -> bytes:
    return given[len(prefix) :] if given.startswith(prefix) else b""


def _token(route: RouteOptions, given: bytes) -> Verified | Denied:
    if same(given, route.secret.get_secret_value()):
        return Verified(None)
    return Denied("the token is wrong" if given else "no token")


def _bearer(route: RouteOptions, headers: Mapping[str, str]) -> bytes:
    if route.signature_header is not None and route.signature_header.lower() != "authorization":
        return _raw(headers, route.signature_header)
    given = _raw(headers, "Authorization")
    return given[7:].strip() if given[:7].lower() == b"bearer " else b""


def _signed(
    route: RouteOptions, signed: bytes, given: list[bytes], *, key: bytes | None = None, form: Form = "hex"
) -> Verified | Denied:
    usable = [each for each in given[:MOST_SIGNATURES] if each]
    if not usable:
        return Denied("no signature")
    secret = route.secret.get_secret_value() if key is None else key
    right = [hmac_matches(each, secret, signed, form=form) for each in usable]
    return Verified(hashlib.sha256(signed).hexdigest()) if any(right) else Denied("the signature is wrong")


def _timely(
    stamp: bytes, now: datetime, tolerance_s: int, check: Callable[[], Verified | Denied]
) -> Verified | Denied:
    sent_at = _moment(stamp)
    if sent_at is None:
        return Denied("no timestamp")
    verified = check()
    if isinstance(verified, Denied):
        return verified
    if abs((now - sent_at).total_seconds()) > tolerance_s:
        return Denied("the timestamp is not of now: compare the clocks of both machines")
    return Verified(verified.content, sent_at, verified.delivery)


def _moment(stamp: bytes) -> datetime | None:
    if not stamp.isdigit() or len(stamp) > 11:
        return None
    return datetime.fromtimestamp(int(stamp), UTC)


def _stripe(given: bytes) -> tuple[bytes, list[bytes]]:
    stamp, signatures = b"", []
    for part in given.split(b",")[: 2 * MOST_SIGNATURES]:
        name, _, value = part.strip().partition(b"=")
        if name == b"t":
            stamp = value
        elif name == b"v1":
            signatures.append(value)
    return stamp, signatures


def _standard(
    route: RouteOptions, headers: Mapping[str, str], body: bytes, now: datetime, tolerance_s: int
) -> Verified | Denied:
    delivery, stamp = _raw(headers, "webhook-id"), _raw(headers, "webhook-timestamp")
    if not delivery:
        return Denied("no webhook-id")
    given = [_after(each, b"v1,") for each in _raw(headers, "webhook-signature").split(b" ")]
    signed = b"%b.%b.%b" % (delivery, stamp, body)
    key = standard_key(wire_bytes(route.secret.get_secret_value()))
    verified = _timely(stamp, now, tolerance_s, lambda: _signed(route, signed, given, key=key, form="base64"))
    if isinstance(verified, Denied):
        return verified
    # The content is named by what is repeated: a retry is signed anew, under the same id.
    return Verified(verified.content, verified.sent_at, delivery.decode("utf-8", "replace")[:200])


def standard_key(secret: bytes) -> bytes:
    """Return the key of a Standard Webhooks secret: `whsec_` and base64, or any other text as it is."""
    if secret.startswith(b"whsec_"):
        try:
            return base64.b64decode(secret[6:], validate=True)
        except binascii.Error:
            pass
    return secret


def _plain_hmac(
    route: RouteOptions, headers: Mapping[str, str], body: bytes, now: datetime, tolerance_s: int
) -> Verified | Denied:
    given = _raw(headers, route.signature_header or "X-Signature")
    for prefix in (b"sha256=", b"v1=", b"v0="):
        if given.startswith(prefix):
            given = given[len(prefix) :]
            break
    if route.timestamp_header is None:
        return _signed(route, body, [given], form=route.encoding)
    stamp = _raw(headers, route.timestamp_header)
    signed = b"%b.%b" % (stamp, body)
    return _timely(stamp, now, tolerance_s, lambda: _signed(route, signed, [given], form=route.encoding))
