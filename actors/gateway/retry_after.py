"""How long an answer's header wants us to wait. Pure.

HTTP allows seconds and a date. A date is compared with the `Date` of the same answer,
not with our clock, which may be wrong.
"""

import re
from collections.abc import Mapping
from datetime import datetime
from email.utils import parsedate_to_datetime

LONGEST_WAIT_S = 86_400.0
_SECONDS = re.compile(r"[0-9]+(?:\.[0-9]*)?")


def retry_after(headers: Mapping[str, str], most_s: float = LONGEST_WAIT_S) -> float | None:
    """Return the seconds of `Retry-After`, at most `most_s`; None where it is missing or makes no sense."""
    told = str(headers.get("Retry-After") or "").strip()
    if _SECONDS.fullmatch(told):
        seconds = float(told)
    else:
        until, now = _moment(told), _moment(str(headers.get("Date") or ""))
        if until is None or now is None:
            return None
        seconds = max((until - now).total_seconds(), 0.0)
    return min(seconds, most_s)


def _moment(text: str) -> datetime | None:
    try:
        moment = parsedate_to_datetime(text)
    except (ValueError, TypeError, IndexError, OverflowError):
        return None
    return moment if moment.tzinfo is not None else None
