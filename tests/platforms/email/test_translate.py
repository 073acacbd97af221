"""Translation alone: who wrote, in which conversation, and what; and mails that no program should write."""

import base64
import random
import time
from datetime import UTC, datetime

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from actors.gateway.platforms.email.authentic import proven, results_of
from actors.gateway.platforms.email.charsets import decoded
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
    assert translated(raw(Subject="Out of office on Friday?")).heard.text == "hello"
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
        {"List_Unsubscribe": "<mailto:off@y.org>"},
        {"X_Autoreply": "yes"},
        {"Subject": "Automatic reply: Lunch"},
        {"Subject": "Automatische Antwort: Essen"},
        {"Subject": "=?utf-8?B?6Ieq5Yqo5Zue5aSN77ya5L2g5aW9?="},
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


@pytest.mark.parametrize(
    ("text", "written_in", "named"),
    [
        ("朱镕基", "gbk", "gb2312"),
        ("𠮷野家", "gb18030", "gbk"),
        ("€5 for “that”…", "cp1252", "iso-8859-1"),
        ("€5 for “that”", "cp1252", "us-ascii"),
        ("Grüße", "utf-8", "us-ascii"),
        ("①②③ ㈱ 髙島屋", "cp932", "shift_jis"),
        ("똠방각하 뷁", "cp949", "ks_c_5601-1987"),
        ("똠방각하 뷁", "cp949", "euc-kr"),
        ("שלום", "iso8859-8", "iso-8859-8-i"),
        ("Ğüneş €5", "cp1254", "iso-8859-9"),
        ("тест", "koi8-r", "koi8-r"),
        ("テスト", "iso2022_jp", "ISO-2022-JP"),
        ("héllo", "utf-8", "utf8mb4"),
        ("héllo", "utf-8", "unknown-8bit"),
        ("caf\u00e9", "latin-1", "x-no-such-thing"),
        ("caf\u00e9", "latin-1", "utf-8"),
        ("caf\u00e9", "utf-8", "punycode"),
    ],
)
def test_a_text_is_read_as_the_set_that_it_was_written_in(text: str, written_in: str, named: str) -> None:
    assert translated(in_bytes(text.encode(written_in), named)).heard.text == text
    word = base64.b64encode(text.encode(written_in)).decode()
    assert translated(raw(Subject=f"=?{named}?B?{word}?=")).subject == text


def test_circled_digits_in_seven_bit_japanese_are_read() -> None:
    raw_bytes = b'\x1b$B-!-"\x1b(B ' + "テスト".encode("iso2022_jp")
    assert translated(in_bytes(raw_bytes, "iso-2022-jp")).heard.text == "①② テスト"


def test_X01_an_address_that_looks_like_another_one_stays_another() -> None:
    assert translated(raw(From="\u212aim@y.org")).heard.author.id == "\u212aim@y.org"
    assert translated(raw(From="KIM@Y.org")).heard.author.id == "kim@y.org"


def test_one_broken_byte_costs_one_character() -> None:
    assert translated(in_bytes("wörld ".encode() + b"\xff!", "utf-8")).heard.text == "wörld \ufffd!"
    assert translated(in_bytes("你好".encode("gbk") + b"\xff!", "gb2312")).heard.text == "你好\ufffd!"


def test_headers_in_plain_utf_8_are_read() -> None:
    """Today's mails may write them so, and sloppy ones always did."""
    name = 'application/pdf; name="Menü.pdf"'
    found = translated(
        raw(
            "x",
            Subject="Grüße 你好",
            From="Jürgen 王 <ann@y.org>",
            Content_Type=name,
            Content_Disposition="attachment",
        )
    )
    assert (found.subject, found.heard.author.name) == ("Grüße 你好", "Jürgen 王")
    assert found.heard.surroundings.thread == "Grüße 你好"
    assert [file.name for file in found.files] == ["Menü.pdf"]
    mixed = translated(raw(Subject="你好 =?utf-8?Q?Gr=C3=BC=C3=9Fe?= 你好"))
    assert mixed.subject.replace(" ", "") == "你好Grüße你好"


def test_no_name_of_a_set_takes_long() -> None:
    for named in (
        "punycode",
        "idna",
        "unicode_escape",
        "raw_unicode_escape",
        "undefined",
        "hex",
        "zlib",
        "é",
    ):
        began = time.perf_counter()
        assert translated(in_bytes(b"a-\\u0041b" * 100_000, named)).heard.text.startswith("a-\\u0041b")
        assert time.perf_counter() - began < 5


def in_bytes(body: bytes, charset: str) -> bytes:
    return raw("", Content_Type=f"text/plain; charset={charset}") + body


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


@given(
    st.binary(max_size=200),
    st.sampled_from(["undefined", "utf-16", "utf-7", "iso-2022-kr", "hz", "", "ascii"]),
)
def test_any_bytes_are_some_text(body: bytes, named: str) -> None:
    assert isinstance(decoded(body, named), str)
