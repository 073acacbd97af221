"""Translation alone: who wrote, in which conversation, and what; and mails that no program should write."""

import random
from datetime import UTC, datetime

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from actors.gateway.platforms.email.authentic import proven, results_of
from actors.gateway.platforms.email.translate import Arrived, Refusal, Skipped, Translated, Us, translate
from messages.gateway import ChatType

NOW = datetime(2026, 1, 1, tzinfo=UTC)
US = Us(frozenset({"bot@x.org"}))
CHECKED = Us(frozenset({"bot@x.org"}), trusted_authserv="mx.x.org")


def raw(body: str = "hello", **headers: str | None) -> bytes:
    given: dict[str, str | None] = {
        "From": "Ann Example <Ann@Y.org>",
        "To": "bot@x.org",
        "Subject": "Lunch",
        "Message-ID": "<1@y.org>",
        "MIME-Version": "1.0",
        "Content-Type": "text/plain; charset=utf-8",
        "Content-Transfer-Encoding": "8bit",
    }
    given |= {name.replace("_", "-"): value for name, value in headers.items()}
    head = "".join(f"{name}: {value}\r\n" for name, value in given.items() if value is not None)
    return f"{head}\r\n{body}".encode("utf-8", "surrogateescape")


def translated(mail: bytes, us: Us = US) -> Translated:
    found = translate(Arrived(mail, "uid-1-2", NOW), us, NOW)
    assert isinstance(found, Translated), found
    return found


def test_a_plain_mail() -> None:
    found = translated(raw("Hi\r\nthere"))
    heard = found.heard
    assert (heard.author.id, heard.author.name, heard.text) == ("ann@y.org", "Ann Example", "Hi\nthere")
    assert (heard.message_id, heard.origin.thread, heard.origin.chat) == ("1@y.org", "1@y.org", "ann@y.org")
    assert heard.sent_at == NOW
    assert translated(raw("", Subject="Are you there?")).heard.text == "Are you there?"
    assert translated(raw(Message_ID=None)).heard.message_id == "uid-1-2"
    assert translated(raw("/stop\n\n-- \nAnn")).heard.text == "/stop"
    claim = translated(raw("/claim 12-34\n")).heard
    assert (claim.origin.chat_type, claim.origin.thread, claim.text) == (
        ChatType.DM,
        "1@y.org",
        "/claim 12-34",
    )
    assert heard.origin.chat_type is ChatType.THREAD


def test_conversations() -> None:
    reply = translated(
        raw(References="<a@y.org>\r\n <b@x.org>", In_Reply_To="<b@x.org>", Message_ID="<c@y.org>")
    )
    assert reply.references == ("a@y.org", "b@x.org", "c@y.org")
    assert reply.heard.origin.thread == "a@y.org"
    assert reply.heard.quote is not None
    assert reply.heard.quote.message_id == "b@x.org"
    assert translated(raw(In_Reply_To="<b@x.org>")).heard.origin.thread == "b@x.org"
    long = translated(raw(References=" ".join(f"<{n}@y.org>" for n in range(500))))
    assert (long.references[0], len(long.references)) == ("0@y.org", 22)
    huge = translated(raw(Message_ID=f"<{'x' * 800}@y.org>"))
    assert huge.heard.message_id.startswith("sha256-")


@pytest.mark.parametrize(
    "sender",
    [
        "Ann <ann@y.org>, Bob <bob@y.org>",
        "ann@y.org <evil@z.org>",
        "undisclosed",
        "",
        "a@b@c.org",
        '"ann@y.org"',
        "<>",
    ],
)
def test_a_sender_that_is_not_one_address_is_refused(sender: str) -> None:
    assert isinstance(translate(Arrived(raw(From=sender), "u", NOW), US, NOW), Refusal)


def test_two_senders_are_refused_and_a_name_that_looks_like_an_address_is_a_name() -> None:
    double = raw().replace(b"To:", b"From: evil@z.org\r\nTo:")
    assert isinstance(translate(Arrived(double, "u", NOW), US, NOW), Refusal)
    heard = translated(raw(From='"boss@x.org" <evil@z.org>')).heard
    assert (heard.author.id, heard.author.name) == ("evil@z.org", "boss@x.org")
    encoded = translated(raw(From="=?utf-8?b?w5xiZXI=?= <u@y.org>", Subject="=?utf-8?q?=C3=A4?=")).heard
    assert (encoded.author.name, encoded.surroundings.thread) == ("Über", "ä")


@pytest.mark.parametrize(
    "headers",
    [
        {"Auto_Submitted": "auto-replied; owner=x"},
        {"Auto_Submitted": "AUTO-GENERATED"},
        {"Precedence": "Bulk"},
        {"List_Id": "x"},
        {"X_Autoreply": "yes"},
        {"Return_Path": "<>"},
        {"From": "BOT@x.org"},
        {"From": "mailer-daemon@y.org"},
        {"From": "no-reply@y.org"},
        {"From": "noreply+tag@y.org"},
        {"Content_Type": "multipart/report; boundary=b"},
    ],
)
def test_machines_lists_and_ourselves_get_no_answer(headers: dict[str, str]) -> None:
    assert isinstance(translate(Arrived(raw(**headers), "u", NOW), US, NOW), Skipped)


def test_a_report_names_who_could_not_be_reached() -> None:
    body = (
        "--b\r\nContent-Type: message/delivery-status\r\n\r\nReporting-MTA: dns; x\r\n\r\n"
        "Final-Recipient: rfc822; gone@y.org\r\nAction: failed\r\n\r\n--b--\r\n"
    )
    found = translate(Arrived(raw(body, Content_Type='multipart/report; boundary="b"'), "u", NOW), US, NOW)
    assert found == Skipped("a report of a mail server", "gone@y.org")


@pytest.mark.parametrize(
    ("result", "good"),
    [
        ("mx.x.org; dmarc=pass header.from=y.org", True),
        ("mx.x.org; dkim=pass (good) header.d=y.org; spf=fail", True),
        ("mx.x.org 1; spf=pass smtp.mailfrom=ann@y.org", True),
        ("MX.X.ORG; dkim=pass header.i=@y.org", True),
        ("mx.x.org; dkim=pass header.d=evil.org; spf=pass smtp.mailfrom=x@evil.org", False),
        ("mx.x.org; dkim=pass header.d=sub.y.org", False),
        ("mx.x.org; dkim=pass header.d=org", False),
        ("mx.x.org; dmarc=fail header.from=y.org; dkim=none", False),
        ("mx.x.org; none", False),
        ("other.org; dmarc=pass header.from=y.org", False),
        ("mx.x.org.evil.org; dmarc=pass header.from=y.org", False),
        ("(mx.x.org; dmarc=pass header.from=y.org) evil.org; none", False),
        ("mx.x.org; dmarc=fail (dmarc=pass header.from=y.org)", False),
    ],
)
def test_only_what_our_own_server_proved_counts(result: str, good: bool) -> None:
    found = translate(Arrived(raw(Authentication_Results=result), "u", NOW), CHECKED, NOW)
    assert isinstance(found, Translated) is good


def test_a_result_that_came_with_the_mail_does_not_count() -> None:
    headers = ["mx.x.org; dmarc=fail header.from=y.org", "mx.x.org; dmarc=pass header.from=y.org"]
    assert not proven(headers, "mx.x.org", "ann@y.org")
    assert proven(headers[::-1], "mx.x.org", "ann@y.org")
    assert not proven([], "mx.x.org", "ann@y.org")
    assert proven(["mx.x.org; dkim=pass header.d=y.org"], "mx.x.org", "ann@mail.y.org")


def multipart(kind: str, *parts: str) -> bytes:
    body = "".join(f"--b\r\n{part}\r\n" for part in parts) + "--b--\r\n"
    return raw(body, Content_Type=f'multipart/{kind}; boundary="b"')


def test_the_plain_text_is_taken_and_else_the_html() -> None:
    plain = "Content-Type: text/plain\r\n\r\nplain"
    html = "Content-Type: text/html\r\n\r\n<p>rich <b>text</b></p><script>x</script>"
    assert translated(multipart("alternative", plain, html)).heard.text == "plain"
    assert (
        translated(multipart("alternative", "Content-Type: text/plain\r\n\r\n \r\n", html)).heard.text
        == "rich text"
    )
    assert translated(multipart("mixed", plain, plain)).heard.text == "plain\n\nplain"
    odd = raw("caf\udce9", Content_Type="text/plain; charset=no-such-thing")
    assert translated(odd).heard.text == "café"


def test_attachments_have_names_and_small_pictures_inside_the_text_are_none() -> None:
    picture = "Content-Type: image/png\r\nContent-ID: <x>\r\nContent-Disposition: inline\r\nContent-Transfer-Encoding: base64\r\n\r\niVBORw0KGgo="
    forward = "Content-Type: message/rfc822\r\n\r\nSubject: inner\r\n\r\nhi"
    invite = "Content-Type: text/calendar\r\n\r\nBEGIN:VCALENDAR"
    found = translated(multipart("mixed", "Content-Type: text/plain\r\n\r\nhi", picture, forward, invite))
    assert [(f.name, f.mime) for f in found.files] == [
        ("inner.eml", "message/rfc822"),
        ("text.calendar", "text/calendar"),
    ]
    beginning = translate(
        Arrived(multipart("mixed", picture.replace("Content-ID: <x>\r\n", ""), forward), "u", NOW, 10**8),
        US,
        NOW,
    )
    assert isinstance(beginning, Translated)
    assert [f.data for f in beginning.files] == [None, None]


SHAPES = [
    raw("> quoted\n\nown\n-- \nsig", References="<a@y.org> <b@x.org>"),
    multipart(
        "alternative",
        "Content-Type: text/plain\r\n\r\nplain",
        "Content-Type: text/html; charset=latin-1\r\n\r\n<p>x",
    ),
    multipart(
        "mixed",
        "Content-Type: application/pdf; name*=utf-8''%E4.pdf\r\nContent-Transfer-Encoding: base64\r\n\r\nAAAA",
    ),
    raw(
        From="=?utf-8?b?w5xiZXI=?= <u@y.org>",
        Subject="=?utf-8?q?=C3=A4?= =?x?b?!?=",
        Authentication_Results="a; b=c (d(e)) f.g=h",
    ),
    multipart("report", "Content-Type: message/delivery-status\r\n\r\nFinal-Recipient: rfc822; x"),
]


def test_no_mail_raises() -> None:
    chance = random.Random(7)
    outcomes: dict[type, int] = {}
    for _ in range(4000):
        mail = bytearray(chance.choice(SHAPES))
        for _ in range(chance.randint(1, 12)):
            at = chance.randrange(len(mail))
            match chance.randrange(4):
                case 0:
                    mail[at] = chance.randrange(256)
                case 1:
                    del mail[at : at + chance.randrange(40)]
                case 2:
                    mail[at:at] = chance.choice(
                        [
                            b"\r\n",
                            b"=?utf-8?b?",
                            b"\0",
                            b"<",
                            b"--b\r\n",
                            b"\xff\xfe",
                            b"Content-Type: multipart/mixed\r\n",
                            b"(" * 50,
                        ]
                    )
                case _:
                    mail[at:at] = mail[at // 2 : at]
            if not mail:
                mail = bytearray(b"x")
        for us in (US, CHECKED):
            outcome = translate(Arrived(bytes(mail[:200_000]), "u", NOW), us, NOW)
            outcomes[type(outcome)] = outcomes.get(type(outcome), 0) + 1
    assert set(outcomes) == {Translated, Skipped, Refusal}


@settings(max_examples=150, deadline=None)
@given(st.binary(max_size=2000), st.text(max_size=200))
def test_any_bytes_at_all(data: bytes, line: str) -> None:
    translate(Arrived(data, "u", NOW), CHECKED, NOW)
    translate(Arrived(b"From: a@b.org\r\n\r\n" + data, "u", NOW), US, NOW)
    results_of(line)


def test_a_mail_of_nested_parts_ends() -> None:
    deep = b"".join(
        b'Content-Type: multipart/mixed; boundary="%d"\r\n\r\n--%d\r\n' % (n, n) for n in range(900)
    )
    found = translate(Arrived(b"From: a@b.org\r\n" + deep, "u", NOW), US, NOW)
    assert isinstance(found, Translated | Refusal)
