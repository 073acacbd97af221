"""From a mail as it lies in the mailbox to what is handed in. Pure and total: it takes bytes and refuses aloud."""

import hashlib
import re
from dataclasses import dataclass, field
from datetime import datetime
from email import message_from_bytes
from email.errors import HeaderParseError, MessageError
from email.header import decode_header
from email.message import Message as Mail
from email.policy import compat32
from email.utils import getaddresses

from pydantic import ValidationError

from actors.gateway.platforms.email.authentic import proven
from actors.gateway.platforms.email.charsets import decoded
from actors.gateway.platforms.email.options import ADDRESS
from actors.gateway.platforms.email.text import of_html, written
from messages.gateway import Author, ChatType, MessageReceived, Origin, Quote, Surroundings
from messages.ids import MessageId

LONGEST_ID = 200
LONGEST_NAME = 200
MOST_PARTS = 200
SMALLEST_PICTURE = 5000
"""Smaller pictures inside the text are signatures and trackers."""

_AS_IT_IS = compat32.clone(cte_type="8bit", max_line_length=0)
"""Headers are not encoded anew: with strange ones that takes the library minutes."""

_ID = re.compile(r"<([^<>\s]{1,900})>")
_BULK = {"bulk", "list", "junk", "auto_reply"}
_LIST = "list-"
"""Begins what lists and newsletters write (`List-Id`, `List-Unsubscribe`), and no person."""
_AUTOMATIC = {"x-autoreply", "x-autorespond", "x-autoresponder"}
_MACHINES = re.compile(
    r"^(?:mailer-daemon|postmaster|no-?reply|do-?not-?reply|bounces?|notifications?-noreply)(?:[+-].*)?$",
    re.IGNORECASE,
)
_AUTOMATIC_SUBJECT = re.compile(
    r"\s*(?:auto(?:matic(?:ally)?)?[ -]?(?:generated )?(?:reply|response)|out of (?:the )?office|autoreply"
    r"|automatische antwort|abwesenheits\w+|réponse automatique|respuesta autom[aá]tica|resposta autom[aá]tica"
    r"|risposta automatica|automatisch antwoord|automatiskt svar|автоответ|自动回复|自動回覆|自動応答)\s*[:\uff1a]",
    re.IGNORECASE,
)
"""What programs for absence write, also those that set no header. A colon belongs to it: people may ask about such mails."""
_CLAIM = re.compile(r"/claim\b", re.IGNORECASE)
"""What makes somebody the owner is about the person, not about a conversation of mails."""
_REPLY = re.compile(
    r"^\s*(?:re|aw|antw|sv|vs|odp|res|ref|回复|答复)\s*(?:\[\d+\])?\s*[:\uff1a]\s*", re.IGNORECASE
)


@dataclass(frozen=True, slots=True)
class Us:
    """Whose mailbox it is."""

    addresses: frozenset[str]
    """Lower case."""
    trusted_authserv: str | None = None
    platform: str = "email"
    account: str = "main"


@dataclass(frozen=True, slots=True)
class Arrived:
    """A mail in the mailbox."""

    raw: bytes
    fallback_id: str
    """Its id where it has none of its own."""
    at: datetime
    """When our server got it. What a mail says of its own date is not trusted."""
    whole_size: int | None = None
    """Of a mail of which only the beginning was fetched."""


@dataclass(frozen=True, slots=True)
class Attached:
    """A file in a mail; None where it was not fetched."""

    name: str
    mime: str
    data: bytes | None


@dataclass(frozen=True, slots=True)
class Translated:
    """A message to hand in, and what an answer to it will need."""

    heard: MessageReceived
    files: tuple[Attached, ...]
    subject: str
    references: tuple[str, ...]
    """Ids of the mails before it and its own, oldest first."""


@dataclass(frozen=True, slots=True)
class Skipped:
    """A mail that nobody waits for an answer to; `why` in a few words."""

    why: str
    detail: str = ""


@dataclass(frozen=True, slots=True)
class Refusal:
    """A mail that cannot be understood."""

    why: str


Outcome = Translated | Skipped | Refusal


def translate(arrived: Arrived, us: Us, now: datetime) -> Outcome:
    """Translate one mail."""
    try:
        return _translated(message_from_bytes(arrived.raw), arrived, us, now)
    except (
        ValidationError,
        ValueError,
        LookupError,
        TypeError,
        AttributeError,
        MessageError,
        RecursionError,
    ) as error:
        return Refusal(f"{type(error).__name__}: {str(error)[:200]}")


def _translated(mail: "Mail[str, str]", arrived: Arrived, us: Us, now: datetime) -> Outcome:
    sender = _sender(mail)
    if isinstance(sender, Refusal):
        return sender
    address, name = sender
    skipped = _skipped(mail, address, us)
    if skipped is not None:
        return skipped
    message_id, root, references = _ids(mail, arrived.fallback_id)
    subject = header(mail, "Subject")[:500]
    text, files = _content(mail, truncated=arrived.whole_size is not None)
    said = written(text, subject) or _REPLY.sub("", subject).strip()
    answered = references[-2] if len(references) > 1 else None
    heard = MessageReceived(
        message_id=MessageId(message_id),
        origin=Origin(
            platform=us.platform,
            account=us.account,
            chat_type=ChatType.DM if _CLAIM.match(said) else ChatType.THREAD,
            chat=address,
            thread=root,
            user=address,
        ),
        author=Author(id=address, name=name[:LONGEST_NAME], alias=_alias(address)),
        text=said,
        mentions_us=True,
        quote=Quote(message_id=MessageId(short(answered))) if answered else None,
        surroundings=Surroundings(thread=_REPLY.sub("", subject)[:LONGEST_NAME]),
        sent_at=arrived.at,
        at=now,
    )
    return Translated(heard, files, subject, references)


def _sender(mail: "Mail[str, str]") -> tuple[str, str] | Refusal:
    """The one address that the mail is from, in lower case, and the name beside it."""
    given = _given(mail, "From")
    if len(given) != 1:
        return Refusal("not one sender: there are several From lines, or none")
    found = getaddresses([_one_line(given[0])])
    if len(found) != 1:
        return Refusal("not one sender: From names several")
    name, address = found[0]
    bare = f'"{address}"' not in given[0] or f"<{address}>" in given[0]
    if not bare or not ADDRESS.fullmatch(address):
        return Refusal("a sender without an address")
    return _small(address), _decoded(name)


def _small(address: str) -> str:
    """Write an address in small letters: in ASCII alone, for `\u212a` in small is a `k` and somebody else's address."""
    return "".join(each.lower() if each.isascii() else each for each in address)


def _alias(address: str) -> str:
    """What models are told instead of the address."""
    return "mail-" + hashlib.sha256(address.encode("utf-8", "replace")).hexdigest()[:12]


def _skipped(mail: "Mail[str, str]", address: str, us: Us) -> Skipped | None:
    """Say why a mail gets no answer: an answer to a machine is answered by the machine."""
    if address in us.addresses:
        return Skipped("our own")
    if mail.get_content_type() == "multipart/report":
        return Skipped("a report of a mail server", _failed_recipient(mail))
    submitted = header(mail, "Auto-Submitted").partition(";")[0].strip().lower()
    if submitted not in {"", "no"}:
        return Skipped("sent by a machine")
    if header(mail, "Precedence").strip().lower() in _BULK:
        return Skipped("bulk mail")
    if any(name.lower().startswith(_LIST) or name.lower() in _AUTOMATIC for name in mail.keys()):  # noqa: SIM118
        return Skipped("a mailing list or a machine")
    if _AUTOMATIC_SUBJECT.match(header(mail, "Subject")):
        return Skipped("sent by a machine")
    if mail.get("Return-Path") is not None and header(mail, "Return-Path").strip() == "<>":
        return Skipped("a mail without a sender to return to")
    if _MACHINES.match(address.partition("@")[0]):
        return Skipped("an address that reads no answers")
    if us.trusted_authserv is not None:
        headers = [_one_line(str(each)) for each in mail.get_all("Authentication-Results") or []]
        if not proven(headers, us.trusted_authserv, address):
            return Skipped("the sender is not proven")
    return None


def _failed_recipient(mail: "Mail[str, str]") -> str:
    """What a report of a failed delivery says, for the log."""
    for part in _walk(mail):
        if part.get_content_type() == "message/delivery-status":
            for each in _children(part)[:20]:
                recipient = header(each, "Final-Recipient").partition(";")[2].strip()
                if recipient:
                    return recipient[:300]
    return ""


def _ids(mail: "Mail[str, str]", fallback: str) -> tuple[str, str, tuple[str, ...]]:
    """The mail's own id, the first of its conversation, and all in between."""
    own_found = _ID.search(header(mail, "Message-ID"))
    own = own_found[1] if own_found else fallback
    chain = chain_of(mail, own)
    return short(own), short(chain[0]), chain


def chain_of(mail: "Mail[str, str]", own: str) -> tuple[str, ...]:
    """Return the ids of the mails that went before, oldest first, and its own."""
    before = _ID.findall(header(mail, "References")[:60_000])
    parents = _ID.findall(header(mail, "In-Reply-To")[:2000])
    chain = [each for each in before if each != own]
    chain += [each for each in parents[:1] if each not in chain and each != own]
    # Long conversations: the first one names it, the last ones are what programs look at.
    chain = chain[:1] + chain[-20:] if len(chain) > 21 else chain
    return (*chain, own)


def short(message_id: str) -> str:
    """An id that fits everywhere."""
    if len(message_id) <= LONGEST_ID:
        return message_id
    return "sha256-" + hashlib.sha256(message_id.encode("utf-8", "replace")).hexdigest()


# ------------------------------------------------------------------ what is inside


@dataclass
class _Found:
    texts: list[str] = field(default_factory=list)
    files: list[Attached] = field(default_factory=list)
    parts: int = 0


def _content(mail: "Mail[str, str]", *, truncated: bool) -> tuple[str, tuple[Attached, ...]]:
    found = _Found()
    _collect(mail, found, truncated=truncated, depth=0)
    return "\n\n".join(text for text in found.texts if text.strip()), tuple(found.files)


def _collect(part: "Mail[str, str]", found: _Found, *, truncated: bool, depth: int) -> None:
    found.parts += 1
    if found.parts > MOST_PARTS or depth > 20:
        return
    kind = part.get_content_type()
    if kind == "multipart/alternative" and part.is_multipart():
        _alternative(_children(part), found, truncated=truncated, depth=depth)
    elif kind == "multipart/encrypted":
        found.texts.append("[an encrypted mail, which cannot be read here]")
    elif part.is_multipart() and kind != "message/rfc822":
        for child in _children(part):
            _collect(child, found, truncated=truncated, depth=depth + 1)
    elif _is_file(part, kind):
        _file(part, kind, found, truncated=truncated)
    elif kind in {"text/plain", "text/html"}:
        text = _text(part)
        found.texts.append(of_html(text) if kind == "text/html" else text)


def _alternative(parts: "list[Mail[str, str]]", found: _Found, *, truncated: bool, depth: int) -> None:
    """Of several forms of one text, take the plain one; the HTML when there is none, or nothing in it."""
    inner: dict[str, _Found] = {}
    for part in parts:
        one = _Found(parts=found.parts)
        _collect(part, one, truncated=truncated, depth=depth + 1)
        found.parts = one.parts
        plain = "plain" if part.get_content_type() == "text/plain" else "rich"
        kept = inner.setdefault(plain, _Found())
        kept.texts = one.texts or kept.texts
        kept.files += one.files
    for kind in ("plain", "rich"):
        if kind in inner and any(text.strip() for text in inner[kind].texts):
            found.texts += inner[kind].texts
            break
    for each in inner.values():
        found.files += each.files


def _is_file(part: "Mail[str, str]", kind: str) -> bool:
    if part.get_content_disposition() == "attachment" or _name(part):
        return True
    return not kind.startswith("text/") or kind not in {"text/plain", "text/html"}


def _file(part: "Mail[str, str]", kind: str, found: _Found, *, truncated: bool) -> None:
    name = _name(part)
    if kind == "message/rfc822":
        inner = _children(part)
        subject = header(inner[0], "Subject")[:80] if inner else ""
        data: bytes | None = inner[0].as_bytes(policy=_AS_IT_IS) if inner else b""
        name = name or f"{subject or 'mail'}.eml"
    else:
        payload = part.get_payload(decode=True)
        data = payload if isinstance(payload, bytes) else b""
    inside = part.get_content_disposition() != "attachment" and part.get("Content-ID") is not None
    if inside and kind.startswith("image/") and len(data or b"") < SMALLEST_PICTURE:
        return
    found.files.append(Attached(name or _named_by(kind), kind, None if truncated else data))


def _named_by(kind: str) -> str:
    return f"{kind.partition('/')[0]}.{re.sub(r'[^a-z0-9]', '', kind.partition('/')[2])[:8] or 'bin'}"


def _name(part: "Mail[str, str]") -> str:
    read: Mail[str, str] = Mail()
    for header_name in ("Content-Disposition", "Content-Type"):
        for value in _given(part, header_name)[:1]:
            read[header_name] = _one_line(value)
    name = read.get_filename()
    return _decoded(str(name)) if name else ""


def _children(part: "Mail[str, str]") -> "list[Mail[str, str]]":
    payload = part.get_payload()
    return [each for each in payload if isinstance(each, Mail)] if isinstance(payload, list) else []


def _walk(part: "Mail[str, str]") -> "list[Mail[str, str]]":
    found: list[Mail[str, str]] = []
    waiting = [part]
    while waiting and len(found) < MOST_PARTS:
        each = waiting.pop()
        found.append(each)
        waiting += _children(each)
    return found


def _text(part: "Mail[str, str]") -> str:
    payload = part.get_payload(decode=True)
    charset = part.get_content_charset()
    return decoded(payload if isinstance(payload, bytes) else b"", None if charset is None else str(charset))


# ------------------------------------------------------------------ headers


def header(mail: "Mail[str, str]", name: str) -> str:
    """Return a header's text on one line; empty when it is not there."""
    found = _given(mail, name)
    return _decoded(_one_line(found[0])) if found else ""


def _given(mail: "Mail[str, str]", name: str) -> list[str]:
    """Return a header's values as they were written: today's mails write UTF-8 there, older ones anything."""
    wanted = name.lower()
    return [_readable(str(value)) for each, value in mail.raw_items() if each.lower() == wanted]


def _readable(value: str) -> str:
    """Make text of what the library kept as bytes in disguise."""
    if value.isascii():
        return value
    return decoded(value.encode("utf-8", "surrogateescape"), "utf-8")


def _one_line(text: str) -> str:
    return re.sub(r"[\r\n\x00]+[ \t]*", " ", text[:100_000])


def _decoded(text: str) -> str:
    try:
        parts = decode_header(text)
    except (HeaderParseError, ValueError):
        return text
    said = []
    for part, charset in parts:
        if isinstance(part, str):
            said.append(part)
        elif charset is None:
            # What stands between encoded words, as the library hands it out.
            said.append(
                part.decode("ascii" if part.isascii() and text.isascii() else "raw-unicode-escape", "replace")
            )
        else:
            said.append(decoded(part, charset))
    return _one_line("".join(said)).strip()
