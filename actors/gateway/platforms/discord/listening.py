"""From the gateway's events to what is handed in."""

import asyncio
import re
from collections import Counter, OrderedDict
from collections.abc import Callable, Coroutine, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import structlog

from actors.clock import Alarm
from actors.gateway.edge import EdgeContext, EdgeError
from actors.gateway.platforms.discord.commands import register_quietly
from actors.gateway.platforms.discord.directory import (
    FORUMS,
    Channel,
    Directory,
    as_dict,
    as_dicts,
    as_id,
    as_text,
    read_channel,
)
from actors.gateway.platforms.discord.fetch import Fetcher
from actors.gateway.platforms.discord.hearing import Hearing, Turn
from actors.gateway.platforms.discord.interactions import TIDY_S, Interactions, Open
from actors.gateway.platforms.discord.missed import Gaps, history
from actors.gateway.platforms.discord.options import DiscordOptions
from actors.gateway.platforms.discord.rest import Rest
from actors.gateway.platforms.discord.saying import MESSAGE, Memory, Sayer
from actors.gateway.platforms.discord.translate import Ourselves, Refusal, Translator
from messages.blocks import FileBlock, ImageBlock
from messages.delivery import ProblemKind
from messages.gateway import Acceptance, MessageReceived, Quote

log = structlog.get_logger(__name__)

EVENTS = (
    *("MESSAGE_CREATE", "MESSAGE_UPDATE", "MESSAGE_DELETE", "MESSAGE_DELETE_BULK", "INTERACTION_CREATE"),
    *("GUILD_CREATE", "GUILD_UPDATE", "GUILD_DELETE", "GUILD_ROLE_CREATE", "GUILD_ROLE_UPDATE"),
    *("CHANNEL_CREATE", "CHANNEL_UPDATE", "CHANNEL_DELETE"),
    *("THREAD_CREATE", "THREAD_UPDATE", "THREAD_DELETE", "THREAD_LIST_SYNC"),
)
GUILDS_S = 10.0
"""Servers that have not come so long after the start are not waited for."""
MOST_UNTOLD = 500
"""Channels whose last message nobody tells (direct messages, sleeping threads), looked at after a gap."""
HISTORIES_AT_ONCE = 8
MOST_ROOTS = 2000
ROOT_PATIENCE_S = 1.0
"""What a thread began under is worth no longer wait for a rate limit."""
STOP = re.compile(r"\s*(?:<@!?\d+>\s*)?/stop\b")
"""It works whatever hangs: not even the download of a file that was sent before it is waited for."""


class Listener:
    """Hears for one run of the edge."""

    def __init__(
        self,
        options: DiscordOptions,
        context: EdgeContext,
        rest: Rest,
        sayer: Sayer,
        hearing: Hearing,
        on_session: Callable[[], None],
    ) -> None:
        self._options, self._context, self._rest, self._sayer = options, context, rest, sayer
        self._hearing = hearing
        self._on_session = on_session
        self.places = Directory()
        self.refused: Counter[str] = Counter()
        """How many events were not handed in, by reason."""
        self._translator: Translator | None = None
        self._fetcher = Fetcher(lambda: rest.session, context.files, options.fetch_bytes, options.proxy)
        self._gaps = Gaps()
        self._expected: set[str] = set()
        """Servers that READY has named and that have not come yet."""
        self._texts = Memory()
        self._roots: OrderedDict[str, Quote | None] = OrderedDict()
        """By thread: what it began under; None where there is no such message, or we may not see it."""
        self._histories = asyncio.Semaphore(HISTORIES_AT_ONCE)
        self._tasks: set[asyncio.Task[None]] = set()
        self._alarms: set[Alarm] = set()
        self._sessions = 0

    @property
    def _interactions(self) -> Interactions:
        return self._sayer.interactions

    async def close(self) -> None:
        """End what still runs beside."""
        for alarm in self._alarms:
            alarm.cancel()
        tasks = tuple(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _aside(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._ended)

    def _ended(self, task: "asyncio.Task[None]") -> None:
        self._tasks.discard(task)
        if not task.cancelled() and task.exception() is not None:
            log.error("work beside the connection failed", error=repr(task.exception()))

    def _later(self, seconds: float, work: Callable[[], None]) -> None:
        def ring() -> None:
            self._alarms.discard(alarm)
            work()

        alarm = self._context.clock.call_later(seconds, ring)
        self._alarms.add(alarm)

    # ------------------------------------------------------------------ events

    def on_event(self, name: str, data: Mapping[str, Any]) -> None:
        """Take an event. Never raises for what is in it."""
        match name:
            case "READY":
                self._ready(data)
            case "RESUMED":
                self._on_session()
            case _ if self._translator is None:
                self._refuse("before the session")
            case "MESSAGE_CREATE":
                self._created(data)
            case "MESSAGE_UPDATE":
                self._changed(data)
            case "MESSAGE_DELETE":
                self._deleted(data, data.get("id"))
            case "MESSAGE_DELETE_BULK":
                ids = data.get("ids")
                for identity in ids[:200] if isinstance(ids, list) else ():
                    self._deleted(data, identity)
            case "INTERACTION_CREATE":
                self._asked(data)
            case _:
                self._placed(name, data)

    def _refuse(self, why: str) -> None:
        self.refused[why] += 1
        log.debug("discord's event is not handed in", why=why)

    def _ready(self, data: Mapping[str, Any]) -> None:
        user = as_dict(data.get("user"))
        identity = as_id(user.get("id"))
        if identity is None:
            self._refuse("a session without a user")
            return
        application = as_id(as_dict(data.get("application")).get("id")) or identity
        us = Ourselves(
            user=identity,
            name=as_text(user.get("global_name")) or as_text(user.get("username")),
            application=application,
            platform=self._context.platform,
            account=self._context.account,
        )
        self._translator = Translator(us, self.places, self._context.clock.now)
        self._sayer.user = identity
        self._gaps = Gaps.since(self._hearing.marks, self._context.clock.now().timestamp())
        self._expected = {g for each in as_dicts(data.get("guilds")) if (g := as_id(each.get("id")))}
        self._sessions += 1
        if self._sessions == 1 and self._options.register_commands:
            self._aside(register_quietly(self._rest, application, self._context.commands))
        self._on_session()
        if self._expected:
            session = self._sessions
            self._later(GUILDS_S, lambda: self._guilds_are_in(session))
        else:
            self._guilds_are_in(self._sessions)

    def _placed(self, name: str, data: Mapping[str, Any]) -> None:
        channels = self.places.hear(name, data)
        if name == "GUILD_CREATE":
            for channel, after in self._gaps.close(channels):
                self._hearing.enter(channel, partial(self._catch_up, channel, after))
            waited = bool(self._expected)
            self._expected.discard(as_id(data.get("id")) or "")
            if waited and not self._expected:
                self._guilds_are_in(self._sessions)

    def _guilds_are_in(self, session: int) -> None:
        """Look at the channels that no server has told of."""
        if session != self._sessions:
            return
        self._expected.clear()
        left = sorted(self._gaps.after, key=lambda channel: int(self._gaps.after[channel]), reverse=True)
        for channel in left[:MOST_UNTOLD]:
            self._fill(channel)
        self._gaps.after.clear()

    def _fill(self, channel: str) -> None:
        after = self._gaps.take(channel)
        if after is not None:
            self._hearing.enter(channel, partial(self._catch_up, channel, after))

    # ------------------------------------------------------------------ messages

    def _created(self, data: Mapping[str, Any]) -> None:
        identity, channel = as_id(data.get("id")), as_id(data.get("channel_id"))
        if identity is None or channel is None:
            self._refuse("without an id or a channel")
            return
        if as_id(as_dict(data.get("author")).get("id")) == self._sayer.user:
            self._sayer.ours.note(identity, as_text(data.get("nonce"), 25))
            if nonce := as_text(data.get("nonce"), 25):
                self._sayer.posted.note(nonce, identity)
            return
        if not self._hearing.is_new(identity):
            self._refuse("heard before")
            return
        self._fill(channel)
        if STOP.match(as_text(data.get("content"), 200)):
            self._fetcher.hurry(channel)
        self._hearing.enter(channel, partial(self._hand_in, channel, identity, data))

    async def _hand_in(self, channel: str, identity: str, data: Mapping[str, Any], turn: Turn) -> None:
        if as_id(data.get("guild_id")) is not None:
            await self._find_out(channel)
        message = await self._prepared(data)
        await turn.come()
        if message is None:
            return
        if not self._hearing.is_new(identity):
            await self._discard(message)
            return
        self._texts.note(identity, _digest(data.get("content")))
        call = self._hearing.begin(identity, channel, message)
        turn.over()
        receipt = await call
        if receipt.acceptance not in (Acceptance.ACCEPTED, Acceptance.QUEUED):
            await self._discard(message)

    async def _prepared(self, data: Mapping[str, Any]) -> MessageReceived | None:
        assert self._translator is not None
        incoming = self._translator.message(data)
        if isinstance(incoming, Refusal):
            self._refuse(incoming.why)
            return None
        message = await self._with_root(incoming.message)
        if not incoming.attached:
            return message
        blocks = await self._fetcher.fetch(str(as_id(data.get("channel_id"))), incoming.attached)
        return message.model_copy(update={"attachments": blocks})

    async def _with_root(self, message: MessageReceived) -> MessageReceived:
        """Tell what a thread began under: to whoever is asked into it, and where that is ours."""
        thread = message.origin.thread
        if thread is None or message.quote is not None or message.message_id == thread:
            return message
        if thread not in self._roots:
            await self._look_for_root(thread, message.origin.chat)
        root = self._roots.get(thread)
        if root is None or not (root.ours or message.mentions_us):
            return message
        return message.model_copy(update={"quote": root})

    async def _look_for_root(self, thread: str, parent: str | None) -> None:
        """A thread has the id of the message that it began under, which stands in its channel; a forum's, in itself."""
        assert self._translator is not None
        known = self.places.channel(parent)
        where = thread if known is not None and known.type in FORUMS else parent
        root: Quote | None = None
        if where is not None:
            try:
                told = await self._rest.call(
                    "GET", MESSAGE, channel=where, message=thread, patience_s=ROOT_PATIENCE_S
                )
                root = self._translator.quote(thread, as_dict(told))
            except EdgeError as error:
                log.debug("a thread's beginning cannot be read", thread=thread, why=error.problem.detail)
                if error.problem.kind not in (ProblemKind.TARGET_GONE, ProblemKind.REFUSED):
                    return  # the next message may tell
        self._roots[thread] = root
        if len(self._roots) > MOST_ROOTS:
            self._roots.popitem(last=False)

    async def _discard(self, message: MessageReceived) -> None:
        """Delete the files of a message that nobody keeps."""
        for block in message.attachments:
            if isinstance(block, FileBlock | ImageBlock):
                await asyncio.to_thread(Path(block.path).unlink, missing_ok=True)

    async def _find_out(self, channel: str) -> None:
        """Ask for a channel that no event has told of, such as a thread that slept."""
        if self.places.channel(channel) is not None:
            return
        try:
            told = await self._rest.call("GET", "/channels/{channel}", channel=channel, patience_s=5.0)
        except EdgeError as error:
            log.info("a channel cannot be looked up", channel=channel, why=error.problem.detail)
            if error.problem.kind in (ProblemKind.TARGET_GONE, ProblemKind.REFUSED):
                self.places.learn(Channel(channel, None, 0))  # not asked for again with every message
            return
        if (found := read_channel(as_dict(told))) is not None:
            self.places.learn(found)
            if found.is_thread and self.places.channel(found.parent) is None and found.parent is not None:
                await self._find_out(found.parent)

    async def _catch_up(self, channel: str, after: str, turn: Turn) -> None:
        """Hand in what was missed in a channel, oldest first; what comes after it waits."""
        await turn.come()
        async with self._histories:
            if self._options.history:
                await self._find_out(channel)
            known = self.places.channel(channel)
            guild = {"guild_id": known.guild} if known is not None and known.guild else {}
            missed = history(self._rest, self._context.clock, channel, after, self._options.history)
            async for data in missed:
                identity = str(as_id(data.get("id")))
                if not self._hearing.is_new(identity):
                    continue
                message = await self._prepared({**data, **guild})
                if message is None:
                    continue
                self._texts.note(identity, _digest(data.get("content")))
                receipt = await self._hearing.begin(identity, channel, message)
                if receipt.acceptance not in (Acceptance.ACCEPTED, Acceptance.QUEUED):
                    await self._discard(message)

    # ------------------------------------------------------------------ edits and deletions

    def _changed(self, data: Mapping[str, Any]) -> None:
        assert self._translator is not None
        heard = self._translator.edit(data)
        if isinstance(heard, Refusal):
            self._refuse(heard.why)
            return
        digest = _digest(data.get("content"))
        if self._texts.get(heard.message_id) == digest:
            self._refuse("its text did not change")
            return
        self._texts.note(heard.message_id, digest)
        channel = str(as_id(data.get("channel_id")))
        key = f"{heard.message_id}:{as_text(data.get('edited_timestamp'), 40)}"

        async def work(turn: Turn) -> None:
            await turn.come()
            if self._hearing.is_new(key):
                call = self._hearing.begin(key, channel, heard, moves=False)
                turn.over()
                await call

        self._hearing.enter(channel, work)

    def _deleted(self, data: Mapping[str, Any], identity: object) -> None:
        assert self._translator is not None
        heard = self._translator.deletion(data, identity)
        if isinstance(heard, Refusal):
            self._refuse(heard.why)
            return
        if heard.message_id in self._sayer.ours:
            self._refuse("our own")
            return
        channel, key = str(as_id(data.get("channel_id"))), f"{heard.message_id}:deleted"

        async def work(turn: Turn) -> None:
            await turn.come()
            if self._hearing.is_new(key):
                call = self._hearing.begin(key, channel, heard, moves=False)
                turn.over()
                await call

        self._hearing.enter(channel, work)

    # ------------------------------------------------------------------ commands and buttons

    def _asked(self, data: Mapping[str, Any]) -> None:
        assert self._translator is not None
        asked = self._translator.interaction(data)
        if isinstance(asked, Refusal):
            self._refuse(asked.why)
            return
        identity = asked.message.message_id
        if not self._hearing.is_new(identity):
            self._refuse("heard before")
            return
        if STOP.match(asked.message.text):
            self._fetcher.hurry(asked.channel)
        found = self._interactions.open(asked)
        self._aside(self._interactions.acknowledge(found))
        self._hearing.enter(asked.channel, partial(self._hand_in_asked, found))

    async def _hand_in_asked(self, found: Open, turn: Turn) -> None:
        asked = found.asked
        identity = asked.message.message_id
        await turn.come()
        if not self._hearing.is_new(identity):
            return
        call = self._hearing.begin(identity, asked.channel, asked.message, moves=False)
        turn.over()
        receipt = await call
        self._later(TIDY_S, lambda: self._tidy(identity))
        await self._interactions.settle(asked, receipt)

    def _tidy(self, identity: str) -> None:
        if self._translator is not None and self._interactions.can_answer(identity) is not None:
            self._aside(self._interactions.tidy(identity))


def _digest(content: object) -> str:
    return format(hash(content) & 0xFFFFFFFFFFFFFFFF, "x") if isinstance(content, str) else ""
