"""From a call to a message. Pure and total: whatever the payload is, nothing raises.

The caller was checked before: see `verify`. What the payload says is still data from
outside.
"""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from urllib.parse import parse_qsl

from pydantic import ValidationError

from actors.gateway.platforms.webhook.options import RouteOptions
from actors.gateway.platforms.webhook.template import Values, capped, fill, fill_name, look_up
from messages.gateway import Author, ChatType, MessageReceived, Origin, Surroundings
from messages.ids import MessageId

LONGEST_ID = 200
LONGEST_EVENT = 100
_ID_HEADERS = (
    "X-GitHub-Delivery",
    "Idempotency-Key",
    "X-Gitlab-Event-UUID",
    "X-Request-Id",
    "X-Delivery-Id",
)
_EVENT_HEADERS = ("X-GitHub-Event", "X-Gitlab-Event", "X-Gitea-Event", "X-Event-Type", "X-Event-Key")


@dataclass(frozen=True, slots=True)
class Unreadable:
    """The body is nothing that can be read; `why` is for the caller."""

    why: str


@dataclass(frozen=True, slots=True)
class Ignored:
    """Nothing is to be said about this."""

    why: str


@dataclass(frozen=True, slots=True)
class Arrival:
    """A call that was believed."""

    platform: str
    account: str
    route: str
    message_id: str
    event: str
    payload: Any
    at: datetime
    sent_at: datetime | None = None


def payload_of(body: bytes, content_type: str) -> Any:
    """Read a body: JSON, a form (whose `payload` may be JSON), else text. Unreadable for what says JSON and is none."""
    kind = content_type.partition(";")[0].strip().lower()
    if kind == "application/x-www-form-urlencoded":
        return _form(body)
    text = body.decode("utf-8", "replace").removeprefix("\ufeff")
    if not text.strip():
        return {}
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        if kind.endswith("json") or text.lstrip()[:1] in "{[":
            return Unreadable("the body is not valid JSON")
        return {"text": text}


def _form(body: bytes) -> Any:
    try:
        fields = dict(parse_qsl(body.decode("utf-8", "replace"), keep_blank_values=True, max_num_fields=1000))
    except ValueError:
        return Unreadable("the form has too many fields")
    inner = fields.get("payload", "")
    if inner.lstrip()[:1] not in ("{", "["):
        return fields
    try:
        return json.loads(inner)
    except (ValueError, RecursionError):
        return Unreadable("the form's payload is not valid JSON")


def event_of(route: RouteOptions, headers: Mapping[str, str], payload: Any) -> str:
    """Name the event as the service does; with the payload's action, as `pull_request.opened`. Empty: unknown."""
    names = (route.event_header,) if route.event_header else _EVENT_HEADERS
    event = next((headers[name] for name in names if headers.get(name)), "")
    for field in () if event else (".type", ".event", ".event_type", ".object_kind"):
        found = look_up(payload, field)
        if isinstance(found, str) and found:
            event = found
            break
    action = look_up(payload, ".action")
    if event and isinstance(action, str) and action and "." not in event:
        event = f"{event}.{action}"
    return event.encode("utf-8", "replace").decode()[:LONGEST_EVENT]


def is_wanted(route: RouteOptions, event: str) -> bool:
    """Say whether the route takes this event."""
    return not route.events or event in route.events or event.partition(".")[0] in route.events


def delivery_id(route: RouteOptions, headers: Mapping[str, str]) -> str:
    """Return the id that the service gave this delivery; empty when it gave none."""
    names = (route.id_header,) if route.id_header else _ID_HEADERS
    given = next((headers[name].strip() for name in names if headers.get(name, "").strip()), "")
    if len(given) > LONGEST_ID or not given.isascii() or not given.isprintable():
        return hashlib.sha256(given.encode("utf-8", "surrogateescape")).hexdigest()[:32]
    return given


def translate(route: RouteOptions, arrival: Arrival) -> MessageReceived | Ignored | Unreadable:
    """Make a message of what a service told."""
    if isinstance(arrival.payload, Unreadable):
        return arrival.payload
    if not is_wanted(route, arrival.event):
        return Ignored("this event is not taken here")
    values = Values(arrival.payload, arrival.route, arrival.event)
    text = fill(route.prompt, values, quoted=route.values == "quoted", most=route.value_chars)
    if text.startswith("/") and not route.prompt.startswith("/"):
        text = f"Text: {text}"  # only the operator's own words are commands
    if not text.strip():
        return Ignored("the prompt came out empty")
    thread = fill_name(route.session, values) if route.session else ""
    try:
        return MessageReceived(
            message_id=MessageId(arrival.message_id),
            origin=Origin(
                platform=arrival.platform,
                account=arrival.account,
                chat_type=ChatType.THREAD if thread else ChatType.GROUP,
                chat=arrival.route,
                thread=thread or None,
            ),
            author=Author(id=arrival.route, name=f"webhook {arrival.route}"),
            text=capped(text, route.prompt_chars),
            mentions_us=True,
            surroundings=Surroundings(chat=f"webhook {arrival.route}", topic=arrival.event, thread=thread),
            sent_at=arrival.sent_at,
            at=arrival.at,
        )
    except ValidationError:
        return Unreadable("the event cannot be read")
