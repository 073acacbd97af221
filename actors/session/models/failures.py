"""What went wrong with a model call, and what to do about it: status, body and exception → Failure.

Structure decides first (HTTP status, the error's own type and code), the wording
last, and only where providers leave nothing else: a context overflow, an empty
account and a real rate limit all come as 400 or 429.
"""

import errno
import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from actors.session.models.headers import retry_after
from actors.session.models.remedies import remedy_for
from actors.session.models.where import Where
from messages.model import Failure, FailureKind

MOST_DETAIL = 500

_BY_TOKEN: dict[str, FailureKind] = {
    **dict.fromkeys(
        (
            "insufficient_quota",
            "insufficient_balance",
            "insufficient_credits",
            "billing_error",
            "billing_not_active",
            "billing_hard_limit_reached",
            "payment_required",
            "exceeded_current_quota_error",
            "credits_exhausted",
        ),
        FailureKind.BILLING,
    ),
    **dict.fromkeys(
        (
            "context_length_exceeded",
            "exceed_context_size_error",
            "context_window_exceeded",
            "model_context_window_exceeded",
            "context_too_long",
            "prompt_too_long",
        ),
        FailureKind.CONTEXT_OVERFLOW,
    ),
    **dict.fromkeys(
        ("request_too_large", "payload_too_large", "request_entity_too_large"), FailureKind.TOO_LARGE
    ),
    **dict.fromkeys(
        (
            "rate_limit_exceeded",
            "rate_limit_error",
            "rate_limit_reached_error",
            "rate_limited",
            "too_many_requests",
            "throttlingexception",
            "throttling",
            "toomanyrequestsexception",
            "resource_exhausted",
        ),
        FailureKind.RATE_LIMITED,
    ),
    **dict.fromkeys(
        (
            "overloaded_error",
            "overloaded",
            "server_overloaded",
            "engine_overloaded_error",
            "model_overloaded",
            "slow_down",
            "service_unavailable",
            "service_unavailable_error",
            "serviceunavailableexception",
            "unavailable",
            "unavailable_error",
            "modelnotreadyexception",
            "api_error",
            "server_error",
            "internal_server_error",
            "internalserverexception",
            "timeout_error",
        ),
        FailureKind.OVERLOADED,
    ),
    **dict.fromkeys(
        (
            "invalid_api_key",
            "invalid_authentication_error",
            "incorrect_api_key_error",
            "authentication_error",
            "unauthenticated",
            "unauthorized",
            "permission_error",
            "permission_denied",
            "permission_denied_error",
            "accessdeniedexception",
            "account_deactivated",
        ),
        FailureKind.AUTH,
    ),
    **dict.fromkeys(
        ("model_not_found", "not_found_error", "deploymentnotfound", "resourcenotfoundexception"),
        FailureKind.NOT_FOUND,
    ),
    **dict.fromkeys(
        (
            "content_filter",
            "content_policy_violation",
            "responsibleaipolicyviolation",
            "content_filter_error",
            "data_inspection_failed",
            "prohibited_content",
        ),
        FailureKind.REFUSED,
    ),
    "tool_use_failed": FailureKind.CUT,  # the model wrote a call that its server could not read: ask again
}

_NOT_OVERFLOW = re.compile(
    r"(?<!\+ )(?<!\+ `)max(?:imum)?[_ ](?:completion[_ ]|output[_ ]|new[_ ])?tokens.{0,40}(?:too large|too high|exceeds|must be|"
    r"greater than|at most|invalid)|supports at most \d+ completion tokens|please wait|too many requests|"
    r"rate limit|per minute|per day",
    re.IGNORECASE,
)
_OVERFLOW = re.compile(
    r"context[_ ](?:length|window|size|limit)[^.]{0,60}(?:exceed|too|over|reach|full|smaller|is|of)|"
    r"(?:exceed|larger than|longer than|beyond|greater than|overflow|outside)[^.]{0,60}context|"
    r"maximum context|max(?:imum)? (?:model|sequence|prompt|input) (?:length|len|tokens)|"
    r"(?:prompt|input|request|messages?|conversation)s? (?:is|are|was) too (?:long|large)|"
    r"input is too long|too many (?:input )?tokens|reduce the length|"
    r"input (?:token count|length)[^.]{0,60}exceed|input tokens exceed|"
    r"tokens?[^.]{0,40}exceeds?[^.]{0,40}(?:maximum|limit|context|allowed)|"
    r"inputs?`? tokens \+|n_ctx|n_keep|\btokens > \d+ maximum|maximum prompt length",
    re.IGNORECASE,
)
_BILLING = re.compile(
    r"credit balance|insufficient (?:credit|balance|fund|quota)|out of credits|no credits|"
    r"exceeded your current quota|check your plan and billing|billing|payment|purchase|top up|arrears",
    re.IGNORECASE,
)
_RATE = re.compile(r"rate.?limit|too many requests|throttl|too many tokens, please wait", re.IGNORECASE)
_OVERLOADED = re.compile(
    r"overloaded|over capacity|at capacity|temporarily unavailable|try again later|loading model|"
    r"model is (?:currently )?loading|upstream",
    re.IGNORECASE,
)
_NO_SUCH_MODEL = re.compile(
    r"model.{0,80}(?:not found|does not exist|not exist|is not supported|unknown|not a valid)|"
    r"(?:unknown|invalid|no such|unsupported) model|not a valid model|no endpoints found",
    re.IGNORECASE,
)
_BAD_KEY = re.compile(
    r"(?:invalid|incorrect|expired|missing|no) (?:api|auth|bearer)[ _-]?(?:key|token)|"
    r"api key (?:is )?(?:not valid|invalid|expired|missing)",
    re.IGNORECASE,
)
_REFUSED = re.compile(
    r"content (?:policy|filter|management)|safety system|flagged|moderation|usage polic", re.IGNORECASE
)
_NEVER_FITS = re.compile(r"limit:? ([\d,]+),? (?!used).{0,40}?requested:? ([\d,]+)", re.IGNORECASE)

_SECRETS = re.compile(
    r"\b(?:sk|rk|pk|gsk|xai|hf|nvapi|r8)[-_][A-Za-z0-9_*.-]{6,}|\bAIza[\w-]{10,}|"
    r"\b(Bearer|Basic) +[\w.~+/=*-]{6,}|\beyJ[\w-]{10,}\.[\w.-]+",
    re.IGNORECASE,
)
_TAGS = re.compile(r"<title[^>]*>(.*?)</title>", re.IGNORECASE | re.DOTALL)


def redact(text: str, secrets: tuple[str, ...] = ()) -> str:
    """Return the text as one line of at most 500 characters, without keys and without a web page."""
    head = text.lstrip()[:15].lower()
    if head.startswith(("<!doctype", "<html", "<?xml", "<head", "<body")):
        title = _TAGS.search(text[:20_000])
        text = f"a web page, not an API's answer{f': {title.group(1).strip()}' if title else ''}"
    text = text[:20_000]
    for secret in secrets:
        if len(secret) >= 4:
            text = text.replace(secret, "[key]")
    text = " ".join(_SECRETS.sub("[key]", text).split())
    text = "".join(character if character.isprintable() else "?" for character in text)
    return text if len(text) <= MOST_DETAIL else text[: MOST_DETAIL - 1] + "…"


@dataclass(frozen=True, slots=True)
class Problem:
    """An error body, read: its words, its codes, and a status it may carry itself."""

    text: str
    tokens: tuple[str, ...]
    status: int | None


def read_problem(body: object) -> Problem:
    """Find an error's message, type and code in any of the shapes that servers use."""
    tokens: list[str] = []
    texts: list[str] = []
    status: list[int] = []
    _gather(body, texts, tokens, status, depth=0)
    return Problem("; ".join(dict.fromkeys(texts)), tuple(tokens), status[0] if status else None)


_INSIDE = ("error", "errors", "innererror", "metadata", "detail", "details")
_NAMES = ("code", "type", "status", "reason", "__type", "error_type")
_WORDS = ("message", "msg", "error", "detail", "error_description", "raw", "title", "reasons")


def _gather(body: object, texts: list[str], tokens: list[str], status: list[int], depth: int) -> None:
    if depth > 5:
        return
    if isinstance(body, str) and depth == 0:
        texts.append(body)
    elif isinstance(body, list):
        for item in body[:5]:
            _gather(item, texts, tokens, status, depth + 1)
    elif isinstance(body, Mapping):
        for name in _WORDS:
            value = body.get(name)
            texts.extend([value] if isinstance(value, str) and value else [])
        for name in _NAMES:
            value = body.get(name)
            if isinstance(value, str):
                tokens.append(value.lower())
                if value.isdecimal() and len(value) == 3:
                    status.append(int(value))
            elif isinstance(value, int) and not isinstance(value, bool) and 400 <= value < 600:
                status.append(value)
        for name in _INSIDE:
            _gather(body.get(name), texts, tokens, status, depth + 1)


def classify(
    status: int | None, body: object, headers: Mapping[str, str], where: Where, now: datetime
) -> Failure:
    """Say what an error answer means. `status` None: it came inside a stream."""
    body = _decoded(body)
    problem = read_problem(body)
    inner = status if status is not None and status >= 400 else problem.status
    kind = kind_of(inner, problem, streamed=status is None or status < 400)
    detail = redact(problem.text or _as_text(body), where.secrets) or "no reason was given"
    if inner is not None:
        detail = redact(f"HTTP {inner}: {detail}")
    return Failure(
        kind=kind,
        detail=detail,
        remedy=remedy_for(kind, where, inner, problem.text),
        retry_after_s=retry_after(headers, body, problem.text, now),
        may_retry=headers.get("x-should-retry", "").lower() != "false",
        status=inner,
        model=where.model,
    )


def kind_of(status: int | None, problem: Problem, *, streamed: bool = False) -> FailureKind:
    """Decide the class: what can never fit, the error's own code, the status, the wording."""
    text = problem.text
    fits = _NEVER_FITS.search(text)
    if fits and _number(fits.group(2)) > _number(fits.group(1)):
        return FailureKind.CONTEXT_OVERFLOW
    for token in problem.tokens:
        kind = _BY_TOKEN.get(token)
        if kind is not None:
            return _refined(kind, status, text)
    return _by_status(status, text, streamed=streamed)


def _refined(kind: FailureKind, status: int | None, text: str) -> FailureKind:
    """Correct the codes that providers use for two things."""
    if (
        kind in (FailureKind.RATE_LIMITED, FailureKind.AUTH)
        and _BILLING.search(text)
        and not _RATE.search(text)
    ):
        return FailureKind.BILLING
    if kind is FailureKind.OVERLOADED and status in (400, 413, 500) and _is_overflow(text):
        return FailureKind.CONTEXT_OVERFLOW
    return kind


def _by_status(status: int | None, text: str, *, streamed: bool) -> FailureKind:
    match status:
        case 401:
            return FailureKind.AUTH
        case 402:
            return FailureKind.BILLING
        case 403:
            if _BILLING.search(text):
                return FailureKind.BILLING
            return FailureKind.REFUSED if _REFUSED.search(text) else FailureKind.AUTH
        case 404 | 405 | 410:
            return FailureKind.NOT_FOUND
        case 413:
            return FailureKind.CONTEXT_OVERFLOW if _is_overflow(text) else FailureKind.TOO_LARGE
        case 429:
            return (
                FailureKind.BILLING
                if _BILLING.search(text) and not _RATE.search(text)
                else FailureKind.RATE_LIMITED
            )
        case 408 | 409 | 425 | 529:
            return FailureKind.OVERLOADED
        case int() if status >= 500:
            return FailureKind.CONTEXT_OVERFLOW if _is_overflow(text) else FailureKind.OVERLOADED
    found = _by_wording(text)
    if found is not None:
        return found
    return FailureKind.OVERLOADED if streamed and status is None else FailureKind.INVALID_REQUEST


def _by_wording(text: str) -> FailureKind | None:
    if _is_overflow(text):
        return FailureKind.CONTEXT_OVERFLOW
    for pattern, kind in (
        (_BILLING, FailureKind.BILLING),
        (_RATE, FailureKind.RATE_LIMITED),
        (_OVERLOADED, FailureKind.OVERLOADED),
        (_BAD_KEY, FailureKind.AUTH),
        (_NO_SUCH_MODEL, FailureKind.NOT_FOUND),
        (_REFUSED, FailureKind.REFUSED),
    ):
        if pattern.search(text):
            return kind
    return None


def _is_overflow(text: str) -> bool:
    return bool(_OVERFLOW.search(text)) and not _NOT_OVERFLOW.search(text)


def _number(text: str) -> int:
    return int(text.replace(",", "") or "0")


def _decoded(body: object) -> object:
    if isinstance(body, bytes):
        body = body.decode("utf-8", "replace")
    if isinstance(body, str) and body.lstrip()[:1] in ("{", "["):
        try:
            decoded: object = json.loads(body)
        except (ValueError, RecursionError):
            return body
        return decoded
    return body


def _as_text(body: object) -> str:
    return body if isinstance(body, str) else json.dumps(body, default=str) if body else ""


# ----------------------------------------------------------------- connections


def classify_connection(error: BaseException, where: Where) -> Failure:
    """Say what an error of the connection means (nothing answered, or it broke before a proper end)."""
    causes = list(_causes(error))
    numbers = {cause.errno for cause in causes if isinstance(cause, OSError)}
    names = {type(cause).__name__ for cause in causes}
    words = next((str(cause) for cause in reversed(causes) if str(cause)), type(error).__name__)
    if errno.ECONNREFUSED in numbers:
        said, remedy = "connection refused", remedy_for(FailureKind.NETWORK, where, None, "refused")
    elif any("DNS" in name or name == "gaierror" for name in names):
        said, remedy = "the name was not found", remedy_for(FailureKind.NETWORK, where, None, "name")
    elif any("Certificate" in name or "SSL" in name for name in names):
        said, remedy = "TLS failed", remedy_for(FailureKind.NETWORK, where, None, "tls")
    elif any("Payload" in name or name == "ReadError" for name in names):
        return Failure(
            kind=FailureKind.CUT,
            detail=redact(f"the connection broke in the middle of the answer: {words}", where.secrets),
            model=where.model,
        )
    else:
        said, remedy = "the connection failed", remedy_for(FailureKind.NETWORK, where, None, "")
    return Failure(
        kind=FailureKind.NETWORK,
        detail=redact(f"{where.address}: {said} ({words})", where.secrets),
        remedy=remedy,
        model=where.model,
    )


def _causes(error: BaseException) -> Iterator[BaseException]:
    seen: set[int] = set()
    current: BaseException | None = error
    while current is not None and id(current) not in seen:
        seen.add(id(current))
        yield current
        inner: Any = getattr(current, "os_error", None)
        if isinstance(inner, BaseException) and id(inner) not in seen:
            yield inner
        current = current.__cause__ or current.__context__
