"""Providers' words for why a model stopped → our words. Unknown words are kept and logged, never fatal."""

import structlog

from messages.model import FailureKind, StopReason

log = structlog.get_logger(__name__)

_STOPS: dict[str, StopReason] = {
    **dict.fromkeys(
        ("stop", "end_turn", "stop_sequence", "end", "eos", "eos_token", "completed"), StopReason.END
    ),
    **dict.fromkeys(("tool_calls", "tool_use", "function_call", "tool_call"), StopReason.TOOL_CALLS),
    **dict.fromkeys(
        ("length", "max_tokens", "max_output_tokens", "max_completion_tokens", "incomplete"),
        StopReason.LENGTH,
    ),
    **dict.fromkeys(
        (
            "model_context_window_exceeded",
            "context_length_exceeded",
            "context_window_exceeded",
            "model_length",
        ),
        StopReason.CONTEXT_FULL,
    ),
    **dict.fromkeys(
        (
            "refusal",
            "content_filter",
            "content_filtered",
            "guardrail_intervened",
            "safety",
            "image_safety",
            "recitation",
            "prohibited_content",
            "blocklist",
            "spii",
            "sensitive",
        ),
        StopReason.REFUSED,
    ),
    **dict.fromkeys(("pause_turn", "pause"), StopReason.PAUSED),
    **dict.fromkeys(
        ("malformed_function_call", "unexpected_tool_call", "malformed_tool_use", "malformed_model_output"),
        StopReason.MALFORMED,
    ),
}

_FAILED: dict[str, FailureKind] = {
    "error": FailureKind.OVERLOADED,
    "network_error": FailureKind.OVERLOADED,
    "insufficient_system_resource": FailureKind.OVERLOADED,
    "abort": FailureKind.CUT,
    "aborted": FailureKind.CUT,
    "cancelled": FailureKind.CUT,
}

_CUTTING = (StopReason.LENGTH, StopReason.CONTEXT_FULL, StopReason.REFUSED, StopReason.MALFORMED)


def failed_stop(raw: str) -> FailureKind | None:
    """Say whether this word means that the answer failed on the provider's side."""
    return _FAILED.get(raw.strip().lower())


def stop_reason(raw: str, *, calls: bool, text: bool) -> StopReason:
    """Translate; calls that are there are to be run, whatever the word, unless it says that they are cut."""
    word = raw.strip().lower()
    reason = _STOPS.get(word)
    if reason is None and "malformed" in word:
        reason = StopReason.MALFORMED
    if reason is None:
        reason = StopReason.OTHER if word else StopReason.END
        if word:
            log.warning("A model stopped for a reason we do not know.", raw_stop=raw)
    if calls and reason not in _CUTTING:
        return StopReason.TOOL_CALLS
    if reason is StopReason.TOOL_CALLS and not calls:
        return StopReason.END if text else StopReason.MALFORMED
    return reason
