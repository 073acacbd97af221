"""Recorded mails, for fuzzing."""

from datetime import UTC, datetime
from typing import Any

from actors.gateway.platforms.email.translate import Arrived, Translated, Us, translate
from tests.platforms.fuzz import FuzzTarget

AT = datetime(2026, 1, 1, 12, tzinfo=UTC)
OPEN = Us(frozenset({"assistant@x.org"}))
CHECKING = Us(frozenset({"assistant@x.org"}), trusted_authserv="mx.x.org")

_HEAD = (
    b"Return-Path: <ann@y.org>\r\n"
    b"Authentication-Results: mx.x.org; dkim=pass (2048-bit key) header.d=y.org header.i=@y.org;\r\n"
    b"\tspf=pass smtp.mailfrom=ann@y.org; dmarc=pass (p=REJECT) header.from=y.org\r\n"
    b"From: =?utf-8?q?Ann_=C3=9Cber?= <ann@y.org>\r\n"
    b"To: Assistant <assistant@x.org>\r\n"
    b"Subject: =?utf-8?b?TWl0dGFn?= again\r\n"
    b"Date: Thu, 1 Jan 2026 12:00:00 +0100\r\n"
    b"Message-ID: <CAF+1@mail.y.org>\r\n"
    b"MIME-Version: 1.0\r\n"
)
_REPLY = (
    b"In-Reply-To: <0123456789abcdef01234567.callboard@x.org>\r\n"
    b"References: <CAF+0@mail.y.org>\r\n <0123456789abcdef01234567.callboard@x.org>\r\n"
)
_PLAIN = (
    b'Content-Type: text/plain; charset="utf-8"\r\nContent-Transfer-Encoding: quoted-printable\r\n\r\n'
    b"Ja, gern.=\r\n Um eins?\r\n\r\nAm Do., 1. Jan. 2026 um 11:00 schrieb Callboard <assistant@x.org>:\r\n"
    b"> Gehen wir essen?\r\n> Ich habe Zeit.\r\n-- \r\nAnn\r\n"
)
_HTML = (
    b"Content-Type: text/html; charset=windows-1252\r\nContent-Transfer-Encoding: 8bit\r\n\r\n"
    b"<html><head><style>p{}</style></head><body><p>Ja, <b>gern</b>&nbsp;\x85</p>"
    b'<div style="display:none">x</div><div class="gmail_quote">On Thu, Bot wrote:<br>'
    b'<blockquote type="cite">Gehen wir <a href="https://x.org/a?b=c&amp;d">essen</a>?</blockquote></div></body></html>\r\n'
)
_FILE = (
    b"Content-Type: application/pdf; name*=utf-8''Men%C3%BC.pdf\r\nContent-Transfer-Encoding: base64\r\n"
    b'Content-Disposition: attachment; filename*0="Me"; filename*1="nu.pdf"\r\n\r\nJVBERi0xLjQK\r\n'
)
_PICTURE = (
    b"Content-Type: image/png\r\nContent-ID: <logo>\r\nContent-Disposition: inline\r\n"
    b"Content-Transfer-Encoding: base64\r\n\r\niVBORw0KGgo=\r\n"
)
_FORWARDED = b"Content-Type: message/rfc822\r\n\r\nFrom: b@z.org\r\nSubject: inner\r\n\r\nhi\r\n"
_STATUS = (
    b"Content-Type: message/delivery-status\r\n\r\nReporting-MTA: dns; mx.z.org\r\n\r\n"
    b"Final-Recipient: rfc822; gone@z.org\r\nAction: failed\r\nStatus: 5.1.1\r\n"
)


def _parts(kind: bytes, *parts: bytes, mark: bytes = b"b1") -> bytes:
    inner = b"".join(b"--" + mark + b"\r\n" + part + b"\r\n" for part in parts)
    return (
        b"Content-Type: multipart/"
        + kind
        + b'; boundary="'
        + mark
        + b'"\r\n\r\n'
        + inner
        + b"--"
        + mark
        + b"--\r\n"
    )


SHAPES: list[Any] = [
    _HEAD + _PLAIN,
    _HEAD + _REPLY + _PLAIN,
    _HEAD + _HTML,
    _HEAD + _parts(b"alternative", _PLAIN, _HTML),
    _HEAD + _parts(b"mixed", _parts(b"alternative", _PLAIN, _HTML, mark=b"b2"), _FILE, _FORWARDED),
    _HEAD + _parts(b"related", _HTML, _PICTURE),
    _HEAD + _parts(b"report", b"Content-Type: text/plain\r\n\r\nsorry", _STATUS),
    _HEAD + _parts(b"encrypted", b"Content-Type: application/octet-stream\r\n\r\nxx"),
    _HEAD.replace(b"MIME-Version", b"Auto-Submitted: auto-replied\r\nMIME-Version") + _PLAIN,
    _HEAD.replace(b"MIME-Version", b"List-Id: <news.y.org>\r\nPrecedence: list\r\nMIME-Version") + _PLAIN,
    b"From: ann@y.org\nSubject: bare\n\nbare line ends\n",
]


def feed(raw: object) -> object:
    data = raw if isinstance(raw, bytes) else str(raw).encode("utf-8", "replace")
    whole, beginning = Arrived(data, "uid-1-1", AT), Arrived(data[:500], "uid-1-2", AT, len(data))
    found = [translate(arrived, us, AT) for arrived in (whole, beginning) for us in (OPEN, CHECKING)]
    return [each.heard for each in found if isinstance(each, Translated)]


FUZZ = FuzzTarget(SHAPES, feed)
