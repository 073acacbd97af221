"""What each answer of a mail server means for us. Pure."""

import re

from actors.gateway.edge import EdgeError
from messages.delivery import ProblemKind as K

_ENHANCED = re.compile(r"\b([245])\.(\d{1,3})\.(\d{1,3})\b")

_GONE = {"1.0", "1.1", "1.2", "1.3", "1.6", "1.10", "2.0", "2.1"}
"""Enhanced status codes: no such mailbox, no such host, moved, disabled. The class 5 goes without saying."""
_OURS = {"7.0", "7.8", "7.9", "7.11", "7.14", "1.7", "1.8"}
"""Of the login and of our own address: somebody must mend it."""
_TOO_LARGE = {"2.3", "3.4"}

_GONE_WORDS = re.compile(
    r"(user|mailbox|recipient|address)\b.{0,40}\b(unknown|not found|does ?n.t exist|unavailable|disabled|inactive|"
    r"no longer|rejected)|no such (user|mailbox|recipient)|unknown (user|mailbox|recipient)|unrouteable|bounce",
    re.IGNORECASE,
)
_LIMIT_WORDS = re.compile(
    r"too many|rate ?limit|limit exceeded|quota|throttl|slow down|try again later.*(limit|many)",
    re.IGNORECASE,
)
LIMIT_WAIT_S = 300.0
"""Mail servers do not say how long to wait."""


def smtp_error(code: int, message: str, *, stage: str) -> EdgeError:
    """Classify a refusal; `stage`: `connect`, `login`, `sender`, `recipient` or `data`. Nothing was posted."""
    text = " ".join(message.split())[:300]
    enhanced = _ENHANCED.search(text)
    status = f"{int(enhanced[2])}.{int(enhanced[3])}" if enhanced else ""
    kind, detail = _kind(code, status, text, stage)
    return EdgeError(kind, detail, retry_after_s=LIMIT_WAIT_S if kind is K.RATE_LIMITED else None)


def _kind(code: int, status: str, text: str, stage: str) -> tuple[K, str]:
    told = f"the mail server says {code} {text}"
    if 400 <= code < 500:
        return (K.RATE_LIMITED if _LIMIT_WORDS.search(text) and stage != "recipient" else K.TRANSIENT), told
    if stage == "login" or code in {530, 534, 535, 538}:
        return K.NEEDS_HUMAN, f"the server for sending does not take user and password: {told}"
    if stage == "connect":
        return K.NEEDS_HUMAN, f"the server for sending does not let us in: {told}"
    if stage == "sender" or (status in _OURS and stage != "recipient" and status.startswith("1")):
        return K.NEEDS_HUMAN, f"the server does not let us write from our own address: {told}"
    if status in _TOO_LARGE or code == 552:
        return K.REFUSED, f"the mail is too large: {told}"
    if stage == "recipient" and (status in _GONE or (not status and _no_mailbox(code, text))):
        return K.TARGET_GONE, f"there is no such mailbox: {told}"
    return K.REFUSED, told


def _no_mailbox(code: int, text: str) -> bool:
    return code in {550, 551, 553, 521, 556} or bool(_GONE_WORDS.search(text))


def imap_login_error(message: str) -> EdgeError:
    """Classify a failed login at the IMAP server: some are over in a minute."""
    text = " ".join(message.split())[:300]
    if re.search(r"UNAVAILABLE|INUSE|temporar|too many|LIMIT|try again", text, re.IGNORECASE):
        return EdgeError(K.TRANSIENT, f"the mailbox cannot be opened now: {text}")
    return EdgeError(
        K.NEEDS_HUMAN,
        f"the mailbox does not take user and password: {text}. Many providers want a password made for "
        "programs (app password)",
    )
