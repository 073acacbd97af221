"""Who really sent a mail, as our own server found (RFC 8601). Pure and total."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

_COMMENT = re.compile(r"\([^()]*\)")
_RESULT = re.compile(r"\s*([a-z0-9-]{1,40})(?:\s*/\s*\d+)?\s*=\s*([a-z]{1,20})", re.IGNORECASE)
_PROPERTY = re.compile(
    r"([a-z]{1,20})\s*\.\s*([a-z0-9_-]{1,40})\s*=\s*(\"[^\"]{0,500}\"|[^\s;]{1,500})", re.IGNORECASE
)


@dataclass(frozen=True, slots=True)
class Result:
    """One method's result."""

    method: str
    result: str
    properties: dict[str, str] = field(default_factory=dict)


def results_of(header: str) -> tuple[str, tuple[Result, ...]]:
    """Return who checked, and what was found."""
    text = _without_comments(header[:20_000])
    name, *parts = text.split(";")
    words = name.split()
    found = []
    for part in parts[:50]:
        result = _RESULT.match(part)
        if result is None:
            continue
        properties = {
            f"{kind}.{prop}".lower(): value.strip('"').lower()
            for kind, prop, value in _PROPERTY.findall(part[result.end() :])
        }
        found.append(Result(result[1].lower(), result[2].lower(), properties))
    return (words[0].lower() if words else ""), tuple(found)


def proven(headers: Sequence[str], authserv: str, address: str) -> bool:
    """Say whether a server that we trust found that the mail is from this address's domain.

    Only the topmost of its headers counts: what stands below may have come with the mail.
    A result must be about the address's own domain (or one above it); who can send
    from another domain proves nothing about this one.
    """
    domain = address.rpartition("@")[2].lower().rstrip(".")
    for header in headers:
        name, results = results_of(header)
        if name == authserv.lower():
            return any(_proves(result, domain) for result in results)
    return False


def _proves(result: Result, domain: str) -> bool:
    if result.result != "pass":
        return False
    return any(_covers(found, domain) for found in _domains(result))


def _domains(result: Result) -> Iterator[str]:
    given = result.properties
    match result.method:
        case "dmarc":
            yield given.get("header.from", "")
        case "dkim":
            yield given.get("header.d", "") or given.get("header.i", "").rpartition("@")[2]
        case "spf":
            yield given.get("smtp.mailfrom", "").rpartition("@")[2]


def _covers(found: str, domain: str) -> bool:
    """Whether a domain speaks for another: the same, or one above it that is no mere ending."""
    found = found.strip().rstrip(".")
    if not found or "." not in found:
        return False
    return domain == found or domain.endswith("." + found)


def _without_comments(text: str) -> str:
    for _ in range(10):  # comments may stand in comments
        text, count = _COMMENT.subn(" ", text)
        if not count:
            break
    return text
