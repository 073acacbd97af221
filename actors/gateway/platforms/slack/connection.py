"""One connection of an account: puts the parts together while it lasts."""

import asyncio
from collections.abc import Callable
from contextlib import AsyncExitStack
from typing import Any

import aiohttp
import structlog

from actors.gateway.commands import BY_NAME
from actors.gateway.edge import EdgeContext, EdgeError, Hear
from actors.gateway.platforms.slack.events import Listener
from actors.gateway.platforms.slack.files import Attachments
from actors.gateway.platforms.slack.gap import Gap
from actors.gateway.platforms.slack.hearing import Hearing, Interactions
from actors.gateway.platforms.slack.options import SlackOptions
from actors.gateway.platforms.slack.people import People
from actors.gateway.platforms.slack.posting import Posting
from actors.gateway.platforms.slack.socket_mode import SocketMode
from actors.gateway.platforms.slack.translate import Reading, Us
from actors.gateway.platforms.slack.web import Web
from messages.delivery import EdgeView, Post, ProblemKind

log = structlog.get_logger(__name__)

MOST_CONNECTIONS = 64


class Connection:
    """Runs once; says, finds and shows while it runs."""

    def __init__(self, options: SlackOptions, context: EdgeContext) -> None:
        self._options = options
        self._context = context
        self._posting: Posting | None = None
        self._web: Web | None = None
        self._socket: SocketMode | None = None
        self._us: Us | None = None
        self.hearing: Hearing | None = None
        """While it runs; what it refused is counted there."""

    async def run(self, hear: Hear, connected: Callable[[], None]) -> None:
        async with AsyncExitStack() as stack:
            http = await stack.enter_async_context(session())
            web = Web(self._options, http, self._context.clock)
            self._us = await identity(web)
            interactions = Interactions(self._context.clock)
            people = People(web, self._context.clock)
            stack.push_async_callback(people.close)
            attachments = Attachments(web, self._context.files, self._options.fetch_bytes)
            hearing = Hearing(hear, self._reading, people, attachments, interactions, self._context.clock)
            stack.push_async_callback(hearing.close)
            stack.callback(self._gone)
            self.hearing = hearing
            self._web = web
            posting = Posting(web, self._context.clock, interactions, unfurl=self._options.unfurl)
            stack.push_async_callback(posting.close)
            self._posting = posting
            await self._listen(web, http, hearing, connected)

    async def _listen(
        self, web: Web, http: aiohttp.ClientSession, hearing: Hearing, connected: Callable[[], None]
    ) -> None:
        gap = Gap(web, hearing, self._context.clock)
        background: list[asyncio.Future[None]] = []

        def begin() -> None:
            # Before anything new is heard: what was missed keeps its place before it.
            fetching = gap.begin(self._context.last_heard)
            if fetching is not None:
                background.append(fetching)
            connected()

        clock, options = self._context.clock, self._options
        loop = asyncio.get_running_loop()
        if options.mode == "socket":
            self._socket = SocketMode(web, http, clock, hearing, self._context.trouble, options.heartbeat_s)
            listening = loop.create_task(self._socket.run(begin))
        else:
            listening = loop.create_task(Listener(options, clock, hearing).run(begin))
        try:
            ends: tuple[asyncio.Future[Any], ...] = (listening, hearing.ended)
            await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
            if hearing.ended.done():
                raise EdgeError(ProblemKind.NEEDS_HUMAN, hearing.ended.result())
            await listening
        finally:
            listening.cancel()
            for task in background:
                task.cancel()
            outcomes = await asyncio.gather(listening, *background, return_exceptions=True)
            for outcome in outcomes[1:]:
                if isinstance(outcome, Exception):
                    log.error("missed messages could not be fetched", error=repr(outcome))

    def _gone(self) -> None:
        self._posting = self._web = self._socket = None

    def _reading(self) -> Reading:
        assert self._us is not None
        return Reading(
            platform=self._context.platform,
            account=self._context.account,
            us=self._us,
            commands=frozenset(command.name for command in self._context.commands) or frozenset(BY_NAME),
            reply_in_thread=self._options.reply_in_thread,
            now=self._context.clock.now(),
        )

    async def say(self, post: Post) -> str:
        return await self._connected().say(post)

    async def find(self, post: Post) -> str | None:
        return await self._connected().find(post)

    async def show(self, view: EdgeView) -> str | None:
        return await self._connected().show(view)

    async def probe(self) -> None:
        """Ping on the socket; where Slack calls us, ask Slack who we are."""
        self._connected()
        if self._socket is not None:
            await self._socket.probe()
        elif self._web is not None:
            await self._web.read("auth.test")

    def _connected(self) -> Posting:
        if self._posting is None:
            raise EdgeError(ProblemKind.NOT_CONNECTED, "not connected")
        return self._posting


def session() -> aiohttp.ClientSession:
    """Open a session for one account; whoever opens it closes it."""
    return aiohttp.ClientSession(
        connector=aiohttp.TCPConnector(limit=MOST_CONNECTIONS),
        trust_env=True,  # proxies
    )


async def identity(web: Web) -> Us:
    """Ask who we are. Raises EdgeError."""
    answer = await web.read("auth.test")
    told = {name: value for name, value in answer.items() if isinstance(value, str)}
    user_id, bot_id = told.get("user_id", ""), told.get("bot_id", "")
    if not user_id or not bot_id:
        raise EdgeError(ProblemKind.NEEDS_HUMAN, "this is no bot's token: bot_token begins with xoxb-")
    return Us(user_id=user_id, bot_id=bot_id, team_id=told.get("team_id", ""), team=told.get("team", ""))


async def post_once(options: SlackOptions, context: EdgeContext, post: Post) -> str:
    """Post without a connection. Raises EdgeError."""
    async with session() as http:
        posting = Posting(
            Web(options, http, context.clock),
            context.clock,
            Interactions(context.clock),
            unfurl=options.unfurl,
        )
        try:
            return await posting.say(post)
        finally:
            await posting.close()
