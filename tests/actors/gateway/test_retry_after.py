"""How long a platform wants us to wait, in all the ways in which it may say so."""

import pytest

from actors.gateway.platforms.discord import errors as discord
from actors.gateway.platforms.matrix import errors as matrix
from actors.gateway.platforms.slack import errors as slack
from actors.gateway.retry_after import retry_after

NOW = "Sun, 29 Nov 2026 22:00:00 GMT"
LATER = "Sun, 29 Nov 2026 22:01:30 GMT"


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({"Retry-After": "7"}, 7.0),
        ({"Retry-After": " 0.5 "}, 0.5),
        ({"Retry-After": LATER, "Date": NOW}, 90.0),
        ({"Retry-After": NOW, "Date": LATER}, 0.0),
        ({"Retry-After": "999999999"}, 86_400.0),
        ({"Retry-After": LATER}, None),
        ({"Retry-After": LATER, "Date": "yesterday"}, None),
        ({"Retry-After": "9" * 500}, 86_400.0),
        ({"Retry-After": "1e9"}, None),
        ({"Retry-After": "-1"}, None),
        ({"Retry-After": "nan"}, None),
        ({"Retry-After": "inf"}, None),
        ({"Retry-After": "\u0663"}, None),
        ({"Retry-After": "soon"}, None),
        ({"Retry-After": ""}, None),
        ({}, None),
    ],
)
def test_seconds_and_dates(headers: dict[str, str], seconds: float | None) -> None:
    assert retry_after(headers) == seconds


def test_every_platform_reads_a_date() -> None:
    headers = {"Retry-After": LATER, "Date": NOW}
    told = [
        discord.of_answer(429, {"message": "slow down"}, headers),
        slack.error_of("chat.postMessage", 429, {}, headers, writes=True),
        matrix.error_for(429, {"errcode": "M_LIMIT_EXCEEDED"}, headers),
    ]
    assert [error.problem.retry_after_s for error in told] == [90.0, 90.0, 90.0]


def test_matrix_servers_say_it_in_the_header_or_in_the_body() -> None:
    body = {"errcode": "M_LIMIT_EXCEEDED", "retry_after_ms": 2000}
    assert matrix.error_for(429, body).problem.retry_after_s == 2.0
    assert matrix.error_for(429, body, {"Retry-After": "3"}).problem.retry_after_s == 3.0
    assert matrix.error_for(429, {}, {}).problem.retry_after_s == 5.0
