"""What people and channels are called: looked up once, kept for a while, never waited for long."""

import asyncio
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, Generic, TypeVar

import structlog

from actors.clock import Clock
from actors.gateway.edge import EdgeError
from actors.gateway.platforms.slack.envelopes import Needs
from actors.gateway.platforms.slack.web import Web
from actors.gateway.platforms.slack.wording import Chat, Names, clean_name
from messages.delivery import ProblemKind

log = structlog.get_logger(__name__)

PATIENCE_S = 1.5
"""A message waits so long for names; then ids stand in their place."""

KEPT_S = 3600.0
MISSED_S = 60.0
"""So long after a failed look-up nothing is asked again."""

MOST_KEPT = 5000
AT_ONCE = 4
LONGEST_ROOT = 2000

V = TypeVar("V")


class Looked(Generic[V]):
    """A bounded store of what one call of the platform says, by id."""

    def __init__(self, ask: Callable[[str], Awaitable[V]], clock: Clock, most: int = MOST_KEPT) -> None:
        self._ask = ask
        self._clock = clock
        self._most = most
        self._kept: OrderedDict[str, tuple[float, V | None]] = OrderedDict()
        self._asking: dict[str, asyncio.Task[None]] = {}
        self._room = asyncio.Semaphore(AT_ONCE)
        self._not_before = 0.0

    def get(self, key: str) -> V | None:
        """Return what is known, old or not."""
        kept = self._kept.get(key)
        return kept[1] if kept is not None else None

    def put(self, key: str, value: V | None, seconds: float = KEPT_S) -> None:
        self._kept[key] = (self._clock.monotonic() + seconds, value)
        self._kept.move_to_end(key)
        while len(self._kept) > self._most:
            self._kept.popitem(last=False)

    def forget(self, key: str) -> None:
        """Ask again the next time; what was known stands until then."""
        if key in self._kept:
            self._kept[key] = (0.0, self._kept[key][1])

    def want(self, key: str) -> "asyncio.Task[None] | None":
        """Begin to ask, unless it is known; what is returned ends when it is."""
        now = self._clock.monotonic()
        kept = self._kept.get(key)
        if kept is not None and kept[0] > now:
            self._kept.move_to_end(key)
            return None
        if now < self._not_before or (key not in self._asking and len(self._asking) >= self._most):
            return None
        if key not in self._asking:
            task = asyncio.get_running_loop().create_task(self._looked(key))
            self._asking[key] = task
            task.add_done_callback(lambda _: self._asking.pop(key, None))
        return self._asking[key]

    async def close(self) -> None:
        tasks = tuple(self._asking.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _looked(self, key: str) -> None:
        async with self._room:
            if self._clock.monotonic() < self._not_before:
                return
            try:
                self.put(key, await self._ask(key))
            except EdgeError as error:
                problem = error.problem
                if problem.kind is ProblemKind.RATE_LIMITED:
                    self._not_before = self._clock.monotonic() + (problem.retry_after_s or MISSED_S)
                else:
                    self.put(key, self.get(key), MISSED_S)
                log.debug("a name could not be looked up", id=key, why=problem.detail)


class People:
    """The names of one workspace."""

    def __init__(self, web: Web, clock: Clock) -> None:
        self._web = web
        self.users: Looked[str] = Looked(self._user, clock)
        self.chats: Looked[Chat] = Looked(self._chat, clock)
        self.roots: Looked[str] = Looked(self._root, clock, 1000)

    async def known(self, needs: Needs) -> Names:
        """Return names for a message, after a short wait for those that are unknown."""
        chat = needs.chat
        wanted = [self.users.want(user) for user in needs.users]
        if chat is not None and not chat.startswith("D"):
            wanted.append(self.chats.want(chat))
        if needs.root is not None:
            wanted.append(self.roots.want(":".join(needs.root)))
        waiting = [task for task in wanted if task is not None]
        if waiting:
            await asyncio.wait(waiting, timeout=PATIENCE_S)
        return self._names(needs)

    def _names(self, needs: Needs) -> Names:
        users = {user: name for user in needs.users if (name := self.users.get(user))}
        chat = self.chats.get(needs.chat) if needs.chat else None
        chats = {needs.chat: chat} if needs.chat and chat else {}
        root = self.roots.get(":".join(needs.root)) if needs.root else None
        return Names(users, chats, {needs.root: root} if needs.root and root else {})

    async def close(self) -> None:
        closing: tuple[Coroutine[Any, Any, None], ...] = (
            self.users.close(),
            self.chats.close(),
            self.roots.close(),
        )
        await asyncio.gather(*closing)

    async def _user(self, user: str) -> str:
        answer = await self._web.read("users.info", user=user)
        told = answer.get("user")
        person: dict[str, Any] = told if isinstance(told, dict) else {}
        profile = person.get("profile")
        profile = profile if isinstance(profile, dict) else {}
        called = (
            profile.get("display_name"),
            profile.get("real_name"),
            person.get("real_name"),
            person.get("name"),
        )
        return next((clean_name(name) for name in called if isinstance(name, str) and name.strip()), "")

    async def _chat(self, channel: str) -> Chat:
        answer = await self._web.read("conversations.info", channel=channel)
        told = answer.get("channel")
        chat: dict[str, Any] = told if isinstance(told, dict) else {}
        topic = chat.get("topic")
        topic = topic.get("value") if isinstance(topic, dict) else ""
        name = chat.get("name")
        return Chat(
            name=clean_name(name) if isinstance(name, str) else "",
            topic=" ".join(topic.split())[:250] if isinstance(topic, str) else "",
            kind="im" if chat.get("is_im") else "mpim" if chat.get("is_mpim") else "channel",
        )

    async def _root(self, key: str) -> str:
        chat, _, ts = key.partition(":")
        answer = await self._web.read("conversations.replies", channel=chat, ts=ts, limit=1)
        messages = answer.get("messages")
        first = messages[0] if isinstance(messages, list) and messages else None
        text = first.get("text") if isinstance(first, dict) else None
        return text[:LONGEST_ROOT] if isinstance(text, str) else ""
