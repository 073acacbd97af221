"""What answers of failure mean: a table of those that look alike and are not."""

from datetime import timedelta
from email.utils import format_datetime
from typing import Any

import pytest

from actors.session.models.failures import classify, classify_connection, redact
from messages.model import FailureKind
from tests.actors.session.models.wires import KEY, NOW, WHERE

K = FailureKind


def error(message: str = "", **fields: Any) -> dict[str, Any]:
    return {"error": {"message": message, **fields}}


TPM = "Request too large for gpt-4o on tokens per min (TPM): Limit 30000, Requested 45000."
USED = "Rate limit reached for gpt-4o on tokens per min (TPM): Limit 30000, Used 29000, Requested 2000. Please try again in 1.5s."
TABLE: list[tuple[FailureKind, int | None, Any]] = [
    # -- too long for the context
    (
        K.CONTEXT_OVERFLOW,
        400,
        error("prompt is too long: 205000 tokens > 200000 maximum", type="invalid_request_error"),
    ),
    (
        K.CONTEXT_OVERFLOW,
        400,
        error("This model's maximum context length is 8192 tokens.", code="context_length_exceeded"),
    ),
    (K.CONTEXT_OVERFLOW, 400, error("x", code="context_length_exceeded", type="invalid_request_error")),
    (
        K.CONTEXT_OVERFLOW,
        400,
        error(
            "The input token count (1100000) exceeds the maximum number of tokens allowed (1048576).",
            code=400,
            status="INVALID_ARGUMENT",
        ),
    ),
    (
        K.CONTEXT_OVERFLOW,
        400,
        {"__type": "ValidationException", "message": "Input is too long for requested model."},
    ),
    (
        K.CONTEXT_OVERFLOW,
        400,
        error("the request exceeds the available context size", type="exceed_context_size_error", code=400),
    ),
    (
        K.CONTEXT_OVERFLOW,
        500,
        error("the request exceeds the available context size. try increasing it", type="server_error"),
    ),
    (K.CONTEXT_OVERFLOW, 429, error(TPM, type="tokens", code="rate_limit_exceeded")),
    (K.CONTEXT_OVERFLOW, 413, error("Prompt is too long for the model's context window")),
    (
        K.CONTEXT_OVERFLOW,
        400,
        {
            "object": "error",
            "message": "This model's maximum context length is 4096 tokens. However, you requested 5000 tokens.",
            "code": 400,
        },
    ),
    (
        K.CONTEXT_OVERFLOW,
        400,
        {"detail": "Requested token count exceeds the model's maximum context length of 32768 tokens."},
    ),
    (K.CONTEXT_OVERFLOW, 400, error("Please reduce the length of the messages or completion.")),
    (
        K.CONTEXT_OVERFLOW,
        422,
        error(
            "Input validation error: `inputs` tokens + `max_new_tokens` must be <= 4096. Given: 5000 `inputs` tokens and 20 `max_new_tokens`"
        ),
    ),
    (K.CONTEXT_OVERFLOW, 400, error("Your input exceeds the context window of this model.")),
    (
        K.CONTEXT_OVERFLOW,
        400,
        "Trying to keep the first 5000 tokens when context the overflows. n_keep > n_ctx",
    ),
    (K.CONTEXT_OVERFLOW, None, error("prompt is too long: 9 tokens > 8 maximum")),
    (
        K.CONTEXT_OVERFLOW,
        400,
        error(
            "input length and `max_tokens` exceed context limit: 188240 + 21333 > 200000, decrease input length or `max_tokens` and try again",
            type="invalid_request_error",
        ),
    ),
    # -- looks like it, and is not
    (
        K.RATE_LIMITED,
        400,
        {"__type": "ThrottlingException", "message": "Too many tokens, please wait before trying again."},
    ),
    (K.RATE_LIMITED, 429, {"message": "Too many tokens, please wait before trying again."}),
    (K.RATE_LIMITED, 429, error(USED, type="tokens", code="rate_limit_exceeded")),
    (
        K.INVALID_REQUEST,
        400,
        error(
            "max_tokens is too large: 100000. This model supports at most 16384 completion tokens",
            code="invalid_value",
        ),
    ),
    (
        K.INVALID_REQUEST,
        400,
        error(
            "max_tokens: 100000 > 8192, which is the maximum allowed number of output tokens",
            type="invalid_request_error",
        ),
    ),
    (K.TOO_LARGE, 413, error("Request exceeds the maximum size", type="request_too_large")),
    (K.TOO_LARGE, 413, "<html><title>413 Request Entity Too Large</title></html>"),
    # -- money
    (
        K.BILLING,
        429,
        error(
            "You exceeded your current quota, please check your plan and billing details.",
            code="insufficient_quota",
        ),
    ),
    (
        K.BILLING,
        400,
        error("Your credit balance is too low to access the Anthropic API.", type="invalid_request_error"),
    ),
    (K.BILLING, 402, error("Insufficient credits")),
    (K.BILLING, 402, ""),
    (K.BILLING, 403, error("Your account has no credits left, purchase some")),
    (K.BILLING, 429, error("Your account is suspended due to insufficient balance")),
    # -- pace
    (K.RATE_LIMITED, 429, error("Rate limit reached", code="rate_limit_exceeded")),
    (
        K.RATE_LIMITED,
        429,
        error("This request would exceed your organization's rate limit", type="rate_limit_error"),
    ),
    (K.RATE_LIMITED, 429, ""),
    (K.RATE_LIMITED, 429, error("Resource has been exhausted", status="RESOURCE_EXHAUSTED", code=429)),
    (K.OVERLOADED, 529, error("Overloaded", type="overloaded_error")),
    (K.OVERLOADED, 503, error("Loading model", type="unavailable_error", code=503)),
    (K.OVERLOADED, 503, error("The model is overloaded. Please try again later.", status="UNAVAILABLE")),
    (K.OVERLOADED, 500, "<html>oops</html>"),
    (K.OVERLOADED, 502, ""),
    (K.OVERLOADED, 504, ""),
    (K.OVERLOADED, 408, ""),
    # -- the key, the name, the rules
    (K.AUTH, 401, error("Incorrect API key provided", code="invalid_api_key")),
    (K.AUTH, 401, error("invalid x-api-key", type="authentication_error")),
    (K.AUTH, 401, ""),
    (K.AUTH, 403, "<!DOCTYPE html><title>Attention Required! | Cloudflare</title>"),
    (K.AUTH, 403, error("Your region is not supported", type="permission_error")),
    (K.AUTH, 400, error("API key not valid. Please pass a valid API key.", status="INVALID_ARGUMENT")),
    (K.NOT_FOUND, 404, error("The model `gpt-9` does not exist", code="model_not_found")),
    (K.NOT_FOUND, 404, error("model: claude-9", type="not_found_error")),
    (K.NOT_FOUND, 404, error('model "qwen9" not found, try pulling it first')),
    (K.NOT_FOUND, 404, "404 page not found"),
    (K.NOT_FOUND, 400, error("acme/x is not a valid model ID", code=400)),
    (K.REFUSED, 400, error("The response was filtered", code="content_filter")),
    (K.REFUSED, 403, error("Input was flagged by moderation", metadata={"reasons": "violence"})),
    (K.INVALID_REQUEST, 400, error("messages: roles must alternate", type="invalid_request_error")),
    (K.INVALID_REQUEST, 422, {"detail": [{"loc": ["body"], "msg": "field required", "type": "missing"}]}),
    # -- inside a stream, where the status is 200
    (K.OVERLOADED, None, error("upstream overloaded", code=502)),
    (K.OVERLOADED, 200, error("Provider returned error", code=502)),
    (K.RATE_LIMITED, None, error("slow", code=429)),
    (K.OVERLOADED, None, error("something odd")),
]


@pytest.mark.parametrize(("kind", "status", "body"), TABLE)
def test_L07_L16_every_failure_has_its_class(kind: FailureKind, status: int | None, body: Any) -> None:
    assert classify(status, body, {}, WHERE, NOW).kind is kind


@pytest.mark.parametrize(
    ("headers", "body", "seconds"),
    [
        ({"retry-after": "20"}, "", 20.0),
        ({"retry-after": "1.5"}, "", 1.5),
        ({"retry-after-ms": "350", "retry-after": "1"}, "", 0.35),
        ({"retry-after": format_datetime(NOW + timedelta(seconds=90), usegmt=True)}, "", 90.0),
        ({"retry-after": format_datetime(NOW - timedelta(seconds=90), usegmt=True)}, "", 0.0),
        ({"retry-after": "soon"}, "", None),
        ({"retry-after": "nan"}, "", None),
        ({"retry-after": "-5"}, "", None),
        ({"retry-after": ""}, "", None),
        ({}, error("Please try again in 1.5s."), 1.5),
        ({}, error("Please try again in 6m12s."), 372.0),
        ({}, error("Please try again in 20 seconds"), 20.0),
        ({}, error("Please try again in 350ms"), 0.35),
        ({}, error("x", details=[{"@type": "RetryInfo", "retryDelay": "31s"}]), 31.0),
        ({}, error("x"), None),
    ],
)
def test_L16_how_long_to_wait(headers: dict[str, str], body: Any, seconds: float | None) -> None:
    found = classify(429, body, headers, WHERE, NOW).retry_after_s
    assert found == (pytest.approx(seconds) if seconds is not None else None)


def test_L16_a_provider_may_forbid_the_second_try() -> None:
    assert classify(429, "", {"x-should-retry": "false"}, WHERE, NOW).may_retry is False
    assert classify(429, "", {}, WHERE, NOW).may_retry is True


@pytest.mark.parametrize(
    "text",
    [
        f"Incorrect API key provided: {KEY}.",
        "Incorrect API key provided: sk-proj-********************abcd",
        "header Authorization: Bearer abcdef0123456789",
        "key AIzaSyA0123456789abcdefghijk in the URL",
    ],
)
def test_no_key_is_in_a_detail(text: str) -> None:
    detail = classify(401, error(text), {}, WHERE, NOW).detail
    assert "[key]" in detail
    for part in ("0123456789", "abcd", "*"):
        assert part not in detail


def test_a_detail_is_one_short_line() -> None:
    detail = redact("a\nb\t c\x00" + "x" * 10_000)
    assert "\n" not in detail
    assert len(detail) <= 500


def test_a_web_page_is_not_shown() -> None:
    page = "<!DOCTYPE html><html><head><title>Bad\n gateway</title></head><body>" + "<p>x</p>" * 1000
    assert redact(page) == "a web page, not an API's answer: Bad gateway"


@pytest.mark.parametrize(
    ("status", "body", "said"),
    [
        (401, "", "ACME_KEY"),
        (404, error("no such model", code="model_not_found"), "acme-1"),
        (404, "", "model.name"),
        (404, "", "base_url"),
        (402, "", "Top it up"),
        (400, error("max_tokens is too large; at most 16384 completion tokens"), "16384"),
        (400, error("prompt is too long"), "/new"),
    ],
)
def test_a_remedy_says_what_to_do(status: int, body: Any, said: str) -> None:
    assert said in classify(status, body, {}, WHERE, NOW).remedy


def test_a_refused_connection_names_the_address_and_the_setting() -> None:
    try:
        try:
            raise ConnectionRefusedError(111, "Connect call failed")
        except OSError as inner:
            raise RuntimeError("Connection error.") from inner
    except RuntimeError as outer:
        failure = classify_connection(outer, WHERE)
    assert failure.kind is K.NETWORK
    assert WHERE.address in failure.remedy
    assert "base_url" in failure.remedy


@pytest.mark.parametrize(
    "body",
    [
        None,
        5,
        [],
        [[[[[[[["deep"]]]]]]]],
        {"error": None},
        {"error": {"message": None, "code": None}},
        b"\xff\xfe",
        "{broken",
    ],
)
def test_no_body_makes_it_raise(body: Any) -> None:
    assert classify(400, body, {}, WHERE, NOW).detail
