"""How long a provider wants us to wait: headers first, then the body, then its words."""

import math
import re
from collections.abc import Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime

_AGAIN_IN = re.compile(
    r"(?:try again|retry|retry after|wait)(?: again)?(?: in| after)? (?:about |approximately )?"
    r"((?:\d+(?:\.\d+)?\s*(?:ms|milliseconds?|h|hours?|m|min|minutes?|s|sec|seconds?)\s*)+)",
    re.IGNORECASE,
)
_PART = re.compile(r"(\d+(?:\.\d+)?)\s*([a-z]+)", re.IGNORECASE)


def retry_after(headers: Mapping[str, str], body: object, text: str, now: datetime) -> float | None:
    """Return the seconds to wait, None when the provider does not say."""
    if (milliseconds := _number(headers.get("retry-after-ms"))) is not None:
        return milliseconds / 1000
    value = headers.get("retry-after")
    if value:
        seconds = _number(value)
        if seconds is not None:
            return seconds
        try:
            moment = parsedate_to_datetime(value)
        except (ValueError, TypeError, IndexError, OverflowError):
            moment = None
        if moment is not None:
            moment = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
            return max(0.0, (moment - now).total_seconds())
    if (delay := _delay_in(body)) is not None:
        return delay
    found = _AGAIN_IN.search(text)
    return _duration(found.group(1)) if found else None


def _number(value: str | None) -> float | None:
    try:
        number = float(value) if value else None
    except ValueError:
        return None
    return number if number is not None and math.isfinite(number) and number >= 0 else None


def _delay_in(body: object, depth: int = 0) -> float | None:
    """Find a `retryDelay` such as Google's `"31s"`."""
    if depth > 5:
        return None
    if isinstance(body, Mapping):
        delay = body.get("retryDelay")
        if isinstance(delay, str):
            return _duration(delay)
        inside: object = [body.get("error"), body.get("details")]
    else:
        inside = body
    if isinstance(inside, list):
        for item in inside[:10]:
            if (found := _delay_in(item, depth + 1)) is not None:
                return found
    return None


def _duration(text: str) -> float | None:
    """Read `1h2m3.5s`, `350ms`, `20 seconds`."""
    total, found = 0.0, False
    for amount, unit in _PART.findall(text):
        unit = unit.lower()  # noqa: PLW2901 one word of the loop
        if unit.startswith(("ms", "milli")):
            factor = 0.001
        else:
            factor = {"h": 3600.0, "m": 60.0, "s": 1.0}.get(unit[0], 0.0)
        total, found = total + float(amount) * factor, True
    return total if found else None
