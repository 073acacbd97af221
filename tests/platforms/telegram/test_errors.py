import json

import pytest

from actors.gateway.platforms.telegram.errors import Answer, answer_of, error_of, kind_of
from messages.delivery import ProblemKind

GONE, REFUSED, LIMITED = ProblemKind.TARGET_GONE, ProblemKind.REFUSED, ProblemKind.RATE_LIMITED


@pytest.mark.parametrize(
    ("status", "said", "kind"),
    [
        (401, "Unauthorized", ProblemKind.NEEDS_HUMAN),
        (404, "Not Found", ProblemKind.NEEDS_HUMAN),
        (403, "Forbidden: bot was blocked by the user", GONE),
        (403, "Forbidden: bot was kicked from the supergroup chat", GONE),
        (403, "Forbidden: bot can't initiate conversation with a user", GONE),
        (403, "Forbidden: user is deactivated", GONE),
        (400, "Bad Request: chat not found", GONE),
        (400, "Bad Request: message thread not found", GONE),
        (400, "Bad Request: TOPIC_CLOSED", GONE),
        (400, "Bad Request: not enough rights to send text messages to the chat", GONE),
        (400, "Bad Request: CHAT_WRITE_FORBIDDEN", GONE),
        (400, "Bad Request: PEER_ID_INVALID", GONE),
        (400, "Bad Request: message is too long", REFUSED),
        (400, "Bad Request: MESSAGE_TOO_LONG", REFUSED),
        (400, "Bad Request: message caption is too long", REFUSED),
        (400, "Bad Request: message text is empty", REFUSED),
        (400, "Bad Request: can't parse entities: x", REFUSED),
        (400, "Bad Request: BUTTON_DATA_INVALID", REFUSED),
        (400, "Bad Request: message is not modified", REFUSED),
        (400, "Bad Request: something new", REFUSED),
        (409, "Conflict: terminated by other getUpdates request", ProblemKind.TRANSIENT),
        (413, "Request Entity Too Large", REFUSED),
        (429, "Too Many Requests: retry after 5", LIMITED),
        (420, "FLOOD_WAIT_7", LIMITED),
        (400, "Bad Request: SLOWMODE_WAIT_10", LIMITED),
        (500, "Internal Server Error", ProblemKind.UNKNOWN),
        (502, "Bad Gateway", ProblemKind.UNKNOWN),
        (504, "Gateway Timeout", ProblemKind.UNKNOWN),
        (302, "Found", ProblemKind.TRANSIENT),
    ],
)
def test_every_refusal_has_its_kind(status: int, said: str, kind: ProblemKind) -> None:
    assert kind_of(Answer(status, said)) is kind


@pytest.mark.parametrize("seconds", [0, 1, 37, 117, 13_938, 86_400])
def test_A12_A13_a_wait_of_any_length_is_handed_on(seconds: int) -> None:
    body = {"ok": False, "description": "Too Many Requests", "parameters": {"retry_after": seconds}}
    problem = error_of(answer_of(429, json.dumps(body).encode())).problem
    assert (problem.kind, problem.retry_after_s, problem.whole_account) == (LIMITED, seconds, False)


@pytest.mark.parametrize(
    ("said", "seconds"),
    [("Too Many Requests: retry after 12", 12), ("FLOOD_WAIT_9", 9), ("SLOWMODE_WAIT_3", 3)],
)
def test_A12_a_wait_that_is_only_said_is_understood(said: str, seconds: float) -> None:
    assert answer_of(429, json.dumps({"description": said}).encode()).retry_after_s == seconds


def test_R12_a_move_says_where_to() -> None:
    body = {
        "description": "Bad Request: group chat was upgraded",
        "parameters": {"migrate_to_chat_id": -100200},
    }
    problem = error_of(answer_of(400, json.dumps(body).encode())).problem
    assert (problem.kind, problem.moved_to) == (GONE, "-100200")


@pytest.mark.parametrize(
    "payload",
    [
        b"",
        b"<html>502 Bad Gateway</html>",
        b"[]",
        b"null",
        b"{",
        b"[" * 100_000,
        b'{"parameters": 5, "description": ["x"]}',
        b'{"parameters": {"retry_after": "soon", "migrate_to_chat_id": true}}',
        b'{"parameters": {"retry_after": -3, "migrate_to_chat_id": 99999999999999999999999}}',
        b'{"parameters": {"retry_after": NaN}}',
        b"\xff\xfe",
    ],
)
def test_odd_bodies_are_read_for_what_they_are(payload: bytes) -> None:
    for status in (400, 429, 500):
        problem = error_of(answer_of(status, payload)).problem
        assert problem.moved_to is None
        assert problem.retry_after_s is None or problem.retry_after_s >= 0
