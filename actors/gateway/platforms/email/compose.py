"""The mails that we write: from a post to bytes. Pure. No header can be smuggled in, whatever the text."""

import re
from datetime import datetime
from email import policy
from email.headerregistry import Address
from email.message import EmailMessage
from email.utils import format_datetime

from actors.gateway.edge import EdgeError
from actors.gateway.markup import plain
from actors.gateway.markup_html import html
from actors.gateway.platforms.email.options import ADDRESS, EmailOptions
from messages.delivery import Post, ProblemKind

LONGEST_SUBJECT = 78
MARK = "callboard"
_CONTROL = re.compile(r"[\x00-\x1f\x7f\u0085\u2028\u2029]+")
_ID = re.compile(r"[^<>\s\x00-\x20\x7f]{1,900}")
_POLICY = policy.SMTP.clone(max_line_length=990)
"""The library would encode ids that are longer than a line, and nobody would know them again."""
_LONGEST_CHAIN = 900


def message_id(key: str, domain: str) -> str:
    """Return the id of the mail that carries a post: the same for every try of it."""
    return f"{key}.{MARK}@{domain}"


def is_ours(mail_id: str, domain: str) -> bool:
    return mail_id.endswith(f".{MARK}@{domain}")


def compose(
    options: EmailOptions,
    post: Post,
    attachment: tuple[str, str, bytes] | None,
    *,
    subject: str,
    references: tuple[str, ...],
    now: datetime,
) -> EmailMessage:
    """Write the mail. `attachment` is name, media type and bytes. Raises EdgeError for a place that is no address."""
    to = post.place.chat or post.place.user or ""
    if not ADDRESS.fullmatch(to):
        raise EdgeError(ProblemKind.TARGET_GONE, f"{to[:80]!r} is no mail address")
    mail = EmailMessage(policy=_POLICY)
    mail["From"] = _address(options.name, options.address)
    mail["To"] = _address("", to)
    mail["Subject"] = subject_of(post, subject)
    mail["Date"] = format_datetime(now)
    mail["Message-ID"] = f"<{message_id(post.key, options.domain)}>"
    mail["Auto-Submitted"] = "auto-replied" if references or post.reply_to else "auto-generated"
    mail["X-Auto-Response-Suppress"] = "All"
    _thread(mail, post, references)
    text = "" if post.body.file_name is not None else post.body.text
    _body(mail, text, attachment)
    return mail


def _address(name: str, address: str) -> Address:
    local, _, domain = address.rpartition("@")
    return Address(display_name=_CONTROL.sub(" ", name).strip(), username=local, domain=domain)


def subject_of(post: Post, before: str) -> str:
    """`Re:` and the subject of the mail that is answered, or the beginning of what is said."""
    said = _CONTROL.sub(" ", before).strip()[:200]
    if said:
        return said if re.match(r"(?i)re\s*:", said) else f"Re: {said}"
    first = next((line.strip() for line in plain(post.body.text).split("\n") if line.strip()), "")
    first = _CONTROL.sub(" ", first) or "Message"
    return first if len(first) <= LONGEST_SUBJECT else first[: LONGEST_SUBJECT - 1] + "…"


def _thread(mail: EmailMessage, post: Post, references: tuple[str, ...]) -> None:
    chain = [each for each in references if _ID.fullmatch(each)]
    for each in (post.place.thread, post.reply_to):
        if each is not None and each not in chain and _ID.fullmatch(each) and not each.startswith("sha256-"):
            chain.append(each)
    if not chain:
        return
    while sum(map(len, chain)) + 3 * len(chain) > _LONGEST_CHAIN and len(chain) > 1:
        del chain[1 if len(chain) > 2 else 0]
    mail["In-Reply-To"] = f"<{chain[-1]}>"
    mail["References"] = " ".join(f"<{each}>" for each in chain)


def _body(mail: EmailMessage, text: str, attachment: tuple[str, str, bytes] | None) -> None:
    mail.set_content(plain(text) + "\n", charset="utf-8", cte="quoted-printable")
    if text.strip():
        page = f"<!DOCTYPE html>\n<html><body>\n{html(text)}\n</body></html>\n"
        mail.add_alternative(page, subtype="html", charset="utf-8", cte="quoted-printable")
    if attachment is not None:
        given, mime, data = attachment
        name = _CONTROL.sub(" ", given).strip() or "file"
        major, _, minor = mime.partition("/")
        mail.add_attachment(
            data, maintype=major or "application", subtype=minor or "octet-stream", filename=name
        )
