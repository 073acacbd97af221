"""The REST API of a simulated Discord: what the real one checks, and its answers when something is wrong."""

import asyncio
import contextlib
import json
import time
from collections import defaultdict, deque
from dataclasses import dataclass, field
from typing import Any

from aiohttp import web

from tests.platforms.simulators.discord_world import (
    APPLICATION,
    BOT,
    GUILD,
    LOADING,
    TOKEN,
    Channel,
    Interaction,
    Json,
    World,
)

FILE_BYTES = 10 << 20
NONCE_S = 180.0
TOKEN_S = 900.0
ACK_S = 3.0
EPHEMERAL = 1 << 6

LIMITS = {"POST": (5, 5.0), "PATCH": (5, 5.0), "DELETE": (5, 1.0), "PUT": (1, 0.25), "GET": (50, 1.0)}
"""Calls and seconds, for each channel."""


class ApiError(Exception):
    """An answer that is no success."""

    def __init__(self, status: int, code: int, message: str, **more: Any) -> None:
        super().__init__(message)
        self.status, self.told = status, {"message": message, "code": code, **more}
        self.headers: dict[str, str] = {}


def form_error(where: str, why: str, code: str = "INVALID") -> ApiError:
    errors: Any = {"_errors": [{"code": code, "message": why}]}
    for name in reversed(where.split(".")):
        errors = {name: errors}
    return ApiError(400, 50035, "Invalid Form Body", errors=errors)


@dataclass
class Misbehaviour:
    """One thing that was ordered, and for how many calls."""

    how: str
    times: int
    method: str | None = None
    path: str = ""
    more: Json = field(default_factory=dict)

    def meets(self, method: str, path: str) -> bool:
        return self.times > 0 and self.method in (None, method) and self.path in path


class Api:
    """Answers calls."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.requests: deque[Json] = deque(maxlen=200_000)
        self.misbehaviours: list[Misbehaviour] = []
        self.limited = True
        self._buckets: dict[tuple[str, str], deque[float]] = defaultdict(deque)
        self._held: list[asyncio.Event] = []
        self.gateway_left = 1000
        self.permissions = (1 << 50) - 1

    def routes(self) -> list[web.RouteDef]:
        message, own = "/channels/{channel}/messages/{message}", "/webhooks/{application}/{token}"
        table: list[tuple[str, str, Any]] = [
            ("GET", "/users/@me", self.me),
            ("GET", "/users/@me/guilds", self.guilds),
            ("GET", "/oauth2/applications/@me", self.application),
            ("GET", "/applications/@me", self.application),
            ("GET", "/gateway/bot", self.gateway),
            ("GET", "/channels/{channel}", self.get_channel),
            ("GET", "/channels/{channel}/messages", self.history),
            ("POST", "/channels/{channel}/messages", self.post),
            ("GET", message, self.get_message),
            ("PATCH", message, self.edit),
            ("DELETE", message, self.delete),
            ("PUT", message + "/reactions/{emoji}/@me", self.react),
            ("DELETE", message + "/reactions/{emoji}/@me", self.unreact),
            ("POST", "/channels/{channel}/typing", self.typing),
            ("POST", "/users/@me/channels", self.open_direct),
            ("GET", "/applications/{application}/commands", self.get_commands),
            ("PUT", "/applications/{application}/commands", self.put_commands),
            ("POST", "/interactions/{id}/{token}/callback", self.acknowledge),
            ("POST", own, self.follow_up),
            ("PATCH", own + "/messages/@original", self.edit_original),
            ("DELETE", own + "/messages/@original", self.delete_original),
        ]
        return [web.route(method, "/api/v10" + path, handler) for method, path, handler in table]

    @web.middleware
    async def middleware(self, request: web.Request, handler: Any) -> web.StreamResponse:
        if not request.path.startswith("/api/"):
            response: web.StreamResponse = await handler(request)
            return response
        entry = {"method": request.method, "path": request.path, "status": 0, "at": time.monotonic()}
        self.requests.append(entry)
        response = await self._answered(request, handler)
        entry["status"] = response.status
        return response

    async def _answered(self, request: web.Request, handler: Any) -> web.StreamResponse:
        bad = next((m for m in self.misbehaviours if m.meets(request.method, request.path)), None)
        if bad is not None:
            bad.times -= 1
            if bad.more.get("after"):
                await handler(request)
            return await self._misbehave(bad, request)
        try:
            self._authorised(request)
            headers = self._admitted(request)
            response: web.StreamResponse = await handler(request)
        except ApiError as error:
            return answer(error.told, error.status, error.headers)
        except web.HTTPNotFound:
            return answer({"message": "404: Not Found", "code": 0}, 404)
        response.headers.update(headers)
        return response

    def _authorised(self, request: web.Request) -> None:
        own = "/interactions/" in request.path or "/webhooks/" in request.path
        if not own and request.headers.get("Authorization") != f"Bot {TOKEN}":
            raise ApiError(401, 0, "401: Unauthorized")
        if not own and not request.headers.get("User-Agent", "").startswith("DiscordBot"):
            raise ApiError(403, 40333, "internal network error")

    def _admitted(self, request: web.Request) -> dict[str, str]:
        """Count the call within its channel's limit; return the headers that tell of it."""
        channel = request.match_info.get("channel")
        if channel is None or not self.limited:
            return {}
        kind = "reactions" if "/reactions/" in request.path else request.method
        kind = "typing" if request.path.endswith("/typing") else kind
        most, seconds = LIMITS["PUT" if kind == "reactions" else "POST" if kind == "typing" else kind]
        calls, now = self._buckets[kind, channel], time.monotonic()
        while calls and calls[0] <= now - seconds:
            calls.popleft()
        after = (calls[0] + seconds - now) if calls else seconds
        headers = {
            "X-RateLimit-Limit": str(most),
            "X-RateLimit-Remaining": str(max(0, most - len(calls) - 1)),
            "X-RateLimit-Reset-After": f"{after:.3f}",
            "X-RateLimit-Reset": f"{time.time() + after:.3f}",
            "X-RateLimit-Bucket": f"bucket-{kind.lower()}",
        }
        if len(calls) >= most:
            error = ApiError(429, 0, "You are being rate limited.", retry_after=round(after, 3))
            error.told["global"] = False
            error.headers = {**headers, "Retry-After": "1", "Via": "1.1 google", "X-RateLimit-Scope": "user"}
            raise error
        calls.append(now)
        return headers

    async def _misbehave(self, bad: Misbehaviour, request: web.Request) -> web.StreamResponse:
        more = bad.more
        match bad.how:
            case "rate_limit" | "global_rate_limit":
                wait, everywhere = more.get("retry_after", 1.0), bad.how.startswith("global")
                told = {"message": "You are being rate limited.", "retry_after": wait, "global": everywhere}
                scope = "global" if everywhere else "user"
                return answer(told, 429, {"Via": "1.1 google", "X-RateLimit-Scope": scope})
            case "cloudflare":
                page = b"<html>error code: 1015</html>"
                return web.Response(status=429, body=page, content_type="text/html")
            case "server_error":
                page = b"<html>Bad Gateway</html>"
                return web.Response(status=more.get("status", 502), body=page, content_type="text/html")
            case "refuses":
                told = {"message": more.get("message", "no"), "code": more.get("code", 0)}
                return answer(told, more.get("status", 400))
            case "garbage":
                return web.Response(body=b"{this is", content_type="application/json")
            case "hang":
                held = asyncio.Event()
                self._held.append(held)
                await held.wait()
                return web.Response(status=502)
            case _:  # drop
                if request.transport is not None:
                    request.transport.abort()
                return web.Response(status=502)

    def release(self) -> None:
        for held in self._held:
            held.set()
        self._held.clear()

    # ------------------------------------------------------------------ the account

    async def me(self, _: web.Request) -> web.Response:
        return answer(self.world.users[BOT])

    async def guilds(self, _: web.Request) -> web.Response:
        return answer([{"id": GUILD, "name": "Sim", "permissions": str(self.permissions), "owner": False}])

    async def application(self, _: web.Request) -> web.Response:
        flags = self.world.flags if self.world.content_allowed else 0
        told: Json = {"id": APPLICATION, "name": "sim", "description": "", "icon": None, "verify_key": ""}
        told |= {"flags": flags, "bot_public": True, "bot_require_code_grant": False}
        return answer(told | {"owner": self.world.users[BOT]})

    async def gateway(self, _: web.Request) -> web.Response:
        limit = {
            "total": 1000,
            "remaining": self.gateway_left,
            "reset_after": 7_200_000,
            "max_concurrency": 1,
        }
        url = self.world.base.replace("http", "ws", 1) + "/gateway"
        return answer({"url": url, "shards": 1, "session_start_limit": limit})

    async def get_commands(self, _: web.Request) -> web.Response:
        return answer(self.world.commands)

    async def put_commands(self, request: web.Request) -> web.Response:
        commands = await request.json()
        for number, command in enumerate(commands):
            if not 1 <= len(command.get("description") or "") <= 100:
                raise form_error(f"{number}.description", "Must be between 1 and 100 in length.")
            if not command["name"].replace("_", "").replace("-", "").isalnum():
                raise form_error(f"{number}.name", "Command name is invalid")
        added = {"application_id": APPLICATION, "default_member_permissions": None, "nsfw": False}
        self.world.commands = [
            {**command, **added, "id": self.world.snowflake(), "version": self.world.snowflake()}
            for command in commands
        ]
        return answer(self.world.commands)

    # ------------------------------------------------------------------ channels

    def _channel(self, request: web.Request) -> Channel:
        channel = self.world.channels.get(request.match_info["channel"])
        if channel is None:
            raise ApiError(404, 10003, "Unknown Channel")
        if channel.refuses is not None:
            status, code = channel.refuses
            raise ApiError(status, code, "told to refuse")
        return channel

    def _message(self, request: web.Request) -> tuple[Channel, Json]:
        channel = self._channel(request)
        message = channel.messages.get(request.match_info["message"])
        if message is None:
            raise ApiError(404, 10008, "Unknown Message")
        return channel, message

    async def get_channel(self, request: web.Request) -> web.Response:
        return answer(self._channel(request).face())

    async def get_message(self, request: web.Request) -> web.Response:
        return answer(self._message(request)[1])

    async def history(self, request: web.Request) -> web.Response:
        channel = self._channel(request)
        limit = int(request.query.get("limit", "50"))
        if not 1 <= limit <= 100:
            raise form_error("limit", "int value should be between 1 and 100.")
        messages = list(channel.messages.values())
        if "after" in request.query:
            after = int(request.query["after"])
            messages = [m for m in messages if int(m["id"]) > after][:limit]
        else:
            messages = messages[-limit:]
        return answer(messages[::-1])

    async def open_direct(self, request: web.Request) -> web.Response:
        user = str((await request.json())["recipient_id"])
        if user not in self.world.users:
            raise ApiError(400, 50033, "Invalid Recipient(s)")
        known = next((c for c in self.world.channels.values() if c.recipient == user), None)
        name = f"dm-{self.world.names.get(user, user)}"
        channel = known or await self.world.channel(name, dm=user)
        return answer(channel.face())

    async def typing(self, request: web.Request) -> web.Response:
        self._channel(request).typing += 1
        return web.Response(status=204)

    async def react(self, request: web.Request) -> web.Response:
        _, message = self._message(request)
        self.world.reactions.append({"message": message["id"], "emoji": request.match_info["emoji"]})
        return web.Response(status=204)

    async def unreact(self, request: web.Request) -> web.Response:
        _, message = self._message(request)
        with contextlib.suppress(ValueError):
            self.world.reactions.remove({"message": message["id"], "emoji": request.match_info["emoji"]})
        return web.Response(status=204)

    # ------------------------------------------------------------------ posts

    async def _body(self, request: web.Request) -> tuple[Json, list[Json]]:
        """Read a message's form: JSON, or with files."""
        if not request.content_type.startswith("multipart/"):
            if request.content_type != "application/json":
                raise form_error("_", "Expected \"Content-Type\" header to be one of {'application/json'}.")
            return await request.json(), []
        form = await request.post()
        told = form["payload_json"]
        payload: Json = json.loads(told if isinstance(told, str | bytes | bytearray) else b"")
        files: list[Json] = []
        for name, value in form.items():
            if not name.startswith("files["):
                continue
            assert isinstance(value, web.FileField)
            data = value.file.read()
            if len(data) > FILE_BYTES:
                raise ApiError(413, 40005, "Request entity too large")
            identity = self.world.snowflake()
            self.world.files[identity] = data
            url = f"{self.world.base}/cdn/{identity}/{value.filename}"
            sizes = {"size": len(data), "url": url, "proxy_url": url}
            files.append({"id": identity, "filename": value.filename, **sizes})
        return payload, files

    def _checked(self, payload: Json, files: list[Json], *, edits: bool = False) -> None:
        content = payload.get("content") or ""
        if len(content) > 2000:
            raise form_error("content", "Must be 2000 or fewer in length.", "BASE_TYPE_MAX_LENGTH")
        if not (content.strip() or files or payload.get("embeds")) and not (
            edits and "content" not in payload
        ):
            raise ApiError(400, 50006, "Cannot send an empty message")
        if len(str(payload.get("nonce") or "")) > 25:
            raise form_error("nonce", "Must be 25 or fewer in length.")
        rows = payload.get("components") or []
        if len(rows) > 5:
            raise form_error("components", "Must be 5 or fewer in length.")
        seen: set[str] = set()
        for number, row in enumerate(rows):
            if not 1 <= len(row["components"]) <= 5:
                raise form_error(f"components.{number}.components", "Must be between 1 and 5 in length.")
            for button in row["components"]:
                if not 1 <= len(button["custom_id"]) <= 100 or button["custom_id"] in seen:
                    raise form_error(f"components.{number}", "Component custom id is too long or duplicated")
                if not 1 <= len(button["label"]) <= 80:
                    raise form_error(f"components.{number}", "A label is too long or missing")
                seen.add(button["custom_id"])

    async def post(self, request: web.Request) -> web.Response:
        channel = self._channel(request)
        payload, files = await self._body(request)
        self._checked(payload, files)
        nonce = str(payload.get("nonce") or "")
        if nonce and payload.get("enforce_nonce"):
            known, at = self.world.nonces.get(nonce, ("", 0.0))
            if known in channel.messages and self.world.now() - at < NONCE_S:
                return answer({**channel.messages[known], "nonce": nonce})
        reference = payload.get("message_reference")
        if reference is not None:
            there = str(reference.get("message_id")) in channel.messages
            if not there and reference.get("fail_if_not_exists", True):
                raise form_error("message_reference", "Unknown message", "REPLIES_UNKNOWN_MESSAGE")
            reference = (
                {"message_id": str(reference["message_id"]), "channel_id": channel.id} if there else None
            )
        message = self._added(
            channel, payload, files, **({"message_reference": reference} if reference else {})
        )
        if nonce:
            self.world.nonces[nonce] = (message["id"], self.world.now())
        await self.world.dispatch("MESSAGE_CREATE", self.world.event(message, with_nonce=nonce or None))
        return answer({**message, "nonce": nonce} if nonce else message)

    def _added(self, channel: Channel, payload: Json, files: list[Json], **more: Any) -> Json:
        parts = {"attachments": files, "components": payload.get("components") or []}
        return self.world.add(channel, BOT, payload.get("content") or "", **parts, **more)

    async def edit(self, request: web.Request) -> web.Response:
        _, message = self._message(request)
        if message["author"]["id"] != BOT:
            raise ApiError(403, 50005, "Cannot edit a message authored by another user")
        payload, files = await self._body(request)
        self._checked(payload, files, edits=True)
        return answer(await self._changed(message, payload, files))

    async def _changed(self, message: Json, payload: Json, files: list[Json]) -> Json:
        message.update({k: v for k, v in payload.items() if k in ("content", "components")})
        if files:
            message["attachments"] = files
        message["edits"] = message.get("edits", 0) + 1
        await self.world.dispatch("MESSAGE_UPDATE", self.world.event(message))
        return message

    async def delete(self, request: web.Request) -> web.Response:
        channel, message = self._message(request)
        await self.remove(channel, message["id"])
        return web.Response(status=204)

    async def remove(self, channel: Channel, message: str) -> None:
        channel.messages.pop(message, None)
        self.world.messages.pop(message, None)
        told = {"id": message, "channel_id": channel.id}
        await self.world.dispatch(
            "MESSAGE_DELETE", told | ({"guild_id": channel.guild} if channel.guild else {})
        )

    # ------------------------------------------------------------------ interactions

    async def acknowledge(self, request: web.Request) -> web.Response:
        found = self.world.interactions.get(request.match_info["token"])
        if found is None or found.id != request.match_info["id"]:
            raise ApiError(404, 10062, "Unknown interaction")
        if self.world.now() - found.made_at > ACK_S:
            raise ApiError(404, 10062, "Unknown interaction")
        if found.acknowledged:
            raise ApiError(400, 40060, "Interaction has already been acknowledged.")
        payload = await request.json()
        if payload.get("type") not in (5, 6) or (payload["type"] == 6 and found.kind != 3):
            raise form_error("type", "Value must be one of (4, 5, 6, 7, 9, 12).")
        found.acknowledged = True
        if payload["type"] == 5:
            channel = self.world.channels[found.channel]
            found.original = self.world.add(channel, BOT, "", **found.face(), flags=LOADING)["id"]
        if "with_response" not in request.query:
            return web.Response(status=204)
        told = {"id": found.id, "type": found.kind, "response_message_id": found.original}
        told |= {"response_message_loading": payload["type"] == 5, "response_message_ephemeral": False}
        resource = {"type": payload["type"], "message": self.world.messages.get(found.original or "")}
        return answer({"interaction": told, "resource": resource})

    def _valid(self, request: web.Request) -> Interaction:
        found = self.world.interactions.get(request.match_info["token"])
        if found is None or not found.acknowledged:
            raise ApiError(404, 10015, "Unknown Webhook")
        if self.world.now() - found.made_at > TOKEN_S:
            raise ApiError(401, 50027, "Invalid Webhook Token")
        return found

    async def follow_up(self, request: web.Request) -> web.Response:
        found = self._valid(request)
        payload, files = await self._body(request)
        self._checked(payload, files)
        if payload.get("flags", 0) & EPHEMERAL:
            return answer({"id": self.world.snowflake(), "content": payload["content"]})
        channel = self.world.channels[found.channel]
        original = self.world.messages.get(found.original or "")
        if original is not None and original["flags"] & LOADING:
            return answer(await self._filled(original, payload, files))
        message = self._added(channel, payload, files, **found.face())
        await self.world.dispatch("MESSAGE_CREATE", self.world.event(message))
        return answer(message)

    def _original(self, request: web.Request) -> tuple[Channel, Json]:
        found = self._valid(request)
        message = self.world.messages.get(found.original or "")
        if message is None:
            raise ApiError(404, 10008, "Unknown Message")
        return self.world.channels[found.channel], message

    async def edit_original(self, request: web.Request) -> web.Response:
        _, message = self._original(request)
        payload, files = await self._body(request)
        self._checked(payload, files)
        return answer(await self._filled(message, payload, files))

    async def _filled(self, message: Json, payload: Json, files: list[Json]) -> Json:
        """Edit an original response; the first edit of a placeholder is what posts it."""
        if message["flags"] & LOADING:
            message["flags"] &= ~LOADING
            message["edits"] = -1
            self.world.posted_at[message["id"]] = time.monotonic()
        return await self._changed(message, payload, files)

    async def delete_original(self, request: web.Request) -> web.Response:
        channel, message = self._original(request)
        await self.remove(channel, message["id"])
        return web.Response(status=204)


def answer(told: Any, status: int = 200, headers: dict[str, str] | None = None) -> web.Response:
    # The type without a charset: clients compare the header as a whole.
    body = json.dumps(told).encode()
    return web.Response(
        body=body, status=status, headers={**(headers or {}), "Content-Type": "application/json"}
    )
