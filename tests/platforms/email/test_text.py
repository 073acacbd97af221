"""What somebody wrote, and not what they quote; and what we write."""

from datetime import UTC, datetime
from email import message_from_bytes, policy

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from actors.gateway.platforms.email.compose import compose
from actors.gateway.platforms.email.options import EmailOptions
from actors.gateway.platforms.email.text import of_html, written
from messages.delivery import PartText
from tests.platforms.email.conftest import post

OPTIONS = {"address": "bot@x.org", "password": "pw", "imap_host": "imap.x.org", "smtp_host": "smtp.x.org"}
NOW = datetime(2026, 1, 1, tzinfo=UTC)


@pytest.mark.parametrize(
    ("mail", "text"),
    [
        ("Yes.\n\nOn Mon, 5 Jan 2026 at 10:00, Bot <b@x.org> wrote:\n> Shall we?\n> Now?\n", "Yes."),
        ("Yes.\n\nOn Mon, 5 Jan 2026 at 10:00, Somebody Longname\n<b@x.org> wrote:\n\n> Shall we?", "Yes."),
        ("Ja.\n\nAm 05.01.26 um 10:00 schrieb Bot:\n> Gehen wir?\n", "Ja."),
        ("Oui.\n\nLe lun. 5 janv. 2026 à 10:00, Bot <b@x.org> a écrit :\n\n> On y va ?", "Oui."),
        ("Yes.\n\n-----Original Message-----\nFrom: Bot\nSent: Monday\n\nShall we?", "Yes."),
        ("Ja.\n\n________________________________\nVon: Bot\nGesendet: Montag\nAn: Ann\nBetreff: x\n\nGehen wir?", "Ja."),
        ("Yes.\n\nFrom: Bot <b@x.org>\nDate: Monday\nTo: Ann\nSubject: x\n\nShall we?", "Yes."),
        ("> Shall we?\n\nYes.", "Yes."),
        ("Bot wrote on 5.1.:\n> Shall we?\n\nYes.\n\nAnn", "Yes.\n\nAnn"),
        ("> one?\nyes\n\n> two?\nno\n", "> one?\nyes\n\n> two?\nno"),
        ("Hello\n\nOn x wrote:\n> one?\n\nyes\n> two?\n\nno", "Hello\n\nOn x wrote:\n> one?\n\nyes\n> two?\n\nno"),
        ("Hello\n-- \nAnn Example\n+49 1", "Hello"),
        ("Hello\n\nSent from my iPhone", "Hello"),
        ("Sent from my heart", "Sent from my heart"),
        ("Summary:\n--\n", "Summary:"),
        ("From: here it is\nmy story begins", "From: here it is\nmy story begins"),
        ("> only a quotation", "> only a quotation"),
        ("a\n\n\n\n\nb", "a\n\nb"),
        ("Note: this\n> is no attribution of yours", "Note: this"),
        ("", ""),
    ],
)  # fmt: skip
def test_what_is_new_in_a_mail(mail: str, text: str) -> None:
    assert written(mail) == text
    assert written(mail.replace("\n", "\r\n")) == text


def test_a_forwarded_mail_stays_whole() -> None:
    mail = "Please sum this up.\n\n---------- Forwarded message ---------\nFrom: X <x@y.org>\nDate: Monday\n\nLong story."
    assert "Long story." in written(mail)
    other = "See below.\n\nFrom: X\nSent: Monday\nTo: Ann\n\nLong story."
    assert "Long story." in written(other, "Fwd: story")
    assert "Long story." in written(other, "WG: story")
    assert "Long story." not in written(other, "Re: story")


def test_html_becomes_what_its_reader_sees() -> None:
    page = (
        "<html><head><title>no</title><style>p {}</style></head><body><!-- no -->"
        "<div style='display:none'>hidden <b>words</b><br></div><p>Hi <b>you</b> &amp; me,</p>"
        '<ul><li>one</li><li>two</li></ul><a href="https://x.org/p">the page</a><pre>a\n  b</pre>'
        '<img alt="a cat"><div class="gmail_quote">On Mon, 5 Jan 2026, Bot wrote:<br>'
        "<blockquote>old<br>older</blockquote></div></body></html>"
    )
    text = of_html(page)
    assert text.startswith("Hi you & me,\n\n- one\n- two\nthe page (https://x.org/p)\na\n  b\na cat")
    assert "hidden" not in text
    assert "no" not in text.split("\n")[0]
    assert written(text).endswith("a cat")
    outlook = '<p>Yes.</p><div id="divRplyFwdMsg">From: Bot</div><p>old</p>'
    assert written(of_html(outlook)) == "Yes."


@pytest.mark.parametrize(
    "piece",
    [
        "<a ",
        "<!",
        "<!--",
        "<",
        "&#",
        "</",
        "<div>",
        "<blockquote>",
        "<script>",
        "<p style='",
        "\n",
        " ",
        ">\n",
        "x:\n> ",
        "-",
        "_",
        "From: a\n",
        "<![CDATA[",
    ],
)
def test_endless_repetition_does_not_take_for_ever(piece: str) -> None:
    text = piece * (200_000 // len(piece))
    written(of_html(text))
    written(text)


@settings(max_examples=200, deadline=None)
@given(st.text(max_size=2000))
def test_any_text_is_read_and_nothing_of_it_is_lost_wholly(text: str) -> None:
    of_html(text)
    assert bool(written(text)) or not text.replace("\u00a0", " ").strip() or not written(text)


@settings(max_examples=200, deadline=None)
@given(st.text(max_size=500), st.text(max_size=300), st.text(max_size=100), st.text(max_size=100))
def test_no_text_becomes_a_header(text: str, subject: str, thread: str, name: str) -> None:
    options = EmailOptions.model_validate(OPTIONS | {"name": name[:80]})
    body = PartText(text=text, file_name=None)
    made = post("ann@y.org", body=body, thread=thread or None, reply_to=subject or None)
    references = tuple(filter(None, (thread, "a@b")))
    raw = compose(
        options, made, (name or "f", "text/plain", b"x"), subject=subject, references=references, now=NOW
    ).as_bytes()
    mail = message_from_bytes(raw, policy=policy.default)
    assert set(mail.keys()) <= {
        "From",
        "To",
        "Subject",
        "Date",
        "Message-ID",
        "Auto-Submitted",
        "X-Auto-Response-Suppress",
        "In-Reply-To",
        "References",
        "MIME-Version",
        "Content-Type",
    }
    assert str(mail["To"]) == "ann@y.org"
    assert mail["From"].addresses[0].addr_spec == "bot@x.org"
    assert all(len(line) <= 998 for line in raw.split(b"\r\n"))
    assert b"\n" not in raw.replace(b"\r\n", b"")


def test_a_long_conversation_keeps_its_first_and_its_last() -> None:
    references = tuple(f"{n:03}{'x' * 60}@y.org" for n in range(60))
    mail = compose(
        EmailOptions.model_validate(OPTIONS),
        post("a@b.org"),
        None,
        subject="s",
        references=references,
        now=NOW,
    )
    kept = str(mail["References"]).split()
    assert (kept[0], kept[-1]) == (f"<{references[0]}>", f"<{references[-1]}>")
    assert mail["In-Reply-To"] == f"<{references[-1]}>"
    assert "=?" not in mail.as_string().split("\n\n")[0]


def test_options_say_what_is_wrong_with_them() -> None:
    assert EmailOptions.model_validate(OPTIONS).ours == {"bot@x.org"}
    for change in (
        {"address": "bot"},
        {"address": "Bot <bot@x.org>"},
        {"imap_security": "none"},
        {"smtp_security": "none"},
        {"aliases": ("x",)},
        {"idle_minutes": 60},
        {"whatever": 1},
    ):
        with pytest.raises(ValidationError):
            EmailOptions.model_validate(OPTIONS | change)
    assert "pw" not in repr(EmailOptions.model_validate(OPTIONS))
