"""How long an outbox waits before it tries a post again. Pure."""

from typing import Final

from actors.gateway.parts import OutboxRules

HUMAN_WAIT_S: Final = 60.0
"""Where somebody has to mend something, a token for instance."""

LONG_WAIT_S: Final = 300.0
"""A platform that wants a longer wait than this has banned us for a while: the operator should know."""

LAST_TRY_WAIT_S: Final = 10.0
"""At most so long, and at least half of it, before the one try that is left where neither a key nor a history helps."""

SHORT_WAIT_S: Final = 1.0


def doubt_lasts(rules: OutboxRules, unclear: int, chance: float) -> float:
    """Say how long to wait before something is done about a call of which nobody knows, after so many of them."""
    seconds = rules.backoff.wait(unclear + 1, chance)
    if rules.idempotency_key or rules.history or rules.unknown_outcome != "send_again":
        return seconds
    # The next try is the last: not while what broke the first one is still broken.
    return max(seconds, LAST_TRY_WAIT_S * (1.0 + chance) / 2)


def rate_limit_lasts(told: float | None, attempt: int, rules: OutboxRules, chance: float) -> float:
    """Say how long a rate limit lasts. One that says "at once" again and again is not taken at its word."""
    backoff = rules.backoff.wait(attempt, chance)
    if told is None:
        return backoff
    return told if told >= SHORT_WAIT_S or attempt == 1 else max(told, backoff)
