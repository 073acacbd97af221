"""The wire of the simulated Telegram: the Bot API, files, and what a test can tell it. See `telegram.py`."""

import asyncio
import re
import time
from typing import Any, cast

import aiohttp
from aiohttp import web

from tests.platforms.simulators.telegram_methods import METHODS, Service
from tests.platforms.simulators.telegram_world import TOKEN, BotError, Json, Misbehaviour, bad


class Wire:
    """Serves the Bot API, files, and the control address."""

    def __init__(self, service: Service) -> None:
        self.service = service

    async def call(self, request: web.Request) -> web.StreamResponse:
        method, fields = request.match_info["method"], await _fields(request)
        number = str(fields.get("chat_id") or "")
        chat = int(number) if re.fullmatch(r"-?\d+", number) else None
        note = {
            "method": method,
            "path": f"/bot…/{method}",
            "chat": number,
            "at": time.monotonic(),
            "status": 0,
        }
        note["fields"] = fields
        self.service.calls.append(note)
        order = next((o for o in self.service.orders if o.meets(method, chat)), None)
        try:
            _check_token(request)
            if order is not None:
                order.times -= 1
                early = await self.misbehave(order, method, fields, request)
                if early is not None:
                    note["status"] = early.status
                    return early
            answer = {"ok": True, "result": await self.perform(method, fields)}
            note["status"] = 200
            return web.json_response(answer)
        except BotError as error:
            note["status"] = error.status
            body: Json = {"ok": False, "error_code": error.status, "description": error.description}
            if error.parameters:
                body["parameters"] = error.parameters
            return web.json_response(body, status=error.status)

    async def perform(self, method: str, fields: Json) -> Any:
        if method not in METHODS:
            raise BotError(404, "Not Found: method not found")
        result = METHODS[method](self.service, fields)
        return await result if asyncio.iscoroutine(result) else result

    async def misbehave(
        self, order: Misbehaviour, method: str, fields: Json, request: web.Request
    ) -> web.Response | None:
        how, more = order.how, order.more
        if more.get("after"):
            await self.perform(method, fields)
        match how:
            case "flood":
                wait = more.get("retry_after", 37)
                raise BotError(429, f"Too Many Requests: retry after {wait}", retry_after=wait)
            case "conflict":
                raise BotError(
                    409,
                    "Conflict: terminated by other getUpdates request; make sure that only one bot instance is running",
                )
            case "webhook":
                raise BotError(
                    409,
                    "Conflict: can't use getUpdates method while webhook is active; use deleteWebhook to delete "
                    "the webhook first",
                )
            case "unauthorized":
                raise BotError(401, "Unauthorized")
            case "bad_gateway":
                return web.Response(
                    status=502, text="<html><h1>502 Bad Gateway</h1></html>", content_type="text/html"
                )
            case "server_error":
                raise BotError(500, "Internal Server Error: sometimes")
            case "refuses":
                raise BotError(more.get("status", 400), more["description"], **more.get("parameters", {}))
            case "cant_parse":
                raise bad("can't parse entities: Can't find end of the entity starting at byte offset 3")
            case "drop":
                assert request.transport is not None
                request.transport.abort()
                return web.Response(status=500)
            case "hang" | "slow_file":
                await self.service.released.wait()
                return web.Response(status=502) if how == "hang" else None
            case "garbage":
                return web.Response(text="<html>hello from a captive portal</html>", content_type="text/html")
            case "odd":
                return web.json_response({"ok": True, "result": more.get("result", "what?")})
        raise AssertionError(how)

    async def file(self, request: web.Request) -> web.StreamResponse:
        order = next((o for o in self.service.orders if o.meets("file", None)), None)
        self.service.calls.append(
            {"method": "file", "path": "/file/bot…", "at": time.monotonic(), "status": 200}
        )
        if request.match_info["token"] != TOKEN:
            return web.Response(status=401)
        kept = next(
            (data for path, data in self.service.files.values() if path == request.match_info["path"]), None
        )
        if kept is None:
            return web.Response(status=404)
        if order is not None:
            order.times -= 1
            if order.how != "cut_file":
                early = await self.misbehave(order, "file", {}, request)
                if early is not None:
                    return early
        size = kept if isinstance(kept, int) else len(kept)
        response = web.StreamResponse()
        response.content_length = size
        await response.prepare(request)
        if order is not None and order.how == "cut_file":
            await response.write(b"\0" * (size // 2))
            assert request.transport is not None
            request.transport.abort()
            return response
        if isinstance(kept, bytes):
            await response.write(kept)
        else:
            for start in range(0, kept, 1 << 20):
                await response.write(b"\0" * min(1 << 20, kept - start))
        await response.write_eof()
        return response

    # ------------------------------------------------------------------ control

    async def control(self, request: web.Request) -> web.Response:
        verb, what = request.match_info["verb"], await request.json()
        answer = getattr(self, f"do_{verb}")(what)
        return web.json_response(await answer if asyncio.iscoroutine(answer) else answer)

    def do_says(self, what: Json) -> Any:
        return self.service.says(what)

    def do_update(self, what: Json) -> Any:
        """Hand over a raw update; without an id it gets the next."""
        service = self.service
        update = {"update_id": next(service.update_ids), **what["update"]}
        service.updates.append(update)
        service.wake.set()
        return update

    def do_edits(self, what: Json) -> Any:
        chat = self.service.chat(what["chat"])
        message = {**chat.messages[int(what["id"])], "text": what["text"], "edit_date": int(time.time())}
        message.pop("entities", None)
        chat.messages[int(what["id"])] = message
        return self.service.push("edited_message", message)

    def do_presses(self, what: Json) -> Any:
        service = self.service
        chat = service.chat(what["chat"])
        message = chat.messages[int(what["id"])]
        number = str(4_000_000_000_000_000_000 + next(service.numbers))
        query = {
            "id": number,
            "from": service.user(what["user"]),
            "message": message,
            "chat_instance": "1",
            "data": what["data"],
        }
        service.push("callback_query", query)
        return {"id": number}

    def do_migrates(self, what: Json) -> Any:
        service = self.service
        old, user = service.chat(what["chat"], basic=True), service.user(what.get("user", "admin"))
        new = service.chat(what["new"])
        old.moved_to, new.title = new.id, old.title
        base = {"date": int(time.time()), "from": user}
        if what.get("announce", True):
            first = {
                **base,
                "message_id": service.next_id(old),
                "chat": old.face(),
                "migrate_to_chat_id": new.id,
            }
            second = {
                **base,
                "message_id": service.next_id(new),
                "chat": new.face(),
                "migrate_from_chat_id": old.id,
            }
            service.push("message", first)
            service.push("message", second)
        return {"old": str(old.id), "new": str(new.id)}

    def do_blocks(self, what: Json) -> Any:
        self.service.chat(what["chat"], dm=what.get("dm", False)).blocked = what.get(
            "why", "bot was blocked by the user"
        )
        return True

    def do_topic(self, what: Json) -> Any:
        chat = self.service.chat(what["chat"], forum=True)
        chat.topics[int(what["thread"])] = what.get("name", "topic")
        return True

    def do_deletes(self, what: Json) -> Any:
        return self.service.chat(what["chat"]).messages.pop(int(what["id"]), None) is not None

    def do_privacy(self, what: Json) -> Any:
        self.service.privacy = what["on"]
        return True

    def do_limits(self, what: Json) -> Any:
        self.service.per_second, self.service.per_minute = what.get("per_second"), what.get("per_minute")
        return True

    def do_misbehaves(self, what: Json) -> Any:
        more = dict(what)
        chat = more.pop("chat", None)
        self.service.released.clear()
        self.service.orders.append(
            Misbehaviour(
                more.pop("how"),
                more.pop("times", 1),
                more.pop("method", None),
                None if chat is None else self.service.number(chat, group=True),
                more,
            )
        )
        return True

    def do_behaves(self, _: Json) -> Any:
        self.service.orders.clear()
        self.service.released.set()
        return True

    def do_releases(self, _: Json) -> Any:
        self.service.released.set()
        return True

    def do_webhook(self, what: Json) -> Any:
        """Another program sets, or takes away, a webhook."""
        self.service.webhook = {"url": what["url"], "secret": ""}
        return True

    async def do_another_polls(self, _: Json) -> Any:
        """Another program polls once with the token; ours is sent away."""
        updates = await self.service.get_updates({"timeout": 0})
        return len(updates)

    async def do_cuts(self, _: Json) -> Any:
        """Cut every connection of the Bot API."""
        cut = 0
        for request in list(self.service.connections.values()):
            if request.transport is not None:
                request.transport.abort()
                cut += 1
        return cut

    def do_posts(self, what: Json) -> Any:
        service = self.service
        wanted = service.chat(what["chat"]).id if what.get("chat") else None
        return sorted(
            (
                _as_post(chat.name, message, service.posted_at[chat.id, number])
                for chat in {c.id: c for c in service.chats.values()}.values()
                if wanted in (None, chat.id)
                for number, message in chat.messages.items()
                if (chat.id, number) in service.posted_at
            ),
            key=lambda post: post["at"],
        )

    def do_state(self, _: Json) -> Any:
        service = self.service
        return {
            "pending": len(service.updates),
            "commands": service.commands,
            "answered": service.answered,
            "allowed": service.allowed,
            "webhook": service.webhook,
            "webhook_error": service.webhook_error,
            "pushes": service.pushes,
            "reactions": {f"{c.id}/{n}": e for c in service.chats.values() for n, e in c.reactions.items()},
            "typing": {str(c.id): c.typing for c in service.chats.values()},
            "ids": {name: str(number) for name, number in service.names.items()},
        }

    def do_message(self, what: Json) -> Any:
        return self.service.chat(what["chat"]).messages[int(what["id"])]

    def do_requests(self, _: Json) -> Any:
        return self.service.calls


def _as_post(chat: str, message: Json, at: float) -> Json:
    rows = message.get("reply_markup", {}).get("inline_keyboard", [])
    files = [message["document"]["file_name"]] if "document" in message else []
    files += [each["file_name"] for each in message.get("photo", [])]
    return {
        "id": str(message["message_id"]),
        "chat": chat,
        "text": message.get("text", message.get("caption", "")),
        "at": at,
        "thread": str(message["message_thread_id"]) if message.get("is_topic_message") else None,
        "reply_to": str(message["reply_to_message"]["message_id"]) if "reply_to_message" in message else None,
        "edits": message.get("edits", 0),
        "files": files,
        "buttons": [button["text"] for row in rows for button in row],
    }


def _check_token(request: web.Request) -> None:
    if request.match_info["token"] != TOKEN:
        raise BotError(401, "Unauthorized")


async def _fields(request: web.Request) -> Json:
    fields: Json = {}
    if request.content_type == "application/json":
        return dict(await request.json())
    if request.content_type == "multipart/form-data":
        async for part in await request.multipart():
            assert isinstance(part, aiohttp.BodyPartReader)
            if part.filename is None:
                fields[str(part.name)] = await part.text()
                continue
            size = 0
            while chunk := await part.read_chunk(1 << 16):
                size += len(chunk)
            fields[str(part.name)] = {"name": part.filename, "size": size}
        return fields
    return {**dict(request.query), **{k: str(v) for k, v in (await request.post()).items()}}


@web.middleware
async def remembered(request: web.Request, handler: Any) -> web.StreamResponse:
    service: Service = request.app["service"]
    if request.path.startswith("/_sim"):
        answer: web.StreamResponse = await handler(request)
        return answer
    service.connections[id(request)] = request
    try:
        return cast(web.StreamResponse, await handler(request))
    finally:
        service.connections.pop(id(request), None)
