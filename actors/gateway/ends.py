"""How HTTP tells the end of a turn that has no answer, the same at every door."""

from typing import Final

_STATUS: Final = {"rate_limited": 429, "overloaded": 503, "no_model": 503}


def http_status_of(end: str) -> int:
    """Return the HTTP status for a kind of end (`ReplyOwed.status` of a notice): never that of an answer."""
    return _STATUS.get(end, 502)
