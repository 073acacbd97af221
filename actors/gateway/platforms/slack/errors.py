"""What Slack's error codes mean for a post, and for the connection. A table; what it does not know is told apart by status."""

from collections.abc import Mapping
from typing import Any

from actors.gateway.edge import EdgeError
from actors.gateway.retry_after import retry_after as wait_told
from messages.delivery import ProblemKind

APP_PAGE = "api.slack.com/apps → your app"
LONGEST_WAIT_S = 3600.0
DEFAULT_WAIT_S = 30.0

_NEW_TOKEN = f"the bot token is not valid any more: {APP_PAGE} → OAuth & Permissions, then set it anew"
_REINSTALL = f"install the app again: {APP_PAGE} → Install App"

NEEDS_HUMAN: Mapping[str, str] = {
    "not_authed": "no token was sent: set bot_token",
    "invalid_auth": _NEW_TOKEN,
    "token_expired": _NEW_TOKEN,
    "token_revoked": _NEW_TOKEN,
    "account_inactive": f"the app was removed from the workspace, or its bot user was deactivated: {_REINSTALL}",
    "not_allowed_token_type": "this kind of token cannot be used here: bot_token begins with xoxb-, app_token "
    f"with xapp- ({APP_PAGE} → Basic Information → App-Level Tokens, scope connections:write)",
    "missing_scope": f"a permission is missing: {APP_PAGE} → OAuth & Permissions → Scopes, then install again",
    "no_permission": f"the token lacks a permission: {_REINSTALL}",
    "org_login_required": "the workspace is being moved to an organisation: wait, or ask its owner",
    "ekm_access_denied": "the workspace's administrator has suspended access",
    "access_denied": "the workspace's administrator has denied access",
    "enterprise_is_restricted": "the organisation does not allow this call",
    "team_access_not_granted": f"the app has no access to this workspace: {_REINSTALL}",
    "app_missing_action_url": f"switch interactivity on: {APP_PAGE} → Interactivity & Shortcuts",
    "team_added_to_org": "the workspace is being moved to an organisation: wait, then set a new token",
    "two_factor_setup_required": "the account needs two-factor authentication",
    "accesslimited": "access to this is limited by the workspace's administrator",
    "invalid_app_id": "the app does not exist any more",
    "no_app_token": f"set app_token: {APP_PAGE} → Basic Information → App-Level Tokens",
}
"""The whole account is affected; what is to be done."""

TARGET_GONE: Mapping[str, str] = {
    "channel_not_found": "the channel does not exist, or is private and we are not in it",
    "not_in_channel": "we are not in the channel: /invite us there",
    "is_archived": "the channel is archived",
    "channel_is_archived": "the channel is archived",
    "channel_type_not_supported": "this kind of channel cannot be posted to",
    "thread_not_found": "the thread does not exist any more",
    "thread_locked": "the thread is locked",
    "restricted_action": "the channel's settings do not let us post",
    "restricted_action_read_only_channel": "the channel is read-only for us",
    "restricted_action_thread_only_channel": "only threads may be written in this channel",
    "restricted_action_thread_locked": "the thread is locked",
    "restricted_action_non_threadable_channel": "no threads are allowed in this channel",
    "user_not_found": "the person does not exist",
    "user_not_visible": "the person cannot be seen by us",
    "user_disabled": "the person's account was deactivated",
    "users_not_found": "the person does not exist",
    "cannot_dm_bot": "a bot cannot be written to",
    "cannot_message_user": "the person cannot be written to",
    "messages_tab_disabled": f"direct messages are switched off: {APP_PAGE} → App Home → Messages Tab",
    "not_allowed_for_free_workspace": "the workspace's plan does not allow it",
    "slack_connect_file_upload_sharing_blocked": "files are not allowed in this shared channel",
    "external_channel_migrating": "the channel is being moved; it will have to be written to again",
    "team_not_found": "the workspace does not exist",
    "mpim_not_allowed": "the group of people cannot be written to",
}
"""This chat, or this thread, does not take our posts."""

TRANSIENT: Mapping[str, str] = {
    "service_unavailable": "Slack is not available at the moment",
    "request_timeout": "Slack did not get the whole request",
    "team_unavailable": "the workspace is not available at the moment",
    "conversation_cannot_be_joined": "the channel cannot be used at the moment",
    "unable_to_open_connection": "Slack opens no connection at the moment",
    "too_many_websockets": "too many connections are open for this app; ten are allowed",
}
"""Not posted, may work later."""

UNKNOWN: Mapping[str, str] = {
    "internal_error": "something went wrong at Slack",
    "fatal_error": "something went wrong at Slack, perhaps half-way",
    "operation_timeout": "Slack did not finish in time",
}
"""Slack says that part of it may have been done."""

RATE_LIMITED = frozenset({"ratelimited", "rate_limited", "message_limit_exceeded"})

TOO_LONG = frozenset({"msg_too_long", "msg_blocks_too_long", "blocks_too_long"})
BAD_BLOCKS = frozenset({"invalid_blocks", "invalid_blocks_format", "invalid_attachments", "too_many_blocks"})
DRAFT_GONE = frozenset(
    {
        "message_not_found",
        "cant_update_message",
        "edit_window_closed",
        "edit_not_allowed",
        "is_inactive",
        "update_failed",
        "block_mismatch",
        "streaming_state_conflict",
    }
)
"""A message cannot be changed any more."""


class SlackError(EdgeError):
    """A call of the Web API failed; `code` is Slack's own word, empty when there was none."""

    def __init__(
        self, kind: ProblemKind, detail: str, *, code: str = "", retry_after_s: float | None = None
    ) -> None:
        super().__init__(kind, detail, retry_after_s=retry_after_s)
        self.code = code


def error_of(method: str, status: int, data: Any, headers: Mapping[str, str], *, writes: bool) -> SlackError:
    """Make an error of an answer of the Web API that is not `ok`.

    `writes`: whether the call may have posted something when nobody knows how it ended.
    """
    answer: Mapping[str, Any] = data if isinstance(data, dict) else {}
    code = answer["error"] if isinstance(answer.get("error"), str) else ""
    if status == 429 or code in RATE_LIMITED:
        return SlackError(
            ProblemKind.RATE_LIMITED,
            f"{method}: rate limit",
            code=code or "ratelimited",
            retry_after_s=retry_after(headers),
        )
    if code in NEEDS_HUMAN:
        return SlackError(ProblemKind.NEEDS_HUMAN, _with_scopes(f"{method}: {code}", code, answer), code=code)
    for kind, table in (
        (ProblemKind.TARGET_GONE, TARGET_GONE),
        (ProblemKind.TRANSIENT, TRANSIENT),
        (ProblemKind.UNKNOWN if writes else ProblemKind.TRANSIENT, UNKNOWN),
    ):
        if code in table:
            return SlackError(kind, f"{method}: {code}: {table[code]}", code=code)
    if status >= 500 or not code:
        kind = ProblemKind.UNKNOWN if writes else ProblemKind.TRANSIENT
        return SlackError(kind, f"{method}: HTTP {status} {code}".strip(), code=code)
    return SlackError(ProblemKind.REFUSED, f"{method}: {code}{_why(answer)}", code=code)


def retry_after(headers: Mapping[str, str]) -> float:
    """Return how long to wait, in seconds, within reason."""
    told = wait_told(headers, LONGEST_WAIT_S)
    return DEFAULT_WAIT_S if told is None else told


def is_truncated(answer: Mapping[str, Any]) -> bool:
    """Say whether Slack took only a part of a text, which it calls a success."""
    told: list[Any] = [answer.get("warning")]
    more = answer.get("response_metadata")
    if isinstance(more, dict):
        for name in ("warnings", "messages"):
            each = more.get(name)
            told += each if isinstance(each, list) else []
    return any("truncat" in word.lower() for word in told if isinstance(word, str))


def _with_scopes(head: str, code: str, answer: Mapping[str, Any]) -> str:
    needed = answer.get("needed")
    scopes = f" (needed: {needed})" if isinstance(needed, str) and needed else ""
    return f"{head}{scopes}: {NEEDS_HUMAN[code]}"


def _why(answer: Mapping[str, Any]) -> str:
    more = answer.get("response_metadata")
    told = more.get("messages") if isinstance(more, dict) else None
    words = [str(word) for word in told[:3]] if isinstance(told, list) else []
    return f": {'; '.join(words)[:300]}" if words else ""
