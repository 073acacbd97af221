"""The memory and the Web API of the simulated Slack: what stands in its channels, and what it takes."""

import asyncio
import base64
import hashlib
import itertools
import json
import re
import time
from collections import deque
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any

from aiohttp import web

from tests.platforms.simulators.slack_checks import SlackRefusesError, check_blocks, texts_of

Json = dict[str, Any]

BOT_TOKEN = "xoxb-1-simulated"
APP_TOKEN = "xapp-1-simulated"
SECRET = "signing-secret-with-ümlaut"
BOT_USER, BOT_ID, TEAM, APP = "UCALLBOARD", "BCALLBOARD", "T0001", "A0001"
ALL_SCOPES = (
    "chat:write,app_mentions:read,channels:history,channels:read,groups:history,groups:read,im:history,im:read,"
    "im:write,mpim:history,mpim:read,users:read,files:read,files:write,reactions:write,commands,assistant:write"
)
SCOPE_OF = {
    "chat.postMessage": "chat:write",
    "chat.update": "chat:write",
    "chat.delete": "chat:write",
    "chat.postEphemeral": "chat:write",
    "conversations.history": "channels:history",
    "conversations.replies": "channels:history",
    "conversations.info": "channels:read",
    "conversations.open": "im:write",
    "users.info": "users:read",
    "users.conversations": "channels:read",
    "files.getUploadURLExternal": "files:write",
    "files.completeUploadExternal": "files:write",
    "files.info": "files:read",
    "reactions.add": "reactions:write",
    "reactions.remove": "reactions:write",
    "assistant.threads.setStatus": "assistant:write",
    "apps.connections.open": "",
    "auth.test": "",
}
PER_MINUTE = {
    "chat.update": 50,
    "chat.delete": 50,
    "reactions.add": 50,
    "reactions.remove": 20,
    "conversations.history": 50,
    "conversations.replies": 50,
    "conversations.info": 50,
    "users.info": 100,
}
"""The tiers, where limits are on; chat.postMessage has one of its own for each channel."""

TEXT_CUT = 40_000
_PING = re.compile(r"<(![a-z]+(?:\^[^>]*)?|@[A-Z0-9]+)(?:\|[^>]*)?>")
_ID = re.compile(r"[CDGUWB][A-Z0-9]{2,}")


def id_of(name: str, kind: str) -> str:
    """Return Slack's id of what a test calls by a name; an id is itself."""
    return name if _ID.fullmatch(name) else kind + hashlib.sha1(name.encode()).hexdigest()[:10].upper()


@dataclass
class Channel:
    """A channel, a group of people, or a direct message."""

    id: str
    name: str
    kind: str = "channel"
    joined: bool = True
    archived: bool = False
    user: str = ""
    topic: str = ""
    messages: dict[str, Json] = field(default_factory=dict)
    """By ts, oldest first."""


OF_NO_METHOD = ("redirects", "mention_first", "mention_alone")
"""Faults of other things than calls."""


@dataclass
class Fault:
    """One way in which a coming call fails."""

    how: str
    times: int
    more: Json

    def fits(self, method: str, channel: str) -> bool:
        wanted = self.more.get("method", method)
        return bool(wanted == method and self.more.get("channel", channel) == channel and self.times > 0)


class Service:
    """What Slack remembers. Emits events through `emit`."""

    def __init__(self) -> None:
        self.channels: dict[str, Channel] = {}
        self.users: dict[str, Json] = {}
        self.files: dict[str, Json] = {}
        self.content: dict[str, bytes] = {}
        self.requests: list[Json] = []
        self.faults: list[Fault] = []
        self.ephemerals: list[Json] = []
        self.pings: list[Json] = []
        self.statuses: list[Json] = []
        self.interactions: dict[str, Json] = {}
        self.uploads: list[Json] = []
        self.scopes = ALL_SCOPES
        self.token_error = ""
        self.app_token_error = ""
        self.limits = False
        self.origin = ""
        self.emit: Callable[[str, Json], None] = lambda _kind, _payload: None
        self._last_ts = 0
        self._count = itertools.count(1)
        self._calls: dict[tuple[str, str], deque[float]] = {}
        self._methods: dict[str, Callable[[Json], Json | Awaitable[Json]]] = {
            "auth.test": self._auth_test,
            "chat.postMessage": self._post,
            "chat.postEphemeral": self._post_ephemeral,
            "chat.update": self._update,
            "chat.delete": self._delete,
            "conversations.history": self._history,
            "conversations.replies": self._replies,
            "conversations.info": self._info,
            "conversations.open": self._open,
            "conversations.list": self._list,
            "users.info": self._user_info,
            "users.conversations": self._joined,
            "files.getUploadURLExternal": self._upload_url,
            "files.completeUploadExternal": self._complete_upload,
            "files.info": self._file_info,
            "reactions.add": self._react,
            "reactions.remove": self._unreact,
            "assistant.threads.setStatus": self._status,
        }

    # ------------------------------------------------------------------ the service's own life

    def ts(self) -> str:
        """Give a new message's name; never the same twice."""
        self._last_ts = max(self._last_ts + 1, time.time_ns() // 1000)
        return f"{self._last_ts // 1_000_000}.{self._last_ts % 1_000_000:06d}"

    def new(self, prefix: str) -> str:
        return f"{prefix}{next(self._count):09d}"

    def channel(self, name: str, kind: str = "channel", user: str = "") -> Channel:
        """Return a channel, made when it is new."""
        letter = {"im": "D", "mpim": "G"}.get(kind, "C")
        found = self.channels.get(id_of(name, letter))
        if found is None:
            found = Channel(id_of(name, letter), name, kind, user=user)
            self.channels[found.id] = found
        return found

    def user(self, name: str) -> str:
        known = id_of(name, "U")
        self.users.setdefault(known, {"id": known, "name": name.lower(), "real_name": name})
        return known

    def event(self, event: Json) -> None:
        """Tell the app of something."""
        payload = {
            "token": "deprecated",
            "team_id": TEAM,
            "api_app_id": APP,
            "type": "event_callback",
            "event_id": self.new("Ev"),
            "event_time": int(time.time()),
            "event": event,
        }
        self.emit("events_api", payload)

    def told(self, channel: Channel, message: Json) -> None:
        """Keep a message, and tell the app of it; twice when it is mentioned, as Slack does."""
        channel.messages[message["ts"]] = message
        root = channel.messages.get(message.get("thread_ts", ""))
        if root is not None and root is not message:
            root["reply_count"] = root.get("reply_count", 0) + 1
            message["parent_user_id"] = root.get("user", "")
        if not channel.joined:
            return
        kind = {"im": "im", "mpim": "mpim"}.get(channel.kind, "channel")
        placed = {**message, "channel": channel.id, "event_ts": message["ts"]}
        events = [{**placed, "channel_type": kind}]
        if f"<@{BOT_USER}>" in message.get("text", "") and channel.kind == "channel":
            mention = {name: placed[name] for name in placed if name not in ("files", "subtype")}
            events.append({**mention, "type": "app_mention"})  # of the files it tells nothing
        if self.take_fault("mention_first"):
            events.reverse()
        if self.take_fault("mention_alone"):
            del events[0]
        for event in events:
            self.event(event)

    # ------------------------------------------------------------------ a call

    async def call(self, method: str, request: web.Request) -> web.StreamResponse:
        arguments = await _arguments(request)
        entry: Json = {"method": method, "path": request.path, "at": time.monotonic(), "status": 0}
        entry["arguments"] = {name: value for name, value in arguments.items() if name != "token"}
        self.requests.append(entry)
        channel = str(arguments.get("channel") or arguments.get("channel_id") or "")
        fault = self._fault(method, channel)
        answer = await self._faulty(fault, method, request, arguments) if fault else None
        if answer is None:
            answer = await self._answered(method, request, arguments, channel)
        entry["status"] = answer.status
        entry["answer"] = getattr(answer, "text", None)
        return answer

    def _fault(self, method: str, channel: str) -> Fault | None:
        for fault in self.faults:
            if fault.how not in OF_NO_METHOD and fault.fits(method, channel):
                fault.times -= 1
                self.faults = [each for each in self.faults if each.times > 0]
                return fault
        return None

    def take_fault(self, how: str) -> Fault | None:
        """Take a fault that is of no method."""
        found = next((fault for fault in self.faults if fault.how == how), None)
        if found is not None:
            found.times -= 1
            self.faults = [each for each in self.faults if each.times > 0]
        return found

    async def _faulty(
        self, fault: Fault, method: str, request: web.Request, arguments: Json
    ) -> web.Response | None:
        channel = str(arguments.get("channel") or "")
        match fault.how:
            case "rate_limited":
                return _limited(fault.more.get("retry_after", 1))
            case "server_error":
                return web.Response(
                    status=fault.more.get("status", 500), text="<html>oops</html>", content_type="text/html"
                )
            case "error":
                return web.json_response(
                    {"ok": False, "error": fault.more["code"], **fault.more.get("answer", {})}
                )
            case "answers":
                return web.json_response(fault.more["body"])
            case "html":
                return web.Response(text="<html>a proxy's page</html>", content_type="text/html")
            case "plain":
                return web.Response(text="not json", content_type="text/plain")
            case "garbage":
                return web.Response(text="[1, 2", content_type="application/json")
            case "posted_then_500":
                await self._answered(method, request, arguments, channel)
                return web.Response(status=500, text="{}", content_type="application/json")
            case "silent":
                await self._answered(method, request, arguments, channel)
                await asyncio.sleep(fault.more.get("seconds", 3600))
            case "lost":
                assert request.transport is not None
                request.transport.abort()
            case "slow":
                await asyncio.sleep(fault.more.get("seconds", 1))
                return None
            case "truncates":
                arguments["text"] = arguments.get("text", "")[: fault.more.get("at", 100)]
                done = await self._run(method, arguments)
                return web.json_response(
                    {
                        **done,
                        "warning": "message_truncated",
                        "response_metadata": {"warnings": ["message_truncated"]},
                    }
                )
        return web.Response(status=500)

    async def _answered(
        self, method: str, request: web.Request, arguments: Json, channel: str
    ) -> web.Response:
        try:
            self._authorised(method, request, arguments)
            if self.limits and (wait := self._over_limit(method, channel)):
                return _limited(wait)
            answer = await self._run(method, arguments)
        except SlackRefusesError as refused:
            answer = {"ok": False, "error": refused.code, **refused.more}
        headers = {"x-oauth-scopes": self.scopes} if method == "auth.test" else {}
        return web.json_response(answer, headers=headers)

    async def _run(self, method: str, arguments: Json) -> Json:
        handler = self._methods.get(method)
        if handler is None:
            raise SlackRefusesError("unknown_method", req_method=method)
        done = handler(arguments)
        return {"ok": True, **(done if isinstance(done, dict) else await done)}

    def _authorised(self, method: str, request: web.Request, arguments: Json) -> None:
        token = request.headers.get("Authorization", "").removeprefix("Bearer ") or arguments.get("token", "")
        if not token:
            raise SlackRefusesError("not_authed")
        if method == "apps.connections.open":
            self.check_app_token(token)
            return
        if token == APP_TOKEN:
            raise SlackRefusesError("not_allowed_token_type")
        if token != BOT_TOKEN:
            raise SlackRefusesError("invalid_auth")
        if self.token_error:
            raise SlackRefusesError(self.token_error)
        needed = SCOPE_OF.get(method, "")
        if needed and needed not in self.scopes.split(","):
            raise SlackRefusesError("missing_scope", needed=needed, provided=self.scopes)

    def check_app_token(self, token: str) -> None:
        if token == BOT_TOKEN:
            raise SlackRefusesError("not_allowed_token_type")
        if token != APP_TOKEN:
            raise SlackRefusesError("invalid_auth")
        if self.app_token_error:
            raise SlackRefusesError(self.app_token_error)

    def _over_limit(self, method: str, channel: str) -> int:
        """Return the seconds to wait; 0 when the call is within its limit."""
        now = time.monotonic()
        if method == "chat.postMessage":
            key, most, window = (method, channel), 3, 3.0
        elif method in PER_MINUTE:
            key, most, window = (method, ""), PER_MINUTE[method], 60.0
        else:
            return 0
        calls = self._calls.setdefault(key, deque())
        while calls and now - calls[0] >= window:
            calls.popleft()
        if len(calls) >= most:
            return max(1, round(window - (now - calls[0])))
        calls.append(now)
        return 0

    # ------------------------------------------------------------------ methods

    def _auth_test(self, _: Json) -> Json:
        return {
            "team": "Sim & Co",
            "team_id": TEAM,
            "user": "callboard",
            "user_id": BOT_USER,
            "bot_id": BOT_ID,
        }

    def _writable(self, arguments: Json) -> Channel:
        channel = self.channels.get(str(arguments.get("channel", "")))
        if channel is None:
            raise SlackRefusesError("channel_not_found")
        if channel.archived:
            raise SlackRefusesError("is_archived")
        if not channel.joined:
            raise SlackRefusesError("not_in_channel")
        return channel

    def _readable(self, arguments: Json) -> Channel:
        channel = self.channels.get(str(arguments.get("channel", "")))
        if channel is None:
            raise SlackRefusesError("channel_not_found")
        if not channel.joined:
            raise SlackRefusesError("not_in_channel")
        return channel

    def _post(self, arguments: Json) -> Json:
        channel = self._writable(arguments)
        thread = arguments.get("thread_ts")
        if thread is not None and thread not in channel.messages:
            raise SlackRefusesError("thread_not_found")
        content, cut = self._content(arguments)
        message: Json = {
            "type": "message",
            "user": BOT_USER,
            "bot_id": BOT_ID,
            "app_id": APP,
            "ts": self.ts(),
        }
        message |= content | {"posted_at": time.monotonic(), "edits": 0}
        if thread is not None:
            message["thread_ts"] = thread
        self._notice_pings(channel, message, arguments)
        self.told(channel, message)
        return {"channel": channel.id, "ts": message["ts"], "message": message, **cut}

    def _content(self, arguments: Json) -> tuple[Json, Json]:
        text, blocks = arguments.get("text") or "", arguments.get("blocks") or []
        if not isinstance(text, str) or (not text.strip() and not blocks):
            raise SlackRefusesError("no_text")
        check_blocks(blocks)
        content: Json = {"text": text, "blocks": blocks}
        metadata = arguments.get("metadata")
        if metadata is not None:
            sound = isinstance(metadata, dict) and isinstance(metadata.get("event_type"), str)
            if not sound or not isinstance(metadata.get("event_payload"), dict):
                raise SlackRefusesError("invalid_metadata_format")
            content["metadata"] = metadata
        if len(text) <= TEXT_CUT:
            return content, {}
        content["text"] = text[:TEXT_CUT]
        return content, {
            "response_metadata": {"warnings": ["message_truncated"]},
            "warning": "message_truncated",
        }

    def _notice_pings(self, channel: Channel, message: Json, arguments: Json) -> None:
        texts = [message["text"], *texts_of(message.get("blocks") or [])]
        found = [mark for text in texts for mark in _PING.findall(text)]
        if arguments.get("parse") == "full" or arguments.get("link_names"):
            found += re.findall(r"@(?:channel|here|everyone)", message["text"])
        self.pings += [{"channel": channel.id, "mark": mark} for mark in found]

    def _post_ephemeral(self, arguments: Json) -> Json:
        channel = self._writable(arguments)
        content, _ = self._content(arguments)
        self.ephemerals.append({**content, "channel": channel.id, "user": arguments.get("user")})
        return {"message_ts": self.ts()}

    def _update(self, arguments: Json) -> Json:
        channel = self._writable(arguments)
        message = channel.messages.get(str(arguments.get("ts")))
        if message is None:
            raise SlackRefusesError("message_not_found")
        if message.get("user") != BOT_USER:
            raise SlackRefusesError("cant_update_message")
        before = dict(message)
        given = {**arguments}
        given.setdefault("blocks", message.get("blocks"))  # kept unless an empty list is sent
        content, cut = self._content(given)
        message.update(content)
        message["edits"] += 1
        self._notice_pings(channel, message, arguments)
        self.event(
            {
                "type": "message",
                "subtype": "message_changed",
                "hidden": True,
                "channel": channel.id,
                "ts": self.ts(),
                "message": {**message, "edited": {"user": BOT_USER, "ts": self.ts()}},
                "previous_message": before,
            }
        )
        return {"channel": channel.id, "ts": message["ts"], "text": message["text"], **cut}

    def _delete(self, arguments: Json) -> Json:
        channel = self._writable(arguments)
        message = channel.messages.get(str(arguments.get("ts")))
        if message is None:
            raise SlackRefusesError("message_not_found")
        if message.get("user") != BOT_USER:
            raise SlackRefusesError("cant_delete_message")
        self.remove(channel, message["ts"])
        return {"channel": channel.id, "ts": message["ts"]}

    def remove(self, channel: Channel, ts: str) -> None:
        message = channel.messages.pop(ts)
        self.event(
            {
                "type": "message",
                "subtype": "message_deleted",
                "hidden": True,
                "channel": channel.id,
                "channel_type": "im" if channel.kind == "im" else "channel",
                "ts": self.ts(),
                "deleted_ts": ts,
                "previous_message": message,
            }
        )

    def _history(self, arguments: Json) -> Json:
        channel = self._readable(arguments)
        roots = [m for m in channel.messages.values() if m.get("thread_ts", m["ts"]) == m["ts"]]
        return _page(roots[::-1], arguments)

    def _replies(self, arguments: Json) -> Json:
        channel = self._readable(arguments)
        root = channel.messages.get(str(arguments.get("ts")))
        if root is None:
            raise SlackRefusesError("thread_not_found")
        replies = [m for m in channel.messages.values() if m.get("thread_ts") == root["ts"] and m is not root]
        page = _page(replies, arguments)
        return {**page, "messages": [root, *page["messages"]]}

    def _info(self, arguments: Json) -> Json:
        channel = self.channels.get(str(arguments.get("channel", "")))
        if channel is None:
            raise SlackRefusesError("channel_not_found")
        return {"channel": _shown(channel)}

    def _list(self, _: Json) -> Json:
        return {"channels": [_shown(channel) for channel in self.channels.values()]}

    def _joined(self, _: Json) -> Json:
        return {"channels": [_shown(c) for c in self.channels.values() if c.joined and not c.archived]}

    def _open(self, arguments: Json) -> Json:
        user = str(arguments.get("users", ""))
        if user not in self.users:
            raise SlackRefusesError("user_not_found")
        return {"channel": {"id": self.channel(f"dm-{user}", "im", user).id}}

    def _user_info(self, arguments: Json) -> Json:
        user = self.users.get(str(arguments.get("user", "")))
        if user is None:
            raise SlackRefusesError("user_not_found")
        return {
            "user": {**user, "profile": {"display_name": user["real_name"], "real_name": user["real_name"]}}
        }

    def _upload_url(self, arguments: Json) -> Json:
        if not arguments.get("filename") or not str(arguments.get("length", "")).isdigit():
            raise SlackRefusesError("invalid_arguments")
        if int(arguments["length"]) <= 0:
            raise SlackRefusesError("invalid_arguments")
        file_id = self.new("F")
        self.files[file_id] = {
            "id": file_id,
            "name": arguments["filename"],
            "size": int(arguments["length"]),
            "state": "wanted",
        }
        return {"upload_url": f"{self.origin}/upload/{file_id}", "file_id": file_id}

    def uploaded(self, file_id: str, content: bytes) -> bool:
        file = self.files.get(file_id)
        if file is None or file["state"] != "wanted" or len(content) != file["size"]:
            return False
        file["state"] = "uploaded"
        self.content[file_id] = content
        return True

    def _complete_upload(self, arguments: Json) -> Json:
        told = arguments.get("files")
        files = json.loads(told) if isinstance(told, str) else told
        shared = []
        for each in files or ():
            file = self.files.get(each.get("id", ""))
            if file is None or file["state"] != "uploaded":
                raise SlackRefusesError("file_not_found")
            file |= {"title": each.get("title") or file["name"], "state": "shared"}
            shared.append(file)
        if not shared:
            raise SlackRefusesError("invalid_arguments")
        if arguments.get("channel_id"):
            channel = self._writable({"channel": arguments["channel_id"]})
            message: Json = {
                "type": "message",
                "subtype": "file_share",
                "user": BOT_USER,
                "bot_id": BOT_ID,
                "ts": self.ts(),
                "text": arguments.get("initial_comment") or "",
                "files": [{k: v for k, v in f.items() if k != "state"} for f in shared],
                "posted_at": time.monotonic(),
                "edits": 0,
            }
            if arguments.get("thread_ts"):
                message["thread_ts"] = arguments["thread_ts"]
            self._notice_pings(channel, message, arguments)
            self.told(channel, message)
        return {"files": [{"id": f["id"], "title": f["title"]} for f in shared]}

    def _file_info(self, arguments: Json) -> Json:
        file = self.files.get(str(arguments.get("file", "")))
        if file is None:
            raise SlackRefusesError("file_not_found")
        return {"file": file}

    def _reaction_target(self, arguments: Json) -> list[str]:
        channel = self._readable(arguments)
        message = channel.messages.get(str(arguments.get("timestamp")))
        if message is None:
            raise SlackRefusesError("message_not_found")
        if not re.fullmatch(r"[a-z0-9_+-]+", str(arguments.get("name", ""))):
            raise SlackRefusesError("invalid_name")
        reactions: list[str] = message.setdefault("signs", [])
        return reactions

    def _react(self, arguments: Json) -> Json:
        reactions = self._reaction_target(arguments)
        if arguments["name"] in reactions:
            raise SlackRefusesError("already_reacted")
        reactions.append(arguments["name"])
        return {}

    def _unreact(self, arguments: Json) -> Json:
        reactions = self._reaction_target(arguments)
        if arguments["name"] not in reactions:
            raise SlackRefusesError("no_reaction")
        reactions.remove(arguments["name"])
        return {}

    def _status(self, arguments: Json) -> Json:
        channel = self.channels.get(str(arguments.get("channel_id", "")))
        if channel is None or channel.kind != "im":
            raise SlackRefusesError("channel_not_found")
        self.statuses.append(dict(arguments))
        return {}

    # ------------------------------------------------------------------ what people attach

    def attached(self, file: Json) -> Json:
        """Keep a file of a person; give its description as events carry it."""
        content = base64.b64decode(file.get("content", ""))
        file_id = self.new("F")
        url = f"{self.origin}/files/{file_id}/{file['name'] if file['name'].isascii() else 'file'}"
        self.content[file_id] = content
        described: Json = {
            "id": file_id,
            "name": file["name"],
            "title": file["name"],
            "mimetype": file.get("mime", "application/octet-stream"),
            "size": file.get("size", len(content)),
            "url_private_download": url,
            "url_private": url,
            "mode": file.get("mode", "hosted"),
        }
        self.files[file_id] = {**described, "state": "shared"}
        if file.get("file_access"):
            described = {"id": file_id, "file_access": file["file_access"], "mode": "hosted"}
        return described


# ------------------------------------------------------------------ its pieces


def _page(messages: list[Json], arguments: Json) -> Json:
    oldest, latest = float(arguments.get("oldest") or 0), float(arguments.get("latest") or 1e12)
    fitting = [m for m in messages if oldest < float(m["ts"]) < latest]
    start, limit = int(arguments.get("cursor") or 0), min(int(arguments.get("limit") or 100), 999)
    page = [dict(m) for m in fitting[start : start + limit]]
    if str(arguments.get("include_all_metadata", "")) not in ("1", "true", "True"):
        for message in page:
            message.pop("metadata", None)
    more = start + limit < len(fitting)
    return {
        "messages": page,
        "has_more": more,
        "response_metadata": {"next_cursor": str(start + limit) if more else ""},
    }


def _shown(channel: Channel) -> Json:
    return {
        "id": channel.id,
        "name": channel.name,
        "is_im": channel.kind == "im",
        "is_mpim": channel.kind == "mpim",
        "is_channel": channel.kind == "channel",
        "is_archived": channel.archived,
        "is_member": channel.joined,
        "topic": {"value": channel.topic},
    }


def _limited(seconds: float) -> web.Response:
    return web.json_response(
        {"ok": False, "error": "ratelimited"}, status=429, headers={"Retry-After": str(seconds)}
    )


async def _arguments(request: web.Request) -> Json:
    arguments: Json = dict(request.query)
    if request.method == "POST":
        if request.content_type == "application/json":
            arguments |= await request.json()
        else:
            arguments |= {name: str(value) for name, value in (await request.post()).items()}
    return arguments
