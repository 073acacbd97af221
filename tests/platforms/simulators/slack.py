"""A simulated Slack: the Web API, Socket Mode, the Events API, files, commands and buttons.

`misbehaves(how, times=…, **more)`; calls of the Web API may be narrowed by `method=` and `channel=`:

- `rate_limited` (`retry_after`): 429. `error` (`code`, `answer`): `ok: false`. `server_error` (`status`): a 5xx page
- `answers` (`body`): 200 and this. `redirects` (`to`): files are elsewhere
- `posted_then_500`, `silent`: done, and then no word of it. `lost`: not done, the line is cut. `slow` (`seconds`)
- `html`, `plain`, `garbage`: 200, and nothing that can be read. `truncates` (`at`): `ok: true` and half a text
- `refuses_socket`, `no_hello`, `link_disabled`: the next sockets. `drops_ack`, `duplicates`: the next envelopes
- `deaf`: the open sockets stay open and are silent. `refresh` (`reason`, `close_after_s`): asks for a new socket
- `shared` (`sockets`): another program is connected with the app token, and gets its share of the events
- `limits`: the real limits of calls hold from now on. `token` (`code`), `app_token` (`code`): no longer taken
- `scopes` (`without`): a permission is missing. `lives` (`seconds`): how long new sockets say they will be kept
"""

import asyncio
import json
import sys
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Self

from aiohttp import web

from tests.platforms.simulators.port import SimPost, SimulatorProcess
from tests.platforms.simulators.slack_checks import SlackRefusesError
from tests.platforms.simulators.slack_service import (
    ALL_SCOPES,
    APP_TOKEN,
    BOT_TOKEN,
    BOT_USER,
    SECRET,
    TEAM,
    Channel,
    Fault,
    Json,
    Service,
    id_of,
)
from tests.platforms.simulators.slack_wire import Wire

SOCKET_WAYS = ("refuses_socket", "no_hello", "link_disabled", "drops_ack", "duplicates")


class Simulation:
    """The service, its wire, and what a test may tell it."""

    def __init__(self) -> None:
        self.service = Service()
        self.wire = Wire(self.service)
        self._verbs: dict[str, Callable[[Json], Awaitable[Any]]] = {
            name.removeprefix("do_"): getattr(self, name) for name in dir(self) if name.startswith("do_")
        }

    # ------------------------------------------------------------------ http

    async def api(self, request: web.Request) -> web.StreamResponse:
        return await self.service.call(request.match_info["method"], request)

    async def upload(self, request: web.Request) -> web.Response:
        content = await request.read()
        taken = self.service.uploaded(request.match_info["id"], content)
        return web.Response(text=f"OK - {len(content)}") if taken else web.Response(status=400, text="no")

    async def file(self, request: web.Request) -> web.StreamResponse:
        if request.headers.get("Authorization") != f"Bearer {BOT_TOKEN}":
            return web.Response(text="<html>sign in</html>", content_type="text/html")
        file_id = request.match_info["id"]
        redirect = self.service.take_fault("redirects")
        if redirect is not None:
            return web.Response(status=302, headers={"Location": redirect.more["to"]})
        if "files:read" not in self.service.scopes.split(","):
            return web.Response(text="<html>sign in</html>", content_type="text/html")
        response = web.StreamResponse()
        response.content_type = self.service.files[file_id]["mimetype"]
        response.enable_chunked_encoding()
        await response.prepare(request)
        content = self.service.content[file_id]
        for at in range(0, len(content), 65536):
            await response.write(content[at : at + 65536])
        await response.write_eof()
        return response

    async def respond(self, request: web.Request) -> web.Response:
        found = self.service.interactions.get(request.match_info["id"])
        if found is None or found["uses"] < 1:
            return web.Response(status=404, text="used_url")
        found["uses"] -= 1
        body = await request.json()
        entry = {**body, "channel": found["channel"], "user": found["user"]}
        if body.get("response_type") == "in_channel":
            channel = self.service.channels[found["channel"]]
            message = {"type": "message", "user": BOT_USER, "bot_id": "BCALLBOARD", "ts": self.service.ts()}
            channel.messages[message["ts"]] = {
                **message,
                "text": body.get("text", ""),
                "posted_at": 0.0,
                "edits": 0,
            }
        else:
            self.service.ephemerals.append(entry)
        return web.Response(text="ok")

    async def control(self, request: web.Request) -> web.Response:
        told = await request.json()
        answer = await self._verbs[request.match_info["verb"]](told)
        return web.json_response(answer if answer is not None else {})

    # ------------------------------------------------------------------ verbs

    async def do_says(self, told: Json) -> Json:
        service = self.service
        user = service.user(told["user"])
        kind = "im" if told.get("dm") else told.get("kind", "channel")
        channel = service.channel(told["chat"], kind, user)
        text = f"<@{BOT_USER}> {told['text']}" if told.get("mention") and kind == "channel" else told["text"]
        message: Json = {
            "type": "message",
            "user": user,
            "team": TEAM,
            "ts": told.get("ts") or service.ts(),
            "text": text,
            "client_msg_id": service.new("cmid-"),
            **told.get("event", {}),
        }
        thread = told.get("thread")
        if thread is None and told.get("reply_to"):
            replied = channel.messages.get(told["reply_to"], {})
            thread = replied.get("thread_ts") or told["reply_to"]
        if thread:
            message["thread_ts"] = thread
        if told.get("files"):
            message |= {"subtype": "file_share", "files": [service.attached(file) for file in told["files"]]}
        service.told(channel, message)
        return {"id": message["ts"]}

    async def do_edits(self, told: Json) -> None:
        channel = self._channel(told["chat"])
        message = channel.messages[told["id"]]
        before = dict(message)
        message |= {"text": told.get("text", message["text"])}
        if "text" in told:
            message["edited"] = {"user": message["user"], "ts": self.service.ts()}
        else:
            message["attachments"] = [{"from_url": "https://example.org", "title": "a preview"}]
        self.service.event(
            {
                "type": "message",
                "subtype": "message_changed",
                "hidden": True,
                "channel": channel.id,
                "channel_type": "im" if channel.kind == "im" else "channel",
                "ts": self.service.ts(),
                "message": dict(message),
                "previous_message": before,
            }
        )
        mentioned = f"<@{BOT_USER}>"
        if channel.kind == "channel" and mentioned in message["text"] and mentioned not in before["text"]:
            mention = {name: message[name] for name in message if name not in ("files", "subtype")}
            mention |= {"type": "app_mention", "channel": channel.id, "event_ts": message["edited"]["ts"]}
            self.service.event(mention)

    async def do_deletes(self, told: Json) -> None:
        self.service.remove(self._channel(told["chat"]), told["id"])

    async def do_commands(self, told: Json) -> Json:
        channel, user = self._channel(told["chat"], told.get("dm", False)), self.service.user(told["user"])
        trigger = self.service.new("trigger.")
        self.service.interactions[trigger] = {"channel": channel.id, "user": user, "uses": 5}
        payload = {
            "token": "deprecated",
            "team_id": TEAM,
            "channel_id": channel.id,
            "channel_name": "directmessage" if channel.kind == "im" else channel.name,
            "user_id": user,
            "user_name": told["user"].lower(),
            "command": told["command"],
            "text": told.get("text", ""),
            "response_url": f"{self.service.origin}/response/{trigger}",
            "trigger_id": trigger,
        }
        self.wire.emit("slash_commands", payload)
        return {"id": trigger}

    async def do_presses(self, told: Json) -> Json:
        channel, user = self._channel(told["chat"]), self.service.user(told["user"])
        message = channel.messages[told["id"]]
        actions = [e for b in message["blocks"] if b["type"] == "actions" for e in b["elements"]]
        pressed = next(e for e in actions if e["text"]["text"] == told["label"])
        trigger = self.service.new("trigger.")
        self.service.interactions[trigger] = {"channel": channel.id, "user": user, "uses": 5}
        place: Json = {"type": "message", "message_ts": message["ts"], "channel_id": channel.id}
        if message.get("thread_ts"):
            place["thread_ts"] = message["thread_ts"]
        payload = {
            "type": "block_actions",
            "team": {"id": TEAM},
            "user": {"id": user, "name": told["user"].lower(), "username": told["user"].lower()},
            "channel": {"id": channel.id, "name": channel.name},
            "container": place,
            "message": {
                k: v for k, v in message.items() if k in ("ts", "thread_ts", "text", "user", "bot_id")
            },
            "actions": [{**pressed, "action_ts": self.service.ts(), "block_id": "b1"}],
            "trigger_id": trigger,
            "response_url": f"{self.service.origin}/response/{trigger}",
        }
        self.wire.emit("interactive", payload)
        return {"id": trigger}

    async def do_event(self, told: Json) -> None:
        """Send an event as it is."""
        self.service.event(told["event"])

    async def do_envelope(self, told: Json) -> None:
        self.wire.emit(told["type"], told["payload"])

    async def do_raw(self, told: Json) -> None:
        """Send a frame as it is, to each socket."""
        for socket in self.wire.sockets:
            if "hex" in told:
                await socket.ws.send_bytes(bytes.fromhex(told["hex"]))
            else:
                await socket.ws.send_str(told["text"])

    async def do_channel(self, told: Json) -> Json:
        kind = told.pop("kind", "channel")
        channel = self.service.channel(told.pop("chat"), kind)
        for name, value in told.items():
            setattr(channel, name, value)
        return {"id": channel.id}

    async def do_posts(self, told: Json) -> list[Json]:
        wanted = told.get("chat")
        channels = [self._channel(wanted)] if wanted is not None else list(self.service.channels.values())
        found = [
            (message["ts"], _post(channel, message))
            for channel in channels
            for message in channel.messages.values()
            if message.get("user") == BOT_USER
        ]
        return [post for _, post in sorted(found, key=lambda each: float(each[0]))]

    async def do_messages(self, told: Json) -> list[Json]:
        return list(self._channel(told["chat"]).messages.values())

    async def do_cuts(self, _: Json) -> None:
        await self.wire.cut()

    async def do_requests(self, _: Json) -> list[Json]:
        return self.service.requests

    async def do_state(self, _: Json) -> Json:
        wire, service = self.wire, self.service
        return {
            "sockets": len(wire.sockets),
            "accepted": wire.accepted,
            "unacknowledged": len(wire.open),
            "acks": wire.acks[-1000:],
            "resent": wire.resent,
            "undelivered": wire.undelivered,
            "swallowed": wire.swallowed,
            "pushes": wire.pushes,
            "ephemerals": service.ephemerals,
            "pings": service.pings,
            "statuses": service.statuses,
            "files": list(service.files.values()),
            "ids": {channel.name: channel.id for channel in service.channels.values()},
        }

    async def do_content(self, told: Json) -> Json:
        return {"text": self.service.content[told["id"]].decode("utf-8", "replace")}

    async def do_listens(self, told: Json) -> None:
        self.wire.events_url = told["url"]

    async def do_pushes(self, told: Json) -> Json:
        return {"status": await self.wire.push_once(told["kind"], told["payload"], **told.get("how", {}))}

    async def do_misbehaves(self, told: Json) -> None:
        how, times, more = told["how"], told["times"], told["more"]
        wire, service = self.wire, self.service
        match how:
            case _ if how in SOCKET_WAYS:
                wire.faults.append({"how": how, "times": times})
            case "deaf":
                for socket in wire.sockets:
                    socket.deaf = True
            case "refresh":
                await wire.refresh(more.get("reason", "warning"), more.get("close_after_s", 1.0))
            case "shared":
                wire.strangers = more.get("sockets", 1)
            case "limits":
                service.limits = True
            case "token":
                service.token_error = more.get("code", "")
            case "app_token":
                service.app_token_error = more.get("code", "")
            case "scopes":
                lacking = more.get("without", ())
                service.scopes = ",".join(s for s in ALL_SCOPES.split(",") if s not in lacking)
            case "lives":
                wire.lives_s = more["seconds"]
            case "ack_s":
                wire.ack_s = more["seconds"]
            case _:
                service.faults.append(Fault(how, times, more))

    def _channel(self, chat: str, dm: bool = False) -> Channel:
        for letter in "DCG":
            if (found := self.service.channels.get(id_of(chat, letter))) is not None:
                return found
        return self.service.channel(chat, "im" if dm else "channel")


def _post(channel: Channel, message: Json) -> Json:
    buttons = [
        element["text"]["text"]
        for block in message.get("blocks") or []
        if block["type"] == "actions"
        for element in block["elements"]
    ]
    return {
        "id": message["ts"],
        "chat": channel.name,
        "text": message["text"],
        "at": message.get("posted_at", 0.0),
        "thread": message.get("thread_ts"),
        "reply_to": None,
        "edits": message.get("edits", 0),
        "files": [file["name"] for file in message.get("files", ())],
        "buttons": buttons,
    }


async def serve() -> None:
    """Run until the standard input ends."""
    simulation = Simulation()
    app = web.Application(client_max_size=1 << 30)
    app.router.add_route("*", "/api/apps.connections.open", _connections_open(simulation))
    app.router.add_route("*", "/api/{method}", simulation.api)
    app.router.add_get("/socket", simulation.wire.socket)
    app.router.add_post("/upload/{id}", simulation.upload)
    app.router.add_get("/files/{id}/{name}", simulation.file)
    app.router.add_post("/response/{id}", simulation.respond)
    app.router.add_post("/_sim/{verb}", simulation.control)
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    host, port = runner.addresses[0][:2]
    simulation.service.origin = f"http://{host}:{port}"
    origin = simulation.service.origin
    sys.stdout.write(json.dumps({"control": origin, "api": f"{origin}/api/"}) + "\n")
    sys.stdout.flush()
    await asyncio.get_running_loop().run_in_executor(None, sys.stdin.read)
    await simulation.wire.close()


def _connections_open(simulation: Simulation) -> Callable[[web.Request], Awaitable[web.StreamResponse]]:
    service, wire = simulation.service, simulation.wire

    async def opened(arguments: Json) -> Json:
        del arguments
        if len(wire.sockets) >= 10:
            raise SlackRefusesError("too_many_websockets")
        address = service.origin.replace("http", "ws", 1)
        return {"url": f"{address}/socket?ticket={wire.ticket()}"}

    service._methods["apps.connections.open"] = opened

    async def answer(request: web.Request) -> web.StreamResponse:
        return await service.call("apps.connections.open", request)

    return answer


# ------------------------------------------------------------------ for tests


class SlackSimulator:
    """Implements `port.Simulator`, and what only Slack has."""

    def __init__(self) -> None:
        self.process = SimulatorProcess("slack")

    async def __aenter__(self) -> Self:
        await self.process.__aenter__()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.process.__aexit__(*_)

    def options(self, **more: Any) -> Json:
        tokens = {"bot_token": BOT_TOKEN, "app_token": APP_TOKEN, "signing_secret": SECRET}
        return {**tokens, "base_url": self.process.addresses["api"], **more}

    def settings(self, **access: Any) -> Json:
        return {"access": access, "options": self.options()}

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
        said = {"chat": chat, "user": user, "text": text, "mention": mention, "dm": dm}
        return str((await self.tell("says", **said, reply_to=reply_to, thread=thread, **more))["id"])

    async def edits(self, chat: str, message_id: str, text: str | None = None) -> None:
        """Let a person change a message; without a text, Slack adds a preview to it."""
        await self.tell("edits", chat=chat, id=message_id, **({} if text is None else {"text": text}))

    async def deletes(self, chat: str, message_id: str) -> None:
        await self.tell("deletes", chat=chat, id=message_id)

    async def commands(self, chat: str, user: str, command: str, text: str = "", *, dm: bool = False) -> str:
        told = await self.tell("commands", chat=chat, user=user, command=command, text=text, dm=dm)
        return str(told["id"])

    async def presses(self, chat: str, user: str, message_id: str, label: str) -> str:
        return str((await self.tell("presses", chat=chat, user=user, id=message_id, label=label))["id"])

    async def posts(self, chat: str | None = None) -> list[SimPost]:
        found: Sequence[Json] = await self.tell("posts", chat=chat)
        return [
            SimPost(**{**each, "files": tuple(each["files"]), "buttons": tuple(each["buttons"])})
            for each in found
        ]

    async def cuts(self) -> None:
        await self.tell("cuts")

    async def misbehaves(self, how: str, *, times: int = 1, **more: Any) -> None:
        await self.tell("misbehaves", how=how, times=times, more=more)

    async def requests(self, method: str | None = None) -> list[Json]:
        return [each for each in await self.tell("requests") if method in (None, each["method"])]

    async def state(self) -> Json:
        """Return what else can be seen: sockets, acknowledgements, private answers, pings."""
        return dict(await self.tell("state"))

    async def tell(self, verb: str, **what: Any) -> Any:
        return await self.process.control(verb, **what)


def channel_id(chat: str) -> str:
    """Return the id of a channel that a test calls by a name."""
    return id_of(chat, "C")


def dm_id(chat: str) -> str:
    return id_of(chat, "D")


def user_id(user: str) -> str:
    return id_of(user, "U")


if __name__ == "__main__":
    asyncio.run(serve())
