"""Discord on loopback, in a process of its own: REST v10 and the gateway, for the unmodified discord.py.

It checks what the real service checks: the token, intents, lengths, files, buttons,
nonces, limits of calls in each channel, three seconds to acknowledge an interaction
and fifteen minutes to answer it, what may be resumed.

Ways to misbehave: `misbehaves(how, times=…, method=…, path=…, after=…)` for calls of the
API; with `after`, the call was done all the same:

    rate_limit         429 with `retry_after`
    global_rate_limit  the same for all calls
    cloudflare         429 with a page, from the service in front
    server_error       `status` (502) with a page
    refuses            `status`, `code`, `message`
    garbage            200 with what is no JSON
    drop               the connection is cut instead of an answer
    hang               no answer before `releases`

and for the gateway:

    close              close all connections now, with `code`
    close_on_identify  answer the next IDENTIFYs by closing with `code`
    invalid_session    answer the next IDENTIFYs or RESUMEs with op 9 and `resumable`
    reconnect          op 7 to all
    forgets            no session can be resumed any more
    turns_away         answer the next connections with 503
    deaf               heartbeats are answered, nothing else is ever sent
    no_echo            heartbeats are not answered
    silent             nothing at all is sent, on connections that stay open
    garbage_frame      a frame that is no JSON
    no_intent          the Message Content intent is switched off
    no_permissions     the bot's role may do nothing
    no_sessions_left   the day's budget of sessions is used up
    slow_file          downloads wait for `releases`
    cut_file           downloads end in the middle
    refuses_channel    each call in `chat` is answered with `status` and `code`

Others: `asks` (a slash command), `presses` (a button), `edits`, `deletes`, `previews`,
`later` (the service's clock goes ahead), `heartbeat` (its interval), `limits` (off).
"""

import asyncio
import base64
import json
import sys
from typing import Any, Self

from aiohttp import web

from tests.platforms.simulators.discord_api import Api, Misbehaviour, answer
from tests.platforms.simulators.discord_gateway import Gateway
from tests.platforms.simulators.discord_world import (
    ALL_PERMISSIONS,
    APPLICATION,
    BOT,
    LOADING,
    TOKEN,
    Channel,
    Interaction,
    Json,
    World,
    iso,
)
from tests.platforms.simulators.port import SimPost, SimulatorProcess


class DiscordSimulator:
    """Implements `tests.platforms.simulators.port.Simulator`."""

    def __init__(self) -> None:
        self._process = SimulatorProcess("discord")

    async def __aenter__(self) -> Self:
        await self._process.__aenter__()
        return self

    async def __aexit__(self, *error: object) -> None:
        await self._process.__aexit__(*error)

    @property
    def api(self) -> str:
        return str(self._process.addresses["api"])

    def options(self, **more: Any) -> dict[str, Any]:
        return {"token": TOKEN, "api": self.api, **more}

    def settings(self, **access: Any) -> dict[str, Any]:
        return {"access": access, "options": self.options()}

    async def control(self, verb: str, **what: Any) -> Any:
        return await self._process.control(verb, **what)

    async def says(
        self,
        chat: str,
        user: str,
        text: str,
        *,
        mention: bool = True,
        dm: bool = False,
        reply_to: str | None = None,
        thread: str | None = None,
        **more: Any,
    ) -> str:
        what = {"chat": chat, "user": user, "text": text, "mention": mention, "dm": dm}
        told = await self.control("says", **what, reply_to=reply_to, thread=thread, **more)
        return str(told["id"])

    async def posts(self, chat: str | None = None) -> list[SimPost]:
        told = await self.control("posts", chat=chat)
        return [SimPost(**{**p, "files": tuple(p["files"]), "buttons": tuple(p["buttons"])}) for p in told]

    async def cuts(self) -> None:
        await self.control("cuts")

    async def misbehaves(self, how: str, *, times: int = 1, **more: Any) -> None:
        await self.control("misbehaves", how=how, times=times, **more)

    async def releases(self) -> None:
        await self.control("releases")

    async def requests(self) -> list[dict[str, Any]]:
        return list(await self.control("requests"))

    async def heard(self) -> list[dict[str, Any]]:
        """Return what was sent to the gateway."""
        return list(await self.control("heard"))

    async def state(self) -> dict[str, Any]:
        """Return reactions, commands, typing by channel, and open connections."""
        return dict(await self.control("state"))

    async def id_of(self, name: str) -> str:
        return str((await self.control("id_of", name=name))["id"])


class Service:
    """The process: the API, the gateway, files, and what a test tells it."""

    def __init__(self) -> None:
        self.world = World()
        self.gateway = Gateway(self.world)
        self.api = Api(self.world)
        self._slow_files = 0
        self._cut_files = 0
        self._files_wait = asyncio.Event()

    def application(self) -> web.Application:
        app = web.Application(middlewares=[self.api.middleware], client_max_size=64 << 20)
        app.add_routes(self.api.routes())
        for path in ("/gateway", "/gateway/"):
            app.router.add_get(path, self.gateway.handle)
        app.router.add_get("/cdn/{id}/{name}", self.file)
        app.router.add_post("/_sim/{verb}", self.control)
        return app

    async def file(self, request: web.Request) -> web.StreamResponse:
        data = self.world.files.get(request.match_info["id"])
        if data is None or "Authorization" in request.headers:
            return web.Response(status=404)
        if self._slow_files > 0:
            self._slow_files -= 1
            await self._files_wait.wait()
        if self._cut_files > 0 and request.transport is not None:
            self._cut_files -= 1
            response = web.StreamResponse(headers={"Content-Length": str(len(data))})
            await response.prepare(request)
            await response.write(data[: len(data) // 2])
            request.transport.abort()
            return response
        response = web.StreamResponse()  # without its length, as some do
        await response.prepare(request)
        await response.write(data)
        return response

    async def control(self, request: web.Request) -> web.Response:
        what: Json = await request.json()
        verb = getattr(self, f"on_{request.match_info['verb']}")
        told = await verb(**what)
        return answer({} if told is None else told)

    # ------------------------------------------------------------------ people

    async def _place(self, chat: str, user: str, *, dm: bool, thread: str | None, **more: Any) -> Channel:
        world = self.world
        who = world.user(user, bot=bool(more.get("bot")), shown=more.get("name"))
        channel = await world.channel(chat, dm=who if dm else None, topic=None if dm else more.get("topic"))
        if thread is not None:
            return await world.thread(
                thread, channel, hidden=bool(more.get("hidden")), under=more.get("under")
            )
        return channel

    async def on_says(
        self, chat: str, user: str, text: str, *, mention: bool, dm: bool, reply_to: str | None,
        thread: str | None, **more: Any,
    ) -> Json:  # fmt: skip
        world = self.world
        channel = await self._place(chat, user, dm=dm, thread=thread, **more)
        content = f"<@{BOT}> {text}" if mention and not dm else text
        fields: Json = dict(more.get("fields") or {})
        if reply_to is not None:
            fields["message_reference"] = {"message_id": reply_to, "channel_id": channel.id}
        fields["attachments"] = [self._attached(**file) for file in more.get("files") or ()]
        message = world.add(channel, world.user(user), content, **fields)
        await world.dispatch("MESSAGE_CREATE", world.event(message))
        return {"id": message["id"]}

    def _attached(
        self,
        name: str,
        data: str = "",
        size: int | None = None,
        content_type: str = "",
        *,
        absent: bool = False,
    ) -> Json:
        raw, identity = base64.b64decode(data), self.world.snowflake()
        if not absent:
            self.world.files[identity] = raw
        url = f"{self.world.base}/cdn/{identity}/file?ex=1&is=2&hm=3"
        told = {"id": identity, "filename": name, "url": url, "proxy_url": url, "content_type": content_type}
        return told | {"size": len(raw) if size is None else size}

    async def on_edits(self, message: str, text: str) -> None:
        found = self.world.messages[message]
        found |= {"content": text, "edited_timestamp": iso(self.world.now())}
        await self.world.dispatch("MESSAGE_UPDATE", self.world.event(found))

    async def on_previews(self, message: str) -> None:
        """A link's preview appears: an update that is no edit."""
        found = self.world.messages[message]
        found["embeds"] = [{"type": "link", "title": "A page", "url": "https://example.org"}]
        await self.world.dispatch("MESSAGE_UPDATE", self.world.event(found))

    async def on_deletes(self, message: str) -> None:
        channel = self.world.channels[self.world.messages[message]["channel_id"]]
        await self.api.remove(channel, message)

    async def on_asks(self, chat: str, user: str, name: str, text: str = "", *, dm: bool = False) -> Json:
        channel = await self._place(chat, user, dm=dm, thread=None)
        options = [{"name": "text", "type": 3, "value": text}] if text else []
        data = {"id": self.world.snowflake(), "name": name, "type": 1, "options": options}
        return await self._interact(channel, user, 2, data, {})

    async def on_presses(self, user: str, message: str, label: str) -> Json:
        found = self.world.messages[message]
        buttons = [b for row in found["components"] for b in row["components"]]
        command = next(b["custom_id"] for b in buttons if b["label"] == label)
        channel = self.world.channels[found["channel_id"]]
        data = {"component_type": 2, "custom_id": command}
        return await self._interact(channel, user, 3, data, {"message": found})

    async def _interact(self, channel: Channel, user: str, kind: int, data: Json, more: Json) -> Json:
        world = self.world
        who, identity = world.user(user), world.snowflake()
        token = f"interaction-{identity}"
        world.interactions[token] = Interaction(
            identity, token, channel.id, world.now(), kind, world.users[who]
        )
        told: Json = {
            "id": identity,
            "application_id": APPLICATION,
            "type": kind,
            "token": token,
            "version": 1,
            "channel_id": channel.id,
            "channel": channel.face(),
            "data": data,
            "locale": "en-US",
            "entitlements": [],
            "authorizing_integration_owners": {},
            "attachment_size_limit": 10 << 20,
            **more,
        }
        if channel.guild is not None:
            member = {**world.member(who), "user": world.users[who], "permissions": ALL_PERMISSIONS}
            told |= {"guild_id": channel.guild, "member": member}
        else:
            told["user"] = world.users[who]
        await world.dispatch("INTERACTION_CREATE", told)
        return {"id": identity}

    # ------------------------------------------------------------------ what stands, and what was done

    async def on_posts(self, chat: str | None) -> list[Json]:
        world = self.world
        wanted = None if chat is None else world.id_of(chat)
        return [
            self._post(m)
            for m in world.messages.values()
            if m["author"]["id"] == BOT
            and not m["flags"] & LOADING
            and (wanted is None or wanted in (m["channel_id"], world.channels[m["channel_id"]].parent))
        ]

    def _post(self, message: Json) -> Json:
        world = self.world
        channel = world.channels[message["channel_id"]]
        chat, thread = (channel.parent, channel.id) if channel.parent else (channel.id, None)
        answers = message.get("message_reference", {}).get("message_id")
        return {
            "id": message["id"],
            "chat": world.names.get(chat, chat),
            "text": message["content"],
            "at": world.posted_at[message["id"]],
            "thread": None if thread is None else world.names.get(thread, thread),
            "reply_to": answers or message.get("interaction_metadata", {}).get("id"),
            "edits": message.get("edits", 0),
            "files": [file["filename"] for file in message["attachments"]],
            "buttons": [b["label"] for row in message["components"] for b in row["components"]],
        }

    async def on_requests(self) -> list[Json]:
        return list(self.api.requests)

    async def on_heard(self) -> list[Json]:
        return list(self.gateway.heard)

    async def on_state(self) -> Json:
        world = self.world
        return {
            "reactions": world.reactions,
            "commands": world.commands,
            "typing": {world.names.get(c.id, c.id): c.typing for c in world.channels.values() if c.typing},
            "connections": len(self.gateway.connections),
            "sessions": len(world.sessions),
            "pending": sum(bool(m["flags"] & LOADING) for m in world.messages.values()),
        }

    async def on_id_of(self, name: str) -> Json:
        return {"id": self.world.id_of(name)}

    # ------------------------------------------------------------------ what goes wrong

    async def on_cuts(self) -> None:
        self.gateway.cut_all()

    async def on_later(self, seconds: float) -> None:
        self.world.offset += seconds

    async def on_heartbeat(self, milliseconds: int) -> None:
        self.gateway.heartbeat_ms = milliseconds

    async def on_limits(self, *, on: bool) -> None:
        self.api.limited = on

    async def on_releases(self) -> None:
        self.api.release()
        self._files_wait.set()

    async def on_raw(self, name: str, data: Json) -> None:
        """Send any event to all sessions."""
        for session in self.world.sessions.values():
            await session.dispatch(name, data)

    async def on_misbehaves(self, how: str, times: int, **more: Any) -> None:
        if how.endswith(("_file", "_channel")) or how in GATEWAY_WAYS:
            await self._misbehave(how, times, more)
        else:
            method, path = more.pop("method", None), more.pop("path", "")
            self.api.misbehaviours.append(Misbehaviour(how, times, method, path, more))

    async def _misbehave(self, how: str, times: int, more: Json) -> None:
        gateway, world = self.gateway, self.world
        match how:
            case "close":
                await gateway.close_all(more["code"])
            case "close_on_identify":
                gateway.close_on_identify += [more["code"]] * times
            case "invalid_session":
                gateway.invalid += [more.get("resumable", False)] * times
            case "reconnect":
                await gateway.send_all(7, None)
            case "forgets":
                world.sessions.clear()
            case "turns_away":
                gateway.turned_away = times
            case "deaf":
                for session in world.sessions.values():
                    session.deaf = True
            case "no_echo":
                gateway.mute_acks = bool(times)
            case "silent":
                for connection in gateway.connections:
                    connection.silent = True
            case "garbage_frame":
                await gateway.raw_all(b"{no json")
            case "no_intent":
                world.content_allowed = False
            case "no_permissions":
                self.api.permissions = 0
            case "no_sessions_left":
                self.api.gateway_left = 0
            case "slow_file":
                self._slow_files = times
            case "cut_file":
                self._cut_files = times
            case "refuses_channel":
                channel = await world.channel(more["chat"])
                channel.refuses = (more["status"], more["code"]) if times else None


GATEWAY_WAYS = frozenset(
    [
        *("close", "close_on_identify", "invalid_session", "reconnect", "forgets", "turns_away", "deaf"),
        *("no_echo", "silent", "garbage_frame", "no_intent", "no_permissions", "no_sessions_left"),
    ]
)


async def main() -> None:
    service = Service()
    runner = web.AppRunner(service.application(), access_log=None, shutdown_timeout=1)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    host, port = runner.addresses[0][:2]
    service.world.base = f"http://{host}:{port}"
    addresses = {"control": service.world.base, "api": f"{service.world.base}/api/v10"}
    sys.stdout.write(json.dumps(addresses) + "\n")
    sys.stdout.flush()
    await asyncio.to_thread(sys.stdin.buffer.read)  # until the test is over


if __name__ == "__main__":
    asyncio.run(main())
