"""Telegram's Bot API on loopback, in a process of its own, for the unmodified python-telegram-bot.

It speaks `/bot<token>/<method>` (form, multipart or JSON), `/file/bot<token>/<path>`,
long polling with offsets, and webhooks with their secret header. It checks what the
real service checks: the token, required fields, lengths in UTF-16 after the entities
are parsed (4,096; captions 1,024), entity offsets, 1 to 64 bytes of callback data,
reactions that are allowed, whether a chat, a topic, or a message exists, and that one
program polls. Ids of messages count up in each supergroup by itself, so two groups have
the same ones.

Ways to misbehave (`misbehaves(how, times=…, method=…, chat=…, …)`); without `method` they
hit every call that posts or changes a post:

    flood          429 with `retry_after` (default 37)
    conflict       getUpdates: 409, another program polls
    webhook        getUpdates: 409, a webhook is active
    unauthorized   401
    bad_gateway    502 with a page of HTML; with `after`, the call was done all the same
    server_error   500 in JSON; with `after`, the call was done all the same
    refuses        400 with `description`
    cant_parse     400 "can't parse entities"
    drop           the connection is closed instead of an answer; with `after`, the call was done
    hang           no answer before `releases`; with `after`, the call was done
    garbage        200 with what is no JSON
    odd            200 with `result` of an unexpected shape
    slow_file      a download waits for `releases`
    cut_file       a download ends in the middle

Others: `limits` (messages in a chat per second and per minute, as the real ones), `blocks`
(403 from a chat), `migrates` (a group becomes a supergroup), `another_polls`.
"""

import asyncio
import json
import sys
from typing import Any, Self

from aiohttp import web

from tests.platforms.simulators.port import SimPost, SimulatorProcess
from tests.platforms.simulators.telegram_methods import Service
from tests.platforms.simulators.telegram_wire import Wire, remembered
from tests.platforms.simulators.telegram_world import BOT_NAME, TOKEN, Json


async def serve() -> None:
    service = Service()
    wire = Wire(service)
    app = web.Application(client_max_size=64 << 20, middlewares=[remembered])
    app["service"] = service
    app.router.add_route("*", "/bot{token:[^/]+}/{method}", wire.call)
    app.router.add_get("/file/bot{token:[^/]+}/{path:.+}", wire.file)
    app.router.add_post("/_sim/{verb}", wire.control)
    runner = web.AppRunner(app, access_log=None, handler_cancellation=True)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    port = runner.addresses[0][1]
    pushing = asyncio.ensure_future(service.push_updates())
    url = f"http://127.0.0.1:{port}"
    print(json.dumps({"control": url, "api": url, "token": TOKEN, "bot": BOT_NAME}), flush=True)  # noqa: T201 to the test
    await asyncio.get_running_loop().run_in_executor(None, sys.stdin.read)
    pushing.cancel()
    await runner.cleanup()


class TelegramSimulator:
    """Implements `port.Simulator`. Chats and people have names, or the ids that they are to have."""

    def __init__(self) -> None:
        self.process = SimulatorProcess("telegram")

    async def __aenter__(self) -> Self:
        await self.process.__aenter__()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.process.__aexit__(*_)

    @property
    def api(self) -> str:
        return str(self.process.addresses["api"])

    def options(self, **more: Any) -> Json:
        return {"token": TOKEN, "api_url": self.api, **more}

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
        said = {"chat": chat, "user": user, "text": text, "mention": mention, "dm": dm, "reply_to": reply_to}
        return str((await self.tell("says", **said, thread=thread, **more))["id"])

    async def posts(self, chat: str | None = None) -> list[SimPost]:
        found = await self.tell("posts", chat=chat)
        return [
            SimPost(**{**each, "files": tuple(each["files"]), "buttons": tuple(each["buttons"])})
            for each in found
        ]

    async def cuts(self) -> None:
        await self.tell("cuts")

    async def misbehaves(self, how: str, *, times: int = 1, **more: Any) -> None:
        await self.tell("misbehaves", how=how, times=times, **more)

    async def requests(self, method: str | None = None) -> list[Json]:
        return [each for each in await self.tell("requests") if method in (None, each["method"])]

    async def state(self) -> Json:
        return dict(await self.tell("state"))

    async def tell(self, verb: str, **what: Any) -> Any:
        return await self.process.control(verb, **what)


if __name__ == "__main__":
    asyncio.run(serve())
