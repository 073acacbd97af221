"""Recorded payloads of Slack, for fuzzing: envelopes of Socket Mode, into which requests of the Events API are put too."""

from datetime import UTC, datetime
from typing import Any

from actors.gateway.commands import BY_NAME
from actors.gateway.platforms.slack.envelopes import (
    answerable,
    changed_user,
    chat_of,
    ending,
    identity,
    needs,
)
from actors.gateway.platforms.slack.translate import Heard, Reading, Us, translate
from actors.gateway.platforms.slack.wording import Chat, Names
from tests.platforms.fuzz import FuzzTarget

READING = Reading(
    platform="slack",
    account="main",
    us=Us(user_id="U0BOT", bot_id="B0BOT", team_id="T0001", team="Team"),
    commands=frozenset(BY_NAME),
    reply_in_thread=True,
    now=datetime(2026, 1, 1, tzinfo=UTC),
)
NAMES = Names(
    {"U0ANN": "Ann", "U0BOB": "Bob"},
    {"C0001": Chat("general", "All of us", "channel"), "G0001": Chat("mpdm-ann--bob-1", "", "mpim")},
    {("C0001", "1700000000.000100"): "how it <@U0ANN> began"},
)


def event(**fields: Any) -> dict[str, Any]:
    """Make an envelope with one event."""
    return {
        "envelope_id": "e1",
        "type": "events_api",
        "accepts_response_payload": False,
        "retry_attempt": 0,
        "retry_reason": "",
        "payload": {
            "token": "x",
            "team_id": "T0001",
            "api_app_id": "A0001",
            "type": "event_callback",
            "event_id": "Ev0001",
            "event_time": 1700000000,
            "event": fields,
        },
    }


def message(**fields: Any) -> dict[str, Any]:
    """Make an envelope with a person's message in a channel."""
    said = {
        "type": "message",
        "channel": "C0001",
        "channel_type": "channel",
        "user": "U0ANN",
        "team": "T0001",
        "client_msg_id": "6b1c1c0e-aaaa",
        "ts": "1700000001.000200",
        "event_ts": "1700000001.000200",
        "text": "hello <@U0BOB>, see <https://a.b/c|this> &amp; <#C0001|general> <!here> <!date^1^{date}|then>",
    }
    return event(**{**said, **fields})


def command(**fields: Any) -> dict[str, Any]:
    """Make an envelope with a native command."""
    payload = {
        "token": "x",
        "team_id": "T0001",
        "team_domain": "team",
        "channel_id": "C0001",
        "channel_name": "general",
        "user_id": "U0ANN",
        "user_name": "ann",
        "command": "/callboard",
        "text": "stop",
        "response_url": "https://hooks.slack.com/commands/T0001/1/x",
        "trigger_id": "13345224609.738474920.8088930838d88f008e0",
    }
    return {"envelope_id": "e2", "type": "slash_commands", "payload": {**payload, **fields}}


def button(**fields: Any) -> dict[str, Any]:
    """Make an envelope with a button that was pressed."""
    payload = {
        "type": "block_actions",
        "team": {"id": "T0001", "domain": "team"},
        "user": {"id": "U0ANN", "username": "ann", "name": "ann", "team_id": "T0001"},
        "api_app_id": "A0001",
        "container": {"type": "message", "message_ts": "1700000003.000300", "channel_id": "C0001"},
        "channel": {"id": "C0001", "name": "general"},
        "message": {"bot_id": "B0BOT", "user": "U0BOT", "ts": "1700000003.000300", "text": "Working."},
        "actions": [
            {
                "action_id": "callboard_0",
                "block_id": "b1",
                "text": {"type": "plain_text", "text": "Stop", "emoji": True},
                "value": "/stop",
                "type": "button",
                "action_ts": "1700000004.000400",
            }
        ],
        "trigger_id": "12321423423.333649436676.d8c1bb837935619ccad0f624c448ffb3",
        "response_url": "https://hooks.slack.com/actions/T0001/1/x",
    }
    return {"envelope_id": "e3", "type": "interactive", "payload": {**payload, **fields}}


FILE = {
    "id": "F0001",
    "name": "plan.pdf",
    "title": "The plan",
    "mimetype": "application/pdf",
    "filetype": "pdf",
    "size": 12345,
    "mode": "hosted",
    "url_private": "https://files.slack.com/files-pri/T0001-F0001/plan.pdf",
    "url_private_download": "https://files.slack.com/files-pri/T0001-F0001/download/plan.pdf",
}
PREVIOUS = {"type": "message", "user": "U0ANN", "ts": "1700000001.000200", "text": "helo"}
SHAPES: list[Any] = [
    message(),
    message(text="<@U0BOT> what is up?"),
    message(type="app_mention", text="hey <@U0BOT|callboard>"),
    message(channel="D0001", channel_type="im", text="!stop"),
    message(channel="G0001", channel_type="mpim"),
    message(thread_ts="1700000000.000100", parent_user_id="U0BOT", text="<@U0BOT> and now?"),
    message(subtype="thread_broadcast", thread_ts="1700000000.000100", root={"ts": "1700000000.000100"}),
    message(subtype="file_share", files=[FILE, {"id": "F2", "mode": "tombstone"}], upload=False),
    message(subtype="me_message", text="waves"),
    message(subtype="bot_message", bot_id="B0002", username="Deploys", user=None, icons={"emoji": ":x:"}),
    message(
        bot_id="B0002",
        bot_profile={"id": "B0002", "name": "Deploys"},
        text="",
        attachments=[{"fallback": "build failed", "color": "danger"}],
    ),
    message(
        text="look",
        attachments=[{"is_share": True, "text": "said <@U0BOB>", "author_name": "Bob", "ts": "1.2"}],
    ),
    event(
        type="message",
        subtype="message_changed",
        hidden=True,
        channel="C0001",
        channel_type="channel",
        ts="1700000009.000900",
        event_ts="1700000009.000900",
        message={**PREVIOUS, "text": "hello", "edited": {"user": "U0ANN", "ts": "1700000009.000000"}},
        previous_message=PREVIOUS,
    ),
    event(
        type="message",
        subtype="message_changed",
        hidden=True,
        channel="C0001",
        ts="1700000009.000901",
        message={**PREVIOUS, "subtype": "tombstone", "text": "This message was deleted."},
        previous_message=PREVIOUS,
    ),
    event(
        type="message",
        subtype="message_deleted",
        hidden=True,
        channel="C0001",
        channel_type="channel",
        ts="1700000010.001000",
        deleted_ts="1700000001.000200",
        previous_message={**PREVIOUS, "thread_ts": "1700000000.000100"},
    ),
    message(subtype="channel_join", text="<@U0ANN> has joined the channel", inviter="U0BOB"),
    event(type="channel_id_changed", old_channel_id="G0002", new_channel_id="C0002", event_ts="1.1"),
    event(type="user_change", user={"id": "U0ANN", "profile": {"display_name": "Anne"}}),
    event(type="tokens_revoked", tokens={"oauth": ["U1"], "bot": ["U0BOT"]}),
    event(type="reaction_added", user="U0ANN", reaction="x", item={"type": "message", "channel": "C0001"}),
    command(),
    command(command="/stop", text=""),
    command(text="what is <@U0BOB|bob> doing?", channel_id="D0001", channel_name="directmessage"),
    button(),
    button(container={"message_ts": "1.2", "channel_id": "C0001", "thread_ts": "1700000000.000100"}),
]


def feed(raw: object) -> object:
    """Do all that is done with an envelope before it is handed in."""
    for look in (identity, chat_of, ending, changed_user, answerable):
        look(raw)
    needs(raw, READING.us.user_id)
    heard = translate(raw, READING, NAMES)
    return heard.message if isinstance(heard, Heard) else heard


FUZZ = FuzzTarget(SHAPES, feed)
