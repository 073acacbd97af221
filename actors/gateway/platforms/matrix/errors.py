"""What each error of a Matrix server means for us. Pure."""

import math
from collections.abc import Mapping
from typing import Any

from actors.gateway.edge import EdgeError
from actors.gateway.retry_after import retry_after
from messages.delivery import ProblemKind as K

KINDS: Mapping[str, K] = {
    "M_LIMIT_EXCEEDED": K.RATE_LIMITED,
    # Somebody must do something.
    "M_UNKNOWN_TOKEN": K.NEEDS_HUMAN,
    "M_MISSING_TOKEN": K.NEEDS_HUMAN,
    "M_USER_DEACTIVATED": K.NEEDS_HUMAN,
    "M_USER_LOCKED": K.NEEDS_HUMAN,
    "M_USER_SUSPENDED": K.NEEDS_HUMAN,
    "M_CONSENT_NOT_GIVEN": K.NEEDS_HUMAN,
    "M_GUEST_ACCESS_FORBIDDEN": K.NEEDS_HUMAN,
    "M_RESOURCE_LIMIT_EXCEEDED": K.NEEDS_HUMAN,
    "M_EXPIRED_ACCOUNT": K.NEEDS_HUMAN,
    "ORG_MATRIX_EXPIRED_ACCOUNT": K.NEEDS_HUMAN,
    # The room is gone, or does not let us in.
    "M_FORBIDDEN": K.TARGET_GONE,
    "M_NOT_FOUND": K.TARGET_GONE,
    "M_INCOMPATIBLE_ROOM_VERSION": K.TARGET_GONE,
    "M_UNSUPPORTED_ROOM_VERSION": K.TARGET_GONE,
    "M_NOT_JOINED": K.TARGET_GONE,
    # It will never be taken.
    "M_TOO_LARGE": K.REFUSED,
    "M_BAD_JSON": K.REFUSED,
    "M_NOT_JSON": K.REFUSED,
    "M_INVALID_PARAM": K.REFUSED,
    "M_MISSING_PARAM": K.REFUSED,
    "M_UNRECOGNIZED": K.REFUSED,
    "M_BAD_STATE": K.REFUSED,
    "M_DUPLICATE_ANNOTATION": K.REFUSED,
    "M_CANNOT_LEAVE_SERVER_NOTICE_ROOM": K.REFUSED,
    "M_EXCLUSIVE": K.REFUSED,
}
"""By the `errcode`."""

REMEDIES: Mapping[str, str] = {
    "M_UNKNOWN_TOKEN": "the server does not know the access token any more: give a new one",
    "M_MISSING_TOKEN": "the server wants an access token",
    "M_USER_DEACTIVATED": "the account is deactivated: use another one",
    "M_USER_LOCKED": "the account is locked: ask the server's administrator",
    "M_USER_SUSPENDED": "the account is suspended: ask the server's administrator",
    "M_CONSENT_NOT_GIVEN": "the server wants its terms accepted: log in with a browser once",
    "M_GUEST_ACCESS_FORBIDDEN": "the account is a guest's: register a real one",
    "M_RESOURCE_LIMIT_EXCEEDED": "the server has reached a limit of its own: ask its administrator",
}


def error_for(
    status: int,
    body: object,
    headers: Mapping[str, str] | None = None,
    *,
    posting: bool = False,
    login: bool = False,
    doing: str = "",
) -> EdgeError:
    """Classify an answer that is no success. `posting`: whether something may have been posted by it."""
    told: Mapping[str, Any] = body if isinstance(body, Mapping) else {}
    code = str(told.get("errcode") or "")[:80]
    kind = _kind(status, code, posting=posting)
    if login and kind in {K.TARGET_GONE, K.REFUSED}:
        kind = K.NEEDS_HUMAN
    said = str(told.get("error") or "")[:200]
    remedy = _remedy(code, login=login)
    words = [doing, remedy, f"{code or status}{': ' + said if said else ''}"]
    detail = "; ".join(word for word in words if word)
    wait = _wait(told, headers or {}) if kind is K.RATE_LIMITED else None
    return EdgeError(kind, detail, retry_after_s=wait)


def _kind(status: int, code: str, *, posting: bool) -> K:
    if status == 429:
        return K.RATE_LIMITED
    if status >= 500 or status in {200, 408}:
        # A proxy's answer, or none that can be read: the server behind it may have done what it was told.
        return K.UNKNOWN if posting else K.TRANSIENT
    if code in KINDS:
        return KINDS[code]
    match status:
        case 401:
            return K.NEEDS_HUMAN
        case 403 | 404 | 410:
            return K.TARGET_GONE
        case _:
            return K.REFUSED


def _remedy(code: str, *, login: bool) -> str:
    if login and code == "M_FORBIDDEN":
        return "the server does not take user and password"
    return REMEDIES.get(code, "")


def _wait(told: Mapping[str, Any], headers: Mapping[str, str]) -> float:
    """The header is what servers of today send; the field in the body is the older way."""
    if (seconds := retry_after(headers)) is not None:
        return seconds
    after = told.get("retry_after_ms")
    if isinstance(after, int | float) and not isinstance(after, bool) and math.isfinite(after):
        return min(max(float(after) / 1000, 0.0), 86_400.0)
    return 5.0
