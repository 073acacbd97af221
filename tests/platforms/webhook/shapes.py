"""Recorded payloads of services that call webhooks, for fuzzing."""

from datetime import UTC, datetime
from typing import Any

from pydantic import SecretStr

from actors.gateway.platforms.webhook.options import RouteOptions
from actors.gateway.platforms.webhook.translate import Arrival, event_of, payload_of, translate
from tests.platforms.fuzz import FuzzTarget

ROUTES = (
    RouteOptions(secret=SecretStr("a-secret-of-some-length")),
    RouteOptions(
        secret=SecretStr("a-secret-of-some-length"),
        prompt="{event}: {payload.action} {payload.issue.title} by {payload.sender.login}, {payload.commits.0.message}",
        session="{payload.repository.full_name}#{payload.issue.number}",
        events=("issues", "push", "alert", "message"),
    ),
    RouteOptions(
        secret=SecretStr("a-secret-of-some-length"),
        prompt="{payload.text}{payload.object_attributes.title}",
        session="{payload.user}",
        values="plain",
    ),
)

GITHUB: dict[str, Any] = {
    "action": "opened",
    "issue": {
        "number": 7,
        "title": "The build fails",
        "body": "Since yesterday.\r\n- a\r\n- b",
        "user": {"login": "ann", "id": 583231, "type": "User"},
        "labels": [{"id": 208045946, "name": "bug", "color": "f29513"}],
        "created_at": "2026-01-01T12:00:00Z",
    },
    "repository": {"id": 186853002, "full_name": "ann/garden", "private": False},
    "sender": {"login": "ann", "id": 583231},
}
PUSH: dict[str, Any] = {
    "type": "push",
    "ref": "refs/heads/main",
    "before": "6113728f27ae82c7b1a177c8d03f9e96e0adf246",
    "after": "0000000000000000000000000000000000000000",
    "commits": [
        {
            "id": "0d1a26e6",
            "message": "Water the plants\n\nAll of them.",
            "author": {"name": "Ann", "email": "a@b"},
        },
        {"id": "0d1a26e7", "message": "Count them", "author": {"name": "Bob", "email": "b@b"}},
    ],
    "pusher": {"name": "ann"},
}
SHAPES: list[Any] = [
    GITHUB,
    PUSH,
    {
        "object_kind": "merge_request",
        "user": {"id": 1, "name": "Administrator", "username": "root"},
        "object_attributes": {
            "id": 99,
            "iid": 1,
            "title": "Draft: soil",
            "state": "opened",
            "action": "open",
        },
        "labels": [{"id": 206, "title": "API", "type": "ProjectLabel"}],
    },
    {
        "type": "alert",
        "status": "firing",
        "alerts": [
            {
                "status": "firing",
                "labels": {"alertname": "DiskFull", "instance": "web-1"},
                "startsAt": "2026-01-01",
            }
        ],
        "groupKey": "{}:{alertname='DiskFull'}",
    },
    {"event": "message", "user": "u7", "text": "What is the weather?", "ts": 1767268800.25},
    {"id": "evt_1", "type": "invoice.paid", "data": {"object": {"amount_paid": 2500, "currency": "eur"}}},
    [{"a": 1}, {"b": [2, 3]}],
    b'{"event": "message", "text": "as bytes", "user": "u1"}',
    b"payload=%7B%22event%22%3A+%22push%22%2C+%22text%22%3A+%22form%22%7D&token=x",
]
AT = datetime(2026, 1, 1, 12, tzinfo=UTC)
KINDS = ("application/json", "application/x-www-form-urlencoded", "text/plain")


def feed(raw: object) -> object:
    came: list[object] = []
    for n, route in enumerate(ROUTES):
        payload = payload_of(raw, KINDS[len(raw) % 3]) if isinstance(raw, bytes) else raw
        event = event_of(route, {}, payload)
        arrival = Arrival("webhook", "main", f"route-{n}", "d1", event, payload, AT)
        came.append(translate(route, arrival))
    return came


FUZZ = FuzzTarget(SHAPES, feed)
